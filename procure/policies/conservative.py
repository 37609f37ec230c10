"""Conservative backfilling: every job is promised a start when it is submitted, and none is ever delayed.

Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates" (2001).
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit

from procure.policies.fit import Room, choose, make_room
from procure.policies.order import Order, Ordered, lay_out
from procure.policies.profile import (
    Plan,
    build_profile,
    drop_past,
    find_start,
    make_plan,
    reserve,
    take,
    unreserve,
)
from procure.policies.timeline import build_timeline, find_nodes, hold_plan, plan_nodes
from procure.simulator.drive import CompiledPolicy, kernel_loop
from procure.simulator.state import FAR, WAIT, State


class ConservativeOwn(NamedTuple):
    """What conservative backfilling has of its own in a run."""

    order: Order
    room: Room
    notes: np.ndarray  # int64[5]
    plan: Plan  # the promises


MOMENT, N_SEEN_ENDED, N_PLANNED, N_CORRECTED, BEGUN = range(5)
"""What the notes hold: how far the plan has followed what happened."""


@njit(cache=True, nogil=True)
def conservative(state, own):
    """Start the jobs whose promised moment has come; others overtake only where no promise suffers.

    A submitted job is promised the earliest start that delays no earlier promise. When a job ends
    before its expected end, the promises are moved forward one by one in the order, as far as the
    others leave room, until none can move. Should a job outlast its estimate, all promises are made
    anew in the order: only then can one be broken. In a pool a promise is a number of nodes, on
    shared or unlike nodes it names them.
    """
    follow(state, own)
    return due(state, own.plan, own.room)


@njit(cache=True, nogil=True)
def due(state, plan, room):
    """Return the first job in the queue that is planned to start now, or WAIT."""
    n_jobs = state.submit.size
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        if plan.start[job] == state.now[0]:
            if state.pool:
                choose(state, job, room, False)
            else:
                first = state.node_first[job]
                for i in range(state.n_nodes[job]):
                    state.chosen[i] = plan.nodes[first + i]
            return job
        job = state.next_waiting[job]
    return WAIT


@njit(cache=True, nogil=True)
def follow(state, own):
    """Bring the promises up to what ended, was submitted or outlasted its estimate since the last call."""
    notes = own.notes
    if notes[MOMENT] != state.now[0]:
        notes[MOMENT] = state.now[0]
        notes[N_SEEN_ENDED] = 0
    anew = notes[BEGUN] == 0 or notes[N_CORRECTED] != state.n_corrected[0]
    early = state.now[0]
    for i in range(notes[N_SEEN_ENDED], state.n_ended[0]):
        expected = state.expected_end[state.ended[i]]
        early = max(early, expected)
        anew = anew or expected < state.now[0]
    arrived = state.n_submitted[0] > notes[N_PLANNED]
    if state.pool:
        _follow_in_pool(state, own, anew, early)
    elif anew or arrived or early > state.now[0]:
        _follow_on_nodes(state, own, anew, early)
    notes[BEGUN] = 1
    notes[N_CORRECTED] = state.n_corrected[0]
    notes[N_SEEN_ENDED] = state.n_ended[0]
    notes[N_PLANNED] = state.n_submitted[0]


@njit(cache=True, nogil=True)
def _first_unplanned(state, notes):
    """Return the first waiting job that was submitted since the last call, or the number of jobs."""
    n_jobs = state.submit.size
    job = n_jobs
    before = state.previous_waiting[n_jobs]
    while before != n_jobs and before >= notes[N_PLANNED]:
        job = before
        before = state.previous_waiting[before]
    return job


@njit(cache=True, nogil=True)
def _follow_in_pool(state, own, anew, early):
    notes, plan, now = own.notes, own.plan, state.now[0]
    if anew:
        build_profile(state, plan.profile)
        n = lay_out(state, own.order, plan.jobs)
        for i in range(n):
            job = plan.jobs[i]
            start = find_start(plan.profile, state.n_nodes[job], state.estimate[job], 2 * FAR, 2 * FAR)
            reserve(state, plan, job, start)
        return
    drop_past(plan.profile, now)
    for i in range(notes[N_SEEN_ENDED], state.n_ended[0]):
        job = state.ended[i]
        take(plan.profile, now, state.expected_end[job], -state.n_nodes[job])
    if early > now:
        _move_forward(state, own, early)
    job = _first_unplanned(state, notes)
    while job != state.submit.size:
        start = find_start(plan.profile, state.n_nodes[job], state.estimate[job], 2 * FAR, 2 * FAR)
        reserve(state, plan, job, start)
        job = state.next_waiting[job]


@njit(cache=True, nogil=True)
def _move_forward(state, own, freed_until):
    """Move promises forward in the order until none can move; nodes were freed before ``freed_until``."""
    plan = own.plan
    n = lay_out(state, own.order, plan.jobs)
    while freed_until > state.now[0]:
        below = freed_until
        freed_until = state.now[0]
        for i in range(n):
            job = plan.jobs[i]
            planned = plan.start[job]
            if planned < 0:
                continue
            start = find_start(
                plan.profile, state.n_nodes[job], state.estimate[job], planned, max(below, freed_until)
            )
            if start >= 0:
                unreserve(state, plan, job)
                reserve(state, plan, job, start)
                freed_until = max(freed_until, min(planned + state.estimate[job], FAR))


@njit(cache=True, nogil=True)
def _promised(state, plan, n):
    """Return the timeline of the running jobs and of all promises."""
    line = build_timeline(state)
    for i in range(n):
        hold_plan(state, plan, line, plan.jobs[i], -1)
    return line


@njit(cache=True, nogil=True)
def _mark(state, job, node_list, marked):
    for i in range(state.node_first[job], state.node_first[job + 1]):
        marked[node_list[i]] = True


@njit(cache=True, nogil=True)
def _follow_on_nodes(state, own, anew, early):
    plan = own.plan
    n = lay_out(state, own.order, plan.jobs)
    if anew:
        for i in range(n):
            plan.start[plan.jobs[i]] = -1
    line = _promised(state, plan, n)
    movable = not anew and early > state.now[0]
    freed = np.zeros(state.free_cpus.size, np.bool_)
    for i in range(own.notes[N_SEEN_ENDED], state.n_ended[0]):
        _mark(state, state.ended[i], state.node_list, freed)
    while movable:
        movable = False
        freed_next = np.zeros_like(freed)
        for i in range(n):
            job = plan.jobs[i]
            planned = plan.start[job]
            if planned <= state.now[0]:
                continue
            hold_plan(state, plan, line, job, 1)
            # Nothing could move before; so one node earlier than planned can only be one that was freed.
            among = freed if state.n_nodes[job] == 1 else line.everywhere
            start = find_nodes(state, line, job, planned - 1, among)
            if start >= 0:
                _mark(state, job, plan.nodes, freed)
                _mark(state, job, plan.nodes, freed_next)
                plan_nodes(state, plan, line, job, start)
                movable = True
            else:
                hold_plan(state, plan, line, job, -1)
        freed = freed_next
        if movable:
            line = _promised(state, plan, n)
    for i in range(n):
        job = plan.jobs[i]
        if plan.start[job] < 0:
            start = find_nodes(state, line, job, 2 * FAR, line.everywhere)
            plan_nodes(state, plan, line, job, start)


@njit(cache=True, nogil=True)
def conservative_loop(world, state, own):
    """The compiled loop of `conservative`."""
    return kernel_loop(world, state, conservative, own)


class Conservative(Ordered):
    """Parameters of `conservative`; the order is that in which promises are moved or made anew."""

    rule: ClassVar = conservative

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        notes, room = np.zeros(5, np.int64), make_room(state, "first")
        own = ConservativeOwn(self.numbered(self.order), room, notes, make_plan(state))
        return CompiledPolicy(conservative, conservative_loop, own)
