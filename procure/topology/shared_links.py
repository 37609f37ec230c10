"""Places on a fat-tree whose links are shared: any idle nodes, or those under the fewest switches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.kernel import part
from procure.simulator.seams import place as seam
from procure.topology.compact import allocate_compact
from procure.topology.fabric import Fabric, Grant, empty_fabric, empty_grant, in_order
from procure.topology.fat_tree import FatTree, Shape


class Places(NamedTuple):
    """Which row of the node table stands at which place of a tree."""

    shape: Shape
    row: np.ndarray  # int64[n_places], the node table's row at a place; −1 = there is no node
    place: np.ndarray  # int64[n_nodes], the place of a row


def make_places(tree: FatTree) -> Places:
    """Return the places of a tree's nodes."""
    place = np.empty(len(tree), np.int64)
    real = np.flatnonzero(tree.rows >= 0)
    place[tree.rows[real]] = real
    return Places(tree.shape, np.array(tree.rows, np.int64), place)


@seam
class SharedLinks(NamedTuple):
    """Any idle nodes, or those under the fewest switches."""

    compact: bool
    places: Places
    free: Fabric  # room: of the nodes among which is picked
    grant: Grant  # room

    def pick(self, state, job, n):
        """Keep the nodes that the job gets, by place in the tree: the first rows, or as `allocate_compact` has it."""
        places, free, grant, wanted = self.places, self.free, self.grant, state.n_nodes[job]
        if self.compact:
            _lay_out(places, free, state.chosen[:n])
            allocate_compact(places.shape, free, wanted, grant)
        else:
            grant.n[0] = wanted
            for i in range(wanted):
                grant.nodes[i] = places.place[state.chosen[i]]
            in_order(grant)
        for i in range(wanted):
            state.chosen[i] = places.row[grant.nodes[i]]


def make_shared_links(tree: FatTree, compact: bool) -> SharedLinks:
    """Make the place of one run."""
    return SharedLinks(compact, make_places(tree), empty_fabric(tree.shape), empty_grant(tree.shape))


@part
def _lay_out(places, free, rows):
    """Make these rows of the node table the only nodes that are free."""
    for counts in (free.idle, free.leaf_idle, free.pod_idle):
        for i in range(counts.size):
            counts[i] = 0
    for row in rows:
        at = places.place[row]
        free.idle[at] = 1
        free.leaf_idle[at // places.shape.nodes] += 1
        free.pod_idle[at // (places.shape.nodes * places.shape.leaves)] += 1
