"""Conservative backfilling: every job is promised a start when it is submitted, and none is ever delayed.

Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates" (2001).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from procure.policies.fit import choose
from procure.policies.order import lay_out
from procure.policies.profile import build_profile, drop_past, find_start, reserve, take, unreserve
from procure.policies.timeline import build_timeline, find_nodes, hold_plan, plan_nodes
from procure.simulator.state import FAR, WAIT
from procure.simulator.steps import OK, STUCK, advance, place

MOMENT, N_SEEN_ENDED, N_PLANNED, N_CORRECTED, BEGUN = range(5)
"""What the notes hold: how far the plan has followed what happened."""


@njit(cache=True, nogil=True)
def conservative(state):
    """Start the jobs whose promised moment has come; others overtake only where no promise suffers.

    A submitted job is promised the earliest start that delays no earlier promise. When a job ends
    before its expected end, the promises are moved forward one by one in the order, as far as the
    others leave room, until none can move. Should a job outlast its estimate, all promises are made
    anew in the order: only then can one be broken. In a pool a promise is a number of nodes, on
    shared or unlike nodes it names them.
    """
    follow(state, state.options.order)
    return due(state)


@njit(cache=True, nogil=True)
def due(state):
    """Return the first job in the queue that is planned to start now, or WAIT."""
    n_jobs = state.submit.size
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        if state.reserved[job] == state.now[0]:
            if state.pool:
                choose(state, job, False)
            else:
                first = state.node_first[job]
                for i in range(state.n_nodes[job]):
                    state.chosen[i] = state.node_list[first + i]
            return job, state.chosen[: state.n_nodes[job]]
        job = state.next_waiting[job]
    return WAIT, state.chosen[:0]


@njit(cache=True, nogil=True)
def follow(state, order):
    """Bring the promises up to what ended, was submitted or outlasted its estimate since the last call."""
    notes = state.notes
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
        _follow_in_pool(state, order, anew, early)
    elif anew or arrived or early > state.now[0]:
        _follow_on_nodes(state, order, anew, early)
    notes[BEGUN] = 1
    notes[N_CORRECTED] = state.n_corrected[0]
    notes[N_SEEN_ENDED] = state.n_ended[0]
    notes[N_PLANNED] = state.n_submitted[0]


@njit(cache=True, nogil=True)
def _first_unplanned(state):
    """Return the first waiting job that was submitted since the last call, or the number of jobs."""
    n_jobs = state.submit.size
    job = n_jobs
    before = state.previous_waiting[n_jobs]
    while before != n_jobs and before >= state.notes[N_PLANNED]:
        job = before
        before = state.previous_waiting[before]
    return job


@njit(cache=True, nogil=True)
def _follow_in_pool(state, order, anew, early):
    notes, now = state.notes, state.now[0]
    if anew:
        build_profile(state)
        n = lay_out(state, order)
        for i in range(n):
            job = state.plan[i]
            start = find_start(state.profile, state.n_nodes[job], state.estimate[job], 2 * FAR, 2 * FAR)
            reserve(state, job, start)
        return
    drop_past(state.profile, now)
    for i in range(notes[N_SEEN_ENDED], state.n_ended[0]):
        job = state.ended[i]
        take(state.profile, now, state.expected_end[job], -state.n_nodes[job])
    if early > now:
        _move_forward(state, order, early)
    job = _first_unplanned(state)
    while job != state.submit.size:
        start = find_start(state.profile, state.n_nodes[job], state.estimate[job], 2 * FAR, 2 * FAR)
        reserve(state, job, start)
        job = state.next_waiting[job]


@njit(cache=True, nogil=True)
def _move_forward(state, order, freed_until):
    """Move promises forward in the order until none can move; nodes were freed before ``freed_until``."""
    n = lay_out(state, order)
    while freed_until > state.now[0]:
        below = freed_until
        freed_until = state.now[0]
        for i in range(n):
            job = state.plan[i]
            planned = state.reserved[job]
            if planned < 0:
                continue
            start = find_start(
                state.profile, state.n_nodes[job], state.estimate[job], planned, max(below, freed_until)
            )
            if start >= 0:
                unreserve(state, job)
                reserve(state, job, start)
                freed_until = max(freed_until, min(planned + state.estimate[job], FAR))


@njit(cache=True, nogil=True)
def _promised(state, n):
    """Return the timeline of the running jobs and of all promises."""
    line = build_timeline(state)
    for i in range(n):
        hold_plan(state, line, state.plan[i], -1)
    return line


@njit(cache=True, nogil=True)
def _mark(state, job, nodes):
    for i in range(state.node_first[job], state.node_first[job + 1]):
        nodes[state.node_list[i]] = True


@njit(cache=True, nogil=True)
def _follow_on_nodes(state, order, anew, early):
    n = lay_out(state, order)
    if anew:
        for i in range(n):
            state.reserved[state.plan[i]] = -1
    line = _promised(state, n)
    movable = not anew and early > state.now[0]
    freed = np.zeros(state.free_cpus.size, np.bool_)
    for i in range(state.notes[N_SEEN_ENDED], state.n_ended[0]):
        _mark(state, state.ended[i], freed)
    while movable:
        movable = False
        freed_next = np.zeros_like(freed)
        for i in range(n):
            job = state.plan[i]
            planned = state.reserved[job]
            if planned <= state.now[0]:
                continue
            hold_plan(state, line, job, 1)
            # Nothing could move before; so one node earlier than planned can only be one that was freed.
            among = freed if state.n_nodes[job] == 1 else line.everywhere
            start = find_nodes(state, line, job, planned - 1, among)
            if start >= 0:
                _mark(state, job, freed)
                _mark(state, job, freed_next)
                plan_nodes(state, line, job, start)
                movable = True
            else:
                hold_plan(state, line, job, -1)
        freed = freed_next
        if movable:
            line = _promised(state, n)
    for i in range(n):
        job = state.plan[i]
        if state.reserved[job] < 0:
            start = find_nodes(state, line, job, 2 * FAR, line.everywhere)
            plan_nodes(state, line, job, start)


@njit(cache=True, nogil=True)
def conservative_loop(world, state):
    """The compiled loop of `conservative`."""
    while advance(world, state):
        job, nodes = conservative(state)
        while job != WAIT:
            status = place(world, state, job, nodes)
            if status != OK:
                return status, job, nodes
            job, nodes = conservative(state)
    return (STUCK if state.n_waiting[0] > 0 else OK), WAIT, state.chosen[:0]
