"""Backfilling behind several reservations: EASY with a depth of more than one."""

from __future__ import annotations

from numba import njit

from procure.policies.fit import choose
from procure.policies.order import lay_out, score
from procure.policies.profile import build_profile, find_start, reserve
from procure.policies.timeline import build_timeline, find_nodes, plan_nodes
from procure.simulator.drive import kernel_loop
from procure.simulator.state import FAR, WAIT


@njit(cache=True, nogil=True)
def backfill_behind(state, own):
    """Start a job that delays none of the reservations of the first ``own.depth`` jobs that cannot start.

    The plan is made anew at every decision, from the running jobs' expected ends.
    """
    n = lay_out(state, own.queue_order, own.plan.jobs)
    if n == 0:
        return WAIT
    if state.pool:
        return _in_pool(state, own, n)
    return _on_nodes(state, own, n)


@njit(cache=True, nogil=True)
def _in_pool(state, own, n):
    now, plan, depth = state.now[0], own.plan, own.depth
    build_profile(state, plan.profile)
    best = WAIT
    lowest = 0.0
    for i in range(n):
        job = plan.jobs[i]
        if i < depth:
            start = find_start(plan.profile, state.n_nodes[job], state.estimate[job], 2 * FAR, 2 * FAR)
            if start == now:
                best = job
                break
            reserve(state, plan, job, start)
            continue
        value = score(state, job, own.order)
        if (best == WAIT or value < lowest) and find_start(
            plan.profile, state.n_nodes[job], state.estimate[job], 2 * FAR, now + 1
        ) == now:
            best, lowest = job, value
    if best == WAIT:
        return WAIT
    choose(state, best, own.room, False)
    return best


@njit(cache=True, nogil=True)
def _on_nodes(state, own, n):
    now, plan, depth = state.now[0], own.plan, own.depth
    line = build_timeline(state)
    best = WAIT
    lowest = 0.0
    for i in range(n):
        job = plan.jobs[i]
        if i < depth:
            start = find_nodes(state, line, job, 2 * FAR, line.everywhere)
            if start == now:
                return job
            plan_nodes(state, plan, line, job, start)
            continue
        value = score(state, job, own.order)
        if (best == WAIT or value < lowest) and find_nodes(state, line, job, now, line.everywhere) == now:
            best, lowest = job, value
    if best == WAIT:
        return WAIT
    find_nodes(state, line, best, now, line.everywhere)
    return best


@njit(cache=True, nogil=True)
def backfill_behind_loop(world, state, own):
    """The compiled loop of `backfill_behind`."""
    return kernel_loop(world, state, backfill_behind, own)
