"""Quantiles of the waits that ended last: of a partition's day, week and month, of jobs of a size, of a user."""

from __future__ import annotations

from collections.abc import Mapping

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


def sorted_waits(log: Log, starts: Events) -> np.ndarray:
    """Return the natural logarithm of 1 + wait of a log's starts as they are sorted, and a 0 after them."""
    log_wait = np.log1p(np.where(log.start < NEVER, log.wait, 0).astype(float))
    return np.append(log_wait[starts.order], 0.0)


def recent_waits(ask: Log, starts: Mapping[str, tuple[Events, np.ndarray]]) -> np.ndarray:
    """Return quantiles of the recent waits that were known when each job was submitted.

    Parameters
    ----------
    ask
        The jobs asked about.
    starts
        The log's starts sorted by each grouping, and `sorted_waits` of them.

    Returns
    -------
    numpy.ndarray
        (n, len(KINDS), len(LEVELS)) float32, the natural logarithm of 1 + seconds; NaN without a start in the
        window.
    """
    found = np.full((ask.n, len(KINDS), len(LEVELS)), np.nan, np.float32)
    for position, (label, seconds) in enumerate(KINDS.values()):
        (events, values), own = starts[label], getattr(ask, label)
        begin, end = events.before(ask.submit - seconds, own), events.before(ask.submit, own)
        for first in range(0, ask.n, _BLOCK):
            rows = slice(first, first + _BLOCK)
            found[rows, position] = _quantiles(values, begin[rows], end[rows])
    return found


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
