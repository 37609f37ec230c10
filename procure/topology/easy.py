"""EASY backfilling on an allocator: what is reserved are nodes and links, not a number of nodes.

As in the published evaluation of interference-free allocation (Pollard et al., SC18): the first job that
cannot start holds a reservation, and the first ``queue_depth`` waiting jobs are looked at. The
reservation is searched on a copy of the tree, on which the running jobs end as expected. A job that
would still run then may take nothing that is reserved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from procure.simulator.drive import loop
from procure.simulator.state import FAR, WAIT, State
from procure.topology.any_nodes import allocate_any
from procure.topology.compact import allocate_compact
from procure.topology.contention import Contention, ask_paces, count_users, make_contention
from procure.topology.fabric import (
    Fabric,
    Grant,
    Holders,
    block,
    clear,
    copy_free,
    count_idle,
    empty_fabric,
    empty_grant,
    give_back,
    inner,
    no_holders,
    take,
)
from procure.topology.fat_tree import FatTree, Shape
from procure.topology.isolated import allocate_isolated
from procure.topology.search import Search, make_search
from procure.topology.tiers import allocate_tiers

ALLOCATORS = ("any", "compact", "tiers", "isolated")
ANY, COMPACT, TIERS, ISOLATED = range(len(ALLOCATORS))

MOMENT, SEEN, CHANGES, SHADOW, EXTRA, CURSOR, LOOKED_AT, EPOCH, N_LOGGED = range(9)
"""What the notes hold: how far ends are dealt with, the reservation, and how far the queue was tried."""


class Log(NamedTuple):
    """Which links each job was granted: ``first[job]`` to ``last[job]`` of the other two."""

    first: np.ndarray  # int64[n_jobs]
    last: np.ndarray  # int64[n_jobs]
    switch: np.ndarray  # int64[...], a leaf, or n_leaves + second-level switch
    mask: np.ndarray  # int64[...]


class OnTree(NamedTuple):
    """What the policy knows of the tree, and keeps during a run."""

    allocator: int
    queue_depth: int
    hold_reserved_links: int
    shape: Shape
    row: np.ndarray  # int64[n_nodes], the node table's row at a place
    place: np.ndarray  # int64[n_nodes], the place of a row
    free: Fabric  # now
    behind: Fabric  # now, without what is reserved
    beside: Fabric  # now, without the reserved links
    ahead: Fabric  # when running jobs have ended
    holders: Holders
    grant: Grant
    reserved: Grant
    search: Search
    places: np.ndarray  # int64[sum of n_nodes], each job's places, ascending, as `State.node_list` has rows
    failed: (
        np.ndarray
    )  # int64[2, n_nodes + 1], the epoch in which a size last failed, before and across the shadow time
    notes: np.ndarray  # int64[9]
    log: Log
    contention: Contention


def on_tree(
    state: State,
    tree: FatTree,
    allocator: int,
    *,
    queue_depth: int,
    bound: int = 1,
    hold_reserved_links: bool = False,
    slowdown: float = 0.0,
    exponent: float = 1.0,
) -> OnTree:
    """Lay out an empty tree for a run."""
    shape = tree.shape
    place = np.empty(len(tree), np.int64)
    place[tree.rows] = np.arange(len(tree))
    notes = np.zeros(9, np.int64)
    notes[MOMENT] = notes[CHANGES] = -1
    n_jobs = state.submit.size
    # Room for every grant; what a small job leaves unused is never touched, so the system does not provide it.
    widest = np.minimum(state.n_nodes, shape.pods * shape.leaves)
    over_pods = np.minimum(shape.pods, state.n_nodes // shape.nodes + 1) * shape.uplinks
    over_pods[state.n_nodes <= shape.nodes] = 0
    n_log = int((widest + over_pods)[state.n_nodes > 1].sum()) if allocator >= TIERS else 0
    log = Log(*(np.zeros(n_jobs, np.int64) for _ in range(2)), *(np.empty(n_log, np.int64) for _ in range(2)))
    return OnTree(
        allocator=allocator,
        queue_depth=queue_depth,
        hold_reserved_links=int(hold_reserved_links),
        shape=shape,
        row=np.array(tree.rows, np.int64),
        place=place,
        free=empty_fabric(shape),
        behind=empty_fabric(shape),
        beside=empty_fabric(shape),
        ahead=empty_fabric(shape),
        holders=no_holders(shape),
        grant=empty_grant(shape),
        reserved=empty_grant(shape),
        search=make_search(shape, bound),
        places=np.full(state.node_list.size, -1, np.int64),
        failed=np.zeros((2, len(tree) + 1), np.int64),
        notes=notes,
        log=log,
        contention=make_contention(shape, slowdown, exponent),
    )


@inner
def allocate(own, fabric, n, grant):
    """Ask the run's allocator for ``n`` nodes of what is free; says whether there are."""
    if own.allocator == ANY:
        return allocate_any(own.shape, fabric, own.place, n, grant)
    if own.allocator == COMPACT:
        return allocate_compact(own.shape, fabric, n, grant)
    if own.allocator == TIERS:
        return allocate_tiers(own.shape, fabric, n, grant)
    return allocate_isolated(own.shape, fabric, own.search, n, grant)


@njit(cache=True, nogil=True)
def easy_on_tree(state, own):
    """Start the first job if the allocator finds it a place; else one that leaves the reservation alone.

    Between two changes that are not our own, what failed stays failed: only jobs submitted since are tried.
    """
    notes = own.notes
    _deal_with_ends(state, own)
    n_jobs = state.submit.size
    if notes[CHANGES] != state.n_changes[0]:
        head = state.next_waiting[n_jobs]
        if head == n_jobs:
            return WAIT, state.chosen[:0]
        if allocate(own, own.free, state.n_nodes[head], own.grant):
            return _start(state, own, head)
        _reserve(state, own, head)
        notes[CHANGES] = state.n_changes[0]
        notes[CURSOR], notes[LOOKED_AT] = head, 1
        notes[EPOCH] += 1
    last = notes[CURSOR]
    job = state.next_waiting[last]
    while job != n_jobs and notes[LOOKED_AT] < own.queue_depth:
        if _may_start(state, own, job):
            notes[CURSOR] = state.previous_waiting[job]
            notes[CHANGES] = state.n_changes[0] + 1
            return _start(state, own, job)
        notes[LOOKED_AT] += 1
        last = job
        job = state.next_waiting[job]
    notes[CURSOR] = last
    return WAIT, state.chosen[:0]


@inner
def _deal_with_ends(state, own):
    """Give back what the jobs held that have ended since the last call."""
    notes = own.notes
    if notes[MOMENT] != state.now[0]:
        notes[MOMENT], notes[SEEN] = state.now[0], 0
    for i in range(notes[SEEN], state.n_ended[0]):
        job = state.ended[i]
        places = own.places[state.node_first[job] : state.node_first[job + 1]]
        give_back(own.shape, own.free, own.holders, places, job, True)
        if own.contention.slowdown > 0:
            count_users(own.shape, own.contention, places, -1)
    if own.contention.slowdown > 0 and notes[SEEN] < state.n_ended[0]:
        ask_paces(state, own.shape, own.contention, own.places, -1)
    notes[SEEN] = state.n_ended[0]


@inner
def _reserve(state, own, head):
    """Find when the head can start if running jobs end as expected, and what it will take then."""
    copy_free(own.free, own.ahead)
    own.notes[SHADOW] = FAR
    own.notes[EXTRA] = 0
    clear(own.reserved)
    wanted = state.n_nodes[head]
    i = 0
    n_idle = count_idle(own.free)
    while i < state.n_running[0]:
        moment = state.expected_end[state.running[i]]
        while i < state.n_running[0] and state.expected_end[state.running[i]] == moment:
            job = state.running[i]
            places = own.places[state.node_first[job] : state.node_first[job + 1]]
            give_back(own.shape, own.ahead, own.holders, places, job, False)
            n_idle += places.size
            i += 1
        if n_idle >= wanted and allocate(own, own.ahead, wanted, own.reserved):
            own.notes[SHADOW] = moment
            own.notes[EXTRA] = n_idle - wanted
            break
    if own.allocator >= TIERS:
        copy_free(own.free, own.behind)
        block(own.shape, own.behind, own.reserved, True)
        copy_free(own.free, own.beside)
        block(own.shape, own.beside, own.reserved, False)


@inner
def _may_start(state, own, job):
    """Say whether a job can start without delaying the reservation; ``grant`` then holds what it gets.

    Where links are shared nothing depends on which nodes are reserved, so only their number counts.
    """
    n = state.n_nodes[job]
    across = 1 if min(state.now[0] + state.estimate[job], FAR) > own.notes[SHADOW] else 0
    if own.failed[across, n] == own.notes[EPOCH]:
        return False
    if own.allocator < TIERS:
        found = (not across or n <= own.notes[EXTRA]) and allocate(own, own.free, n, own.grant)
        if found and across:
            own.notes[EXTRA] -= n
    elif across:
        found = allocate(own, own.behind, n, own.grant)
    elif own.hold_reserved_links:
        found = allocate(own, own.beside, n, own.grant)
    else:
        found = allocate(own, own.free, n, own.grant)
    if not found:
        own.failed[across, n] = own.notes[EPOCH]
    return found


@inner
def _start(state, own, job):
    """Take what ``grant`` holds and answer with its nodes."""
    take(own.shape, own.free, own.holders, own.grant, job)
    if own.allocator >= TIERS:
        block(own.shape, own.behind, own.grant, True)
        block(own.shape, own.beside, own.grant, True)
    n = state.n_nodes[job]
    first = state.node_first[job]
    for i in range(n):
        own.places[first + i] = own.grant.nodes[i]
        state.chosen[i] = own.row[own.grant.nodes[i]]
    if own.allocator >= TIERS:
        _note_links(own, job)
    if own.contention.slowdown > 0:
        count_users(own.shape, own.contention, own.places[first : first + n], 1)
        ask_paces(state, own.shape, own.contention, own.places, job)
    return job, state.chosen[:n]


@inner
def _note_links(own, job):
    """Keep which links a job was granted, for the schedule."""
    at = own.notes[N_LOGGED]
    own.log.first[job] = at
    if own.grant.nodes[0] // own.shape.nodes != own.grant.nodes[own.grant.n[0] - 1] // own.shape.nodes:
        at = _log_masks(own.log, own.grant.uplinks, 0, at)
        at = _log_masks(own.log, own.grant.spines, own.grant.uplinks.size, at)
    own.log.last[job] = at
    own.notes[N_LOGGED] = at


@inner
def _log_masks(log, masks, offset, at):
    for switch in range(masks.size):
        if masks[switch]:
            log.switch[at] = offset + switch
            log.mask[at] = masks[switch]
            at += 1
    return at


@njit(cache=True, nogil=True)
def easy_on_tree_loop(world, state, own):
    """The compiled loop of `easy_on_tree`."""
    return loop(world, state, easy_on_tree, own)


def links_of(own: OnTree, tree: FatTree) -> list[str]:
    """Write which links each job was granted, in queue order, as `procure.topology.verify` reads them."""
    n_leaves = tree.pods * tree.leaves
    switches, masks = own.log.switch.tolist(), own.log.mask.tolist()

    def word(switch: int, mask: int) -> str:
        if switch < n_leaves:
            return f"L{tree.leaf_ids[switch]}={mask:x}"
        pod, number = divmod(switch - n_leaves, tree.uplinks)
        return f"P{tree.pod_ids[pod]}.{number}={mask:x}"

    return [
        " ".join(word(switches[i], masks[i]) for i in range(first, last))
        for first, last in zip(own.log.first.tolist(), own.log.last.tolist(), strict=True)
    ]
