"""What was known at a moment: sums, windows and last values over the events strictly before it.

Everything is a sort, a running sum and a binary search, so that a whole log is answered in one pass.
An event of the very second of the question does not count: within one second a log does not tell which
came first. Groups are codes from 0; all that belongs to no group apart is of group 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

NEVER = np.int64(2**40)
"""A time after every other, in seconds since the log's first submission."""


@dataclass(frozen=True)
class Events:
    """Events sorted by group and time, with running sums of their values."""

    key: np.ndarray  # int64[n], group × `NEVER` + time, ascending
    first: np.ndarray  # int64[n_groups + 1], where each group's events begin
    order: np.ndarray  # int64[n], the events' positions before sorting
    sums: dict[str, np.ndarray] = field(default_factory=dict)  # by name, float64[n + 1], starting at 0

    @classmethod
    def of(cls, time: np.ndarray) -> Events:
        """Sort events that happen, at (n,) int64 seconds, not negative; those at `NEVER` are left out."""
        order = np.flatnonzero(time < NEVER)
        order = order[np.argsort(time[order], kind="stable")]
        key = time[order]
        return cls(key, np.searchsorted(key, np.arange(2) * NEVER), order)

    def grouped(self, group: np.ndarray, n_groups: int) -> Events:
        """Return events of one group sorted by the groups (n,) of each, without values."""
        by = by_group(group[self.order], n_groups)
        order = self.order[by]
        key = group[order] * NEVER + self.key[by]
        return Events(key, np.searchsorted(key, np.arange(n_groups + 1) * NEVER), order)

    def adding(self, values: dict[str, np.ndarray]) -> Events:
        """Return the same events, sorted already, where each adds other values, (n,) by name."""
        sums = {name: np.append(0.0, np.cumsum(_exact(value[self.order]))) for name, value in values.items()}
        return Events(self.key, self.first, self.order, sums)

    def before(self, time: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Count the sorted events up to each moment, its group's last one included: an end for a slice."""
        return np.searchsorted(self.key, group * NEVER + np.maximum(time, 0), side="left")

    def total(self, name: str, time: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Sum a value over each group's events before each moment."""
        return self.between(name, self.first[group], self.before(time, group))

    def between(self, name: str, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Sum a value over slices of the sorted events."""
        return np.asarray(self.sums[name][end] - self.sums[name][begin])


def by_group(group: np.ndarray, n_groups: int) -> np.ndarray:
    """Sort codes (n,) from 0, those of one group as they stand; few groups are sorted by their digits."""
    return np.argsort(group.astype(np.uint16) if n_groups <= 2**16 else group, kind="stable")


def _exact(values: np.ndarray) -> np.ndarray:
    """Round to multiples of 2⁻²⁸, of which sums below 2²⁵ are exact, as are those of whole numbers below 2⁵³.

    So what is known of one group at a moment does not hang on how events of others, or of later, are rounded: a model
    that knows the last jobs alone is told to the bit what one is told that looks back from the end of a log.
    """
    return np.round(values * 2.0**28) * 2.0**-28


class Queue:
    """The jobs of each question's group that wait at its moment.

    ``submit`` (n,) is ascending; ``left`` is when each job left the queue, `NEVER` if it has not, and ``gone``
    `Events.of` that, by group. ``now``, ``row`` and ``own`` (m,) are the questions' moments, how many of the jobs came
    before each, and their groups.
    """

    def __init__(
        self,
        submit: np.ndarray,
        left: np.ndarray,
        group: np.ndarray,
        gone: Events,
        now: np.ndarray,
        row: np.ndarray,
        own: np.ndarray,
    ) -> None:
        """Find the questions' places."""
        n = len(submit)
        self.submit, self.left, self.gone, self.now, self.own = submit, left, gone, now, own
        self.rows = by_group(group, len(gone.first) - 1)
        self.group = group[self.rows]
        key = self.group * (n + 1) + self.rows
        self.first, self.came = np.searchsorted(key, own * (n + 1)), np.searchsorted(key, own * (n + 1) + row)
        self.begin, self.end = gone.first[own], gone.before(now, own)

    def piled(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sum values (n,) over the jobs that have come and those that have left, in the order of both."""
        come, gone = (np.append(0.0, np.cumsum(values[order])) for order in (self.rows, self.gone.order))
        return come, gone

    def total(self, piled: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Sum what `piled` has summed over the jobs that wait at each question."""
        come, gone = piled
        return np.asarray(come[self.came] - come[self.first] - (gone[self.end] - gone[self.begin]))

    @cached_property
    def ceiling(self) -> np.ndarray:
        """The running maximum, within each group, of the times at which jobs left the queue: ascending."""
        return np.maximum.accumulate(self.group * (2 * NEVER) + self.left[self.rows])

    def oldest_age(self) -> np.ndarray:
        """Return the age of the oldest job that waits at each question; 0 without one.

        The first row which had not left by now is a binary search away.
        """
        if not len(self.rows):
            return np.zeros(len(self.now), np.int64)
        found = np.maximum(np.searchsorted(self.ceiling, self.own * (2 * NEVER) + self.now, side="left"), self.first)
        waits = found < self.came
        return np.where(waits, self.now - self.submit[self.rows[np.where(waits, found, 0)]], 0)

    def earlier(self, steps: int) -> np.ndarray:
        """Return the row ``steps`` places before each question in its group; −1 where there is none."""
        place = self.came - steps
        if not len(self.rows):
            return np.full(len(place), -1)
        return np.where(place >= self.first, self.rows[np.maximum(place, 0)], -1)
