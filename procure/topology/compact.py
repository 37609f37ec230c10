"""The fewest switches, as far as what is idle allows; links are shared.

The rule of Slurm's tree plugin, in our words: the smallest subtree that has room, and in it the leaves that the job
fills best.
"""

from __future__ import annotations

from procure.files.kernels import njit
from procure.topology.fabric import add_nodes, clear, count_idle, in_order, inner


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
