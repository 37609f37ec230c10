"""Schedule-based policies: keep an ordered plan of all waiting jobs, and start whose planned moment has come.

A plan is an order; each job in turn takes the earliest gap that the running jobs and those before it
leave. After Klusáček and Rudová's schedule-based policies (earliest suitable gap, best gap, tabu search).
Every change lays the plan anew, so a deep queue costs a lot.
"""

from __future__ import annotations

import time
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from procure.policies.conservative import due
from procure.policies.fit import Room, make_room
from procure.policies.parameters import Natural, Parameters
from procure.policies.profile import Plan, build_profile, drop_past, find_start, make_plan, reserve, unreserve
from procure.policies.timeline import (
    Timeline,
    find_nodes,
    hold_plan,
    lay_running,
    make_timeline,
    plan_nodes,
)
from procure.simulator.drive import CompiledPolicy, Policy, kernel_loop
from procure.simulator.kernel import kernel
from procure.simulator.state import FAR, WAIT, State


class GapsOwn(NamedTuple):
    """What a schedule-based policy has of its own in a run; the first entries of `Plan.jobs` are the plan's order.

    The plan of the first jobs is laid out, and taken back from the last on, so that one that differs in its
    last places alone costs only these.
    """

    notes: np.ndarray  # int64[7]
    plan: Plan
    line: Timeline  # of the running jobs and the plan; not used in a pool
    totals: np.ndarray  # float64[n_jobs + 1], expected bounded slowdowns of the first jobs of the plan
    kept: np.ndarray  # int64[n_jobs], room for an order
    recent: np.ndarray  # int64[10], the jobs that were moved last
    room: Room


N_KEPT, N_SEEN, CHANGES, DRAWN, MOMENT, N_SEEN_ENDED, DUE = range(7)
"""What the notes hold: the plan's length, the jobs submitted and the changes that it knows, how many searches
there were, how far it has followed those that ended, and which job was answered last."""
POSITIONS = 20
"""Places from the plan's end that a new job, or one that is moved, is tried at."""
FLOOR = 10.0
"""Seconds, as in the bounded slowdown."""


@kernel
def _plan(state, own, job, total):
    """Plan a job at its earliest gap; returns ``total`` with its expected bounded slowdown."""
    plan = own.plan
    if state.pool:
        start = find_start(plan.profile, state.n_nodes[job], state.estimate[job], 2 * FAR, 2 * FAR)
        reserve(state, plan, job, start)
    else:
        plan_nodes(state, plan, own.line, job, find_nodes(state, own.line, job, 2 * FAR))
    return total + _slowdown(state, plan, job)


@kernel
def _slowdown(state, plan, job):
    run = float(state.estimate[job])
    return max(1.0, (plan.start[job] - state.submit[job] + run) / max(run, FLOOR))


@kernel
def _take_back(state, own, job):
    if state.pool:
        unreserve(state, own.plan, job)
    else:
        hold_plan(state, own.plan, own.line, job, 1)


@kernel
def _lay(state, own, first, n):
    """Plan the jobs of the order from a place on."""
    for i in range(first, n):
        own.totals[i + 1] = _plan(state, own, own.plan.jobs[i], own.totals[i])


@kernel
def _unlay(state, own, first, n):
    """Take back the plans of the jobs of the order from a place on."""
    for i in range(first, n):
        _take_back(state, own, own.plan.jobs[i])


@kernel
def _try(state, own, job, place, n, least):
    """Return the plan's expected slowdowns with a job at a place; once they reach ``least``, at least that.

    What stands before the place is laid out, and so it is afterwards.
    """
    order = own.plan.jobs
    total = _plan(state, own, job, own.totals[place])
    end = place
    while end < n and total < least:
        total = _plan(state, own, order[end], total)
        end += 1
    _unlay(state, own, place, end)
    _take_back(state, own, job)
    return total


@kernel
def _insert(state, own, job, n, best):
    """Put a job behind the ``n`` of the order or, with ``best``, where the plan's expected slowdowns are least.

    Then the last places are tried; ties go to the back.
    """
    order, place, first = own.plan.jobs, n, n
    if best:
        least = np.inf
        for tried in range(n, max(-1, n - POSITIONS), -1):
            if tried < n:
                _take_back(state, own, order[tried])
            first = tried
            total = _try(state, own, job, tried, n, least)
            if total < least:
                place, least = tried, total
    for i in range(n, place, -1):
        order[i] = order[i - 1]
    order[place] = job
    _lay(state, own, first, n + 1)


@kernel
def _foreseen(state, notes):
    """Say whether all that happened since the last call is that the answered job started, and others ended when due."""
    if notes[MOMENT] != state.now[0]:
        notes[MOMENT] = state.now[0]
        notes[N_SEEN_ENDED] = 0
    on_time = True
    for i in range(notes[N_SEEN_ENDED], state.n_ended[0]):
        on_time = on_time and state.expected_end[state.ended[i]] == state.now[0]
    changes = notes[CHANGES] + state.n_ended[0] - notes[N_SEEN_ENDED]
    if notes[DUE] >= 0:
        on_time = on_time and state.start[notes[DUE]] >= 0
        changes += 1
    notes[N_SEEN_ENDED] = state.n_ended[0]
    notes[CHANGES] = state.n_changes[0]
    notes[DUE] = WAIT
    return on_time and changes == state.n_changes[0]


@kernel
def follow_plan(state, own, best):
    """Bring the plan up to what happened; returns whether anything did.

    What was foreseen changes no plan: who starts as planned holds what was planned.
    """
    notes, order, totals = own.notes, own.plan.jobs, own.totals
    n_jobs = state.submit.size
    if notes[CHANGES] == state.n_changes[0] and notes[N_SEEN] == state.n_submitted[0]:
        return False
    foreseen = _foreseen(state, notes)
    n = 0
    for i in range(notes[N_KEPT]):
        if state.start[order[i]] < 0:
            order[n] = order[i]
            totals[n + 1] = totals[n] + _slowdown(state, own.plan, order[n])
            n += 1
    if foreseen and state.pool:
        drop_past(own.plan.profile, state.now[0])
    elif not foreseen:
        if state.pool:
            build_profile(state, own.plan.profile)
        else:
            lay_running(state, own.line)
        _lay(state, own, 0, n)
    job = state.previous_waiting[n_jobs]
    while (
        job != n_jobs
        and state.previous_waiting[job] != n_jobs
        and state.previous_waiting[job] >= notes[N_SEEN]
    ):
        job = state.previous_waiting[job]
    while job != n_jobs:
        if job >= notes[N_SEEN]:
            _insert(state, own, job, n, best)
            n += 1
        job = state.next_waiting[job]
    notes[N_KEPT], notes[N_SEEN] = n, state.n_submitted[0]
    return True


@kernel
def _answer(state, own):
    own.notes[DUE] = due(state, own.plan, own.room)
    return own.notes[DUE]


@kernel
def earliest_gap(state, own):
    """Give each submitted job the earliest gap behind the plans of those before it.

    When something changes, all plans are made anew in the order of submission; unlike conservative
    backfilling, no promise is kept.
    """
    follow_plan(state, own, False)
    return _answer(state, own)


@kernel
def best_gap(state, own):
    """Insert each submitted job where the plan's expected bounded slowdowns become least."""
    follow_plan(state, own, True)
    return _answer(state, own)


@kernel
def search(state, own, places):
    """Move the jobs at some places to better ones, each as far as the plan gets better by it.

    A job that was just moved is not moved again for min(10, half of the plan) rounds.
    """
    order, n, recent = own.plan.jobs, own.notes[N_KEPT], own.recent
    n_recent = max(1, min(recent.size, n // 2))
    for k in range(places.size):
        place = places[k]
        job = order[place]
        if _is_among(recent, n_recent, job):
            continue
        for i in range(n_recent - 1, 0, -1):
            recent[i] = recent[i - 1]
        recent[0] = job
        least = own.totals[n]
        for i in range(n):
            own.kept[i] = order[i]
        _unlay(state, own, place, n)
        for i in range(place, n - 1):
            order[i] = order[i + 1]
        _lay(state, own, place, n - 1)
        _insert(state, own, job, n - 1, True)
        if not own.totals[n] < least:
            _put_back(state, own, n)


@kernel
def _is_among(recent, n, job):
    for i in range(n):  # noqa: SIM110 - a kernel has no generators
        if recent[i] == job:
            return True
    return False


@kernel
def _put_back(state, own, n):
    """Make the kept order the plan again."""
    order, first = own.plan.jobs, 0
    while first < n and order[first] == own.kept[first]:
        first += 1
    _unlay(state, own, first, n)
    for i in range(first, n):
        order[i] = own.kept[i]
    _lay(state, own, first, n)


def tabu_search(state, own, rounds, seconds):
    """Best gap, then move random jobs to better places for ``rounds`` rounds or ``seconds`` a moment.

    A job that was just moved is not moved again for min(10, half of the plan) rounds. A limit in
    seconds makes the schedule depend on the speed of the computer; in rounds it does not.
    """
    if state.n_waiting[0] == 0:
        return WAIT
    if follow_plan(state, own, True) and state.n_waiting[0] > 1:
        _search(state, own, rounds, seconds)
    return _answer(state, own)


def _search(state, own, rounds: int, seconds: float) -> None:
    began = time.perf_counter()
    own.notes[DRAWN] += 1
    own.recent[:] = -1
    rng = np.random.default_rng(int(own.notes[DRAWN]))
    places = rng.integers(int(own.notes[N_KEPT]), size=rounds)
    if not seconds:
        search(state, own, places)
        return
    for k in range(rounds):
        if time.perf_counter() - began > seconds:
            break
        search(state, own, places[k : k + 1])


@kernel
def earliest_gap_loop(world, state, own):
    """The compiled loop of `earliest_gap`."""
    return kernel_loop(world, state, earliest_gap, own)


@kernel
def best_gap_loop(world, state, own):
    """The compiled loop of `best_gap`."""
    return kernel_loop(world, state, best_gap, own)


def _own(state: State) -> GapsOwn:
    n_jobs = len(state.submit)
    notes = np.zeros(7, np.int64)
    notes[DUE], notes[CHANGES] = WAIT, -FAR
    return GapsOwn(
        notes=notes,
        plan=make_plan(state),
        line=make_timeline(state, not state.pool),
        totals=np.zeros(n_jobs + 1),
        kept=np.zeros(n_jobs, np.int64),
        recent=np.full(10, -1, np.int64),
        room=make_room(state, "first"),
    )


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
