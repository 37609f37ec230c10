"""Conservative backfilling: every job is promised a start when it is submitted, and none is ever delayed.

Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates" (2001).
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import model_validator

from procure.policies.names import NOBODY
from procure.policies.order import is_queue_order, lay_out
from procure.policies.place import Nodes, start_planned
from procure.policies.profile import (
    Plan,
    begin_plan,
    drop_past_steps,
    earliest,
    hold_plan,
    make_plan,
    plan_nodes,
    promise,
    take,
    withdraw,
)
from procure.policies.scheduler import Composed
from procure.policies.timeline import GIVE, TAKE, find_nodes, hold, lay_running, soonest
from procure.simulator.arrays import filled, numbered
from procure.simulator.drive import CompiledPolicy, compiled
from procure.simulator.kernel import inlined, part
from procure.simulator.state import FAR, NEVER, WAIT, State
from procure.simulator.tasks import has_tasks, n_answered, n_held


class NodeSet(NamedTuple):
    """A set of nodes."""

    list: np.ndarray  # int64[n_nodes], the first n entries, ascending
    marked: np.ndarray  # bool[n_nodes], whether a node is among them
    n: np.ndarray  # int64[1]


class ConservativeOwn(NamedTuple):
    """What conservative backfilling has of its own in a run."""

    order: Any
    by_queue: bool  # that is the queue's own
    place: Nodes
    notes: np.ndarray  # int64[8]
    plan: Plan  # the promises
    freed: NodeSet  # on which something was freed since a promise was last tried
    freed_next: NodeSet
    alike: np.ndarray  # int64[n_jobs], numbers the jobs of one request and estimate
    bound: np.ndarray  # int64[n_alike], s; earliest moment at which a freed node holds such a job
    bound_of: np.ndarray  # int64[n_alike], the version of the freed nodes that ``bound`` is of


MOMENT, N_SEEN_ENDED, N_PLANNED, N_CORRECTED, BEGUN, CHANGES, DUE, VERSION = range(8)
"""What the notes hold: how far the plan has followed what happened, and which job was answered last."""


@part
def conservative(state, own):
    """Start the jobs whose promised moment has come; others overtake only where no promise suffers.

    A submitted job is promised the earliest start that delays no earlier promise. When a job ends
    before its expected end, the promises are moved forward one by one in the order, as far as the
    others leave room, until none can move. Should a job outlast its estimate, all promises are made
    anew in the order: only then can one be broken. In a pool a promise is a number of nodes, on
    shared or unlike nodes it names them.
    """
    own.place.follow(state)
    follow(state, own)
    own.notes[DUE] = first_due(state, own.plan)
    if own.notes[DUE] != WAIT:
        _choose_nodes(state, own, own.notes[DUE])
        own.order.started(state, own.notes[DUE])
        own.place.started(state, own.notes[DUE])
    return own.notes[DUE]


@part
def _choose_nodes(state, own, job):
    """Lay the nodes of a job whose moment has come into ``chosen``; those planned that it does not take are freed."""
    if state.pool:
        start_planned(state, own.plan, own.place, job)
        return
    _mark(state, job, own.plan.nodes, own.freed)
    start_planned(state, own.plan, own.place, job)
    n_kept, n = 0, n_answered(state, state.tasks, job)
    for i in range(n):
        n_kept += own.freed.marked[state.chosen[i]]
    if own.place.first or (n_kept == n and not has_tasks(state.tasks)):  # tasks may stand otherwise on the same nodes
        _clear(own.freed)


@part
def due(state, plan, place):
    """Return the first job in the queue that is planned to start now, its nodes in ``chosen``, or WAIT."""
    job = first_due(state, plan)
    if job != WAIT:
        start_planned(state, plan, place, job)
    return job


@part
def first_due(state, plan):
    """Return the first job in the queue that is planned to start now, or WAIT."""
    n_jobs, now, starts = state.submit.size, state.now[0], plan.start
    if plan.soonest[0] > now:
        return WAIT
    least = FAR
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        start = starts[job]
        if start == now:
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
    elif anew or arrived or early > state.now[0] or own.freed.n[0] > 0:
        _follow_on_nodes(state, own, anew, early)
    elif not _note_starts(state, own):
        notes[CHANGES] = -FAR  # whatever comes next was not foreseen
    notes[BEGUN] = 1
    notes[N_CORRECTED] = state.n_corrected[0]
    notes[N_SEEN_ENDED] = state.n_ended[0]
    notes[N_PLANNED] = state.n_submitted[0]


@part
def first_since(state, n_submitted):
    """Return the first waiting job that was submitted since so many were, or the number of jobs."""
    n_jobs = state.submit.size
    job = n_jobs
    before = state.previous_waiting[n_jobs]
    while before != n_jobs and before >= n_submitted:
        job = before
        before = state.previous_waiting[before]
    return job


@inlined
def _follow_in_pool(state, own, anew, early):
    notes, plan, now = own.notes, own.plan, state.now[0]
    if anew:
        begin_plan(state, plan)
        n = lay_out(state, own.order, not own.by_queue, plan.jobs, plan.scores)
        for i in range(n):
            _promise(state, own, plan.jobs[i])
        return
    drop_past_steps(plan.profile, now)
    for i in range(notes[N_SEEN_ENDED], state.n_ended[0]):
        job = state.ended[i]
        take(plan.profile, now, state.expected_end[job], -state.n_nodes[job])
    if early > now:
        _move_forward(state, own, early)
    if not own.by_queue:  # a start for the jobs that have none, in the order, as on nodes
        n = lay_out(state, own.order, True, plan.jobs, plan.scores)
        for i in range(n):
            if plan.start[plan.jobs[i]] < 0:
                _promise(state, own, plan.jobs[i])
        return
    job = first_since(state, notes[N_PLANNED])
    while job != state.submit.size:
        _promise(state, own, job)
        job = state.next_waiting[job]


@inlined
def _promise(state, own, job):
    """Promise a job the earliest start that delays no other promise."""
    promise(state, own.plan, job, earliest(state, own.plan, job, 2 * FAR, 2 * FAR))


@part
def _move_forward(state, own, freed_until):
    """Move promises forward in the order until none can move; nodes were freed before ``freed_until``."""
    plan = own.plan
    n = lay_out(state, own.order, not own.by_queue, plan.jobs, plan.scores)
    while freed_until > state.now[0]:
        below = freed_until
        freed_until = state.now[0]
        for i in range(n):
            job = plan.jobs[i]
            planned = plan.start[job]
            if planned < 0:
                continue
            start = earliest(state, plan, job, planned, max(below, freed_until))
            if start >= 0:
                withdraw(state, plan, job)
                promise(state, plan, job, start)
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
    notes, plan, line, now = own.notes, own.plan, own.plan.line, state.now[0]
    foreseen = _note_starts(state, own)
    if anew or not foreseen:
        _lay_promises(state, plan, anew)
    n_ended = state.n_ended[0]
    if anew:
        _clear(own.freed)
    elif early > now or own.freed.n[0] > 0:
        for i in range(notes[N_SEEN_ENDED], n_ended):
            job = state.ended[i]
            if foreseen:
                hold(state, line, job, state.node_list, now, state.expected_end[job], GIVE)
            _mark(state, job, state.node_list, own.freed)
        _move_forward_on_nodes(state, own)
    n = lay_out(state, own.order, not own.by_queue, plan.jobs, plan.scores)
    for i in range(n):
        job = plan.jobs[i]
        if plan.start[job] < 0:
            plan_nodes(state, plan, job, find_nodes(state, state.tasks, line, job, 2 * FAR))


@inlined
def _lay_promises(state, plan, anew):
    """Lay out the timeline again, without the promises if they are to be made anew."""
    n_jobs = state.submit.size
    lay_running(state, plan.line)
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        if anew:
            plan.start[job] = -1
        hold_plan(state, plan, job, TAKE)
        job = state.next_waiting[job]


@part
def _mark(state, job, node_list, nodes):
    """Put a job's nodes into a set."""
    first = state.node_first[job]
    for i in range(first, first + n_held(state, state.tasks, job)):
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
    plan, line, freed, freed_next = own.plan, own.plan.line, own.freed, own.freed_next
    n = lay_out(state, own.order, not own.by_queue, plan.jobs, plan.scores)
    while freed.n[0] > 0:
        own.notes[VERSION] += 1
        for i in range(n):
            job = plan.jobs[i]
            planned = plan.start[job]
            if planned <= state.now[0] or not _may_move(state, own, job):
                continue
            hold_plan(state, plan, job, GIVE)
            # Nothing could move before; so one node earlier than planned can only be one that was freed.
            if state.n_nodes[job] == 1:
                start = soonest(state, line, job, freed.list, freed.n[0], planned - 1)
            else:
                start = find_nodes(state, state.tasks, line, job, planned - 1)
            if start < 0:
                hold_plan(state, plan, job, TAKE)
                continue
            _mark(state, job, plan.nodes, freed)
            _mark(state, job, plan.nodes, freed_next)
            own.notes[VERSION] += 1
            plan_nodes(state, plan, job, start)
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
        found = soonest(state, own.plan.line, job, freed.list, freed.n[0], 2 * FAR)
        own.bound[kind] = found if found >= 0 else NEVER
    if own.bound[kind] < own.plan.start[job]:
        return True
    first = state.node_first[job]
    for i in range(first, first + n_held(state, state.tasks, job)):  # noqa: SIM110 - a kernel has no generators
        if freed.marked[own.plan.nodes[i]]:
            return True
    return False


class Conservative(Composed):
    """Parameters of `conservative`; the order is that in which promises are moved or made anew."""

    rule: ClassVar = conservative
    plans_every_job: ClassVar[bool] = True

    @model_validator(mode="after")
    def _promises_every_job(self) -> Conservative:
        if self.hold != NOBODY:
            raise ValueError(
                f"hold={self.hold} was given; conservative promises every job a start, and who is held back has none"
            )
        return self

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        n_jobs, n_nodes = len(state.submit), len(state.free_cpus)
        notes = np.zeros(8, np.int64)
        notes[DUE] = WAIT
        # An estimate that is made at the submission makes nobody like another.
        alike = np.arange(n_jobs) if self.last_two else numbered(state.shape, state.estimate)
        order, place = self.make_order(state, self.order), self.make_place(state, 0)
        own = ConservativeOwn(
            order=order,
            by_queue=is_queue_order(order),
            place=place,
            notes=notes,
            plan=make_plan(state),
            freed=_no_nodes(n_nodes),
            freed_next=_no_nodes(n_nodes),
            alike=alike,
            **filled(n_jobs, bound=0, bound_of=0),
        )
        return compiled(conservative, own, self.columns(state, own.place))


def _no_nodes(n_nodes: int) -> NodeSet:
    return NodeSet(np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.bool_), np.zeros(1, np.int64))
