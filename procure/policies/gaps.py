"""Schedule-based policies: keep an ordered plan of all waiting jobs, and start whose planned moment has come.

A plan is an order; each job in turn takes the earliest gap that the running jobs and those before it
leave. After Klusáček and Rudová's schedule-based policies (earliest suitable gap, best gap, tabu search).
Every change lays the plan anew, so a deep queue costs a lot.
"""

from __future__ import annotations

import time

import numpy as np
from numba import njit

from procure.policies.conservative import due
from procure.policies.profile import build_profile, find_start, reserve
from procure.policies.timeline import build_timeline, find_nodes, plan_nodes
from procure.simulator.state import FAR, WAIT

N_KEPT, N_SEEN, CHANGES, DRAWN = range(4)
"""What the notes hold: the plan's length, the jobs submitted and the changes that it knows, random numbers."""
POSITIONS = 20
"""Places from the plan's end that a new job, or one that is moved, is tried at."""
FLOOR = 10.0
"""Seconds, as in the bounded slowdown."""


@njit(cache=True, nogil=True)
def lay_plan(state, order):
    """Give every job of an order its earliest gap; returns the sum of the expected bounded slowdowns."""
    total = 0.0
    if state.pool:
        build_profile(state)
        for job in order:
            start = find_start(state.profile, state.n_nodes[job], state.estimate[job], 2 * FAR, 2 * FAR)
            reserve(state, job, start)
    else:
        line = build_timeline(state)
        for job in order:
            plan_nodes(state, line, job, find_nodes(state, line, job, 2 * FAR, line.everywhere))
    for job in order:
        run = float(state.estimate[job])
        total += max(1.0, (state.reserved[job] - state.submit[job] + run) / max(run, FLOOR))
    return total


@njit(cache=True, nogil=True)
def _insert(order, job, place):
    new = np.empty(order.size + 1, np.int64)
    new[:place] = order[:place]
    new[place] = job
    new[place + 1 :] = order[place:]
    return new


@njit(cache=True, nogil=True)
def insert_at_best(state, order, job):
    """Put a job where the plan's expected slowdowns are least, trying the last places; ties go to the back."""
    best, least = _insert(order, job, order.size), np.inf
    for place in range(order.size, max(-1, order.size - POSITIONS), -1):
        tried = _insert(order, job, place)
        total = lay_plan(state, tried)
        if total < least:
            best, least = tried, total
    return best


@njit(cache=True, nogil=True)
def follow_plan(state, best):
    """Bring the plan up to what happened; returns whether anything did."""
    notes = state.notes
    if notes[CHANGES] == state.n_changes[0] + 1 and notes[N_SEEN] == state.n_submitted[0]:
        return False
    kept = 0
    for i in range(notes[N_KEPT]):
        if state.start[state.plan[i]] < 0:
            state.plan[kept] = state.plan[i]
            kept += 1
    order = state.plan[:kept].copy()
    n_jobs = state.submit.size
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        if job >= notes[N_SEEN]:
            order = insert_at_best(state, order, job) if best else _insert(order, job, order.size)
        job = state.next_waiting[job]
    keep_plan(state, order)
    return True


@njit(cache=True, nogil=True)
def keep_plan(state, order):
    """Make an order the plan."""
    lay_plan(state, order)
    state.plan[: order.size] = order
    state.notes[N_KEPT] = order.size
    state.notes[N_SEEN] = state.n_submitted[0]
    state.notes[CHANGES] = state.n_changes[0] + 1


@njit(cache=True, nogil=True)
def earliest_gap(state):
    """Give each submitted job the earliest gap behind the plans of those before it.

    When something changes, all plans are made anew in the order of submission; unlike conservative
    backfilling, no promise is kept.
    """
    follow_plan(state, False)
    return due(state)


@njit(cache=True, nogil=True)
def best_gap(state):
    """Insert each submitted job where the plan's expected bounded slowdowns become least."""
    follow_plan(state, True)
    return due(state)


@njit(cache=True, nogil=True)
def improve(state, order, place):
    """Move the job at a place to its best place; returns the order and its expected slowdowns."""
    others = np.concatenate((order[:place], order[place + 1 :]))
    moved = insert_at_best(state, others, order[place])
    return moved, lay_plan(state, moved)


def tabu_search(state):
    """Best gap, then move random jobs to better places for ``rounds`` rounds or ``seconds`` a moment.

    A job that was just moved is not moved again for min(10, half of the plan) rounds. A limit in
    seconds makes the schedule depend on the speed of the computer; in rounds it does not.
    """
    if state.n_waiting[0] == 0:
        return WAIT, state.chosen[:0]
    if follow_plan(state, True) and state.n_waiting[0] > 1:
        _search(state)
    return due(state)


def _search(state) -> None:
    began = time.perf_counter()
    n = int(state.notes[N_KEPT])
    order = state.plan[:n].copy()
    least = lay_plan(state, order)
    state.notes[DRAWN] += 1
    rng = np.random.default_rng(int(state.notes[DRAWN]))
    tabu: list[int] = []
    for _ in range(int(state.options.rounds)):
        if state.options.seconds and time.perf_counter() - began > state.options.seconds:
            break
        place = int(rng.integers(n))
        job = int(order[place])
        if job in tabu:
            continue
        tabu = [*tabu, job][-max(1, min(10, n // 2)) :]
        moved, total = improve(state, order, place)
        if total < least:
            order, least = moved, total
    keep_plan(state, order)
