"""Waits of packages that were not simulated, filled in by a Gaussian process of those that were."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from procure.objectives.aggregate import REGRET_FLOOR
from procure.schemas import PACKAGE

FEWEST_KNOWN, MOST_LEARNT = 10, 500
"""It learns from so many packages."""
REACH, NOISE = 3.0, 0.03
"""Its length, in standard deviations of a feature, and its noise against the variance."""
_PREDICTED_AT_ONCE = 4096


def filled_waits(waits: np.ndarray, packages: pd.DataFrame, able: np.ndarray) -> np.ndarray:
    """Fill in waits that were not simulated, where there are ten packages to learn from.

    Parameters
    ----------
    waits
        s, float64[rows, packages], a row for each workload. A row without any wait stays as it is.
    packages
        A package table.
    able
        Which packages run every job, bool[packages]; the others are NaN in what is returned.
    """
    waits = np.where(able, waits, np.nan)
    rows, some = np.flatnonzero(able), ~np.isnan(waits).all(axis=1)
    mine = waits[np.ix_(some, rows)]
    known = np.flatnonzero(~np.isnan(mine).any(axis=0))
    if len(known) < FEWEST_KNOWN or len(known) == len(rows):
        return waits
    by_mean = known[np.argsort(mine[:, known].mean(axis=0), kind="stable")]
    best, others = by_mean[: MOST_LEARNT // 2], by_mean[MOST_LEARNT // 2 :]
    learnt = np.concatenate([best, others[:: 1 + 2 * len(others) // MOST_LEARNT]])
    found = _predicted(_features(packages.iloc[rows]), learnt, mine[:, learnt])
    waits[np.ix_(some, rows)] = np.where(np.isnan(mine), found, mine)
    return waits


def _features(packages: pd.DataFrame) -> np.ndarray:
    """Return the logarithms of nodes and totals, standardised."""
    n_nodes = packages.drop(columns=PACKAGE.names, errors="ignore").to_numpy(dtype="float64").sum(axis=1)
    totals = packages[["total_cpus", "total_mem_gb", "total_gpus"]].to_numpy(dtype="float64")
    found = np.log1p(np.column_stack([n_nodes, totals]))
    return np.asarray((found - found.mean(axis=0)) / np.maximum(found.std(axis=0), 1e-9))


def _predicted(features: np.ndarray, known: np.ndarray, wait: np.ndarray) -> np.ndarray:
    log = np.log(np.maximum(wait, REGRET_FLOOR)).T
    mean, learnt = log.mean(axis=0), features[known]
    weights = np.linalg.solve(_kernel(learnt, learnt) + NOISE * np.eye(len(known)), log - mean)
    found = np.empty((len(wait), len(features)))
    for at in range(0, len(features), _PREDICTED_AT_ONCE):
        some = slice(at, at + _PREDICTED_AT_ONCE)
        found[:, some] = np.exp(mean + _kernel(features[some], learnt) @ weights).T
    return found


def _kernel(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.exp(-cdist(some, others, "sqeuclidean") / (2 * REACH**2))
