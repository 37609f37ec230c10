"""Backfilling behind several reservations: EASY with a depth of more than one."""

from __future__ import annotations

from typing import Any, NamedTuple

from procure.policies.lines import DECISION, N_FILLED, first_within, follow_queue, precedes, refuse
from procure.policies.order import is_queue_order, lay_out
from procure.policies.place import start_planned
from procure.policies.profile import Plan, begin_plan, earliest, longest_idle, make_plan, promise
from procure.policies.scheduler import Scheduler, answer, follow, wait
from procure.policies.timeline import longest_now
from procure.simulator.kernel import part
from procure.simulator.state import FAR, WAIT


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
        job = _first_behind(state, own)
        while job != WAIT and not _may_start(state, own, job):
            refuse(scheduler.lines, job)
            job = _first_behind(state, own)
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
def _first_behind(state, own):
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
