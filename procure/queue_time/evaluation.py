"""Train and evaluate every method on the same splits, with naive baselines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.queue_time.baselines import guesses
from procure.queue_time.calibrate import chance_by, five, roll_chance
from procure.queue_time.features import site_features
from procure.queue_time.log import wait_times
from procure.queue_time.metrics import HOURS, Forecast, judge
from procure.queue_time.model import QueueTimeModel, Settings
from procure.queue_time.published import Published, best_k, sweep_k
from procure.queue_time.splits import Split, bursts, chronological, random_split, rolling

Method = Literal["procure", "kmeans-gbt", "gbt"]
METHODS: tuple[str, ...] = get_args(Method)
SPLITS = ("random", "chronological", "rolling")
COARSE_KS = (5, 10, 20, 40, 57, 80, 110, 150)
"""The numbers of groups among which an evaluation chooses on a validation part of its training rows."""

MONTHLY = {
    "max_rows": 30_000, "max_pairs": 200_000, "quantile_rounds": 100, "chance_rounds": 100, "eta": 0.12, "members": 1,
}  # fmt: skip
"""What a model that is trained again every month saves: older rows, rounds and members."""

Progress = Callable[[str], None]


@dataclass
class Evaluation:
    """The result of an evaluation.

    ``rows`` is one row per split, method and deadline; ``forecasts`` by (split, method) with the test rows'
    positions, so that a report can draw from them; ``curves`` the validation RMSE over k, by split.
    """

    jobs: pd.DataFrame
    features: pd.DataFrame
    wait: np.ndarray
    rows: list[dict] = field(default_factory=list)
    splits: dict[str, list[Split]] = field(default_factory=dict)
    forecasts: dict[tuple[str, str], tuple[np.ndarray, Forecast]] = field(default_factory=dict)
    curves: dict[str, pd.DataFrame] = field(default_factory=dict)


def queue_jobs(jobs: pd.DataFrame) -> pd.DataFrame:
    """Keep the jobs whose time in the queue is known: started, ended without a start, or still pending.

    Raises
    ------
    TableError
        No job has a start time.
    """
    if "start_time" not in jobs.columns or jobs["start_time"].isna().all():
        raise TableError("the log has no start times; waits cannot be learnt from it")
    known = jobs["start_time"].notna()
    if "end_time" in jobs.columns:
        known |= jobs["end_time"].notna()
    if "state" in jobs.columns:
        known |= jobs["state"].astype(str).str.upper().isin(["PENDING", "PD"])
    return jobs[known.to_numpy()].sort_values("submit_time", kind="stable").reset_index(drop=True)


def make_splits(
    name: str, jobs: pd.DataFrame, wait: np.ndarray, rows: np.ndarray, seed: int, cut: int | None
) -> list[Split]:
    """Make the splits of one name over the given rows; ``random`` makes a plain one and one by bursts."""
    submit = jobs["submit_time"].to_numpy()[rows]
    if name == "random":
        made = [
            random_split(len(rows), seed),
            random_split(len(rows), seed, bursts(jobs.iloc[rows])),
        ]
    elif name == "chronological":
        made = [chronological(submit, wait[rows], cut)]
    else:
        made = rolling(submit, wait[rows])
    return [Split(s.name, rows[s.train], rows[s.test], s.cut, s.label) for s in made]


def evaluate(
    jobs: pd.DataFrame,
    splits: Sequence[str] = ("chronological",),
    methods: Sequence[str] = METHODS,
    *,
    seed: int = 0,
    last: int | None = None,
    test_from: int | None = None,
    k: int | None = None,
    deadline: float | None = None,
    settings: Settings | None = None,
    replay: bool = False,
    progress: Progress = lambda text: None,
) -> Evaluation:
    """Evaluate methods on a job table.

    Parameters
    ----------
    jobs
        A checked job table with start times.
    splits, methods
        Among `SPLITS` and `METHODS`; the naive baselines are always added.
    seed
        Of splits and models.
    last
        Number of last jobs to train and test on; features still see the whole log.
    test_from
        Unix seconds from which jobs are test rows, for the chronological split.
    k
        Number of groups of the published pipeline; None chooses on a validation part.
    deadline
        Seconds, in place of the training rows' mean wait.
    settings
        Of our model.
    replay
        Add the replay's answer to our model's features.
    progress
        Called with a sentence at each step.
    """
    jobs = queue_jobs(jobs)
    progress(f"features of {len(jobs):,} jobs")
    found = Evaluation(jobs, site_features(jobs, replay=replay), wait_times(jobs))
    rows = np.flatnonzero(~np.isnan(found.wait))
    if last is not None:
        rows = rows[rows >= len(jobs) - last]
    for name in splits:
        made = make_splits(name, jobs, found.wait, rows, seed, test_from)
        for split_name in dict.fromkeys(split.name for split in made):
            group = [split for split in made if split.name == split_name]
            found.splits[split_name] = group
            _evaluate_split(found, split_name, group, methods, seed, k, deadline, settings, progress)
    return found


def _evaluate_split(
    found: Evaluation, name: str, group: list[Split], methods: Sequence[str], seed: int, k: int | None,
    deadline: float | None, settings: Settings | None, progress: Progress,
) -> None:  # fmt: skip
    test = np.concatenate([split.test for split in group])
    wait, base = found.wait[test], found.wait[group[0].train]
    deadlines = {"mean": float(base.mean()) if deadline is None else float(deadline)}
    deadlines |= {f"{hours}h": hours * 3600.0 for hours in HOURS}
    forecasts: dict[str, Forecast] = {}
    for method in methods:
        if method == "kmeans-gbt" and k is None:
            train = group[0].train
            curve = sweep_k(found.features.iloc[train], found.wait[train], COARSE_KS, seed + 1)
            found.curves[name], k = curve, best_k(curve)
            progress(f"{name}: k = {k} on a validation part of the training rows")
        forecasts[method] = _forecast(
            found, group, method, seed, k or 0, settings, list(deadlines.values()), progress
        )
    naive = [guesses(found.jobs, found.features, found.wait, split.train, split.test) for split in group]
    for guess in naive[0]:
        forecasts[guess] = Forecast(np.concatenate([part[guess].point for part in naive]))
    for method, forecast in forecasts.items():
        found.forecasts[name, method] = (test, forecast)
        head = {"split": name, "method": method}
        counts = {"n_train": len(group[-1].train), "n_test": len(test), "n_origins": len(group)}
        if method == "kmeans-gbt":
            counts["k"] = k or 0
        for row in judge(wait, forecast, deadlines, base):
            label = {key: row.pop(key) for key in ("deadline_label", "deadline")}
            found.rows.append(head | label | counts | row)


def _forecast(
    found: Evaluation, group: list[Split], method: str, seed: int, k: int, settings: Settings | None,
    deadlines: list[float], progress: Progress,
) -> Forecast:  # fmt: skip
    points, curves = [], []
    for split in group:
        progress(
            f"{split.name} {split.label}: {method}, {len(split.train):,} rows to train on".replace("  ", " ")
        )
        train, test = found.features.iloc[split.train], found.features.iloc[split.test]
        if method == "procure":
            submit = found.jobs["submit_time"].to_numpy()[split.train]
            chosen = settings or Settings(seed=seed, **(MONTHLY if split.name == "rolling" else {}))  # type: ignore[arg-type]
            model = QueueTimeModel(chosen).fit(train, found.wait[split.train], submit)
            curves.append(model.curve(test))
        else:
            published = Published(k if method == "kmeans-gbt" else 0, seed + 1)
            points.append(published.fit(train, found.wait[split.train]).predict(test))
    if method != "procure":
        return Forecast(np.concatenate(points))
    curve = np.concatenate(curves)
    if group[0].cut is None:
        quantiles = five(curve)
        return Forecast(quantiles[:, 2], quantiles, {d: chance_by(curve, d) for d in deadlines})
    rows = np.concatenate([split.test for split in group])
    submit, wait = found.jobs["submit_time"].to_numpy()[rows], found.wait[rows]
    quantiles = five(curve, model.calibrator.roll(submit, wait, curve))
    chances = {d: roll_chance(submit, wait, chance_by(curve, d), d) for d in deadlines}
    return Forecast(quantiles[:, 2], quantiles, chances, curve)


def coverage_by(jobs: pd.DataFrame, rows: np.ndarray, covered: np.ndarray, period: str = "W") -> pd.DataFrame:
    """Return the share of covered waits by week (``W``) or month (``M``) of submission: ``period, n, coverage``."""
    moment = pd.to_datetime(jobs["submit_time"].to_numpy()[rows], unit="s")
    frame = pd.DataFrame({"period": moment.to_period(period).astype(str), "covered": covered})
    grouped = frame.groupby("period")["covered"].agg(n="size", coverage="mean")
    return grouped.reset_index()
