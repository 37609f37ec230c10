"""The one door to XGBoost: the chance that a forecast comes true, learnt from what was known by then."""

from __future__ import annotations

import numpy as np
import xgboost
from scipy.special import logit

from procure.forecast.confidence import Forecasts, by_length, check_mode, hazard, rates
from procure.forecast.known import Known, since_first, since_last
from procure.forecast.periods import DAY, PERIODS, Patterns

FEWEST, FEWEST_CAME = 100, 10
"""Known outcomes, and among them fulfilled ones, that a model needs; before, the hazard stands."""
_GROWTH = 1.05
"""A model is fitted anew at the first midnight (after the log's beginning) with so many times the outcomes."""
_MOST = 20_000
"""Of the outcomes known at a fit the last ones."""
_ROUNDS = 150
_SETTINGS = {
    "objective": "binary:logistic",
    "max_depth": 3,
    "eta": 0.05,
    "min_child_weight": 10,
    "subsample": 0.7,
    "colsample_bytree": 0.5,
    "reg_lambda": 5.0,
    "nthread": 1,
    "verbosity": 0,
}
_LONG_AGO = 40 * DAY


def confidence_of(patterns: Patterns, forecasts: Forecasts, mode: str) -> np.ndarray:
    """Return the confidence of each forecast under one of `MODES`, float64[n] in [0, 1]."""
    check_mode(mode)
    if mode == "boosted":
        return boosted(patterns, forecasts)
    return hazard(forecasts) if mode == "hazard" else by_length(forecasts, survival=mode == "survival")


def boosted(patterns: Patterns, forecasts: Forecasts) -> np.ndarray:
    """Return the confidence of each forecast, float64[n], from a model of what was known at that day's beginning.

    Days are counted from the log's first submission.
    """
    f, came = forecasts, forecasts.came.astype(np.float64)
    table, found = features(patterns, f), hazard(f)
    by_known = np.argsort(f.known, kind="stable")
    known = f.known[by_known]
    day = (f.issued - patterns.first) // DAY
    model, n_fitted = None, 0
    for number in np.unique(day).tolist():
        low, high = np.searchsorted(day, [number, number + 1]).tolist()
        n_known = int(np.searchsorted(known, patterns.first + number * DAY, "right"))
        latest = by_known[max(0, n_known - _MOST) : n_known]
        if n_known >= max(FEWEST, _GROWTH * n_fitted) and FEWEST_CAME <= came[latest].sum() < len(latest):
            data = xgboost.QuantileDMatrix(table[latest], came[latest], nthread=1)
            how = _SETTINGS | {"seed": 0, "base_score": float(came[latest].mean())}
            model, n_fitted = xgboost.train(how, data, _ROUNDS), n_known
        if model is not None:
            found[low:high] = model.inplace_predict(table[low:high])
    return found


def features(patterns: Patterns, forecasts: Forecasts) -> np.ndarray:
    """Return a row per forecast, float32, of what is known when it is made.

    The confidences without a model and the shares that they are made of; the lengths of the patterns in every layer;
    bursts of the same key and user in the last 1, 7 and 28 days, and about the same time of 1 to 7 days and 1 to 4
    weeks before; gaps and ages; hour, weekday now and at the forecast; the request.
    """
    f, b = forecasts, patterns.bursts
    found = rates(f)
    columns = [by_length(f, survival=False), by_length(f, survival=True), logit(hazard(f))]
    columns += [found.of_length, found.of_user, found.of_key, found.n_user, found.n_key, found.overall, *b.length]
    columns += _counts(f.key, patterns) + _counts(f.user, patterns)
    then = b.local + list(PERIODS.values())[f.layer]
    columns += [b.local // 3600 % 24, *((moment // DAY + 4) % 7 for moment in (b.local, then))]
    names = [name for name in ("cpus", "limit", "mem", "gpus") if name in patterns.keys]
    columns += [patterns.keys[name].to_numpy(np.float64)[f.key] for name in names]
    return np.column_stack(columns).astype(np.float32)


def _counts(group: np.ndarray, patterns: Patterns) -> list[np.ndarray]:
    """Count a group's earlier bursts, lately and about the same time of earlier days and weeks."""
    start, local, settings = patterns.bursts.start, patterns.bursts.local, patterns.settings
    lately, by_clock = Known(group, start), Known(group, local)

    def about(before: int, tolerance: int) -> np.ndarray:
        return by_clock.until(group, local - before + tolerance, local - before - tolerance)[0]

    days = [about(n * DAY, settings.day_tolerance) > 0 for n in range(1, 8)]
    return [
        *(lately.until(group, start - 1, start - n * DAY)[0] for n in (1, 7, 28)),
        *(days[n - 1] for n in (1, 2, 3, 7)),
        np.sum(days, axis=0),
        *(about(7 * n * DAY, settings.week_tolerance) for n in range(1, 5)),
        since_last(group, start, _LONG_AGO),
        since_first(group, start),
    ]
