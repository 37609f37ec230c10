"""Queues without reservations: the first in the order blocks the others, or is skipped if it does not fit."""

from __future__ import annotations

from numba import njit

from procure.policies.fit import choose
from procure.policies.names import FCFS
from procure.policies.order import first_in, score
from procure.simulator.state import WAIT
from procure.simulator.steps import OK, STUCK, advance, place


@njit(cache=True, nogil=True)
def strict(state):
    """Start the first job in the order, or wait: nobody overtakes it (FCFS and its likes)."""
    job = first_in(state, state.options.order)
    if job != state.submit.size and choose(state, job, False):
        return job, state.chosen[: state.n_nodes[job]]
    return WAIT, state.chosen[:0]


@njit(cache=True, nogil=True)
def skipping(state):
    """Start the first job in the order that fits somewhere; those before it are skipped.

    Backfilling without reservation: in queue order this is first fit, by estimated run time it is
    the published SJF. A job like one that did not fit is not tried again.
    """
    n_jobs = state.submit.size
    order = state.options.order
    best = n_jobs
    lowest = 0.0
    failed = n_jobs
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        hopeless = (state.pool and state.n_nodes[job] > state.n_idle[0]) or (
            failed != n_jobs and same_request(state, job, failed)
        )
        if not hopeless:
            value = score(state, job, order)
            if best == n_jobs or value < lowest:
                if choose(state, job, False):
                    best, lowest = job, value
                    if order == FCFS:
                        break
                else:
                    failed = job
        job = state.next_waiting[job]
    if best == n_jobs:
        return WAIT, state.chosen[:0]
    choose(state, best, False)
    return best, state.chosen[: state.n_nodes[best]]


@njit(cache=True, nogil=True)
def same_request(state, job, other):
    """Say whether two jobs ask for the same, however long."""
    return (
        state.n_nodes[job] == state.n_nodes[other]
        and state.cpus[job] == state.cpus[other]
        and state.mem[job] == state.mem[other]
        and state.gpus[job] == state.gpus[other]
        and state.types[job] == state.types[other]
    )


@njit(cache=True, nogil=True)
def strict_loop(world, state):
    """The compiled loop of `strict`."""
    while advance(world, state):
        job, nodes = strict(state)
        while job != WAIT:
            status = place(world, state, job, nodes)
            if status != OK:
                return status, job, nodes
            job, nodes = strict(state)
    return (STUCK if state.n_waiting[0] > 0 else OK), WAIT, state.chosen[:0]


@njit(cache=True, nogil=True)
def skipping_loop(world, state):
    """The compiled loop of `skipping`."""
    while advance(world, state):
        job, nodes = skipping(state)
        while job != WAIT:
            status = place(world, state, job, nodes)
            if status != OK:
                return status, job, nodes
            job, nodes = skipping(state)
    return (STUCK if state.n_waiting[0] > 0 else OK), WAIT, state.chosen[:0]
