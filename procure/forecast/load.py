"""How many CPUs will be in use in the next hours and days, with an interval, against the same hour before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.forecast.boosted import fit_quantiles, predict_quantiles
from procure.forecast.confidence import hazard, make_forecasts
from procure.forecast.periods import Patterns, PatternSettings
from procure.workload.clock import to_local

HOUR, WEEK_HOURS = 3600, 168
HORIZONS = (1, 4, 12, 24, 48, 96, 168)
"""Hours ahead."""
_EVERY = 6
"""Hours between the moments at which the load is forecast."""
_TRAINED_ON = 0.7
"""Of the log, the first part; the rest is judged."""
_FEWEST_HOURS = 4 * WEEK_HOURS


def hourly_load(jobs: pd.DataFrame) -> tuple[int, np.ndarray]:
    """Return the first hour, s, and the mean CPUs in use in each hour until the last submission.

    A job whose start the log does not know is taken to start when it is submitted.
    """
    submit = jobs["submit_time"].to_numpy(np.int64)
    start = submit.astype(np.float64)
    if "start_time" in jobs:
        logged = pd.to_numeric(jobs["start_time"], errors="coerce").to_numpy(np.float64, na_value=np.nan)
        start = np.where(np.isnan(logged), start, logged)
    end = start + jobs["run_time"].to_numpy(np.float64)
    cpus = (jobs["cpus_per_node"].clip(lower=1) * jobs["n_nodes"]).to_numpy(np.float64)
    first = int(submit.min()) // HOUR * HOUR
    edges = first + HOUR * np.arange((int(submit.max()) - first) // HOUR + 1)

    def used_until(begin: np.ndarray) -> np.ndarray:
        """CPU-seconds until each edge, if every job ran on from ``begin``."""
        order = np.argsort(begin)
        n = np.searchsorted(begin[order], edges, "right")
        total = np.concatenate([[0], np.cumsum(cpus[order])])
        weighted = np.concatenate([[0], np.cumsum(cpus[order] * (begin[order] - first))])
        return total[n] * (edges - first) - weighted[n]

    return first, np.diff(used_until(start) - used_until(end)) / HOUR


@dataclass(frozen=True)
class LoadJudged:
    """What forecasting the load of the last part of a log gave.

    Attributes
    ----------
    errors
        Per horizon (hours): ``n``, mean absolute errors (CPUs) of the ``forecast``, of the ``seasonal_naive`` (same
        hour a week before), of ``no_change``, and ``covered``, the share within the 90 % interval.
    rows
        Every judged forecast: ``issued horizon target low expected high seasonal_naive actual``.
    """

    errors: pd.DataFrame
    rows: pd.DataFrame


def judge_load(jobs: pd.DataFrame, settings: PatternSettings | None = None, seed: int = 0) -> LoadJudged:
    """Forecast the load every six hours of the last 30 % of a log, by a model of the part before.

    The model, boosted quantiles of the change from now, sees the load of the last hour, day and week, that of the
    same hour a day and a week before, the hour and weekday, and the CPUs that patterns expect by then, weighted by
    their hazard.

    Raises
    ------
    TableError
        The log spans less than four weeks.
    """
    first, load = hourly_load(jobs)
    if len(load) < _FEWEST_HOURS:
        raise TableError(f"the log spans {len(load) / 24:.1f} days; the load needs {_FEWEST_HOURS // 24}")
    rows = _rows(first, load, jobs, settings)
    cut = first + HOUR * int(_TRAINED_ON * len(load))
    names = [name for name in rows if name not in ("issued", "target", "actual")]
    features = rows[names].to_numpy(np.float32)
    learnt, judged = (rows["target"] < cut).to_numpy(), (rows["issued"] >= cut).to_numpy()
    actual = rows["actual"].to_numpy()
    now = rows["now"].to_numpy()
    model = fit_quantiles(features[learnt], actual[learnt] - now[learnt], seed)
    quantiles = np.sort(predict_quantiles(model, features[judged]) + now[judged, None], axis=1).clip(0)
    shown = rows.loc[judged, ["issued", "horizon", "target", "actual", "week_before", "now"]].reset_index(drop=True)
    shown[["low", "expected", "high"]] = quantiles
    shown = shown.rename(columns={"week_before": "seasonal_naive", "now": "no_change"})
    return LoadJudged(_errors(shown), shown)


def _errors(rows: pd.DataFrame) -> pd.DataFrame:
    named = {"forecast": "expected", "seasonal_naive": "seasonal_naive", "no_change": "no_change"}
    table = pd.DataFrame({name: (rows[column] - rows["actual"]).abs() for name, column in named.items()})
    table["covered"] = ((rows["actual"] >= rows["low"]) & (rows["actual"] <= rows["high"])).astype(float)
    by_horizon = table.groupby(rows["horizon"])
    return by_horizon.mean().assign(n=by_horizon.size()).reset_index()


def _rows(first: int, load: np.ndarray, jobs: pd.DataFrame, settings: PatternSettings | None) -> pd.DataFrame:
    """Return a row per moment and horizon, with what was known then and what came."""
    patterns = Patterns(settings)
    patterns.extend(jobs)
    at = np.arange(WEEK_HOURS, len(load) - 1, _EVERY)
    total = np.concatenate([[0], np.cumsum(load)])
    parts = []
    for horizon in HORIZONS:
        now = at[at + horizon < len(load)]
        target = now + horizon
        days = 24 * -(-horizon // 24)
        moment = first + HOUR * target
        local = to_local(moment, patterns.settings.tz)
        parts.append(
            pd.DataFrame(
                {
                    "issued": first + HOUR * now,
                    "target": moment,
                    "actual": load[target],
                    "horizon": horizon,
                    "now": load[now - 1],
                    "day": (total[now] - total[now - 24]) / 24,
                    "week": (total[now] - total[now - WEEK_HOURS]) / WEEK_HOURS,
                    "day_before": load[np.minimum(target - days, now - 1)],
                    "week_before": load[np.minimum(target - WEEK_HOURS, now - 1)],
                    "hour": local // HOUR % 24,
                    "weekday": (local // (24 * HOUR) + 4) % 7,
                }
            )
        )
    rows = pd.concat(parts, ignore_index=True)
    rows["coming"] = _coming(patterns, jobs, rows["issued"].to_numpy(), rows["target"].to_numpy())
    return rows


def _coming(patterns: Patterns, jobs: pd.DataFrame, issued: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Sum the CPUs of single jobs that patterns expect between each moment and its target, times their hazard."""
    b = patterns.bursts
    burst = Patterns(patterns.settings).extend(jobs)
    cpus = np.zeros(len(b.key))
    cpus[burst] = (jobs["cpus_per_node"].clip(lower=1) * jobs["n_nodes"]).to_numpy(np.float64)
    found = np.zeros(len(issued))
    for name in ("day", "week"):
        f = make_forecasts(patterns, name)
        weight = cpus * hazard(f)
        for moment in np.unique(issued):
            of = issued == moment
            low, high = np.searchsorted(f.issued, (moment - 9 * 24 * HOUR, moment), "right")
            order = low + np.argsort(f.expected[low:high], kind="stable")
            summed = np.concatenate([[0], np.cumsum(weight[order])])
            until = np.searchsorted(f.expected[order], np.append(target[of], moment), "right")
            found[of] += summed[until[:-1]] - summed[until[-1]]
    return found
