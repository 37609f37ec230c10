"""What shared or unlike nodes have free from each moment on, laid out anew at each decision.

Nodes are held here between moments at which nothing waits to be planned, for jobs that do not exist yet; so all
nodes change at common steps, unlike in `procure.policies.timeline`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from procure.simulator.state import FAR


class Steps(NamedTuple):
    """``time[k]`` to ``time[k + 1]`` has the free amounts in row ``row[k]``; the last step never ends."""

    time: np.ndarray  # int64[capacity], s
    row: np.ndarray  # int64[capacity]
    cpus: np.ndarray  # int64[capacity, n_nodes]
    mem: np.ndarray  # int64[capacity, n_nodes], MB
    gpus: np.ndarray  # int64[capacity, n_nodes]
    n: np.ndarray  # int64[1], steps; as many rows
    until: np.ndarray  # int64[n_nodes], room for `find_nodes`


@njit(cache=True, nogil=True)
def empty_steps(capacity, n_nodes):
    """Return room for ``capacity`` steps."""
    return Steps(
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros((capacity, n_nodes), np.int64),
        np.zeros((capacity, n_nodes), np.int64),
        np.zeros((capacity, n_nodes), np.int64),
        np.ones(1, np.int64),
        np.zeros(n_nodes, np.int64),
    )


@njit(cache=True, nogil=True)
def free_nodes(state, line, row, job):
    """Give back in a row what a running job holds."""
    for i in range(state.node_first[job], state.node_first[job + 1]):
        node = state.node_list[i]
        if state.options.exclusive:
            line.cpus[row, node] = state.total_cpus[node]
            line.mem[row, node] = state.total_mem[node]
            line.gpus[row, node] = state.total_gpus[node]
        else:
            line.cpus[row, node] += state.cpus[job]
            line.mem[row, node] += state.mem[job]
            line.gpus[row, node] += state.gpus[job]


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
def find_nodes(state, line, job, before):
    """Find the earliest moment, not after ``before``, at which enough nodes hold a job as long as it lasts.

    The lowest rows of these nodes are laid into ``chosen``.

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
            if (state.node_types[node] & state.types[job]) == 0:
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
