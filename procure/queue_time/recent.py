"""Quantiles of the waits that ended last: of a partition's day, week and month, of jobs of a size, of a user."""

from __future__ import annotations

import numpy as np

from procure.queue_time.events import NEVER, Events
from procure.queue_time.log import Log

LEVELS = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
"""The levels that are kept of each empirical distribution."""
MOST = 50
"""The most waits that a distribution is read off, evenly spaced over the starts of its window."""
DAY = 86400
_BLOCK = 20_000
PREFIX = "recent_"
"""Of the names of the feature columns, which only `experts` reads: boosters do not see them."""
KINDS = {
    "day": ("partition", DAY),
    "week": ("partition", 7 * DAY),
    "month": ("partition", 30 * DAY),
    "shape": ("shape", 7 * DAY),
    "user": ("user", 30 * DAY),
}
"""By name: whose jobs (see `log.Log`), and the seconds before the submission in which they started."""


def columns(kind: str) -> list[str]:
    """Return the names of a kind's feature columns, one per level."""
    return [f"{PREFIX}{kind}_{round(100 * level):02d}" for level in LEVELS]


WEEK_MEDIAN = columns("week")[int(np.searchsorted(LEVELS, 0.5))]


def recent_waits(log: Log, starts: Events, now: np.ndarray, own: np.ndarray, seconds: int) -> np.ndarray:
    """Return quantiles of the waits of the jobs of each question's group that started within so many seconds.

    ``starts`` are those of all jobs, sorted by groups; ``now`` and ``own`` (n,) the questions' moments and groups. The
    result is (n, len(LEVELS)) float32, the natural logarithm of 1 + seconds; NaN without a start in the window.
    """
    log_wait = np.log1p(np.where(log.start < NEVER, log.wait, 0).astype(float))
    values = np.append(log_wait[starts.order], 0.0)
    begin, end = starts.before(now - seconds, own), starts.before(now, own)
    parts = [slice(first, first + _BLOCK) for first in range(0, len(now), _BLOCK)]
    found = [_quantiles(values, begin[rows], end[rows]).astype(np.float32) for rows in parts]
    return np.concatenate([np.zeros((0, len(LEVELS)), np.float32), *found])


def _quantiles(values: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the quantiles at `LEVELS` of each slice of values, thinned to `MOST` of them; NaN where it is empty."""
    count = end - begin
    n = np.minimum(count, MOST)
    back = np.arange(MOST) * count[:, None] // np.maximum(n, 1)[:, None]
    inside = np.arange(MOST) < n[:, None]
    kept = np.sort(np.where(inside, values[np.where(inside, end[:, None] - 1 - back, 0)], np.inf), axis=1)
    place = np.clip(LEVELS * (n[:, None] + 1) - 1, 0, np.maximum(n[:, None] - 1, 0))
    below = place.astype(np.int64)
    above = np.minimum(below + 1, np.maximum(n[:, None] - 1, 0))
    rows = np.arange(len(n))[:, None]
    kept[n == 0, 0] = np.nan
    low, high = kept[rows, below], kept[rows, above]
    return low + (place - below) * (high - low)
