"""Who holds which node and which link of a fat-tree, as exact inverses; and the two rules that search nothing.

``compact`` takes the fewest switches, as Slurm's tree plugin does: the smallest subtree that has room, and in it the
leaves that the job fills best; links are shared. ``tiers``: Pollard, Jain, Herbein and Bhatele, "Evaluation of an
Interference-free Node Allocation Policy on Fat-tree Clusters" (SC18), section III: a job that fits a leaf (T1) stays on
one; a job that fits a pod (T2) stays in one and shares no leaf with a T2 or T3; a larger one (T3) shares no pod with a
T3 and no leaf with a T2. T1 use no link between switches, so they may be anywhere. In links: a T2 holds all uplinks of
its leaves, a T3 also all spine links of its pods. What is free is thus read from the links, and no types are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.files.kernels import njit
from procure.topology.fat_tree import Shape

inner = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]
"""Compile what only compiled code calls: without an entrance from Python, in a third less time."""


class Fabric(NamedTuple):
    """What is free, by place in the tree (`procure.topology.fat_tree.Shape`).

    Second-level switch ``i`` of pod ``p`` is number ``p * uplinks + i``. Bit ``i`` of a leaf's mask is
    its uplink to second-level switch ``i``; bit ``k`` of a second-level switch's mask is its uplink to
    the ``k``-th spine of its group.
    """

    idle: np.ndarray  # int64[n_nodes], 1 or 0
    leaf_idle: np.ndarray  # int64[n_leaves], idle nodes
    pod_idle: np.ndarray  # int64[pods], idle nodes
    uplinks: np.ndarray  # int64[n_leaves], mask of the free uplinks
    spines: np.ndarray  # int64[pods * uplinks], mask of the free uplinks


class Links(NamedTuple):
    """Which links each job was granted: entries ``first[job]`` to ``last[job]``; they stay when the job has ended."""

    first: np.ndarray  # int64[n_jobs]
    last: np.ndarray  # int64[n_jobs]
    switch: np.ndarray  # int64[...], a leaf, or n_leaves + second-level switch
    mask: np.ndarray  # int64[...]
    n: np.ndarray  # int64[1], entries


class Grant(NamedTuple):
    """An allocation: nodes and links. Only what ``n`` and ``leaves`` name is meant; the rest is scratch."""

    nodes: np.ndarray  # int64[n_nodes], places in ascending order, the first n[0]
    n: np.ndarray  # int64[1]
    uplinks: np.ndarray  # int64[n_leaves], masks; 0 where nothing is held
    spines: np.ndarray  # int64[pods * uplinks], masks; 0 where nothing is held


def empty_fabric(shape: Shape) -> Fabric:
    """Return a tree of which everything that there is is free."""
    on_leaf = shape.here.reshape(-1, shape.nodes).sum(axis=1)
    return Fabric(
        shape.here.copy(),
        on_leaf,
        on_leaf.reshape(shape.pods, -1).sum(axis=1),
        shape.leaf_links.copy(),
        np.full(shape.pods * shape.uplinks, (1 << shape.spines) - 1, np.int64),
    )


def make_links(n_jobs: int, n_entries: int) -> Links:
    """Return room for the links of so many jobs; what is never touched of it the system does not provide."""
    jobs, entries = (np.zeros(n_jobs, np.int64) for _ in range(2)), (np.empty(n_entries, np.int64) for _ in range(2))
    return Links(*jobs, *entries, np.zeros(1, np.int64))  # type: ignore[call-arg]


def empty_grant(shape: Shape) -> Grant:
    """Return room for an answer."""
    n_leaves = shape.pods * shape.leaves
    return Grant(
        np.zeros(n_leaves * shape.nodes, np.int64),
        np.zeros(1, np.int64),
        np.zeros(n_leaves, np.int64),
        np.zeros(shape.pods * shape.uplinks, np.int64),
    )


@inner
def clear(grant):
    """Make an answer empty."""
    grant.n[0] = 0
    for leaf in range(grant.uplinks.size):
        grant.uplinks[leaf] = 0
    for switch in range(grant.spines.size):
        grant.spines[switch] = 0


@inner
def in_order(grant):
    """Bring the nodes of an answer into ascending order."""
    nodes, n = grant.nodes, grant.n[0]
    gap = n // 2
    while gap > 0:  # Shell's sort: the nodes come in a few ascending runs
        for i in range(gap, n):
            place = nodes[i]
            while i >= gap and nodes[i - gap] > place:
                nodes[i] = nodes[i - gap]
                i -= gap
            nodes[i] = place
        gap //= 2


@inner
def count_idle(fabric):
    """Count the idle nodes of the whole tree."""
    n = 0
    for pod in range(fabric.pod_idle.size):
        n += fabric.pod_idle[pod]
    return n


@inner
def add_nodes(shape, fabric, grant, leaf, n):
    """Add the first ``n`` idle nodes of a leaf to an answer."""
    at = grant.n[0]
    place = leaf * shape.nodes
    while n > 0:
        if fabric.idle[place]:
            grant.nodes[at] = place
            at += 1
            n -= 1
        place += 1
    grant.n[0] = at


@inner
def copy_free(source, target):
    """Copy what is free; ``target`` is modified."""
    copy(source.idle, target.idle)
    copy(source.leaf_idle, target.leaf_idle)
    copy(source.pod_idle, target.pod_idle)
    copy(source.uplinks, target.uplinks)
    copy(source.spines, target.spines)


@inner
def copy(source, target):
    """Copy one array; ``target`` is modified."""
    for i in range(source.size):  # written out: an assignment of slices takes seconds to compile
        target[i] = source[i]


@njit(cache=True, nogil=True)
def block(shape, fabric, grant, nodes_too):
    """Take what an answer names and is free, whoever it is for; its nodes only with ``nodes_too``."""
    if nodes_too:
        for i in range(grant.n[0]):
            place = grant.nodes[i]
            if fabric.idle[place]:
                fabric.idle[place] = 0
                leaf = place // shape.nodes
                fabric.leaf_idle[leaf] -= 1
                fabric.pod_idle[leaf // shape.leaves] -= 1
    for leaf in range(grant.uplinks.size):
        fabric.uplinks[leaf] &= ~grant.uplinks[leaf]
    for switch in range(grant.spines.size):
        fabric.spines[switch] &= ~grant.spines[switch]


@njit(cache=True, nogil=True)
def note_links(shape, links, grant, job):
    """Keep which links an answer gives a job; one on a single leaf has none."""
    links.first[job] = links.n[0]
    if grant.nodes[0] // shape.nodes != grant.nodes[grant.n[0] - 1] // shape.nodes:
        _note_masks(links, grant.uplinks, 0)
        _note_masks(links, grant.spines, grant.uplinks.size)
    links.last[job] = links.n[0]


@inner
def _note_masks(links, masks, offset):
    for switch in range(masks.size):
        if masks[switch]:
            links.switch[links.n[0]], links.mask[links.n[0]] = offset + switch, masks[switch]
            links.n[0] += 1


@njit(cache=True, nogil=True)
def give_back(shape, fabric, links, places, job):
    """Free a job's nodes, which are at ``places``, and its links."""
    for k in range(places.size):
        leaf = places[k] // shape.nodes
        fabric.idle[places[k]] = 1
        fabric.leaf_idle[leaf] += 1
        fabric.pod_idle[leaf // shape.leaves] += 1
    for i in range(links.first[job], links.last[job]):
        switch = links.switch[i]
        if switch < fabric.uplinks.size:
            fabric.uplinks[switch] |= links.mask[i]
        else:
            fabric.spines[switch - fabric.uplinks.size] |= links.mask[i]


class Search(NamedTuple):
    """Room for the backtracking search, and its bound."""

    candidates: np.ndarray  # int64[max(leaves, pods)], switches that may be chosen
    keys: np.ndarray  # int64[max(leaves, pods)], by which they stand in order
    stack: np.ndarray  # int64[max(leaves, pods)], positions in candidates that are chosen
    common: np.ndarray  # int64[max(leaves, pods) + 1, uplinks], masks of the links that so many chosen have free
    place: np.ndarray  # int64[2], how many are chosen, and the position that is tried next
    whole: np.ndarray  # int64[pods], leaves of which everything is free
    bound: int  # switches that one call may try
    tried: np.ndarray  # int64[1], switches that this call has tried


def make_search(shape: Shape, bound: int) -> Search:
    """Lay out the room for a search that tries at most ``bound`` switches a call."""
    most = max(shape.leaves, shape.pods)
    candidates, keys, stack = np.zeros((3, most), np.int64)
    common, place, whole = (
        np.zeros((most + 1, shape.uplinks), np.int64),
        np.zeros(2, np.int64),
        np.zeros(shape.pods, np.int64),
    )
    return Search(candidates, keys, stack, common, place, whole, bound, np.zeros(1, np.int64))


@inner
def share(part, links, whole):
    """Return how many of a switch's links go with ``part`` of the ``whole`` below it, rounded up."""
    return (part * links + whole - 1) // whole


@inner
def lowest(mask, n):
    """Return the ``n`` lowest bits of a mask."""
    kept = 0
    for _ in range(n):
        bit = mask & -mask
        kept |= bit
        mask ^= bit
    return kept


@inner
def popcount(mask):
    """Count the bits of a mask of fewer than 63."""
    mask -= (mask >> 1) & 0x5555555555555555
    mask = (mask & 0x3333333333333333) + ((mask >> 2) & 0x3333333333333333)
    mask = (mask + (mask >> 4)) & 0x0F0F0F0F0F0F0F0F
    return (mask * 0x0101010101010101) >> 56


@njit(cache=True, nogil=True)
def allocate_compact(shape, fabric, n, grant):
    """Take ``n`` idle nodes under one leaf, else in one pod, else in the fewest pods; says whether there is room.

    Of leaves (pods) with room, the one with the fewest idle nodes; where several are needed, those
    with the most idle nodes first, and for what is left the one that it fills best. Ties: the lower
    number.
    """
    clear(grant)
    if count_idle(fabric) < n:
        return False
    if one_leaf(shape, fabric, n, grant):
        return True
    left = n
    while left > 0:
        pod = _best(fabric.pod_idle, 0, shape.pods, left, grant.spines, shape.uplinks)
        part = min(left, fabric.pod_idle[pod])
        _fill_pod(shape, fabric, pod, part, grant)
        left -= part
    in_order(grant)
    n = grant.n[0]
    clear(grant)
    grant.n[0] = n
    return True


@inner
def one_leaf(shape, fabric, n, grant):
    """Take ``n`` nodes of the leaf with the fewest idle nodes that has room; says whether there is one."""
    leaf = _best(fabric.leaf_idle, 0, fabric.leaf_idle.size, n, grant.uplinks, 1)
    if fabric.leaf_idle[leaf] < n:
        return False
    add_nodes(shape, fabric, grant, leaf, n)
    return True


@inner
def _fill_pod(shape, fabric, pod, n, grant):
    """Take ``n`` nodes of a pod; a leaf or pod that was used is marked in the grant's masks meanwhile."""
    grant.spines[pod * shape.uplinks] = 1
    first = pod * shape.leaves
    while n > 0:
        leaf = _best(fabric.leaf_idle, first, first + shape.leaves, n, grant.uplinks, 1)
        part = min(n, fabric.leaf_idle[leaf])
        add_nodes(shape, fabric, grant, leaf, part)
        grant.uplinks[leaf] = 1
        n -= part


@inner
def _best(idle, first, last, n, used, stride):
    """Return the unused one that holds ``n`` with the fewest idle nodes, else the one with the most."""
    tightest = largest = -1
    for i in range(first, last):
        if used[i * stride]:
            continue
        if idle[i] >= n and (tightest < 0 or idle[i] < idle[tightest]):
            tightest = i
        if largest < 0 or idle[i] > idle[largest]:
            largest = i
    return tightest if tightest >= 0 else largest


@njit(cache=True, nogil=True)
def allocate_tiers(shape, fabric, n, grant):
    """Take ``n`` nodes by the rules of the three types; says whether there is room, else ``grant`` means nothing.

    T1: the pod, then the leaf, with the fewest idle nodes that has room. T2: the pod with the fewest
    idle nodes that has room, its allowed leaves with the most idle nodes first. T3: allowed pods,
    then their allowed leaves, with the most idle nodes first. Ties as in the published program:
    ascending takes the lowest number, descending the highest.
    """
    clear(grant)
    if n <= shape.nodes:
        return _one_leaf(shape, fabric, n, grant)
    if n <= shape.largest_pod:
        return _one_pod(shape, fabric, n, grant)
    return _several_pods(shape, fabric, n, grant)


@inner
def _one_leaf(shape, fabric, n, grant):
    best = -1
    for leaf in range(fabric.leaf_idle.size):
        if fabric.leaf_idle[leaf] < n:
            continue
        pod, chosen = leaf // shape.leaves, best // shape.leaves
        if (
            best < 0
            or fabric.pod_idle[pod] < fabric.pod_idle[chosen]
            or (pod == chosen and fabric.leaf_idle[leaf] < fabric.leaf_idle[best])
        ):
            best = leaf
    if best < 0:
        return False
    add_nodes(shape, fabric, grant, best, n)
    return True


@inner
def _one_pod(shape, fabric, n, grant):
    best = -1
    for pod in range(shape.pods):
        if (best < 0 or fabric.pod_idle[pod] < fabric.pod_idle[best]) and _room(shape, fabric, pod) >= n:
            best = pod
    if best < 0:
        return False
    _fill(shape, fabric, best, n, grant)
    in_order(grant)
    return True


@inner
def _several_pods(shape, fabric, n, grant):
    room = 0
    for pod in range(shape.pods):
        if _has_no_t3(shape, fabric, pod):
            room += _room(shape, fabric, pod)
    if room < n:
        return False
    left = n
    while left > 0:
        best = -1
        for pod in range(shape.pods - 1, -1, -1):
            if grant.spines[pod * shape.uplinks] != 0 or not _has_no_t3(shape, fabric, pod):
                continue
            if best < 0 or fabric.pod_idle[pod] > fabric.pod_idle[best]:
                best = pod
        part = min(left, _room(shape, fabric, best))
        _fill(shape, fabric, best, part, grant)
        # Marked also where nothing was taken, so that the pod is not looked at again; see below.
        for switch in range(best * shape.uplinks, (best + 1) * shape.uplinks):
            grant.spines[switch] = fabric.spines[switch] if part else -1
        left -= part
    for switch in range(grant.spines.size):
        grant.spines[switch] = max(grant.spines[switch], 0)
    in_order(grant)
    return True


@inner
def _has_no_t3(shape, fabric, pod):
    free = True
    for switch in range(pod * shape.uplinks, (pod + 1) * shape.uplinks):
        free &= fabric.spines[switch] == (1 << shape.spines) - 1
    return free


@inner
def _room(shape, fabric, pod):
    """Count the idle nodes on the leaves of a pod that no T2 or T3 uses."""
    room = 0
    for leaf in range(pod * shape.leaves, (pod + 1) * shape.leaves):
        if fabric.uplinks[leaf] == shape.leaf_links[leaf]:
            room += fabric.leaf_idle[leaf]
    return room


@inner
def _fill(shape, fabric, pod, n, grant):
    """Take ``n`` nodes of a pod's allowed leaves, those with the most idle nodes first, and all their uplinks."""
    while n > 0:
        best = -1
        for leaf in range((pod + 1) * shape.leaves - 1, pod * shape.leaves - 1, -1):
            if grant.uplinks[leaf] != 0 or fabric.uplinks[leaf] != shape.leaf_links[leaf]:
                continue
            if best < 0 or fabric.leaf_idle[leaf] > fabric.leaf_idle[best]:
                best = leaf
        part = min(n, fabric.leaf_idle[best])
        add_nodes(shape, fabric, grant, best, part)
        grant.uplinks[best] = fabric.uplinks[best]
        n -= part
