"""The places on a fat-tree that composed policies can choose, with their parameters.

Where no link is shared, what is reserved are nodes and links, not a number of nodes, as in the published evaluation of
interference-free allocation (Pollard et al., SC18): a reservation is searched on a copy of the tree, on which the
running jobs end as expected, and a job that would still run then may take nothing that is reserved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field, PrivateAttr, model_validator

from procure.errors import TableError
from procure.policies.parameters import Facts, Parameters
from procure.policies.place import BESIDE, FREE
from procure.settings import LARGEST
from procure.simulator.drive import Policy
from procure.simulator.kernel import part
from procure.simulator.seams import place as seam
from procure.simulator.state import FAR, Options, State
from procure.simulator.tasks import enough
from procure.topology.fabric import (
    Fabric,
    Grant,
    Links,
    Search,
    allocate_compact,
    allocate_tiers,
    block,
    clear,
    copy_free,
    count_idle,
    empty_fabric,
    empty_grant,
    give_back,
    in_order,
    make_links,
    make_search,
    note_links,
)
from procure.topology.fat_tree import FatTree, Shape, links_of_leaves
from procure.topology.isolated import allocate_isolated

MOMENT, SEEN, CHANGES, GRANTED, GRANTED_IN = range(5)
"""What the notes hold: how far ends are dealt with, the changes that are known, and what the grant is for (a number of
nodes, 0 = nothing, and what it may take)."""


class OwnLinks(NamedTuple):
    """Nodes and links of a job's own, by the rules of three types of jobs (``tiers``) or by a search (`isolated`)."""

    by_types: np.ndarray  # bool[n_nodes + 1], the sizes that are placed by the rules of three types (``tiers``)
    hold_reserved_links: bool
    shape: Shape
    row: np.ndarray  # int64[n_places], the node table's row at a place; −1 = there is no node
    free: Fabric  # now
    beside: Fabric  # now, without the reserved links
    behind: Fabric  # now, without what is reserved
    ahead: Fabric  # room: when running jobs have ended
    links: Links
    grant: Grant
    reserved: Grant
    search: Search
    places: np.ndarray  # int64[sum of n_nodes], each job's places, ascending, as `State.node_list` has rows
    failed: np.ndarray  # int64[3, n_nodes + 1], the epoch in which a size last failed in `FREE`, `IN_TIME`, `BESIDE`
    epoch: np.ndarray  # int64[3], one more whenever such a size might do again
    notes: np.ndarray  # int64[5]

    def follow(self, state):
        """Give back what jobs held that ended since the last call; after others' changes all sizes may fit again."""
        notes = self.notes
        if notes[MOMENT] != state.now[0]:
            notes[MOMENT], notes[SEEN] = state.now[0], 0
        for i in range(notes[SEEN], state.n_ended[0]):
            job = state.ended[i]
            places = self.places[state.node_first[job] : state.node_first[job + 1]]
            give_back(self.shape, self.free, self.links, places, job)
        notes[SEEN] = state.n_ended[0]
        if notes[CHANGES] != state.n_changes[0]:
            notes[CHANGES] = state.n_changes[0]
            notes[GRANTED] = 0
            for which in range(self.epoch.size):
                self.epoch[which] += 1

    def fits(self, state, lines, line):
        """Say whether there are nodes enough for the jobs of a line."""
        return state.shapes.n_nodes[lines.shape[line]] <= state.n_idle[0]

    def room(self, state, lines, line, which):
        """Say whether there are nodes and links for the jobs of a line in what they may take."""
        return has_room(state, self, state.shapes.n_nodes[lines.shape[line]], which)

    def reserve(self, state, job):
        """Find when a job can start if running jobs end as expected, and what it will take then."""
        copy_free(self.free, self.ahead)
        clear(self.reserved)
        self.notes[GRANTED] = 0
        wanted, shadow = state.n_nodes[job], FAR
        i = 0
        n_idle = count_idle(self.free)
        while i < state.n_running[0] and shadow == FAR:
            moment = state.expected_end[state.running[i]]
            while i < state.n_running[0] and state.expected_end[state.running[i]] == moment:
                other = state.running[i]
                places = self.places[state.node_first[other] : state.node_first[other + 1]]
                give_back(self.shape, self.ahead, self.links, places, other)
                n_idle += places.size
                i += 1
            if n_idle >= wanted and allocate(self, self.ahead, wanted, self.reserved):
                shadow = moment
                break
        copy_free(self.free, self.behind)
        block(self.shape, self.behind, self.reserved, True)
        copy_free(self.free, self.beside)
        block(self.shape, self.beside, self.reserved, False)
        for which in range(1, self.epoch.size):
            self.epoch[which] += 1
        return shadow

    def choose(self, state, job, which):
        """Lay the nodes of a job into ``chosen``; says whether it has some."""
        if not has_room(state, self, state.n_nodes[job], which):
            return False
        for i in range(state.n_nodes[job]):
            state.chosen[i] = self.row[self.grant.nodes[i]]
        return True

    def started(self, state, job):
        """Take what ``grant`` holds for a job that starts."""
        first = state.node_first[job]
        block(self.shape, self.free, self.grant, True)
        block(self.shape, self.behind, self.grant, True)
        block(self.shape, self.beside, self.grant, True)
        for i in range(state.n_nodes[job]):
            self.places[first + i] = self.grant.nodes[i]
        note_links(self.shape, self.links, self.grant, job)
        self.notes[GRANTED] = 0
        self.notes[CHANGES] = state.n_changes[0] + 1


def make_own_links(
    state: State, tree: FatTree, *, tiers: bool, bound: int = 1, hold_reserved_links: bool = False
) -> OwnLinks:
    """Lay out an empty tree for a run."""
    shape = tree.shape
    notes = np.zeros(5, np.int64)
    notes[MOMENT] = notes[CHANGES] = -1
    # Room for the links of every grant.
    widest = np.minimum(state.n_nodes, shape.pods * shape.leaves)
    n_pods = state.n_nodes // shape.nodes + 1 if tree.is_even else state.n_nodes  # a pod may have one node only
    over_pods = np.minimum(shape.pods, n_pods) * shape.uplinks
    over_pods[state.n_nodes <= shape.nodes] = 0
    n_links = int((widest + over_pods)[state.n_nodes > 1].sum())
    return OwnLinks(
        by_types=np.ones(len(tree) + 1, np.bool_) if tiers else _beyond_search(tree, bound, state.n_nodes),
        hold_reserved_links=hold_reserved_links,
        shape=shape,
        row=np.array(tree.rows, np.int64),
        free=empty_fabric(shape),
        beside=empty_fabric(shape),
        behind=empty_fabric(shape),
        ahead=empty_fabric(shape),
        links=make_links(state.submit.size, n_links),
        grant=empty_grant(shape),
        reserved=empty_grant(shape),
        search=make_search(shape, bound),
        places=np.full(state.node_list.size, -1, np.int64),
        failed=np.full((3, len(tree) + 1), -1, np.int64),
        epoch=np.zeros(3, np.int64),
        notes=notes,
    )


def _beyond_search(tree: FatTree, bound: int, sizes: np.ndarray) -> np.ndarray:
    """Say which sizes the search does not place on the empty tree: of an uneven one, too few leaves may be whole."""
    found = np.zeros(len(tree) + 1, np.bool_)
    if not tree.is_even:
        shape, empty, grant = tree.shape, empty_fabric(tree.shape), empty_grant(tree.shape)
        for n in np.unique(sizes[sizes <= len(tree)]).tolist():
            found[n] = not allocate_isolated(shape, empty, make_search(shape, bound), n, grant)
    return found


@part
def allocate(own, fabric, n, grant):
    """Ask the run's allocator for ``n`` nodes of what is free; says whether there are."""
    if own.by_types[n]:
        return allocate_tiers(own.shape, fabric, n, grant)
    return allocate_isolated(own.shape, fabric, own.search, n, grant)


@part
def has_room(state, own, n, which):
    """Say whether there are nodes and links for ``n`` nodes in what a job may take; ``grant`` then holds them.

    Between two changes that are not our own, what failed stays failed.
    """
    if which != BESIDE and not own.hold_reserved_links:
        which = np.int64(FREE)
    if own.notes[GRANTED] == n and own.notes[GRANTED_IN] == which:
        return True
    if own.failed[which, n] == own.epoch[which]:
        return False
    if which == BESIDE:
        found = allocate(own, own.behind, n, own.grant)
    elif which == FREE:
        found = allocate(own, own.free, n, own.grant)
    else:
        found = allocate(own, own.beside, n, own.grant)
    own.notes[GRANTED], own.notes[GRANTED_IN] = n if found else 0, which
    if not found:
        own.failed[which, n] = own.epoch[which]
    return found


def links_of(own: OwnLinks, tree: FatTree) -> list[str]:
    """Write which links each job was granted, in queue order, as `procure.topology.verify` reads them."""
    n_leaves = tree.pods * tree.leaves
    switches, masks = own.links.switch.tolist(), own.links.mask.tolist()

    def word(switch: int, mask: int) -> str:
        if switch < n_leaves:
            return f"L{tree.leaf_ids[switch]}={mask:x}"
        pod, number = divmod(switch - n_leaves, tree.uplinks)
        return f"P{tree.pod_ids[pod]}.{number}={mask:x}"

    return [
        " ".join(word(switches[i], masks[i]) for i in range(first, last))
        for first, last in zip(own.links.first.tolist(), own.links.last.tolist(), strict=True)
    ]


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
