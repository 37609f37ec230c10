"""The policies `any`, `compact`, `tiers` and `isolated`: EASY on an allocator, with its parameters."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from procure.errors import TableError
from procure.policies.parameters import Parameters
from procure.settings import LARGEST
from procure.simulator.drive import CompiledPolicy
from procure.simulator.state import Options, State
from procure.topology.easy import ALLOCATORS, easy_on_tree, easy_on_tree_loop, links_of, on_tree
from procure.topology.fat_tree import FatTree


class _OnTree(Parameters):
    """What every policy on a tree takes. A job takes its nodes whole, whatever ``exclusive`` says."""

    queue_depth: int = Field(
        128, ge=1, le=LARGEST, description="waiting jobs that are looked at, the first included"
    )
    allocator: ClassVar[str]
    needs_tree: ClassVar[bool] = True

    def options(self) -> Options:
        """Return what the simulator does differently under these parameters."""
        return super().options()._replace(exclusive=1)

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run.

        Raises
        ------
        TableError
            No tree in the node table, an uneven one, or a job that can run on some nodes only.
        """
        tree = FatTree.from_places(
            state.leaf, state.pod, uplinks=self._links("uplinks"), spines=self._links("spines")
        )
        refuse_unequal_nodes(state)
        own = on_tree(
            state, tree, ALLOCATORS.index(self.allocator), queue_depth=self.queue_depth,
            bound=getattr(self, "bound", 1), hold_reserved_links=getattr(self, "hold_reserved_links", False),
            slowdown=getattr(self, "slowdown", 0.0), exponent=getattr(self, "exponent", 1.0),
        )  # fmt: skip
        if self.allocator in ("any", "compact"):
            return CompiledPolicy(easy_on_tree, easy_on_tree_loop, own)
        return CompiledPolicy(easy_on_tree, easy_on_tree_loop, own, lambda: {"links": links_of(own, tree)})

    def _links(self, name: str) -> int:
        return getattr(self, name, 0)


class _Sharing(_OnTree):
    slowdown: float = Field(
        0.0, ge=0, description="how much longer a job takes while all its links are shared"
    )
    exponent: float = Field(1.0, gt=0, description="of the share of links that others use, in the slowdown")


class Any(_Sharing):
    """Parameters of EASY on any idle nodes."""

    allocator = "any"


class Compact(_Sharing):
    """Parameters of EASY on the fewest switches."""

    allocator = "compact"


class _Isolating(_OnTree):
    uplinks: int = Field(0, ge=0, le=LARGEST, description="uplinks of a leaf switch; 0 = as many as nodes")
    spines: int = Field(
        0, ge=0, le=LARGEST, description="uplinks of a second-level switch; 0 = as many as leaves in a pod"
    )
    hold_reserved_links: bool = Field(
        False,
        description="reserved links are held before the reservation begins, as in the published program",
    )


class Tiers(_Isolating):
    """Parameters of EASY on the rules of three types of jobs."""

    allocator = "tiers"


class Isolated(_Isolating):
    """Parameters of EASY on links of a job's own."""

    bound: int = Field(100_000, ge=1, le=LARGEST, description="switches that the search for one job may try")
    allocator = "isolated"


def refuse_unequal_nodes(state: State) -> None:
    """Refuse a workload of which some job runs on some nodes only: the tree's places are all alike."""
    shapes = state.shapes
    fits = (
        (state.total_cpus >= shapes.cpus[:, None])
        & (state.total_mem >= shapes.mem[:, None])
        & (state.total_gpus >= shapes.gpus[:, None])
        & ((state.node_types & shapes.types[:, None]) != 0)
    )
    n_fitting = fits.sum(axis=1)
    partly = np.flatnonzero((n_fitting >= shapes.n_nodes) & (n_fitting < fits.shape[1]))
    if len(partly):
        shape = partly[0]
        raise TableError(
            f"a job that asks for {shapes.cpus[shape]} CPUs, {shapes.mem[shape]:,} MB and {shapes.gpus[shape]} GPUs "
            f"per node fits {n_fitting[shape]} of {fits.shape[1]} nodes; policies on a tree need nodes that fit "
            "every job"
        )
