"""Naive baselines that need no model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from procure.queue_time import recent
from procure.queue_time.experts import guess
from procure.queue_time.metrics import LEVELS, Forecast

_WEEK = recent.columns("week")[int(np.searchsorted(recent.LEVELS, 0.5))]


def guesses(
    jobs: pd.DataFrame, features: pd.DataFrame, wait: np.ndarray, train: np.ndarray, test: np.ndarray
) -> dict[str, Forecast]:
    """Make every naive forecast for the test rows.

    Parameters
    ----------
    jobs
        The job table; ``slurm_wait`` (seconds, the scheduler's own estimate at submission) is used if logged.
    features
        Of `site_features`: recent waits known at submission.
    wait, train, test
        Waits in seconds and rows by position.

    Returns
    -------
    dict
        ``zero``, ``mean``, ``median`` (per partition), ``last_like``, ``user_5`` and ``partition_5`` (means of the last
        five waits), ``recent`` (median of the week's starts in the partition) and, where logged, ``slurm``.
    """
    known = wait[train]
    n = len(test)
    middle = float(np.median(known))
    found = {
        "zero": Forecast(np.zeros(n)),
        "mean": Forecast(np.full(n, known.mean())),
        "median": Forecast(_by_partition(jobs, wait, train, test, middle)),
    }
    asked = features.iloc[test]
    for name in ("last_like", "user_5", "partition_5"):
        found[name] = Forecast(guess(asked, name, middle))
    if _WEEK in features.columns:
        week = np.expm1(asked[_WEEK].to_numpy(dtype=float))
        found["recent"] = Forecast(np.where(np.isnan(week), middle, week))
    if "slurm_wait" in jobs.columns:
        estimate = pd.to_numeric(jobs["slurm_wait"], errors="coerce").to_numpy(dtype=float, na_value=np.nan)[test]
        found["slurm"] = Forecast(np.where(np.isnan(estimate), middle, np.nan_to_num(estimate)))
    return found


def with_errors(said: Forecast, before: np.ndarray, wait: np.ndarray) -> Forecast:
    """Give a rule that says a number the quantiles of its own errors, learnt from the time before.

    Parameters
    ----------
    said
        What the rule says of the jobs that are judged; its point stays.
    before, wait
        What it said of jobs whose wait was known by then, and these waits; seconds. Errors are ratios of 1 + seconds,
        of what is below 0 as of 0.
    """
    point, before = np.maximum(said.point, 0.0), np.maximum(before, 0.0)
    errors = np.quantile(np.log1p(wait) - np.log1p(before), LEVELS)
    return replace(said, quantiles=np.maximum(np.expm1(np.log1p(point)[:, None] + errors), 0.0))


def _by_partition(
    jobs: pd.DataFrame, wait: np.ndarray, train: np.ndarray, test: np.ndarray, middle: float
) -> np.ndarray:
    if "partition" not in jobs.columns:
        return np.full(len(test), middle)
    partition = jobs["partition"].to_numpy()
    medians = pd.Series(wait[train]).groupby(partition[train]).median()
    return pd.Series(partition[test]).map(medians).fillna(middle).to_numpy(dtype=float)
