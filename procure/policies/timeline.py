"""The timeline of shared or unlike nodes: what each node has free from each moment on.

Where a profile counts idle nodes, a timeline keeps every node's CPUs, memory and GPUs, and a
reservation names its nodes. It is built anew when it is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from procure.simulator.state import FAR


class Timeline(NamedTuple):
    """``time[k]`` to ``time[k + 1]`` has the free amounts in row ``row[k]``; the last step never ends."""

    time: np.ndarray  # int64[capacity], s
    row: np.ndarray  # int64[capacity]
    cpus: np.ndarray  # int64[capacity, n_nodes]
    mem: np.ndarray  # int64[capacity, n_nodes], MB
    gpus: np.ndarray  # int64[capacity, n_nodes]
    n: np.ndarray  # int64[1], steps; as many rows
    until: np.ndarray  # int64[n_nodes], room for `find_nodes`
    everywhere: np.ndarray  # bool[n_nodes], all true


@njit(cache=True, nogil=True)
def build_timeline(state):
    """Lay out what the running jobs leave, with room for four more steps per waiting job."""
    n_nodes = state.free_cpus.size
    capacity = state.n_running[0] + 4 * state.n_waiting[0] + 4
    line = Timeline(
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros((capacity, n_nodes), np.int64),
        np.zeros((capacity, n_nodes), np.int64),
        np.zeros((capacity, n_nodes), np.int64),
        np.ones(1, np.int64),
        np.zeros(n_nodes, np.int64),
        np.ones(n_nodes, np.bool_),
    )
    line.time[0] = state.now[0]
    line.cpus[0] = state.free_cpus
    line.mem[0] = state.free_mem
    line.gpus[0] = state.free_gpus
    for i in range(state.n_running[0]):
        job = state.running[i]
        k = step_at(line, state.expected_end[job])
        nodes = state.node_list[state.node_first[job] : state.node_first[job + 1]]
        _add(state, line, k, job, nodes, 1)
    return line


@njit(cache=True, nogil=True)
def _add(state, line, step, job, nodes, sign):
    row = line.row[step]
    for node in nodes:
        if state.options.exclusive:
            held = sign < 0
            line.cpus[row, node] = -1 if held else state.total_cpus[node]
            line.mem[row, node] = -1 if held else state.total_mem[node]
            line.gpus[row, node] = -1 if held else state.total_gpus[node]
        else:
            line.cpus[row, node] += sign * state.cpus[job]
            line.mem[row, node] += sign * state.mem[job]
            line.gpus[row, node] += sign * state.gpus[job]


@njit(cache=True, nogil=True)
def step_at(line, moment):
    """Return the step that begins at ``moment``; one is made where there is none."""
    low, high = 0, line.n[0]
    while low < high:
        middle = (low + high) // 2
        if line.time[middle] < moment:
            low = middle + 1
        else:
            high = middle
    if low < line.n[0] and line.time[low] == moment:
        return low
    for i in range(line.n[0], low, -1):
        line.time[i] = line.time[i - 1]
        line.row[i] = line.row[i - 1]
    line.time[low] = moment
    new, old = line.n[0], line.row[low - 1]
    line.row[low] = new
    line.cpus[new] = line.cpus[old]
    line.mem[new] = line.mem[old]
    line.gpus[new] = line.gpus[old]
    line.n[0] += 1
    return low


@njit(cache=True, nogil=True)
def hold(state, line, job, nodes, start, end, sign):
    """Take a job's amounts on ``nodes`` from ``start`` until ``end`` (``sign`` −1), or give them back (1)."""
    first = step_at(line, start)
    last = step_at(line, end)
    for step in range(first, last):
        _add(state, line, step, job, nodes, sign)


@njit(cache=True, nogil=True)
def _holds(state, line, step, job, node):
    row = line.row[step]
    return (
        line.cpus[row, node] >= state.cpus[job]
        and line.mem[row, node] >= state.mem[job]
        and line.gpus[row, node] >= state.gpus[job]
    )


@njit(cache=True, nogil=True)
def find_nodes(state, line, job, before, among):
    """Find the earliest moment, not after ``before``, at which enough nodes hold a job as long as it lasts.

    The lowest rows of these nodes are laid into ``chosen``; only nodes ``among`` bool[n_nodes] are looked at.

    Returns
    -------
    int
        s; −1 if there is none.
    """
    steps, wanted = line.n[0], state.n_nodes[job]
    until = line.until
    until[:] = 0
    for k in range(steps):
        start = line.time[k]
        if start > before:
            return -1
        end = min(start + state.estimate[job], FAR)
        found = 0
        for node in range(until.size):
            if not among[node] or (state.node_types[node] & state.types[job]) == 0:
                continue
            if until[node] < k:
                until[node] = k
            if until[node] == k or line.time[min(until[node], steps - 1)] < end:
                m = until[node]
                while m < steps and line.time[m] < end and _holds(state, line, m, job, node):
                    m += 1
                until[node] = m
            m = until[node]
            if m == steps or (m > k and line.time[m] >= end):
                state.chosen[found] = node
                found += 1
                if found == wanted:
                    return start
    return -1


@njit(cache=True, nogil=True)
def plan_nodes(state, plan, line, job, start):
    """Plan a job on the ``chosen`` nodes from ``start``; from FAR on it holds nothing."""
    first = state.node_first[job]
    for i in range(state.n_nodes[job]):
        plan.nodes[first + i] = state.chosen[i]
    plan.start[job] = min(start, FAR)
    hold_plan(state, plan, line, job, -1)


@njit(cache=True, nogil=True)
def hold_plan(state, plan, line, job, sign):
    """Hold what a waiting job's plan needs (``sign`` −1), or give it back (1)."""
    start = plan.start[job]
    if 0 <= start < FAR:
        nodes = plan.nodes[state.node_first[job] : state.node_first[job + 1]]
        hold(state, line, job, nodes, start, min(start + state.estimate[job], FAR), sign)
