"""The kernels' clock: hours of the week of a centre's zone, over changes of summer time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.kernel import kernel

WEEK, THURSDAY = 604_800, 259_200
"""s in a week, and from Monday to the first moment of Unix time, a Thursday."""


class Clock(NamedTuple):
    """What to add to seconds after the first submission to come to seconds of a local week, from Monday."""

    since: np.ndarray  # int64[n_changes + 1], s from which a shift holds, ascending; the first holds before, too
    shift: np.ndarray  # int64[n_changes + 1], s


@kernel
def week_second(clock, now):
    """Return the second of the local week, from Monday, 00:00."""
    low, high = 0, clock.since.size
    while high - low > 1:
        middle = (low + high) // 2
        if clock.since[middle] <= now:
            low = middle
        else:
            high = middle
    return (clock.shift[low] + now) % WEEK


@kernel
def next_hour(clock, now):
    """Return when the hour that the clock shows is over, or the clock is changed."""
    at = now + 3600 - week_second(clock, now) % 3600
    for i in range(1, clock.since.size):
        if now < clock.since[i] < at:
            return clock.since[i]
    return at
