"""Isolation by links over several pods: whole leaves in each, and common spines (see `isolated`)."""

from __future__ import annotations

from typing import NamedTuple

from procure.topology.fabric import add_nodes, inner
from procure.topology.search import lowest, popcount, share


class _Split(NamedTuple):
    """How a job is spread: ``n`` pods of ``per_pod`` whole leaves, one of ``more``, and a leaf with the ``rest``."""

    n: int
    per_pod: int
    more: int
    rest: int


@inner
def several_pods(shape, fabric, search, n, grant):
    """Take ``n`` nodes over several pods, with as many whole leaves a pod as possible; says whether it could."""
    n_whole, rest = n // shape.nodes, n % shape.nodes
    _count_whole_leaves(shape, fabric, search)
    for per_pod in range(min(n_whole, shape.leaves), 0, -1):
        split = _Split(n_whole // per_pod, per_pod, n_whole % per_pod, rest)
        further = split.more > 0 or rest > 0
        if split.n + further > shape.pods:
            break
        if (split.n > 1 or further) and _pods(shape, fabric, search, split, grant):
            return True
    return False


@inner
def _count_whole_leaves(shape, fabric, search):
    for pod in range(shape.pods):
        search.whole[pod] = 0
    for leaf in range(fabric.leaf_idle.size):
        search.whole[leaf // shape.leaves] += _is_whole(shape, fabric, leaf)


@inner
def _is_whole(shape, fabric, leaf):
    return fabric.leaf_idle[leaf] == shape.nodes and fabric.uplinks[leaf] == (1 << shape.uplinks) - 1


@inner
def _pods(shape, fabric, search, split, grant):
    """Find pods with enough whole leaves and common spines, and one for the rest."""
    width = share(split.per_pod, shape.spines, shape.leaves)
    candidates, stack = search.candidates, search.stack
    n_candidates = 0
    for pod in range(shape.pods):
        if search.whole[pod] < split.per_pod:
            continue
        i = n_candidates
        while i > 0 and search.whole[candidates[i - 1]] > search.whole[pod]:
            candidates[i] = candidates[i - 1]
            i -= 1
        candidates[i] = pod
        n_candidates += 1
    for i in range(shape.uplinks):
        search.spines[0, i] = (1 << shape.spines) - 1
    depth = at = 0
    while True:
        if depth == split.n:
            last = _pod_for_rest(shape, fabric, search, split)
            if last != -1:
                _grant_pods(shape, fabric, search, split, last, grant)
                return True
        elif n_candidates - at >= split.n - depth:
            search.tried[0] += 1
            if search.tried[0] >= search.bound:
                return False
            if _narrow(shape, fabric, search, depth, candidates[at], width):
                stack[depth] = at
                depth += 1
            at += 1
            continue
        if depth == 0:
            return False
        depth -= 1
        at = stack[depth] + 1


@inner
def _narrow(shape, fabric, search, depth, pod, width):
    """Intersect the common spine links with a pod's; says whether each switch keeps ``width``."""
    for i in range(shape.uplinks):
        left = search.spines[depth, i] & fabric.spines[pod * shape.uplinks + i]
        if popcount(left) < width:
            return False
        search.spines[depth + 1, i] = left
    return True


@inner
def _further_links(shape, split):
    """Return the links per second-level switch that the further pod's whole leaves need, and with the rest."""
    return share(split.more, shape.spines, shape.leaves), share(split.more + 1, shape.spines, shape.leaves)


@inner
def _pod_for_rest(shape, fabric, search, split):
    """Return the pod with the fewest idle nodes that holds the rest; −2 if there is none to place, −1 if no pod."""
    if split.more == 0 and split.rest == 0:
        return -2
    best = -1
    for pod in range(shape.pods):
        chosen = False
        for depth in range(split.n):
            chosen |= search.candidates[search.stack[depth]] == pod
        if chosen or search.whole[pod] < split.more or fabric.pod_idle[pod] < split.more * shape.nodes + split.rest:
            continue
        if best >= 0 and fabric.pod_idle[pod] >= fabric.pod_idle[best]:
            continue
        if _leaf_of_further_pod(shape, fabric, search, pod, split) != -1:
            best = pod
    return best


@inner
def _leaf_of_further_pod(shape, fabric, search, pod, split):
    """Return the leaf for the last nodes in the further pod; −2 if there are none, −1 if the pod does not do.

    The first ``split.more`` whole leaves of the pod are spoken for.
    """
    links, links_with_rest = _further_links(shape, split)
    able = 0  # second-level switches that can also carry the leaf of the rest
    for i in range(shape.uplinks):
        free = popcount(search.spines[split.n, i] & fabric.spines[pod * shape.uplinks + i])
        if free < links:
            return -1
        if free >= links_with_rest:
            able |= 1 << i
    if split.rest == 0:
        return -2
    width = share(split.rest, shape.uplinks, shape.nodes)
    best = -1
    spoken_for = 0
    for leaf in range(pod * shape.leaves, (pod + 1) * shape.leaves):
        if spoken_for < split.more and _is_whole(shape, fabric, leaf):
            spoken_for += 1
            continue
        if fabric.leaf_idle[leaf] < split.rest or popcount(fabric.uplinks[leaf] & able) < width:
            continue
        if best < 0 or fabric.leaf_idle[leaf] < fabric.leaf_idle[best]:
            best = leaf
    return best


@inner
def _grant_pods(shape, fabric, search, split, last, grant):
    width = share(split.per_pod, shape.spines, shape.leaves)
    for depth in range(split.n):
        _grant_whole_leaves(shape, fabric, search.candidates[search.stack[depth]], split.per_pod, grant)
    part = 0
    if last >= 0:
        leaf = _leaf_of_further_pod(shape, fabric, search, last, split)
        _grant_whole_leaves(shape, fabric, last, split.more, grant)
    links, links_with_rest = _further_links(shape, split)
    if last >= 0 and split.rest > 0:
        able = 0
        for i in range(shape.uplinks):
            free = popcount(search.spines[split.n, i] & fabric.spines[last * shape.uplinks + i])
            able |= (free >= links_with_rest) << i
        part = lowest(fabric.uplinks[leaf] & able, share(split.rest, shape.uplinks, shape.nodes))
        add_nodes(shape, fabric, grant, leaf, split.rest)
        grant.uplinks[leaf] = part
    for i in range(shape.uplinks):
        common = search.spines[split.n, i]
        held = 0
        if last >= 0:
            switch = last * shape.uplinks + i
            held = lowest(common & fabric.spines[switch], links_with_rest if part >> i & 1 else links)
            grant.spines[switch] = held
        chosen = held | lowest(common & ~held, width - popcount(held))
        for depth in range(split.n):
            grant.spines[search.candidates[search.stack[depth]] * shape.uplinks + i] = chosen


@inner
def _grant_whole_leaves(shape, fabric, pod, n, grant):
    leaf = pod * shape.leaves
    while n > 0:
        if _is_whole(shape, fabric, leaf):
            add_nodes(shape, fabric, grant, leaf, shape.nodes)
            grant.uplinks[leaf] = fabric.uplinks[leaf]
            n -= 1
        leaf += 1
