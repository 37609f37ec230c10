"""A window as data: the idle nodes of a tree in order, and jobs with their sizes; and what an answer is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from procure.errors import ArgumentError, TableError
from procure.text import counted, nearest
from procure.topology.fat_tree import FatTree

PROFILES = {"code": (1, 3, 5), "paper": (2, 4, 6)}
"""Hops between two nodes on one leaf, in one pod, and of different pods. An unordered pair counts once in ``code``,
twice in ``paper``."""


def hop_cost(leaf: np.ndarray, pod: np.ndarray, profile: str = "code") -> float:
    """Return the communication-hop cost of one job by the leaf and the pod of each of its nodes.

    ``paper``: 1000/n times the hops over ordered pairs, 0 for a single node (Lan et al., eq. 1).
    ``code``: the whole number max(⌊1000 · hops / n⌋, 1) over unordered pairs, as the published program
    counts. As hops differ by one and C(n, 2) is fixed by the job's size, ``paper`` is twice the unrounded
    ``code`` plus 1000 (n − 1): an allocation that is best in one is best in the other, but for rounding.

    Raises
    ------
    ArgumentError
        The profile is not known.
    """
    if profile not in PROFILES:
        raise ArgumentError("profile", f"profile {profile!r} is not known; {nearest(profile, PROFILES)}")
    (on_leaf, in_pod, far), n = PROFILES[profile], len(leaf)
    pairs, one_leaf, one_pod = (
        sum(count * (count - 1) // 2 for count in counts)
        for counts in ([n], *(np.unique(where, return_counts=True)[1].tolist() for where in (leaf, pod)))
    )
    total = far * pairs - (far - in_pod) * one_pod - (in_pod - on_leaf) * one_leaf
    return 2000 * total / n if profile == "paper" else max(1000 * total // n, 1)


@dataclass(frozen=True)
class Window:
    """Jobs that are to be placed together, and the idle nodes.

    Attributes
    ----------
    tree
        The fat-tree. Its places are numbered from 0, leaf by leaf.
    idle
        int64[n_idle], the places of the idle nodes, ascending.
    ids
        A name of each job.
    sizes
        int64[n_jobs], the nodes that each job asks for.

    Raises
    ------
    TableError
        A place that is not in the tree or named twice, a job named twice, a size below 1, or more nodes
        asked for than idle.
    """

    tree: FatTree
    idle: np.ndarray
    ids: tuple[str, ...]
    sizes: np.ndarray

    def __post_init__(self) -> None:
        """Bring the idle nodes into order and refuse what cannot be placed."""
        object.__setattr__(self, "idle", np.sort(np.asarray(self.idle, np.int64)))
        object.__setattr__(self, "sizes", np.asarray(self.sizes, np.int64))
        object.__setattr__(self, "ids", tuple(self.ids))
        wrong = self.idle[(self.idle < 0) | (self.idle >= self.tree.size)]
        if len(wrong):
            raise TableError(
                f"window: idle node {wrong[0]} is not in the tree; its places are 0 to {self.tree.size - 1}"
            )
        if len(set(self.idle.tolist())) < len(self.idle) or len(set(self.ids)) < len(self.ids):
            raise TableError("window: an idle node or a job is named twice")
        if len(self.ids) != len(self.sizes) or (self.sizes < 1).any():
            raise TableError("window: each job needs a name and a size of at least 1 node")
        if (asked := int(self.sizes.sum())) > len(self.idle):
            raise TableError(
                f"window: the jobs ask for {counted(asked, 'node')} in all, idle are "
                f"{len(self.idle)}; a window's jobs must fit together"
            )

    def cost(self, places: np.ndarray, profile: str = "code") -> float:
        """Return the cost of one job on these places (`hop_cost`)."""
        leaf = np.asarray(places) // self.tree.nodes
        return hop_cost(leaf, leaf // self.tree.leaves, profile)


@dataclass(frozen=True)
class Allocation:
    """Which places each job of a window gets.

    Attributes
    ----------
    places
        Per job, in the window's order: int64[n], places, in the order in which they were taken.
    seconds
        Wall time of the solver.
    optimal
        Whether it is proved to be the optimum of the static model.
    """

    window: Window
    method: str
    places: tuple[np.ndarray, ...]
    seconds: float
    optimal: bool

    @property
    def cost_code(self) -> int:
        """The sum of the jobs' costs as the published program counts them."""
        return int(sum(self.window.cost(places, "code") for places in self.places))

    @property
    def cost_paper(self) -> float:
        """The sum of the jobs' costs by the paper's formula."""
        return float(sum(self.window.cost(places, "paper") for places in self.places))
