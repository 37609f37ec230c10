"""Which nodes a decision looks at: those partly free, and of idle ones that are alike no more than a job can take.

In Slurm's words a node is idle, mixed or allocated. An allocated one, which has fewer CPUs free than any job asks for,
holds nothing. Idle nodes of one kind differ in their row alone, and ties go to the lower row; so of ``n`` that hold
``k`` units each, a job of ``m`` units takes none but the first ``m / k``. What is left of thousands of nodes are some
hundred.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.kernel import part
from procure.simulator.tasks import units_in, units_on

ALIKE = 64
"""Nodes of a kind from which on its idle ones are kept apart; fewer are looked at one by one."""
BITS = 32
"""Nodes to a word. A word times a constant of 27 bits stays below 2^63, so plain Python counts alike."""
EVERY = 1 << 59
"""As the units that a job asks for: look at every node that may hold any."""
_PLACE = np.argsort((0x077CB531 << np.arange(32) & 0xFFFFFFFF) >> 27)
"""By the five highest bits of a word's lowest bit times the constant (de Bruijn's), which bit that is."""


class Usable(NamedTuple):
    """The nodes that may hold a job, a bit for each."""

    kind: np.ndarray  # int64[n_nodes], the row of ``idle`` on which an idle node stands; −1 = it stands in ``mixed``
    idle: np.ndarray  # int64[n_kinds, n_words]
    mixed: np.ndarray  # int64[n_words]
    n_idle: np.ndarray  # int64[n_kinds]
    one_of: np.ndarray  # int64[n_kinds], a node of the kind
    left: np.ndarray  # int64[n_kinds], room
    rows: np.ndarray  # int64[n_nodes], room for the nodes that are to be looked at, ascending
    least_cpus: int  # the fewest CPUs that any shape asks for, per unit


def make_usable(kind_of: np.ndarray, shape_cpus: np.ndarray) -> Usable:
    """Lay out an empty system: int64[n_nodes], the kind of each node; int64[n_shapes], CPUs per unit."""
    n_nodes, size = len(kind_of), np.bincount(kind_of)
    apart = np.flatnonzero(size >= ALIKE)
    kind = np.full(len(size), -1, np.int64)
    kind[apart] = np.arange(len(apart))
    kind = kind[kind_of]
    bits = np.zeros((len(apart) + 1, -(-n_nodes // BITS)), np.int64)  # the mixed ones in the last row
    nodes = np.arange(n_nodes)
    np.bitwise_or.at(bits, (kind, nodes // BITS), np.int64(1) << nodes % BITS)
    one_of = np.array([np.flatnonzero(kind == one)[0] for one in range(len(apart))], np.int64)
    idle, room = np.ascontiguousarray(bits[:-1]), np.zeros(len(apart), np.int64)
    least = int(shape_cpus.min()) if len(shape_cpus) else 0
    return Usable(kind, idle, bits[-1].copy(), size[apart].astype(np.int64), one_of, room, np.zeros_like(nodes), least)


def forget_idle(usable: Usable) -> None:
    """Look at every node but the allocated ones: idle is not what the totals say."""
    usable.mixed[:] |= np.bitwise_or.reduce(usable.idle, axis=0)
    usable.kind[:], usable.idle[:], usable.n_idle[:] = -1, 0, 0


@part
def set_node_state(state, node):
    """Say where a node stands, once what it has free has changed."""
    usable = state.usable
    kind, word, bit = usable.kind[node], node // BITS, np.int64(1) << node % BITS
    free = state.free_cpus[node]
    idle = kind >= 0 and (
        free == state.total_cpus[node]
        and state.free_mem[node] == state.total_mem[node]
        and state.free_gpus[node] == state.total_gpus[node]
    )
    if kind >= 0 and idle != ((usable.idle[kind, word] & bit) != 0):
        usable.idle[kind, word] ^= bit
        usable.n_idle[kind] += 1 if idle else -1
    if idle or free < usable.least_cpus:
        usable.mixed[word] &= ~bit
    else:
        usable.mixed[word] |= bit


@part
def units_on_idle(state, tasks, shape, kind):
    """Say how many units of a shape an idle node of a kind holds."""
    node = state.usable.one_of[kind]
    return units_in(state, tasks, shape, node, state.total_cpus[node], state.total_mem[node], state.total_gpus[node])


@part
def lay_candidates(state, tasks, shape, wanted):
    """Lay the nodes that may get some of ``wanted`` units of a shape into ``rows``; returns how many."""
    usable = state.usable
    left, rows, found = usable.left, usable.rows, 0
    least = 0 if tasks is None else tasks.min_nodes[shape]  # each of which leaves one unit for the others
    for kind in range(left.size):
        left[kind] = 0
        if usable.n_idle[kind] > 0:
            n = units_on_idle(state, tasks, shape, kind)
            if n > 0:
                left[kind] = (wanted + n - 1) // n + least
    for word in range(usable.mixed.size):
        bits = usable.mixed[word]
        for kind in range(left.size):
            idle = usable.idle[kind, word] if left[kind] > 0 else 0
            while idle != 0 and left[kind] > 0:
                bits |= idle & -idle
                idle &= idle - 1
                left[kind] -= 1
        while bits != 0:
            rows[found] = _lowest(word, bits)
            found += 1
            bits &= bits - 1
    return found


@part
def _lowest(word, bits):
    """Return the node of the lowest bit of a word."""
    return BITS * word + _PLACE[((bits & -bits) * 0x077CB531 & 0xFFFFFFFF) >> 27]


@part
def count_units(state, tasks, shape, enough):
    """Count the units of a shape that all nodes hold now, or as many of them as are ``enough``."""
    usable, total = state.usable, 0
    for kind in range(usable.n_idle.size):
        if usable.n_idle[kind] > 0:
            total += usable.n_idle[kind] * units_on_idle(state, tasks, shape, kind)
    for word in range(usable.mixed.size):
        bits = usable.mixed[word]
        while bits != 0 and total < enough:
            total += units_on(state, tasks, shape, _lowest(word, bits))
            bits &= bits - 1
    return total
