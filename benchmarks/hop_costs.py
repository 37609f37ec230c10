"""What the jobs of a schedule cost."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.topology.fat_tree import leaf_and_pod
from procure.window.cost import hop_cost


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
