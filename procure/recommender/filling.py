"""Waits of packages that were not simulated, filled in by a Gaussian process of those that were."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.recommender.race import FEWEST_KEPT, MOST_LEARNT, features_of, predict_waits
from procure.schemas import PACKAGE


def filled_waits(waits: np.ndarray, packages: pd.DataFrame, able: np.ndarray) -> np.ndarray:
    """Fill in waits that were not simulated, where there are ten packages to learn from.

    Parameters
    ----------
    waits
        s, float64[rows, packages], a row for each workload, or class on one. A row without any wait stays as it is.
    packages
        A package table.
    able
        Which packages run every job, bool[packages]; the others are NaN in what is returned.
    """
    waits = np.where(able, waits, np.nan)
    rows, some = np.flatnonzero(able), ~np.isnan(waits).all(axis=1)
    mine = waits[np.ix_(some, rows)]
    known = np.flatnonzero(~np.isnan(mine).any(axis=0))
    if len(known) < FEWEST_KEPT or len(known) == len(rows):
        return waits
    by_mean = known[np.argsort(mine[:, known].mean(axis=0), kind="stable")]
    best, others = by_mean[: MOST_LEARNT // 2], by_mean[MOST_LEARNT // 2 :]
    learnt = np.concatenate([best, others[:: 1 + 2 * len(others) // MOST_LEARNT]])
    table = packages.iloc[rows]
    n_nodes = table.drop(columns=PACKAGE.names, errors="ignore").to_numpy(dtype="float64")
    totals = table[["total_cpus", "total_mem_gb", "total_gpus"]].to_numpy(dtype="float64")
    found = predict_waits(features_of(n_nodes, totals), learnt, mine[:, learnt])
    waits[np.ix_(some, rows)] = np.where(np.isnan(mine), found, mine)
    return waits
