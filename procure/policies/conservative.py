"""Conservative backfilling: every job is promised a start when it is submitted, and none is ever delayed.

Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates" (2001).
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from procure.policies.fit import Room, choose, make_room
from procure.policies.names import FCFS
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
from procure.policies.timeline import (
    GIVE,
    TAKE,
    Timeline,
    find_nodes,
    hold,
    hold_plan,
    lay_running,
    make_timeline,
    plan_nodes,
    soonest,
)
from procure.simulator.arrays import numbered
from procure.simulator.drive import CompiledPolicy, kernel_loop
from procure.simulator.kernel import inlined, kernel, part
from procure.simulator.state import FAR, NEVER, WAIT, State


class Nodes(NamedTuple):
    """A set of nodes."""

    list: np.ndarray  # int64[n_nodes], the first n entries, ascending
    marked: np.ndarray  # bool[n_nodes], whether a node is among them
    n: np.ndarray  # int64[1]


class ConservativeOwn(NamedTuple):
    """What conservative backfilling has of its own in a run."""

    order: Order
    room: Room
    notes: np.ndarray  # int64[8]
    plan: Plan  # the promises
    line: Timeline  # of the running jobs and all promises; not used in a pool
    freed: Nodes  # on which something was freed since a promise was last tried
    freed_next: Nodes
    alike: np.ndarray  # int64[n_jobs], numbers the jobs of one request and estimate
    bound: np.ndarray  # int64[n_alike], s; earliest moment at which a freed node holds such a job
    bound_of: np.ndarray  # int64[n_alike], the version of the freed nodes that ``bound`` is of


MOMENT, N_SEEN_ENDED, N_PLANNED, N_CORRECTED, BEGUN, CHANGES, DUE, VERSION = range(8)
"""What the notes hold: how far the plan has followed what happened, and which job was answered last."""


@kernel
def conservative(state, own):
    """Start the jobs whose promised moment has come; others overtake only where no promise suffers.

    A submitted job is promised the earliest start that delays no earlier promise. When a job ends
    before its expected end, the promises are moved forward one by one in the order, as far as the
    others leave room, until none can move. Should a job outlast its estimate, all promises are made
    anew in the order: only then can one be broken. In a pool a promise is a number of nodes, on
    shared or unlike nodes it names them.
    """
    follow(state, own)
    own.notes[DUE] = due(state, own.plan, own.room)
    return own.notes[DUE]


@part
def due(state, plan, room):
    """Return the first job in the queue that is planned to start now, or WAIT."""
    n_jobs, now, starts = state.submit.size, state.now[0], plan.start
    if plan.soonest[0] > now:
        return WAIT
    least = FAR
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        start = starts[job]
        if start == now:
            if state.pool:
                choose(state, job, room, False)
            else:
                first = state.node_first[job]
                for i in range(state.n_nodes[job]):
                    state.chosen[i] = plan.nodes[first + i]
            return job
        if start > now:
            least = min(least, start)
        job = state.next_waiting[job]
    plan.soonest[0] = least
    return WAIT


@inlined
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
    elif not _note_starts(state, own):
        notes[CHANGES] = -FAR  # whatever comes next was not foreseen
    notes[BEGUN] = 1
    notes[N_CORRECTED] = state.n_corrected[0]
    notes[N_SEEN_ENDED] = state.n_ended[0]
    notes[N_PLANNED] = state.n_submitted[0]


@inlined
def _first_unplanned(state, notes):
    """Return the first waiting job that was submitted since the last call, or the number of jobs."""
    n_jobs = state.submit.size
    job = n_jobs
    before = state.previous_waiting[n_jobs]
    while before != n_jobs and before >= notes[N_PLANNED]:
        job = before
        before = state.previous_waiting[before]
    return job


@inlined
def _follow_in_pool(state, own, anew, early):
    notes, plan, now = own.notes, own.plan, state.now[0]
    if anew:
        build_profile(state, plan.profile)
        n = lay_out(state, own.order, plan.jobs, plan.scores)
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
    if own.order.rule != FCFS:
        _plan_in_order(state, own)
        return
    job = _first_unplanned(state, notes)
    while job != state.submit.size:
        start = find_start(plan.profile, state.n_nodes[job], state.estimate[job], 2 * FAR, 2 * FAR)
        reserve(state, plan, job, start)
        job = state.next_waiting[job]


@inlined
def _plan_in_order(state, own):
    """Promise a start to the jobs that have none, in the order, as on nodes."""
    plan = own.plan
    n = lay_out(state, own.order, plan.jobs, plan.scores)
    for i in range(n):
        job = plan.jobs[i]
        if plan.start[job] < 0:
            start = find_start(plan.profile, state.n_nodes[job], state.estimate[job], 2 * FAR, 2 * FAR)
            reserve(state, plan, job, start)


@part
def _move_forward(state, own, freed_until):
    """Move promises forward in the order until none can move; nodes were freed before ``freed_until``."""
    plan = own.plan
    n = lay_out(state, own.order, plan.jobs, plan.scores)
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


@inlined
def _note_starts(state, own):
    """Say whether nothing started but what was answered; if so, the timeline knows of it."""
    notes = own.notes
    changes = notes[CHANGES] + state.n_ended[0] - notes[N_SEEN_ENDED]
    if notes[DUE] >= 0 and state.start[notes[DUE]] >= 0:
        changes += 1
        notes[DUE] = WAIT
    notes[CHANGES] = state.n_changes[0]
    return changes == state.n_changes[0]


@inlined
def _follow_on_nodes(state, own, anew, early):
    notes, plan, line, now = own.notes, own.plan, own.line, state.now[0]
    foreseen = _note_starts(state, own)
    if anew or not foreseen:
        _lay_promises(state, plan, line, anew)
    n_ended = state.n_ended[0]
    if not anew and early > now:
        for i in range(notes[N_SEEN_ENDED], n_ended):
            job = state.ended[i]
            if foreseen:
                hold(state, line, job, state.node_list, now, state.expected_end[job], GIVE)
            _mark(state, job, state.node_list, own.freed)
        _move_forward_on_nodes(state, own)
    n = lay_out(state, own.order, plan.jobs, plan.scores)
    for i in range(n):
        job = plan.jobs[i]
        if plan.start[job] < 0:
            plan_nodes(state, plan, line, job, find_nodes(state, line, job, 2 * FAR))


@inlined
def _lay_promises(state, plan, line, anew):
    """Lay out the timeline again, without the promises if they are to be made anew."""
    n_jobs = state.submit.size
    lay_running(state, line)
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        if anew:
            plan.start[job] = -1
        hold_plan(state, plan, line, job, TAKE)
        job = state.next_waiting[job]


@part
def _mark(state, job, node_list, nodes):
    """Put a job's nodes into a set."""
    for i in range(state.node_first[job], state.node_first[job + 1]):
        node = node_list[i]
        if not nodes.marked[node]:
            nodes.marked[node] = True
            k = nodes.n[0]
            while k > 0 and nodes.list[k - 1] > node:
                nodes.list[k] = nodes.list[k - 1]
                k -= 1
            nodes.list[k] = node
            nodes.n[0] += 1


@part
def _clear(nodes):
    for i in range(nodes.n[0]):
        nodes.marked[nodes.list[i]] = False
    nodes.n[0] = 0


@part
def _move_forward_on_nodes(state, own):
    """Move promises forward in the order until none can move, one earlier than the other."""
    plan, line, freed, freed_next = own.plan, own.line, own.freed, own.freed_next
    n = lay_out(state, own.order, plan.jobs, plan.scores)
    while freed.n[0] > 0:
        own.notes[VERSION] += 1
        for i in range(n):
            job = plan.jobs[i]
            planned = plan.start[job]
            if planned <= state.now[0] or not _may_move(state, own, job):
                continue
            hold_plan(state, plan, line, job, GIVE)
            # Nothing could move before; so one node earlier than planned can only be one that was freed.
            if state.n_nodes[job] == 1:
                start = soonest(state, line, job, freed.list, freed.n[0], planned - 1)
            else:
                start = find_nodes(state, line, job, planned - 1)
            if start < 0:
                hold_plan(state, plan, line, job, TAKE)
                continue
            _mark(state, job, plan.nodes, freed)
            _mark(state, job, plan.nodes, freed_next)
            own.notes[VERSION] += 1
            plan_nodes(state, plan, line, job, start)
        _clear(freed)
        for i in range(freed_next.n[0]):
            freed.list[i] = freed_next.list[i]
            freed.marked[freed.list[i]] = True
        freed.n[0] = freed_next.n[0]
        _clear(freed_next)


@part
def _may_move(state, own, job):
    """Say whether a job might start earlier than planned; only what was freed can have made room for it.

    Either one of its own nodes was freed, or a freed node holds it early enough. The latter is the same
    for all jobs of one request and estimate, until something is freed again.
    """
    freed, kind = own.freed, own.alike[job]
    if own.bound_of[kind] != own.notes[VERSION]:
        own.bound_of[kind] = own.notes[VERSION]
        found = soonest(state, own.line, job, freed.list, freed.n[0], 2 * FAR)
        own.bound[kind] = found if found >= 0 else NEVER
    if own.bound[kind] < own.plan.start[job]:
        return True
    for i in range(state.node_first[job], state.node_first[job + 1]):  # noqa: SIM110 - a kernel has no generators
        if freed.marked[own.plan.nodes[i]]:
            return True
    return False


@kernel
def conservative_loop(world, state, own):
    """The compiled loop of `conservative`."""
    return kernel_loop(world, state, conservative, own)


class Conservative(Ordered):
    """Parameters of `conservative`; the order is that in which promises are moved or made anew."""

    rule: ClassVar = conservative

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        n_jobs, n_nodes = len(state.submit), len(state.free_cpus)
        notes = np.zeros(8, np.int64)
        notes[DUE] = WAIT
        # An estimate that is made at the submission makes nobody like another.
        alike = np.arange(n_jobs) if self.last_two else numbered(state.shape, state.estimate)
        own = ConservativeOwn(
            order=self.numbered(self.order),
            room=make_room(state, "first"),
            notes=notes,
            plan=make_plan(state),
            line=make_timeline(state, not state.pool),
            freed=_no_nodes(n_nodes),
            freed_next=_no_nodes(n_nodes),
            alike=alike,
            bound=np.zeros(n_jobs, np.int64),
            bound_of=np.zeros(n_jobs, np.int64),
        )
        return CompiledPolicy(conservative, conservative_loop, own)


def _no_nodes(n_nodes: int) -> Nodes:
    return Nodes(np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.bool_), np.zeros(1, np.int64))
