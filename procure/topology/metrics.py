"""How far a job's messages travel, and how full nodes and links are."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.topology.fat_tree import FatTree
from procure.workload.read_csv import names_in


def average_hops(leaves: np.ndarray, pods: np.ndarray) -> float:
    """Return the average pairwise hops (APH) of nodes by the leaf and the pod of each.

    The mean over ordered pairs of different nodes of the links between switches that a message
    crosses: 0 on one leaf, 2 in one pod, 4 otherwise; 0 for a single node. Pollard et al. (SC18), eq. 1.
    """
    n = len(leaves)
    if n < 2:
        return 0.0
    same = [np.unique(where, return_counts=True)[1].astype(np.int64) for where in (leaves, pods)]
    return float(4 - 2 * sum(int((c * (c - 1)).sum()) for c in same) / (n * (n - 1)))


def ideal_hops(n: int, tree: FatTree) -> float:
    """Return the APH of ``n`` nodes placed as close as an empty tree allows.

    On the largest leaves of the pod in which that is fewest hops; if no pod holds them, in the largest pods.
    """
    sizes = -np.sort(-tree.shape.here.reshape(tree.pods, tree.leaves, -1).sum(axis=2), axis=1)

    def filled(pods: np.ndarray) -> float:
        leaf = np.repeat(np.arange(pods.size), pods.ravel())[:n]
        return average_hops(leaf, leaf // tree.leaves)

    able = [filled(pod) for pod in np.unique(sizes, axis=0) if pod.sum() >= n]
    return min(able) if able else filled(sizes[np.argsort(-sizes.sum(axis=1), kind="stable")])


def hops_of_jobs(schedule: pd.DataFrame, nodes: pd.DataFrame) -> pd.DataFrame:
    """Return the APH of each job that ran: ``job_id n_nodes aph ideal_aph``.

    Raises
    ------
    TableError
        No tree in the node table, or a node of the schedule that is not in it.

    Examples
    --------
    >>> import procure
    >>> jobs, nodes = procure.generate(seed=1, n_jobs=20), procure.fat_tree(1, 1, 4, cpus=64, mem_mb=512_000)
    >>> procure.count_hops(procure.simulate(jobs, nodes, "fcfs").schedule, nodes)["aph"].max()
    np.float64(0.0)
    """
    tree = FatTree.from_nodes(nodes)
    places = dict(zip(nodes["node_id"], nodes[["leaf", "pod"]].to_numpy(np.int64), strict=True))
    ideal: dict[int, float] = {}
    rows = []
    ran = schedule[schedule["start_time"].notna()]
    for job, names in zip(ran["job_id"], ran["node_ids"], strict=True):
        own = [places.get(name) for name in names_in(names)]
        if any(place is None for place in own):
            raise TableError(f"schedule: job {job} ran on nodes that are not in the node table: {names}")
        n = len(own)
        if n not in ideal:
            ideal[n] = ideal_hops(n, tree)
        leaf, pod = np.array(own).T
        rows.append((job, n, average_hops(leaf, pod), ideal[n]))
    return pd.DataFrame(rows, columns=["job_id", "n_nodes", "aph", "ideal_aph"])
