"""What a learnt policy looks at: a row of numbers per class of waiting jobs.

A *class* holds the jobs that nothing tells apart but their age: one user, one shape, one requested time.
They stand in one line, so that a decision looks at the first of each.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from procure.simulator.kernel import kernel
from procure.simulator.state import State

FEATURES = tuple(
    (
        "run_time requested share scarcity age n_alike known margin queue_run_time queue_share free_run_time "
        "free_share recent short of_user"
    ).split()
)
"""Per class, each near −1 … 1: logarithms in units of about a decade, shares as they are.

``run_time`` expected, ``requested``, ``share`` of the dominant resource of the system, ``scarcity``
(how few nodes could hold it), ``age`` of the first, ``n_alike`` waiting, ``known`` (how many of the class
have ended), ``margin`` that the job would leave on its node; and run time and share times the length of the
queue and times what is free; ``recent`` run times of its like, as a mean of logarithms, and as a harmonic mean
(``short``: low where many of them end within seconds), and ``of_user``, how many jobs of its user wait.
"""
RUN_TIME, REQUESTED, SHARE, SCARCITY, AGE, N_ALIKE, KNOWN, MARGIN = range(8)
QUEUE_RUN_TIME, QUEUE_SHARE, FREE_RUN_TIME, FREE_SHARE, RECENT, SHORT, OF_USER = range(8, 15)
QUEUE_FEATURES = (N_ALIKE, QUEUE_RUN_TIME, QUEUE_SHARE, FREE_RUN_TIME, FREE_SHARE)
"""Those of the queue and of the system, which one ablation leaves out."""
RUN_TIME_FEATURES = (RUN_TIME, KNOWN, QUEUE_RUN_TIME, FREE_RUN_TIME, RECENT, SHORT)
"""Those that look at how long jobs ran, which another leaves out."""
LAST_COUNTS = 0.3
"""What the job that ended last counts in what is recent; all before it count the rest."""
SHORTEST = 10.0
"""s; as the bounded slowdown, the harmonic mean takes no run for shorter."""
LOG_SPAN = math.log(100.0)
"""Two decades of seconds are one unit."""
LOG_HOUR = math.log(3600.0)
NO_LIMIT = 30 * 86_400
"""Seconds that a job without a limit is taken to ask for."""


class Kin(NamedTuple):
    """What is known of each class, by line; counts are of this run."""

    requested: np.ndarray  # float64[n_lines], s
    prior: np.ndarray  # float64[n_lines], s that a job of the class was expected to run before this run
    trust: np.ndarray  # float64[n_lines], jobs that the prior counts as
    fixed: np.ndarray  # float64[n_lines, 3], the features that never change: requested, share, scarcity
    n_waiting: np.ndarray  # int64[n_lines]
    n_running: np.ndarray  # int64[n_lines]
    start_sum: np.ndarray  # int64[n_lines], s, of those that run
    n_ended: np.ndarray  # int64[n_lines]
    run_sum: np.ndarray  # int64[n_lines], s, of those that ended
    user: np.ndarray  # int64[n_lines]
    named: bool  # the log tells users apart
    of_class: np.ndarray  # float64[n_lines, 2], of the ended jobs: log(s) and 1/s, the last counting most
    of_user: np.ndarray  # float64[n_users, 2], likewise
    user_ended: np.ndarray  # int64[n_users]
    user_waiting: np.ndarray  # int64[n_users]
    seen: np.ndarray  # int64[3]: the moment, the ended jobs of it, and the submitted jobs counted so far


def decade(seconds: np.ndarray) -> np.ndarray:
    """Bring seconds to the scale of the features: −1 for 36 s, 0 for an hour, 1 for four days."""
    return np.log(np.maximum(seconds, 1.0) / 3600.0) / LOG_SPAN


def make_kin(state: State, lines: Any, prior: np.ndarray, trust: np.ndarray) -> Kin:
    """Lay out what is known of each class before anything is submitted.

    Parameters
    ----------
    lines
        A `Lines`, or any named tuple with its ``line_of`` and a ``first`` as long.
    prior, trust
        float64[n_jobs], s and jobs; as `procure.learn.run_times.RunTimes` predicts them.
    """
    n_lines = len(lines.first)
    first = np.zeros(n_lines, np.int64)
    first[lines.line_of[::-1]] = np.arange(len(state.submit))[::-1]
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
    fixed = np.stack(
        [decade(requested), np.log10(np.maximum(share, 1e-4)) / 2.0 + 1.0, 1.0 - holds.mean(axis=1)], axis=1
    )
    a, b, c, d, e = (np.zeros(n_lines, np.int64) for _ in range(5))
    n_users = int(state.user.max(initial=0)) + 1
    users = (state.user[first].astype(np.int64), n_users > 1, np.zeros((n_lines, 2)), np.zeros((n_users, 2)))
    ended, waiting = np.zeros(n_users, np.int64), np.zeros(n_users, np.int64)
    seen = np.array([-1, 0, 0], np.int64)
    return Kin(requested, prior[first], trust[first], fixed, a, b, c, d, e, *users, ended, waiting, seen)


@kernel
def note_submission(kin, line):
    """Count a job that waits from now on."""
    kin.n_waiting[line] += 1
    kin.user_waiting[kin.user[line]] += 1


@kernel
def note_start(kin, line, now):
    """Count a job that starts."""
    kin.n_waiting[line] -= 1
    kin.user_waiting[kin.user[line]] -= 1
    kin.n_running[line] += 1
    kin.start_sum[line] += now


@kernel
def note_end(kin, line, start, now):
    """Learn from a job that ended, its class from what its user is known for."""
    run = now - start
    kin.n_running[line] -= 1
    kin.start_sum[line] -= start
    log_run, rate = math.log(max(run, 1.0)), 1.0 / max(run, SHORTEST)
    user = kin.user[line]
    of_class, of_user = kin.of_class, kin.of_user
    if kin.n_ended[line] == 0:
        knows = kin.named and kin.user_ended[user] > 0
        of_class[line, 0] = of_user[user, 0] if knows else log_run
        of_class[line, 1] = of_user[user, 1] if knows else rate
    if kin.user_ended[user] == 0:
        of_user[user, 0], of_user[user, 1] = log_run, rate
    of_class[line, 0] += LAST_COUNTS * (log_run - of_class[line, 0])
    of_class[line, 1] += LAST_COUNTS * (rate - of_class[line, 1])
    of_user[user, 0] += LAST_COUNTS * (log_run - of_user[user, 0])
    of_user[user, 1] += LAST_COUNTS * (rate - of_user[user, 1])
    kin.user_ended[user] += 1
    kin.n_ended[line] += 1
    kin.run_sum[line] += run


@kernel
def follow_classes(state, lines, kin):
    """Count what was submitted and what ended since the last call."""
    seen = kin.seen
    while seen[2] < state.n_submitted[0]:
        job = seen[2]
        if state.previous_waiting[state.next_waiting[job]] == job:  # else no empty set of nodes holds it
            note_submission(kin, lines.line_of[job])
        seen[2] += 1
    if seen[0] != state.now[0]:
        seen[0], seen[1] = state.now[0], 0
    while seen[1] < state.n_ended[0]:
        job = state.ended[seen[1]]
        note_end(kin, lines.line_of[job], state.start[job], state.now[0])
        seen[1] += 1


@kernel
def count_start(state, lines, kin, job):
    """Count a job that is about to start."""
    note_start(kin, lines.line_of[job], state.now[0])


@kernel
def expected_run_time(kin, line, now):
    """Return how long a job of a class is expected to run, s: all time run so far / jobs that ended.

    The prior counts as ``trust`` jobs that ended. Those that still run add their time so far: the
    maximum-likelihood mean of an exponential distribution with censored observations (gamma prior).
    Never above the requested time.
    """
    trust = kin.trust[line]
    run = kin.run_sum[line] + kin.n_running[line] * now - kin.start_sum[line]
    return min((trust * kin.prior[line] + run) / (trust + kin.n_ended[line]), kin.requested[line])


@kernel
def recent_of(kin, line, which):
    """Return what is recent of a class, else of its user, else what was expected: log(s), or with 1 that of 1/s."""
    limit = max(kin.requested[line], SHORTEST if which else 1.0)
    user = kin.user[line]
    if kin.n_ended[line] > 0:
        value = kin.of_class[line, which]
    elif kin.named and kin.user_ended[user] > 0:
        value = kin.of_user[user, which]
    else:
        return math.log(min(max(kin.prior[line], SHORTEST if which else 1.0), limit))
    return min(-math.log(value) if which else value, math.log(limit))


@kernel
def observe(state, kin, line, job, margin, queue, free, row):
    """Fill ``row`` with the features of the first job of a class.

    Parameters
    ----------
    margin
        Share of its node that the job would leave, as `procure.policies.place.margin`.
    queue, free
        Length of the queue as log10(1 + n) / 3, and the mean free share of CPUs and memory.
    row : numpy.ndarray
        float64[len(FEATURES)], modified.
    """
    now = state.now[0]
    run_time = math.log(max(expected_run_time(kin, line, now), 1.0) / 3600.0) / LOG_SPAN
    share = kin.fixed[line, 1]
    row[RUN_TIME] = run_time
    row[REQUESTED] = kin.fixed[line, 0]
    row[SHARE] = share
    row[SCARCITY] = kin.fixed[line, 2]
    row[AGE] = math.log((60.0 + now - state.submit[job]) / 3600.0) / LOG_SPAN
    row[N_ALIKE] = math.log(1.0 * kin.n_waiting[line]) / LOG_SPAN
    row[KNOWN] = math.log(1.0 + kin.n_ended[line]) / LOG_SPAN
    row[MARGIN] = margin
    row[QUEUE_RUN_TIME] = queue * run_time
    row[QUEUE_SHARE] = queue * share
    row[FREE_RUN_TIME] = free * run_time
    row[FREE_SHARE] = free * share
    row[RECENT] = (recent_of(kin, line, 0) - LOG_HOUR) / LOG_SPAN
    row[SHORT] = (recent_of(kin, line, 1) - LOG_HOUR) / LOG_SPAN
    row[OF_USER] = math.log(1.0 + kin.user_waiting[kin.user[line]]) / LOG_SPAN
