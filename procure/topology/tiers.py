"""Isolation by three types of jobs: on one leaf, in one pod, over several pods.

Pollard, Jain, Herbein and Bhatele, "Evaluation of an Interference-free Node Allocation Policy on
Fat-tree Clusters" (SC18), section III: a job that fits a leaf (T1) stays on one; a job that fits a pod
(T2) stays in one and shares no leaf with a T2 or T3; a larger one (T3) shares no pod with a T3 and no
leaf with a T2. T1 use no link between switches, so they may be anywhere.

Said in links: a T2 holds all uplinks of its leaves, a T3 also all spine links of its pods. What is
free is thus read from the links, and no types have to be kept.
"""

from __future__ import annotations

from procure.files.kernels import njit
from procure.topology.fabric import add_nodes, clear, in_order, inner


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
