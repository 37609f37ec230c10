"""How good the forecasts are, made one after another as the log went on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.forecast.confidence import MODES, Forecasts, make_forecasts
from procure.forecast.forecaster import confidence_of
from procure.forecast.known import NEVER
from procure.forecast.periods import DAY, PERIODS, Patterns, PatternSettings, find_patterns
from procure.progress import silent
from procure.text import Shown

SOFT, HARD = 1 / 3, 2 / 3
"""The published borders: from the first on a reservation is held, from the second on it is not given up."""
_LEAST_SHARE = 0.01
"""Of the forecasts, in a tenth of the confidence that says something of its calibration."""


@dataclass(frozen=True)
class Judged(Shown):
    """What an evaluation gave.

    Attributes
    ----------
    rows
        A record per period and confidence mode, as `judge` says.
    bins
        Per period, mode and tenth of the confidence: ``n stated came``.
    notes
        Stated fallbacks.
    """

    rows: list[dict[str, Any]]
    bins: pd.DataFrame
    notes: list[str]

    title = "forecasts judged by what came"

    @property
    def table(self) -> pd.DataFrame:
        """The rows as a table."""
        return pd.DataFrame(self.rows)


def evaluate(
    jobs: pd.DataFrame,
    settings: PatternSettings | None = None,
    modes: Sequence[str] = MODES,
    *,
    seed: int = 0,
    progress: Callable[[str], None] = silent,
) -> Judged:
    """Judge every forecast from the third period on whose outcome the log knows.

    Parameters
    ----------
    jobs
        A checked job table.
    seed
        Of the negative controls.

    Raises
    ------
    TableError
        The log is shorter than two days, or no forecast can be judged.

    Examples
    --------
    >>> import procure
    >>> set(procure.evaluate_forecasts(procure.read_log("week.parquet").jobs).table["period"])
    {'day'}
    """
    patterns = find_patterns(jobs, settings)
    hours = cpu_hours(jobs, patterns)
    shuffled = find_patterns(shuffle_days(jobs, seed, patterns.settings.tz), patterns.settings)
    rows, bins, notes = [], [], list(patterns.notes)
    for name in patterns.layers():
        f = make_forecasts(patterns, name)
        judged = _judged(patterns, f, name)
        if not judged.any():
            notes.append(f"{name}: no forecast could be judged")
            continue
        if f.came[judged].all() or not f.came[judged].any():
            came = "came true" if f.came[judged].any() else "failed"
            notes.append(
                f"{name}: all of {judged.sum()} forecasts {came}: there is nothing to rank, so no AUC and no gain"
            )
        for mode in modes:
            progress(f"{name}: {mode}")
            sure = confidence_of(patterns, f, mode)
            row = {"period": name, "confidence": mode} | judge(sure[judged], f.came[judged], seed)
            row |= reserved(sure, f, hours, judged)
            row["auc_within"] = auc_within(sure[judged], f.came[judged], f.key[judged])
            row |= _shuffled(shuffled, name, mode)
            rows.append(row)
            bins.append(calibration(sure[judged], f.came[judged]).assign(period=name, confidence=mode))
    if not rows:
        raise TableError("; ".join(notes) or "no forecast can be judged: the log holds no two periods")
    missing = [name for name in PERIODS if name not in patterns.layers()]
    if missing:
        notes.append(f"the log holds less than two periods of {', '.join(missing)}: not judged")
    return Judged(rows, pd.concat(bins, ignore_index=True), notes)


def _judged(patterns: Patterns, forecasts: Forecasts, name: str) -> np.ndarray:
    return (forecasts.known < NEVER) & (forecasts.issued >= patterns.first + 2 * PERIODS[name])


def _shuffled(patterns: Patterns, name: str, mode: str) -> dict[str, float]:
    """Judge the ranking of the control, all in all and within each key."""
    f = make_forecasts(patterns, name)
    judged = _judged(patterns, f, name)
    sure, came = confidence_of(patterns, f, mode)[judged], f.came[judged]
    return {
        "auc_days_shuffled": auc(sure, came),
        "auc_within_days_shuffled": auc_within(sure, came, f.key[judged]),
    }


def judge(sure: np.ndarray, came: np.ndarray, seed: int = 0) -> dict[str, Any]:
    """Measure stated chances against outcomes.

    Returns
    -------
    dict
        ``n_forecasts n_hits base_rate auc brier brier_constant`` (of the base rate, known afterwards, for
        all), ``brier_gain`` (share below the constant's), ``worst_tenth``, and ``auc_outcomes_shuffled``.
    """
    base = float(came.mean())
    brier, constant = float(np.mean((sure - came) ** 2)), base * (1 - base)
    mixed = np.random.default_rng(seed).permutation(came)
    return {
        "n_forecasts": len(came),
        "n_hits": int(came.sum()),
        "base_rate": base,
        "auc": auc(sure, came),
        "brier": brier,
        "brier_constant": constant,
        "brier_gain": 1 - brier / constant if constant else np.nan,
        "worst_tenth": worst_tenth(sure, came),
        "auc_outcomes_shuffled": auc(sure, mixed),
    }


def worst_tenth(sure: np.ndarray, came: np.ndarray) -> float:
    """Return the largest difference of stated and observed in a tenth of the confidence with 1 % of the forecasts.

    Of no forecasts it is NaN.
    """
    tenth = _tenth(sure)
    n, above = np.bincount(tenth), np.bincount(tenth, sure - came)
    enough = n >= max(1, _LEAST_SHARE * len(came))
    return float(np.max(np.abs(above[enough]) / n[enough])) if enough.any() else float("nan")


def auc(sure: np.ndarray, came: np.ndarray) -> float:
    """Return the chance that a fulfilled forecast was surer than a missed one; ties count half."""
    n, hits = len(came), int(came.sum())
    if hits in (0, n):
        return float("nan")
    ranks = pd.Series(sure).rank().to_numpy()[np.asarray(came, bool)].sum()
    return float((ranks - hits * (hits + 1) / 2) / (hits * (n - hits)))


def auc_within(sure: np.ndarray, came: np.ndarray, group: np.ndarray) -> float:
    """Return the same of the pairs within one group; who comes often then counts for nothing.

    Parameters
    ----------
    group
        int64[n].
    """
    order = np.lexsort((sure, group))
    right = pairs = 0.0
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        hits = int(came[rows].sum())
        if n := hits * (len(rows) - hits):
            right += auc(sure[rows], came[rows]) * n
            pairs += n
    return right / pairs if pairs else float("nan")


def calibration(sure: np.ndarray, came: np.ndarray) -> pd.DataFrame:
    """Return, per tenth of the confidence: ``tenth n stated came``."""
    frame = pd.DataFrame({"tenth": _tenth(sure), "stated": sure, "came": came.astype(float)})
    found = frame.groupby("tenth").agg(n=("came", "size"), stated=("stated", "mean"), came=("came", "mean"))
    return found.reset_index()


def _tenth(sure: np.ndarray) -> np.ndarray:
    return np.minimum((sure * 10).astype(int), 9)


def cpu_hours(jobs: pd.DataFrame, patterns: Patterns) -> np.ndarray:
    """Return the CPU-hours of each burst of these patterns, float64[n_bursts]."""
    burst = Patterns(patterns.settings).extend(jobs)
    cpus = (jobs["cpus_per_node"].clip(lower=1) * jobs["n_nodes"]).to_numpy(np.float64)
    return np.bincount(burst, cpus * jobs["run_time"].to_numpy(np.float64) / 3600, len(patterns.bursts.key))


def reserved(sure: np.ndarray, forecasts: Forecasts, hours: np.ndarray, judged: np.ndarray) -> dict[str, float]:
    """Measure what reservations for these forecasts would have held.

    A reservation is as large as the burst that is to come again was. Of the published borders: ``precision``
    is the share of reserved CPU-hours whose burst came, ``recall`` the share of the CPU-hours of all bursts
    that were followed by a like one; ``recall_all`` of all bursts, recurring or not.
    """
    size, came = hours[forecasts.burst][judged], forecasts.came[judged]
    total, again = size.sum(), size[came].sum()
    found = {}
    for name, border in (("soft", SOFT), ("hard", HARD)):
        held = sure[judged] >= border
        hit = size[held & came].sum()
        found[f"precision_{name}"] = float(hit / size[held].sum()) if size[held].sum() else float("nan")
        found[f"recall_{name}"] = float(hit / again) if again else float("nan")
        found[f"recall_all_{name}"] = float(hit / total) if total else float("nan")
    return found


def shuffle_days(jobs: pd.DataFrame, seed: int, tz: str | None = None) -> pd.DataFrame:
    """Put each user's day of jobs onto a random day of the log, the time of day kept: what recurs is chance."""
    submit = jobs["submit_time"].to_numpy(np.int64)
    day = (submit - submit.min()) // DAY
    group = pd.factorize(pd.MultiIndex.from_arrays([jobs["user"].to_numpy(), day]))[0]
    fresh = np.random.default_rng(seed).integers(0, day.max() + 1, group.max() + 1)
    moved = jobs.assign(submit_time=submit + (fresh[group] - day) * DAY)
    return moved.sort_values("submit_time", kind="stable").reset_index(drop=True)
