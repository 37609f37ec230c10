"""Places on a fat-tree whose links are shared: any idle nodes, or those under the fewest switches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.kernel import part
from procure.simulator.seams import place as seam
from procure.simulator.state import State
from procure.topology.compact import allocate_any, allocate_compact
from procure.topology.contention import Contention, ask_paces, count_users, make_contention
from procure.topology.fabric import Fabric, Grant, empty_fabric, empty_grant
from procure.topology.fat_tree import FatTree, Shape

MOMENT, SEEN = range(2)
"""What the notes hold: how far ends are dealt with."""


class Links(NamedTuple):
    """A tree of which jobs share the links, and who uses which."""

    shape: Shape
    row: np.ndarray  # int64[n_places], the node table's row at a place; −1 = there is no node
    place: np.ndarray  # int64[n_nodes], the place of a row
    places: np.ndarray  # int64[sum of n_nodes], each job's places, ascending, as `State.node_list` has rows
    contention: Contention
    notes: np.ndarray  # int64[2]


def make_links(state: State, tree: FatTree, slowdown: float, exponent: float) -> Links:
    """Lay out a tree of which nobody uses a link yet."""
    place = np.empty(len(tree), np.int64)
    real = np.flatnonzero(tree.rows >= 0)
    place[tree.rows[real]] = real
    return Links(
        tree.shape,
        np.array(tree.rows, np.int64),
        place,
        np.full(state.node_list.size, -1, np.int64),
        make_contention(tree.shape, slowdown, exponent),
        np.array([-1, 0], np.int64),
    )


@part
def note_ends(state, links):
    """Take the jobs that have ended since the last call from the links that they used, and change paces."""
    notes, contention = links.notes, links.contention
    if notes[MOMENT] != state.now[0]:
        notes[MOMENT], notes[SEEN] = state.now[0], 0
    if contention.slowdown > 0 and notes[SEEN] < state.n_ended[0]:
        for i in range(notes[SEEN], state.n_ended[0]):
            job = state.ended[i]
            places = links.places[state.node_first[job] : state.node_first[job + 1]]
            count_users(links.shape, contention, places, -1)
        ask_paces(state, links.shape, contention, links.places, -1)
    notes[SEEN] = state.n_ended[0]


@part
def note_start(state, links, job):
    """Let the job that starts on the chosen nodes use the links between them, and change paces."""
    if links.contention.slowdown > 0:
        first = state.node_first[job]
        places = links.places[first : first + state.n_nodes[job]]
        for i in range(places.size):
            places[i] = links.place[state.chosen[i]]
        count_users(links.shape, links.contention, places, 1)
        ask_paces(state, links.shape, links.contention, links.places, job)


@seam
class SharedLinks(NamedTuple):
    """Any idle nodes, or those under the fewest switches."""

    compact: bool
    links: Links
    free: Fabric  # room: of the nodes among which is picked
    grant: Grant  # room

    def pick(self, state, job, n):
        """Keep the nodes that the job gets, by place in the tree: the first rows, or as `allocate_compact` has it."""
        shape, free, links = self.links.shape, self.free, self.links
        for i in range(free.idle.size):
            free.idle[i] = 0
        for i in range(free.leaf_idle.size):
            free.leaf_idle[i] = 0
        for i in range(free.pod_idle.size):
            free.pod_idle[i] = 0
        for i in range(n):
            at = links.place[state.chosen[i]]
            free.idle[at] = 1
            free.leaf_idle[at // shape.nodes] += 1
            free.pod_idle[at // (shape.nodes * shape.leaves)] += 1
        if self.compact:
            allocate_compact(shape, free, state.n_nodes[job], self.grant)
        else:
            allocate_any(shape, free, links.place, state.n_nodes[job], self.grant)
        for i in range(state.n_nodes[job]):
            state.chosen[i] = links.row[self.grant.nodes[i]]

    def follow(self, state):
        """Deal with the jobs that have ended."""
        note_ends(state, self.links)

    def started(self, state, job):
        """Let the job use its links."""
        note_start(state, self.links, job)


def make_shared_links(state: State, tree: FatTree, compact: bool, slowdown: float, exponent: float) -> SharedLinks:
    """Make the place of one run."""
    links = make_links(state, tree, slowdown, exponent)
    return SharedLinks(compact, links, empty_fabric(tree.shape), empty_grant(tree.shape))
