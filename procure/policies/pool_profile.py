"""What is free over time in a pool, where only the number of idle nodes counts: steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.kernel import insert, part, remove
from procure.simulator.state import NEVER


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
