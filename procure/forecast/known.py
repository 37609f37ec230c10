"""What was known at a moment: counts and sums, per group, of what had happened by then."""

from __future__ import annotations

import numpy as np

NEVER = 1 << 41
"""A time, s, that never comes."""


class Known:
    """Events of groups, each known from a moment on, to be counted and summed as of any moment.

    Parameters
    ----------
    group
        int64[n], not negative.
    moment
        int64[n], s; from `NEVER` on an event is never known.
    *values
        float64[n] each; what is summed beside the count.
    """

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
    """Return the seconds since the group's event before each event, at most ``most``, int64[n]."""
    order = np.lexsort((moment, group))
    gap = np.full(len(group), most, np.int64)
    same = group[order][1:] == group[order][:-1]
    gap[order[1:]] = np.where(same, np.diff(moment[order]), most)
    return np.clip(gap, 0, most)


def since_first(group: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """Return the seconds since the group's first event, int64[n]."""
    first = np.full(int(group.max(initial=-1)) + 1, NEVER, np.int64)
    np.minimum.at(first, group, moment)
    return moment - first[group]
