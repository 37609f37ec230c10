"""Closed hours: hours of the week at which a log hardly starts a job of a class, though such jobs wait with room."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from procure.account.layout import LENGTHS

RARE = 0.5
"""An hour is closed where jobs start at less than this share of the rate of the day's other hours."""
CHANCE = 1e-3
LEAST_STARTS = 50
LONGEST_CLOSED = 22
"""Hours of a day that may be closed; a class that starts in fewer is rare, not kept out."""


class Window(NamedTuple):
    """Hours of the day that are closed to jobs of over so many seconds."""

    longer: int
    hours: tuple[int, ...]
    share: float  # of the starts of waiting jobs in these hours
    expected: float  # share if starts were even over the time that such jobs waited with room
    chance: float


def infer_windows(requested: np.ndarray, room_from: np.ndarray, start: np.ndarray) -> list[Window]:
    """Infer closed hours by requested time.

    Parameters
    ----------
    requested
        int64[n], s; 0 = no limit.
    room_from
        int64[n], s of the centre's clock, since when each job had room; a job is looked at if that is over ten minutes
        before it starts.
    start
        int64[n], likewise.
    """
    found: list[Window] = []
    waited = start - room_from > 600
    for longer in LENGTHS:
        of = waited & ((requested > longer) | (requested == 0))
        if of.sum() < LEAST_STARTS:
            continue
        starts = np.bincount((start[of] // 3600) % 24, minlength=24)
        exposed = _exposure(room_from[of], start[of])
        rate = starts / np.maximum(exposed, 1e-9)
        mean = starts.sum() / max(exposed.sum(), 1e-9)
        closed = _block(starts, exposed)
        if (rate[closed] >= RARE * mean).mean() > 0.5:
            continue
        expected = exposed[closed].sum() / exposed.sum()
        n = int(starts[closed].sum())
        chance = float(binom.cdf(n, int(starts.sum()), expected))
        if n / starts.sum() < RARE * expected and chance < CHANCE:
            hours = tuple(int(hour) for hour in np.sort(closed))
            found.append(Window(int(longer), hours, n / int(starts.sum()), float(expected), chance))
    return found


def _block(starts: np.ndarray, exposed: np.ndarray) -> np.ndarray:
    """Return the run of hours, over midnight where it must, in which starts are most surely fewer than outside."""
    best, found = -np.inf, np.zeros(0, np.int64)
    total, time = starts.sum(), exposed.sum()
    for first in range(24):
        for length in range(1, LONGEST_CLOSED + 1):
            hours = (first + np.arange(length)) % 24
            inside, lasted = starts[hours].sum(), exposed[hours].sum()
            if not 0 < lasted < time or inside / lasted >= total / time:
                continue
            surprise = _log_rate(inside, lasted) + _log_rate(total - inside, time - lasted)
            if surprise > best:
                best, found = surprise, hours
    return found


def _log_rate(n: float, lasted: float) -> float:
    """Return the logarithm of the likelihood of so many starts in a time, at their own rate, but for a constant."""
    return 0.0 if n == 0 else float(n * np.log(n / lasted) - n)


def _exposure(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return for each hour of the day how long, in hours, the intervals last in it; each counts two days at most."""
    found = np.zeros(24)
    end = np.clip(end, begin, begin + 2 * 86_400)  # the clock may have gone back in between
    first, last = begin // 3600, (end - 1) // 3600
    for step in range(int((last - first).max(initial=-1)) + 1):
        hour = first + step
        inside = hour <= last
        lasted = np.minimum(end, (hour + 1) * 3600) - np.maximum(begin, hour * 3600)
        found += np.bincount(hour[inside] % 24, lasted[inside] / 3600, minlength=24)
    return found
