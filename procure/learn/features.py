"""What is known of a job before it runs: its run time, from past jobs, and the row of numbers that an order looks at.

A *class* holds the jobs that nothing tells apart but their age: one user, one shape, one requested time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.simulator.arrays import Jobs
from procure.simulator.kernel import kernel
from procure.simulator.state import State

NO_LIMIT = 30 * 86_400
"""Seconds that a job without a limit is taken to ask for."""
NO_HISTORY = 0.25
"""Without any history, a job is expected to run this share of its requested time."""
LEVELS = (
    (),
    ("requested_time",),
    ("n_nodes", "cpus_per_node", "mem_mb_per_node", "gpus_per_node", "requested_time"),
)
"""Groups of past jobs, from all to those most alike; each leans on the one before where it knows little."""
PER_DECADE = 8
"""Bins of run time / requested time per decade; five decades below 1."""
N_BINS = 5 * PER_DECADE
STRENGTH, HALF_LIFE = 3.0, 604_800.0
"""Jobs that the group above counts as, and s in which a past job's weight halves, counted from the last submission."""


@dataclass(frozen=True)
class RunTimes:
    """An estimator of run times: fit on past jobs, predict means; by shape and request, for a run knows no user's name.

    Each group of `LEVELS` keeps a histogram of run time / requested time; a group of n jobs is smoothed with
    `STRENGTH` jobs that are distributed as the group above it. Without a limit, `NO_LIMIT` is taken.
    """

    as_of: int = 0  # Unix s at which this was known; set by `fit`
    tables: tuple[Mapping[str, int], ...] = ()  # per level, from a key to a row of ``counts``
    counts: tuple[np.ndarray, ...] = field(default=(), repr=False)  # float64[n_groups, N_BINS] per level

    def fit(self, jobs: pd.DataFrame, ended_by: int | None = None) -> RunTimes:
        """Return an estimator that has learnt from a job table, and nothing before.

        Only jobs that had ended by ``ended_by``, Unix s, count: their ``end_time``, or without one submission plus run
        time, is not later.
        """
        counts = tuple(np.zeros((0, N_BINS)) for _ in LEVELS)
        return RunTimes(tables=tuple({} for _ in LEVELS), counts=counts).updated(jobs, ended_by)

    def updated(self, jobs: pd.DataFrame, ended_by: int | None = None) -> RunTimes:
        """Return what is known when more jobs have ended; those that ended by ``as_of`` are known already."""
        end = jobs["submit_time"].to_numpy(np.float64) + jobs["run_time"].to_numpy(np.float64)
        if "end_time" in jobs:
            logged = pd.to_numeric(jobs["end_time"], errors="coerce").to_numpy(np.float64)
            end = np.where(np.isnan(logged), end, logged)
        now = int(end.max(initial=self.as_of)) if ended_by is None else ended_by
        if now < self.as_of:
            raise ArgumentError("ended_by", f"{now} s lies before what is known already, {self.as_of} s")
        new = (end > self.as_of) & (end <= now)
        jobs, end = jobs[new], end[new]
        faded, weight = 0.5 ** ((now - self.as_of) / HALF_LIFE), 0.5 ** ((now - end) / HALF_LIFE)
        logs = np.log10(np.clip(jobs["run_time"].to_numpy(np.float64) / _limit(jobs), 1e-5, 1.0))
        bins = np.clip(np.ceil((logs + 5.0) * PER_DECADE).astype(np.int64) - 1, 0, N_BINS - 1)
        tables, counts = [], []
        for level, known, old in zip(LEVELS, self.tables, self.counts, strict=True):
            groups, names = pd.factorize(_keys(jobs, level))
            table = dict(known)
            row = np.array([table.setdefault(str(name), len(table)) for name in names], np.int64)
            held = np.zeros((len(table), N_BINS))
            held[: len(old)] = old * faded
            np.add.at(held, (row[groups], bins), weight)
            tables.append(table)
            counts.append(held)
        return replace(self, as_of=now, tables=tuple(tables), counts=tuple(counts))

    def predict(self, jobs: pd.DataFrame) -> np.ndarray:
        """Return the expected run time: float64[n_jobs], s, never above the request; before `fit` a `TableError`."""
        if not self.tables:
            raise TableError("this estimator of run times has learnt nothing yet; call fit first")
        smooth = np.full((len(jobs), N_BINS), 1.0 / N_BINS)
        for level, table, counts in zip(LEVELS, self.tables, self.counts, strict=True):
            row = np.array([table.get(key, -1) for key in _keys(jobs, level)], np.int64)
            found = np.zeros((len(jobs), N_BINS))
            found[row >= 0] = counts[row[row >= 0]]
            smooth = (STRENGTH * smooth + found) / (STRENGTH + found.sum(axis=1))[:, None]
        return smooth @ _CENTRES * _limit(jobs)


def known_at(jobs: pd.DataFrame, moment: int, history: RunTimes | None = None) -> RunTimes:
    """Return what a scheduler can know at a moment, Unix s, from a history not later."""
    past = jobs[jobs["submit_time"] < moment]
    if history is not None and history.as_of <= moment:
        return history.updated(past, moment)
    return RunTimes().fit(past, moment)


def expected_before(state: State | Jobs, history: RunTimes | None) -> np.ndarray:
    """Return what each job was expected to run before the run: float64[n_jobs] in queue order, s.

    Without any history, `NO_HISTORY`. Nodes with several GPU models are refused: a history does not tell them apart.
    """
    if getattr(state, "guards", None) is not None:
        raise TableError("nodes with several GPU models: trained policies do not know them; choose another policy")
    if history is None:
        return NO_HISTORY * np.where(state.requested > 0, state.requested, NO_LIMIT)
    columns = {"cpus_per_node": state.cpus, "mem_mb_per_node": state.mem, "gpus_per_node": state.gpus}
    jobs = pd.DataFrame({"n_nodes": state.n_nodes, **columns, "requested_time": state.requested})
    return history.predict(jobs)


def _limit(jobs: pd.DataFrame) -> np.ndarray:
    requested = jobs["requested_time"].to_numpy(np.float64)
    return np.where(requested > 0, requested, float(NO_LIMIT))


def _keys(jobs: pd.DataFrame, level: tuple[str, ...]) -> np.ndarray:
    if not level:
        return np.full(len(jobs), "", object)
    absent = {"n_nodes": "1"}  # as `procure.tables.check` fills them
    parts = [
        jobs[name].astype(str) if name in jobs else pd.Series(absent.get(name, "0"), index=jobs.index) for name in level
    ]
    return parts[0].str.cat(parts[1:], sep="|").to_numpy(object)


_EDGES = 10.0 ** (np.arange(N_BINS + 1) / PER_DECADE - N_BINS / PER_DECADE)
_CENTRES = np.sqrt(_EDGES[1:] * _EDGES[:-1])


FEATURES = {
    "run_time": "expected run time, from jobs of the class that ended or run, and from the history",
    "requested": "requested time",
    "share": "share of the system's dominant resource",
    "scarcity": "share of the nodes that could never hold it",
    "age": "wait of the job",
    "n_alike": "jobs of its class that wait",
    "known": "jobs of its class that have ended",
    "queue_run_time": "expected run time × length of the queue",
    "queue_share": "share × length of the queue",
    "free_run_time": "expected run time × free share of the system",
    "free_share": "share × free share of the system",
    "recent": "run times of its class, else its user, the last counting most, as a mean of logarithms",
    "short": "the same as a harmonic mean: low where many end within seconds",
    "of_user": "jobs of its user that wait",
}
"""Each near −1 … 1: logarithms in units of two decades, shares as they are. The lowest score starts first."""
RUN_TIME, REQUESTED, SHARE, SCARCITY, AGE, N_ALIKE, KNOWN, QUEUE_RUN_TIME = range(8)
QUEUE_SHARE, FREE_RUN_TIME, FREE_SHARE, RECENT, SHORT, OF_USER = range(8, 14)
LAST_COUNTS, SHORTEST = 0.3, 10.0
"""What the job that ended last counts in what is recent, and s that a run of the harmonic mean has at least."""
LOG_SPAN, LOG_HOUR = math.log(100.0), math.log(3600.0)


class JobClassStats(NamedTuple):
    """What is known of each class; counts are of this run."""

    requested: np.ndarray  # float64[n_classes], s
    prior: np.ndarray  # float64[n_classes], s that a job of the class was expected to run before this run
    trust: float  # jobs that the prior counts as
    fixed: np.ndarray  # float64[n_classes, 3], the features that never change: requested, share, scarcity
    n_waiting: np.ndarray  # int64[n_classes]
    n_running: np.ndarray  # int64[n_classes]
    start_sum: np.ndarray  # int64[n_classes], s, of those that run
    n_ended: np.ndarray  # int64[n_classes]
    run_sum: np.ndarray  # int64[n_classes], s, of those that ended
    user: np.ndarray  # int64[n_classes]
    named: bool  # the log tells users apart
    of_class: np.ndarray  # float64[n_classes, 2], of the ended jobs: log(s) and 1/s, the last counting most
    of_user: np.ndarray  # float64[n_users, 2], likewise
    user_ended: np.ndarray  # int64[n_users]
    user_waiting: np.ndarray  # int64[n_users]


def make_stats(state: State, class_of: np.ndarray, prior: np.ndarray, trust: float) -> JobClassStats:
    """Lay out what is known of each class, int64[n_jobs], before anything is submitted; the prior is by job."""
    _, first = np.unique(class_of, return_index=True)
    n = len(first)
    requested = np.where(state.requested[first] > 0, state.requested[first], NO_LIMIT).astype(np.float64)
    asked = np.stack([state.cpus[first], state.mem[first], state.gpus[first]]) * state.n_nodes[first]
    totals = np.array([state.total_cpus.sum(), state.total_mem.sum(), state.total_gpus.sum()], np.float64)
    share = (asked / np.maximum(totals, 1.0)[:, None]).max(axis=0)
    holds = (
        (state.total_cpus[None] >= state.cpus[first, None])
        & (state.total_mem[None] >= state.mem[first, None])
        & (state.total_gpus[None] >= state.gpus[first, None])
        & ((state.node_types[None] & state.types[first, None]) != 0)
    )
    decades = np.log(np.maximum(requested, 1.0) / 3600.0) / LOG_SPAN
    fixed = np.stack([decades, np.log10(np.maximum(share, 1e-4)) / 2.0 + 1.0, 1.0 - holds.mean(axis=1)], axis=1)
    n_users = int(state.user.max(initial=0)) + 1
    a, b, c, d, e = (np.zeros(n, np.int64) for _ in range(5))
    users = (state.user[first].astype(np.int64), n_users > 1, np.zeros((n, 2)), np.zeros((n_users, 2)))
    of_users = (np.zeros(n_users, np.int64), np.zeros(n_users, np.int64))
    return JobClassStats(requested, prior[first], trust, fixed, a, b, c, d, e, *users, *of_users)


@kernel
def note_start(stats, group, now):
    """Count a job that starts."""
    stats.n_waiting[group] -= 1
    stats.user_waiting[stats.user[group]] -= 1
    stats.n_running[group] += 1
    stats.start_sum[group] += now


@kernel
def note_end(stats, group, start, now):
    """Learn from a job that ended, its class from what its user is known for."""
    run = now - start
    stats.n_running[group] -= 1
    stats.start_sum[group] -= start
    log_run, rate = math.log(max(run, 1.0)), 1.0 / max(run, SHORTEST)
    user = stats.user[group]
    of_class, of_user = stats.of_class, stats.of_user
    if stats.n_ended[group] == 0:
        knows = stats.named and stats.user_ended[user] > 0
        of_class[group, 0] = of_user[user, 0] if knows else log_run
        of_class[group, 1] = of_user[user, 1] if knows else rate
    if stats.user_ended[user] == 0:
        of_user[user, 0], of_user[user, 1] = log_run, rate
    of_class[group, 0] += LAST_COUNTS * (log_run - of_class[group, 0])
    of_class[group, 1] += LAST_COUNTS * (rate - of_class[group, 1])
    of_user[user, 0] += LAST_COUNTS * (log_run - of_user[user, 0])
    of_user[user, 1] += LAST_COUNTS * (rate - of_user[user, 1])
    stats.user_ended[user] += 1
    stats.n_ended[group] += 1
    stats.run_sum[group] += run


@kernel
def expected_run_time(stats, group, now):
    """Return how long a job of a class is expected to run, s: all time run so far / jobs that ended.

    The prior counts as ``trust`` jobs that ended. Those that still run add their time so far: the
    maximum-likelihood mean of an exponential distribution with censored observations (gamma prior).
    Never above the requested time.
    """
    run = stats.run_sum[group] + stats.n_running[group] * now - stats.start_sum[group]
    expected = (stats.trust * stats.prior[group] + run) / (stats.trust + stats.n_ended[group])
    return min(expected, stats.requested[group])


@kernel
def recent_of(stats, group, which):
    """Return what is recent of a class, else of its user, else what was expected: log(s), or with 1 that of 1/s."""
    limit = max(stats.requested[group], SHORTEST if which else 1.0)
    user = stats.user[group]
    if stats.n_ended[group] > 0:
        value = stats.of_class[group, which]
    elif stats.named and stats.user_ended[user] > 0:
        value = stats.of_user[user, which]
    else:
        return math.log(min(max(stats.prior[group], SHORTEST if which else 1.0), limit))
    return min(-math.log(value) if which else value, math.log(limit))


@kernel
def observe(state, stats, group, job, queue, free, row):
    """Fill ``row`` with the features of a job of a class; ``queue`` is log10(1 + n) / 3 of n that wait."""
    now = state.now[0]
    run_time = math.log(max(expected_run_time(stats, group, now), 1.0) / 3600.0) / LOG_SPAN
    share = stats.fixed[group, 1]
    row[RUN_TIME] = run_time
    row[REQUESTED] = stats.fixed[group, 0]
    row[SHARE] = share
    row[SCARCITY] = stats.fixed[group, 2]
    row[AGE] = math.log((60.0 + now - state.submit[job]) / 3600.0) / LOG_SPAN
    row[N_ALIKE] = math.log(1.0 * stats.n_waiting[group]) / LOG_SPAN
    row[KNOWN] = math.log(1.0 + stats.n_ended[group]) / LOG_SPAN
    row[QUEUE_RUN_TIME] = queue * run_time
    row[QUEUE_SHARE] = queue * share
    row[FREE_RUN_TIME] = free * run_time
    row[FREE_SHARE] = free * share
    row[RECENT] = (recent_of(stats, group, 0) - LOG_HOUR) / LOG_SPAN
    row[SHORT] = (recent_of(stats, group, 1) - LOG_HOUR) / LOG_SPAN
    row[OF_USER] = math.log(1.0 + stats.user_waiting[stats.user[group]]) / LOG_SPAN


@kernel
def free_share(state):
    """Return the mean free share of CPUs and of memory."""
    cpus = mem = total_cpus = total_mem = 0
    for node in range(state.free_cpus.size):
        cpus += max(state.free_cpus[node], 0)
        mem += max(state.free_mem[node], 0)
        total_cpus += state.total_cpus[node]
        total_mem += state.total_mem[node]
    return (cpus / max(total_cpus, 1) + mem / max(total_mem, 1)) / 2.0
