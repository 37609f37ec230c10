"""What a policy may see, and the truth that it may not: two named tuples of arrays.

Both are plain NumPy arrays inside named tuples, so that the same policy source runs as Python and
compiled. Fields with one entry are counters that the steps advance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.arrays import Jobs, Kinds

WAIT = -1
"""A policy's answer when no job is to start now."""


class State(NamedTuple):
    """What a scheduler can see. A policy reads it and never writes to it, but for ``chosen``.

    Jobs are numbered in queue order, nodes in table order. The waiting jobs form a linked list:
    start at ``next_waiting[n_jobs]`` and follow ``next_waiting`` until it says ``n_jobs`` again;
    `waiting` walks it in plain Python.
    """

    now: np.ndarray  # int64[1], s after the first submission
    submit: np.ndarray  # int64[n_jobs], s
    requested: np.ndarray  # int64[n_jobs], s; 0 = no limit
    n_nodes: np.ndarray  # int64[n_jobs], nodes asked for
    cpus: np.ndarray  # int64[n_jobs], per node
    mem: np.ndarray  # int64[n_jobs], MB per node
    gpus: np.ndarray  # int64[n_jobs], per node
    types: np.ndarray  # int64[n_jobs], mask of the GPU types that will do
    next_waiting: np.ndarray  # int64[n_jobs + 1]
    previous_waiting: np.ndarray  # int64[n_jobs + 1]
    n_waiting: np.ndarray  # int64[1]
    running: np.ndarray  # int64[n_jobs], the first n_running entries are the running jobs, in no order
    n_running: np.ndarray  # int64[1]
    start: np.ndarray  # int64[n_jobs], s; −1 until the job starts
    node_first: np.ndarray  # int64[n_jobs + 1]
    node_list: np.ndarray  # int64[sum of n_nodes], job j holds node_list[node_first[j]:node_first[j + 1]]
    total_cpus: np.ndarray  # int64[n_nodes]
    total_mem: np.ndarray  # int64[n_nodes], MB
    total_gpus: np.ndarray  # int64[n_nodes]
    node_types: np.ndarray  # int64[n_nodes], mask of the GPU type
    free_cpus: np.ndarray  # int64[n_nodes]
    free_mem: np.ndarray  # int64[n_nodes], MB
    free_gpus: np.ndarray  # int64[n_nodes]
    chosen: np.ndarray  # int64[n_nodes], room for a policy's answer


class World(NamedTuple):
    """The truth that only the simulator sees."""

    durations: np.ndarray  # int64[n_speeds, n_jobs], s
    speed_of_node: np.ndarray  # uint32[n_nodes], row of durations
    runnable: np.ndarray  # bool[n_jobs], some empty set of nodes holds the job
    end: np.ndarray  # int64[n_jobs], s; −1 until the job starts
    speed_of: np.ndarray  # uint32[n_jobs], row of durations that the job ran at
    place_in_running: np.ndarray  # int64[n_jobs]
    heap: np.ndarray  # int64[n_jobs], jobs by (end, number): a binary heap
    n_heap: np.ndarray  # int64[1]
    arrival: np.ndarray  # int64[1], the next job to be submitted
    max_queue_depth: np.ndarray  # int64[1]


def waiting(state: State):
    """Walk the waiting jobs in queue order (plain Python)."""
    end = len(state.submit)
    job = int(state.next_waiting[end])
    while job != end:
        yield job
        job = int(state.next_waiting[job])


def n_fitting_nodes(jobs: Jobs, fits_empty: np.ndarray, kind_of: np.ndarray) -> np.ndarray:
    """Count the empty nodes that could each hold one node's share of each shape: int64[n_shapes]."""
    per_kind = np.bincount(kind_of, minlength=fits_empty.shape[1])
    return fits_empty @ per_kind


def build(
    jobs: Jobs, kinds: Kinds, fits_empty: np.ndarray, kind_of: np.ndarray, durations: np.ndarray
) -> tuple[World, State]:
    """Lay out an empty system and a workload of which nothing has been submitted yet."""
    n_jobs, n_nodes = len(jobs.submit), len(kind_of)
    node_first = np.concatenate([[0], np.cumsum(jobs.n_nodes)])
    totals = [column[kind_of] for column in (kinds.cpus, kinds.mem, kinds.gpus)]
    holds = n_fitting_nodes(jobs, fits_empty, kind_of) >= jobs.shape_nodes
    state = State(
        now=np.zeros(1, np.int64),
        submit=jobs.submit,
        requested=jobs.requested,
        n_nodes=jobs.n_nodes,
        cpus=jobs.cpus,
        mem=jobs.mem,
        gpus=jobs.gpus,
        types=jobs.types,
        next_waiting=np.full(n_jobs + 1, n_jobs, np.int64),
        previous_waiting=np.full(n_jobs + 1, n_jobs, np.int64),
        n_waiting=np.zeros(1, np.int64),
        running=np.full(n_jobs, -1, np.int64),
        n_running=np.zeros(1, np.int64),
        start=np.full(n_jobs, -1, np.int64),
        node_first=node_first,
        node_list=np.full(int(node_first[-1]), -1, np.int64),
        total_cpus=totals[0],
        total_mem=totals[1],
        total_gpus=totals[2],
        node_types=kinds.types[kind_of],
        free_cpus=totals[0].copy(),
        free_mem=totals[1].copy(),
        free_gpus=totals[2].copy(),
        chosen=np.zeros(n_nodes, np.int64),
    )
    world = World(
        durations=durations,
        speed_of_node=kinds.speed[kind_of],
        runnable=holds[jobs.shape_of],
        end=np.full(n_jobs, -1, np.int64),
        speed_of=np.zeros(n_jobs, np.uint32),
        place_in_running=np.full(n_jobs, -1, np.int64),
        heap=np.zeros(n_jobs, np.int64),
        n_heap=np.zeros(1, np.int64),
        arrival=np.zeros(1, np.int64),
        max_queue_depth=np.zeros(1, np.int64),
    )
    return world, state
