"""Best-fit bin packing: start the waiting job that leaves the fewest resources on some node."""

from __future__ import annotations

import numpy as np
from numba import njit

from procure.policies.fit import keep_least, margin
from procure.simulator.state import WAIT
from procure.simulator.steps import OK, STUCK, advance, place


@njit(cache=True, nogil=True)
def _least_on(state, job, of_node):
    """Return the least mean margin of a job on its nodes, laid into ``chosen``; infinite if it does not fit."""
    found = 0
    least = np.inf
    single = state.n_nodes[job] == 1
    for node in range(state.free_cpus.size):
        if (
            state.free_cpus[node] >= state.cpus[job]
            and state.free_mem[node] >= state.mem[job]
            and state.free_gpus[node] >= state.gpus[job]
            and (state.node_types[node] & state.types[job]) != 0
        ):
            left = margin(state, job, node, of_node)
            if not single:
                state.chosen[found] = node
                state.margins[found] = left
                found += 1
            elif left < least:
                least = left
                state.chosen[0] = node
    if single or found < state.n_nodes[job]:
        return least
    return keep_least(state.chosen, state.margins, found, state.n_nodes[job])


@njit(cache=True, nogil=True)
def _best_pair(state, of_node):
    n_jobs = state.submit.size
    least = np.inf
    best = n_jobs
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        if not state.pool or state.n_nodes[job] <= state.n_idle[0]:
            left = _least_on(state, job, of_node)
            if left < least:
                least, best = left, job
        job = state.next_waiting[job]
    if best == n_jobs:
        return WAIT, state.chosen[:0]
    _least_on(state, best, of_node)
    return best, state.chosen[: state.n_nodes[best]]


@njit(cache=True, nogil=True)
def best_fit(state):
    """Start the waiting job that leaves the least of what it asks for on the nodes that it gets.

    Ties go to the earlier queued job, then to the lower node row. Published as Algorithm 1 of
    Hutchison's procurement study (best fit bin packing, after Dósa and Sgall) for jobs of one node; a
    job of several takes the nodes with the least margins and counts with their mean.
    """
    return _best_pair(state, False)


@njit(cache=True, nogil=True)
def best_fit_of_node(state):
    """The same, averaging over the resources that the node has, asked for or not (a published variant)."""
    return _best_pair(state, True)


@njit(cache=True, nogil=True)
def best_fit_loop(world, state):
    """The compiled loop of `best_fit`."""
    while advance(world, state):
        job, nodes = best_fit(state)
        while job != WAIT:
            status = place(world, state, job, nodes)
            if status != OK:
                return status, job, nodes
            job, nodes = best_fit(state)
    return (STUCK if state.n_waiting[0] > 0 else OK), WAIT, state.chosen[:0]


@njit(cache=True, nogil=True)
def best_fit_of_node_loop(world, state):
    """The compiled loop of `best_fit_of_node`."""
    while advance(world, state):
        job, nodes = best_fit_of_node(state)
        while job != WAIT:
            status = place(world, state, job, nodes)
            if status != OK:
                return status, job, nodes
            job, nodes = best_fit_of_node(state)
    return (STUCK if state.n_waiting[0] > 0 else OK), WAIT, state.chosen[:0]
