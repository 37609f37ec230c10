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


_WHOSE = {
    "all": "job", "queue": "job", "partition": "job of the partition", "user": "job of the user", "shape": "like job",
    "like": "nearly equal job of the user", "narrower": "job that asks for no more CPUs",
    "shorter": "job with no longer a limit",
}  # fmt: skip
"""Like jobs: same partition, CPUs to the next power of two, limit within a factor of four, with GPUs or without. Nearly
equal: same user, partition, CPUs and limit to ten minutes."""
_TOPIC = {"all": "lately", "partition": "lately", "user": "user", "shape": "like", "like": "like"}
_WORDS = {
    "cpus": "CPUs", "mem": "memory", "gpus": "GPUs", "1": "last", "2": "2nd last", "3": "3rd last", "n": "",
    "work": "CPU-seconds of the ",
}  # fmt: skip
_UNITS = {"cpus": "CPUs", "mem": "MB", "gpus": "GPUs"}
ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("cpus", "CPUs asked for", "CPUs", "request"),
    ("mem_mb", "memory asked for", "MB", "request"),
    ("gpus", "GPUs asked for", "GPUs", "request"),
    ("nodes", "nodes asked for", "nodes", "request"),
    ("minutes", "time limit", "min", "request"),
    ("log_cpu_seconds", "CPUs × time limit", "ln(1 + CPU s)", "request"),
    ("hour", "hour of the day of submission, UTC", "h", "clock"),
    ("weekday", "day of the week of submission, Monday = 0", "", "clock"),
    ("owns_resources", "whether the user owns a part of the system, where the log says so", "0 or 1", "priority"),
    ("priority", "priority, where the log has it", "", "priority"),
    ("fair_share", "fair share, where the log has it", "", "priority"),
    ("n_running", "jobs that run", "jobs", "in_use"),
    ("running_cpu_seconds", "CPUs × time left by the limits of the running jobs", "CPU s", "in_use"),
    ("running_mean_remaining", "mean time left by the limits of the running jobs, by CPUs", "s", "in_use"),
    ("capacity_seen", "most CPUs seen in use so far", "CPUs", "in_use"),
    ("queue_depth", "jobs that wait", "jobs", "ahead"),
    ("queued_cpus", "CPUs of the waiting jobs", "CPUs", "ahead"),
    ("queued_cpu_seconds", "CPUs × time limit of the waiting jobs", "CPU s", "ahead"),
    ("queued_gpu_seconds", "GPUs × time limit of the waiting jobs", "GPU s", "ahead"),
    ("queued_mem", "memory of the waiting jobs", "MB", "ahead"),
    ("queue_mean_age", "mean time that the waiting jobs have waited", "s", "ahead"),
    ("backlog_seconds", "CPU-seconds that wait or run, by the most CPUs seen in use", "s", "ahead"),
    ("expected_backlog", "time that the work ahead takes the partition's CPUs, if jobs run as lately", "s", "ahead"),
    ("user_limit_used", "share of their limits that the user's last 5 jobs used", "share", "habits"),
    ("limit_used", "share of their limits that the last 100 jobs used", "share", "habits"),
    ("user_log_run", "mean run time of the user's last 5 jobs", "ln(1 + s)", "habits"),
    ("log_run", "mean run time of the last 100 jobs", "ln(1 + s)", "habits"),
    ("user_running_cpus", "CPUs that the user's running jobs hold", "CPUs", "usage"),
    ("user_running_n", "running jobs of the user", "jobs", "usage"),
    ("user_drain_running", "CPU-seconds that the user waits for, by the CPUs that the user's jobs hold", "s", "ahead"),
    ("work_ahead_seconds", "CPU-seconds of waiting jobs with no longer a limit, by the most CPUs seen", "s", "ahead"),
    (r"(cpus|mem|gpus)_in_use", "{0} in use", "{unit}", "in_use"),
    (r"(cpus|mem|gpus)_in_use_share", "{0} in use, of the most seen so far", "share", "in_use"),
    (r"(cpus|mem|gpus)_free_after", "{0} left of the most seen so far once the job has started", "{unit}", "in_use"),
    (r"(\w+)_depth", "waiting {jobs}", "jobs", "ahead"),
    (r"(\w+)_queued_cpu_seconds", "CPUs × time limit of the waiting {jobs}", "CPU s", "ahead"),
    (r"(\w+)_oldest_age", "longest time that a waiting {job} has waited", "s", "ahead"),
    (r"(\w+)_log_wait_1", "wait of the last {job} to start", "ln(1 + s)", "{topic}"),
    (r"log_wait_mean_(\d+)h", "mean wait of the jobs that started in the last {0} h", "ln(1 + s)", "lately"),
    (r"(\w+)_log_wait_(\d+)", "mean wait of the last {1} {jobs} to start", "ln(1 + s)", "{topic}"),
    (r"(\w+)_wait_(\d+)", "mean wait of the last {1} {jobs} to start", "s", "{topic}"),
    (r"all_since_start", "mean time since the last 5 starts", "s", "lately"),
    (r"(\w+)_since_start", "time since the last {job} started", "s", "{topic}"),
    (r"(\w+)_before_(\d+)_so_far", "how long the {1} {job} submitted waited, or has so far", "ln(1 + s)", "before"),
    (r"(\w+)_before_(\d+)_waits", "whether the {1} {job} submitted still waits", "0 or 1", "before"),
    (r"(\w+)_before_(\d+)_ago", "time since the {1} {job} was submitted", "s", "before"),
    (r"user_submitted_(\d+)h", "jobs that the user submitted in the last {0} h", "jobs", "usage"),
    (r"(started|submitted)_(\d+)h", "jobs {0} in the last {1} h", "jobs", "flow"),
    (r"(started|submitted)_cpu_seconds_(\d+)h", "CPUs × time limit of the jobs {0} in the last {1} h", "CPU s", "flow"),
    (r"user_used_(\d+)d", "CPU-seconds of the user's jobs that ended in the last {0} d", "CPU s", "usage"),
    (r"user_share_(\d+)d", "the user's share of the CPU-seconds that ended in the last {0} d", "share", "usage"),
    (r"(\w+)_drain_(n|work)_(\d+)d", "how long the {1}waiting {jobs} last at the pace of {2} d", "s", "ahead"),
    (r"recent_shape_(\d+)", "{0} % quantile of the waits of like jobs started in the last week", "ln(1 + s)", "like"),
    (r"recent_user_(\d+)", "{0} % quantile of the user's waits of the last month", "ln(1 + s)", "user"),
    (r"recent_(\w+)_(\d+)", "{1} % quantile of the partition's waits of the last {0}", "ln(1 + s)", "lately"),
)
"""Of each feature a row: its name or a pattern of names, its meaning, unit and topic; the first that fits counts.

In them stand by their places what the pattern finds, in words, and ``job``, ``jobs``, ``unit`` and ``topic`` of it.
"""


@functools.cache
def meaning(name: str) -> Meaning:
    """Return what a feature means.

    Raises
    ------
    KeyError
        No feature has this name.
    """
    for pattern, *texts in ROWS:
        if match := re.fullmatch(pattern, name):
            found = match.groups()
            whose = found[0] if found else ""
            job = _WHOSE.get(whose, "")
            named = {"job": job, "unit": _UNITS.get(whose, ""), "topic": _TOPIC.get(whose, "")}
            named["jobs"] = job.replace("job", "jobs", 1).replace("asks", "ask").replace("a limit", "limits")
            words = [one.lstrip("0") if one.isdigit() else _WORDS.get(one, one) for one in found]
            if "_before_" in name:
                words[1] = _WORDS.get(found[1], f"{found[1]}th last")
            return Meaning(*(text.format(*words, **named) for text in texts))
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
