"""Judge our queue-time model on two published data sets, whose rows hold ready-made features and a wait.

python benchmarks/queue_time_published.py ROWS.parquet --seed 0 --seed 1

The settings below were chosen for them (docs/claims/queue-time.md).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.files import check_parquet
from procure.queue_time.booster import fit_booster
from procure.queue_time.metrics import HOURS, LEVELS, Forecast, judge
from procure.queue_time.splits import Split, chronological, random_split
from procure.workload.clock import moment as moment_of

AFTERWARDS = (
    "elapsed_time", "start_time", "end_time", "state", "alloc_nodes", "submit_wait_sec", "eligible_wait_sec",
    "poll_wait_sec", "queue_time_s", "wait_time", "kmeans57_cluster", "published_gbt_prediction_s",
)  # fmt: skip
"""Columns known only after a job has started, or made by another model: never features."""
TARGETS = ("queue_time_s", "eligible_wait_sec", "poll_wait_sec", "submit_wait_sec", "wait_time")

HALF = np.array([0.5])


@dataclass(frozen=True)
class Direct:
    """How the boosters of the point and of the chances are fitted.

    ``power`` is the exponent of the wait whose mean gives the point (0 = log10); ``moves`` says whether a
    chance that contradicts the point moves it across the deadline; ``members`` of successive seeds are
    averaged; ``boosting`` is XGBoost's.
    """

    power: float
    moves: bool
    rounds: int
    members: int
    boosting: dict[str, object]

    def forecast(
        self,
        features: pd.DataFrame,
        wait: np.ndarray,
        split: Split,
        deadlines: Sequence[float],
        seed: int,
    ) -> Forecast:
        """Learn from the training rows and answer for the test rows; move quantiles that a chance contradicts."""
        matrix = features.to_numpy(dtype=np.float32)
        train, test, waited = matrix[split.train], matrix[split.test], wait[split.train]

        def averaged(objective: str, target: np.ndarray) -> np.ndarray:
            settings = self.boosting | {"objective": objective}
            fitted = (fit_booster(train, target, self.rounds, seed + one, **settings) for one in range(self.members))
            return np.mean([member.predict(test) for member in fitted], axis=0)

        def waits(said: np.ndarray) -> np.ndarray:
            return np.maximum(said, 0) ** (1 / self.power) if self.power else 10.0**said

        target = waited**self.power if self.power else np.log10(np.maximum(waited, 1))
        how = self.boosting | {"objective": "reg:quantileerror", "quantile_alpha": LEVELS}
        fitted = fit_booster(train, target, self.rounds, seed, **how)
        quantiles = np.sort(waits(fitted.predict(test)), axis=1)
        point = waits(averaged("reg:squarederror", target))
        stated = np.array([averaged("binary:logistic", (waited <= one).astype(float)) for one in deadlines])
        chances = dict(zip(deadlines, np.maximum.accumulate(stated), strict=True))
        if self.moves:
            point = agree(point[:, None], HALF, chances)[:, 0]
        quantiles = agree(quantiles, LEVELS, chances)
        return Forecast(point, quantiles, quantiles[:, [0, -1]], chances)


def agree(quantiles: np.ndarray, levels: np.ndarray, chances: dict[float, np.ndarray]) -> np.ndarray:
    """Move quantiles (n, q), s, across deadlines until each lies on the side that the chance of a start by it says."""
    for deadline, chance in chances.items():
        after = np.maximum(quantiles, np.nextafter(deadline, np.inf))
        quantiles = np.where(levels <= chance[:, None], np.minimum(quantiles, deadline), after)
    return quantiles


DIRECT_BY_TIME = Direct(
    power=0.0, moves=False, rounds=300, members=5,
    boosting={
        "max_depth": 4, "min_child_weight": 200, "colsample_bytree": 0.5, "colsample_bynode": 0.4, "eta": 0.08,
    },
)  # fmt: skip
"""The point of rows on later days: the mean of log10, in which they are judged."""
DIRECT_AT_RANDOM = Direct(
    power=0.25, moves=True, rounds=60, members=1,
    boosting={
        "max_depth": 10, "min_child_weight": 1, "colsample_bytree": 1.0, "colsample_bynode": 0.6, "eta": 0.2,
        "reg_lambda": 1.0,
    },
)  # fmt: skip


@dataclass(frozen=True)
class Ready:
    """Rows with features.

    ``moment`` (Unix s) is when each prediction is made, ``started`` when the job started, which only decides
    who may train; both None where the table gives no times.
    """

    features: pd.DataFrame
    wait: np.ndarray
    moment: np.ndarray | None
    started: np.ndarray | None
    published: np.ndarray | None
    target: str


def read_ready(path: Path, target: str | None = None) -> Ready:
    """Read ready-made features from Parquet with the column ``target``, or else the first of `TARGETS`, in seconds."""
    if not path.is_file():
        raise TableError(f"{path}: no such file")
    try:
        check_parquet(path)
        frame = pd.read_parquet(path)
    except Exception as error:  # pyarrow raises several classes for a damaged file
        raise TableError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    there = [name for name in TARGETS if name in frame.columns]
    if target is None and not there:
        raise TableError(f"{path}: none of the columns {', '.join(TARGETS)} is there to be predicted")
    target = target or there[0]
    if target not in frame.columns:
        raise TableError(f"{path}: column {target} is missing; waits there: {', '.join(there) or 'none'}")
    wait = frame[target].to_numpy(dtype=float)
    if np.isnan(wait).any() or (wait < 0).any():
        row = int(np.flatnonzero(np.isnan(wait) | (wait < 0))[0])
        raise TableError(f"{path}, row {row + 1}, column {target}: {wait[row]} is not a wait in seconds")
    moment = None
    for name in ("poll_time", "submit_time"):
        if name in frame.columns and moment is None:
            moment = _seconds(frame[name])
    started = None if moment is None else moment + wait.astype(np.int64)
    if "start_time" in frame.columns:
        started = _seconds(frame["start_time"])
    published = frame["published_gbt_prediction_s"].to_numpy(float) if "published_gbt_prediction_s" in frame else None
    return Ready(_numeric(frame, target), wait, moment, started, published, target)


def _seconds(values: pd.Series) -> np.ndarray:
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return values.astype("datetime64[s]").astype("int64").to_numpy()
    return values.to_numpy(dtype=np.int64)


def _numeric(frame: pd.DataFrame, target: str) -> pd.DataFrame:
    columns: dict[str, np.ndarray] = {}
    for name in frame.columns:
        values = frame[name]
        if name in AFTERWARDS or name.endswith("_id"):
            continue
        if pd.api.types.is_datetime64_any_dtype(values.dtype):
            continue
        if pd.api.types.is_numeric_dtype(values.dtype):
            columns[name] = values.to_numpy(dtype=np.float32, na_value=np.nan)
    for name in ("partition_id_x", "account_id"):
        if name in frame.columns:
            columns[name] = frame[name].to_numpy(dtype=np.float32)
    _moments(frame, target, columns)
    if "req_mem_total" in columns and "req_cpus" in columns and "time_limit_sec" in columns:
        columns["log_core_seconds"] = np.log1p(columns["req_cpus"] * columns["time_limit_sec"])
    for above in [name for name in columns if name.startswith("q_") and name.endswith("core_hours_above")]:
        running = above.replace("q_", "r_")
        if running in columns:
            columns[f"{above}_per_running"] = columns[above] / (columns[running] + 1)
    table = pd.DataFrame(columns)
    return table.where(np.isfinite(table))


def _moments(frame: pd.DataFrame, target: str, columns: dict[str, np.ndarray]) -> None:
    """Add the hour and weekday of submission and, for predictions at a poll, the time waited so far."""
    if "submit_time" not in frame.columns:
        return
    submit = _seconds(frame["submit_time"])
    columns["hour"], columns["weekday"] = submit / 3600 % 24, (submit // 86400 + 3) % 7
    if "poll_time" not in frame.columns:
        return
    poll = _seconds(frame["poll_time"])
    columns["waited_so_far"] = np.log1p(np.maximum(poll - submit, 0))
    if "eligible_time" in frame.columns:
        columns["eligible_so_far"] = np.log1p(np.maximum(poll - _seconds(frame["eligible_time"]), 0))
    keys = [n for n in ("submit_time", "account_id", "req_cpus", "time_limit_sec", "req_mem_total") if n in frame]
    columns["n_alike"] = frame.groupby([*keys, "poll_time"])["submit_time"].transform("size").to_numpy()
    if "account_id" in frame:
        columns["n_account"] = frame.groupby(["poll_time", "account_id"])["submit_time"].transform("size").to_numpy()
        _places(frame, columns)


PLACES = {
    "account": ["account_id"],
    "account_partition": ["account_id", "partition_id_x"],
    "account_shape": ["account_id", "req_cpus", "time_limit_sec"],
}
"""Among which of the jobs that a poll found a job's place in the queue is taken."""


def _places(frame: pd.DataFrame, columns: dict[str, np.ndarray]) -> None:
    """Add a job's place, by submission, among its account's jobs of the poll, and the CPU-hours before it.

    Jobs of one second are in the order of ``job_unique_id``, a number that is given at submission; without
    it they share their mean place.
    """
    by = [name for name in ("submit_time", "job_unique_id") if name in frame.columns]
    table = frame.assign(turn=frame.groupby(by).ngroup())
    for label, keys in PLACES.items():
        if set(keys) <= set(table.columns):
            within = table.groupby(["poll_time", *keys])["turn"]
            columns[f"place_{label}"] = within.rank().to_numpy(dtype=np.float32)
    if {"req_cpus", "time_limit_sec"} <= set(table.columns):
        table["hours"] = table["req_cpus"].astype(float) * table["time_limit_sec"] / 3600
        queue = table.groupby(["poll_time", "account_id", "turn"])["hours"].sum()
        before = (queue.groupby(level=[0, 1]).cumsum() - queue).rename("before").reset_index()
        found = table.merge(before, on=["poll_time", "account_id", "turn"], how="left")["before"]
        columns["account_hours_before"] = np.log1p(found.to_numpy(dtype=float)).astype(np.float32)


def evaluate_ready(
    ready: Ready,
    split: str = "random",
    *,
    seeds: tuple[int, ...] = (0,),
    test_from: int | None = None,
    deadline: float | None = None,
) -> list[dict]:
    """Evaluate our model on ready-made features; return rows as `evaluation.evaluate` does, with ``seed``.

    ``random`` is one random split a seed, plain and with duplicate feature rows kept on one side; ``chronological``
    tests predictions from ``test_from`` (Unix s) on. ``deadline``, s, stands in place of the training rows' mean wait.
    """
    rows: list[dict] = []
    for seed in seeds:
        if split == "random":
            alike = pd.util.hash_pandas_object(ready.features, index=False).to_numpy()
            plain, kept = random_split(len(ready.wait), seed), random_split(len(ready.wait), seed, alike)
            made = [plain, replace(kept, name="random-duplicates-together")]
        elif ready.moment is None or ready.started is None:
            raise TableError(f"the features carry no times; only --split random can be judged, not {split}")
        else:
            made = [chronological(ready.moment, ready.started - ready.moment, test_from)]
        for one in made:
            features = ready.features if one.cut is None else ready.features[not_dates(ready)]
            base, wait = ready.wait[one.train], ready.wait[one.test]
            deadlines = {"mean": float(base.mean()) if deadline is None else deadline}
            deadlines |= {f"{hours}h": hours * 3600.0 for hours in HOURS}
            direct = DIRECT_AT_RANDOM if one.cut is None else DIRECT_BY_TIME
            said = {
                "procure": direct.forecast(features, ready.wait, one, sorted(set(deadlines.values())), seed),
                "zero": Forecast(np.zeros(len(wait))), "mean": Forecast(np.full(len(wait), base.mean())),
                "median": Forecast(np.full(len(wait), np.median(base))),
            }  # fmt: skip
            if ready.published is not None:
                said["published"] = Forecast(ready.published[one.test])
            for method, forecast in said.items():
                head = {"split": one.name, "method": method}
                for row in judge(wait, forecast, deadlines, base):
                    label = {key: row.pop(key) for key in ("deadline_label", "deadline")}
                    counts = {"n_train": len(one.train), "n_test": len(one.test), "seed": seed}
                    rows.append(head | label | counts | row)
    return rows


def not_dates(ready: Ready) -> list[str]:
    """Name the features that vary within a moment.

    One that hardly does says which day it is, not what the job is like; a model that has seen forty days
    learns them by heart, and the next day is another.
    """
    distinct = ready.features.groupby(ready.moment).nunique().mean()
    return [str(name) for name in ready.features.columns if distinct[name] > 2.5] or list(ready.features.columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="a Parquet file with features and a wait per row")
    parser.add_argument("--seed", action="append", type=int, help="one random split each; default 0")
    parser.add_argument("--target", help="which wait to predict; by default the first that is there")
    parser.add_argument("--test-from", help="chronological split; first test moment: ISO time or Unix seconds")
    given = parser.parse_args()
    ready, cut, split = read_ready(given.rows, given.target), None, "random"
    if given.test_from is not None:
        cut, split = moment_of(given.test_from, "UTC"), "chronological"
    rows = evaluate_ready(ready, split, seeds=(*(given.seed or [0]),), test_from=cut)
    print(json.dumps([{k: None if v != v else v for k, v in row.items()} for row in rows], indent=2))


if __name__ == "__main__":
    try:
        main()
    except TableError as error:
        sys.exit(str(error))
