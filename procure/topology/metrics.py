"""How far a job's messages travel, and how full nodes and links are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.topology.fat_tree import FatTree

SIZES = (1, 4, 16, 64, 256)
"""Upper ends of the size classes, in nodes; what is larger is one more class."""


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
    """Return the APH of ``n`` nodes that fill whole leaves and whole pods, as far as they go."""
    place = np.arange(n)
    return average_hops(place // tree.nodes, place // (tree.nodes * tree.leaves))


def hops_of_jobs(schedule: pd.DataFrame, nodes: pd.DataFrame) -> pd.DataFrame:
    """Return the APH of each job that ran: ``job_id n_nodes aph ideal_aph``.

    Raises
    ------
    TableError
        No tree in the node table, an uneven one, or a node of the schedule that is not in it.

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
        own = [places.get(name) for name in names.split(",")]
        if any(place is None for place in own):
            raise TableError(f"schedule: job {job} ran on nodes that are not in the node table: {names}")
        n = len(own)
        if n not in ideal:
            ideal[n] = ideal_hops(n, tree)
        leaf, pod = np.array(own).T
        rows.append((job, n, average_hops(leaf, pod), ideal[n]))
    return pd.DataFrame(rows, columns=["job_id", "n_nodes", "aph", "ideal_aph"])


def hops_by_size(hops: pd.DataFrame, sizes: Sequence[int] = SIZES) -> pd.DataFrame:
    """Summarise `hops_of_jobs` by size class: ``nodes n_jobs mean_aph median_aph max_aph ideal_aph``."""
    rows = []
    lows, highs = [1, *(size + 1 for size in sizes)], [*sizes, None]
    for low, high in zip(lows, highs, strict=True):
        part = hops[(hops["n_nodes"] >= low) & (hops["n_nodes"] <= (high or np.inf))]
        if len(part):
            name = f">{low - 1}" if high is None else str(low) if low == high else f"{low}–{high}"
            aph = part["aph"]
            rows.append((name, len(part), aph.mean(), aph.median(), aph.max(), part["ideal_aph"].mean()))
    columns = ["nodes", "n_jobs", "mean_aph", "median_aph", "max_aph", "ideal_aph"]
    return pd.DataFrame(rows, columns=columns)


def utilization_while_waiting(schedule: pd.DataFrame, n_nodes: int) -> float | None:
    """Return the mean share of busy nodes over the time in which at least one runnable job waits.

    Jobs hold their nodes whole. None where no job ever waits.
    """
    ran = schedule[schedule["start_time"].notna()]
    submit, start, end, n = (
        ran[name].to_numpy(np.int64) for name in ("submit_time", "start_time", "end_time", "n_nodes")
    )
    times = np.concatenate([submit, start, end])
    busy = np.concatenate([np.zeros_like(n), n, -n])
    waiting = np.concatenate([np.ones_like(n), -np.ones_like(n), np.zeros_like(n)])
    order = np.argsort(times, kind="stable")
    length = np.diff(times[order])
    here = np.cumsum(waiting[order])[:-1] > 0
    total = float((length * here).sum())
    return float((length * here * np.cumsum(busy[order])[:-1]).sum() / (n_nodes * total)) if total else None


def utilization_by_minute(schedule: pd.DataFrame, n_nodes: int) -> np.ndarray:
    """Return the share of busy nodes at each whole minute from the first submission to the last end."""
    ran = schedule[schedule["start_time"].notna()]
    start, end, n = (ran[name].to_numpy(np.int64) for name in ("start_time", "end_time", "n_nodes"))
    minutes = np.arange(int(schedule["submit_time"].min()), int(end.max(initial=0)) + 1, 60)
    times = np.concatenate([start, end])
    order = np.argsort(times, kind="stable")
    busy = np.concatenate([[0], np.cumsum(np.concatenate([n, -n])[order])])
    return busy[np.searchsorted(times[order], minutes, side="right")] / n_nodes


def idle_links(schedule: pd.DataFrame, tree: FatTree) -> float | None:
    """Return the share of link-seconds between switches that no job holds, over the makespan.

    Links are those granted in the column ``links`` (`procure.topology.verify`). None where the
    schedule has no such column or nothing ran.
    """
    ran = schedule[schedule["start_time"].notna()]
    if ran.empty or "links" not in ran:
        return None
    held = (
        ran["links"]
        .fillna("")
        .map(lambda text: sum(int(word.partition("=")[2], 16).bit_count() for word in text.split()))
    )
    makespan = int(ran["end_time"].max()) - int(schedule["submit_time"].min())
    n_links = tree.pods * tree.uplinks * (tree.leaves + tree.spines)
    seconds = (held.to_numpy() * (ran["end_time"] - ran["start_time"]).to_numpy(np.int64)).sum()
    return float(1 - seconds / (n_links * makespan)) if makespan > 0 else None
