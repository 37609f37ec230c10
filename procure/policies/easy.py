"""EASY backfilling: waiting jobs may overtake the first one if they do not delay its reservation.

Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson (2001). The reservation is made
with the expected ends of the running jobs, so with exact estimates it is never delayed.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from procure.policies.lines import (
    DECIDED,
    DECISION,
    N_FILLED,
    Lines,
    first_reached,
    follow_queue,
    make_lines,
    precedes,
    refuse,
)
from procure.policies.parameters import OrderName
from procure.policies.place import BESIDE, FREE, IN_TIME
from procure.policies.reserve import behind, make_behind
from procure.policies.scheduler import Composed, Scheduler, answer, first_admitted, follow, held_apart, wait
from procure.settings import LARGEST
from procure.simulator.drive import CompiledPolicy, compiled
from procure.simulator.kernel import inlined, part
from procure.simulator.state import FAR, State


class EasyOwn(NamedTuple):
    """What EASY has of its own in a run."""

    scheduler: Scheduler
    queue: Lines  # in the order by which the first reservation is held
    by_time_only: bool
    keep: bool
    queue_depth: int
    notes: np.ndarray  # int64[4]


CHANGES, HEAD, SHADOW, KEPT = range(4)
"""What the notes hold: the reservation, the changes that it knows, and who is kept to until it starts."""


@part
def easy(state, own):
    """Start the first job in the order if it fits; else one that does not delay the reservations.

    The first job (with ``depth`` more, so many) that cannot start holds a reservation at its *shadow
    time*, the earliest moment at which the running jobs' expected ends leave it room. Another job may
    start now if it ends by then, or if it takes only what the reservation leaves. They are tried in
    the backfill order. ``by_time_only`` is the stricter variant of one published program: only jobs
    that end strictly before the shadow time.
    """
    n_jobs, scheduler, notes = state.submit.size, own.scheduler, own.notes
    lines = scheduler.lines
    answered = lines.counters[DECIDED]
    if answered >= 0 and state.start[answered] < 0:
        notes[HEAD] = -1  # somebody else started another job, which the reservation does not know
    follow(state, scheduler)
    own.queue.order.follow(state)
    follow_queue(state, lines)
    head = state.next_waiting[n_jobs]
    if scheduler.holds or not own.queue.by_queue:
        follow_queue(state, own.queue)
        head = first_admitted(state, scheduler, own.queue, False)
    if head == n_jobs:
        return wait(state, scheduler)
    if own.keep:
        head = _kept(state, own, head)
    job, which = head, FREE
    line = lines.line_of[head]
    if scheduler.place.fits(state, lines, line) and scheduler.place.room(state, lines, line, which):
        notes[HEAD] = -1  # under an order that changes, who holds the reservation now may be first again
    else:
        job, which = _first_behind(state, own, head)
        while scheduler.holds and job != n_jobs and not scheduler.hold.admits(state, job, scheduler.reserved):
            refuse(lines, job)
            job, which = _first_behind(state, own, head)
        if job == n_jobs:
            return wait(state, scheduler)
    scheduler.place.choose(state, job, which)
    notes[CHANGES] = state.n_changes[0] + 1
    own.queue.counters[DECIDED] = job
    return answer(state, scheduler, job)


@part
def _kept(state, own, head):
    """Return who was first at an earlier decision and still waits, unless it is held back now; else who is first."""
    kept, scheduler = own.notes[KEPT], own.scheduler
    waits = kept >= 0 and state.start[kept] < 0
    if waits and (not scheduler.holds or scheduler.hold.admits(state, kept, scheduler.reserved)):
        return kept
    own.notes[KEPT] = head
    return head


@part
def _first_behind(state, own, head):
    """Return the first job in the backfill order that may start, and what it may take."""
    n_jobs, lines, place = state.submit.size, own.scheduler.lines, own.scheduler.place
    best, which = n_jobs, FREE
    in_time, reach = -1, n_jobs
    for i in range(lines.counters[N_FILLED]):
        line = lines.filled[i]
        if not place.fits(state, lines, line) or lines.refused[line] == lines.counters[DECISION]:
            continue
        if in_time < 0:
            _reserve(state, own, head)
            in_time = _longest_in_time(state, own)
            reach = _reach(state, own.queue_depth)
        job = lines.first[line]
        if best != n_jobs and not precedes(state, lines, job, best):
            continue
        late = state.estimate[job] > in_time
        if late or job > reach or not place.room(state, lines, line, IN_TIME):
            late = not own.by_time_only and job <= reach and late and place.room(state, lines, line, BESIDE)
            if not late:
                job = first_reached(lines, line, in_time, reach)
                if job < 0 or (best != n_jobs and not precedes(state, lines, job, best)):
                    continue
                if not place.room(state, lines, line, IN_TIME):
                    continue
        best, which = job, np.int64(BESIDE if late else IN_TIME)
    return best, which


@part
def _reach(state, depth):
    """Return the last waiting job that is looked at, in queue order; n_jobs if all are."""
    n_jobs = state.submit.size
    job = n_jobs
    for _ in range(depth):
        if state.next_waiting[job] == n_jobs:
            return n_jobs
        job = state.next_waiting[job]
    return job


@inlined
def _longest_in_time(state, own):
    """Say how long a job may run that ends before the reservation begins, s.

    Whoever waits for a job without a limit is delayed by nobody; so such a job, too, is in time then, whenever
    it starts.
    """
    shadow = own.notes[SHADOW]
    if own.by_time_only or shadow < FAR:
        return max(shadow - state.now[0] - own.by_time_only, 0)
    return FAR


@inlined
def _reserve(state, own, head):
    """Make the first job's reservation, unless the one that stands is still right.

    A job that is backfilled moves no reservation, it only takes from what that leaves; so only what
    was not foreseen makes it wrong.
    """
    notes, reserved = own.notes, own.scheduler.reserved
    if notes[HEAD] != head or notes[CHANGES] != state.n_changes[0]:
        notes[HEAD], notes[CHANGES] = head, state.n_changes[0]
        notes[SHADOW] = own.scheduler.place.reserve(state, head)
    reserved.job[0], reserved.start[0] = head, notes[SHADOW]


class Easy(Composed):
    """Parameters of `easy`."""

    rule: ClassVar = easy
    plans: ClassVar[bool] = False
    order: OrderName = Field("fcfs", description="which job is tried first behind the reservations")
    queue_order: OrderName = Field("fcfs", description="which job holds the first reservation")
    depth: int = Field(1, ge=1, le=LARGEST, description="how many waiting jobs hold a reservation")
    by_time_only: bool = Field(
        False, description="backfill only what ends strictly before the reservation; needs depth 1"
    )
    keep: bool = Field(
        False,
        description="who holds the first reservation keeps it until it starts, whoever is first since; needs depth 1",
    )
    queue_depth: int = Field(
        0,
        ge=0,
        le=LARGEST,
        description="waiting jobs that are looked at, the first included; 0 = all, on a tree 128; needs depth 1",
    )

    @property
    def orders(self) -> tuple[str, ...]:
        """Every order that these parameters use."""
        return self.order, self.queue_order

    @model_validator(mode="after")
    def _one_reservation(self) -> Easy:
        if self.depth > 1 and self.by_time_only:
            raise ValueError(f"by_time_only knows one reservation only; depth {self.depth} was given")
        if self.depth > 1 and self.keep:
            raise ValueError(f"keep knows one reservation only; depth {self.depth} was given")
        if self.depth > 1 and self.queue_depth:
            raise ValueError(f"queue_depth counts with one reservation only; depth {self.depth} was given")
        return self

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        queue_order = self.make_order(state, self.queue_order)
        if self.depth > 1:
            by_estimate = not self.counts_nodes or state.tasks is not None
            scheduler = self.make_scheduler(state, self.order, by_estimate=by_estimate)
            columns = self.columns(state, scheduler.place)
            return compiled(behind, make_behind(state, scheduler, queue_order, self.depth), columns)
        scheduler = self.make_scheduler(state, self.order)
        queue = scheduler.lines  # which nobody asks where the queue's own order holds and nobody is held back
        if self.queue_order != self.order or not queue.by_queue or scheduler.holds:
            queue = make_lines(state, queue_order, False, held_apart(scheduler.hold, state))
        queue_depth = self.queue_depth or self.most_looked_at
        own = EasyOwn(scheduler, queue, self.by_time_only, self.keep, queue_depth, np.full(4, -1, np.int64))
        return compiled(easy, own, self.columns(state, scheduler.place))
