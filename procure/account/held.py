"""What jobs really held: whole nodes, and CPUs beyond what they asked for."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.site.model import Site

SAID_NO = ("", "0", "0.0", "no", "false", "nan", "none", "<na>")
"""What a column ``exclusive`` says of a job that shares its nodes."""


def said_whole(jobs: pd.DataFrame, site: Site | None = None) -> np.ndarray:
    """Return which jobs took their nodes whole, as the log's column ``exclusive`` or the site says: bool[n_jobs]."""
    found = np.zeros(len(jobs), bool)
    if "exclusive" in jobs:
        text = jobs["exclusive"].astype(str).str.strip().str.casefold()
        found |= ~text.isin(SAID_NO).to_numpy(bool)
    if site is not None:
        found |= site.select.consume == "node"
        whole = [one.name for one in site.partitions if one.oversubscribe.startswith("exclusive")]
        if whole and "partition" in jobs:
            found |= jobs["partition"].fillna("").astype(str).isin(whole).to_numpy(bool)
    return found


def held_cpus(jobs: pd.DataFrame, node_cpus: np.ndarray | None = None, site: Site | None = None) -> np.ndarray:
    """Return the CPUs that each job held of each of its nodes: int64[n_jobs].

    Those of the column ``held_cpus_per_node``, where it is more than the job asked for; of a job that took its nodes
    whole all of a node, where all nodes are as large. No job holds more than as many nodes have as it ran on;
    ``node_cpus`` are those of each node that there is, None = not known.
    """
    asked = jobs["cpus_per_node"].to_numpy(np.int64)
    held = asked
    if "held_cpus_per_node" in jobs:
        more = pd.to_numeric(jobs["held_cpus_per_node"], errors="coerce").to_numpy(np.float64, na_value=np.nan)
        held = np.maximum(asked, np.nan_to_num(more, posinf=0.0).astype(np.int64))
    if node_cpus is None or not len(node_cpus):
        return held
    whole = said_whole(jobs, site)
    if node_cpus.min() == node_cpus.max():
        held = np.where(whole, np.maximum(held, node_cpus[0]), held)
    largest = np.sort(node_cpus)[::-1]
    n_nodes = np.clip(jobs["n_nodes"].to_numpy(np.int64), 1, len(largest))
    return np.maximum(asked, np.minimum(held, largest[n_nodes - 1]))
