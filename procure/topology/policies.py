"""The places on a fat-tree that composed policies can choose, with their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field, PrivateAttr, model_validator

from procure.errors import TableError
from procure.policies.parameters import Facts, Parameters
from procure.settings import LARGEST
from procure.simulator.drive import Policy
from procure.simulator.kernel import part
from procure.simulator.seams import place as seam
from procure.simulator.state import Options, State
from procure.simulator.tasks import enough
from procure.topology.fabric import Fabric, Grant, allocate_compact, empty_fabric, empty_grant, in_order
from procure.topology.fat_tree import FatTree, Shape, links_of_leaves
from procure.topology.own_links import OwnLinks, links_of, make_own_links


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


class OnTree(Parameters):
    """What every place on a tree takes. A job takes its nodes whole, whatever ``exclusive`` says."""

    needs_tree: ClassVar[bool] = True
    takes_tasks: ClassVar[bool] = False
    most_looked_at: ClassVar[int] = 128
    _nodes: pd.DataFrame | None = PrivateAttr(None)

    def options(self) -> Options:
        """Return what the simulator does differently under these parameters."""
        return super().options()._replace(exclusive=1)

    def make_with(self, state: State, facts: Facts) -> Policy:
        """Make the policy of one run that knows the links of each leaf from the node table."""
        known = self.model_copy()
        known._nodes = facts.nodes
        return known.make(state)

    def make_tree(self, state: State) -> FatTree:
        """Return the tree of a run's nodes; a job that can run on some of them only is refused."""
        links = {name: getattr(self, name, 0) for name in ("uplinks", "spines")}
        given = None if self._nodes is None else links_of_leaves(self._nodes)
        tree = FatTree.from_places(state.leaf, state.pod, **links, given=given)
        shapes = state.shapes
        fits = (
            (state.total_cpus >= shapes.cpus[:, None])
            & (state.total_mem >= shapes.mem[:, None])
            & enough(state.total_gpus, shapes.gpus[:, None], state.guards)
            & ((state.node_types & shapes.types[:, None]) != 0)
        )
        n_fitting = fits.sum(axis=1)
        partly = np.flatnonzero((n_fitting >= shapes.n_nodes) & (n_fitting < fits.shape[1]))
        if len(partly):
            i = partly[0]
            raise TableError(
                f"a job that asks for {shapes.cpus[i]} CPUs, {shapes.mem[i]:,} MB and {shapes.gpus[i]} GPUs per node "
                f"fits {n_fitting[i]} of {fits.shape[1]} nodes; policies on a tree need nodes that fit every job"
            )
        return tree


class AnyNodes(OnTree):
    """Any idle nodes."""

    compact: ClassVar[bool] = False

    def make_picker(self, state: State) -> SharedLinks:
        """Make what picks the nodes of a job."""
        return make_shared_links(self.make_tree(state), self.compact)


class Compact(AnyNodes):
    """The fewest switches."""

    compact = True


class _Isolating(OnTree):
    counts_nodes: ClassVar[bool] = False
    uplinks: int = Field(0, ge=0, le=LARGEST, description="uplinks of a leaf switch; 0 = as many as nodes")
    spines: int = Field(
        0, ge=0, le=LARGEST, description="uplinks of a second-level switch; 0 = as many as leaves in a pod"
    )
    hold_reserved_links: bool = Field(
        False, description="reserved links are held before the reservation begins, as in the published program"
    )

    @model_validator(mode="after")
    def _reserves_for_one_job(self) -> _Isolating:
        if getattr(self, "plans_every_job", False) or getattr(self, "depth", 1) > 1:
            raise ValueError(
                "place=tiers and place=isolated reserve the links of one waiting job; take easy with depth=1, fcfs or "
                "first-fit"
            )
        return self

    def make_place(self, state: State, n_lines: int) -> OwnLinks:
        """Make the place of one run."""
        tiers, bound = isinstance(self, Tiers), getattr(self, "bound", 1)
        tree, hold = self.make_tree(state), self.hold_reserved_links
        return make_own_links(state, tree, tiers=tiers, bound=bound, hold_reserved_links=hold)

    def columns(self, state: State, place: Any) -> Callable[[], dict[str, list]]:
        """Return which links each job was granted."""
        tree = self.make_tree(state)
        return lambda: {"links": links_of(place, tree)}


class Tiers(_Isolating):
    """The rules of three types of jobs."""


class Isolated(_Isolating):
    """Links of a job's own, by a search."""

    bound: int = Field(100_000, ge=1, le=LARGEST, description="switches that the search for one job may try")
