"""One three-level fat-tree: leaf switches with nodes, pods with leaf switches, spines between pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError

MOST_LINKS = 62
"""Uplinks of one switch that a mask of 64 bits can hold."""
MOST_NODES = 10_000_000
"""Of a tree."""


class Shape(NamedTuple):
    """A tree's sizes as plain numbers, for the kernels.

    A node's place counts along the tree: place ``i`` is on leaf ``i // nodes``, in pod
    ``i // (nodes * leaves)``. A leaf has one uplink to each of the ``uplinks`` second-level switches of
    its pod, each of which has ``spines`` uplinks to switches of its own on the third level. Where a leaf
    or a pod has less, its places are there and count as taken: ``here`` and ``leaf_links`` say which are real.
    """

    pods: int
    leaves: int  # of the largest pod
    nodes: int  # of the largest leaf
    uplinks: int  # most of a leaf: second-level switches of a pod
    spines: int  # uplinks of a second-level switch
    largest_pod: int  # nodes of the pod that has most
    here: np.ndarray  # int64[n_places], 1 where there is a node, else 0
    leaf_links: np.ndarray  # int64[n_leaves], mask of the uplinks that a leaf has


def _not_given() -> np.ndarray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class FatTree:
    """A three-level fat-tree and the rows of the node table on it.

    Attributes
    ----------
    rows
        int64[n_places], the node table's row at each place of the tree, −1 where a smaller leaf or pod has none;
        in table order if not given.
    leaf_ids, pod_ids
        int64[pods * leaves] and int64[pods], the numbers that the node table gives them; −1 where there is no leaf.
    n_uplinks
        int64[pods * leaves], the uplinks that each leaf switch has; ``uplinks`` if not given.
    """

    pods: int
    leaves: int  # switches of the largest pod
    nodes: int  # of the largest leaf switch
    uplinks: int = 0  # of a leaf, one to each second-level switch of its pod: as many as nodes, fewer in a tapered tree
    spines: int = 0  # uplinks of each second-level switch; as many as leaf switches if not given
    rows: np.ndarray = field(default_factory=_not_given, repr=False, compare=False)
    leaf_ids: np.ndarray = field(default_factory=_not_given, repr=False, compare=False)
    pod_ids: np.ndarray = field(default_factory=_not_given, repr=False, compare=False)
    n_uplinks: np.ndarray = field(default_factory=_not_given, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Fill in what was not given and refuse what cannot be."""
        object.__setattr__(self, "uplinks", self.uplinks or self.nodes)
        object.__setattr__(self, "spines", self.spines or self.leaves)
        for name in ("pods", "leaves", "nodes", "uplinks", "spines"):
            if getattr(self, name) < 1:
                raise ArgumentError(name, f"a tree of {getattr(self, name)} {name}; at least 1 is needed")
        for name, what in (("uplinks", "leaf switch"), ("spines", "second-level switch")):
            if getattr(self, name) > MOST_LINKS:
                raise ArgumentError(
                    name, f"{getattr(self, name)} uplinks on one {what}; at most {MOST_LINKS} are supported"
                )
        _check_size(self.size)
        n_leaves = self.pods * self.leaves
        for name, n in (("rows", self.size), ("leaf_ids", n_leaves), ("pod_ids", self.pods)):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.arange(n))
        if not len(self.n_uplinks):
            object.__setattr__(self, "n_uplinks", np.full(n_leaves, self.uplinks))

    @property
    def size(self) -> int:
        """The number of places, with and without a node."""
        return self.pods * self.leaves * self.nodes

    def __len__(self) -> int:
        """Return the number of nodes."""
        return int(self.shape.here.sum())

    @cached_property
    def shape(self) -> Shape:
        """The sizes as plain numbers, for the kernels."""
        here = (self.rows >= 0).astype(np.int64)
        links = np.where(self.leaf_ids >= 0, (1 << self.n_uplinks.astype(np.int64)) - 1, 0)
        largest = int(here.reshape(self.pods, -1).sum(axis=1).max())
        return Shape(self.pods, self.leaves, self.nodes, self.uplinks, self.spines, largest, here, links)

    @cached_property
    def is_even(self) -> bool:
        """Whether all leaves and all pods have as many nodes and links."""
        return len(self) == self.size and bool((self.n_uplinks == self.uplinks).all())

    @classmethod
    def from_nodes(cls, nodes: pd.DataFrame, *, uplinks: int = 0, spines: int = 0) -> FatTree:
        """Read the tree from a node table's columns ``leaf``, ``pod`` and ``uplinks``, if there (`from_places`)."""
        return cls.from_places(*leaf_and_pod(nodes), uplinks=uplinks, spines=spines, given=links_of_leaves(nodes))

    @classmethod
    def from_places(
        cls,
        leaf: np.ndarray,
        pod: np.ndarray,
        *,
        uplinks: int = 0,
        spines: int = 0,
        given: Mapping[int, int] | None = None,
    ) -> FatTree:
        """Read the tree from the leaf and the pod of each node of a table; leaves and pods may differ in size.

        Without ``uplinks`` and ``spines`` there are as many as the largest leaf has nodes, and the largest pod leaves;
        ``given`` are those of each leaf where they are known (`links_of_leaves`). A node without leaf or pod, and a
        leaf in two pods, are refused.
        """
        _check_places(leaf, pod)
        leaf_ids, of_leaf = np.unique(leaf, return_inverse=True)
        pod_ids = np.unique(pod)
        pod_of = np.empty(len(leaf_ids), np.int64)
        pod_of[of_leaf] = np.searchsorted(pod_ids, pod)
        sizes = np.bincount(of_leaf)
        n_leaves, n_nodes = int(np.bincount(pod_of).max()), int(sizes.max())
        _check_size(len(pod_ids) * n_leaves * n_nodes)
        at = pod_of * n_leaves + _rank(pod_of)
        rows = np.full(len(pod_ids) * n_leaves * n_nodes, -1)
        rows[at[of_leaf] * n_nodes + _rank(of_leaf)] = np.arange(len(leaf))
        known = given or {}
        links = np.array([known.get(each, uplinks or n_nodes) for each in leaf_ids.tolist()])
        uplinks = uplinks or int(links.max())
        ids, n_uplinks = np.full((2, len(pod_ids) * n_leaves), -1)
        ids[at] = leaf_ids
        n_uplinks[:] = uplinks
        n_uplinks[at] = np.minimum(links, uplinks)
        return cls(len(pod_ids), n_leaves, n_nodes, uplinks, spines, rows, ids, pod_ids, n_uplinks)


def _rank(group: np.ndarray) -> np.ndarray:
    """Return how many entries of the same group stand before each."""
    return pd.Series(group).groupby(group).cumcount().to_numpy()


def links_of_leaves(nodes: pd.DataFrame) -> dict[int, int]:
    """Return the uplinks of each leaf of which the node table's column ``uplinks`` tells them, all alike on a leaf."""
    if "uplinks" not in nodes:
        return {}
    found: dict[int, int] = {}
    for row, (leaf, n) in enumerate(zip(nodes["leaf"], nodes["uplinks"], strict=True)):
        if pd.isna(n) or pd.isna(leaf):
            continue
        if n < 1:
            raise TableError(f"node table, row {row + 1}: leaf {leaf} has no uplinks; at least 1 is needed")
        if found.setdefault(int(leaf), int(n)) != n:
            raise TableError(
                f"node table, row {row + 1}: leaf {leaf} has {n} uplinks here and {found[int(leaf)]} before"
            )
    return found


def leaf_and_pod(nodes: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the leaf and the pod of every node of a table, int64[n_nodes] each; errors as `FatTree.from_places`."""
    unknown = pd.Series(-1, index=nodes.index)
    leaf, pod = (nodes.get(name, unknown).fillna(-1).to_numpy(np.int64) for name in ("leaf", "pod"))
    _check_places(leaf, pod)
    return leaf, pod


def _check_places(leaf: np.ndarray, pod: np.ndarray) -> None:
    for name, places in (("leaf", leaf), ("pod", pod)):
        missing = np.flatnonzero(places < 0)
        if len(missing):
            raise TableError(
                f"node table, row {missing[0] + 1}, column {name}: the value is missing, as in "
                f"{len(missing) - 1:,} further rows; the network has to be known "
                "(`procure topology make --from` adds leaf and pod)"
            )
    first: dict[int, int] = {}
    for row, (own_leaf, own_pod) in enumerate(zip(leaf.tolist(), pod.tolist(), strict=True)):
        if first.setdefault(own_leaf, own_pod) != own_pod:
            raise TableError(
                f"node table, row {row + 1}: leaf {own_leaf} is in pod {own_pod} here and in pod "
                f"{first[own_leaf]} before; a leaf belongs to one pod"
            )


def leaf_table(nodes: pd.DataFrame) -> pd.DataFrame:
    """Return a row per leaf: ``pod leaf n_nodes``, the ``first`` and ``last`` node, and Slurm's switches if known."""
    leaf, pod = leaf_and_pod(nodes)
    by_leaf = nodes.groupby([pod, leaf])
    known = {name: (name, "first") for name in ("leaf_switch", "pod_switch") if name in nodes}
    rows = by_leaf.agg(n_nodes=("node_id", "size"), first=("node_id", "first"), last=("node_id", "last"), **known)
    return rows.rename_axis(["pod", "leaf"]).reset_index()


def _check_size(n: int) -> None:
    if n > MOST_NODES:
        raise ArgumentError("pods", f"the tree would have {n:,} nodes; at most {MOST_NODES:,} are possible")


def make_nodes(
    pods: int, leaves: int, nodes: int, *, cpus: int = 1, mem_mb: int = 1000, prefix: str = "n"
) -> pd.DataFrame:
    """Return the node table of a tree with equal nodes.

    Raises
    ------
    ArgumentError
        A size is below 1, or the tree has more than 10 million nodes.

    Examples
    --------
    >>> import procure
    >>> nodes = procure.fat_tree(4, 18, 18)
    >>> nodes["leaf"].nunique(), nodes["pod"].nunique()
    (72, 4)
    """
    for name, value in (("pods", pods), ("leaves", leaves), ("nodes", nodes), ("cpus", cpus)):
        if value < 1:
            raise ArgumentError(name, f"{name} is {value}; at least 1 is needed")
    n = pods * leaves * nodes
    _check_size(n)
    width = len(str(n))
    return pd.DataFrame(
        {
            "node_id": [f"{prefix}{i + 1:0{width}d}" for i in range(n)],
            "kind": "node",
            "cpus": cpus,
            "mem_mb": mem_mb,
            "gpus": 0,
            "leaf": pd.array(np.arange(n) // nodes, dtype="Int64"),
            "pod": pd.array(np.arange(n) // (nodes * leaves), dtype="Int64"),
        }
    )
