"""EASY backfilling that holds nodes for jobs that are expected.

The first waiting job's reservation comes first, so that it starts when EASY would start it. Whoever would overtake
it goes around that and around what is held against him, wherever that is expected to save more than it costs
(`procure.forecast.reservations.is_held`); a job that meets its forecast finds those nodes idle. Where other nodes will
do as well, every job keeps clear of those of all likely forecasts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from procure.forecast.reservations import (
    HIGH,
    LOW,
    N_OPEN,
    Expected,
    any_reaches,
    follow,
    is_held,
    is_kept_clear,
    matching,
    next_release,
    reaches,
    weigh_queue,
)
from procure.forecast.steps import empty_steps, find_nodes, free_nodes, hold, step_at
from procure.policies.profile import Profile, build_profile, find_start, take
from procure.simulator.drive import kernel_loop
from procure.simulator.state import FAR, WAIT
from procure.simulator.steps import holds


class ForecastOwn(NamedTuple):
    """What the policy has of its own in a run."""

    expected: Expected
    profile: Profile  # of a pool
    nodes: np.ndarray  # int64[n_nodes], room
    picked: np.ndarray  # int64[n_nodes], room
    reserved: np.ndarray  # int64[n_nodes], of the first waiting job
    times: np.ndarray  # int64[], room


@njit(cache=True, nogil=True)
def forecast(state, own):
    """Start the first job, or one that delays neither it nor what is held against the other.

    Without forecasts this is `easy`.
    """
    follow(state, own.expected)
    if state.n_waiting[0] == 0:
        return WAIT
    may_hold = any_reaches(own.expected, HIGH)
    if may_hold:
        weigh_queue(state, own.expected)
    job = _in_pool(state, own, may_hold) if state.pool else _on_nodes(state, own, may_hold)
    if job == WAIT:
        release = next_release(state, own.expected)
        state.wake[0] = release if release < FAR else -1
    else:
        met = matching(state, own.expected, job)
        if met >= 0:
            own.expected.copies[met] -= 1
    return job


@njit(cache=True, nogil=True)
def _in_pool(state, own, may_hold):
    profile, n_jobs = own.profile, state.submit.size
    head = state.next_waiting[n_jobs]
    if state.n_idle[0] >= state.n_nodes[head]:
        return _idle_nodes(state, head)
    build_profile(state, profile)
    start = find_start(profile, state.n_nodes[head], state.estimate[head], 2 * FAR, 2 * FAR)
    _reserve_in_pool(state, profile, head, start)
    job, is_laid = state.next_waiting[head], False
    while job != n_jobs:
        if state.n_idle[0] >= state.n_nodes[job]:
            if is_laid:
                build_profile(state, profile)
                _reserve_in_pool(state, profile, head, start)
            is_laid = may_hold
            if may_hold:
                _hold_in_pool(state, own, job)
            if find_start(profile, state.n_nodes[job], state.estimate[job], 2 * FAR, state.now[0] + 1) >= 0:
                return _idle_nodes(state, job)
        job = state.next_waiting[job]
    return WAIT


@njit(cache=True, nogil=True)
def _reserve_in_pool(state, profile, head, start):
    if start < FAR:
        take(profile, start, min(start + state.estimate[head], FAR), state.n_nodes[head])


@njit(cache=True, nogil=True)
def _idle_nodes(state, job):
    """Lay the lowest rows that hold a job into ``chosen``; returns the job."""
    found = 0
    for node in range(state.free_cpus.size):
        if found < state.n_nodes[job] and holds(state, node, job):
            state.chosen[found] = node
            found += 1
    return job


@njit(cache=True, nogil=True)
def _hold_in_pool(state, own, against):
    """Take nodes out of the profile for what is held against a waiting job.

    They are taken for as many expected jobs as there is room for; of the forecast that the job itself meets, for
    one less.
    """
    e, profile = own.expected, own.profile
    met = matching(state, e, against)
    for i in range(e.notes[N_OPEN]):
        f = e.open[i]
        if is_held(state, e, f, against):
            n = state.n_nodes[e.job[f]]
            start = max(state.now[0], e.moment[f] - e.tolerance[f])
            end = e.moment[f] + e.tolerance[f] + e.length[f]
            wanted = e.copies[f] - (1 if f == met else 0)
            take(profile, start, end, n * min(wanted, max(0, _least_free(profile, start, end)) // n))


@njit(cache=True, nogil=True)
def _least_free(profile, start, end):
    """Return the fewest nodes idle at any moment from ``start`` until ``end``."""
    least = FAR
    for k in range(profile.n[0]):
        begins = profile.time[k]
        ends = profile.time[k + 1] if k + 1 < profile.n[0] else 4 * FAR
        if begins < end and ends > start:
            least = min(least, profile.free[k])
    return least


@njit(cache=True, nogil=True)
def _on_nodes(state, own, may_hold):
    n_jobs = state.submit.size
    head = state.next_waiting[n_jobs]
    job = _next_with_room(state, n_jobs)
    if job == n_jobs:  # the usual end, long before anything need be laid out
        return WAIT
    start = -1
    if job == head:
        _idle_nodes(state, head)
    else:
        start = _reserve_on_nodes(state, own, head)
        job = _first_beside(state, own, job, head, start, may_hold)
        if job == n_jobs:
            return WAIT
    _keep_clear(state, own, job, head, start)
    return job


@njit(cache=True, nogil=True)
def _first_beside(state, own, job, head, start, may_hold):
    """Return the first waiting job from ``job`` on that can start now beside the first one's reservation."""
    now = state.now[0]
    line = _lay_beside(state, own, job, head, start, HIGH)
    while job != state.submit.size and find_nodes(state, line, job, now) != now:
        job = _next_with_room(state, job)
        if may_hold and job != state.submit.size:
            line = _lay_beside(state, own, job, head, start, HIGH)
    return job


@njit(cache=True, nogil=True)
def _has_room(state, job):
    """Say whether enough nodes have room for a job now, whatever is held."""
    found = 0
    for node in range(state.free_cpus.size):
        if holds(state, node, job):
            found += 1
            if found == state.n_nodes[job]:
                return True
    return False


@njit(cache=True, nogil=True)
def _next_with_room(state, after):
    """Return the next waiting job that has room now, whatever is held; n_jobs if there is none."""
    job = state.next_waiting[after]
    while job != state.submit.size and not _has_room(state, job):
        job = state.next_waiting[job]
    return job


@njit(cache=True, nogil=True)
def _reserve_on_nodes(state, own, head):
    """Lay the nodes of the first waiting job's reservation into ``reserved``; returns when it begins, s."""
    line = _lay_line(state, own, True, HIGH)
    start = find_nodes(state, line, head, 2 * FAR)
    if start < FAR:
        end = min(start + state.estimate[head], FAR)
        if not _highest_rows(state, own, line, head, start, end, own.nodes.size - 1):
            return FAR
        n = state.n_nodes[head]
        own.reserved[:n] = own.nodes[:n]
    return start


@njit(cache=True, nogil=True)
def _lay_beside(state, own, job, head, start, border):
    """Return the timeline that a job meets: what runs, the first one's reservation, what is held against it."""
    line = _lay_line(state, own, job != head, border)
    if job != head and start < FAR:
        end = min(start + state.estimate[head], FAR)
        hold(state, line, head, own.reserved[: state.n_nodes[head]], start, end, -1)
    _hold_on_nodes(state, own, line, job, True)
    return line


@njit(cache=True, nogil=True)
def _keep_clear(state, own, job, head, start):
    """Move a job whose nodes are in ``chosen`` off the nodes of all likely forecasts, if it can."""
    e, is_any = own.expected, False
    for i in range(e.notes[N_OPEN]):
        is_any = is_any or is_kept_clear(e, e.open[i])
    if not is_any:
        return
    n, now = state.n_nodes[job], state.now[0]
    own.picked[:n] = state.chosen[:n]
    line = _lay_beside(state, own, job, head, start, LOW)
    _hold_on_nodes(state, own, line, job, False)
    if find_nodes(state, line, job, now) != now:
        state.chosen[:n] = own.picked[:n]


@njit(cache=True, nogil=True)
def _hold_on_nodes(state, own, line, against, hard):
    """Take nodes for what is held against a job (``hard``), or for the other likely forecasts; see `_hold_in_pool`."""
    e = own.expected
    met = matching(state, e, against)
    for i in range(e.notes[N_OPEN]):
        f = e.open[i]
        held = is_held(state, e, f, against)
        if held if hard else not held and is_kept_clear(e, f):
            _hold_copies(state, own, line, f, e.copies[f] - (1 if f == met else 0))


@njit(cache=True, nogil=True)
def _hold_copies(state, own, line, f, wanted):
    """Take the highest rows that have room for so many jobs that a forecast expects."""
    e = own.expected
    job = e.job[f]
    start = max(state.now[0], e.moment[f] - e.tolerance[f])
    end = e.moment[f] + e.tolerance[f] + e.length[f]
    held, top = 0, own.nodes.size - 1
    while held < wanted and _highest_rows(state, own, line, job, start, end, top):
        hold(state, line, job, own.nodes[: state.n_nodes[job]], start, end, -1)
        held += 1
        top = own.nodes[0]  # what was too full above it still is


@njit(cache=True, nogil=True)
def _highest_rows(state, own, line, job, start, end, top):
    """Lay the highest rows, none above ``top``, that hold a job from ``start`` until ``end`` into ``nodes``.

    Returns
    -------
    bool
        Whether there are enough.
    """
    first = step_at(line, start)
    last = step_at(line, end)
    found = 0
    for node in range(top, -1, -1):
        fits = (state.node_types[node] & state.types[job]) != 0
        k = first
        while fits and k < last:
            row = line.row[k]
            fits = (
                line.cpus[row, node] >= state.cpus[job]
                and line.mem[row, node] >= state.mem[job]
                and line.gpus[row, node] >= state.gpus[job]
            )
            k += 1
        if fits:
            own.nodes[found] = node
            found += 1
            if found == state.n_nodes[job]:
                return True
    return False


@njit(cache=True, nogil=True)
def _lay_line(state, own, every_end, border):
    """Lay out what the running jobs leave, with a step wherever forecasts from a border on begin or end.

    Without ``every_end`` jobs that end between two such moments count from the later one on. What a job that starts
    now may meet is least at these moments, so for such a job nothing is lost.
    """
    e, n_nodes, now = own.expected, state.free_cpus.size, state.now[0]
    n_times = 1
    own.times[0] = now
    for i in range(e.notes[N_OPEN]):
        f = e.open[i]
        if reaches(e, f, border):
            own.times[n_times] = max(now, e.moment[f] - e.tolerance[f])
            own.times[n_times + 1] = e.moment[f] + e.tolerance[f] + e.length[f]
            n_times += 2
    if every_end:
        for i in range(state.n_running[0]):
            own.times[n_times + i] = state.expected_end[state.running[i]]
        n_times += state.n_running[0]
    times = np.unique(own.times[:n_times])
    line = empty_steps(times.size + 4, n_nodes)
    line.cpus[0], line.mem[0], line.gpus[0] = state.free_cpus, state.free_mem, state.free_gpus
    i = 0
    for k in range(times.size):
        line.time[k], line.row[k] = times[k], k
        if k > 0:
            line.cpus[k], line.mem[k], line.gpus[k] = line.cpus[k - 1], line.mem[k - 1], line.gpus[k - 1]
        while i < state.n_running[0] and state.expected_end[state.running[i]] <= times[k]:
            free_nodes(state, line, k, state.running[i])
            i += 1
    line.n[0] = times.size
    if i < state.n_running[0]:  # all others end at some time
        k = step_at(line, state.expected_end[state.running[state.n_running[0] - 1]])
        while i < state.n_running[0]:
            free_nodes(state, line, line.row[k], state.running[i])
            i += 1
    return line


@njit(cache=True, nogil=True)
def forecast_loop(world, state, own):
    """The compiled loop of `forecast`."""
    return kernel_loop(world, state, forecast, own)
