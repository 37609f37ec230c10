"""The one door to XGBoost: the chance that a forecast comes true, learnt and calibrated as time goes on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import xgboost

from procure.forecast.calibration import recalibrated
from procure.forecast.confidence import Forecasts, hazard
from procure.forecast.features import features
from procure.forecast.periods import DAY, Patterns

FEWEST, FEWEST_CAME = 100, 10
"""Known forecasts, and among them fulfilled ones, that a model needs; before, the hazard stands."""
_GROWTH = 1.05
"""A model is fitted anew at the first midnight (after the log's beginning) with so many times the forecasts."""
_MOST = 20_000
"""Of the forecasts known at a fit the last ones."""
_ROUNDS = 150
_SETTINGS = {
    "objective": "binary:logistic", "max_depth": 3, "eta": 0.05, "min_child_weight": 10, "subsample": 0.7,
    "colsample_bytree": 0.5, "reg_lambda": 5.0, "nthread": 1, "verbosity": 0,
}  # fmt: skip


def boosted(patterns: Patterns, forecasts: Forecasts, seed: int = 0) -> np.ndarray:
    """Return the confidence of each forecast, float64[n], from a model of what was known at that day's beginning.

    Days are counted from the log's first submission. A model learns from the forecasts whose outcome was
    known; its predictions are then recalibrated on those earlier ones whose outcome was known.
    """
    f = forecasts
    rows = features(patterns, f).to_numpy()
    raw = hazard(f)
    found = raw.copy()
    by_known = np.argsort(f.known, kind="stable")
    known = f.known[by_known]
    came = f.came.astype(np.float64)
    model, n_fitted = None, 0
    day = (f.issued - patterns.first) // DAY
    edges = np.searchsorted(day, np.arange(int(day[-1]) + 2)) if len(day) else np.zeros(1, np.int64)
    for number, (low, high) in enumerate(pairwise(edges.tolist())):
        if low == high:
            continue
        n_known = int(np.searchsorted(known, patterns.first + number * DAY, "right"))
        learnt = by_known[max(0, n_known - _MOST) : n_known]
        if n_known >= max(FEWEST, _GROWTH * n_fitted) and FEWEST_CAME <= came[learnt].sum() < len(learnt):
            model, n_fitted = _fit(rows[learnt], came[learnt], seed), n_known
        if model is not None:
            raw[low:high] = model.inplace_predict(rows[low:high])
        found[low:high] = recalibrated(raw[low:high], raw[learnt], came[learnt])
    return found


def _fit(rows: np.ndarray, came: np.ndarray, seed: int) -> xgboost.Booster:
    data = xgboost.QuantileDMatrix(rows, came, nthread=1)
    return xgboost.train(_SETTINGS | {"seed": seed, "base_score": float(came.mean())}, data, _ROUNDS)


LEVELS = (0.05, 0.5, 0.95)
"""Quantiles of the load: the middle, and the ends of a 90 % interval."""


def fit_quantiles(rows: np.ndarray, target: np.ndarray, seed: int) -> xgboost.Booster:
    """Boost the `LEVELS` of a target float64[n] from rows float32[n, m]."""
    settings = _SETTINGS | {"objective": "reg:quantileerror", "quantile_alpha": list(LEVELS), "seed": seed}
    return xgboost.train(settings, xgboost.QuantileDMatrix(rows, target, nthread=1), _ROUNDS)


def predict_quantiles(model: xgboost.Booster, rows: np.ndarray) -> np.ndarray:
    """Return the quantiles of each row, float64[n, 3]."""
    return np.asarray(model.inplace_predict(rows), np.float64)
