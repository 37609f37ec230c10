"""EASY backfilling: waiting jobs may overtake the first one if they do not delay its reservation.

Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson (2001). The reservation is made
with the expected ends of the running jobs, so with exact estimates it is never delayed.
"""

from __future__ import annotations

from numba import njit

from procure.policies.fit import choose
from procure.policies.names import FCFS
from procure.policies.order import first_in, score
from procure.policies.queue import same_request
from procure.policies.reserve import backfill_behind
from procure.simulator.state import WAIT
from procure.simulator.steps import OK, STUCK, advance, place

CHANGES, SHADOW, EXTRA, HEAD, CURSOR, TESTED = range(6)
"""What the notes hold: the state that they belong to, the reservation, and how far the queue was tried."""


@njit(cache=True, nogil=True)
def easy(state):
    """Start the first job in the order if it fits; else one that does not delay the reservations.

    The first job (with ``depth`` more, so many) that cannot start holds a reservation at its *shadow
    time*, the earliest moment at which the running jobs' expected ends leave it room. Another job may
    start now if it ends by then, or if it takes only what the reservation leaves. They are tried in
    the backfill order. ``by_time_only`` is the stricter variant of one published program: only jobs
    that end strictly before the shadow time.
    """
    options = state.options
    if options.depth != 1:
        return backfill_behind(state, options.depth)
    if state.pool and options.order == FCFS and options.backfill_order == FCFS:
        return _from_notes(state)
    n_jobs = state.submit.size
    head = first_in(state, options.order)
    if head == n_jobs:
        return WAIT, state.chosen[:0]
    if choose(state, head, False):
        return head, state.chosen[: state.n_nodes[head]]
    if state.pool:
        shadow, extra = _shadow_in_pool(state, head)
    else:
        shadow, extra = _shadow_on_nodes(state, head), 0
    job = _first_behind(state, head, shadow, extra)
    if job == n_jobs:
        return WAIT, state.chosen[:0]
    _may_start(state, job, shadow, extra)
    return job, state.chosen[: state.n_nodes[job]]


@njit(cache=True, nogil=True)
def _may_start(state, job, shadow, extra):
    """Say whether a job can start without delaying the reservation; ``chosen`` then holds its nodes."""
    end = state.now[0] + state.estimate[job]
    if state.options.by_time_only:
        return end < shadow and choose(state, job, False)
    if end <= shadow:
        return choose(state, job, False)
    if state.pool:
        return state.n_nodes[job] <= extra and choose(state, job, False)
    return choose(state, job, True)


@njit(cache=True, nogil=True)
def _first_behind(state, head, shadow, extra):
    """Return the first job in the backfill order that may start, or the number of jobs."""
    n_jobs = state.submit.size
    order = state.options.backfill_order
    best = failed = n_jobs
    lowest = 0.0
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        hopeless = (
            job == head
            or (state.pool and state.n_nodes[job] > state.n_idle[0])
            or (
                failed != n_jobs
                and same_request(state, job, failed)
                and state.estimate[job] >= state.estimate[failed]
            )
        )
        if not hopeless:
            value = score(state, job, order)
            if best == n_jobs or value < lowest:
                if _may_start(state, job, shadow, extra):
                    best, lowest = job, value
                    if order == FCFS:
                        break
                else:
                    failed = job
        job = state.next_waiting[job]
    return best


@njit(cache=True, nogil=True)
def _shadow_in_pool(state, head):
    """Return when the head can start and how many nodes are left then."""
    free = state.n_idle[0]
    i = 0
    while free < state.n_nodes[head]:
        free += state.n_nodes[state.running[i]]
        i += 1
    shadow = state.expected_end[state.running[i - 1]]
    while i < state.n_running[0] and state.expected_end[state.running[i]] == shadow:
        free += state.n_nodes[state.running[i]]
        i += 1
    return shadow, free - state.n_nodes[head]


@njit(cache=True, nogil=True)
def _shadow_on_nodes(state, head):
    """Return when the head can start; fill ``spare_…`` with what is left then beside it.

    The reservation takes the highest rows that fit, since jobs that start now take the lowest.
    """
    cpus, mem, gpus, types = state.cpus[head], state.mem[head], state.gpus[head], state.types[head]
    spare_cpus, spare_mem, spare_gpus = state.spare_cpus, state.spare_mem, state.spare_gpus
    fitting = 0
    for node in range(spare_cpus.size):
        spare_cpus[node] = state.free_cpus[node]
        spare_mem[node] = state.free_mem[node]
        spare_gpus[node] = state.free_gpus[node]
        fits = spare_cpus[node] >= cpus and spare_mem[node] >= mem and spare_gpus[node] >= gpus
        if fits and (state.node_types[node] & types) != 0:
            fitting += 1
    i = 0
    shadow = state.now[0]
    while i < state.n_running[0]:
        job = state.running[i]
        if fitting >= state.n_nodes[head] and state.expected_end[job] > shadow:
            break
        shadow = state.expected_end[job]
        i += 1
        for k in range(state.node_first[job], state.node_first[job + 1]):
            node = state.node_list[k]
            before = spare_cpus[node] >= cpus and spare_mem[node] >= mem and spare_gpus[node] >= gpus
            if state.options.exclusive:
                spare_cpus[node] = state.total_cpus[node]
                spare_mem[node] = state.total_mem[node]
                spare_gpus[node] = state.total_gpus[node]
            else:
                spare_cpus[node] += state.cpus[job]
                spare_mem[node] += state.mem[job]
                spare_gpus[node] += state.gpus[job]
            after = spare_cpus[node] >= cpus and spare_mem[node] >= mem and spare_gpus[node] >= gpus
            if after and not before and (state.node_types[node] & types) != 0:
                fitting += 1
    left = state.n_nodes[head]
    node = spare_cpus.size - 1
    while left > 0:
        if (
            spare_cpus[node] >= cpus
            and spare_mem[node] >= mem
            and spare_gpus[node] >= gpus
            and (state.node_types[node] & types) != 0
        ):
            left -= 1
            if state.options.exclusive:
                spare_cpus[node] = spare_mem[node] = spare_gpus[node] = -1
            else:
                spare_cpus[node] -= cpus
                spare_mem[node] -= mem
                spare_gpus[node] -= gpus
        node -= 1
    return shadow


@njit(cache=True, nogil=True)
def _from_notes(state):
    """Decide in a pool in queue order, remembering what was tried while nothing changed.

    Between two changes neither the reservation nor the idle nodes change, so a job that could not
    start then cannot start now, and only jobs submitted since need a look. Our own backfill is a
    change that the notes foresee: it uses up idle or extra nodes, which makes no earlier job startable.
    """
    n_jobs = state.submit.size
    notes = state.notes
    if notes[TESTED] == 0 or notes[CHANGES] != state.n_changes[0]:
        head = state.next_waiting[n_jobs]
        if head == n_jobs:
            return WAIT, state.chosen[:0]
        if choose(state, head, False):
            return head, state.chosen[: state.n_nodes[head]]
        notes[SHADOW], notes[EXTRA] = _shadow_in_pool(state, head)
        notes[CHANGES] = state.n_changes[0]
        notes[TESTED] = 1
        notes[CURSOR] = head
    idle = state.n_idle[0]
    last = notes[CURSOR]
    job = state.next_waiting[last]
    room = notes[SHADOW] - state.now[0]
    while job != n_jobs:
        n = state.n_nodes[job]
        if n <= idle:
            in_time = state.estimate[job] < room or (
                state.estimate[job] == room and not state.options.by_time_only
            )
            if in_time or (n <= notes[EXTRA] and not state.options.by_time_only):
                if not in_time:
                    notes[EXTRA] -= n
                notes[CURSOR] = state.previous_waiting[job]
                notes[CHANGES] = state.n_changes[0] + 1
                choose(state, job, False)
                return job, state.chosen[:n]
        last = job
        job = state.next_waiting[job]
    notes[CURSOR] = last
    return WAIT, state.chosen[:0]


@njit(cache=True, nogil=True)
def easy_loop(world, state):
    """The compiled loop of `easy`."""
    while advance(world, state):
        job, nodes = easy(state)
        while job != WAIT:
            status = place(world, state, job, nodes)
            if status != OK:
                return status, job, nodes
            job, nodes = easy(state)
    return (STUCK if state.n_waiting[0] > 0 else OK), WAIT, state.chosen[:0]
