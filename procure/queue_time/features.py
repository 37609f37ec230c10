"""What is known of a job and of the system at the moment of its submission: a row of `FEATURES` each.

One pass over a job table gives one row per job. A start, an end or a completed wait counts only if it
happened strictly before the job's submission; a job in the queue counts only if its row was submitted
before. Nothing that happens later can change a feature, which `tests/test_queue_time_features.py` proves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from procure.queue_time import recent
from procure.queue_time.log import Log, read_jobs
from procure.queue_time.view import DAY, HOUR, LEVEL, View

PUBLISHED = ["cpus_in_use", "mem_in_use", "queue_depth", "cpus", "mem_mb", "minutes", "owns_resources"]
"""The published features; memory in MB, the request in minutes."""
GROUPS = ("partition", "user", "shape", "like")
"""Whose jobs are looked at apart: the job's partition and user, jobs of its size, and those much like it."""
NEEDED_SECONDS = 31 * DAY
"""How far back features look, s; beyond that only at the last jobs of a group."""
BACKLOG = "expected_backlog"
"""Of the feature that an expert of its own reads and no booster: the arithmetic of the work ahead."""


@dataclass(frozen=True)
class Feature:
    """A feature: its name, what it means, its unit and topic, and how it is computed.

    Features of one topic are explained together, see `explain.TEMPLATES`. ``compute`` gets a `View` and ``args``, and
    returns (n,) values, or None where the log knows nothing of it; it may read the features above it.
    """

    name: str
    meaning: str
    unit: str
    topic: str
    compute: Callable[..., Any]
    args: tuple[Any, ...] = ()


WHOSE = {
    "all": ("job", "jobs", "lately"),
    "partition": ("job of the partition", "jobs of the partition", "lately"),
    "user": ("job of the user", "jobs of the user", "user"),
    "shape": ("like job", "like jobs", "like"),
    "like": ("nearly equal job of the user", "nearly equal jobs of the user", "like"),
    "narrower": ("job that asks for no more CPUs", "jobs that ask for no more CPUs", ""),
    "shorter": ("job with no longer a limit", "jobs with no longer limits", ""),
}
"""Of each group its job and jobs in words, and the topic of their waits.

Like jobs: same partition, CPUs to the next power of two, limit within a factor of four, with GPUs or without. Nearly
equal: same user, partition, CPUs and limit to ten minutes."""
_ORDINAL = {1: "last", 2: "2nd last", 3: "3rd last", 4: "4th last", 5: "5th last"}
_RESOURCES = {"cpus": ("CPUs", "CPUs"), "mem": ("memory", "MB"), "gpus": ("GPUs", "GPUs")}
CPU_S, LN = "CPU s", "ln(1 + s)"
_REQUEST = [
    Feature("cpus", "CPUs asked for", "CPUs", "request", lambda v: v.ask.cpus),
    Feature("mem_mb", "memory asked for", "MB", "request", lambda v: v.ask.mem),
    Feature("gpus", "GPUs asked for", "GPUs", "request", lambda v: v.ask.gpus),
    Feature("nodes", "nodes asked for", "nodes", "request", lambda v: v.ask.nodes),
    Feature("minutes", "time limit", "min", "request", lambda v: v.ask.limit / 60),
    Feature("log_cpu_seconds", "CPUs × time limit", "ln(1 + CPU s)", "request", lambda v: np.log1p(v.ask.work)),
    Feature(
        "hour", "hour of the day of submission, UTC", "h", "clock",
        lambda v: (v.now + v.ask.origin) // HOUR % 24,
    ),
    Feature(
        "weekday", "day of the week of submission, Monday = 0", "", "clock",
        lambda v: ((v.now + v.ask.origin) // DAY + 3) % 7,
    ),
    Feature(
        "owns_resources", "whether the user owns a part of the system, where the log says so", "0 or 1", "priority",
        lambda v: v.ask.optional.get("owns_resources", 0.0),
    ),
    Feature("priority", "priority, where the log has it", "", "priority", View.told, ("priority",)),
    Feature("fair_share", "fair share, where the log has it", "", "priority", View.told, ("fair_share",)),
]  # fmt: skip
_RUNNING = [
    Feature("n_running", "jobs that run", "jobs", "in_use", View.running, ("n",)),
    Feature(
        "running_cpu_seconds", "CPUs × time left by the limits of the running jobs", CPU_S, "in_use",
        lambda v: np.maximum(v.promised("until") - v.promised("cpus") * v.now, 0),
    ),
    Feature(
        "running_mean_remaining", "mean time left by the limits of the running jobs, by CPUs", "s", "in_use",
        lambda v: v["running_cpu_seconds"] / np.maximum(v.promised("cpus"), 1),
    ),
    Feature("capacity_seen", "most CPUs seen in use so far", "CPUs", "in_use", View.whole, ("cpus",)),
]  # fmt: skip
_WAITING = [
    Feature("queue_depth", "jobs that wait", "jobs", "ahead", View.waiting, ("all", "n")),
    Feature("queued_cpus", "CPUs of the waiting jobs", "CPUs", "ahead", View.waiting, ("all", "cpus")),
    Feature(
        "queued_cpu_seconds", "CPUs × time limit of the waiting jobs", CPU_S, "ahead", View.waiting, ("all", "work")
    ),
    Feature(
        "queued_gpu_seconds", "GPUs × time limit of the waiting jobs", "GPU s", "ahead", View.waiting,
        ("all", "gpu_seconds"),
    ),
    Feature("queued_mem", "memory of the waiting jobs", "MB", "ahead", View.waiting, ("all", "mem")),
    Feature("queue_mean_age", "mean time that the waiting jobs have waited", "s", "ahead", View.mean_age),
    Feature("queue_oldest_age", "longest time that a waiting job has waited", "s", "ahead", View.oldest, ("all",)),
    Feature(
        "backlog_seconds", "CPU-seconds that wait or run, by the most CPUs seen in use", "s", "ahead",
        lambda v: (v["queued_cpu_seconds"] + v["running_cpu_seconds"]) / v["capacity_seen"],
    ),
]  # fmt: skip
_USER = [
    Feature(
        "user_running_cpus", "CPUs that the user's running jobs hold", "CPUs", "usage", View.running, ("cpus", "user")
    ),
    Feature("user_running_n", "running jobs of the user", "jobs", "usage", View.running, ("n", "user")),
]
_WORK_AHEAD = [
    Feature(
        "user_drain_running", "CPU-seconds that the user waits for, by the CPUs that the user's jobs hold", "s",
        "ahead", lambda v: v["user_queued_cpu_seconds"] / np.maximum(v["user_running_cpus"], 1),
    ),
    Feature(
        "work_ahead_seconds", "CPU-seconds of waiting jobs with no longer a limit, by the most CPUs seen", "s",
        "ahead", lambda v: v["shorter_queued_cpu_seconds"] / v["capacity_seen"],
    ),
    Feature(
        BACKLOG, "time that the work ahead takes the partition's CPUs, if jobs run as lately", "s", "ahead",
        View.expected_backlog,
    ),
]  # fmt: skip


def _in_use() -> Iterator[Feature]:
    for name, (words, unit) in _RESOURCES.items():
        yield Feature(f"{name}_in_use", f"{words} in use", unit, "in_use", View.running, (name,))
        text = f"{words} in use, of the most seen so far"
        yield Feature(f"{name}_in_use_share", text, "share", "in_use", View.share_in_use, (name,))
        text = f"{words} left of the most seen so far once the job has started"
        yield Feature(f"{name}_free_after", text, unit, "in_use", View.free_after, (name,))


def _queues() -> Iterator[Feature]:
    for label in (*GROUPS, *LEVEL):
        job, jobs, _ = WHOSE[label]
        yield Feature(f"{label}_depth", f"waiting {jobs}", "jobs", "ahead", View.waiting, (label, "n"))
        if label != "like":
            text = f"CPUs × time limit of the waiting {jobs}"
            yield Feature(f"{label}_queued_cpu_seconds", text, CPU_S, "ahead", View.waiting, (label, "work"))
        if label in GROUPS:
            text = f"longest time that a waiting {job} has waited"
            yield Feature(f"{label}_oldest_age", text, "s", "ahead", View.oldest, (label,))


def _flow() -> Iterator[Feature]:
    for hours in (1, 6, 24):
        last, s = f"in the last {hours} h", hours * HOUR
        yield Feature(f"started_{hours}h", f"jobs started {last}", "jobs", "flow", View.started, ("n", s))
        text = f"mean wait of the jobs that started {last}"
        yield Feature(f"log_wait_mean_{hours}h", text, LN, "lately", View.typical_wait, (s,))
        text = f"CPUs × time limit of the jobs started {last}"
        yield Feature(f"started_cpu_seconds_{hours}h", text, CPU_S, "flow", View.started, ("work", s))
        of = ("submit", "all")
        yield Feature(f"submitted_{hours}h", f"jobs submitted {last}", "jobs", "flow", View.within, (*of, "n", s))
        text = f"CPUs × time limit of the jobs submitted {last}"
        yield Feature(f"submitted_cpu_seconds_{hours}h", text, CPU_S, "flow", View.within, (*of, "work", s))
    for hours in (1, 24):
        text, own = f"jobs that the user submitted in the last {hours} h", ("submit", "user", "n", hours * HOUR)
        yield Feature(f"user_submitted_{hours}h", text, "jobs", "usage", View.within, own)


def _recent_waits() -> Iterator[Feature]:
    counts_of = {"all": (5, 20, 100), "user": (1, 5, 20), "shape": (1, 5, 20), "like": (1, 5), "partition": (1, 5, 20)}
    for label, counts in counts_of.items():
        job, jobs, topic = WHOSE[label]
        for n in counts:
            text = f"wait of the last {job} to start" if n == 1 else f"mean wait of the last {n} {jobs} to start"
            yield Feature(f"{label}_log_wait_{n}", text, LN, topic, View.mean, ("starts", label, "log_wait", n))
            if n > 1:
                yield Feature(f"{label}_wait_{n}", text, "s", topic, View.mean, ("starts", label, "wait", n))
            if n == counts[0]:
                text = "mean time since the last 5 starts" if label == "all" else f"time since the last {job} started"
                yield Feature(f"{label}_since_start", text, "s", topic, View.since_start, (label, n))


def _jobs_before() -> Iterator[Feature]:
    for label, steps in (("all", (1, 5)), ("user", (1, 2, 4)), ("like", (1, 3)), ("shape", (1, 3))):
        for step in steps:
            job = f"the {_ORDINAL[step]} {WHOSE[label][0]}"
            for what, text, unit in (
                ("so_far", f"how long {job} submitted waited, or has so far", LN),
                ("waits", f"whether {job} submitted still waits", "0 or 1"),
                ("ago", f"time since {job} was submitted", "s"),
            ):
                args = (label, step, what)
                yield Feature(f"{label}_before_{step}_{what}", text, unit, "before", View.job_before, args)


def _habits() -> Iterator[Feature]:
    for prefix, label, n, who in (
        ("user_", "user", 5, "the user's last 5 jobs"),
        ("", "all", 100, "the last 100 jobs"),
    ):
        text, args = f"share of their limits that {who} used", ("ends", label, "share", n)
        yield Feature(f"{prefix}limit_used", text, "share", "habits", View.mean, args)
        text, args = f"mean run time of {who}", ("ends", label, "run", n)
        yield Feature(f"{prefix}log_run", text, LN, "habits", View.mean, args)
    for days in (1, 7):
        text, used = f"CPU-seconds of the user's jobs that ended in the last {days} d", ("ends", "user", "used")
        yield Feature(f"user_used_{days}d", text, CPU_S, "usage", View.within, (*used, days * DAY))
        text = f"the user's share of the CPU-seconds that ended in the last {days} d"
        yield Feature(f"user_share_{days}d", text, "share", "usage", View.share_used, (days * DAY,))


def _drains() -> Iterator[Feature]:
    for label in ("all", *GROUPS):
        for days in (1, 7) if label in ("all", "user") else (7,):
            for amount, what in (("n", ""), ("work", "CPU-seconds of the ")):
                text = f"how long the {what}waiting {WHOSE[label][1]} last at the pace of {days} d"
                name = f"{'queue' if label == 'all' else label}_drain_{amount}_{days}d"
                yield Feature(name, text, "s", "ahead", View.drain, (label, amount, days))


def _recent_quantiles() -> Iterator[Feature]:
    known = {"shape": ("waits of like jobs started in the last week", "like")}
    known["user"] = "user's waits of the last month", "user"
    for kind in recent.KINDS:
        text, topic = known.get(kind, (f"partition's waits of the last {kind}", "lately"))
        for place, name in enumerate(recent.columns(kind)):
            what = f"{round(100 * recent.LEVELS[place])} % quantile of the {text}"
            yield Feature(name, what, LN, topic, View.recent, (kind, place))


FEATURES: list[Feature] = [
    *_REQUEST, *_in_use(), *_RUNNING, *_WAITING, *_queues(), *_flow(), *_recent_waits(), *_jobs_before(), *_habits(),
    *_USER, *_drains(), *_WORK_AHEAD, *_recent_quantiles(),
]  # fmt: skip
"""Every feature, in the order of a table's columns: a row more is in the model, in its explanation and in the docs."""


def site_features(
    jobs: pd.DataFrame, most: dict[str, float] | None = None, asked: np.ndarray | None = None
) -> pd.DataFrame:
    """Compute every feature of every job, or of those asked about, from what was known at its submission.

    Parameters
    ----------
    jobs
        A checked job table with ``start_time``; a job that has not started takes part in the queue.
    most
        The most ``cpus``, ``mem`` (MB) and ``gpus`` ever seen in use before the table begins, where it is the
        tail of a longer log; shares are of the most seen so far.
    asked
        Positions in the table of the jobs whose features are wanted; None is all of them.

    Returns
    -------
    pandas.DataFrame
        One row per job asked about, in the order asked, float32, NaN where there is nothing to know yet.
        Amounts in CPUs, MB, GPUs, seconds; ``log_`` stands for the natural logarithm of 1 + seconds.
    """
    asked = np.arange(len(jobs)) if asked is None else asked
    log = read_jobs(jobs)
    return features_of(log, log.take(asked), most).set_index(jobs.index[asked])


def features_of(log: Log, ask: Log, most: dict[str, float] | None = None) -> pd.DataFrame:
    """Do as `site_features` with a job table that is laid out, for its jobs or for questions; see `View`."""
    view, matrix = View(log, ask, most), np.empty((len(FEATURES), ask.n), np.float32)
    for feature in FEATURES:
        values = feature.compute(view, *feature.args)
        if values is not None:
            row = matrix[len(view.known)]
            row[:] = values
            view.known[feature.name] = row
    return pd.DataFrame(matrix[: len(view.known)].T, columns=list(view.known), copy=False)


def picked(features: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """Return columns of a table (n, k) by name."""
    return features[list(names)].to_numpy()


def describe_features(names: Iterable[str] | None = None) -> pd.DataFrame:
    """Return a table of features, all or those named: ``feature, meaning, unit, about``."""
    known = {one.name: one for one in FEATURES}
    rows = FEATURES if names is None else [known[name] for name in names]
    return pd.DataFrame(
        [{"feature": o.name, "meaning": o.meaning, "unit": o.unit, "about": o.topic.replace("_", " ")} for o in rows]
    )
