"""What was known at a moment: sums, windows and last values over the events strictly before it.

Everything is a sort, a running sum and a binary search, so that a whole log is answered in one pass.
An event of the very second of the question does not count: within one second a log does not tell which
came first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

NEVER = np.int64(2**40)
"""A time after every other, in seconds since the log's first submission."""


@dataclass(frozen=True)
class Events:
    """Events sorted by group and time, with running sums of their values.

    Parameters
    ----------
    key
        (n,) int64, group × span + time, ascending.
    first
        (n_groups + 1,) where each group's events begin.
    sums
        By name, (n + 1,) float64 running sums that start at 0.
    order
        (n,) the events' positions before sorting.
    """

    key: np.ndarray
    first: np.ndarray
    sums: dict[str, np.ndarray]
    order: np.ndarray

    @classmethod
    def of(
        cls,
        time: np.ndarray,
        values: dict[str, np.ndarray],
        group: np.ndarray | None = None,
        n_groups: int = 1,
    ) -> Events:
        """Sort events that happen; those at `NEVER` are left out.

        Parameters
        ----------
        time
            (n,) int64 seconds, not negative.
        values
            By name, (n,) what each event adds.
        group
            (n,) int64 codes from 0; without it all events are of one group.
        n_groups
            How many codes there are.
        """
        order = np.flatnonzero(time < NEVER)
        order = order[np.argsort(time[order], kind="stable")]
        key = time[order]
        found = cls(key, np.searchsorted(key, np.arange(2) * NEVER), {}, order)
        return (found if group is None else found.grouped(group, n_groups)).adding(values)

    def grouped(self, group: np.ndarray, n_groups: int) -> Events:
        """Return events of one group sorted by the groups (n,) of each, without values."""
        by = by_group(group[self.order], n_groups)
        order = self.order[by]
        key = group[order] * NEVER + self.key[by]
        return Events(key, np.searchsorted(key, np.arange(n_groups + 1) * NEVER), {}, order)

    def adding(self, values: dict[str, np.ndarray]) -> Events:
        """Return the same events, sorted already, where each adds other values, (n,) by name."""
        sums = {}
        for name, value in values.items():
            sums[name] = np.zeros(len(self.order) + 1)
            np.cumsum(_exact(value[self.order]), out=sums[name][1:])
        return Events(self.key, self.first, sums, self.order)

    def before(self, time: np.ndarray, group: np.ndarray | None = None) -> np.ndarray:
        """Count the sorted events up to each moment, its group's last one included: an end for a slice."""
        code = np.zeros(len(time), np.int64) if group is None else group
        return np.searchsorted(self.key, code * NEVER + np.maximum(time, 0), side="left")

    def begin(self, n: int, group: np.ndarray | None = None) -> np.ndarray:
        """Return where each question's group begins."""
        return np.zeros(n, np.int64) if group is None else self.first[group]

    def total(self, names: Sequence[str], time: np.ndarray, group: np.ndarray | None = None) -> list[np.ndarray]:
        """Sum values over each group's events before each moment; one search serves all names."""
        return self._between(names, self.begin(len(time), group), self.before(time, group))

    def within(
        self, names: Sequence[str], time: np.ndarray, seconds: int, group: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Sum values over a window of seconds before each moment."""
        return self._between(names, self.before(time - seconds, group), self.before(time, group))

    def _between(self, names: Sequence[str], begin: np.ndarray, end: np.ndarray) -> list[np.ndarray]:
        return [self.sums[name][end] - self.sums[name][begin] for name in names]


def by_group(group: np.ndarray, n_groups: int) -> np.ndarray:
    """Sort codes (n,) from 0, those of one group as they stand; few groups are sorted by their digits."""
    return np.argsort(group.astype(np.uint16) if n_groups <= 2**16 else group, kind="stable")


def _exact(values: np.ndarray) -> np.ndarray:
    """Round to multiples of 2⁻²⁸, of which sums below 2²⁵ are exact, as are those of whole numbers below 2⁵³.

    So what is known of one group at a moment does not hang on how events of others, or of later, are rounded: a model
    that knows the last jobs alone is told to the bit what one is told that looks back from the end of a log.
    """
    return np.round(values * 2.0**28) * 2.0**-28


class Line:
    """The jobs that wait and have waited, sorted once by group: what any number of `Queue` are read off.

    Parameters
    ----------
    submit
        (n,) seconds, ascending.
    left
        (n,) when each job left the queue, `NEVER` if it has not.
    group
        (n,) codes from 0; without it all jobs are of one group.
    n_groups
        How many codes there are, those of the questions included.
    gone
        `Events.of` when the jobs left, by group, if they are sorted already.
    """

    def __init__(
        self,
        submit: np.ndarray,
        left: np.ndarray,
        group: np.ndarray | None = None,
        n_groups: int = 1,
        gone: Events | None = None,
    ) -> None:
        """Sort once."""
        group = np.zeros(len(submit), np.int64) if group is None else group
        self.submit, self.left, self.gone = submit, left, gone or Events.of(left, {}, group, n_groups)
        self.rows = by_group(group, n_groups)
        self.group = group[self.rows]
        self.key = self.group * (len(submit) + 1) + self.rows

    def sums(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return running sums of values (n,) over the jobs that left, and over those that came, for `Queue.total`."""
        gone, come = (np.concatenate([[0.0], np.cumsum(values[order])]) for order in (self.gone.order, self.rows))
        return gone, come

    @cached_property
    def ceiling(self) -> np.ndarray:
        """The running maximum, within each group, of the times at which jobs left the queue: ascending."""
        return np.maximum.accumulate(self.group * (2 * NEVER) + self.left[self.rows])


class Queue:
    """The jobs that wait at given moments.

    Parameters
    ----------
    line
        All jobs, sorted.
    now, row
        (m,) the moments of the questions, and how many of the jobs came before each.
    own
        (m,) the groups of the questions: only the same group's jobs count.
    """

    def __init__(self, line: Line, now: np.ndarray, row: np.ndarray, own: np.ndarray | None = None) -> None:
        """Find the questions' places."""
        n, own = len(line.submit), np.zeros(len(now), np.int64) if own is None else own
        self.line, self.now, self._own = line, now, own
        self.position, self.begin = line.gone.before(now, own), line.gone.begin(len(now), own)
        self.first, self.came = np.searchsorted(line.key, own * (n + 1)), np.searchsorted(line.key, own * (n + 1) + row)

    def total(self, sums: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Sum over the jobs that wait at each question what `Line.sums` was given."""
        gone, come = sums
        return come[self.came] - come[self.first] - (gone[self.position] - gone[self.begin])

    def oldest_age(self) -> np.ndarray:
        """Return the age of the oldest job that waits at each question; 0 without one.

        The first row which had not left by now is a binary search away.
        """
        line = self.line
        if not len(line.rows):
            return np.zeros(len(self.now), np.int64)
        found = np.maximum(np.searchsorted(line.ceiling, self._own * (2 * NEVER) + self.now, side="left"), self.first)
        waits = found < self.came
        return np.where(waits, self.now - line.submit[line.rows[np.where(waits, found, 0)]], 0)

    def earlier(self, steps: int) -> np.ndarray:
        """Return the row ``steps`` places before each question in its group; −1 where there is none."""
        place = self.came - steps
        if not len(self.line.rows):
            return np.full(len(place), -1)
        return np.where(place >= self.first, self.line.rows[np.maximum(place, 0)], -1)
