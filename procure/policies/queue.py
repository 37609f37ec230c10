"""Plans without reservations: the first in the order blocks the others, or is skipped if it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from procure.policies.lines import follow_queue, refuse
from procure.policies.place import FREE
from procure.policies.scheduler import Composed, Scheduler, answer, first_admitted, follow, wait
from procure.simulator.drive import CompiledPolicy, compiled
from procure.simulator.kernel import part
from procure.simulator.state import State


class QueueOwn(NamedTuple):
    """What a queue has of its own in a run."""

    scheduler: Scheduler
    blocked: np.ndarray  # int64[2], the job that did not fit, and after how many changes


@part
def strict(state, own):
    """Start the first job in the order, or wait: nobody overtakes it (FCFS and its likes)."""
    scheduler, blocked = own.scheduler, own.blocked
    follow(state, scheduler)
    if scheduler.lines.by_queue and not scheduler.holds:
        job = state.next_waiting[state.submit.size]
    else:
        follow_queue(state, scheduler.lines)
        job = first_admitted(state, scheduler, scheduler.lines, False)
    if job == state.submit.size or (blocked[0] == job and blocked[1] == state.n_changes[0]):
        return wait(state, scheduler)
    if scheduler.place.choose(state, job, FREE):
        return answer(state, scheduler, job)
    blocked[0], blocked[1] = job, state.n_changes[0]
    return wait(state, scheduler)


@part
def skipping(state, own):
    """Start the first job in the order that fits somewhere; those before it are skipped.

    Backfilling without reservation: in queue order this is first fit, by estimated run time it is
    the published SJF.
    """
    scheduler = own.scheduler
    follow(state, scheduler)
    follow_queue(state, scheduler.lines)
    job = first_admitted(state, scheduler, scheduler.lines, True)
    while job != state.submit.size:
        if scheduler.place.choose(state, job, FREE):
            return answer(state, scheduler, job)
        refuse(scheduler.lines, job)
        job = first_admitted(state, scheduler, scheduler.lines, True)
    return wait(state, scheduler)


class Strict(Composed):
    """Parameters of `strict`."""

    rule: ClassVar = strict
    plans: ClassVar[bool] = False

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        return make_queue(self, state, type(self).rule)


class Skipping(Strict):
    """Parameters of `skipping`."""

    rule: ClassVar = skipping
    plans: ClassVar[bool] = False


def make_queue(parameters: Composed, state: State, rule: Callable) -> CompiledPolicy:
    """Make the policy of one run by `strict` or `skipping`."""
    scheduler = parameters.make_scheduler(state, parameters.order, by_shape=rule is skipping)
    own = QueueOwn(scheduler, np.full(2, -1, np.int64))
    return compiled(rule, own, parameters.columns(state, scheduler.place))
