"""The kernels that move the simulation: to the next moment, and a job onto its nodes.

They modify the arrays inside the two named tuples, report by status and do not raise.
"""

from __future__ import annotations

import math

from procure.simulator.kernel import inlined, insert, kernel, part, remove
from procure.simulator.state import FAR, NEVER
from procure.simulator.tasks import hold_nodes, holds_any, may_be_on, n_held, shift, units_at, units_on, units_to
from procure.simulator.usable import set_node_state

FIRST_CORRECTION = 60
"""Seconds: the least by which an estimate that ran out is raised."""

OK, UNKNOWN_JOB, NOT_WAITING, WRONG_NODE_COUNT, UNKNOWN_NODE, NODE_TWICE, NODE_TOO_BUSY, STUCK = range(8)
PACE_OF_WAITING, PACE_TOO_LONG, NOT_RUNNING, WRONG_TASKS = 8, 9, 10, 11

MOST_IDLE_WAKES = 100_000
"""How often in a row a policy may ask to be called again, where nothing else will happen, and do nothing."""

REASONS = {
    UNKNOWN_JOB: "there is no such job",
    NOT_WAITING: "the job is not waiting",
    WRONG_NODE_COUNT: "the job asks for another number of nodes",
    UNKNOWN_NODE: "there is no such node",
    NODE_TWICE: "a node is named twice",
    NODE_TOO_BUSY: "a node lacks the free CPUs, memory or GPUs",
    STUCK: "the policy waits for ever: jobs wait or are paused, nothing runs and nothing will be submitted",
    PACE_OF_WAITING: "the job does not run",
    PACE_TOO_LONG: "the job's run time exceeds 2^40 s, more than a changing pace is exact for",
    NOT_RUNNING: "the job does not run, so that it cannot be ended",
    WRONG_TASKS: "the tasks on its nodes are not as many as the job asks for",
}


@part
def _before(end, a, b):
    return end[a] < end[b] or (end[a] == end[b] and a < b)


@part
def rise(heap, end, i, job):
    """Put a job in its place at or above ``i`` in a heap by (end, number); returns the place."""
    while i > 0 and _before(end, job, heap[(i - 1) // 2]):
        heap[i] = heap[(i - 1) // 2]
        i = (i - 1) // 2
    heap[i] = job
    return i


@part
def sink(heap, size, end, i, job):
    """Put a job in its place at or below ``i``."""
    child = 2 * i + 1
    while child < size:
        if child + 1 < size and _before(end, heap[child + 1], heap[child]):
            child += 1
        if not _before(end, heap[child], job):
            break
        heap[i] = heap[child]
        i, child = child, 2 * child + 1
    heap[i] = job


@inlined
def _pop(heap, size, end):
    first = heap[0]
    sink(heap, size - 1, end, 0, heap[size - 1])
    return first


@part
def _place_among(running, n_running, expected_end, job):
    """Find where a job stands, or would stand, among the running jobs by (expected_end, job)."""
    low, high = 0, n_running
    while low < high:
        middle = (low + high) // 2
        if _before(expected_end, running[middle], job):
            low = middle + 1
        else:
            high = middle
    return low


@part
def _enter(running, n_running, expected_end, job):
    """Put a job among the running ones; returns how many there are."""
    place = _place_among(running, n_running, expected_end, job)
    insert(running, n_running, place, job)
    return n_running + 1


@part
def _leave(running, n_running, expected_end, job):
    """Take a job from among the running ones; returns how many there are."""
    remove(running, n_running, _place_among(running, n_running, expected_end, job))
    return n_running - 1


@part
def usage_now(accounts, half_life, now, account):
    """Return an account's decayed use, CPU-seconds."""
    if half_life <= 0.0:
        return 0.0
    kept = 0.5 ** ((now - accounts.at[account]) / half_life)
    return accounts.usage[account] * kept + accounts.rate[account] * half_life / math.log(2.0) * (1.0 - kept)


@part
def _charge(state, job, sign):
    """Bring the decayed use of a job's user, and everybody's, up to now; from here on it grows by the job's CPUs."""
    accounts, half_life, now = state.accounts, state.options.half_life, state.now[0]
    if half_life <= 0.0:
        return
    for account in (state.user[job], accounts.at.size - 1):
        accounts.usage[account] = usage_now(accounts, half_life, now, account)
        accounts.at[account] = now
        accounts.rate[account] += sign * state.cpus[job] * state.n_nodes[job]


@part
def _touch(touched, node):
    if not touched.marked[node]:
        touched.marked[node] = True
        touched.nodes[touched.n[0]] = node
        touched.n[0] += 1


@part
def _release(world, state, job):
    tasks, first = state.tasks, state.node_first[job]
    for i in range(first, first + n_held(state, tasks, job)):
        node = state.node_list[i]
        _touch(state.touched, node)
        shift(state, tasks, job, node, units_at(tasks, i), 1, (state.free_cpus, state.free_mem, state.free_gpus))
        set_node_state(state, node)
    state.n_idle[0] += state.n_nodes[job]
    state.ended[state.n_ended[0]] = job
    state.n_ended[0] += 1
    user = state.user[job]
    _charge(state, job, -1)
    world.last_run[user, 0] = world.last_run[user, 1]
    world.last_run[user, 1] = world.end[job] - state.start[job]


@inlined
def _append(next_waiting, previous_waiting, job):
    end = next_waiting.size - 1
    last = previous_waiting[end]
    next_waiting[last] = job
    previous_waiting[job] = last
    next_waiting[job] = end
    previous_waiting[end] = job


@inlined
def _correct(running, n_running, expected_end, start, requested, now):
    """Raise the expected end of jobs that outlast their estimate: by as long as they ran, at least a minute.

    Never beyond the user's limit while that lies ahead. Tsafrir, Etsion and Feitelson (2007) raise by a
    fixed list of amounts. Returns how many were raised.
    """
    n_raised = 0
    while n_running > 0 and expected_end[running[0]] <= now:
        job = running[0]
        _leave(running, n_running, expected_end, job)
        corrected = now + max(FIRST_CORRECTION, now - start[job])
        limit = start[job] + requested[job]
        expected_end[job] = min(corrected, limit) if limit > now else corrected
        _enter(running, n_running - 1, expected_end, job)
        n_raised += 1
    return n_raised


@inlined
def _may_wake(world, state, now):
    """Say whether a policy's wake counts: not if nobody waits or runs, nor for ever if nothing is done."""
    if now < NEVER:
        return True
    if state.wake[0] >= FAR or (state.n_waiting[0] == 0 and world.n_heap[0] == 0):
        return False
    if world.idle_wakes[1] != state.n_changes[0]:
        world.idle_wakes[0], world.idle_wakes[1] = 0, state.n_changes[0]
    world.idle_wakes[0] += 1
    return world.idle_wakes[0] <= MOST_IDLE_WAKES


@kernel
def advance(world, state):
    """Go to the next moment: release all completions that are due, then admit all submissions; False if there is none.

    The next moment is the earliest of the next submission, the next end and the policy's ``wake``.
    """
    n_jobs = state.submit.size
    world.max_queue_depth[0] = max(world.max_queue_depth[0], state.n_waiting[0])
    now = NEVER
    if world.n_heap[0] > 0:
        now = world.end[world.heap[0]]
    if state.n_submitted[0] < n_jobs:
        now = min(now, state.submit[state.n_submitted[0]])
    if state.now[0] < state.wake[0] < now and _may_wake(world, state, now):
        now = state.wake[0]
    if now >= NEVER:
        return False
    state.now[0] = now
    state.n_ended[0] = 0
    while world.n_heap[0] > 0 and world.end[world.heap[0]] <= now:
        job = _pop(world.heap, world.n_heap[0], world.end)
        world.n_heap[0] -= 1
        state.n_running[0] = _leave(state.running, state.n_running[0], state.expected_end, job)
        state.n_changes[0] += 1
        _release(world, state, job)
    while state.n_submitted[0] < n_jobs and state.submit[state.n_submitted[0]] == now:
        job = state.n_submitted[0]
        state.n_submitted[0] += 1
        if world.runnable[job]:
            _append(state.next_waiting, state.previous_waiting, job)
            state.n_waiting[0] += 1
            user = state.user[job]
            if state.options.last_two and world.last_run[user, 0] >= 0:
                mean = (world.last_run[user, 0] + world.last_run[user, 1] + 1) // 2
                state.estimate[job] = max(1, min(mean, state.estimate[job]))
    n_raised = _correct(state.running, state.n_running[0], state.expected_end, state.start, state.requested, now)
    state.n_corrected[0] += n_raised
    state.n_changes[0] += n_raised
    return True


@inlined
def holds(state, node, job):
    """Say whether a node has free what a job asks of each of its nodes, or for one task at least."""
    return holds_any(state, state.tasks, node, job)


@inlined
def units(state, node, job):
    """Say how many tasks of a job a node holds now; of a job of nodes, 1 or 0."""
    return units_on(state, state.tasks, state.shape[job], node)


@inlined
def _refusal(world, state, job, nodes):
    if job < 0 or job >= state.submit.size:
        return UNKNOWN_JOB
    if state.start[job] >= 0 or (
        state.previous_waiting[state.next_waiting[job]] != job or state.next_waiting[state.previous_waiting[job]] != job
    ):
        return NOT_WAITING
    if not may_be_on(state, state.tasks, job, nodes.size):
        return WRONG_NODE_COUNT
    world.n_placements[0] += 1
    left = state.n_nodes[job]
    for i in range(nodes.size):
        node = nodes[i]
        if node < 0 or node >= state.free_cpus.size:
            return UNKNOWN_NODE
        if world.named_at[node] == world.n_placements[0]:
            return NODE_TWICE
        world.named_at[node] = world.n_placements[0]
        n = units_to(state.tasks, node)
        if units_on(state, state.tasks, state.shape[job], node) < n:
            return NODE_TOO_BUSY
        if n < 1:
            return WRONG_TASKS
        left -= n
    return WRONG_TASKS if left != 0 else OK


@inlined
def _occupy(world, state, job, nodes):
    """Take the nodes; returns the durations' row of the node on which the job takes longest."""
    speed, tasks = world.speed_of_node[nodes[0]], state.tasks
    first = hold_nodes(state, tasks, job, nodes)
    for i in range(nodes.size):
        node = nodes[i]
        _touch(state.touched, node)
        free = state.free_cpus, state.free_mem, state.free_gpus
        shift(state, tasks, job, node, units_at(tasks, first + i), -1, free)
        set_node_state(state, node)
        state.node_list[first + i] = node
        if world.durations[world.speed_of_node[node], job] > world.durations[speed, job]:
            speed = world.speed_of_node[node]
    state.n_idle[0] -= state.n_nodes[job]
    _charge(state, job, 1)
    return speed


@kernel
def place(world, state, job, nodes):
    """Start a waiting job on nodes: all at once or, with a status other than OK (`REASONS`), not at all.

    A job runs as long as on the slowest of its nodes. One that takes no time has freed its nodes
    again when this returns, as every completion that is due frees its nodes before a decision.
    """
    status = _refusal(world, state, job, nodes)
    if status != OK:
        return status
    speed = _occupy(world, state, job, nodes)
    before, behind = state.previous_waiting[job], state.next_waiting[job]
    state.next_waiting[before] = behind
    state.previous_waiting[behind] = before
    state.n_waiting[0] -= 1
    world.speed_of[job] = speed
    now = state.now[0]
    state.start[job] = now
    world.end[job] = now + world.durations[speed, job]
    state.expected_end[job] = min(now + state.estimate[job], FAR)
    if world.end[job] == now:
        state.n_changes[0] += 2
        _release(world, state, job)
    else:
        state.n_running[0] = _enter(state.running, state.n_running[0], state.expected_end, job)
        state.n_changes[0] += 1
        rise(world.heap, world.end, world.n_heap[0], job)
        world.n_heap[0] += 1
    return OK
