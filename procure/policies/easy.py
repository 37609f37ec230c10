"""EASY backfilling: waiting jobs may overtake the first one if they do not delay its reservation.

Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson (2001). The reservation is made
with the expected ends of the running jobs, so with exact estimates it is never delayed.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from procure.policies.fit import Room, choose, make_room
from procure.policies.lines import (
    DECIDED,
    N_FILLED,
    Lines,
    first_of,
    first_within,
    fits,
    follow_queue,
    make_lines,
    precedes,
)
from procure.policies.names import FCFS
from procure.policies.order import Order, Ordered
from procure.policies.parameters import FitName, OrderName
from procure.policies.profile import Plan, make_plan
from procure.policies.reserve import backfill_behind, backfill_behind_loop
from procure.policies.timeline import Timeline, make_timeline
from procure.settings import LARGEST
from procure.simulator.drive import CompiledPolicy, kernel_loop
from procure.simulator.kernel import inlined, kernel
from procure.simulator.state import FAR, WAIT, State


class EasyOwn(NamedTuple):
    """What EASY has of its own in a run."""

    order: Order  # behind the reservations
    queue_order: Order
    depth: int
    by_time_only: bool
    room: Room
    lines: Lines  # in the order behind the reservations
    queue: Lines  # in the queue order
    notes: np.ndarray  # int64[5]
    denied: np.ndarray  # int64[n_lines], the reservation beside which the line is known not to fit
    plan: Plan  # used with a depth above 1
    line: Timeline  # likewise, unless in a pool


CHANGES, HEAD, SHADOW, EXTRA, NUMBER = range(5)
"""What the notes hold: the reservation, the changes that it knows, and how many there have been."""


@kernel
def easy(state, own):
    """Start the first job in the order if it fits; else one that does not delay the reservations.

    The first job (with ``depth`` more, so many) that cannot start holds a reservation at its *shadow
    time*, the earliest moment at which the running jobs' expected ends leave it room. Another job may
    start now if it ends by then, or if it takes only what the reservation leaves. They are tried in
    the backfill order. ``by_time_only`` is the stricter variant of one published program: only jobs
    that end strictly before the shadow time.
    """
    n_jobs = state.submit.size
    lines = own.lines
    answered = lines.counters[DECIDED]
    if answered >= 0 and state.start[answered] < 0:
        own.notes[HEAD] = -1  # somebody else started another job, which the reservation does not know
    follow_queue(state, lines)
    head = state.next_waiting[n_jobs]
    if own.queue_order.rule != FCFS:
        follow_queue(state, own.queue)
        head = first_of(state, own.queue, False)
    if head == n_jobs:
        return WAIT
    job, beside = head, False
    if fits(state, lines, lines.line_of[head]):
        own.notes[HEAD] = -1  # under an order that changes, who holds the reservation now may be first again
    else:
        job, beside = _first_behind(state, own, head)
        if job == n_jobs:
            return WAIT
    _take_nodes(state, own, job, beside)
    lines.counters[DECIDED] = own.queue.counters[DECIDED] = job
    return job


@inlined
def _first_behind(state, own, head):
    """Return the first job in the backfill order that may start, and whether only beside the reservation."""
    n_jobs = state.submit.size
    lines = own.lines
    best, beside = n_jobs, False
    reserved = False
    in_time = 0
    for i in range(lines.counters[N_FILLED]):
        line = lines.filled[i]
        if not fits(state, lines, line):
            continue
        if not reserved:
            _reserve(state, own, head)
            reserved = True
            in_time = _longest_in_time(state, own)
        job = lines.first[line]
        if best != n_jobs and not precedes(state, lines, job, best):
            continue
        late = state.estimate[job] > in_time
        if late and (own.by_time_only or not _fits_beside(state, own, line)):
            late = False
            job = first_within(lines.root, lines.width, lines.least, lines.job_at, line, in_time)
            if job < 0 or (best != n_jobs and not precedes(state, lines, job, best)):
                continue
        best, beside = job, late
    return best, beside


@inlined
def _longest_in_time(state, own):
    """Say how long a job may run that ends before the reservation begins, s.

    Whoever waits for a job without a limit is delayed by nobody; so such a job, too, is in time then, whenever
    it starts.
    """
    shadow = own.notes[SHADOW]
    if own.by_time_only or shadow < FAR:
        return shadow - state.now[0] - own.by_time_only
    return FAR


@inlined
def _reserve(state, own, head):
    """Make the first job's reservation, unless the one that stands is still right.

    A job that is backfilled moves no reservation, it only takes from what that leaves; so only what
    `_take_nodes` did not foresee makes it wrong.
    """
    notes = own.notes
    if notes[HEAD] == head and notes[CHANGES] == state.n_changes[0]:
        return
    notes[HEAD], notes[CHANGES] = head, state.n_changes[0]
    notes[NUMBER] += 1
    if state.pool:
        notes[SHADOW], notes[EXTRA] = _shadow_in_pool(state, head)
    else:
        notes[SHADOW] = _shadow_on_nodes(state, own.room, head)


@inlined
def _fits_beside(state, own, line):
    """Say whether a line's jobs fit beside the reservation, however long they run."""
    lines, notes, denied = own.lines, own.notes, own.denied
    shapes, shape = state.shapes, lines.shape[line]
    wanted = shapes.n_nodes[shape]
    if state.pool:
        return wanted <= notes[EXTRA]
    if denied[line] == notes[NUMBER]:
        return False
    cpus, mem, gpus, types = shapes.cpus[shape], shapes.mem[shape], shapes.gpus[shape], shapes.types[shape]
    free_cpus, free_mem, free_gpus = state.free_cpus, state.free_mem, state.free_gpus
    spare_cpus, spare_mem, spare_gpus = own.room.spare_cpus, own.room.spare_mem, own.room.spare_gpus
    node_types = state.node_types
    for node in range(free_cpus.size):
        if (
            min(free_cpus[node], spare_cpus[node]) >= cpus
            and min(free_mem[node], spare_mem[node]) >= mem
            and min(free_gpus[node], spare_gpus[node]) >= gpus
            and (node_types[node] & types) != 0
        ):
            wanted -= 1
            if wanted == 0:
                return True
    denied[line] = notes[NUMBER]
    return False


@inlined
def _take_nodes(state, own, job, beside):
    """Choose the nodes of a job, and take from what the reservation leaves if it starts beside that."""
    room, notes = own.room, own.notes
    choose(state, job, room, beside and not state.pool)
    notes[CHANGES] = state.n_changes[0] + 1
    if not beside:
        return
    notes[EXTRA] -= state.n_nodes[job]
    for i in range(0 if state.pool else state.n_nodes[job]):
        node = state.chosen[i]
        if state.options.exclusive:
            room.spare_cpus[node] = room.spare_mem[node] = room.spare_gpus[node] = -1
        else:
            room.spare_cpus[node] -= state.cpus[job]
            room.spare_mem[node] -= state.mem[job]
            room.spare_gpus[node] -= state.gpus[job]


@inlined
def _shadow_in_pool(state, head):
    """Return when the head can start and how many nodes are left then."""
    free = state.n_idle[0]
    i = 0
    while free < state.n_nodes[head]:
        free += state.n_nodes[state.running[i]]
        i += 1
    shadow = state.expected_end[state.running[i - 1]]
    while i < state.n_running[0] and state.expected_end[state.running[i]] == shadow:
        free += state.n_nodes[state.running[i]]
        i += 1
    return shadow, free - state.n_nodes[head]


@inlined
def _shadow_on_nodes(state, room, head):
    """Return when the head can start; fill ``spare_…`` with what is left then beside it.

    The reservation takes the highest rows that fit, since jobs that start now take the lowest.
    """
    cpus, mem, gpus, types = state.cpus[head], state.mem[head], state.gpus[head], state.types[head]
    spare_cpus, spare_mem, spare_gpus = room.spare_cpus, room.spare_mem, room.spare_gpus
    fitting = 0
    for node in range(spare_cpus.size):
        spare_cpus[node] = state.free_cpus[node]
        spare_mem[node] = state.free_mem[node]
        spare_gpus[node] = state.free_gpus[node]
        fits = spare_cpus[node] >= cpus and spare_mem[node] >= mem and spare_gpus[node] >= gpus
        if fits and (state.node_types[node] & types) != 0:
            fitting += 1
    i = 0
    shadow = state.now[0]
    while i < state.n_running[0]:
        job = state.running[i]
        if fitting >= state.n_nodes[head] and state.expected_end[job] > shadow:
            break
        shadow = state.expected_end[job]
        i += 1
        for k in range(state.node_first[job], state.node_first[job + 1]):
            node = state.node_list[k]
            before = spare_cpus[node] >= cpus and spare_mem[node] >= mem and spare_gpus[node] >= gpus
            if state.options.exclusive:
                spare_cpus[node] = state.total_cpus[node]
                spare_mem[node] = state.total_mem[node]
                spare_gpus[node] = state.total_gpus[node]
            else:
                spare_cpus[node] += state.cpus[job]
                spare_mem[node] += state.mem[job]
                spare_gpus[node] += state.gpus[job]
            after = spare_cpus[node] >= cpus and spare_mem[node] >= mem and spare_gpus[node] >= gpus
            if after and not before and (state.node_types[node] & types) != 0:
                fitting += 1
    left = state.n_nodes[head]
    node = spare_cpus.size - 1
    while left > 0:
        if (
            spare_cpus[node] >= cpus
            and spare_mem[node] >= mem
            and spare_gpus[node] >= gpus
            and (state.node_types[node] & types) != 0
        ):
            left -= 1
            if state.options.exclusive:
                spare_cpus[node] = spare_mem[node] = spare_gpus[node] = -1
            else:
                spare_cpus[node] -= cpus
                spare_mem[node] -= mem
                spare_gpus[node] -= gpus
        node -= 1
    return shadow


@kernel
def easy_loop(world, state, own):
    """The compiled loop of `easy`."""
    return kernel_loop(world, state, easy, own)


class Easy(Ordered):
    """Parameters of `easy`."""

    rule: ClassVar = easy
    order: OrderName = Field("fcfs", description="which job is tried first behind the reservations")
    queue_order: OrderName = Field("fcfs", description="which job holds the first reservation")
    fit: FitName = Field("first", description="which of the nodes that fit")
    depth: int = Field(1, ge=1, le=LARGEST, description="how many waiting jobs hold a reservation")
    by_time_only: bool = Field(
        False, description="backfill only what ends strictly before the reservation; needs depth 1"
    )

    @property
    def orders(self) -> tuple[str, ...]:
        """Every order that these parameters use."""
        return self.order, self.queue_order

    @model_validator(mode="after")
    def _one_reservation_by_time(self) -> Easy:
        if self.by_time_only and self.depth > 1:
            raise ValueError(f"by_time_only knows one reservation only; depth {self.depth} was given")
        return self

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        lines = make_lines(state, self.numbered(self.order), True)
        own = EasyOwn(
            self.numbered(self.order),
            self.numbered(self.queue_order),
            self.depth,
            self.by_time_only,
            make_room(state, self.fit),
            lines,
            make_lines(state, self.numbered(self.queue_order), False),
            np.full(5, -1, np.int64),
            np.full(len(lines.first), -1, np.int64),
            make_plan(state, self.depth > 1),
            make_timeline(state, self.depth > 1 and not state.pool),
        )
        if self.depth > 1:
            return CompiledPolicy(backfill_behind, backfill_behind_loop, own)
        return CompiledPolicy(easy, easy_loop, own)
