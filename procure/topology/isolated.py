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
from procure.topology.fabric import add_nodes, clear, count_idle, in_order, inner, lowest, one_leaf, popcount, share


class _Split(NamedTuple):
    """How a job is spread over one pod: ``n`` leaves with ``per_leaf`` nodes each, and one with the ``rest``."""

    n: int
    per_leaf: int
    rest: int


@njit(cache=True, nogil=True)
def allocate_isolated(shape, fabric, search, n, grant):
    """Take ``n`` nodes and links of their own; says whether there is room, else ``grant`` means nothing.

    Tried in turn: one leaf, the one with the fewest idle nodes that has room; one pod, with as many
    nodes a leaf as possible; several pods, with as many whole leaves a pod as possible. Of switches
    that would do, those with the fewest free links and idle nodes come first; ties: the lower number.
    There is no room also where the search met its bound.
    """
    clear(grant)
    search.tried[0] = 0
    if n <= shape.nodes and one_leaf(shape, fabric, n, grant):
        return True
    if n > count_idle(fabric):
        return False
    found = _one_pod(shape, fabric, search, n, grant) or _several_pods(shape, fabric, search, n, grant)
    if found:
        in_order(grant)
    return found


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
def _begin(search, n_masks, mask):
    """Begin a search with nothing chosen, of switches with so many kinds of links."""
    search.place[0] = search.place[1] = 0
    for i in range(n_masks):
        search.common[0, i] = mask


@inner
def _add_candidate(search, n, switch, key):
    """Put a switch among ``n`` candidates, the lowest key first; ties stay in order. Returns how many there are."""
    i = n
    while i > 0 and search.keys[i - 1] > key:
        search.candidates[i], search.keys[i] = search.candidates[i - 1], search.keys[i - 1]
        i -= 1
    search.candidates[i], search.keys[i] = switch, key
    return n + 1


@inner
def _next_choice(search, masks, n_masks, n_candidates, n, width, alike):
    """Go on to the next ``n`` candidates that have ``width`` free links of each kind in common; False if none is left.

    Switch s has the free links ``masks[s * n_masks:(s + 1) * n_masks]``; with ``alike``, equal ones may be exchanged.
    """
    depth, at = search.place[0], search.place[1]
    if depth == n:
        depth -= 1
        at = search.stack[depth] + 1
    while depth < n:
        if n_candidates - at >= n - depth:
            search.tried[0] += 1
            if search.tried[0] >= search.bound:
                return False
            narrows = _narrow(search, masks, n_masks, depth, at, width)
            if narrows and not (alike and _tried_alike(search, masks, depth, at)):
                search.stack[depth] = at
                depth += 1
            at += 1
        elif depth == 0:
            return False
        else:
            depth -= 1
            at = search.stack[depth] + 1
    search.place[0], search.place[1] = depth, at
    return True


@inner
def _narrow(search, masks, n_masks, depth, at, width):
    """Intersect the common links with a candidate's; says whether ``width`` of each kind are left."""
    first = search.candidates[at] * n_masks
    for i in range(n_masks):
        left = search.common[depth, i] & masks[first + i]
        if popcount(left) < width:
            return False
        search.common[depth + 1, i] = left
    return True


@inner
def _tried_alike(search, masks, depth, at):
    """Say whether a switch with the same free links has failed in this place: exchanging them changes nothing."""
    alike = False
    for i in range(search.stack[depth - 1] + 1 if depth > 0 else 0, at):
        alike |= masks[search.candidates[i]] == masks[search.candidates[at]]
    return alike


@inner
def _is_chosen(search, n, switch):
    chosen = False
    for depth in range(n):
        chosen |= search.candidates[search.stack[depth]] == switch
    return chosen


@inner
def _leaves_of_pod(shape, fabric, search, pod, split, grant):
    """Find leaves with enough idle nodes and common uplinks, and one for the rest."""
    width = share(split.per_leaf, shape.uplinks, shape.nodes)
    n_candidates = 0
    for leaf in range(pod * shape.leaves, (pod + 1) * shape.leaves):  # the fewest free uplinks, then nodes, first
        free = popcount(fabric.uplinks[leaf])
        if fabric.leaf_idle[leaf] >= split.per_leaf and free >= width:
            key = free * (shape.nodes + 1) + fabric.leaf_idle[leaf]
            n_candidates = _add_candidate(search, n_candidates, leaf, key)
    if n_candidates < split.n or not _enough_common(shape, fabric, search, n_candidates, split.n, width):
        return False
    _begin(search, 1, (1 << shape.uplinks) - 1)
    while _next_choice(search, fabric.uplinks, 1, n_candidates, split.n, width, True):
        last = _leaf_for_rest(shape, fabric, search, pod, split)
        if last != -1:
            _grant_leaves(shape, fabric, search, split, last, grant)
            return True
    return False


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
def _leaf_for_rest(shape, fabric, search, pod, split):
    """Return the leaf with the fewest idle nodes that holds the rest; −2 if there is none to place, −1 if no leaf."""
    if split.rest == 0:
        return -2
    width = share(split.rest, shape.uplinks, shape.nodes)
    best = -1
    for leaf in range(pod * shape.leaves, (pod + 1) * shape.leaves):
        if fabric.leaf_idle[leaf] < split.rest or popcount(search.common[split.n, 0] & fabric.uplinks[leaf]) < width:
            continue
        if best >= 0 and fabric.leaf_idle[leaf] >= fabric.leaf_idle[best]:
            continue
        if not _is_chosen(search, split.n, leaf):
            best = leaf
    return best


@inner
def _grant_leaves(shape, fabric, search, split, last, grant):
    common = search.common[split.n, 0]
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


class _SplitOverPods(NamedTuple):
    """How a job is spread: ``n`` pods of ``per_pod`` whole leaves, one of ``more``, and a leaf with the ``rest``."""

    n: int
    per_pod: int
    more: int
    rest: int


@inner
def _several_pods(shape, fabric, search, n, grant):
    """Take ``n`` nodes over several pods, with as many whole leaves a pod as possible; says whether it could."""
    n_whole, rest = n // shape.nodes, n % shape.nodes
    for pod in range(shape.pods):
        search.whole[pod] = 0
    for leaf in range(fabric.leaf_idle.size):
        search.whole[leaf // shape.leaves] += _is_whole(shape, fabric, leaf)
    for per_pod in range(min(n_whole, shape.leaves), 0, -1):
        split = _SplitOverPods(n_whole // per_pod, per_pod, n_whole % per_pod, rest)
        further = split.more > 0 or rest > 0
        if split.n + further > shape.pods:
            break
        if (split.n > 1 or further) and _pods(shape, fabric, search, split, grant):
            return True
    return False


@inner
def _is_whole(shape, fabric, leaf):
    return fabric.leaf_idle[leaf] == shape.nodes and fabric.uplinks[leaf] == (1 << shape.uplinks) - 1


@inner
def _pods(shape, fabric, search, split, grant):
    """Find pods with enough whole leaves, the fewest first, and common spines, and one for the rest."""
    n_candidates = 0
    for pod in range(shape.pods):
        if search.whole[pod] >= split.per_pod:
            n_candidates = _add_candidate(search, n_candidates, pod, search.whole[pod])
    width = share(split.per_pod, shape.spines, shape.leaves)
    _begin(search, shape.uplinks, (1 << shape.spines) - 1)
    while _next_choice(search, fabric.spines, shape.uplinks, n_candidates, split.n, width, False):
        last = _pod_for_rest(shape, fabric, search, split)
        if last != -1:
            _grant_pods(shape, fabric, search, split, last, grant)
            return True
    return False


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
        if _is_chosen(search, split.n, pod) or search.whole[pod] < split.more:
            continue
        if fabric.pod_idle[pod] < split.more * shape.nodes + split.rest:
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
        free = popcount(search.common[split.n, i] & fabric.spines[pod * shape.uplinks + i])
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
            free = popcount(search.common[split.n, i] & fabric.spines[last * shape.uplinks + i])
            able |= (free >= links_with_rest) << i
        part = lowest(fabric.uplinks[leaf] & able, share(split.rest, shape.uplinks, shape.nodes))
        add_nodes(shape, fabric, grant, leaf, split.rest)
        grant.uplinks[leaf] = part
    for i in range(shape.uplinks):
        common = search.common[split.n, i]
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
