"""Schedule-based policies: keep an ordered plan of all waiting jobs, and start whose planned moment has come.

A plan is an order; each job in turn takes the earliest gap that the running jobs and those before it
leave. After Klusáček and Rudová's schedule-based policies (earliest suitable gap, best gap, tabu search).
Every change lays the plan anew, so a deep queue costs a lot.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from procure.policies.conservative import due, first_since
from procure.policies.parameters import Parameters
from procure.policies.place import Nodes, make_fit, make_nodes
from procure.policies.profile import Plan, begin_plan, drop_past_steps, earliest, make_plan, promise, withdraw
from procure.settings import MOST_COUNTED
from procure.simulator.drive import CompiledPolicy, Policy, answered, compiled
from procure.simulator.kernel import inlined, insert, kernel, part, remove
from procure.simulator.state import FAR, WAIT, State
from procure.simulator.tasks import binds


class GapsOwn(NamedTuple):
    """What a schedule-based policy has of its own in a run; the first entries of `Plan.jobs` are the plan's order.

    The plan of the first jobs is laid out, and taken back from the last on, so that one that differs in its
    last places alone costs only these.
    """

    notes: np.ndarray  # int64[8]
    plan: Plan
    totals: np.ndarray  # float64[n_jobs + 1], expected bounded slowdowns of the first jobs of the plan
    recent: np.ndarray  # int64[10], the jobs that were moved last
    place: Nodes


N_KEPT, N_SEEN, CHANGES, DRAWN, MOMENT, N_SEEN_ENDED, DUE, N_LAID = range(8)
"""What the notes hold: the plan's length, the jobs submitted and the changes that it knows, how many searches
there were, how far it has followed those that ended, which job was answered last, and how many jobs are laid out."""
POSITIONS = 20
"""Places from the plan's end that a new job, or one that is moved, is tried at."""
FLOOR = 10.0
"""Seconds, as in the bounded slowdown."""


@part
def _slowdown(state, plan, job):
    run = float(state.estimate[job])
    return max(1.0, (plan.start[job] - state.submit[job] + run) / max(run, FLOOR))


@part
def _lay_out(state, own, n, least):
    """Let the first ``n`` jobs of the order be laid out, or fewer if their slowdowns reach ``least`` before."""
    notes, order, totals = own.notes, own.plan.jobs, own.totals
    while notes[N_LAID] > n:
        notes[N_LAID] -= 1
        withdraw(state, own.plan, order[notes[N_LAID]])
    while notes[N_LAID] < n and totals[notes[N_LAID]] < least:
        i = notes[N_LAID]
        promise(state, own.plan, order[i], earliest(state, own.plan, order[i], 2 * FAR, 2 * FAR))
        totals[i + 1] = totals[i] + _slowdown(state, own.plan, order[i])
        notes[N_LAID] += 1


@part
def _insert(state, own, job, n, place, least):
    """Put a job at a place of an order of ``n`` and lay that out up to ``least``; returns the slowdowns."""
    _lay_out(state, own, min(place, own.notes[N_LAID]), np.inf)
    insert(own.plan.jobs, n, place, job)
    _lay_out(state, own, n + 1, least)
    return own.totals[own.notes[N_LAID]]


@part
def _take_out(state, own, n, place):
    """Take the job at a place from an order of ``n``; those before it stay laid out."""
    _lay_out(state, own, min(place, own.notes[N_LAID]), np.inf)
    remove(own.plan.jobs, n, place)


@part
def _best_place(state, own, job, n, least, but):
    """Return where among the last places of the order a job makes the expected slowdowns least; ties go to the back.

    −1 if nowhere below ``least``; the place ``but`` is not tried.
    """
    best = -1
    for place in range(n, max(0, n - POSITIONS + 1) - 1, -1):
        if place != but:
            total = _insert(state, own, job, n, place, least)
            if total < least:
                best, least = place, total
            _take_out(state, own, n + 1, place)
    return best


@part
def _stay(state, order, job):
    """Say whether a job that starts leaves those planned before it where they were.

    Where a number of nodes is limited, a node that is not used decides, too, so one that is taken may change all.
    """
    i = 0
    while order[i] != job:
        if binds(state.tasks, state.shape[order[i]]):
            return False
        i += 1
    return True


@inlined
def _foreseen(state, notes, order):
    """Say whether all that happened since the last call is that the answered job started, and others ended when due."""
    if notes[MOMENT] != state.now[0]:
        notes[MOMENT] = state.now[0]
        notes[N_SEEN_ENDED] = 0
    on_time = True
    for i in range(notes[N_SEEN_ENDED], state.n_ended[0]):
        on_time = on_time and state.expected_end[state.ended[i]] == state.now[0]
    changes = notes[CHANGES] + state.n_ended[0] - notes[N_SEEN_ENDED]
    if notes[DUE] >= 0:
        on_time = on_time and state.start[notes[DUE]] >= 0 and _stay(state, order, notes[DUE])
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
    foreseen = _foreseen(state, notes, order)
    n = 0
    for i in range(notes[N_KEPT]):
        if state.start[order[i]] < 0:
            order[n] = order[i]
            totals[n + 1] = totals[n] + _slowdown(state, own.plan, order[n])
            n += 1
    if foreseen and state.pool:
        drop_past_steps(own.plan.profile, state.now[0])
    elif not foreseen:
        begin_plan(state, own.plan)
    notes[N_LAID] = n if foreseen else 0
    _lay_out(state, own, n, np.inf)
    job = first_since(state, notes[N_SEEN])
    while job != n_jobs:
        _insert(state, own, job, n, _best_place(state, own, job, n, np.inf, -1) if best else n, np.inf)
        n += 1
        job = state.next_waiting[job]
    notes[N_KEPT], notes[N_SEEN] = n, state.n_submitted[0]
    return True


@kernel
def _answer(state, own):
    own.notes[DUE] = due(state, own.plan, own.place)
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
        _take_out(state, own, n, place)
        _lay_out(state, own, n - 1, np.inf)
        better = _best_place(state, own, job, n - 1, least, place)
        _insert(state, own, job, n - 1, better if better >= 0 else place, np.inf)


@part
def _is_among(recent, n, job):
    for i in range(n):  # noqa: SIM110 - a kernel has no generators
        if recent[i] == job:
            return True
    return False


def tabu_search(state, own, rounds):
    """Best gap, then move random jobs to better places for ``rounds`` rounds.

    A job that was just moved is not moved again for min(10, half of the plan) rounds.
    """
    if state.n_waiting[0] == 0:
        return WAIT
    if follow_plan(state, own, True) and state.n_waiting[0] > 1:
        own.notes[DRAWN] += 1
        own.recent[:] = -1
        rng = np.random.default_rng(int(own.notes[DRAWN]))
        search(state, own, rng.integers(int(own.notes[N_KEPT]), size=rounds))
    return _answer(state, own)


def _own(state: State) -> GapsOwn:
    n_jobs = len(state.submit)
    notes = np.zeros(8, np.int64)
    notes[DUE], notes[CHANGES] = WAIT, -FAR
    place = make_nodes(state, make_fit(state, "first"))
    return GapsOwn(notes, make_plan(state), np.zeros(n_jobs + 1), np.full(10, -1, np.int64), place)


class EarliestGap(Parameters):
    """Parameters of `earliest_gap`."""

    takes_tasks: ClassVar[bool] = True
    rule: ClassVar = earliest_gap

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        return compiled(type(self).rule, _own(state))


class BestGap(EarliestGap):
    """Parameters of `best_gap`."""

    rule: ClassVar = best_gap


class TabuSearch(Parameters):
    """Parameters of `tabu_search`."""

    takes_tasks: ClassVar[bool] = True
    rule: ClassVar = tabu_search

    rounds: int = Field(50, ge=0, le=MOST_COUNTED, description="moves that are tried per moment")

    def make(self, state: State) -> Policy:
        """Make the policy of one run."""
        own = _own(state)
        return lambda state: answered(state, tabu_search(state, own, self.rounds))
