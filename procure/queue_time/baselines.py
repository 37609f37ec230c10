"""Naive baselines that need no model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from procure.queue_time.experts import guess
from procure.queue_time.metrics import LEVELS, Forecast
from procure.queue_time.splits import Split


def naive(jobs: pd.DataFrame, features: pd.DataFrame, wait: np.ndarray, split: Split) -> dict[str, Forecast]:
    """Make every naive forecast for the test rows, with the quantiles of its errors on the training rows.

    They are ``zero``, ``mean``, ``median`` (per partition), ``last_like``, ``partition_5`` (mean of the last five
    waits), ``recent`` (median of the week's starts in the partition) and, where the job table has the scheduler's own
    estimate at submission as ``slurm_wait``, ``slurm``. Errors are ratios of 1 + seconds, of what is below 0 as of 0.
    """
    known = wait[split.train]
    middle = float(np.median(known))
    medians = pd.Series(known).groupby(jobs["partition"].to_numpy()[split.train]).median()

    def filled(values: pd.Series) -> np.ndarray:
        return pd.to_numeric(values, errors="coerce").fillna(middle).to_numpy(dtype=float)

    rules: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "zero": lambda rows: np.zeros(len(rows)),
        "mean": lambda rows: np.full(len(rows), known.mean()),
        "median": lambda rows: filled(jobs["partition"].iloc[rows].map(medians)),
        "last_like": lambda rows: guess(features.iloc[rows], "last_like", middle),
        "partition_5": lambda rows: guess(features.iloc[rows], "partition_5", middle),
        "recent": lambda rows: guess(features.iloc[rows], "week", middle),
    }
    if "slurm_wait" in jobs.columns:
        rules["slurm"] = lambda rows: filled(jobs["slurm_wait"].iloc[rows])
    found = {}
    for name, rule in rules.items():
        point, before = rule(split.test), np.maximum(rule(split.train), 0.0)
        errors = np.quantile(np.log1p(known) - np.log1p(before), LEVELS)
        five = np.expm1(np.log1p(np.maximum(point, 0.0))[:, None] + errors)
        found[name] = Forecast(point, np.maximum(five, 0.0))
    return found
