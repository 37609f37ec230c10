"""Any idle nodes, as a scheduler that does not know the network places jobs."""

from __future__ import annotations

from procure.files.kernels import njit
from procure.topology.fabric import clear, in_order


@njit(cache=True, nogil=True)
def allocate_any(shape, fabric, order, n, grant):
    """Take the first ``n`` idle nodes in the node table's order; no links.

    Parameters
    ----------
    order
        int64[n_nodes], places in the order of the node table's rows.

    Returns
    -------
    bool
        Whether there is room; if not, ``grant`` means nothing.
    """
    clear(grant)
    at = 0
    for row in range(order.size):
        if at == n:
            break
        place = order[row]
        if fabric.idle[place]:
            grant.nodes[at] = place
            at += 1
    grant.n[0] = at
    in_order(grant)
    return at == n
