"""The forecasts that the mixture weighs: boosters, naive guesses, and quantiles of what happened lately."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from procure.queue_time import recent
from procure.queue_time.calibrate import GRID
from procure.queue_time.features import BACKLOG, picked

PRIOR = {
    "together": 0.16, "quantile": 0.14, "chance": 0.12, "hgb": 0.14, "hgb_mean": 0.12, "hgb_log": 0.08, "again": 0.08,
    "kmeans_gbt": 0.03, "together_moved": 0.06, "hgb_moved": 0.03, "zero": 0.01, "mean": 0.01, "last_like": 0.02,
    "so_far": 0.02, "user_5": 0.01, "partition_5": 0.01, "day": 0.02, "week": 0.02, "month": 0.02, "shape": 0.02,
    "user": 0.02, "broad": 0.01, "backlog": 0.02, "backlog_moved": 0.02,
}  # fmt: skip
"""The experts and their weights before any outcome. ``together`` is the mean of the quantile, the chance and the plain
quantile boosters (``hgb``) on a log scale; ``again`` a median that is trained again; ``so_far`` how long the like job
before waited, or waits by now; ``moved`` experts are shifted by the median of their recent errors; `recent.KINDS` gives
five."""
NAMES = tuple(PRIOR)
PRIOR_BEYOND = dict.fromkeys(PRIOR, 0.02) | {"backlog": 0.5, "backlog_moved": 0.2}
"""The weights where more jobs wait than the boosters have ever seen: they cannot go on beyond what they learnt from,
the arithmetic of the work ahead can."""
POINTS = (
    *("hgb_mean", "hgb_log", "kmeans_gbt", "again", "zero", "mean"),
    *("last_like", "so_far", "user_5", "partition_5", "backlog"),
)
"""Experts that give one number, to which the spread of their recent errors is added."""
MOVED = ("together_moved", "hgb_moved", "backlog_moved")
IS_POINT = np.array([name in (*POINTS, "backlog_moved") for name in NAMES])
IS_MOVED = np.array([name in MOVED for name in NAMES])
PRIORS = np.array([[prior[name] / sum(prior.values()) for name in NAMES] for prior in (PRIOR, PRIOR_BEYOND)])
"""Both as weights, (2, len(NAMES))."""
RATES = np.tile([0.01, 0.03, 0.1, 0.3], 2)
BY_OPEN = np.repeat([False, True], 4)
"""The paces at which weights are learnt, each with its own: learning rates per unit of relative loss, and whether a
burst's k-th job is the k-th of all its jobs or of those that still waited as it came."""
MOST_WEIGHT = 0.5
"""The most that one expert counts in what is stated."""
MIDDLE = int(np.searchsorted(GRID, 0.5))
N_ERRORS = 200
"""The recent errors, in log seconds, that spread a point expert."""
SPREAD = np.log(2) * np.interp(GRID, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1], [-4, -2, -0.7, 0, 0.7, 2, 3])
"""Their quantiles at `calibrate.GRID` before there are any."""
_LEVELS = np.concatenate([[0.0], recent.LEVELS, [1.0]])
_FALLBACKS = {
    "last_like": ("like_log_wait_1", "user_log_wait_1"),
    "so_far": ("like_before_1_so_far", "user_before_1_so_far", "shape_before_1_so_far"),
} | {f"{label}_5": (f"{label}_wait_5",) for label in ("user", "partition")}


def broad(wait: np.ndarray) -> np.ndarray:
    """Return the quantiles of all waits at `calibrate.GRID`, with room beyond the longest; (len(GRID),) seconds."""
    curve = np.quantile(wait, GRID)
    curve[-1] = 2 * curve[-1] + 3600
    return curve


def guess(features: pd.DataFrame, name: str, otherwise: float) -> np.ndarray:
    """Return a naive guess that the features hold, in seconds: of `_FALLBACKS`."""
    found = np.full(len(features), np.nan)
    for column in _FALLBACKS[name]:
        if column in features.columns:
            values = picked(features, (column,))[:, 0].astype(float)
            found = np.where(np.isnan(found), values if "_wait_5" in column else np.expm1(values), found)
    return np.where(np.isnan(found), otherwise, found)


def stack(boosted: Mapping[str, np.ndarray], features: pd.DataFrame, usual: np.ndarray, mean: float) -> np.ndarray:
    """Return every expert's quantiles of every row.

    Parameters
    ----------
    boosted
        ``quantile``, ``chance`` and ``hgb`` (n, len(GRID)) and the points of other boosters (n,), seconds.
    features
        Of `features.site_features` with `recent.COLUMNS`.
    usual
        Of `broad`: the training part's waits.
    mean
        Their mean.

    Returns
    -------
    numpy.ndarray
        (n, len(NAMES), len(GRID)) float32, the logarithm of 1 + seconds; a point expert's quantiles are all its
        point. What is not a finite number is the training part's, so that nothing else is ever weighed.
    """
    n, middle = len(features), float(np.interp(0.5, GRID, usual))
    found = np.empty((n, len(NAMES), len(GRID)), np.float32)
    lately = _lately(features, np.log1p(usual))
    curves = {name: np.log1p(boosted[name]) for name in ("quantile", "chance")}
    curves["hgb"] = curves["hgb_moved"] = np.log1p(boosted["hgb"])
    together = 0.4 * curves["quantile"] + 0.3 * curves["chance"] + 0.3 * curves["hgb"]
    curves["together"] = curves["together_moved"] = together
    curves["broad"] = np.broadcast_to(np.log1p(usual), (n, len(GRID)))
    points = {"zero": np.zeros(n), "mean": np.full(n, mean)}
    points |= {name: boosted[name] for name in ("hgb_mean", "hgb_log", "kmeans_gbt", "again")}
    points |= {name: guess(features, name, middle) for name in _FALLBACKS}
    points |= dict.fromkeys(("backlog", "backlog_moved"), picked(features, (BACKLOG,))[:, 0].astype(float))
    curves |= {name: np.log1p(np.maximum(values, 0))[:, None] for name, values in points.items()} | lately
    for position, name in enumerate(NAMES):
        found[:, position] = curves[name]
    return np.where(np.isfinite(found), found, curves["broad"].astype(np.float32)[:, None])


def _lately(features: pd.DataFrame, usual: np.ndarray) -> dict[str, np.ndarray]:
    """Return the recent quantiles at `calibrate.GRID`; where a window is empty, those of the next wider one."""
    found = {}
    wider = {"month": None, "week": "month", "day": "week", "shape": "week", "user": "week"}
    seven: dict[str | None, np.ndarray] = {None: np.tile(np.interp(recent.LEVELS, GRID, usual), (len(features), 1))}
    names = [column for name in wider for column in recent.columns(name)]
    every = picked(features, names).astype(float).reshape(len(features), len(wider), -1)
    for place, (name, other) in enumerate(wider.items()):
        columns = every[:, place]
        seven[name] = np.where(np.isnan(columns), seven[other], columns)
        first, last = np.zeros(len(features)), np.maximum(seven[name][:, -1] + 0.5, usual[-1])
        whole = np.column_stack([first, seven[name], last])
        at = np.clip(np.searchsorted(_LEVELS, GRID), 1, len(_LEVELS) - 1)
        part = (GRID - _LEVELS[at - 1]) / (_LEVELS[at] - _LEVELS[at - 1])
        found[name] = whole[:, at - 1] * (1 - part) + whole[:, at] * part
    return found
