"""What is known of a job and of the system at the moment of its submission: a row of `FEATURES` each.

One pass over a job table gives one row per job. A start, an end or a completed wait counts only if it
happened strictly before the job's submission; a job in the queue counts only if its row was submitted
before. Nothing that happens later can change a feature, which `tests/test_queue_time_features.py` proves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from procure.queue_time.log import Log, read_jobs
from procure.queue_time.view import DAY, HOUR, LEVEL, RECENT_KINDS, View, recent_columns

PUBLISHED = ["cpus_in_use", "mem_in_use", "queue_depth", "cpus", "mem_mb", "minutes", "owns_resources"]
"""The published features; memory in MB, the request in minutes."""
GROUPS = ("partition", "user", "shape", "like")
"""Whose jobs are looked at apart.

``shape``: of the same partition, CPUs to the next power of two, limit within a factor of four, with GPUs or without.
``like``: of the same user, partition, CPUs and limit to ten minutes.
"""
NEEDED_SECONDS = 31 * DAY
"""How far back features look, s; beyond that only at the last jobs of a group."""
BACKLOG = "expected_backlog"
"""Of the feature that an expert of its own reads and no booster: the arithmetic of the work ahead."""


@dataclass(frozen=True)
class Feature:
    """A feature: its name, and how it is computed.

    ``compute`` gets a `View` and ``args``, and returns (n,) values, or None where the log knows nothing of it; it may
    read the features above it.
    """

    name: str
    compute: Callable[..., Any]
    args: tuple[Any, ...] = ()


_REQUEST = [
    Feature("cpus", lambda v: v.ask.cpus),
    Feature("mem_mb", lambda v: v.ask.mem),
    Feature("gpus", lambda v: v.ask.gpus),
    Feature("nodes", lambda v: v.ask.nodes),
    Feature("minutes", lambda v: v.ask.limit / 60),
    Feature("log_cpu_seconds", lambda v: np.log1p(v.ask.work)),
    Feature("hour", lambda v: (v.now + v.ask.origin) // HOUR % 24),
    Feature("weekday", lambda v: ((v.now + v.ask.origin) // DAY + 3) % 7),
    Feature("owns_resources", lambda v: v.ask.optional.get("owns_resources", 0.0)),
    Feature("priority", lambda v: v.ask.optional.get("priority")),
    Feature("fair_share", lambda v: v.ask.optional.get("fair_share")),
]
_RUNNING = [
    Feature("n_running", View.running, ("n",)),
    Feature("running_cpu_seconds", lambda v: np.maximum(v.promised("until") - v.promised("cpus") * v.now, 0)),
    Feature("running_mean_remaining", lambda v: v["running_cpu_seconds"] / np.maximum(v.promised("cpus"), 1)),
    Feature("capacity_seen", View.whole, ("cpus",)),
]
_WAITING = [
    Feature("queue_depth", View.waiting, ("all", "n")),
    Feature("queued_cpus", View.waiting, ("all", "cpus")),
    Feature("queued_cpu_seconds", View.waiting, ("all", "work")),
    Feature("queued_gpu_seconds", View.waiting, ("all", "gpu_seconds")),
    Feature("queued_mem", View.waiting, ("all", "mem")),
    Feature("queue_mean_age", View.mean_age),
    Feature("queue_oldest_age", lambda v: v.queue("all").oldest_age()),
    Feature("backlog_seconds", lambda v: (v["queued_cpu_seconds"] + v["running_cpu_seconds"]) / v["capacity_seen"]),
]
_USER = [
    Feature("user_running_cpus", View.running, ("cpus", "user")),
    Feature("user_running_n", View.running, ("n", "user")),
]
_WORK_AHEAD = [
    Feature("user_drain_running", lambda v: v["user_queued_cpu_seconds"] / np.maximum(v["user_running_cpus"], 1)),
    Feature("work_ahead_seconds", lambda v: v["shorter_queued_cpu_seconds"] / v["capacity_seen"]),
    Feature(BACKLOG, View.expected_backlog),
]


def _free_after(v: View, name: str) -> np.ndarray:
    return np.asarray(v.whole(name) - v.running(name) - getattr(v.ask, name))


def _since_start(v: View, label: str, n_last: int) -> np.ndarray:
    return v.now - v.mean("starts", label, "at", n_last)


def _in_use() -> Iterator[Feature]:
    for name in ("cpus", "mem", "gpus"):
        yield Feature(f"{name}_in_use", View.running, (name,))
        yield Feature(f"{name}_in_use_share", lambda v, name: v.running(name) / v.whole(name), (name,))
        yield Feature(f"{name}_free_after", _free_after, (name,))


def _queues() -> Iterator[Feature]:
    for label in (*GROUPS, *LEVEL):
        yield Feature(f"{label}_depth", View.waiting, (label, "n"))
        if label != "like":
            yield Feature(f"{label}_queued_cpu_seconds", View.waiting, (label, "work"))
        if label in GROUPS:
            yield Feature(f"{label}_oldest_age", lambda v, label: v.queue(label).oldest_age(), (label,))


def _flow() -> Iterator[Feature]:
    for hours in (1, 6, 24):
        s, of = hours * HOUR, ("submit", "all")
        yield Feature(f"started_{hours}h", View.within, ("starts", "all", "n", s))
        yield Feature(f"log_wait_mean_{hours}h", View.typical_wait, (s,))
        yield Feature(f"started_cpu_seconds_{hours}h", View.within, ("starts", "all", "work", s))
        yield Feature(f"submitted_{hours}h", View.within, (*of, "n", s))
        yield Feature(f"submitted_cpu_seconds_{hours}h", View.within, (*of, "work", s))
    for hours in (1, 24):
        yield Feature(f"user_submitted_{hours}h", View.within, ("submit", "user", "n", hours * HOUR))


def _recent_waits() -> Iterator[Feature]:
    counts_of = {"all": (5, 20, 100), "user": (1, 5, 20), "shape": (1, 5, 20), "like": (1, 5), "partition": (1, 5, 20)}
    for label, counts in counts_of.items():
        for n in counts:
            yield Feature(f"{label}_log_wait_{n}", View.mean, ("starts", label, "log_wait", n))
            if n > 1:
                yield Feature(f"{label}_wait_{n}", View.mean, ("starts", label, "wait", n))
            if n == counts[0]:
                yield Feature(f"{label}_since_start", _since_start, (label, n))


def _jobs_before() -> Iterator[Feature]:
    for label, steps in (("all", (1, 5)), ("user", (1, 2, 4)), ("like", (1, 3)), ("shape", (1, 3))):
        for step in steps:
            for what in ("so_far", "waits", "ago"):
                yield Feature(f"{label}_before_{step}_{what}", View.job_before, (label, step, what))


def _habits() -> Iterator[Feature]:
    for prefix, label, n in (("user_", "user", 5), ("", "all", 100)):
        yield Feature(f"{prefix}limit_used", View.mean, ("ends", label, "share", n))
        yield Feature(f"{prefix}log_run", View.mean, ("ends", label, "run", n))
    for days in (1, 7):
        yield Feature(f"user_used_{days}d", View.within, ("ends", "user", "used", days * DAY))
        yield Feature(f"user_share_{days}d", View.share_used, (days * DAY,))


def _drains() -> Iterator[Feature]:
    for label in ("all", *GROUPS):
        for days in (1, 7) if label in ("all", "user") else (7,):
            for amount in ("n", "work"):
                name = f"{'queue' if label == 'all' else label}_drain_{amount}_{days}d"
                yield Feature(name, View.drain, (label, amount, days))


def _recent_quantiles() -> Iterator[Feature]:
    for kind in RECENT_KINDS:
        for place, name in enumerate(recent_columns(kind)):
            yield Feature(name, lambda v, kind, place: v.quantiles(kind)[:, place], (kind, place))


FEATURES: list[Feature] = [
    *_REQUEST, *_in_use(), *_RUNNING, *_WAITING, *_queues(), *_flow(), *_recent_waits(), *_jobs_before(), *_habits(),
    *_USER, *_drains(), *_WORK_AHEAD, *_recent_quantiles(),
]  # fmt: skip
"""Every feature, in the order of a table's columns: a row more is in the model.

Names say what is counted: first whose jobs, of `GROUPS` or `LEVEL` (``narrower``: that ask for no more CPUs,
``shorter``: for no longer a limit); ``log_`` is the natural logarithm of 1 + seconds; a last number of how many jobs or
within what time. ``before_2_so_far`` is how long the job before the last one has waited so far, ``drain_work_7d`` how
long what waits lasts at the pace of 7 d.
"""


def site_features(
    jobs: pd.DataFrame, most: dict[str, float] | None = None, asked: np.ndarray | None = None
) -> pd.DataFrame:
    """Compute every feature of every job, or of those asked about, from what was known at its submission.

    A row per job asked about by its position in the table, float32, NaN where there is nothing to know yet; amounts in
    CPUs, MB, GPUs, seconds. A job that has not started takes part in the queue. ``most`` are the ``cpus``, ``mem`` (MB)
    and ``gpus`` ever seen in use before the table begins, where it is the tail of a longer log.
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
    """Return columns of a table (n, k) by name; of one that `features_of` made without pandas' detours."""
    place = {name: at for at, name in enumerate(features.columns.tolist())}
    return features.to_numpy()[:, [place[name] for name in names]]
