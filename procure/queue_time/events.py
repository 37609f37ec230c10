"""What was known at a moment: sums, windows and last values over the events strictly before it.

Everything is a sort, a running sum and a binary search, so that a whole log is answered in one pass.
An event of the very second of the question does not count: within one second a log does not tell which
came first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
        happens = np.flatnonzero(time < NEVER)
        code = np.zeros(len(happens), np.int64) if group is None else group[happens]
        key = code * NEVER + time[happens]
        order = np.argsort(key, kind="stable")
        key = key[order]
        first = np.searchsorted(key, np.arange(n_groups + 1) * NEVER)
        order = happens[order]
        sums = {name: np.concatenate([[0.0], np.cumsum(value[order])]) for name, value in values.items()}
        return cls(key, first, sums, order)

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

    def mean_of_last(
        self, names: list[str], time: np.ndarray, n_last: int, group: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Average values over each group's last few events before each moment; NaN where there is none."""
        end = self.before(time, group)
        begin = np.maximum(end - n_last, self.begin(len(time), group))
        count = np.where(end > begin, end - begin, np.nan)
        return [(self.sums[name][end] - self.sums[name][begin]) / count for name in names]


class Queue:
    """The jobs that wait at given moments: one sort per grouping serves every amount.

    Parameters
    ----------
    submit
        (n,) seconds, ascending.
    left
        (n,) when each job left the queue, `NEVER` if it has not.
    now, row
        (m,) the moments of the questions, and how many of the jobs came before each.
    group, own
        (n,) codes from 0, and (m,) those of the questions: only the same group's jobs count.
    """

    def __init__(
        self,
        submit: np.ndarray,
        left: np.ndarray,
        now: np.ndarray,
        row: np.ndarray,
        group: np.ndarray | None = None,
        own: np.ndarray | None = None,
    ) -> None:
        """Sort once."""
        self.submit, self.left, self.now = submit, left, now
        n, one = len(submit), 1 if own is None else int(own.max(initial=0)) + 1
        group = np.zeros(n, np.int64) if group is None else group
        own = np.zeros(len(now), np.int64) if own is None else own
        gone = Events.of(left, {}, group, max(int(group.max(initial=0)) + 1, one))
        self.order, self.position, self.begin = gone.order, gone.before(now, own), gone.begin(len(now), own)
        self.rows = np.argsort(group, kind="stable")
        key = group[self.rows] * (n + 1) + self.rows
        self.first, self.came = np.searchsorted(key, own * (n + 1)), np.searchsorted(key, own * (n + 1) + row)
        self._group, self._own = group, own

    def total(self, values: np.ndarray) -> np.ndarray:
        """Sum values over the jobs that wait at each question."""
        gone, come = (np.concatenate([[0.0], np.cumsum(values[order])]) for order in (self.order, self.rows))
        return come[self.came] - come[self.first] - (gone[self.position] - gone[self.begin])

    def oldest_age(self) -> np.ndarray:
        """Return the age of the oldest job that waits at each question; 0 without one.

        Within a group the running maximum of the times at which jobs left the queue is ascending, so that the
        first row which had not left by now is a binary search away.
        """
        ceiling = np.maximum.accumulate(self._group[self.rows] * (2 * NEVER) + self.left[self.rows])
        found = np.maximum(np.searchsorted(ceiling, self._own * (2 * NEVER) + self.now, side="left"), self.first)
        waits = found < self.came
        return np.where(waits, self.now - self.submit[self.rows[np.where(waits, found, 0)]], 0)

    def earlier(self, steps: int) -> np.ndarray:
        """Return the row ``steps`` places before each question in its group; −1 where there is none."""
        place = self.came - steps
        return np.where(place >= self.first, self.rows[np.maximum(place, 0)], -1)
