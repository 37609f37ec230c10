"""Best-fit bin packing: start the waiting job that leaves the fewest resources on some node."""

from __future__ import annotations

import numpy as np
from numba import njit

from procure.simulator.state import WAIT


@njit(cache=True, nogil=True)
def margin(state, job, node, of_node):
    """Return the mean share of a node's resources that a job would leave, over the counted resources.

    Counted are the resources that the job asks for (>0), or with ``of_node`` those that the node
    has. The order of the terms is fixed, so that every implementation agrees to the last bit.
    """
    total = 0.0
    counted = 0
    if state.total_mem[node] > 0 if of_node else state.mem[job] > 0:
        total += (state.free_mem[node] - state.mem[job]) / state.total_mem[node]
        counted += 1
    if state.total_cpus[node] > 0 if of_node else state.cpus[job] > 0:
        total += (state.free_cpus[node] - state.cpus[job]) / state.total_cpus[node]
        counted += 1
    if state.total_gpus[node] > 0 if of_node else state.gpus[job] > 0:
        total += (state.free_gpus[node] - state.gpus[job]) / state.total_gpus[node]
        counted += 1
    return total / counted if counted else 0.0


@njit(cache=True, nogil=True)
def _best_pair(state, of_node):
    n_jobs = state.submit.size
    least = np.inf
    best_job = np.int64(WAIT)
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        for node in range(state.free_cpus.size):
            if (
                state.free_cpus[node] >= state.cpus[job]
                and state.free_mem[node] >= state.mem[job]
                and state.free_gpus[node] >= state.gpus[job]
                and (state.node_types[node] & state.types[job]) != 0
            ):
                left = margin(state, job, node, of_node)
                if left < least:
                    least = left
                    best_job = job
                    state.chosen[0] = node
        job = state.next_waiting[job]
    return best_job, state.chosen[:1]


@njit(cache=True, nogil=True)
def best_fit(state):
    """Start the (waiting job, node) pair that fits and leaves the least of what the job asks for.

    Ties go to the earlier queued job, then to the lower node row. Published as Algorithm 1 of
    Hutchison's procurement study (best fit bin packing, after Dósa and Sgall). Single-node jobs.
    """
    return _best_pair(state, False)


@njit(cache=True, nogil=True)
def best_fit_of_node(state):
    """The same, averaging over the resources that the node has, asked for or not (a published variant)."""
    return _best_pair(state, True)
