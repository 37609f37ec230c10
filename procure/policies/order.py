"""Orders of the waiting jobs: each is a score, the lowest served first; ties go to the earlier queued job."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from procure.policies.names import EDF, F1, F2, F3, FCFS, LARGEST, LCFS, PRIORITY, SJF, SMALLEST, UNICEF, WFP3


@njit(cache=True, nogil=True)
def usage_now(accounts, half_life, now, account):
    """Return an account's decayed use, CPU-seconds."""
    if half_life <= 0.0:
        return 0.0
    kept = 0.5 ** ((now - accounts.at[account]) / half_life)
    return accounts.usage[account] * kept + accounts.rate[account] * half_life / math.log(2.0) * (1.0 - kept)


@njit(cache=True, nogil=True)
def fair_share(accounts, half_life, now, user):
    """Return 2^(−use / share): 1 for a user without past use, 1/2 for one who used an equal share.

    Use is the user's part of all decayed CPU-seconds, the share 1 / users, as Slurm's classic fair share
    defines it.
    """
    everybody = accounts.at.size - 1
    total = usage_now(accounts, half_life, now, everybody)
    if total <= 0.0:
        return 1.0
    return 2.0 ** (-usage_now(accounts, half_life, now, user) / total * everybody)


@njit(cache=True, nogil=True)
def _priority(options, age, size, share):
    age = min(1.0, age / options.max_age)
    return options.weight_age * age + options.weight_fair_share * share + options.weight_size * size


@njit(cache=True, nogil=True)
def score(state, job, order):
    """Return a job's score now: float64, lower is served first.

    With r the estimated run time (s), n the CPUs of all nodes, s the submission (s after the first,
    at least 1) and w the wait so far (s). UNICEF's logarithm is at least 1, so that one CPU is no
    division by zero.
    """
    if order == FCFS:
        return float(job)
    if order == LCFS:
        return -float(job)
    run = float(state.estimate[job])
    if order == SJF:
        return run
    size = float(max(state.cpus[job], 1) * state.n_nodes[job])
    if order == SMALLEST:
        return size
    if order == LARGEST:
        return -size
    if order == EDF:
        return float(state.due[job])
    if order == PRIORITY:
        now = state.now[0]
        share = fair_share(state.accounts, state.options.half_life, now, state.user[job])
        return -_priority(
            state.options, now - state.submit[job], state.n_nodes[job] / state.free_cpus.size, share
        )
    wait = float(state.now[0] - state.submit[job])
    if order == WFP3:
        return -((wait / run) ** 3) * size
    if order == UNICEF:
        return -wait / (max(math.log2(size), 1.0) * run)
    submitted = math.log10(max(float(state.submit[job]), 1.0))
    if order == F1:
        return math.log10(run) * size + 870.0 * submitted
    if order == F2:
        return math.sqrt(run) * size + 25_600.0 * submitted
    if order == F3:
        return run * size + 6_860_000.0 * submitted
    return run * math.sqrt(size) + 530_000.0 * submitted


@njit(cache=True, nogil=True)
def first_in(state, order):
    """Return the waiting job that an order serves first, or the number of jobs if none waits."""
    n_jobs = state.submit.size
    job = state.next_waiting[n_jobs]
    if order == FCFS or job == n_jobs:
        return job
    first, lowest = job, score(state, job, order)
    job = state.next_waiting[job]
    while job != n_jobs:
        value = score(state, job, order)
        if value < lowest:
            first, lowest = job, value
        job = state.next_waiting[job]
    return first


@njit(cache=True, nogil=True)
def lay_out(state, order):
    """Lay the waiting jobs into ``plan`` in an order; returns how many."""
    n_jobs = state.submit.size
    n = 0
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        state.plan[n] = job
        n += 1
        job = state.next_waiting[job]
    if order != FCFS and n > 1:
        scores = np.empty(n)
        for i in range(n):
            scores[i] = score(state, state.plan[i], order)
        state.plan[:n] = state.plan[:n][np.argsort(scores, kind="mergesort")]
    return n
