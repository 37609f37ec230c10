"""EASY backfilling: waiting jobs may overtake the first one if they do not delay its reservation.

Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson (2001). The reservation is made
with the expected ends of the running jobs, so with exact estimates it is never delayed.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit
from pydantic import Field, model_validator

from procure.policies.fit import Room, choose, make_room
from procure.policies.names import FCFS
from procure.policies.order import Order, Ordered, first_in, score
from procure.policies.parameters import FitName, OrderName
from procure.policies.profile import Plan, make_plan
from procure.policies.queue import same_request
from procure.policies.reserve import backfill_behind
from procure.simulator.drive import CompiledPolicy, loop
from procure.simulator.state import WAIT, State


class EasyOwn(NamedTuple):
    """What EASY has of its own in a run."""

    order: Order  # behind the reservations
    queue_order: Order
    depth: int
    by_time_only: bool
    room: Room
    notes: np.ndarray  # int64[6]
    plan: Plan  # used with a depth above 1


CHANGES, SHADOW, EXTRA, HEAD, CURSOR, TESTED = range(6)
"""What the notes hold: the state that they belong to, the reservation, and how far the queue was tried."""


@njit(cache=True, nogil=True)
def easy(state, own):
    """Start the first job in the order if it fits; else one that does not delay the reservations.

    The first job (with ``depth`` more, so many) that cannot start holds a reservation at its *shadow
    time*, the earliest moment at which the running jobs' expected ends leave it room. Another job may
    start now if it ends by then, or if it takes only what the reservation leaves. They are tried in
    the backfill order. ``by_time_only`` is the stricter variant of one published program: only jobs
    that end strictly before the shadow time.
    """
    if own.depth != 1:
        return backfill_behind(state, own)
    if state.pool and own.queue_order.rule == FCFS and own.order.rule == FCFS:
        return _from_notes(state, own)
    n_jobs = state.submit.size
    head = first_in(state, own.queue_order)
    if head == n_jobs:
        return WAIT, state.chosen[:0]
    if choose(state, head, own.room, False):
        return head, state.chosen[: state.n_nodes[head]]
    if state.pool:
        shadow, extra = _shadow_in_pool(state, head)
    else:
        shadow, extra = _shadow_on_nodes(state, own.room, head), 0
    job = _first_behind(state, own, head, shadow, extra)
    if job == n_jobs:
        return WAIT, state.chosen[:0]
    _may_start(state, own, job, shadow, extra)
    return job, state.chosen[: state.n_nodes[job]]


@njit(cache=True, nogil=True)
def _may_start(state, own, job, shadow, extra):
    """Say whether a job can start without delaying the reservation; ``chosen`` then holds its nodes."""
    end = state.now[0] + state.estimate[job]
    if own.by_time_only:
        return end < shadow and choose(state, job, own.room, False)
    if end <= shadow:
        return choose(state, job, own.room, False)
    if state.pool:
        return state.n_nodes[job] <= extra and choose(state, job, own.room, False)
    return choose(state, job, own.room, True)


@njit(cache=True, nogil=True)
def _first_behind(state, own, head, shadow, extra):
    """Return the first job in the backfill order that may start, or the number of jobs."""
    n_jobs = state.submit.size
    order = own.order
    best = failed = n_jobs
    lowest = 0.0
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        hopeless = (
            job == head
            or (state.pool and state.n_nodes[job] > state.n_idle[0])
            or (
                failed != n_jobs
                and same_request(state, job, failed)
                and state.estimate[job] >= state.estimate[failed]
            )
        )
        if not hopeless:
            value = score(state, job, order)
            if best == n_jobs or value < lowest:
                if _may_start(state, own, job, shadow, extra):
                    best, lowest = job, value
                    if order.rule == FCFS:
                        break
                else:
                    failed = job
        job = state.next_waiting[job]
    return best


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _from_notes(state, own):
    """Decide in a pool in queue order, remembering what was tried while nothing changed.

    Between two changes neither the reservation nor the idle nodes change, so a job that could not
    start then cannot start now, and only jobs submitted since need a look. Our own backfill is a
    change that the notes foresee: it uses up idle or extra nodes, which makes no earlier job startable.
    """
    n_jobs = state.submit.size
    notes = own.notes
    if notes[TESTED] == 0 or notes[CHANGES] != state.n_changes[0]:
        head = state.next_waiting[n_jobs]
        if head == n_jobs:
            return WAIT, state.chosen[:0]
        if choose(state, head, own.room, False):
            return head, state.chosen[: state.n_nodes[head]]
        notes[SHADOW], notes[EXTRA] = _shadow_in_pool(state, head)
        notes[CHANGES] = state.n_changes[0]
        notes[TESTED] = 1
        notes[CURSOR] = head
    idle = state.n_idle[0]
    last = notes[CURSOR]
    job = state.next_waiting[last]
    room = notes[SHADOW] - state.now[0]
    while job != n_jobs:
        n = state.n_nodes[job]
        if n <= idle:
            in_time = state.estimate[job] < room or (state.estimate[job] == room and not own.by_time_only)
            if in_time or (n <= notes[EXTRA] and not own.by_time_only):
                if not in_time:
                    notes[EXTRA] -= n
                notes[CURSOR] = state.previous_waiting[job]
                notes[CHANGES] = state.n_changes[0] + 1
                choose(state, job, own.room, False)
                return job, state.chosen[:n]
        last = job
        job = state.next_waiting[job]
    notes[CURSOR] = last
    return WAIT, state.chosen[:0]


@njit(cache=True, nogil=True)
def easy_loop(world, state, own):
    """The compiled loop of `easy`."""
    return loop(world, state, easy, own)


class Easy(Ordered):
    """Parameters of `easy`."""

    rule: ClassVar = easy

    order: OrderName = Field("fcfs", description="who is tried first behind the reservations")
    queue_order: OrderName = Field("fcfs", description="who holds the first reservation")
    fit: FitName = Field("first", description="which of the nodes that fit")
    depth: int = Field(1, ge=1, description="how many waiting jobs hold a reservation")
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
        own = EasyOwn(
            self.numbered(self.order),
            self.numbered(self.queue_order),
            self.depth,
            self.by_time_only,
            make_room(state, self.fit),
            np.zeros(6, np.int64),
            make_plan(state, self.depth > 1),
        )
        return CompiledPolicy(easy, easy_loop, own)
