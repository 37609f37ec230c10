"""A window as data: the idle nodes of a tree in order, and jobs with their sizes; and what an answer is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from procure.errors import ArgumentError, TableError, reason
from procure.files.read import from_json, read_bytes
from procure.settings import complaint, problems
from procure.text import Shown, counted, nearest
from procure.topology.fat_tree import FatTree


class Hops(NamedTuple):
    """Hops between two nodes on one leaf, in one pod, and of different pods."""

    leaf: int
    pod: int
    far: int


PROFILES = {"code": Hops(1, 3, 5), "paper": Hops(2, 4, 6)}
"""The profiles by name. Each unordered pair counts once in ``code`` and twice in ``paper``."""


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
    hops, n = PROFILES[profile], len(leaf)
    pairs, one_leaf, one_pod = (
        sum(count * (count - 1) // 2 for count in counts)
        for counts in ([n], *(np.unique(where, return_counts=True)[1].tolist() for where in (leaf, pod)))
    )
    total = hops.far * pairs - (hops.far - hops.pod) * one_pod - (hops.pod - hops.leaf) * one_leaf
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
        self._check_idle()
        if len(self.ids) != len(self.sizes):
            raise TableError(f"window: {len(self.ids)} names and {len(self.sizes)} sizes of jobs")
        names: set[str] = set()
        for name, size in zip(self.ids, self.sizes.tolist(), strict=True):
            if name in names:
                raise TableError(f"window: two jobs are named {name}")
            names.add(name)
            if size < 1:
                raise TableError(f"window: job {name} asks for {size} nodes; at least 1 is needed")
        asked = int(self.sizes.sum())
        if asked > len(self.idle):
            raise TableError(
                f"window: the jobs ask for {counted(asked, 'node')} in all, idle are "
                f"{len(self.idle)}; a window's jobs must fit together"
            )

    def _check_idle(self) -> None:
        wrong = self.idle[(self.idle < 0) | (self.idle >= self.tree.size)]
        if len(wrong):
            raise TableError(
                f"window: idle node {wrong[0]} is not in the tree; its places are 0 to {self.tree.size - 1}"
            )
        twice = self.idle[1:][self.idle[1:] == self.idle[:-1]]
        if len(twice):
            raise TableError(f"window: idle node {twice[0]} is named twice")

    def cost(self, places: np.ndarray, profile: str = "code") -> float:
        """Return the cost of one job on these places (`hop_cost`)."""
        leaf = np.asarray(places) // self.tree.nodes
        return hop_cost(leaf, leaf // self.tree.leaves, profile)


@dataclass(frozen=True)
class Allocation(Shown):
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

    notes = ()

    @property
    def title(self) -> str:
        """The method, and whether its answer is proved."""
        proved = ", proved optimal" if self.optimal else ""
        return f"{counted(len(self.places), 'job')} placed by {self.method}{proved}"

    @property
    def table(self) -> Any:
        """A row per job: ``job n_nodes places``."""
        places = [sorted(each.tolist()) for each in self.places]
        return pd.DataFrame({"job": self.window.ids, "n_nodes": self.window.sizes, "places": places})

    @cached_property
    def cost_code(self) -> int:
        """The sum of the jobs' costs as the published program counts them."""
        return int(sum(self.window.cost(places, "code") for places in self.places))

    @cached_property
    def cost_paper(self) -> float:
        """The sum of the jobs' costs by the paper's formula."""
        return float(sum(self.window.cost(places, "paper") for places in self.places))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "method": self.method,
            "cost_code": self.cost_code,
            "cost_paper": self.cost_paper,
            "seconds": self.seconds,
            "assignment": dict(zip(self.table["job"], self.table["places"], strict=True)),
            "optimal": self.optimal,
        }


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Tree(_Strict):
    pods: int = Field(ge=1)
    leaves: int = Field(ge=1)
    nodes: int = Field(ge=1)


class _Job(_Strict):
    id: str | int
    n_nodes: int = Field(ge=1)


class _Instance(_Strict):
    tree: _Tree
    idle: list[int]
    jobs: list[_Job] = Field(min_length=1)


def read_window(path: str | Path) -> Window:
    """Read a window from JSON: ``{"tree": {"pods", "leaves", "nodes"}, "idle": […], "jobs": [{"id", "n_nodes"}]}``.

    ``leaves`` is per pod, ``nodes`` per leaf; ``idle`` are places of the tree, from 0.

    Raises
    ------
    TableError
        The file is missing, no such JSON, or its jobs do not fit (`Window`).

    Examples
    --------
    >>> import procure
    >>> procure.read_window("instance.json").ids
    ('a',)
    """
    try:
        given = from_json(read_bytes(path))
    except ValueError as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{path}: not JSON: {reason(error)}") from None
    if not isinstance(given, dict):
        raise TableError(f"{path}: an object with tree, idle and jobs is needed, not {type(given).__name__}")
    try:
        instance = _Instance.model_validate(given)
        tree = instance.tree
        return Window(
            FatTree(tree.pods, tree.leaves, tree.nodes, uplinks=1, spines=1),
            np.array(instance.idle, np.int64),
            tuple(str(job.id) for job in instance.jobs),
            np.array([job.n_nodes for job in instance.jobs], np.int64),
        )
    except ValidationError as error:
        raise TableError(complaint(f"{path}", problems(error))) from None
    except OverflowError:
        raise TableError(f"{path}: a number has more than 63 bits") from None
    except TableError as error:
        raise TableError(f"{path}: {error}") from None
