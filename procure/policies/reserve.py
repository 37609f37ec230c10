"""Backfilling behind several reservations: EASY with a depth of more than one."""

from __future__ import annotations

from procure.policies.fit import choose
from procure.policies.lines import DECIDED, N_FILLED, first_within, fits, follow_queue, precedes
from procure.policies.names import FCFS
from procure.policies.order import lay_out
from procure.policies.profile import build_profile, find_start, longest_idle, reserve
from procure.policies.timeline import find_nodes, lay_running, longest_now, plan_nodes
from procure.simulator.drive import kernel_loop
from procure.simulator.kernel import kernel, part
from procure.simulator.state import FAR, WAIT


@kernel
def backfill_behind(state, own):
    """Start a job that delays none of the reservations of the first ``own.depth`` jobs that cannot start.

    The plan is made anew at every decision, from the running jobs' expected ends; but not where
    nobody's request fits, for then nobody starts.
    """
    lines = own.lines
    follow_queue(state, lines)
    if not _any_fits(state, lines):
        return WAIT
    job = _reserve_first(state, own)
    if job == WAIT:
        job = _first_behind(state, own)
        if job != WAIT and not state.pool:
            find_nodes(state, own.line, job, state.now[0])
    if job != WAIT and state.pool:
        choose(state, job, own.room, False)
    lines.counters[DECIDED] = job
    return job


@part
def _any_fits(state, lines):
    for i in range(lines.counters[N_FILLED]):  # noqa: SIM110 - a kernel has no generators
        if fits(state, lines, lines.filled[i]):
            return True
    return False


@part
def _reserve_first(state, own):
    """Plan the first ``own.depth`` jobs; returns the first that can start now, or WAIT.

    On nodes its nodes are then ``chosen``.
    """
    now, plan, line = state.now[0], own.plan, own.line
    n = _lay_first(state, own)
    if state.pool:
        build_profile(state, plan.profile)
    else:
        lay_running(state, line)
    for i in range(n):
        job = plan.jobs[i]
        if state.pool:
            start = find_start(plan.profile, state.n_nodes[job], state.estimate[job], 2 * FAR, 2 * FAR)
        else:
            start = find_nodes(state, line, job, 2 * FAR)
        if start == now:
            return job
        if state.pool:
            reserve(state, plan, job, start)
        else:
            plan_nodes(state, plan, line, job, start)
    return WAIT


@part
def _lay_first(state, own):
    """Lay the first jobs of the queue order into ``plan.jobs``; returns how many."""
    if own.queue_order.rule != FCFS:
        return min(own.depth, lay_out(state, own.queue_order, own.plan.jobs, own.plan.scores))
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
    lines, best = own.lines, WAIT
    for i in range(lines.counters[N_FILLED]):
        line = lines.filled[i]
        if not fits(state, lines, line):
            continue
        if best != WAIT and not precedes(state, lines, lines.first[line], best):
            continue
        if state.pool:
            length = longest_idle(own.plan.profile, state.shapes.n_nodes[lines.shape[line]])
        else:
            length = longest_now(state, own.line, lines.shape[line])
        job = first_within(lines.root, lines.width, lines.least, lines.job_at, line, length)
        if job >= 0 and (best == WAIT or precedes(state, lines, job, best)):
            best = job
    return best


@kernel
def backfill_behind_loop(world, state, own):
    """The compiled loop of `backfill_behind`."""
    return kernel_loop(world, state, backfill_behind, own)
