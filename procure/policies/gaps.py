"""Schedule-based policies: keep an ordered plan of all waiting jobs, and start whose planned moment has come.

A plan is an order; each job in turn takes the earliest gap that the running jobs and those before it
leave. After Klusáček and Rudová's schedule-based policies (earliest suitable gap, best gap, tabu search).
Every change lays the plan anew, so a deep queue costs a lot.
"""

from __future__ import annotations

import time
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit
from pydantic import Field

from procure.policies.conservative import due
from procure.policies.fit import Room, make_room
from procure.policies.parameters import Natural, Parameters
from procure.policies.profile import Plan, build_profile, find_start, make_plan, reserve
from procure.policies.timeline import build_timeline, find_nodes, plan_nodes
from procure.simulator.drive import CompiledPolicy, Policy, kernel_loop
from procure.simulator.state import FAR, WAIT, State


class GapsOwn(NamedTuple):
    """What a schedule-based policy has of its own in a run; `Plan.jobs` is the plan's order."""

    notes: np.ndarray  # int64[4]
    plan: Plan
    room: Room


N_KEPT, N_SEEN, CHANGES, DRAWN = range(4)
"""What the notes hold: the plan's length, the jobs submitted and the changes that it knows, random numbers."""
POSITIONS = 20
"""Places from the plan's end that a new job, or one that is moved, is tried at."""
FLOOR = 10.0
"""Seconds, as in the bounded slowdown."""


@njit(cache=True, nogil=True)
def lay_plan(state, plan, order):
    """Give every job of an order its earliest gap; returns the sum of the expected bounded slowdowns."""
    total = 0.0
    if state.pool:
        build_profile(state, plan.profile)
        for job in order:
            start = find_start(plan.profile, state.n_nodes[job], state.estimate[job], 2 * FAR, 2 * FAR)
            reserve(state, plan, job, start)
    else:
        line = build_timeline(state)
        for job in order:
            plan_nodes(state, plan, line, job, find_nodes(state, line, job, 2 * FAR, line.everywhere))
    for job in order:
        run = float(state.estimate[job])
        total += max(1.0, (plan.start[job] - state.submit[job] + run) / max(run, FLOOR))
    return total


@njit(cache=True, nogil=True)
def _insert(order, job, place):
    new = np.empty(order.size + 1, np.int64)
    new[:place] = order[:place]
    new[place] = job
    new[place + 1 :] = order[place:]
    return new


@njit(cache=True, nogil=True)
def insert_at_best(state, plan, order, job):
    """Put a job where the plan's expected slowdowns are least, trying the last places; ties go to the back."""
    best, least = _insert(order, job, order.size), np.inf
    for place in range(order.size, max(-1, order.size - POSITIONS), -1):
        tried = _insert(order, job, place)
        total = lay_plan(state, plan, tried)
        if total < least:
            best, least = tried, total
    return best


@njit(cache=True, nogil=True)
def follow_plan(state, own, best):
    """Bring the plan up to what happened; returns whether anything did."""
    notes, plan = own.notes, own.plan
    if notes[CHANGES] == state.n_changes[0] + 1 and notes[N_SEEN] == state.n_submitted[0]:
        return False
    kept = 0
    for i in range(notes[N_KEPT]):
        if state.start[plan.jobs[i]] < 0:
            plan.jobs[kept] = plan.jobs[i]
            kept += 1
    order = plan.jobs[:kept].copy()
    n_jobs = state.submit.size
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        if job >= notes[N_SEEN]:
            order = insert_at_best(state, plan, order, job) if best else _insert(order, job, order.size)
        job = state.next_waiting[job]
    keep_plan(state, own, order)
    return True


@njit(cache=True, nogil=True)
def keep_plan(state, own, order):
    """Make an order the plan."""
    lay_plan(state, own.plan, order)
    own.plan.jobs[: order.size] = order
    own.notes[N_KEPT] = order.size
    own.notes[N_SEEN] = state.n_submitted[0]
    own.notes[CHANGES] = state.n_changes[0] + 1


@njit(cache=True, nogil=True)
def earliest_gap(state, own):
    """Give each submitted job the earliest gap behind the plans of those before it.

    When something changes, all plans are made anew in the order of submission; unlike conservative
    backfilling, no promise is kept.
    """
    follow_plan(state, own, False)
    return due(state, own.plan, own.room)


@njit(cache=True, nogil=True)
def best_gap(state, own):
    """Insert each submitted job where the plan's expected bounded slowdowns become least."""
    follow_plan(state, own, True)
    return due(state, own.plan, own.room)


@njit(cache=True, nogil=True)
def improve(state, plan, order, place):
    """Move the job at a place to its best place; returns the order and its expected slowdowns."""
    others = np.concatenate((order[:place], order[place + 1 :]))
    moved = insert_at_best(state, plan, others, order[place])
    return moved, lay_plan(state, plan, moved)


def tabu_search(state, own, rounds, seconds):
    """Best gap, then move random jobs to better places for ``rounds`` rounds or ``seconds`` a moment.

    A job that was just moved is not moved again for min(10, half of the plan) rounds. A limit in
    seconds makes the schedule depend on the speed of the computer; in rounds it does not.
    """
    if state.n_waiting[0] == 0:
        return WAIT
    if follow_plan(state, own, True) and state.n_waiting[0] > 1:
        _search(state, own, rounds, seconds)
    return due(state, own.plan, own.room)


def _search(state, own, rounds: int, seconds: float) -> None:
    began = time.perf_counter()
    n = int(own.notes[N_KEPT])
    order = own.plan.jobs[:n].copy()
    least = lay_plan(state, own.plan, order)
    own.notes[DRAWN] += 1
    rng = np.random.default_rng(int(own.notes[DRAWN]))
    tabu: list[int] = []
    for _ in range(rounds):
        if seconds and time.perf_counter() - began > seconds:
            break
        place = int(rng.integers(n))
        job = int(order[place])
        if job in tabu:
            continue
        tabu = [*tabu, job][-max(1, min(10, n // 2)) :]
        moved, total = improve(state, own.plan, order, place)
        if total < least:
            order, least = moved, total
    keep_plan(state, own, order)


@njit(cache=True, nogil=True)
def earliest_gap_loop(world, state, own):
    """The compiled loop of `earliest_gap`."""
    return kernel_loop(world, state, earliest_gap, own)


@njit(cache=True, nogil=True)
def best_gap_loop(world, state, own):
    """The compiled loop of `best_gap`."""
    return kernel_loop(world, state, best_gap, own)


def _own(state: State) -> GapsOwn:
    return GapsOwn(np.zeros(4, np.int64), make_plan(state), make_room(state, "first"))


class EarliestGap(Parameters):
    """Parameters of `earliest_gap`."""

    rule: ClassVar = earliest_gap

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        return CompiledPolicy(earliest_gap, earliest_gap_loop, _own(state))


class BestGap(Parameters):
    """Parameters of `best_gap`."""

    rule: ClassVar = best_gap

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        return CompiledPolicy(best_gap, best_gap_loop, _own(state))


class TabuSearch(Parameters):
    """Parameters of `tabu_search`."""

    rule: ClassVar = tabu_search

    rounds: int = Field(50, ge=0, description="moves that are tried per moment")
    seconds: Natural = Field(0.0, description="limit of the search per moment, s; 0 = none")

    def make(self, state: State) -> Policy:
        """Make the policy of one run."""
        own = _own(state)

        def decide(state: State) -> tuple[int, np.ndarray]:
            job = tabu_search(state, own, self.rounds, self.seconds)
            return job, state.chosen[: 0 if job == WAIT else state.n_nodes[job]]

        return decide
