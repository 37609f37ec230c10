"""What each feature means, in which unit, and what it tells about."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.queue_time.features import site_features


@dataclass(frozen=True)
class Meaning:
    """A feature's meaning in words, its unit, and its topic: features of one topic are explained together."""

    meaning: str
    unit: str
    topic: str


_JOB = {
    "all": "job",
    "queue": "job",
    "partition": "job of the partition",
    "user": "job of the user",
    "shape": "like job",
    "like": "nearly equal job of the user",
    "narrower": "job that asks for no more CPUs",
    "shorter": "job with no longer a limit",
}
"""Like jobs: same partition, CPUs to the next power of two, limit within a factor of four, with GPUs or without. Nearly
equal: same user, partition, CPUs and limit to ten minutes."""
_TOPIC = {"all": "lately", "partition": "lately", "user": "user", "shape": "like", "like": "like"}
_AMOUNT = {"cpus": ("CPUs", "CPUs"), "mem": ("memory", "MB"), "gpus": ("GPUs", "GPUs")}
_WAYS = {"n": "", "work": "CPU-seconds of the "}
_PLAIN = {
    "cpus": ("CPUs asked for", "CPUs", "request"), "mem_mb": ("memory asked for", "MB", "request"),
    "gpus": ("GPUs asked for", "GPUs", "request"), "nodes": ("nodes asked for", "nodes", "request"),
    "minutes": ("time limit", "min", "request"),
    "log_cpu_seconds": ("CPUs × time limit", "ln(1 + CPU s)", "request"),
    "hour": ("hour of the day of submission, UTC", "h", "clock"),
    "weekday": ("day of the week of submission, Monday = 0", "", "clock"),
    "owns_resources": ("whether the user owns a part of the system, where the log says so", "0 or 1", "priority"),
    "priority": ("priority, where the log has it", "", "priority"),
    "fair_share": ("fair share, where the log has it", "", "priority"),
    "n_running": ("jobs that run", "jobs", "in_use"),
    "running_cpu_seconds": ("CPUs × time left by the limits of the running jobs", "CPU s", "in_use"),
    "running_mean_remaining": ("mean time left by the limits of the running jobs, weighted by CPUs", "s", "in_use"),
    "capacity_seen": ("most CPUs seen in use so far", "CPUs", "in_use"),
    "queue_depth": ("jobs that wait", "jobs", "ahead"), "queued_cpus": ("CPUs of the waiting jobs", "CPUs", "ahead"),
    "queued_cpu_seconds": ("CPUs × time limit of the waiting jobs", "CPU s", "ahead"),
    "queued_gpu_seconds": ("GPUs × time limit of the waiting jobs", "GPU s", "ahead"),
    "queued_mem": ("memory of the waiting jobs", "MB", "ahead"),
    "queue_mean_age": ("mean time that the waiting jobs have waited", "s", "ahead"),
    "backlog_seconds": ("CPU-seconds that wait or run, by the most CPUs seen in use", "s", "ahead"),
    "expected_backlog": (
        "time that the partition's CPUs need for the work ahead, if jobs run as they did recently", "s", "ahead"),
    "user_limit_used": ("share of their limits that the user's last 5 jobs used", "share", "habits"),
    "limit_used": ("share of their limits that the last 100 jobs used", "share", "habits"),
    "user_log_run": ("mean run time of the user's last 5 jobs", "ln(1 + s)", "habits"),
    "log_run": ("mean run time of the last 100 jobs", "ln(1 + s)", "habits"),
    "user_running_cpus": ("CPUs that the user's running jobs hold", "CPUs", "usage"),
    "user_running_n": ("running jobs of the user", "jobs", "usage"),
    "user_drain_running": ("CPU-seconds that the user waits for, by the CPUs that the user's jobs hold", "s", "ahead"),
    "work_ahead_seconds": ("CPU-seconds of waiting jobs with no longer a limit, by the most CPUs seen", "s", "ahead"),
}  # fmt: skip


def _jobs(whose: str) -> str:
    return _JOB[whose].replace("job", "jobs", 1).replace("asks", "ask").replace("a limit", "limits")


def _in_use(match: re.Match[str]) -> Meaning:
    amount, unit = _AMOUNT[match[1]]
    return {
        "in_use": Meaning(f"{amount} in use", unit, "in_use"),
        "in_use_share": Meaning(f"{amount} in use, of the most seen so far", "share", "in_use"),
        "free_after": Meaning(f"{amount} left of the most seen so far once the job has started", unit, "in_use"),
    }[match[2]]


def _waiting(match: re.Match[str]) -> Meaning:
    return {
        "depth": Meaning(f"waiting {_jobs(match[1])}", "jobs", "ahead"),
        "queued_cpu_seconds": Meaning(f"CPUs × time limit of the waiting {_jobs(match[1])}", "CPU s", "ahead"),
        "oldest_age": Meaning(f"longest time that a waiting {_JOB[match[1]]} has waited", "s", "ahead"),
    }[match[2]]


def _last_waits(whose: str, n: int) -> str:
    return (
        f"wait of the last {_JOB[whose]} to start" if n == 1 else f"mean wait of the last {n} {_jobs(whose)} to start"
    )


def _before(match: re.Match[str]) -> Meaning:
    which = {"1": "last", "2": "2nd last", "3": "3rd last"}.get(match[2], f"{match[2]}th last") + f" {_JOB[match[1]]}"
    return {
        "so_far": Meaning(f"how long the {which} submitted waited, or has waited so far", "ln(1 + s)", "before"),
        "waits": Meaning(f"whether the {which} submitted still waits", "0 or 1", "before"),
        "ago": Meaning(f"time since the {which} was submitted", "s", "before"),
    }[match[3]]


_RULES = (
    (r"(cpus|mem|gpus)_(in_use|in_use_share|free_after)", _in_use),
    (r"(queue|partition|user|shape|like|narrower|shorter)_(depth|queued_cpu_seconds|oldest_age)", _waiting),
    (r"(all|user|shape|like|partition)_log_wait_(\d+)", lambda m: Meaning(
        _last_waits(m[1], int(m[2])), "ln(1 + s)", _TOPIC[m[1]])),
    (r"(all|user|shape|like|partition)_wait_(\d+)", lambda m: Meaning(
        _last_waits(m[1], int(m[2])), "s", _TOPIC[m[1]])),
    (r"(all|user|shape|like|partition)_since_start", lambda m: Meaning(
        f"time since the last {_JOB[m[1]]} started" if m[1] != "all" else "mean time since the last 5 starts",
        "s", _TOPIC[m[1]])),
    (r"(all|user|shape|like)_before_(\d+)_(so_far|waits|ago)", _before),
    (r"log_wait_mean_(\d+)h", lambda m: Meaning(
        f"mean wait of the jobs that started in the last {m[1]} h", "ln(1 + s)", "lately")),
    (r"(started|submitted)_(\d+)h", lambda m: Meaning(f"jobs {m[1]} in the last {m[2]} h", "jobs", "flow")),
    (r"(started|submitted)_cpu_seconds_(\d+)h", lambda m: Meaning(
        f"CPUs × time limit of the jobs {m[1]} in the last {m[2]} h", "CPU s", "flow")),
    (r"user_submitted_(\d+)h", lambda m: Meaning(
        f"jobs that the user submitted in the last {m[1]} h", "jobs", "usage")),
    (r"user_used_(\d+)d", lambda m: Meaning(
        f"CPU-seconds of the user's jobs that ended in the last {m[1]} d", "CPU s", "usage")),
    (r"user_share_(\d+)d", lambda m: Meaning(
        f"the user's share of the CPU-seconds of the jobs that ended in the last {m[1]} d", "share", "usage")),
    (r"(queue|partition|user|shape|like)_drain_(n|work)_(\d+)d", lambda m: Meaning(
        f"how long the {_WAYS[m[2]]}waiting {_jobs(m[1])} last at the pace of the last {m[3]} d", "s", "ahead")),
    (r"recent_(day|week|month)_(\d+)", lambda m: Meaning(
        f"{int(m[2])} % quantile of the waits of the partition's jobs that started in the last {m[1]}", "ln(1 + s)",
        "lately")),
    (r"recent_shape_(\d+)", lambda m: Meaning(
        f"{int(m[1])} % quantile of the waits of like jobs that started in the last week", "ln(1 + s)", "like")),
    (r"recent_user_(\d+)", lambda m: Meaning(
        f"{int(m[1])} % quantile of the waits of the user's jobs that started in the last month", "ln(1 + s)", "user")),
)  # fmt: skip


@functools.cache
def meaning(name: str) -> Meaning:
    """Return what a feature means.

    Raises
    ------
    KeyError
        No feature has this name.
    """
    if name in _PLAIN:
        return Meaning(*_PLAIN[name])
    for pattern, make in _RULES:
        if match := re.fullmatch(pattern, name):
            return make(match)
    raise KeyError(name)


def feature_names() -> list[str]:
    """Return every feature that procure computes, in order: those of a small job table."""
    job = {
        "job_id": "1", "user": "", "partition": "", "submit_time": 0, "requested_time": 1, "run_time": 1, "n_nodes": 1,
        "cpus_per_node": 1, "mem_mb_per_node": 0, "gpus_per_node": 0, "start_time": 0, "end_time": 1, "priority": 1.0,
        "fair_share": 1.0, "owns_resources": 0.0,
    }  # fmt: skip
    return list(site_features(pd.DataFrame([job]), asked=np.array([0])).columns)


def describe_features(names: Iterable[str] | None = None) -> pd.DataFrame:
    """Return a table of features, all or those named: ``feature, meaning, unit, about``."""
    known = [(name, meaning(name)) for name in (feature_names() if names is None else names)]
    return pd.DataFrame(
        [
            {"feature": name, "meaning": one.meaning, "unit": one.unit, "about": one.topic.replace("_", " ")}
            for name, one in known
        ]
    )
