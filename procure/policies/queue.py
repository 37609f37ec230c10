"""Queues without reservations: the first in the order blocks the others, or is skipped if it does not fit."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from procure.policies.fit import Room, choose, make_room
from procure.policies.lines import DECIDED, Lines, first_of, follow_queue, make_lines
from procure.policies.names import FCFS
from procure.policies.order import Ordered
from procure.policies.parameters import FitName
from procure.simulator.drive import CompiledPolicy, kernel_loop
from procure.simulator.kernel import kernel
from procure.simulator.state import WAIT, State


class QueueOwn(NamedTuple):
    """What a queue has of its own in a run."""

    lines: Lines
    room: Room
    blocked: np.ndarray  # int64[2], the job that did not fit, and after how many changes


@kernel
def strict(state, own):
    """Start the first job in the order, or wait: nobody overtakes it (FCFS and its likes)."""
    lines, blocked = own.lines, own.blocked
    n_jobs = state.submit.size
    if lines.order.rule == FCFS:
        job = state.next_waiting[n_jobs]
    else:
        follow_queue(state, lines)
        job = first_of(state, lines, False)
    if job == n_jobs or (blocked[0] == job and blocked[1] == state.n_changes[0]):
        return WAIT
    if choose(state, job, own.room, False):
        lines.counters[DECIDED] = job
        return job
    blocked[0], blocked[1] = job, state.n_changes[0]
    return WAIT


@kernel
def skipping(state, own):
    """Start the first job in the order that fits somewhere; those before it are skipped.

    Backfilling without reservation: in queue order this is first fit, by estimated run time it is
    the published SJF.
    """
    lines = own.lines
    follow_queue(state, lines)
    job = first_of(state, lines, True)
    if job == state.submit.size:
        return WAIT
    choose(state, job, own.room, False)
    lines.counters[DECIDED] = job
    return job


@kernel
def strict_loop(world, state, own):
    """The compiled loop of `strict`."""
    return kernel_loop(world, state, strict, own)


@kernel
def skipping_loop(world, state, own):
    """The compiled loop of `skipping`."""
    return kernel_loop(world, state, skipping, own)


class _Queue(Ordered):
    fit: FitName = Field("first", description="which of the nodes that fit")

    def _own(self, state: State, by_shape: bool) -> QueueOwn:
        lines = make_lines(state, self.numbered(self.order), by_shape)
        return QueueOwn(lines, make_room(state, self.fit), np.full(2, -1, np.int64))


class Strict(_Queue):
    """Parameters of `strict`."""

    rule: ClassVar = strict

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        return CompiledPolicy(strict, strict_loop, self._own(state, False))


class Skipping(_Queue):
    """Parameters of `skipping`."""

    rule: ClassVar = skipping

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        return CompiledPolicy(skipping, skipping_loop, self._own(state, True))
