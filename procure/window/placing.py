"""What `window` does in a run beside `closest`: list the idle places, count ends, start a job on places."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.state import State
from procure.topology.fat_tree import FatTree
from procure.topology.shared_links import MOMENT, SEEN, Links, make_links, note_ends, note_start
from procure.window.board import compiled


class Placing(NamedTuple):
    """The tree and who is where on it."""

    links: Links
    idle: np.ndarray  # int64[n_places], room for the places of the idle nodes
    n_ended: np.ndarray  # int64[1], jobs that have ended


def make_placing(state: State, tree: FatTree, slowdown: float, exponent: float) -> Placing:
    """Lay out an empty tree for a run."""
    links = make_links(state, tree, slowdown, exponent)
    return Placing(links, np.zeros(tree.size, np.int64), np.zeros(1, np.int64))


@compiled
def deal_with_ends(state, placing):
    """Count the jobs that ended since the last call, and what that means for the paces of the others."""
    notes = placing.links.notes
    seen = notes[SEEN] if notes[MOMENT] == state.now[0] else 0
    placing.n_ended[0] += state.n_ended[0] - seen
    note_ends(state, placing.links)


@compiled
def list_idle(state, placing):
    """Write the places of the idle nodes to ``idle``, ascending; returns how many."""
    n, row = 0, placing.links.row
    for place in range(row.size):
        if row[place] >= 0 and state.free_cpus[row[place]] >= 0:
            placing.idle[n] = place
            n += 1
    return n


@compiled
def start_on_places(state, placing, job):
    """Answer with a job whose places stand in ``places``; it then uses the links between them."""
    places = placing.links.places[state.node_first[job] : state.node_first[job + 1]]
    places.sort()
    for i in range(places.size):
        state.chosen[i] = placing.links.row[places[i]]
    note_start(state, placing.links, job)
    return job, state.chosen[: places.size]
