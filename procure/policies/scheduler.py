"""A scheduler composed of four choices: who is next, who is held back, how far ahead is planned, and where.

The first, the second and the last are seams (`procure.simulator.seams`); the plan is the kernel that asks them. Here
stand the plans without reservations: the first in the order blocks the others, or is skipped if it does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from procure.policies.lines import DECIDED, Lines, first_of, follow_queue, make_lines, refuse
from procure.policies.names import FITS, NOBODY
from procure.policies.order import Ordered
from procure.policies.parameters import HoldName, PlaceName
from procure.policies.place import FREE, Nodes, Reservation, make_fit, make_nodes
from procure.simulator.drive import CompiledPolicy, compiled
from procure.simulator.kernel import inlined, part
from procure.simulator.seams import hold
from procure.simulator.state import WAIT, Options, State


@hold
class Nobody(NamedTuple):
    """Nobody is held back."""

    holds: bool = False


class Scheduler(NamedTuple):
    """What every composed scheduler has of its own in a run."""

    lines: Lines  # of who may start, in the order
    hold: Any  # a named tuple of a class of hold-backs
    holds: bool  # anybody may be held back
    place: Any  # a `Nodes`, or a named tuple of a class with the same methods
    reserved: Reservation


@inlined
def follow(state, own):
    """Bring everything up to now before a decision."""
    own.place.follow(state)
    own.hold.follow(state)
    own.lines.order.follow(state)
    own.reserved.job[0] = -1


@inlined
def answer(state, own, job):
    """Take note of the job that the decision starts; its nodes stand in ``chosen``."""
    own.lines.counters[DECIDED] = job
    own.hold.started(state, job)
    own.lines.order.started(state, job)
    own.place.started(state, job)
    return job


@inlined
def wait(state, own):
    """Start nobody; a hold-back hears of it if somebody waits."""
    if state.n_waiting[0] > 0:
        own.hold.waits(state)
    return WAIT


@part
def first_admitted(state, own, lines, fitting_only):
    """Return the job that the order serves first, of all or of those that fit, and that is not held back.

    n_jobs if there is none.
    """
    job = first_of(state, lines, own.place, fitting_only)
    while own.holds and job != state.submit.size and not own.hold.admits(state, job, own.reserved):
        refuse(lines, job)
        job = first_of(state, lines, own.place, fitting_only)
    return job


def held_apart(held: Any, state: State) -> tuple[np.ndarray, ...]:
    """Return arrays: jobs that differ in none of them are held back alike."""
    if isinstance(held, Nobody):
        return ()
    return held.apart(state) if hasattr(held, "apart") else (np.arange(len(state.submit)),)


class Composed(Ordered):
    """Parameters of every composed scheduler."""

    takes_tasks: ClassVar[bool] = True
    most_looked_at: ClassVar[int] = 0
    """How many waiting jobs EASY looks at where nothing is said; 0 = all."""
    counts_nodes: ClassVar[bool] = True
    """Whether a job fits wherever enough nodes hold it."""
    hold: HoldName = Field(NOBODY, description="who is held back, though room is free")
    place: PlaceName = Field("first", description="which of the nodes that can hold a job it gets")

    def options(self) -> Options:
        """Let only what is our own list nodes as jobs start."""
        plans, found = self.place not in FITS or self.hold != NOBODY or getattr(self, "depth", 1) > 1, super().options()
        return found._replace(plans=found.plans or int(plans))

    def make_hold(self, state: State) -> Any:
        """Make the hold-back of a run: a named tuple of a class of hold-backs."""
        return Nobody()

    def make_picker(self, state: State) -> Any:
        """Make what picks among the nodes that hold a job: a named tuple of a class of places."""
        return make_fit(state, self.place)

    def make_place(self, state: State, n_lines: int) -> Any:
        """Make the place of a run; there are ``n_lines`` lines of jobs."""
        return make_nodes(state, self.make_picker(state), n_lines)

    def columns(self, state: State, place: Any) -> Callable[[], dict[str, list]] | None:
        """Return what gives the columns that the place adds to the schedule, if it does."""
        return None

    def make_scheduler(self, state: State, order: str, by_shape: bool = True, by_estimate: bool = False) -> Scheduler:
        """Make what every composed scheduler has of its own in a run.

        With ``by_shape`` all jobs of a line ask for the same, with ``by_estimate`` they are expected to run as long.
        """
        held = self.make_hold(state)
        apart = (*held_apart(held, state), *((state.estimate,) if by_estimate else ()))
        lines = make_lines(state, self.make_order(state, order), by_shape, apart)
        place = self.make_place(state, len(lines.first))
        nodes = np.zeros(0, np.int64)
        if isinstance(place, Nodes):
            nodes = place.reserved
            if hasattr(held, "open"):
                place = place._replace(open=held.open, masked=True)
        reserved = Reservation(np.full(1, -1, np.int64), np.zeros(1, np.int64), nodes)
        return Scheduler(lines, held, self.hold != NOBODY, place, reserved)


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
