"""What is free over time: the one face on which every plan, reservation and forecast is laid.

In a pool, where only the number of idle nodes counts, it is a `Profile`; elsewhere a `Timeline`, on which a plan names
its nodes, see `procure.policies.timeline`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.policies.timeline import GIVE, TAKE, Timeline, find_nodes, hold, lay_running, make_timeline
from procure.simulator.kernel import insert, part, remove
from procure.simulator.state import FAR, NEVER
from procure.simulator.tasks import answer_nodes, answer_units, keep_planned, n_held, units_at


class Profile(NamedTuple):
    """How many nodes are idle: ``free[k]`` from ``time[k]`` until ``time[k + 1]``; the last step never ends."""

    time: np.ndarray  # int64[2 n_jobs + 2], s
    free: np.ndarray  # int64[2 n_jobs + 2]
    n: np.ndarray  # int64[1], steps


def make_profile(n_steps: int) -> Profile:
    """Lay out room for so many steps."""
    return Profile(np.zeros(n_steps, np.int64), np.zeros(n_steps, np.int64), np.zeros(1, np.int64))


@part
def build_profile(state, profile):
    """Begin again with the running jobs only."""
    time, free, n_steps = profile.time, profile.free, profile.n
    time[0] = state.now[0]
    free[0] = state.n_idle[0]
    last = 0
    for i in range(state.n_running[0]):
        job = state.running[i]
        end = state.expected_end[job]
        if end != time[last]:
            last += 1
            time[last] = end
            free[last] = free[last - 1]
        free[last] += state.n_nodes[job]
    n_steps[0] = last + 1


@part
def drop_past_steps(profile, now):
    """Let the first step begin now."""
    time, free, n_steps = profile.time, profile.free, profile.n
    passed = 0
    while passed + 1 < n_steps[0] and time[passed + 1] <= now:
        passed += 1
    if passed > 0:
        for i in range(passed, n_steps[0]):
            time[i - passed] = time[i]
            free[i - passed] = free[i]
        n_steps[0] -= passed
    time[0] = now


@part
def find_start(profile, n, length, before, below):
    """Find the earliest moment from which ``n`` nodes are idle for ``length`` s, or until ``before``.

    A job that holds a reservation from ``before`` on may count on its own nodes then. Returns s, less than ``before``
    and than ``below``; −1 if there is none.
    """
    time, free, steps = profile.time, profile.free, profile.n[0]
    bound = min(before, below)
    k = 0
    while k < steps and time[k] < bound:
        if free[k] < n:
            k += 1
            continue
        end = min(time[k] + length, before)
        m = k + 1
        while m < steps and time[m] < end and free[m] >= n:
            m += 1
        if m == steps or time[m] >= end:
            return time[k]
        k = m + 1
    return -1


@part
def longest_idle(profile, n):
    """Say for how long ``n`` nodes are idle from now on: s, NEVER − 1 for ever, 0 if they are not now."""
    for k in range(profile.n[0]):
        if profile.free[k] < n:
            return profile.time[k] - profile.time[0]
    return NEVER - 1


@part
def _step_at(profile, moment):
    """Return the step that begins at ``moment``; one is made where there is none."""
    time, free, n_steps = profile.time, profile.free, profile.n
    low, high = 0, n_steps[0]
    while low < high:
        middle = (low + high) // 2
        if time[middle] < moment:
            low = middle + 1
        else:
            high = middle
    if low < n_steps[0] and time[low] == moment:
        return low
    insert(time, n_steps[0], low, moment)
    insert(free, n_steps[0], low, free[low - 1])
    n_steps[0] += 1
    return low


@part
def _merge_steps(profile, step):
    """Take a step away that changes nothing."""
    time, free, n_steps = profile.time, profile.free, profile.n
    if 0 < step < n_steps[0] and free[step] == free[step - 1]:
        remove(time, n_steps[0], step)
        remove(free, n_steps[0], step)
        n_steps[0] -= 1


@part
def take(profile, start, end, n):
    """Hold ``n`` nodes (give back, if negative) from ``start`` until ``end``, s, both not before now."""
    if start >= end:
        return
    first = _step_at(profile, start)
    last = _step_at(profile, end)
    for i in range(first, last):
        profile.free[i] -= n
    _merge_steps(profile, last)
    _merge_steps(profile, first)


class Plan(NamedTuple):
    """When waiting jobs are planned to start and, unless in a pool, where; and what all plans leave."""

    start: np.ndarray  # int64[n_jobs], s; −1 = not planned
    nodes: np.ndarray  # int32[sum of n_nodes], as `State.node_list`
    soonest: np.ndarray  # int64[1], s; no waiting job is planned to start from now until then
    jobs: np.ndarray  # int64[n_jobs], room for jobs in an order
    scores: np.ndarray  # float64[n_jobs], room for their scores
    profile: Profile  # used in a pool
    line: Timeline  # used otherwise


def make_plan(state) -> Plan:
    """Lay out an empty plan."""
    n_jobs = state.submit.size
    return Plan(
        start=np.full(n_jobs, -1, np.int64),
        nodes=np.full(state.node_list.size, -1, np.int32),
        soonest=np.full(1, FAR, np.int64),
        jobs=np.zeros(n_jobs, np.int64),
        scores=np.zeros(n_jobs),
        profile=make_profile(2 * n_jobs + 2),
        line=make_timeline(state, not state.pool),
    )


@part
def begin_plan(state, plan):
    """Begin again with the running jobs only."""
    if state.pool:
        build_profile(state, plan.profile)
    else:
        lay_running(state, plan.line)


@part
def earliest(state, plan, job, before, below):
    """Find the earliest moment at which there is room for a job as long as it lasts, or until ``before``.

    In a pool a job that holds nodes from ``before`` on may count on them then. Elsewhere ``before`` is the last
    moment that will do, and the lowest rows that hold the job are laid into ``chosen``.

    Returns
    -------
    int
        s, in a pool less than ``below``; −1 if there is none.
    """
    if state.pool:
        return find_start(plan.profile, state.n_nodes[job], state.estimate[job], before, below)
    return find_nodes(state, state.tasks, plan.line, job, before)


@part
def promise(state, plan, job, start):
    """Plan a job at the moment that `earliest` found."""
    if not state.pool:
        plan_nodes(state, plan, job, start)
        return
    plan.start[job] = min(start, FAR)  # behind a job without a limit it holds nothing
    plan.soonest[0] = min(plan.soonest[0], start)
    if start < FAR:
        take(plan.profile, start, min(start + state.estimate[job], FAR), state.n_nodes[job])


@part
def withdraw(state, plan, job):
    """Take a job's plan back."""
    if not state.pool:
        hold_plan(state, plan, job, GIVE)
        return
    start = plan.start[job]
    if start < FAR:
        take(plan.profile, start, min(start + state.estimate[job], FAR), -state.n_nodes[job])
    plan.start[job] = -1


@part
def plan_nodes(state, plan, job, start):
    """Plan a job on the ``chosen`` nodes from ``start``; with −1 it is not planned."""
    first = state.node_first[job]
    keep_planned(state, state.tasks, job, start)
    for i in range(n_held(state, state.tasks, job)):
        plan.nodes[first + i] = state.chosen[i]
    plan.start[job] = start
    if start >= 0:
        plan.soonest[0] = min(plan.soonest[0], start)
    hold_plan(state, plan, job, TAKE)


@part
def lay_planned(state, tasks, plan, job):
    """Lay the nodes on which a job is planned into ``chosen`` as an answer."""
    first = state.node_first[job]
    for i in range(n_held(state, tasks, job)):
        state.chosen[i] = plan.nodes[first + i]
        answer_units(tasks, plan.nodes[first + i], units_at(tasks, first + i))
    answer_nodes(tasks, n_held(state, tasks, job))


@part
def hold_plan(state, plan, job, sign):
    """Hold what a waiting job's plan needs (`TAKE`), or give it back (`GIVE`)."""
    start = plan.start[job]
    if start >= 0:
        hold(state, plan.line, job, plan.nodes, start, min(start + state.estimate[job], FAR), sign)
