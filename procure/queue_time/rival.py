"""A rival of our model that fits on a page: what stays in the model is to be ahead of it on every log.

Two boosters of five quantiles, of the wait and of its square root, the quantiles of the partition's last week and the
last like job with the quantiles of its errors are averaged, each by its pinball loss of late to the minus eighth. Each
level of the average is then moved by the quantile of its own errors of late (rolling conformal).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.queue_time import recent
from procure.queue_time.booster import MAX_BIN, fit_plain
from procure.queue_time.experts import guess
from procure.queue_time.features import BACKLOG
from procure.queue_time.metrics import LEVELS

WINDOW, EVERY, POWER = 500, 50, 8
"""Known waits that are looked at, jobs after which they are looked at anew, and the power of the loss."""
SHRINK = 100
"""The known waits that speak for a level as it is."""
_WEEK = [recent.columns("week")[int(np.searchsorted(recent.LEVELS, level))] for level in LEVELS]


def views(features: pd.DataFrame, wait: np.ndarray, fitted: np.ndarray, asked: np.ndarray, seed: int) -> np.ndarray:
    """Return what each of four views says of rows, fitted on others: (n, 4, 5) quantiles at `metrics.LEVELS`, s."""
    own = [name for name in features.columns if not name.startswith(recent.PREFIX) and name != BACKLOG]
    matrix, known, rows = features[own].to_numpy(dtype=np.float32), wait[fitted], features.iloc[asked]
    seconds, roots = (
        fit_plain(matrix[fitted], target, seed, LEVELS, max_bin=MAX_BIN) for target in (known, np.sqrt(known))
    )
    week = np.expm1(rows[_WEEK].to_numpy(dtype=float))
    last, before = (guess(features.iloc[at], "last_like", float(np.median(known))) for at in (asked, fitted))
    errors = np.quantile(np.log1p(known) - np.log1p(before), LEVELS)
    found = [
        seconds.predict(matrix[asked]),
        np.maximum(roots.predict(matrix[asked]), 0) ** 2,
        np.where(np.isnan(week), np.quantile(known, LEVELS), week),
        np.expm1(np.log1p(last)[:, None] + errors),
    ]
    return np.maximum(np.sort(np.stack(found, axis=1), axis=2), 0.0)


def average(said: np.ndarray, submit: np.ndarray, wait: np.ndarray, first: int) -> np.ndarray:
    """Average views (n, 4, 5) of jobs in the order of submission, and correct the levels; return those from ``first``.

    A wait, s, counts from its job's start on; those of the jobs before ``first`` are known when that one comes.
    """
    mixed, stated = np.empty((len(said), len(LEVELS))), np.empty((len(said), len(LEVELS)))
    over = wait[:, None, None] - said
    loss = np.maximum(LEVELS * over, (LEVELS - 1) * over).mean(axis=2)
    for begin in range(0, len(said), EVERY):
        rows = slice(begin, begin + EVERY)
        known = np.flatnonzero(submit[:begin] + wait[:begin] < submit[begin])[-WINDOW:]
        cost = loss[known].mean(axis=0) if len(known) else np.ones(said.shape[1])
        weight = (np.maximum(cost, 1e-9) / max(cost.min(), 1e-9)) ** -POWER
        mixed[rows] = np.tensordot(said[rows], weight / weight.sum(), (1, 0))
        shift = np.zeros(len(LEVELS))
        if len(known):
            off = np.log1p(wait[known])[:, None] - np.log1p(mixed[known])
            shift = np.diag(np.quantile(off, LEVELS, axis=0)) * len(known) / (len(known) + SHRINK)
        stated[rows] = np.sort(np.expm1(np.log1p(mixed[rows]) + shift), axis=1)
    return np.maximum(stated[first:], 0.0)
