"""Is the queue growing? The mean wait of the next four hours against that of the last four.

The published way: consecutive windows of four hours from the first submission, those with a submission; a
straight line from the change in mean CPUs in use to the change in mean wait. It looks at the change of
CPUs in the window whose wait it predicts, so that it foretells nothing.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.queue_time.features import site_features
from procure.queue_time.log import wait_times

WINDOW = 4 * 3600


def windows(jobs: pd.DataFrame) -> pd.DataFrame:
    """Average waits and use of a job table in submission order over windows of four hours from the first submission on.

    A row per window with a submission whose wait is known: means of ``wait``, s, and ``cpus`` in use, and the ``hour``
    of the day, UTC, at which it opens.
    """
    features = site_features(jobs)
    submit = jobs["submit_time"].to_numpy()
    first = int(submit.min())
    known = {"window": (submit - first) // WINDOW, "wait": wait_times(jobs), "cpus": features["cpus_in_use"].to_numpy()}
    means = pd.DataFrame(known).dropna(subset=["wait"]).groupby("window").mean()
    return means.assign(hour=(first + means.index.to_numpy() * WINDOW) // 3600 % 24).reset_index()


def steps(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn windows into steps to each from the one before: ``d_wait`` and ``d_cpus``, and its ``hour``."""
    changes = frame[["wait", "cpus"]].diff().set_axis(["d_wait", "d_cpus"], axis=1)
    return changes.assign(hour=frame["hour"]).iloc[1:]


def fit_line(d_cpus: np.ndarray, d_wait: np.ndarray) -> np.poly1d:
    """Fit the published regression by least squares: from the change of CPUs in use to that of the mean wait, s."""
    if len(d_cpus) < 2 or np.ptp(d_cpus) == 0:
        return np.poly1d([float(np.mean(d_wait)) if len(d_wait) else 0.0])
    return np.poly1d(np.polyfit(d_cpus, d_wait, 1))


def balanced_accuracy(rises: np.ndarray, calls: np.ndarray) -> float:
    """Return the mean recall of rises and of falls; NaN without both."""
    if rises.all() or not rises.any():
        return float("nan")
    return float((calls[rises].mean() + (~calls[~rises]).mean()) / 2)


def permutation_p(rises: np.ndarray, calls: np.ndarray, seed: int) -> float:
    """Return how often 999 shuffles of the calls do as well as these, (1 + hits) / 1000."""
    rng = np.random.default_rng(seed)
    reached = balanced_accuracy(rises, calls)
    return (1 + sum(balanced_accuracy(rises, rng.permutation(calls)) >= reached for _ in range(999))) / 1000


def judge_trend(jobs: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Evaluate the published line and a seasonal-naive call on a random and a chronological split.

    Returns
    -------
    pandas.DataFrame
        ``split, method, n_windows, n_test, balanced_accuracy, accuracy, p_value, rmse`` and, for the
        published line, both readings of its confusion matrix: positive = falls, ``tp fp fn tn`` as stated,
        and ``accuracy_as_published``, the share of calls "falls", which the published count amounts to.
    """
    table = steps(windows(jobs))
    if len(table) < 30:
        raise TableError(f"the log has {len(table)} four-hour steps; at least 30 are needed to judge a trend")
    rises = (table["d_wait"] > 0).to_numpy()
    rows = []
    for split in ("random", "chronological"):
        test = np.zeros(len(table), bool)
        if split == "random":
            test[np.random.default_rng(seed).permutation(len(table))[: len(table) // 5]] = True
        else:
            test[int(len(table) * 0.8) :] = True
        train = table[~test]
        line = fit_line(train["d_cpus"].to_numpy(), train["d_wait"].to_numpy())
        change = line(table.loc[test, "d_cpus"].to_numpy())
        season = train.groupby("hour")["d_wait"].mean()
        seasonal = table.loc[test, "hour"].map(season).fillna(0.0).to_numpy()
        actual = table.loc[test, "d_wait"].to_numpy()
        truth = rises[test]
        for method, value in (("published", change), ("seasonal_naive", seasonal)):
            calls = value > 0
            counts = {"tp": ~calls & ~truth, "fp": ~calls & truth, "fn": calls & ~truth, "tn": calls & truth}
            row: dict[str, object] = {"split": split, "method": method}
            row |= {"n_windows": len(table) + 1, "n_test": int(test.sum())}
            row |= {"balanced_accuracy": balanced_accuracy(truth, calls), "accuracy": float((truth == calls).mean())}
            row |= {"p_value": permutation_p(truth, calls, seed)}
            row |= {"rmse": float(np.sqrt(np.mean((value - actual) ** 2)))}
            row |= {name: int(held.sum()) for name, held in counts.items()}
            rows.append(row | {"accuracy_as_published": float((~calls).mean())})
    return pd.DataFrame(rows)
