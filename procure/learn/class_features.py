"""What a learned order looks at: a row of numbers per class of waiting jobs.

A *class* holds the jobs that nothing tells apart but their age: one user, one shape, one requested time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from procure.learn.run_times import NO_LIMIT
from procure.simulator.kernel import kernel
from procure.simulator.state import State

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
