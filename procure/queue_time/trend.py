"""Is the queue growing? The mean wait of the next four hours against that of the last four.

The published way: consecutive windows of four hours from the first submission, those with a submission; a
straight line from the change in mean CPUs in use to the change in mean wait. It looks at the change of
CPUs in the window whose wait it predicts. Ours uses only what is known when the window opens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.queue_time.features import site_features
from procure.queue_time.log import wait_times

WINDOW = 4 * 3600


def windows(jobs: pd.DataFrame, features: pd.DataFrame | None = None) -> pd.DataFrame:
    """Average waits and use over windows of four hours aligned to the first submission.

    Parameters
    ----------
    jobs
        A job table in submission order, with start times.
    features
        Its `site_features`, if at hand.

    Returns
    -------
    pandas.DataFrame
        One row per window with a submission whose wait is known: ``window, n, wait, cpus, depth, backlog,
        started`` (means; seconds, CPUs, jobs) and ``known_wait``: the mean wait of the jobs that started
        before the window's end.
    """
    features = site_features(jobs) if features is None else features
    wait = wait_times(jobs)
    submit = jobs["submit_time"].to_numpy()
    number = (submit - submit.min()) // WINDOW
    frame = pd.DataFrame(
        {
            "window": number,
            "wait": wait,
            "cpus": features["cpus_in_use"].to_numpy(dtype=float),
            "depth": features["queue_depth"].to_numpy(dtype=float),
            "backlog": features["backlog_seconds"].to_numpy(dtype=float),
        }
    ).dropna(subset=["wait"])
    grouped = frame.groupby("window")
    means = grouped[["wait", "cpus", "depth", "backlog"]].mean()
    means.insert(0, "n", grouped.size())
    start = submit + wait
    done = ~np.isnan(start)
    began = pd.DataFrame({"window": (start[done] - submit.min()) // WINDOW, "known_wait": wait[done]})
    means["known_wait"] = began.groupby("window")["known_wait"].mean()
    means["hour"] = (submit.min() + means.index.to_numpy() * WINDOW) // 3600 % 24
    means["weekday"] = ((submit.min() + means.index.to_numpy() * WINDOW) // 86400 + 3) % 7
    return means.reset_index()


def steps(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn windows into steps from each to the next in the table.

    ``d_wait`` and ``d_cpus`` are the next window's less this one's; the rest is known when the next opens.
    """
    after, now = frame.iloc[1:].reset_index(drop=True), frame.iloc[:-1].reset_index(drop=True)
    before = frame.shift(1).iloc[:-1].reset_index(drop=True)
    known = now["known_wait"].ffill().fillna(0.0)
    return pd.DataFrame(
        {
            "window": after["window"],
            "d_wait": after["wait"] - now["wait"],
            "d_cpus": after["cpus"] - now["cpus"],
            "log_wait": np.log1p(known),
            "log_depth": np.log1p(now["depth"]),
            "log_backlog": np.log1p(now["backlog"]),
            "cpus": now["cpus"],
            "log_last": np.log1p(known.shift(1).fillna(0.0)),
            "grew": (now["depth"] - before["depth"]).fillna(0.0),
            "hour_sin": np.sin(2 * np.pi * after["hour"] / 24),
            "hour_cos": np.cos(2 * np.pi * after["hour"] / 24),
            "weekend": (after["weekday"] >= 5).astype(float),
            "hour": after["hour"],
            "weekday": after["weekday"],
        }
    )


KNOWN = ("log_wait log_depth log_backlog cpus log_last grew hour_sin hour_cos weekend").split()
"""What is known of a step when its window opens."""


def fit_line(d_cpus: np.ndarray, d_wait: np.ndarray) -> np.poly1d:
    """Fit the published regression by least squares: from the change of CPUs in use to that of the mean wait, s."""
    if len(d_cpus) < 2 or np.ptp(d_cpus) == 0:
        return np.poly1d([float(np.mean(d_wait)) if len(d_wait) else 0.0])
    return np.poly1d(np.polyfit(d_cpus, d_wait, 1))


def fit_chance(train: pd.DataFrame) -> dict[str, Any]:
    """Fit the probability that the mean wait rises, by logistic regression; returns plain numbers."""
    from sklearn.linear_model import LogisticRegression

    matrix = train[KNOWN].to_numpy(dtype=float)
    rises = (train["d_wait"] > 0).to_numpy()
    centre, scale = matrix.mean(axis=0), matrix.std(axis=0) + 1e-9
    if rises.all() or not rises.any():
        raise TableError("every window's wait moved the same way; a trend cannot be learnt from so short a log")
    fitted = LogisticRegression(C=0.1, max_iter=500).fit((matrix - centre) / scale, rises)
    return {
        "centre": centre.tolist(),
        "scale": scale.tolist(),
        "weights": fitted.coef_[0].tolist(),
        "intercept": float(fitted.intercept_[0]),
    }


def chance_of_rise(fitted: dict[str, Any], rows: pd.DataFrame) -> np.ndarray:
    """Return the chance that the mean wait of the next window exceeds this one's."""
    matrix = (rows[KNOWN].to_numpy(dtype=float) - np.array(fitted["centre"])) / np.array(fitted["scale"])
    return 1 / (1 + np.exp(-(matrix @ np.array(fitted["weights"]) + fitted["intercept"])))


def balanced_accuracy(rises: np.ndarray, calls: np.ndarray) -> float:
    """Return the mean recall of rises and of falls; NaN without both."""
    if rises.all() or not rises.any():
        return float("nan")
    return float((calls[rises].mean() + (~calls[~rises]).mean()) / 2)


def permutation_p(rises: np.ndarray, calls: np.ndarray, seed: int, n_permutations: int = 999) -> float:
    """Return how often shuffled calls do as well as these, (1 + hits) / (1 + permutations)."""
    rng = np.random.default_rng(seed)
    reached = balanced_accuracy(rises, calls)
    hits = sum(balanced_accuracy(rises, rng.permutation(calls)) >= reached for _ in range(n_permutations))
    return (1 + hits) / (1 + n_permutations)


def judge_trend(jobs: pd.DataFrame, features: pd.DataFrame | None = None, seed: int = 0) -> pd.DataFrame:
    """Evaluate the published line, a seasonal-naive call and ours, on a random and a chronological split.

    Returns
    -------
    pandas.DataFrame
        ``split, method, n_windows, n_test, balanced_accuracy, accuracy, p_value, rmse`` and, for the
        published line, both readings of its confusion matrix: positive = falls, ``tp fp fn tn`` as stated,
        and ``accuracy_as_published``, the share of calls "falls", which the published count amounts to.
    """
    table = steps(windows(jobs, features))
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
        ours = chance_of_rise(fit_chance(train), table[test]) > 0.5
        actual = table.loc[test, "d_wait"].to_numpy()
        for method, calls, value in (
            ("published", change > 0, change),
            ("seasonal_naive", seasonal > 0, seasonal),
            ("procure", ours, None),
        ):
            truth = rises[test]
            rows.append(
                {
                    "split": split,
                    "method": method,
                    "n_windows": len(table) + 1,
                    "n_test": int(test.sum()),
                    "balanced_accuracy": balanced_accuracy(truth, calls),
                    "accuracy": float((truth == calls).mean()),
                    "p_value": permutation_p(truth, calls, seed),
                    "rmse": None if value is None else float(np.sqrt(np.mean((value - actual) ** 2))),
                    "tp": int((~calls & ~truth).sum()),
                    "fp": int((~calls & truth).sum()),
                    "fn": int((calls & ~truth).sum()),
                    "tn": int((calls & truth).sum()),
                    "accuracy_as_published": float((~calls).mean()),
                }
            )
    return pd.DataFrame(rows)


def fit_trend(jobs: pd.DataFrame, features: pd.DataFrame) -> dict[str, Any]:
    """Fit the trend that a model file carries, with the record of its calls on the last fifth."""
    table = steps(windows(jobs, features))
    if len(table) < 30 or (table["d_wait"] > 0).nunique() < 2:
        return {}
    fitted = fit_chance(table)
    judged = judge_trend(jobs, features)
    own = judged[(judged["method"] == "procure") & (judged["split"] == "chronological")].iloc[0]
    record = {name: float(own[name]) for name in ("n_test", "balanced_accuracy", "accuracy", "p_value")}
    return fitted | {"record": record, "now": call_now(fitted, jobs, features)}


def call_now(fitted: dict[str, Any], jobs: pd.DataFrame, features: pd.DataFrame) -> dict[str, float]:
    """Call the next four hours from the last window of a log."""
    table = windows(jobs, features)
    following = table.iloc[[-1]].copy()
    following["window"] += 1
    hour = following["hour"] + WINDOW // 3600
    following["hour"], following["weekday"] = hour % 24, (following["weekday"] + hour // 24) % 7
    row = steps(pd.concat([table.tail(3), following], ignore_index=True)).iloc[[-1]]
    return {
        "chance_up": float(chance_of_rise(fitted, row)[0]),
        "last_mean_wait": float(table["wait"].iloc[-1]),
    }


def describe_call(fitted: dict[str, Any]) -> dict[str, Any]:
    """Return the direction of the next four hours, its chance, and the record of past calls."""
    now, record = fitted["now"], fitted["record"]
    up = now["chance_up"] > 0.5
    return {
        "direction": "up" if up else "down",
        "probability": now["chance_up"] if up else 1 - now["chance_up"],
        "last_mean_wait": now["last_mean_wait"],
        "record_calls": record["n_test"],
        "record_balanced_accuracy": record["balanced_accuracy"],
        "record_p_value": record["p_value"],
    }
