"""EASY backfilling: waiting jobs may overtake the first one if they do not delay its reservation.

Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson (2001). The reservation is made
with the expected ends of the running jobs, so with exact estimates it is never delayed.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from procure.policies.lines import (
    DECIDED,
    DECISION,
    N_FILLED,
    Lines,
    first_reached,
    first_within,
    follow_queue,
    make_lines,
    precedes,
    refuse,
)
from procure.policies.order import is_queue_order, lay_out
from procure.policies.parameters import OrderName
from procure.policies.place import BESIDE, FREE, IN_TIME, start_planned
from procure.policies.profile import Plan, begin_plan, earliest, longest_idle, make_plan, promise
from procure.policies.scheduler import Composed, Scheduler, answer, first_admitted, follow, held_apart, wait
from procure.policies.timeline import longest_now
from procure.settings import LARGEST
from procure.simulator.drive import CompiledPolicy, compiled
from procure.simulator.kernel import inlined, part
from procure.simulator.state import FAR, WAIT, State


class BehindOwn(NamedTuple):
    """What backfilling behind several reservations has of its own in a run."""

    scheduler: Scheduler
    queue_order: Any  # by which reservations are held
    by_queue: bool  # that is the queue's own
    depth: int
    plan: Plan


def make_behind(state, scheduler: Scheduler, queue_order: Any, depth: int) -> BehindOwn:
    """Lay out what `behind` needs in one run."""
    return BehindOwn(scheduler, queue_order, is_queue_order(queue_order), depth, make_plan(state))


@part
def behind(state, own):
    """Start a job that delays none of the reservations of the first ``depth`` jobs that cannot start.

    The plan is made anew at every decision, from the running jobs' expected ends; but not where
    nobody's request fits, for then nobody starts.
    """
    scheduler = own.scheduler
    follow(state, scheduler)
    own.queue_order.follow(state)
    follow_queue(state, scheduler.lines)
    if not _any_fits(state, scheduler):
        return wait(state, scheduler)
    job = _reserve_first(state, own)
    if job == WAIT:
        job = _first_beside_plan(state, own)
        while job != WAIT and not _may_start(state, own, job):
            refuse(scheduler.lines, job)
            job = _first_beside_plan(state, own)
    if job == WAIT:
        return wait(state, scheduler)
    promise(state, own.plan, job, state.now[0])
    start_planned(state, own.plan, scheduler.place, job)
    return answer(state, scheduler, job)


@part
def _any_fits(state, scheduler):
    lines = scheduler.lines
    for i in range(lines.counters[N_FILLED]):  # noqa: SIM110 - a kernel has no generators
        if scheduler.place.fits(state, lines, lines.filled[i]):
            return True
    return False


@part
def _may_start(state, own, job):
    """Say whether a job may and can start now beside the plan."""
    scheduler = own.scheduler
    if scheduler.holds and not scheduler.hold.admits(state, job, scheduler.reserved):
        return False
    return earliest(state, own.plan, job, 2 * FAR, state.now[0] + 1) == state.now[0]


@part
def _reserve_first(state, own):
    """Plan the first ``own.depth`` jobs; returns the first that can start now, or WAIT."""
    now, plan, scheduler = state.now[0], own.plan, own.scheduler
    n = _lay_first(state, own)
    begin_plan(state, plan)
    planned = 0
    for i in range(n):
        job = plan.jobs[i]
        if planned == own.depth or (scheduler.holds and not scheduler.hold.admits(state, job, scheduler.reserved)):
            continue
        planned += 1
        start = earliest(state, plan, job, 2 * FAR, 2 * FAR)
        if start == now:
            return job
        promise(state, plan, job, start)
    return WAIT


@part
def _lay_first(state, own):
    """Lay the first jobs of the queue order into ``plan.jobs``; returns how many."""
    if not own.by_queue or own.scheduler.holds:
        n = lay_out(state, own.queue_order, not own.by_queue, own.plan.jobs, own.plan.scores)
        return n if own.scheduler.holds else min(own.depth, n)
    n_jobs = state.submit.size
    n, job = 0, state.next_waiting[n_jobs]
    while job != n_jobs and n < own.depth:
        own.plan.jobs[n] = job
        n += 1
        job = state.next_waiting[job]
    return n


@part
def _first_beside_plan(state, own):
    """Return the first job in the backfill order that the plan leaves room for from now on, or WAIT.

    Nobody who holds a reservation is found here: with it, there is no more room for the job now than before.
    """
    lines, best = own.scheduler.lines, WAIT
    for i in range(lines.counters[N_FILLED]):
        line = lines.filled[i]
        if not own.scheduler.place.fits(state, lines, line) or lines.refused[line] == lines.counters[DECISION]:
            continue
        if best != WAIT and not precedes(state, lines, lines.first[line], best):
            continue
        if state.pool:
            length = longest_idle(own.plan.profile, state.shapes.n_nodes[lines.shape[line]])
        else:
            length = longest_now(state, state.tasks, own.plan.line, lines.shape[line])
        job = first_within(lines, line, length)
        if job >= 0 and (best == WAIT or precedes(state, lines, job, best)):
            best = job
    return best


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
