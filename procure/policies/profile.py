"""A plan of the waiting jobs, and the profile of a pool: how many nodes are idle from each moment on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.kernel import part
from procure.simulator.state import FAR, NEVER


class Profile(NamedTuple):
    """How many nodes are idle: ``free[k]`` from ``time[k]`` until ``time[k + 1]``; the last step never ends."""

    time: np.ndarray  # int64[2 n_jobs + 2], s
    free: np.ndarray  # int64[2 n_jobs + 2]
    n: np.ndarray  # int64[1], steps


class Plan(NamedTuple):
    """When waiting jobs are planned to start and, unless in a pool, where."""

    start: np.ndarray  # int64[n_jobs], s; −1 = not planned
    nodes: np.ndarray  # int64[sum of n_nodes], as `State.node_list`
    soonest: np.ndarray  # int64[1], s; no waiting job is planned to start from now until then
    jobs: np.ndarray  # int64[n_jobs], room for jobs in an order
    scores: np.ndarray  # float64[n_jobs], room for their scores
    profile: Profile


def make_plan(state, needed: bool = True) -> Plan:
    """Lay out an empty plan; without room if it is not needed."""
    n_jobs, n_nodes = (state.submit.size, state.node_list.size) if needed else (0, 0)
    n_steps = 2 * n_jobs + 2
    profile = Profile(np.zeros(n_steps, np.int64), np.zeros(n_steps, np.int64), np.zeros(1, np.int64))
    return Plan(
        start=np.full(n_jobs, -1, np.int64),
        nodes=np.full(n_nodes, -1, np.int64),
        soonest=np.full(1, FAR, np.int64),
        jobs=np.zeros(n_jobs, np.int64),
        scores=np.zeros(n_jobs),
        profile=profile,
    )


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
def drop_past(profile, now):
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

    A job that holds a reservation from ``before`` on may count on its own nodes then.

    Returns
    -------
    int
        s, less than ``before`` and than ``below``; −1 if there is none.
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
    for i in range(n_steps[0], low, -1):
        time[i] = time[i - 1]
        free[i] = free[i - 1]
    time[low] = moment
    free[low] = free[low - 1]
    n_steps[0] += 1
    return low


@part
def _merge(profile, step):
    """Take a step away that changes nothing."""
    time, free, n_steps = profile.time, profile.free, profile.n
    if 0 < step < n_steps[0] and free[step] == free[step - 1]:
        n_steps[0] -= 1
        for i in range(step, n_steps[0]):
            time[i] = time[i + 1]
            free[i] = free[i + 1]


@part
def take(profile, start, end, n):
    """Hold ``n`` nodes (give back, if negative) from ``start`` until ``end``, s, both not before now."""
    if start >= end:
        return
    first = _step_at(profile, start)
    last = _step_at(profile, end)
    for i in range(first, last):
        profile.free[i] -= n
    _merge(profile, last)
    _merge(profile, first)


@part
def reserve(state, plan, job, start):
    """Plan a job; one that could start only after a job without a limit holds nothing."""
    plan.start[job] = min(start, FAR)
    plan.soonest[0] = min(plan.soonest[0], start)
    if start < FAR:
        take(plan.profile, start, min(start + state.estimate[job], FAR), state.n_nodes[job])


@part
def unreserve(state, plan, job):
    """Take a job's plan back."""
    start = plan.start[job]
    if start < FAR:
        take(plan.profile, start, min(start + state.estimate[job], FAR), -state.n_nodes[job])
    plan.start[job] = -1
