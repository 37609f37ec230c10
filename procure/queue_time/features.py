"""What is known of a job and of the system at the moment of its submission.

One pass over a job table gives one row per job. A start, an end or a completed wait counts only if it
happened strictly before the job's submission; a job in the queue counts only if its row was submitted
before. Nothing that happens later can change a feature, which `tests/test_queue_time_features.py` proves.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.queue_time.events import NEVER, Events, Queue, earlier_row, oldest_waiting
from procure.queue_time.log import Log, read_jobs

HOUR, DAY = 3600, 86400
PUBLISHED = ["cpus_in_use", "mem_in_use", "queue_depth", "cpus", "mem_mb", "minutes", "owns_resources"]
"""The published features; memory in MB, the request in minutes."""


def site_features(
    jobs: pd.DataFrame, most: dict[str, float] | None = None, replay: bool = False
) -> pd.DataFrame:
    """Compute every feature of every job, from what was known at its submission.

    Parameters
    ----------
    jobs
        A checked job table with ``start_time``; a job that has not started takes part in the queue.
    most
        The most ``cpus``, ``mem`` (MB) and ``gpus`` ever seen in use before the table begins, where it is the
        tail of a longer log; shares are of the most seen so far.
    replay
        Add ``replay_wait``, the answer of `replay.replay_feature`.

    Returns
    -------
    pandas.DataFrame
        One row per job in the table's order, float32, NaN where there is nothing to know yet. Amounts in
        CPUs, MB, GPUs, seconds; ``log_`` stands for the natural logarithm of 1 + seconds.
    """
    log = read_jobs(jobs)
    columns: dict[str, np.ndarray] = {}
    _request(log, columns)
    _in_use(log, columns, most or {})
    queues = _queue(log, columns)
    _flow(log, columns)
    _recent_waits(log, columns)
    _last_submitted(log, columns)
    _user_habits(log, columns)
    _drain(log, queues, columns)
    if replay:
        from procure.queue_time.replay import replay_feature

        columns["replay_wait"] = replay_feature(log, columns["capacity_seen"])
    found = np.empty((log.n, len(columns)), np.float32, order="F")
    for position, values in enumerate(columns.values()):
        found[log.order, position] = values
    return pd.DataFrame(found, columns=list(columns), index=jobs.index, copy=False)


def _request(log: Log, out: dict[str, np.ndarray]) -> None:
    moment = log.submit + log.origin
    out["cpus"], out["mem_mb"], out["gpus"], out["nodes"] = log.cpus, log.mem, log.gpus, log.nodes
    out["minutes"] = log.limit / 60
    out["log_cpu_seconds"] = np.log1p(log.cpus * log.limit.astype(float))
    out["hour"] = moment // HOUR % 24
    out["weekday"] = (moment // DAY + 3) % 7
    out["owns_resources"] = log.optional.get("owns_resources", np.zeros(log.n))
    for name in ("priority", "fair_share"):
        if name in log.optional:
            out[name] = log.optional[name]


def _in_use(log: Log, out: dict[str, np.ndarray], seen: dict[str, float]) -> None:
    now = log.submit
    amounts = {"cpus": log.cpus.astype(float), "mem": log.mem.astype(float), "gpus": log.gpus.astype(float)}
    starts = Events.of(log.start, amounts | {"n": np.ones(log.n)})
    ends = Events.of(np.where(log.start < NEVER, log.end, NEVER), amounts | {"n": np.ones(log.n)})
    names = [*amounts, "n"]
    in_use = dict(zip(names, _difference(starts, ends, names, now), strict=True))
    for name in amounts:
        used = in_use[name]
        most = np.maximum.accumulate(np.maximum(used, max(seen.get(name, 1), 1)))
        out[f"{name}_in_use"] = used
        out[f"{name}_in_use_share"] = used / most
        asked = amounts[name]
        out[f"{name}_free_after"] = most - used - asked
    out["n_running"] = in_use["n"]
    limited = (log.start < NEVER) & (log.limit > 0)
    promised = {"cpus": amounts["cpus"], "until": amounts["cpus"] * (log.start + log.limit)}
    begun = Events.of(np.where(limited, log.start, NEVER), promised)
    done = Events.of(np.where(limited, log.due, NEVER), promised)
    holds, until = _difference(begun, done, ["cpus", "until"], now)
    out["running_cpu_seconds"] = np.maximum(until - holds * now, 0)
    out["running_mean_remaining"] = out["running_cpu_seconds"] / np.maximum(holds, 1)
    out["capacity_seen"] = np.maximum.accumulate(np.maximum(out["cpus_in_use"], max(seen.get("cpus", 1), 1)))


def _difference(
    begun: Events, done: Events, names: list[str], now: np.ndarray, group: np.ndarray | None = None
) -> list[np.ndarray]:
    pairs = zip(begun.total(names, now, group), done.total(names, now, group), strict=True)
    return [more - less for more, less in pairs]


def _queue(log: Log, out: dict[str, np.ndarray]) -> dict[str, Queue]:
    """Add what waits, in all and of the job's own kind; return the sorted queues for other features."""
    work = log.cpus * log.limit.astype(float)
    queues = {"queue": Queue(log.submit, log.left)}
    everyone = queues["queue"]
    one = np.ones(log.n)
    depth = everyone.total(one)
    out["queue_depth"], out["queued_cpus"] = depth, everyone.total(log.cpus.astype(float))
    out["queued_cpu_seconds"] = everyone.total(work)
    out["queued_gpu_seconds"] = everyone.total(log.gpus * log.limit.astype(float))
    out["queued_mem"] = everyone.total(log.mem.astype(float))
    mean_submit = everyone.total(log.submit.astype(float)) / np.maximum(depth, 1)
    out["queue_mean_age"] = np.where(depth > 0, log.submit - mean_submit, 0)
    out["queue_oldest_age"] = oldest_waiting(log.submit, log.left)
    out["backlog_seconds"] = (out["queued_cpu_seconds"] + out["running_cpu_seconds"]) / out["capacity_seen"]
    for label in ("partition", "user", "shape", "like"):
        group = getattr(log, label)
        queues[label] = Queue(log.submit, log.left, group)
        out[f"{label}_depth"] = queues[label].total(one)
        if label != "like":
            out[f"{label}_queued_cpu_seconds"] = queues[label].total(work)
        out[f"{label}_oldest_age"] = oldest_waiting(log.submit, log.left, group)
    width = np.ceil(np.log2(np.maximum(log.cpus, 1)))
    length = np.log2(np.maximum(log.limit / 60, 1)) // 1.5
    for label, level in (("narrower", width), ("shorter", length)):
        n_ahead, work_ahead = _at_most(everyone, np.clip(level, 0, 9), work)
        out[f"{label}_depth"], out[f"{label}_queued_cpu_seconds"] = n_ahead, work_ahead
    return queues


def _at_most(queue: Queue, level: np.ndarray, work: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the waiting jobs, and their CPU-seconds, whose level is at most the job's own."""
    n_ahead, work_ahead = np.zeros(len(level)), np.zeros(len(level))
    for value in np.unique(level):
        chosen, asks = level <= value, level == value
        n_ahead[asks] = queue.total(chosen.astype(float))[asks]
        work_ahead[asks] = queue.total(np.where(chosen, work, 0.0))[asks]
    return n_ahead, work_ahead


def _flow(log: Log, out: dict[str, np.ndarray]) -> None:
    work = log.cpus * log.limit.astype(float)
    log_wait = np.log1p(np.where(log.start < NEVER, log.wait, 0))
    starts = Events.of(log.start, {"n": np.ones(log.n), "work": work, "log_wait": log_wait})
    submissions = Events.of(log.submit, {"n": np.ones(log.n), "work": work})
    for hours in (1, 6, 24):
        seconds = hours * HOUR
        n_started, sum_log, started = starts.within(["n", "log_wait", "work"], log.submit, seconds)
        n_submitted, submitted = submissions.within(["n", "work"], log.submit, seconds)
        out[f"started_{hours}h"] = n_started
        out[f"log_wait_mean_{hours}h"] = sum_log / np.where(n_started > 0, n_started, np.nan)
        out[f"started_cpu_seconds_{hours}h"] = started
        out[f"submitted_{hours}h"], out[f"submitted_cpu_seconds_{hours}h"] = n_submitted, submitted
    n_users = int(log.user.max(initial=0)) + 1
    own = Events.of(log.submit, {"n": np.ones(log.n)}, log.user, n_users)
    for hours in (1, 24):
        [out[f"user_submitted_{hours}h"]] = own.within(["n"], log.submit, hours * HOUR, log.user)


def _recent_waits(log: Log, out: dict[str, np.ndarray]) -> None:
    wait = np.where(log.start < NEVER, log.wait, 0).astype(float)
    values = {"log": np.log1p(wait), "wait": wait, "at": log.start.astype(float)}
    groups = [
        ("all", np.zeros(log.n, np.int64), (5, 20, 100)), ("user", log.user, (1, 5, 20)),
        ("shape", log.shape, (1, 5, 20)), ("like", log.like, (1, 5)),
        ("partition", log.partition, (1, 5, 20)),
    ]  # fmt: skip
    for label, group, lengths in groups:
        events = Events.of(log.start, values, group, int(group.max(initial=0)) + 1)
        for n_last in lengths:
            mean_log, mean, at = events.mean_of_last(["log", "wait", "at"], log.submit, n_last, group)
            out[f"{label}_log_wait_{n_last}"] = mean_log
            if n_last > 1:
                out[f"{label}_wait_{n_last}"] = mean
            if n_last == lengths[0]:
                out[f"{label}_since_start"] = log.submit - at


def _last_submitted(log: Log, out: dict[str, np.ndarray]) -> None:
    """How long the jobs submitted just before have waited so far, and whether they still wait."""
    for label, group, steps in (("all", None, (1, 5)), ("user", log.user, (1, 2, 4)), ("like", log.like, (1, 3)),
                                ("shape", log.shape, (1, 3))):  # fmt: skip
        code = np.zeros(log.n, np.int64) if group is None else group
        for step in steps:
            row = earlier_row(code, step)
            known = row >= 0
            so_far = np.maximum(np.minimum(log.left[row], log.submit) - log.submit[row], 0)
            out[f"{label}_before_{step}_so_far"] = np.where(known, np.log1p(so_far), np.nan)
            out[f"{label}_before_{step}_waits"] = np.where(known, log.left[row] >= log.submit, np.nan)
            out[f"{label}_before_{step}_ago"] = np.where(known, log.submit - log.submit[row], np.nan)


def _user_habits(log: Log, out: dict[str, np.ndarray]) -> None:
    """How much of their limits a user's jobs have used, and how much the user has of late consumed."""
    n_users = int(log.user.max(initial=0)) + 1
    ran = log.start < NEVER
    run = np.where(ran & (log.end < NEVER), log.end - log.start, 0).astype(float)
    share = np.where(log.limit > 0, np.minimum(run / np.maximum(log.limit, 1), 2), 1.0)
    values = {"share": share, "run": np.log1p(run), "used": run * log.cpus}
    end = np.where(ran, log.end, NEVER)
    own = Events.of(end, values, log.user, n_users)
    everyone = Events.of(end, values)
    out["user_limit_used"], out["user_log_run"] = own.mean_of_last(["share", "run"], log.submit, 5, log.user)
    out["limit_used"], out["log_run"] = everyone.mean_of_last(["share", "run"], log.submit, 100)
    for days in (1, 7):
        [mine] = own.within(["used"], log.submit, days * DAY, log.user)
        [whole] = everyone.within(["used"], log.submit, days * DAY)
        out[f"user_used_{days}d"] = mine
        out[f"user_share_{days}d"] = mine / np.maximum(whole, 1)
    amounts = {"cpus": log.cpus.astype(float), "n": np.ones(log.n)}
    begun = Events.of(log.start, amounts, log.user, n_users)
    done = Events.of(end, amounts, log.user, n_users)
    running = _difference(begun, done, ["cpus", "n"], log.submit, log.user)
    out["user_running_cpus"], out["user_running_n"] = running


def _drain(log: Log, queues: dict[str, Queue], out: dict[str, np.ndarray]) -> None:
    """How long the work ahead lasts at the pace at which such work has started of late, in seconds."""
    amounts = {"n": np.ones(log.n), "work": log.cpus * log.limit.astype(float)}
    for label, queue in queues.items():
        group = np.zeros(log.n, np.int64) if label == "queue" else getattr(log, label)
        starts = Events.of(log.start, amounts, group, int(group.max(initial=0)) + 1)
        now = starts.before(log.submit, group)
        for days in (1, 7) if label in ("queue", "user") else (7,):
            since = starts.before(log.submit - days * DAY, group)
            for name, values in amounts.items():
                pace = starts.sums[name][now] - starts.sums[name][since] + 0.5 * values
                out[f"{label}_drain_{name}_{days}d"] = (
                    queue.total(values) * (days * DAY) / np.maximum(pace, 0.5)
                )
    out["user_drain_running"] = out["user_queued_cpu_seconds"] / np.maximum(out["user_running_cpus"], 1)
    out["work_ahead_seconds"] = out["shorter_queued_cpu_seconds"] / out["capacity_seen"]
