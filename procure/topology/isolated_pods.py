"""Isolation by links over several pods: whole leaves in each, and common spines (see `isolated`)."""

from __future__ import annotations

from procure.topology.fabric import add_nodes, inner
from procure.topology.search import lowest, popcount, share


@inner
def several_pods(shape, fabric, search, n, grant):
    """Take ``n`` nodes over several pods, with as many whole leaves a pod as possible; says whether it could."""
    n_whole, rest = n // shape.nodes, n % shape.nodes
    _count_whole_leaves(shape, fabric, search)
    for per_pod in range(min(n_whole, shape.leaves), 0, -1):
        n_pods, more = n_whole // per_pod, n_whole % per_pod
        further = more > 0 or rest > 0
        if n_pods + further > shape.pods:
            break
        if (n_pods > 1 or further) and _pods(shape, fabric, search, n_pods, per_pod, more, rest, grant):
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
def _pods(shape, fabric, search, n_pods, per_pod, more, rest, grant):
    """Find ``n_pods`` pods with ``per_pod`` whole leaves and common spines, and one for the rest."""
    width = share(per_pod, shape.spines, shape.leaves)
    candidates, stack = search.candidates, search.stack
    n_candidates = 0
    for pod in range(shape.pods):
        if search.whole[pod] < per_pod:
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
        if depth == n_pods:
            last = _pod_for_rest(shape, fabric, search, n_pods, more, rest)
            if last != -1:
                _grant_pods(shape, fabric, search, n_pods, per_pod, more, rest, last, grant)
                return True
        elif n_candidates - at >= n_pods - depth:
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
def _pod_for_rest(shape, fabric, search, n_pods, more, rest):
    """Return the pod with the fewest idle nodes that holds the rest; −2 if there is none to place, −1 if no pod."""
    if more == 0 and rest == 0:
        return -2
    best = -1
    for pod in range(shape.pods):
        chosen = False
        for depth in range(n_pods):
            chosen |= search.candidates[search.stack[depth]] == pod
        if chosen or search.whole[pod] < more or fabric.pod_idle[pod] < more * shape.nodes + rest:
            continue
        if best >= 0 and fabric.pod_idle[pod] >= fabric.pod_idle[best]:
            continue
        if _leaf_of_further_pod(shape, fabric, search, pod, n_pods, more, rest) != -1:
            best = pod
    return best


@inner
def _leaf_of_further_pod(shape, fabric, search, pod, n_pods, more, rest):
    """Return the leaf for the last nodes in the further pod; −2 if there are none, −1 if the pod does not do.

    The first ``more`` whole leaves of the pod are spoken for.
    """
    links, links_with_rest = (
        share(more, shape.spines, shape.leaves),
        share(more + 1, shape.spines, shape.leaves),
    )
    able = 0  # second-level switches that can also carry the leaf of the rest
    for i in range(shape.uplinks):
        free = popcount(search.spines[n_pods, i] & fabric.spines[pod * shape.uplinks + i])
        if free < links:
            return -1
        if free >= links_with_rest:
            able |= 1 << i
    if rest == 0:
        return -2
    width = share(rest, shape.uplinks, shape.nodes)
    best = -1
    spoken_for = 0
    for leaf in range(pod * shape.leaves, (pod + 1) * shape.leaves):
        if spoken_for < more and _is_whole(shape, fabric, leaf):
            spoken_for += 1
            continue
        if fabric.leaf_idle[leaf] < rest or popcount(fabric.uplinks[leaf] & able) < width:
            continue
        if best < 0 or fabric.leaf_idle[leaf] < fabric.leaf_idle[best]:
            best = leaf
    return best


@inner
def _grant_pods(shape, fabric, search, n_pods, per_pod, more, rest, last, grant):
    width = share(per_pod, shape.spines, shape.leaves)
    for depth in range(n_pods):
        _grant_whole_leaves(shape, fabric, search.candidates[search.stack[depth]], per_pod, grant)
    part = 0
    if last >= 0:
        leaf = _leaf_of_further_pod(shape, fabric, search, last, n_pods, more, rest)
        _grant_whole_leaves(shape, fabric, last, more, grant)
    links, links_with_rest = (
        share(more, shape.spines, shape.leaves),
        share(more + 1, shape.spines, shape.leaves),
    )
    if last >= 0 and rest > 0:
        able = 0
        for i in range(shape.uplinks):
            free = popcount(search.spines[n_pods, i] & fabric.spines[last * shape.uplinks + i])
            able |= (free >= links_with_rest) << i
        part = lowest(fabric.uplinks[leaf] & able, share(rest, shape.uplinks, shape.nodes))
        add_nodes(shape, fabric, grant, leaf, rest)
        grant.uplinks[leaf] = part
    for i in range(shape.uplinks):
        common = search.spines[n_pods, i]
        held = 0
        if last >= 0:
            switch = last * shape.uplinks + i
            held = lowest(common & fabric.spines[switch], links_with_rest if part >> i & 1 else links)
            grant.spines[switch] = held
        chosen = held | lowest(common & ~held, width - popcount(held))
        for depth in range(n_pods):
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
