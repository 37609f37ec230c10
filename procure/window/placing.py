"""What `window` and `closest` both do in a run: know the tree, start a job on places, and slow jobs down."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.state import State
from procure.topology.contention import Contention, ask_paces, count_users, make_contention
from procure.topology.fat_tree import FatTree, Shape
from procure.window.board import compiled

MOMENT, SEEN, N_ENDED = range(3)
"""What the notes hold: how far the ends of this moment are dealt with, and how many there have been."""


class Placing(NamedTuple):
    """The tree and who is where on it."""

    shape: Shape
    row: np.ndarray  # int64[n_places], the node table's row at a place; −1 = there is no node
    places: np.ndarray  # int64[sum of n_nodes], each job's places, as `State.node_list` has rows
    idle: np.ndarray  # int64[n_nodes], room for the places of the idle nodes
    contention: Contention
    notes: np.ndarray  # int64[3]


def make_placing(state: State, tree: FatTree, slowdown: float, exponent: float) -> Placing:
    """Lay out an empty tree for a run."""
    return Placing(
        tree.shape,
        np.array(tree.rows, np.int64),
        np.full(state.node_list.size, -1, np.int64),
        np.zeros(len(tree), np.int64),
        make_contention(tree.shape, slowdown, exponent),
        np.array([-1, 0, 0], np.int64),
    )


@compiled
def deal_with_ends(state, placing):
    """Count the jobs that ended since the last call, and what that means for the paces of the others."""
    notes = placing.notes
    if notes[MOMENT] != state.now[0]:
        notes[MOMENT], notes[SEEN] = state.now[0], 0
    if notes[SEEN] == state.n_ended[0]:
        return
    notes[N_ENDED] += state.n_ended[0] - notes[SEEN]
    if placing.contention.slowdown > 0:
        for i in range(notes[SEEN], state.n_ended[0]):
            count_users(placing.shape, placing.contention, _of(state, placing, state.ended[i]), -1)
        ask_paces(state, placing.shape, placing.contention, placing.places, -1)
    notes[SEEN] = state.n_ended[0]


@compiled
def _of(state, placing, job):
    return placing.places[state.node_first[job] : state.node_first[job + 1]]


@compiled
def list_idle(state, placing):
    """Write the places of the idle nodes to ``idle``, ascending; returns how many."""
    n = 0
    for place in range(placing.row.size):
        if placing.row[place] >= 0 and state.free_cpus[placing.row[place]] >= 0:
            placing.idle[n] = place
            n += 1
    return n


@compiled
def start_on_places(state, placing, job):
    """Answer with a job whose places stand in ``places``; it then uses the links between them."""
    places = _of(state, placing, job)
    places.sort()
    for i in range(places.size):
        state.chosen[i] = placing.row[places[i]]
    if placing.contention.slowdown > 0:
        count_users(placing.shape, placing.contention, places, 1)
        ask_paces(state, placing.shape, placing.contention, placing.places, job)
    return job, state.chosen[: places.size]
