"""What was known at a moment: counts and sums, per group, of what had happened by then."""

from __future__ import annotations

import numpy as np
import pandas as pd

NEVER = 1 << 41
"""A time, s, that never comes."""


class Known:
    """Events of groups, each known from a moment, s, on: their count and the sums of values as of any moment."""

    def __init__(self, group: np.ndarray, moment: np.ndarray, *values: np.ndarray) -> None:
        """Sort the events, by group and moment."""
        self._zero = int(min(moment.min(initial=0), 0))
        place = _place(group, moment - self._zero)
        order = np.argsort(place, kind="stable")
        self._place = place[order]
        ones = np.ones(len(group))
        self._sums = [np.concatenate([[0.0], np.cumsum(column[order])]) for column in (ones, *values)]

    def until(self, group: np.ndarray, moment: np.ndarray, since: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the count and the sums, float64[m] each, of what was known at ``moment``.

        With ``since``, of what had become known from then on.
        """
        high = np.searchsorted(self._place, _place(group, moment - self._zero), "right")
        start = np.zeros_like(moment) if since is None else since - self._zero
        low = np.searchsorted(self._place, _place(group, start), "left")
        return [sums[high] - sums[low] for sums in self._sums]


def _place(group: np.ndarray, moment: np.ndarray) -> np.ndarray:
    return (group.astype(np.int64) << 42) + np.clip(moment, 0, NEVER)


def since_last(group: np.ndarray, moment: np.ndarray, most: int) -> np.ndarray:
    """Return the seconds since the group's event before each of the events, which are in order; at most ``most``."""
    return pd.Series(moment).groupby(group).diff().fillna(most).clip(0, most).to_numpy(np.int64)


def since_first(group: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """Return the seconds since the group's first event, int64[n]."""
    return moment - pd.Series(moment).groupby(group).transform("min").to_numpy(np.int64)
