"""The kernels that move the simulation: to the next moment, and a job onto its nodes.

They modify the arrays inside the two named tuples, report by status and do not raise.
"""

from __future__ import annotations

from numba import njit

OK, UNKNOWN_JOB, NOT_WAITING, WRONG_NODE_COUNT, UNKNOWN_NODE, NODE_TWICE, NODE_TOO_BUSY, STUCK = range(8)

REASONS = {
    UNKNOWN_JOB: "there is no such job",
    NOT_WAITING: "the job is not waiting",
    WRONG_NODE_COUNT: "the job asks for another number of nodes",
    UNKNOWN_NODE: "there is no such node",
    NODE_TWICE: "a node is named twice",
    NODE_TOO_BUSY: "a node lacks the free CPUs, memory or GPUs",
    STUCK: "the policy waits for ever: jobs wait, nothing runs and nothing will be submitted",
}


@njit(cache=True, nogil=True)
def _before(world, a, b):
    return world.end[a] < world.end[b] or (world.end[a] == world.end[b] and a < b)


@njit(cache=True, nogil=True)
def _push(world, job):
    heap = world.heap
    i = world.n_heap[0]
    world.n_heap[0] += 1
    while i > 0:
        parent = (i - 1) // 2
        if not _before(world, job, heap[parent]):
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = job


@njit(cache=True, nogil=True)
def _pop(world):
    heap = world.heap
    first = heap[0]
    world.n_heap[0] -= 1
    size = world.n_heap[0]
    last = heap[size]
    i = 0
    child = 1
    while child < size:
        if child + 1 < size and _before(world, heap[child + 1], heap[child]):
            child += 1
        if not _before(world, heap[child], last):
            break
        heap[i] = heap[child]
        i = child
        child = 2 * i + 1
    heap[i] = last
    return first


@njit(cache=True, nogil=True)
def _release(world, state, job):
    for i in range(state.node_first[job], state.node_first[job + 1]):
        node = state.node_list[i]
        state.free_cpus[node] += state.cpus[job]
        state.free_mem[node] += state.mem[job]
        state.free_gpus[node] += state.gpus[job]
    state.n_running[0] -= 1
    place = world.place_in_running[job]
    last = state.running[state.n_running[0]]
    state.running[place] = last
    world.place_in_running[last] = place


@njit(cache=True, nogil=True)
def advance(world, state):
    """Go to the next moment: release all completions that are due, then admit all submissions.

    Returns
    -------
    bool
        False when nothing more will happen.
    """
    n_jobs = state.submit.size
    world.max_queue_depth[0] = max(world.max_queue_depth[0], state.n_waiting[0])
    if world.arrival[0] == n_jobs and world.n_heap[0] == 0:
        return False
    if world.n_heap[0] == 0:
        now = state.submit[world.arrival[0]]
    else:
        now = world.end[world.heap[0]]
        if world.arrival[0] < n_jobs:
            now = min(now, state.submit[world.arrival[0]])
    state.now[0] = now
    while world.n_heap[0] > 0 and world.end[world.heap[0]] <= now:
        _release(world, state, _pop(world))
    while world.arrival[0] < n_jobs and state.submit[world.arrival[0]] == now:
        job = world.arrival[0]
        world.arrival[0] += 1
        if world.runnable[job]:
            last = state.previous_waiting[n_jobs]
            state.next_waiting[last] = job
            state.previous_waiting[job] = last
            state.next_waiting[job] = n_jobs
            state.previous_waiting[n_jobs] = job
            state.n_waiting[0] += 1
    return True


@njit(cache=True, nogil=True)
def _refusal(state, job, nodes):
    if job < 0 or job >= state.submit.size:
        return UNKNOWN_JOB
    if state.start[job] >= 0 or (
        state.previous_waiting[state.next_waiting[job]] != job
        or state.next_waiting[state.previous_waiting[job]] != job
    ):
        return NOT_WAITING
    if nodes.size != state.n_nodes[job]:
        return WRONG_NODE_COUNT
    for i in range(nodes.size):
        node = nodes[i]
        if node < 0 or node >= state.free_cpus.size:
            return UNKNOWN_NODE
        for earlier in range(i):
            if nodes[earlier] == node:
                return NODE_TWICE
        if (
            state.free_cpus[node] < state.cpus[job]
            or state.free_mem[node] < state.mem[job]
            or state.free_gpus[node] < state.gpus[job]
            or (state.node_types[node] & state.types[job]) == 0
        ):
            return NODE_TOO_BUSY
    return OK


@njit(cache=True, nogil=True)
def place(world, state, job, nodes):
    """Start a waiting job on nodes: all at once or, with a status other than OK, not at all.

    A job runs as long as on the slowest of its nodes. One that takes no time has freed its nodes
    again when this returns, as every completion that is due frees its nodes before a decision.

    Returns
    -------
    int
        OK, or why the placement is refused (`REASONS`).
    """
    status = _refusal(state, job, nodes)
    if status != OK:
        return status
    speed = world.speed_of_node[nodes[0]]
    for i in range(nodes.size):
        node = nodes[i]
        state.free_cpus[node] -= state.cpus[job]
        state.free_mem[node] -= state.mem[job]
        state.free_gpus[node] -= state.gpus[job]
        state.node_list[state.node_first[job] + i] = node
        if world.durations[world.speed_of_node[node], job] > world.durations[speed, job]:
            speed = world.speed_of_node[node]
    before, behind = state.previous_waiting[job], state.next_waiting[job]
    state.next_waiting[before] = behind
    state.previous_waiting[behind] = before
    state.n_waiting[0] -= 1
    world.speed_of[job] = speed
    state.start[job] = state.now[0]
    world.end[job] = state.now[0] + world.durations[speed, job]
    state.running[state.n_running[0]] = job
    world.place_in_running[job] = state.n_running[0]
    state.n_running[0] += 1
    if world.end[job] == state.now[0]:
        _release(world, state, job)
    else:
        _push(world, job)
    return OK
