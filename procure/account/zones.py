"""Clocks of zones: when summer time begins and ends, and when an hour does."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from procure.account.clock import THURSDAY, WEEK, Clock
from procure.workload.clock import to_local, zone

DAY = 86_400
AHEAD = 3650 * DAY
"""s after the last submission for which changes of summer time are known; later the last one holds."""


def make_clock(origin: int, last: int, tz: str = "") -> Clock:
    """Return the clock of a zone.

    Parameters
    ----------
    origin
        Unix s of the first submission.
    last
        s after it, the last submission.
    tz
        IANA name; empty = UTC.
    """
    if not tz:
        return Clock(np.zeros(1, np.int64), np.full(1, (origin + THURSDAY) % WEEK, np.int64))
    local = zone(tz)

    def offset(at: int) -> int:
        gone = datetime.fromtimestamp(at, local).utcoffset()
        return 0 if gone is None else int(gone.total_seconds())

    days = np.arange(origin, origin + last + AHEAD, DAY)
    found = to_local(days, tz) - days
    since, shift = [0], [int(found[0])]
    for i in np.flatnonzero(np.diff(found)):
        low, high = int(days[i]), int(days[i + 1])
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == found[i] else (low, middle)
        since.append(high - origin)
        shift.append(int(found[i + 1]))
    return Clock(np.array(since, np.int64), (np.array(shift, np.int64) + origin + THURSDAY) % WEEK)


def full_hours(clock: Clock, last: int) -> np.ndarray:
    """Return all moments up to ``last``, s, at which an hour begins or the clock is changed."""
    until = np.append(clock.since[1:], last)
    parts = [clock.since[1:]]
    for since, end, shift in zip(clock.since, until, clock.shift, strict=True):
        parts.append(np.arange(since + (-(since + shift)) % 3600, min(end, last), 3600))
    every = np.unique(np.concatenate(parts))
    return every[(every > 0) & (every < last)].astype(np.int64)
