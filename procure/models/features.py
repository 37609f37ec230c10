"""What a model sees of a package: its totals, or what it is composed of."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.packages.runnable import count_matrix
from procure.text import nearest

FEATURE_SETS = ("composition", "totals")
"""Names that `features` knows."""


def features(packages: pd.DataFrame, quotes: pd.DataFrame, feature_set: str = "composition") -> pd.DataFrame:
    """Describe packages by numbers that a model can learn from, float64, a row per package; no prices.

    ``totals``: ``total_mem_gb``, ``total_cpus``, ``total_gpus``, the published three (Hutchison 2024, section 3.4.5).
    ``composition``: these, the count of each type, and of each category the nodes, CPUs, memory and GPUs and their
    means per node; and for every CPU count, memory size and GPU count that some type has, how many nodes have at least
    as much, which decides how many jobs of a given request fit. Another feature set is an error.
    """
    if feature_set not in FEATURE_SETS:
        raise TableError(f"feature set {feature_set!r} is unknown; {nearest(feature_set, FEATURE_SETS)}")
    counts = count_matrix(packages, quotes)
    holds = {name: quotes[name].to_numpy(dtype="float64") for name in ("mem_gb", "cpus", "gpus")}
    columns = {f"total_{name}": counts @ has for name, has in holds.items()}
    if feature_set == "composition":
        columns |= {f"type:{name}": counts[:, i] for i, name in enumerate(quotes["name"])}
        columns |= _categories(counts, quotes)
        for name in ("cpus", "mem_gb", "gpus"):
            for level in np.unique(holds[name])[1:]:
                columns[f"nodes_{name}_from_{level:g}"] = counts[:, holds[name] >= level].sum(axis=1)
    return pd.DataFrame(columns, index=packages.index).astype("float64")


def _categories(counts: np.ndarray, quotes: pd.DataFrame) -> dict[str, np.ndarray]:
    columns = {"total_nodes": counts.sum(axis=1)}
    for category in quotes["category"].unique():
        among = (quotes["category"] == category).to_numpy()
        nodes = counts[:, among].sum(axis=1)
        columns[f"category:{category}:nodes"] = nodes
        for name in ("cpus", "mem_gb", "gpus"):
            amount = counts[:, among] @ quotes.loc[among, name].to_numpy(dtype="float64")
            columns[f"category:{category}:{name}"] = amount
            columns[f"category:{category}:{name}_per_node"] = amount / np.maximum(nodes, 1)
    return columns
