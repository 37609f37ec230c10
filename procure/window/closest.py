"""The place `closest`: of the idle nodes, those at the start along the tree that have the fewest hops between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.seams import place as seam
from procure.topology.fat_tree import FatTree
from procure.topology.shared_links import Places, make_places
from procure.window.board import Board, best_start, make_board


@seam
class Closest(NamedTuple):
    """The nodes at the best start along the line of idle nodes, cyclic; ties: the first."""

    places: Places
    idle: np.ndarray  # int64[n_places], room for the places of the nodes among which is picked
    board: Board  # room for all nodes

    def pick(self, state, job, n):
        """Keep the nodes that the job gets, by place in the tree."""
        shape, places, board, wanted = self.places.shape, self.places, self.board, state.n_nodes[job]
        for at in range(places.row.size):
            board.owner[at] = -1
        for i in range(n):
            board.owner[places.place[state.chosen[i]]] = 0
        found = 0
        for at in range(places.row.size):
            if board.owner[at] == 0:
                self.idle[found] = at
                board.leaf[found] = at // shape.nodes
                board.pod[found] = at // (shape.nodes * shape.leaves)
                found += 1
        start = best_start(board, n, wanted)
        for i in range(wanted):  # in order along the tree: those past its end come first
            past = max(0, start + wanted - n)
            state.chosen[i] = places.row[self.idle[i if i < past else start + i - past]]


def make_closest(tree: FatTree) -> Closest:
    """Make the place of one run."""
    every = np.arange(tree.size)
    board = make_board(tree.shape, every, np.ones(1, np.int64), 0)
    board.line[:] = every
    return Closest(make_places(tree), every.copy(), board)
