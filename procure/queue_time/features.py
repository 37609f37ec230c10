"""What is known of a job and of the system at the moment of its submission.

One pass over a job table gives one row per job. A start, an end or a completed wait counts only if it
happened strictly before the job's submission; a job in the queue counts only if its row was submitted
before. Nothing that happens later can change a feature, which `tests/test_queue_time_features.py` proves.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pandas as pd

from procure.queue_time.events import NEVER, Events, Queue
from procure.queue_time.log import Log, read_jobs
from procure.queue_time.recent import KINDS, recent_waits
from procure.queue_time.recent import columns as recent_columns

HOUR, DAY = 3600, 86400
PUBLISHED = ["cpus_in_use", "mem_in_use", "queue_depth", "cpus", "mem_mb", "minutes", "owns_resources"]
"""The published features; memory in MB, the request in minutes."""
GROUPS = ("partition", "user", "shape", "like")
"""Whose jobs are looked at apart: the job's partition and user, jobs of its size, and those much like it."""

NEEDED_SECONDS, NEEDED_LAST = 31 * DAY, 100
"""How far back features look, s; beyond that only at the last jobs of a group, and how many of them."""

BACKLOG = "expected_backlog"
"""Of the feature that an expert of its own reads and no booster: the arithmetic of the work ahead."""

_MOST_COLUMNS = 256

Starts: TypeAlias = dict[str, tuple[Events, np.ndarray | None]]
"""Sorted starts by grouping, and beside them the groups of the jobs asked about."""


def site_features(
    jobs: pd.DataFrame,
    most: dict[str, float] | None = None,
    replay: bool = False,
    asked: np.ndarray | None = None,
) -> pd.DataFrame:
    """Compute every feature of every job, or of those asked about, from what was known at its submission.

    Parameters
    ----------
    jobs
        A checked job table with ``start_time``; a job that has not started takes part in the queue.
    most
        The most ``cpus``, ``mem`` (MB) and ``gpus`` ever seen in use before the table begins, where it is the
        tail of a longer log; shares are of the most seen so far.
    replay
        Add ``replay_wait``, the answer of `replay.replay_feature`.
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
    return features_of(log, log.take(asked), most, replay).set_index(jobs.index[asked])


class _Columns(dict[str, np.ndarray]):
    """Feature columns by name, each a row of one float32 matrix: those of a million jobs take 0.7 GB, and once."""

    def __init__(self, n: int) -> None:
        self._matrix = np.empty((_MOST_COLUMNS, n), np.float32)  # what is not written to takes no memory

    def __setitem__(self, name: str, values: np.ndarray) -> None:
        row = self._matrix[len(self)]
        row[:] = values
        super().__setitem__(name, row)

    def table(self) -> pd.DataFrame:
        """Return them as a table, without a copy."""
        return pd.DataFrame(self._matrix[: len(self)].T, columns=list(self), copy=False)


def features_of(log: Log, ask: Log, most: dict[str, float] | None = None, replay: bool = False) -> pd.DataFrame:
    """Do as `site_features` with a job table that is laid out.

    ``ask`` are jobs of the log, of `Log.take`, or questions numbered with it, of `Log.near` or `Log.grouped`.
    """
    columns = _Columns(ask.n)
    _request(ask, columns)
    _in_use(log, ask, columns, most or {})
    queues = _queue(log, ask, columns)
    starts = _starts(log, ask)
    _flow(log, ask, starts["all"][0], columns)
    _recent_waits(ask, starts, columns)
    _last_submitted(log, ask, queues, columns)
    _user_habits(log, ask, columns)
    _drain(log, ask, queues, starts, columns)
    columns[BACKLOG] = _expected_backlog(log, ask, queues, columns)
    del queues
    if replay:
        # Its kernels import Numba, for which only those wait who ask for a replay.
        from procure.queue_time.replay import replay_wait

        columns["replay_wait"] = replay_wait(log, ask, columns["capacity_seen"])
    lately = recent_waits(log, ask, {label: events for label, (events, _) in starts.items()})
    del starts
    for position, kind in enumerate(KINDS):
        for name, values in zip(recent_columns(kind), lately[:, position].T, strict=True):
            columns[name] = values
    return columns.table()


def features_now(log: Log, ask: Log, most: dict[str, float], replay: bool = False) -> pd.DataFrame:
    """Compute the features of questions of `Log.asking`, a row each; what they do not need of the log is left out."""
    log, ask = log.grouped(ask) if replay else log.near(ask, NEEDED_SECONDS, NEEDED_LAST)
    return features_of(log, ask, most, replay)


def _request(ask: Log, out: dict[str, np.ndarray]) -> None:
    moment = ask.submit + ask.origin
    out["cpus"], out["mem_mb"], out["gpus"], out["nodes"] = ask.cpus, ask.mem, ask.gpus, ask.nodes
    out["minutes"] = ask.limit / 60
    out["log_cpu_seconds"] = np.log1p(ask.work)
    out["hour"] = moment // HOUR % 24
    out["weekday"] = (moment // DAY + 3) % 7
    out["owns_resources"] = ask.optional.get("owns_resources", np.zeros(ask.n))
    for name in ("priority", "fair_share"):
        if name in ask.optional:
            out[name] = ask.optional[name]


def _in_use(log: Log, ask: Log, out: dict[str, np.ndarray], seen: dict[str, float]) -> None:
    """Add what runs, and the CPUs taken for the site's capacity: the most seen so far."""
    amounts = {"cpus": log.cpus.astype(float), "mem": log.mem.astype(float), "gpus": log.gpus.astype(float)}
    starts = Events.of(log.start, amounts | {"n": np.ones(log.n)})
    ends = Events.of(np.where(log.start < NEVER, log.end, NEVER), amounts | {"n": np.ones(log.n)})
    names = [*amounts, "n"]
    in_use = dict(zip(names, _difference(starts, ends, names, log.submit), strict=True))
    now = dict(zip(names, _difference(starts, ends, names, ask.submit), strict=True))
    whole = {}
    for name in amounts:
        before = np.concatenate([[max(seen.get(name, 1), 1)], in_use[name]])
        whole[name] = np.maximum(np.maximum.accumulate(before)[ask.row], now[name])
        out[f"{name}_in_use"] = now[name]
        out[f"{name}_in_use_share"] = now[name] / whole[name]
        out[f"{name}_free_after"] = whole[name] - now[name] - getattr(ask, name)
    out["n_running"] = now["n"]
    limited = (log.start < NEVER) & (log.limit > 0)
    promised = {"cpus": amounts["cpus"], "until": amounts["cpus"] * (log.start + log.limit)}
    begun = Events.of(np.where(limited, log.start, NEVER), promised)
    done = Events.of(np.where(limited, log.due, NEVER), promised)
    holds, until = _difference(begun, done, ["cpus", "until"], ask.submit)
    out["running_cpu_seconds"] = np.maximum(until - holds * ask.submit, 0)
    out["running_mean_remaining"] = out["running_cpu_seconds"] / np.maximum(holds, 1)
    out["capacity_seen"] = whole["cpus"]


def _difference(
    begun: Events, done: Events, names: list[str], now: np.ndarray, group: np.ndarray | None = None
) -> list[np.ndarray]:
    pairs = zip(begun.total(names, now, group), done.total(names, now, group), strict=True)
    return [more - less for more, less in pairs]


def _queue(log: Log, ask: Log, out: dict[str, np.ndarray]) -> dict[str, Queue]:
    """Add what waits, in all and of the job's own kind; return the sorted queues for other features."""
    queues = {"all": Queue(log.submit, log.left, ask.submit, ask.row)}
    everyone = queues["all"]
    one = np.ones(log.n)
    depth = everyone.total(one)
    out["queue_depth"], out["queued_cpus"] = depth, everyone.total(log.cpus.astype(float))
    out["queued_cpu_seconds"] = everyone.total(log.work)
    out["queued_gpu_seconds"] = everyone.total(log.gpus * log.limit.astype(float))
    out["queued_mem"] = everyone.total(log.mem.astype(float))
    mean_submit = everyone.total(log.submit.astype(float)) / np.maximum(depth, 1)
    out["queue_mean_age"] = np.where(depth > 0, ask.submit - mean_submit, 0)
    out["queue_oldest_age"] = everyone.oldest_age()
    out["backlog_seconds"] = (out["queued_cpu_seconds"] + out["running_cpu_seconds"]) / out["capacity_seen"]
    for label in GROUPS:
        queues[label] = Queue(log.submit, log.left, ask.submit, ask.row, getattr(log, label), getattr(ask, label))
        out[f"{label}_depth"] = queues[label].total(one)
        if label != "like":
            out[f"{label}_queued_cpu_seconds"] = queues[label].total(log.work)
        out[f"{label}_oldest_age"] = queues[label].oldest_age()
    for label, of in (("narrower", _width), ("shorter", _length)):
        n_ahead, work_ahead = _at_most(everyone, of(log), log.work, of(ask))
        out[f"{label}_depth"], out[f"{label}_queued_cpu_seconds"] = n_ahead, work_ahead
    return queues


def _width(log: Log) -> np.ndarray:
    return np.clip(np.ceil(np.log2(np.maximum(log.cpus, 1))), 0, 9)


def _length(log: Log) -> np.ndarray:
    return np.clip(np.log2(np.maximum(log.limit / 60, 1)) // 1.5, 0, 9)


def _at_most(queue: Queue, level: np.ndarray, work: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the waiting jobs, and their CPU-seconds, whose level is at most each question's ``own``."""
    n_ahead, work_ahead = np.zeros(len(own)), np.zeros(len(own))
    for value in np.unique(own):
        chosen, asks = level <= value, own == value
        n_ahead[asks] = queue.total(chosen.astype(float))[asks]
        work_ahead[asks] = queue.total(np.where(chosen, work, 0.0))[asks]
    return n_ahead, work_ahead


def _starts(log: Log, ask: Log) -> Starts:
    """Sort the starts, of all jobs and by each grouping; beside them the groups of the jobs asked about."""
    wait = np.where(log.start < NEVER, log.wait, 0).astype(float)
    values = {
        "log_wait": np.log1p(wait),
        "wait": wait,
        "at": log.start.astype(float),
        "n": np.ones(log.n),
        "work": log.work,
    }
    starts: Starts = {"all": (Events.of(log.start, values), None)}
    for label in GROUPS:
        group, own = getattr(log, label), getattr(ask, label)
        n_groups = int(max(group.max(initial=0), own.max(initial=0))) + 1
        starts[label] = Events.of(log.start, values, group, n_groups), own
    return starts


def _flow(log: Log, ask: Log, starts: Events, out: dict[str, np.ndarray]) -> None:
    submissions = Events.of(log.submit, {"n": np.ones(log.n), "work": log.work})
    for hours in (1, 6, 24):
        seconds = hours * HOUR
        n_started, sum_log, started = starts.within(["n", "log_wait", "work"], ask.submit, seconds)
        n_submitted, submitted = submissions.within(["n", "work"], ask.submit, seconds)
        out[f"started_{hours}h"] = n_started
        out[f"log_wait_mean_{hours}h"] = sum_log / np.where(n_started > 0, n_started, np.nan)
        out[f"started_cpu_seconds_{hours}h"] = started
        out[f"submitted_{hours}h"], out[f"submitted_cpu_seconds_{hours}h"] = n_submitted, submitted
    n_users = int(max(log.user.max(initial=0), ask.user.max(initial=0))) + 1
    own = Events.of(log.submit, {"n": np.ones(log.n)}, log.user, n_users)
    for hours in (1, 24):
        [out[f"user_submitted_{hours}h"]] = own.within(["n"], ask.submit, hours * HOUR, ask.user)


def _recent_waits(ask: Log, starts: Starts, out: dict[str, np.ndarray]) -> None:
    lengths = {
        "all": (5, 20, 100),
        "user": (1, 5, 20),
        "shape": (1, 5, 20),
        "like": (1, 5),
        "partition": (1, 5, 20),
    }
    for label, counts in lengths.items():
        events, own = starts[label]
        for n_last in counts:
            mean_log, mean, at = events.mean_of_last(["log_wait", "wait", "at"], ask.submit, n_last, own)
            out[f"{label}_log_wait_{n_last}"] = mean_log
            if n_last > 1:
                out[f"{label}_wait_{n_last}"] = mean
            if n_last == counts[0]:
                out[f"{label}_since_start"] = ask.submit - at


def _last_submitted(log: Log, ask: Log, queues: dict[str, Queue], out: dict[str, np.ndarray]) -> None:
    """Add how long the jobs submitted just before have waited so far, and whether they still wait."""
    now = ask.submit
    for label, every in (("all", (1, 5)), ("user", (1, 2, 4)), ("like", (1, 3)), ("shape", (1, 3))):
        for step in every:
            row = queues[label].earlier(step)
            known = row >= 0
            so_far = np.maximum(np.minimum(log.left[row], now) - log.submit[row], 0)
            out[f"{label}_before_{step}_so_far"] = np.where(known, np.log1p(so_far), np.nan)
            out[f"{label}_before_{step}_waits"] = np.where(known, log.left[row] >= now, np.nan)
            out[f"{label}_before_{step}_ago"] = np.where(known, now - log.submit[row], np.nan)


def _user_habits(log: Log, ask: Log, out: dict[str, np.ndarray]) -> None:
    """Add the shares of their limits that a user's jobs have used, and the user's recent consumption."""
    n_users = int(max(log.user.max(initial=0), ask.user.max(initial=0))) + 1
    ran = log.start < NEVER
    run = np.where(ran & (log.end < NEVER), log.end - log.start, 0).astype(float)
    share = np.where(log.limit > 0, np.minimum(run / np.maximum(log.limit, 1), 2), 1.0)
    values = {"share": share, "run": np.log1p(run), "used": run * log.cpus}
    end = np.where(ran, log.end, NEVER)
    own = Events.of(end, values, log.user, n_users)
    everyone = Events.of(end, values)
    out["user_limit_used"], out["user_log_run"] = own.mean_of_last(["share", "run"], ask.submit, 5, ask.user)
    out["limit_used"], out["log_run"] = everyone.mean_of_last(["share", "run"], ask.submit, 100)
    for days in (1, 7):
        [mine] = own.within(["used"], ask.submit, days * DAY, ask.user)
        [whole] = everyone.within(["used"], ask.submit, days * DAY)
        out[f"user_used_{days}d"] = mine
        out[f"user_share_{days}d"] = mine / np.maximum(whole, 1)
    amounts = {"cpus": log.cpus.astype(float), "n": np.ones(log.n)}
    begun = Events.of(log.start, amounts, log.user, n_users)
    done = Events.of(end, amounts, log.user, n_users)
    running = _difference(begun, done, ["cpus", "n"], ask.submit, ask.user)
    out["user_running_cpus"], out["user_running_n"] = running


def _drain(log: Log, ask: Log, queues: dict[str, Queue], starts: Starts, out: dict[str, np.ndarray]) -> None:
    """Add the seconds that the work ahead takes at the recent rate at which such work has started."""
    amounts = {"n": np.ones(log.n), "work": log.work}
    mine = {"n": np.ones(ask.n), "work": ask.work}
    for label, queue in queues.items():
        events, own = starts[label]
        now = events.before(ask.submit, own)
        ahead = {name: queue.total(values) for name, values in amounts.items()}
        for days in (1, 7) if label in ("all", "user") else (7,):
            since = events.before(ask.submit - days * DAY, own)
            for name in amounts:
                pace = events.sums[name][now] - events.sums[name][since] + 0.5 * mine[name]
                column = f"{'queue' if label == 'all' else label}_drain_{name}_{days}d"
                out[column] = ahead[name] * (days * DAY) / np.maximum(pace, 0.5)
    out["user_drain_running"] = out["user_queued_cpu_seconds"] / np.maximum(out["user_running_cpus"], 1)
    out["work_ahead_seconds"] = out["shorter_queued_cpu_seconds"] / out["capacity_seen"]


def _expected_backlog(log: Log, ask: Log, queues: dict[str, Queue], known: dict[str, np.ndarray]) -> np.ndarray:
    """Return the seconds that the most CPUs which the partition has used within a day need for the work ahead.

    The user's own waiting jobs use the share of their limits that the user's last jobs used, all others what the last
    jobs to end used; a job without a limit runs as long as they did. Where nobody waits and the job fits it is 0.
    """
    n_partitions = int(max(log.partition.max(initial=0), ask.partition.max(initial=0))) + 1
    cpus, limit = log.cpus.astype(float), log.limit.astype(float)
    usual = np.nan_to_num(known["limit_used"], nan=1.0)
    mine = np.where(np.isnan(known["user_limit_used"]), usual, known["user_limit_used"])
    ahead = known["partition_queued_cpu_seconds"]
    own = np.minimum(known["user_queued_cpu_seconds"], ahead)
    endless = queues["partition"].total(np.where(limit > 0, 0.0, cpus)) * np.expm1(np.nan_to_num(known["log_run"]))
    ran = log.start < NEVER
    amounts = {"cpus": cpus, "until": cpus * (log.start + limit)}
    begun = Events.of(log.start, amounts, log.partition, n_partitions)
    over = Events.of(np.where(ran, log.due, NEVER), amounts, log.partition, n_partitions)
    holds, until = _difference(begun, over, ["cpus", "until"], ask.submit, ask.partition)
    running = np.maximum(until - holds * ask.submit, 0)
    used = Events.of(log.start, {"cpus": cpus}, log.partition, n_partitions)
    freed = Events.of(np.where(ran, log.end, NEVER), {"cpus": cpus}, log.partition, n_partitions)
    most = ask.cpus.astype(float)
    for hours in (0, 1, 6, 24):
        [held] = _difference(used, freed, ["cpus"], ask.submit - hours * HOUR, ask.partition)
        most = np.maximum(most, held)
    work = (ahead - own) * np.clip(usual, 0, 1) + own * np.clip(mine, 0, 1) + endless
    work += running * np.clip(usual, 0, 1)
    idle = (known["partition_depth"] == 0) & (known["cpus_free_after"] >= 0)
    return np.where(idle, 0.0, work / np.maximum(most, 1))
