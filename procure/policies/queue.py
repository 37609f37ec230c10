"""Queues without reservations: the first in the order blocks the others, or is skipped if it does not fit."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from numba import njit
from pydantic import Field

from procure.policies.fit import Room, choose, make_room
from procure.policies.names import FCFS
from procure.policies.order import Order, Ordered, first_in, score
from procure.policies.parameters import FitName
from procure.simulator.drive import CompiledPolicy, loop
from procure.simulator.state import WAIT, State


class QueueOwn(NamedTuple):
    """What a queue has of its own in a run."""

    order: Order
    room: Room


@njit(cache=True, nogil=True)
def strict(state, own):
    """Start the first job in the order, or wait: nobody overtakes it (FCFS and its likes)."""
    job = first_in(state, own.order)
    if job != state.submit.size and choose(state, job, own.room, False):
        return job, state.chosen[: state.n_nodes[job]]
    return WAIT, state.chosen[:0]


@njit(cache=True, nogil=True)
def skipping(state, own):
    """Start the first job in the order that fits somewhere; those before it are skipped.

    Backfilling without reservation: in queue order this is first fit, by estimated run time it is
    the published SJF. A job like one that did not fit is not tried again.
    """
    n_jobs = state.submit.size
    order, room = own.order, own.room
    best = n_jobs
    lowest = 0.0
    failed = n_jobs
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        hopeless = (state.pool and state.n_nodes[job] > state.n_idle[0]) or (
            failed != n_jobs and same_request(state, job, failed)
        )
        if not hopeless:
            value = score(state, job, order)
            if best == n_jobs or value < lowest:
                if choose(state, job, room, False):
                    best, lowest = job, value
                    if order.rule == FCFS:
                        break
                else:
                    failed = job
        job = state.next_waiting[job]
    if best == n_jobs:
        return WAIT, state.chosen[:0]
    choose(state, best, room, False)
    return best, state.chosen[: state.n_nodes[best]]


@njit(cache=True, nogil=True)
def same_request(state, job, other):
    """Say whether two jobs ask for the same, however long."""
    return (
        state.n_nodes[job] == state.n_nodes[other]
        and state.cpus[job] == state.cpus[other]
        and state.mem[job] == state.mem[other]
        and state.gpus[job] == state.gpus[other]
        and state.types[job] == state.types[other]
    )


@njit(cache=True, nogil=True)
def strict_loop(world, state, own):
    """The compiled loop of `strict`."""
    return loop(world, state, strict, own)


@njit(cache=True, nogil=True)
def skipping_loop(world, state, own):
    """The compiled loop of `skipping`."""
    return loop(world, state, skipping, own)


class _Queue(Ordered):
    fit: FitName = Field("first", description="which of the nodes that fit")

    def _own(self, state: State) -> QueueOwn:
        return QueueOwn(self.numbered(self.order), make_room(state, self.fit))


class Strict(_Queue):
    """Parameters of `strict`."""

    rule: ClassVar = strict

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        return CompiledPolicy(strict, strict_loop, self._own(state))


class Skipping(_Queue):
    """Parameters of `skipping`."""

    rule: ClassVar = skipping

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        return CompiledPolicy(skipping, skipping_loop, self._own(state))
