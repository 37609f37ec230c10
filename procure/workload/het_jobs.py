"""Heterogeneous jobs of Slurm (``sbatch … : …``) as one job each: their components start together."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.text import counted
from procure.workload.ledger import Ledger

_COMPONENT = r"^(\d+)\+\d+(~\d+)?$"
"""sacct calls the components 100+0, 100+1 …; an earlier run of a requeued one has ``~1`` behind."""
_LARGEST = (
    "cpus_per_node mem_mb_per_node gpus_per_node requested_time run_time submit_time eligible_time start_time end_time "
    "held_cpus_per_node"
).split()


def join_het_jobs(columns: dict[str, object], ledger: Ledger) -> dict[str, object]:
    """Return the columns with each heterogeneous job in the row of its first component; the others are dropped.

    Nodes are added up, and each is as large as the largest component's, as a job of the table has equal nodes: a
    joined job asks for no less than its components. It begins with the last of them and ends with the last. Where they
    name different GPU models or constraints, the job names none.
    """
    names = pd.Series(columns["job_id"], dtype=object).astype(str).str.extract(_COMPONENT)
    rows = np.flatnonzero(names[0].notna().to_numpy() & ledger.keep)
    if not rows.size:
        return columns
    whole = (names[0] + names[1].fillna("")).iloc[rows]
    found: dict[str, np.ndarray] = {name: np.array(values, copy=True) for name, values in columns.items()}
    others = np.zeros(len(ledger.keep), dtype=bool)
    jobs = pd.Series(rows, index=whole).groupby(level=0, sort=False)
    for name, each in jobs:
        mine = each.to_numpy()
        first = mine[0]
        found["job_id"][first] = name
        found["n_nodes"][first] = found["n_nodes"][mine].sum()
        for column in set(found) & set(_LARGEST):
            values = found[column][mine].astype(np.float64)
            unlimited = column == "requested_time" and (values == 0).any()  # no limit is the longest
            found[column][first] = 0.0 if unlimited else values.max()
        for column in set(found) & {"gpu_type", "constraint"}:
            named = {str(text) for text in found[column][mine]} - {""}
            found[column][first] = named.pop() if len(named) == 1 else ""
        if "node_ids" in found:
            found["node_ids"][first] = ",".join(dict.fromkeys(",".join(map(str, found["node_ids"][mine])).split(",")))
        others[mine[1:]] = True
    ledger.drop(others, "component of a heterogeneous job, joined with its first")
    n_jobs = counted(jobs.ngroups, "heterogeneous job")
    ledger.note(f"{n_jobs} taken as one job each, all nodes as large as the largest")
    return dict(found)
