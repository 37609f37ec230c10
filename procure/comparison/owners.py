"""What each group that owns nodes gets, against what it has paid for."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.policies.owners import NOBODY, groups_of_jobs, owners_of_nodes
from procure.text import duration

OTHERS = "others"
"""What the jobs and nodes of no owner are called."""


def what_each_got(schedule: pd.DataFrame, nodes: pd.DataFrame, shares: dict[str, float]) -> pd.DataFrame:
    """Say what each group got of a schedule.

    Parameters
    ----------
    schedule
        A job table with ``start_time``, ``end_time`` and ``node_ids``.
    nodes
        The node table, as it was simulated.
    shares
        Which share of the nodes of each kind a group owns.

    Returns
    -------
    pandas.DataFrame
        A row per group and one for ``others``: ``group``, ``paid`` (share of all CPUs), ``got`` (share of the
        CPU-seconds that jobs held), ``on_own`` (share of these that was on its own nodes), ``lent`` (share of the
        CPU-seconds held on its nodes that were others'), ``n_jobs``, ``mean_wait_time``, s. A share of nothing is
        missing.
    """
    names = [*shares, OTHERS]
    columns = [name for name in ("cpus", "mem_mb", "gpus", "gpu_type") if name in nodes]
    kinds = list(nodes[columns].fillna("").itertuples(index=False, name=None))
    owner = owners_of_nodes(kinds, list(shares.values()))
    place = dict(zip(nodes["node_id"].astype(str), np.where(owner == NOBODY, len(shares), owner), strict=True))
    group = groups_of_jobs(schedule, list(shares))
    ran = schedule.assign(group=np.where(group == NOBODY, len(shares), group))
    ran = ran[ran["start_time"].notna()]
    held = ((ran["end_time"] - ran["start_time"]) * ran["cpus_per_node"]).to_numpy(dtype="float64")
    on = ran["node_ids"].str.split(",").explode().map(place)
    used = np.zeros((len(names), len(names)))  # by group and by owner of the node
    each = pd.Series(held, index=ran.index)
    np.add.at(used, (ran["group"].loc[on.index].to_numpy(), on.to_numpy()), each.loc[on.index].to_numpy())
    cpus = np.bincount(np.where(owner == NOBODY, len(shares), owner), nodes["cpus"], len(names))
    wait = ran["start_time"] - ran["submit_time"]
    with np.errstate(invalid="ignore", divide="ignore"):
        own = np.diag(used)
        return pd.DataFrame(
            {
                "group": names,
                "paid": cpus / cpus.sum(),
                "got": used.sum(axis=1) / used.sum(),
                "on_own": own / used.sum(axis=1),
                "lent": 1 - own / used.sum(axis=0),
                "n_jobs": np.bincount(ran["group"], minlength=len(names)),
                "mean_wait_time": wait.groupby(ran["group"]).mean().reindex(range(len(names))).to_numpy("float64"),
            }
        )


def say_owners(table: pd.DataFrame) -> list[str]:
    """Say in sentences what each group got against what it paid."""
    return [
        f"{row.group} paid for {row.paid:.0%} of the CPUs and got {row.got:.0%} of the CPU-time, "
        + (
            "but owns no node of these: its share is below one node of each kind"
            if np.isnan(row.lent) and not row.paid
            else f"{np.nan_to_num(row.on_own):.0%} of it on its own nodes, "
            f"of whose use {np.nan_to_num(row.lent):.0%} was others'"
        )
        + f"; its jobs waited {duration(row.mean_wait_time)} on average"
        for row in table[table["group"] != OTHERS].itertuples()
        if row.n_jobs
    ]
