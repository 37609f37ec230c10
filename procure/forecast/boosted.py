"""The one door to XGBoost: the chance that a forecast comes true, learnt and calibrated as time goes on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import xgboost

from procure.forecast.calibration import WINDOW, recalibrated
from procure.forecast.confidence import Forecasts, hazard
from procure.forecast.features import Rows
from procure.forecast.lags import Lagged, lagged
from procure.forecast.periods import DAY, PERIODS, Patterns

FEWEST, FEWEST_CAME = 100, 10
"""Known outcomes of all lags, and among them fulfilled ones, that a model needs; before, the hazard stands."""
_GROWTH, _GROWTH_OF_LAGS = 1.05, 1.1
"""A model is fitted anew at the first midnight (after the log's beginning) with so many times the outcomes.

The second where there are several lags, to save time.
"""
_MOST, _MOST_OF_LAGS = 20_000, 40_000
"""Of the outcomes known at a fit the last ones; the second where there are several lags."""
_ROUNDS = 150
_SHARE_A_FATE = ("week",)
"""Periods of which the outcomes of one user's day count as one when chances are recalibrated."""
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


def boosted(patterns: Patterns, forecasts: Forecasts, seed: int = 0) -> np.ndarray:
    """Return the confidence of each forecast, float64[n], from a model of what was known at that day's beginning.

    Days are counted from the log's first submission. A model learns from the forecasts whose outcome was
    known, and from shorter lags (`procure.forecast.lags`), of which it is known sooner: the lag is one of its
    features. Its predictions are then recalibrated on those earlier ones whose outcome was known.
    """
    rows = lagged(patterns, forecasts)
    return recalibrated_daily(patterns, forecasts, rows, raw_chances(patterns, forecasts, rows, seed))


def recalibrated_daily(patterns: Patterns, forecasts: Forecasts, rows: Lagged, raw: np.ndarray) -> np.ndarray:
    """Return the chances float64[n], each recalibrated on what was known of all lags when its day began."""
    n, came = len(forecasts.burst), rows.came.astype(np.float64)
    stated, period = raw[-n:], list(PERIODS.values())[forecasts.layer]
    found, piece = stated.copy(), None
    if list(PERIODS)[forecasts.layer] in _SHARE_A_FATE:
        piece = (forecasts.user[rows.burst] << 20) + np.clip((rows.known - patterns.first) // DAY, 0, (1 << 20) - 1)
    for today, known in _days(patterns, forecasts, rows):
        known = known[-WINDOW * rows.n_lags :]
        moment = rows.known[known]
        age = (moment.max(initial=0) - moment) / period
        alike = None if piece is None else piece[known]
        found[today] = recalibrated(stated[today], raw[known], came[known], age, alike)
    return found


def raw_chances(patterns: Patterns, forecasts: Forecasts, rows: Lagged, seed: int = 0) -> np.ndarray:
    """Return the model's chances of every lag before recalibration, float64[m]; until there is a model, the hazard."""
    table, came, n = Rows(patterns, forecasts, rows), rows.came.astype(np.float64), len(forecasts.burst)
    found = np.tile(hazard(forecasts), rows.n_lags)
    most, growth = (_MOST, _GROWTH) if rows.n_lags == 1 else (_MOST_OF_LAGS, _GROWTH_OF_LAGS)
    model, n_fitted = None, 0
    for today, known in _days(patterns, forecasts, rows):
        latest, n_known = known[-most:], len(known)
        if n_known >= max(FEWEST, growth * n_fitted) and FEWEST_CAME <= came[latest].sum() < len(latest):
            model, n_fitted = _fit(table.of(latest), came[latest], seed), n_known
        if model is not None:
            for lag in range(rows.n_lags):
                entries = lag * n + np.arange(today.start, today.stop)
                found[entries] = model.inplace_predict(table.of(entries))
    return found


def _days(patterns: Patterns, forecasts: Forecasts, rows: Lagged) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield each day's forecasts, and the entries whose outcome was known when it began, in the order of that."""
    by_known = np.argsort(rows.known, kind="stable")
    known = rows.known[by_known]
    day = (forecasts.issued - patterns.first) // DAY
    for number in np.unique(day).tolist():
        low, high = np.searchsorted(day, [number, number + 1]).tolist()
        n_known = int(np.searchsorted(known, patterns.first + number * DAY, "right"))
        yield slice(low, high), by_known[:n_known]


def _fit(rows: np.ndarray, came: np.ndarray, seed: int) -> xgboost.Booster:
    data = xgboost.QuantileDMatrix(rows, came, nthread=1)
    return xgboost.train(_SETTINGS | {"seed": seed, "base_score": float(came.mean())}, data, _ROUNDS)
