"""The forecasts that the mixture weighs: boosters, the work ahead, and quantiles of what happened in the last week."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.queue_time import recent
from procure.queue_time.calibrate import GRID
from procure.queue_time.features import BACKLOG, picked

NAMES = ("together", "again", "backlog", "week")
"""The experts: the boosters' common curve, a median that is trained again, the time that the work ahead takes, and the
waits of the jobs that started in the partition within the last week."""
POINTS = np.array([False, True, True, False])
"""Which give one number, to which the spread of their recent errors is added."""
PRIORS = np.array([[0.74, 0.11, 0.05, 0.1], [0.15, 0.05, 0.75, 0.05]])
"""Their weights at equal losses, and those where more jobs wait than the boosters have ever seen: they cannot go on
beyond what they learnt from, the arithmetic of the work ahead can."""
MIDDLE = int(np.searchsorted(GRID, 0.5))
_LEVELS = np.concatenate([[0.0], recent.LEVELS, [1.0]])
_FALLBACKS = {
    "last_like": ("like_log_wait_1", "user_log_wait_1"),
    "partition_5": ("partition_wait_5",),
    "week": (recent.WEEK_MEDIAN,),
}


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


def stack(together: np.ndarray, again: np.ndarray, features: pd.DataFrame, usual: np.ndarray) -> np.ndarray:
    """Return every expert's quantiles of every row: (n, len(NAMES), len(GRID)) float32, the logarithm of 1 + seconds.

    ``together`` (n, len(GRID)) are quantiles and ``again`` (n,) medians of boosters, s; ``usual`` is of `broad`. A
    point expert's quantiles are all its point. What is not a finite number is the training part's, so that nothing else
    is ever weighed.
    """
    points = (again, picked(features, (BACKLOG,))[:, 0].astype(float))
    logs = [np.log1p(together), *(np.log1p(np.maximum(one, 0.0))[:, None] for one in points), _week(features, usual)]
    found = np.stack([np.broadcast_to(one, (len(features), len(GRID))) for one in logs], axis=1).astype(np.float32)
    return np.where(np.isfinite(found), found, np.log1p(usual).astype(np.float32))


def _week(features: pd.DataFrame, usual: np.ndarray) -> np.ndarray:
    """Return the quantiles of the last week at `calibrate.GRID`; of an empty week the last month's, else all waits'."""
    week, month = (picked(features, recent.columns(name)).astype(float) for name in ("week", "month"))
    known = np.where(np.isnan(week), month, week)
    known = np.where(np.isnan(known), np.interp(recent.LEVELS, GRID, np.log1p(usual)), known)
    last = np.maximum(known[:, -1] + 0.5, np.log1p(usual[-1]))
    whole = np.column_stack([np.zeros(len(features)), known, last])
    at = np.clip(np.searchsorted(_LEVELS, GRID), 1, len(_LEVELS) - 1)
    part = (GRID - _LEVELS[at - 1]) / (_LEVELS[at] - _LEVELS[at - 1])
    return np.asarray(whole[:, at - 1] * (1 - part) + whole[:, at] * part)
