"""EASY backfilling that holds nodes for jobs that are expected.

Nodes held for good are as if jobs ran on them from the expected time less the tolerance on; the first waiting
job's reservation and all backfilling go around them. A job that meets its forecast starts there, ahead of the
queue. Nodes of the middle band are only kept clear where another node will do as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from procure.forecast.reservations import N_OPEN, Expected, follow, is_held, matching, next_release
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
    times: np.ndarray  # int64[], room


@njit(cache=True, nogil=True)
def forecast(state, own):
    """Start a job that meets its forecast; else the first job, or one that delays neither it nor what is held.

    Without forecasts this is `easy`.
    """
    follow(state, own.expected)
    if state.n_waiting[0] == 0:
        return WAIT
    job = _in_pool(state, own) if state.pool else _on_nodes(state, own)
    if job == WAIT:
        release = next_release(state, own.expected)
        state.wake[0] = release if release < FAR else -1
    else:
        met = matching(state, own.expected, job)
        if met >= 0:
            own.expected.copies[met] -= 1
    return job


@njit(cache=True, nogil=True)
def _first_meeting(state, own, after):
    """Return the next waiting job that meets a forecast for which nodes are held, and that forecast."""
    e = own.expected
    n_jobs = state.submit.size
    job = state.next_waiting[after]
    while job != n_jobs:
        f = matching(state, e, job)
        if f >= 0 and e.n_held[f] > 0:
            return job, f
        job = state.next_waiting[job]
    return n_jobs, -1


@njit(cache=True, nogil=True)
def _in_pool(state, own):
    now, profile, n_jobs = state.now[0], own.profile, state.submit.size
    build_profile(state, profile)
    if _hold_in_pool(state, own, -1):
        job, f = _first_meeting(state, own, n_jobs)
        while job != n_jobs:
            if state.n_idle[0] >= state.n_nodes[job]:
                build_profile(state, profile)
                _hold_in_pool(state, own, f)
                if _starts_in_pool(state, own, job, now):
                    return job
            job, f = _first_meeting(state, own, job)
        build_profile(state, profile)
        _hold_in_pool(state, own, -1)
    head = state.next_waiting[n_jobs]
    start = find_start(profile, state.n_nodes[head], state.estimate[head], 2 * FAR, 2 * FAR)
    if start == now:
        return _idle_nodes(state, head)
    if start < FAR:
        take(profile, start, min(start + state.estimate[head], FAR), state.n_nodes[head])
    job = state.next_waiting[head]
    while job != n_jobs:
        if state.n_idle[0] >= state.n_nodes[job] and _starts_in_pool(state, own, job, now):
            return job
        job = state.next_waiting[job]
    return WAIT


@njit(cache=True, nogil=True)
def _starts_in_pool(state, own, job, now):
    """Say whether a job can start now in the profile, and lay its nodes into ``chosen``."""
    if find_start(own.profile, state.n_nodes[job], state.estimate[job], 2 * FAR, now + 1) != now:
        return False
    _idle_nodes(state, job)
    return True


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
def _hold_in_pool(state, own, less):
    """Take nodes out of the profile for every forecast held for good, for as many jobs as there is room.

    Parameters
    ----------
    less
        The forecast of which one job fewer is expected, being about to start; −1 = none. Only without one it
        is noted in ``n_held`` for how many jobs nodes are held.

    Returns
    -------
    bool
        Whether any are held.
    """
    e, profile, now = own.expected, own.profile, state.now[0]
    any_held = False
    for i in range(e.notes[N_OPEN]):
        f = e.open[i]
        if less < 0:
            e.n_held[f] = 0
        if not is_held(state, e, f, True):
            continue
        n = state.n_nodes[e.job[f]]
        start = max(now, e.moment[f] - e.tolerance[f])
        end = e.moment[f] + e.tolerance[f] + e.length[f]
        wanted = e.copies[f] - (1 if f == less else 0)
        held = min(wanted, max(0, _least_free(profile, start, end)) // n)
        take(profile, start, end, n * held)
        if less < 0:
            e.n_held[f] = held
        any_held = any_held or held > 0
    return any_held


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
def _on_nodes(state, own):
    now, n_jobs = state.now[0], state.submit.size
    line = _lay_held(state, own, -1)
    first = _next_with_room(state, n_jobs)
    if first == n_jobs:  # the usual end, long before anything else need be laid out
        return WAIT
    others, less = line, -1
    job, f = _first_meeting(state, own, n_jobs)
    while job != n_jobs:
        if _has_room(state, job):
            if f != less:
                others, less = _lay_held(state, own, f), f
            if find_nodes(state, others, job, now) == now:
                return job
        job, f = _first_meeting(state, own, job)
    head = state.next_waiting[n_jobs]
    job = _first_on(state, line, first)
    if job == n_jobs:
        return WAIT
    if job != head:
        line = _lay_with_head(state, own, head, False)
        job = _first_on(state, line, job)
    if job != n_jobs:
        _keep_clear(state, own, job, head)
        return job
    return WAIT


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
def _first_on(state, line, job):
    """Return the first waiting job from ``job`` on that can start now on a timeline; its nodes are ``chosen``."""
    now = state.now[0]
    while job != state.submit.size and find_nodes(state, line, job, now) != now:
        job = _next_with_room(state, job)
    return job


@njit(cache=True, nogil=True)
def _lay_held(state, own, less):
    """Return the timeline on which nodes are held for good; see `_hold_in_pool` for ``less``."""
    line = _lay_line(state, own, False, False)
    _hold_on_nodes(state, own, line, less, True)
    return line


@njit(cache=True, nogil=True)
def _lay_with_head(state, own, head, soft):
    """Return the timeline on which the first waiting job holds its reservation, too."""
    line = _lay_line(state, own, True, soft)
    _hold_on_nodes(state, own, line, -1, True)
    start = find_nodes(state, line, head, 2 * FAR)
    if start < FAR:
        end = min(start + state.estimate[head], FAR)
        if _highest_rows(state, own, line, head, start, end, own.nodes.size - 1):
            hold(state, line, head, own.nodes[: state.n_nodes[head]], start, end, -1)
    return line


@njit(cache=True, nogil=True)
def _keep_clear(state, own, job, head):
    """Move a job whose nodes are in ``chosen`` off the nodes of the middle band, if it can."""
    e, n = own.expected, state.n_nodes[job]
    soft = False
    for i in range(e.notes[N_OPEN]):
        soft = soft or is_held(state, e, e.open[i], False)
    if not soft:
        return
    own.picked[:n] = state.chosen[:n]
    if job == head:
        line = _lay_line(state, own, False, True)
        _hold_on_nodes(state, own, line, -1, True)
    else:
        line = _lay_with_head(state, own, head, True)
    _hold_on_nodes(state, own, line, -1, False)
    if find_nodes(state, line, job, state.now[0]) != state.now[0]:
        state.chosen[:n] = own.picked[:n]


@njit(cache=True, nogil=True)
def _hold_on_nodes(state, own, line, less, hard):
    """Take the highest rows that have room for every forecast of a band; see `_hold_in_pool`."""
    e, now = own.expected, state.now[0]
    for i in range(e.notes[N_OPEN]):
        f = e.open[i]
        if hard and less < 0:
            e.n_held[f] = 0
        if not is_held(state, e, f, hard):
            continue
        job = e.job[f]
        start = max(now, e.moment[f] - e.tolerance[f])
        end = e.moment[f] + e.tolerance[f] + e.length[f]
        held = 0
        wanted = e.copies[f] - (1 if f == less else 0)
        top = own.nodes.size - 1
        while held < wanted and _highest_rows(state, own, line, job, start, end, top):
            hold(state, line, job, own.nodes[: state.n_nodes[job]], start, end, -1)
            held += 1
            top = own.nodes[0]  # what was too full above it still is
        if hard and less < 0:
            e.n_held[f] = held


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
def _lay_line(state, own, every_end, soft):
    """Lay out what the running jobs leave, with a step wherever something is held from or until.

    With ``soft`` the forecasts of the middle band, too.

    Without ``every_end`` jobs that end between two such moments count from the later one on. What a job that starts
    now may meet is least at these moments, so for such a job nothing is lost.
    """
    e, n_nodes, now = own.expected, state.free_cpus.size, state.now[0]
    n_times = 1
    own.times[0] = now
    for i in range(e.notes[N_OPEN]):
        f = e.open[i]
        if is_held(state, e, f, True) or (soft and is_held(state, e, f, False)):
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
