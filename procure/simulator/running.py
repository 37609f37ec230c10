"""What a policy may do to running jobs: change how fast their work is done, or end them, so that they wait again.

A job's work is its run time on its nodes, in units of 1 / `PACE_ONE` s. At pace p it does p units a
second. At each change what was done is subtracted, so nothing is lost or gained by how often the pace
changes: the job ends in the first whole second by which all its work is done.
"""

from __future__ import annotations

from procure.files.kernels import njit
from procure.simulator.kernel import inlined, part
from procure.simulator.seams import by_reference
from procure.simulator.state import FAR, NEVER, PACE_MOST, PACE_ONE, WAIT
from procure.simulator.steps import (
    NOT_RUNNING,
    OK,
    PACE_OF_WAITING,
    PACE_TOO_LONG,
    STUCK,
    _append,
    _enter,
    _leave,
    _pop,
    _release,
    advance,
    place,
    rise,
    sink,
)
from procure.simulator.tasks import n_answered

LONGEST_WORK = 1 << 40
"""Seconds: the longest run time whose pace can change, so that no number reaches 2^62 (2^40 · PACE_ONE < 2^60)."""


@njit(cache=True, nogil=True)
def ask_pace(state, job, pace):
    """Ask, as a policy, that a job go on at a pace from now on; it takes effect with the policy's next answer.

    Parameters
    ----------
    job : int
        A running job, or the one that the answer starts. Nothing happens if it has ended.
    pace : int
        Units of 1 / PACE_ONE s per second: PACE_ONE as logged, 0 paused, at most PACE_MOST. The last of
        several wishes for one job counts.

    Raises
    ------
    ValueError
        There is no such job or pace.
    """
    if job < 0 or job >= state.submit.size:
        raise ValueError("ask_pace: there is no such job")
    if pace < 0 or pace > PACE_MOST:
        raise ValueError("ask_pace: a pace is at least 0 and at most PACE_MOST")
    if state.asked_pace[job] < 0:
        state.asked[state.n_asked[0]] = job
        state.n_asked[0] += 1
    state.asked_pace[job] = pace


@njit(cache=True, nogil=True)
def change_paces(world, state):
    """Give every job the pace that was asked for it; returns OK, or why not (`steps.REASONS`), and the job meant."""
    status, about = OK, -1
    for i in range(state.n_asked[0]):
        job = state.asked[i]
        pace = state.asked_pace[job]
        state.asked_pace[job] = -1
        if state.start[job] < 0:
            status, about = PACE_OF_WAITING, job
        elif world.end[job] > state.now[0] and pace != state.pace[job]:
            if world.left[job] < 0 and world.full[world.speed_of[job], job] > LONGEST_WORK:
                status, about = PACE_TOO_LONG, job
            else:
                _change(world, state, job, pace)
    state.n_asked[0] = 0
    return status, about


@njit(cache=True, nogil=True)
def _change(world, state, job, pace):
    now, old = state.now[0], state.pace[job]
    _bring_up_to_now(world, state, job, now, old)
    state.n_running[0] = _leave(state.running, state.n_running[0], state.expected_end, job)
    state.pace[job] = pace
    if pace == 0:
        world.end[job], world.cut[job] = NEVER, False
        state.expected_end[job] = FAR
    else:
        done = now + _seconds(world.left[job], pace)
        limit = now + world.limit_left[job]
        world.cut[job] = limit < done
        world.end[job] = min(done, limit)
        believed = world.believed[job]
        state.expected_end[job] = FAR if believed == FAR else min(now + _seconds(believed, pace), FAR)
    state.n_running[0] = _enter(state.running, state.n_running[0], state.expected_end, job)
    _move(world.heap, world.n_heap[0], world.end, job)
    state.n_changes[0] += 1
    state.n_corrected[0] += 1


@njit(cache=True, nogil=True)
def _bring_up_to_now(world, state, job, now, pace):
    """Subtract what was done since the last change; at the first one, begin with the whole job."""
    if world.left[job] < 0:
        world.left[job] = world.full[world.speed_of[job], job] * PACE_ONE
        world.limit_left[job] = world.limit[job] if world.limit[job] > 0 else FAR
        world.since[job] = state.start[job]
        expected = state.expected_end[job] - state.start[job]
        world.believed[job] = expected * PACE_ONE if expected <= LONGEST_WORK else FAR
    passed = now - world.since[job]
    world.since[job] = now
    if pace == 0:
        return
    expected, believed = state.expected_end[job], world.believed[job]
    if believed != FAR:
        if expected == now - passed + _seconds(believed, pace):
            world.believed[job] -= pace * passed
        else:  # the estimate ran out meanwhile and was raised
            world.believed[job] = (expected - now) * pace
    world.left[job] -= pace * passed
    if world.limit_left[job] < FAR:
        world.limit_left[job] -= passed


@njit(cache=True, nogil=True)
def _seconds(units, pace):
    return (units + pace - 1) // pace


@njit(cache=True, nogil=True)
def _move(heap, size, end, job):
    """Bring a job to its place in the heap after its end has changed."""
    i = 0
    while heap[i] != job:
        i += 1
    sink(heap, size, end, rise(heap, end, i, job), job)


@part
def ending(job, again):
    """Return the answer that ends a running job now; with ``again`` = 1 it waits again from its beginning."""
    return WAIT - 1 - 2 * job - again


@inlined
def _stop(world, state, job, again):
    """End a running job; if it is to wait again, it has never started and does all of its work anew."""
    if job >= state.submit.size or state.start[job] < 0 or world.end[job] <= state.now[0]:
        return NOT_RUNNING
    world.end[job] = -1  # before all others, so that the heap gives it first
    _move(world.heap, world.n_heap[0], world.end, job)
    _pop(world.heap, world.n_heap[0], world.end)
    world.n_heap[0] -= 1
    state.n_running[0] = _leave(state.running, state.n_running[0], state.expected_end, job)
    state.n_changes[0] += 1
    world.end[job] = state.now[0]
    user = state.user[job]
    last, before = world.last_run[user, 1], world.last_run[user, 0]
    _release(world, state, job)
    if again:
        world.last_run[user, 1], world.last_run[user, 0] = last, before
        state.n_ended[0] -= 1
        state.start[job] = world.end[job] = state.expected_end[job] = world.left[job] = -1
        state.pace[job] = PACE_ONE
        _append(state.next_waiting, state.previous_waiting, job)
        state.n_waiting[0] += 1
    else:
        world.left[job], world.cut[job] = 0, False  # it was not its limit that ended it
    return OK


@njit(inline="always")
def preempting_loop(world, state, decide, own):
    """Do as `procure.simulator.drive.kernel_loop` with a policy that may end jobs."""
    world, state, own = by_reference(world), by_reference(state), by_reference(own)
    job = WAIT
    while job != WAIT or advance(world, state):
        if job < WAIT:
            about = (WAIT - 1 - job) // 2
            status = _stop(world, state, about, (WAIT - 1 - job) % 2)
            if status != OK:
                return status, about
        elif job != WAIT:
            status = place(world, state, job, state.chosen[: n_answered(state, state.tasks, job)])
            if status != OK:
                return status, job
        job = decide(state, own)
    done = state.n_waiting[0] == 0 and world.n_heap[0] == 0
    return (OK if done else STUCK), WAIT
