"""The loop for policies that end running jobs: such a job waits again, from its beginning, or is over.

A policy that does so answers what `ending` makes of a job, beside jobs to start. Other policies ride
`procure.simulator.drive.kernel_loop`, which knows nothing of this and costs them nothing.
"""

from __future__ import annotations

from procure.files.kernels import njit
from procure.simulator.kernel import inlined, part
from procure.simulator.pace import _move
from procure.simulator.reference import by_reference
from procure.simulator.state import PACE_ONE, WAIT
from procure.simulator.steps import (
    NOT_RUNNING,
    OK,
    STUCK,
    _append,
    _leave,
    _pop,
    _release,
    advance,
    place,
)
from procure.simulator.tasks import n_answered


@part
def ending(job, again):
    """Return the answer that ends a running job now; with ``again`` = 1 it waits again, with 0 it is over."""
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
