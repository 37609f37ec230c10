"""What the jobs of a schedule cost in hops, and how busy the nodes are while somebody waits."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.topology.fat_tree import leaf_and_pod
from procure.window.problem import hop_cost


def cost_of_jobs(schedule: pd.DataFrame, nodes: pd.DataFrame, profile: str = "code") -> np.ndarray:
    """Return the communication-hop cost of each job that ran, float64 in the schedule's order.

    Raises
    ------
    TableError
        No leaf or pod in the node table, or a node of the schedule that is not in it.
    ArgumentError
        The profile is not known.
    """
    leaf, pod = leaf_and_pod(nodes)
    row = {name: i for i, name in enumerate(nodes["node_id"])}
    costs = []
    for job, text in schedule.loc[schedule["start_time"].notna(), ["job_id", "node_ids"]].itertuples(index=False):
        rows = [row.get(name, -1) for name in text.split(",")]
        if -1 in rows:
            raise TableError(f"schedule: job {job} ran on nodes that are not in the node table: {text}")
        costs.append(hop_cost(leaf[rows], pod[rows], profile))
    return np.array(costs, np.float64)


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
