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

from procure.policies.conservative import due, first_since
from procure.policies.parameters import Natural, Parameters
from procure.policies.place import Nodes, make_fit, make_nodes
from procure.policies.profile import Plan, begin_plan, drop_past_steps, earliest, make_plan, promise, withdraw
from procure.settings import MOST_COUNTED
from procure.simulator.arrays import filled
from procure.simulator.drive import CompiledPolicy, Policy, answered, compiled
from procure.simulator.kernel import inlined, insert, kernel, part, remove
from procure.simulator.state import FAR, WAIT, State
from procure.simulator.tasks import binds, n_answered, n_held, units_at, units_to


class GapsOwn(NamedTuple):
    """What a schedule-based policy has of its own in a run; the first entries of `Plan.jobs` are the plan's order.

    The plan of the first jobs is laid out, and taken back from the last on, so that one that differs in its
    last places alone costs only these.
    """

    notes: np.ndarray  # int64[7]
    plan: Plan
    totals: np.ndarray  # float64[n_jobs + 1], expected bounded slowdowns of the first jobs of the plan
    starts: np.ndarray  # int64[n_jobs], s, the gap of each job as it was planned last
    slowdowns: np.ndarray  # float64[n_jobs], its expected bounded slowdown there
    kept: np.ndarray  # int64[n_jobs], room for an order
    recent: np.ndarray  # int64[10], the jobs that were moved last
    place: Nodes


N_KEPT, N_SEEN, CHANGES, DRAWN, MOMENT, N_SEEN_ENDED, DUE = range(7)
"""What the notes hold: the plan's length, the jobs submitted and the changes that it knows, how many searches
there were, how far it has followed those that ended, and which job was answered last."""
POSITIONS = 20
"""Places from the plan's end that a new job, or one that is moved, is tried at."""
FLOOR = 10.0
"""Seconds, as in the bounded slowdown."""


@part
def _find(state, own, job):
    """Return a job's earliest gap, s; on nodes, those stand in ``chosen`` then."""
    return earliest(state, own.plan, job, 2 * FAR, 2 * FAR)


@part
def _hold(state, own, job, start):
    """Plan a job at the gap that `_find` found; returns its expected bounded slowdown."""
    promise(state, own.plan, job, start)
    own.starts[job] = start
    own.slowdowns[job] = _slowdown(state, own.plan, job)
    return own.slowdowns[job]


@part
def _stands(state, own, job, start):
    """Say whether the gap that `_find` found is where the job was planned last."""
    plan, tasks, same, first = own.plan, state.tasks, own.starts[job] == start, state.node_first[job]
    n = n_answered(state, tasks, job)
    if state.pool or n != n_held(state, tasks, job):
        return same and state.pool
    for i in range(n):
        node = state.chosen[i]
        same = same and plan.nodes[first + i] == node and units_at(tasks, first + i) == units_to(tasks, node)
    return same


@part
def _slowdown(state, plan, job):
    run = float(state.estimate[job])
    return max(1.0, (plan.start[job] - state.submit[job] + run) / max(run, FLOOR))


@part
def _lay(state, own, first, n):
    """Plan the jobs of the order from a place on."""
    for i in range(first, n):
        job = own.plan.jobs[i]
        own.totals[i + 1] = own.totals[i] + _hold(state, own, job, _find(state, own, job))


@part
def _unlay(state, own, first, n):
    """Take back the plans of the jobs of the order from a place on."""
    for i in range(first, n):
        withdraw(state, own.plan, own.plan.jobs[i])


@part
def _try(state, own, job, place, n, reached, least):
    """Find the plan's expected slowdowns with a job at a place.

    What stands before the place is laid out, and so it is afterwards. If the job and the one behind it get
    the gaps that they had when it was tried one place farther back, so does everyone behind them.
    Returns the slowdowns, at least ``least`` once they reach that, and up to where in the order they were
    added up; ``reached`` is that place of the trial one place farther back, −1 if there was none.
    """
    order, total = own.plan.jobs, own.totals[place]
    start = _find(state, own, job)
    same = reached >= 0 and _stands(state, own, job, start)
    total += _hold(state, own, job, start)
    end = place
    while end < n and total < least:
        start = _find(state, own, order[end])
        same = same and _stands(state, own, order[end], start)
        total += _hold(state, own, order[end], start)
        end += 1
        if same:
            break
    _unlay(state, own, place, end)
    withdraw(state, own.plan, job)
    if not same or end == place:
        return total, end
    for i in range(end, reached):
        total += own.slowdowns[order[i]]
    return (total if reached == n else max(total, least)), reached


@part
def _best_place(state, own, job, n, least, but):
    """Return where among the last places of the order a job makes the expected slowdowns least; ties go to the back.

    −1 if nowhere below ``least``; the place ``but`` is not tried. What stands before the first place that
    is tried is laid out then.
    """
    place, reached = -1, -1
    for tried in range(n, _first_tried(n) - 1, -1):
        if tried < n:
            withdraw(state, own.plan, own.plan.jobs[tried])
        if tried == but:
            reached = -1
            continue
        total, reached = _try(state, own, job, tried, n, reached, least)
        if total < least:
            place, least = tried, total
    return place


@part
def _first_tried(n):
    return max(0, n - POSITIONS + 1)


@part
def _insert(state, own, job, n, place, laid):
    """Put a job at a place of the order, whose first ``laid`` jobs are laid out, and lay out all."""
    insert(own.plan.jobs, n, place, job)
    _lay(state, own, laid, n + 1)


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
        _lay(state, own, 0, n)
    job = first_since(state, notes[N_SEEN])
    while job != n_jobs:
        place, laid = n, n
        if best:
            place, laid = _best_place(state, own, job, n, np.inf, -1), _first_tried(n)
        _insert(state, own, job, n, place, laid)
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
        for i in range(n):
            own.kept[i] = order[i]
        _unlay(state, own, place, n)
        remove(order, n, place)
        _lay(state, own, place, n - 1)
        better = _best_place(state, own, job, n - 1, least, place)
        if better >= 0:
            _insert(state, own, job, n - 1, better, _first_tried(n - 1))
        else:
            _put_back(state, own, place, n)


@part
def _is_among(recent, n, job):
    for i in range(n):  # noqa: SIM110 - a kernel has no generators
        if recent[i] == job:
            return True
    return False


@part
def _put_back(state, own, place, n):
    """Make the kept order, which differs from a place on, the plan again after `_best_place`."""
    laid = _first_tried(n - 1)
    _unlay(state, own, place, laid)
    for i in range(place, n):
        own.plan.jobs[i] = own.kept[i]
    _lay(state, own, min(place, laid), n)


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


def _own(state: State) -> GapsOwn:
    n_jobs = len(state.submit)
    notes = np.zeros(7, np.int64)
    notes[DUE], notes[CHANGES] = WAIT, -FAR
    return GapsOwn(
        notes=notes,
        plan=make_plan(state),
        totals=np.zeros(n_jobs + 1),
        slowdowns=np.zeros(n_jobs),
        **filled(n_jobs, starts=-1, kept=0),
        **filled(10, recent=-1),
        place=make_nodes(state, make_fit(state, "first")),
    )


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
    seconds: Natural = Field(0.0, description="limit of the search per moment, s; 0 = none")

    def make(self, state: State) -> Policy:
        """Make the policy of one run."""
        own = _own(state)

        return lambda state: answered(state, tabu_search(state, own, self.rounds, self.seconds))
