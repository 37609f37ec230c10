"""Naive baselines that need no model."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.queue_time.metrics import Forecast


def guesses(jobs: pd.DataFrame, features: pd.DataFrame, wait: np.ndarray, train: np.ndarray, test: np.ndarray
            ) -> dict[str, Forecast]:  # fmt: skip
    """Make every naive forecast for the test rows.

    Parameters
    ----------
    jobs
        The job table; ``slurm_wait`` (seconds, the scheduler's own estimate at submission) is used if logged.
    features
        Of `site_features`: the last started like job's wait is known at submission.
    wait, train, test
        Waits in seconds and rows by position.

    Returns
    -------
    dict
        ``zero``, ``mean``, ``median`` (per partition), ``last_like`` and, where logged, ``slurm``.
    """
    known = wait[train]
    n = len(test)
    middle = float(np.median(known))
    found = {
        "zero": Forecast(np.zeros(n)),
        "mean": Forecast(np.full(n, known.mean())),
        "median": Forecast(_by_partition(jobs, wait, train, test, middle)),
    }
    if "like_log_wait_1" in features.columns:
        last = features["like_log_wait_1"].to_numpy(dtype=float)[test]
        user = features["user_log_wait_1"].to_numpy(dtype=float)[test]
        last = np.where(np.isnan(last), user, last)
        found["last_like"] = Forecast(np.where(np.isnan(last), middle, np.expm1(np.nan_to_num(last))))
    if "slurm_wait" in jobs.columns:
        estimate = pd.to_numeric(jobs["slurm_wait"], errors="coerce").to_numpy(dtype=float, na_value=np.nan)[
            test
        ]
        found["slurm"] = Forecast(np.where(np.isnan(estimate), middle, np.nan_to_num(estimate)))
    return found


def _by_partition(
    jobs: pd.DataFrame, wait: np.ndarray, train: np.ndarray, test: np.ndarray, middle: float
) -> np.ndarray:
    if "partition" not in jobs.columns:
        return np.full(len(test), middle)
    partition = jobs["partition"].to_numpy()
    medians = pd.Series(wait[train]).groupby(partition[train]).median()
    return pd.Series(partition[test]).map(medians).fillna(middle).to_numpy(dtype=float)
