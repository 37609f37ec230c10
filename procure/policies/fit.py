"""Fits: which of the nodes that can hold a job it gets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.policies.names import BEST, FIRST, FITS
from procure.simulator.kernel import part


class Room(NamedTuple):
    """Which fit is used, and the arrays in which `choose` works."""

    fit: int  # numbers `procure.policies.names.FITS`
    margins: np.ndarray  # float64[n_nodes]
    spare_cpus: np.ndarray  # int64[n_nodes], what a reservation leaves free when it begins
    spare_mem: np.ndarray  # int64[n_nodes], MB
    spare_gpus: np.ndarray  # int64[n_nodes]


def make_room(state, fit: str) -> Room:
    """Lay out what `choose` needs in one run."""
    n_nodes = state.free_cpus.size
    spare = (np.zeros(n_nodes, np.int64) for _ in range(3))
    return Room(FITS.index(fit), np.zeros(n_nodes), *spare)


@part
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


@part
def choose(state, job, room, spared):
    """Choose the nodes for a job by the room's fit and lay their rows into ``chosen``.

    With ``spared``, only nodes that hold the job beside a reservation (`Room.spare_cpus` and so on).
    Ties go to the lower row; ``chosen`` is ascending.

    Returns
    -------
    bool
        Whether the job can start; if not, ``chosen`` means nothing.
    """
    wanted = state.n_nodes[job]
    cpus, mem, gpus, types = state.cpus[job], state.mem[job], state.gpus[job], state.types[job]
    if state.pool and state.n_idle[0] < wanted:
        return False
    free_cpus, free_mem, free_gpus, node_types = (
        state.free_cpus, state.free_mem, state.free_gpus, state.node_types,
    )  # fmt: skip
    spare_cpus, spare_mem, spare_gpus = room.spare_cpus, room.spare_mem, room.spare_gpus
    chosen, margins, fit = state.chosen, room.margins, room.fit
    n_nodes = free_cpus.size
    found = np.int64(0)  # of a constant's type, what is called with it would be compiled twice
    for node in range(n_nodes):
        if (
            free_cpus[node] < cpus
            or free_mem[node] < mem
            or free_gpus[node] < gpus
            or (node_types[node] & types) == 0
        ):
            continue
        if spared and (spare_cpus[node] < cpus or spare_mem[node] < mem or spare_gpus[node] < gpus):
            continue
        chosen[found] = node
        found += 1
        if fit == FIRST and found == wanted:
            return True
    if found < wanted or fit == FIRST:
        return False
    for i in range(found):
        left = margin(state, job, chosen[i], False)
        margins[i] = left if fit == BEST else -left
    keep_least(chosen, margins, found, wanted)
    return True


@part
def keep_least(chosen, margins, found, wanted):
    """Keep the ``wanted`` of ``found`` nodes with the least margins, ascending; returns their mean margin."""
    if wanted == 1:
        least = 0
        for i in range(1, found):
            if margins[i] < margins[least]:
                least = i
        chosen[0] = chosen[least]
        return margins[least]
    sort_by(margins, chosen, found)
    total = 0.0
    for i in range(wanted):
        total += margins[i]
        margins[i] = 0.0
    sort_by(margins, chosen, wanted)
    return total / wanted


@part
def sort_by(margins, nodes, n):
    """Sort the first ``n`` nodes (or anything that is numbered) by (margin, node), in place: a heapsort."""
    for begin in range(n // 2 - 1, -1, -1):
        _sink(margins, nodes, begin, n)
    for end in range(n - 1, 0, -1):
        margins[0], margins[end] = margins[end], margins[0]
        nodes[0], nodes[end] = nodes[end], nodes[0]
        _sink(margins, nodes, np.int64(0), end)


@part
def _sink(margins, nodes, i, n):
    """Let the entry at ``i`` of a heap of ``n``, the greatest on top, sink to its place."""
    left, node = margins[i], nodes[i]
    child = 2 * i + 1
    while child < n:
        other = child + 1
        if other < n and (
            margins[other] > margins[child]
            or (margins[other] == margins[child] and nodes[other] > nodes[child])
        ):
            child = other
        if left > margins[child] or (left == margins[child] and node > nodes[child]):
            break
        margins[i], nodes[i] = margins[child], nodes[child]
        i, child = child, 2 * child + 1
    margins[i], nodes[i] = left, node
