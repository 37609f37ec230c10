"""Isolation by links: a job holds as many links as it needs for full bandwidth, and no others.

The conditions are those of Smith and Lowenthal, "Jigsaw: a high-utilization, interference-free job
scheduler for fat-tree clusters" (HPDC'21). In one pod: leaves with equally many nodes each, whose
uplinks go to one set of second-level switches, and at most one further leaf with fewer nodes, whose
uplinks go to a part of that set. Over pods: pods with equally many whole leaves, in which each
second-level switch has uplinks to one set of spines, and at most one further pod with less, whose
uplinks go to parts of those sets. A job on one leaf needs no uplink. With as many links as nodes, any
permutation of the job's messages then has a path of its own. In a tapered tree a job holds of a
switch's uplinks the share that it has of what hangs below, rounded up.
"""

from __future__ import annotations

from typing import NamedTuple

from procure.files.kernels import njit
from procure.topology.fabric import add_nodes, clear, count_idle, in_order, inner
from procure.topology.isolated_pods import several_pods
from procure.topology.search import lowest, popcount, share


class _Split(NamedTuple):
    """How a job is spread over one pod: ``n`` leaves with ``per_leaf`` nodes each, and one with the ``rest``."""

    n: int
    per_leaf: int
    rest: int


@njit(cache=True, nogil=True)
def allocate_isolated(shape, fabric, search, n, grant):
    """Take ``n`` nodes and links of their own.

    Tried in turn: one leaf, the one with the fewest idle nodes that has room; one pod, with as many
    nodes a leaf as possible; several pods, with as many whole leaves a pod as possible. Of switches
    that would do, those with the fewest free links and idle nodes come first; ties: the lower number.

    Returns
    -------
    bool
        Whether there is room; if not, ``grant`` means nothing. False also where the search met its
        bound (``search.cut`` counts it).
    """
    clear(grant)
    search.tried[0] = 0
    if n <= shape.nodes and _one_leaf(shape, fabric, n, grant):
        return True
    if n > count_idle(fabric):
        return False
    found = _one_pod(shape, fabric, search, n, grant) or several_pods(shape, fabric, search, n, grant)
    if found:
        in_order(grant)
    elif search.tried[0] >= search.bound:
        search.cut[0] += 1
    return found


@inner
def _one_leaf(shape, fabric, n, grant):
    best = -1
    for leaf in range(fabric.leaf_idle.size):
        if fabric.leaf_idle[leaf] >= n and (best < 0 or fabric.leaf_idle[leaf] < fabric.leaf_idle[best]):
            best = leaf
    if best < 0:
        return False
    add_nodes(shape, fabric, grant, best, n)
    return True


@inner
def _one_pod(shape, fabric, search, n, grant):
    if n > shape.nodes * shape.leaves:
        return False
    for per_leaf in range(min(n, shape.nodes), 0, -1):
        split = _Split(n // per_leaf, per_leaf, n % per_leaf)
        if split.n + (split.rest > 0) > shape.leaves:
            break
        if split.n == 1 and split.rest == 0:
            continue  # one leaf: tried already
        last = -1
        while True:
            pod = _next_pod(fabric.pod_idle, n, last)
            if pod < 0:
                break
            if _leaves_of_pod(shape, fabric, search, pod, split, grant):
                return True
            last = pod
    return False


@inner
def _next_pod(idle, n, last):
    """Return the pod that follows ``last`` among those with ``n`` idle nodes, by (idle nodes, number)."""
    best = -1
    for pod in range(idle.size):
        if idle[pod] < n:
            continue
        if last >= 0 and (idle[pod] < idle[last] or (idle[pod] == idle[last] and pod <= last)):
            continue
        if best < 0 or idle[pod] < idle[best]:
            best = pod
    return best


@inner
def _leaves_of_pod(shape, fabric, search, pod, split, grant):
    """Find leaves with enough idle nodes and common uplinks, and one for the rest."""
    width = share(split.per_leaf, shape.uplinks, shape.nodes)
    n_candidates = _candidate_leaves(shape, fabric, search, pod, split.per_leaf, width)
    if n_candidates < split.n or not _enough_common(shape, fabric, search, n_candidates, split.n, width):
        return False
    candidates, stack, common = search.candidates, search.stack, search.common
    common[0] = (1 << shape.uplinks) - 1
    depth = at = 0
    while True:
        if depth == split.n:
            last = _leaf_for_rest(shape, fabric, search, pod, split)
            if last != -1:
                _grant_leaves(shape, fabric, search, split, last, grant)
                return True
        elif n_candidates - at >= split.n - depth:
            leaf = candidates[at]
            left = common[depth] & fabric.uplinks[leaf]
            search.tried[0] += 1
            if search.tried[0] >= search.bound:
                return False
            if popcount(left) >= width and not _tried_alike(fabric, search, depth, at):
                stack[depth] = at
                depth += 1
                common[depth] = left
            at += 1
            continue
        if depth == 0:
            return False
        depth -= 1
        at = stack[depth] + 1


@inner
def _candidate_leaves(shape, fabric, search, pod, per_leaf, width):
    """List the leaves with enough idle nodes and uplinks, those with the fewest free uplinks, then nodes, first."""
    n = 0
    for leaf in range(pod * shape.leaves, (pod + 1) * shape.leaves):
        free = popcount(fabric.uplinks[leaf])
        if fabric.leaf_idle[leaf] < per_leaf or free < width:
            continue
        i = n
        while i > 0:
            other = search.candidates[i - 1]
            others = popcount(fabric.uplinks[other])
            if others < free or (others == free and fabric.leaf_idle[other] <= fabric.leaf_idle[leaf]):
                break
            search.candidates[i] = other
            i -= 1
        search.candidates[i] = leaf
        n += 1
    return n


@inner
def _enough_common(shape, fabric, search, n_candidates, n_leaves, width):
    """Say whether ``width`` switches each have a free link to at least ``n_leaves`` candidates (necessary)."""
    enough = 0
    for i in range(shape.uplinks):
        n = 0
        for at in range(n_candidates):
            n += fabric.uplinks[search.candidates[at]] >> i & 1
        enough += n >= n_leaves
    return enough >= width


@inner
def _tried_alike(fabric, search, depth, at):
    """Say whether a leaf with the same free uplinks has failed in this place: exchanging them changes nothing."""
    first = search.stack[depth - 1] + 1 if depth > 0 else 0
    alike = False
    for i in range(first, at):
        alike |= fabric.uplinks[search.candidates[i]] == fabric.uplinks[search.candidates[at]]
    return alike


@inner
def _leaf_for_rest(shape, fabric, search, pod, split):
    """Return the leaf with the fewest idle nodes that holds the rest; −2 if there is none to place, −1 if no leaf."""
    if split.rest == 0:
        return -2
    width = share(split.rest, shape.uplinks, shape.nodes)
    best = -1
    for leaf in range(pod * shape.leaves, (pod + 1) * shape.leaves):
        if fabric.leaf_idle[leaf] < split.rest or popcount(search.common[split.n] & fabric.uplinks[leaf]) < width:
            continue
        if best >= 0 and fabric.leaf_idle[leaf] >= fabric.leaf_idle[best]:
            continue
        chosen = False
        for depth in range(split.n):
            chosen |= search.candidates[search.stack[depth]] == leaf
        if not chosen:
            best = leaf
    return best


@inner
def _grant_leaves(shape, fabric, search, split, last, grant):
    common = search.common[split.n]
    part = 0
    if last >= 0:
        part = lowest(common & fabric.uplinks[last], share(split.rest, shape.uplinks, shape.nodes))
        add_nodes(shape, fabric, grant, last, split.rest)
        grant.uplinks[last] = part
    width = share(split.per_leaf, shape.uplinks, shape.nodes)
    chosen = part | lowest(common & ~part, width - popcount(part))
    for depth in range(split.n):
        leaf = search.candidates[search.stack[depth]]
        add_nodes(shape, fabric, grant, leaf, split.per_leaf)
        grant.uplinks[leaf] = chosen
