"""Patterns of patterns: bursts of like jobs, and their recurrence by day, by week and by month.

After "Deep-learning-based scheduling of academic-purpose HPC systems", section III: the lowest layer
are the jobs; like jobs shortly after one another are a burst; bursts that recur by day are a pattern, and
such patterns that recur by week are a pattern of the next layer. All layers are found in one pass over the
log, which a later log continues.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from procure.errors import TableError
from procure.files.kernels import njit
from procure.settings import LARGEST, Settings
from procure.text import nearest
from procure.workload.clock import from_local, to_local

DAY = 86_400
PERIODS = {"day": DAY, "week": 7 * DAY, "month": 30 * DAY}
"""Length of a period, s of the local clock."""
BY = ("user", "cpus", "limit", "mem", "gpus", "partition", "account")
"""What jobs of a pattern may have in common."""
_CLOCK_JUMP = 2 * 3600
"""By how much, s, a local clock may be set back."""


class PatternSettings(Settings):
    """What counts as a burst and as a recurrence."""

    by: tuple[str, ...] = Field(default=("user", "cpus", "limit"), min_length=1, description="what jobs have in common")
    gap: int = Field(default=3600, ge=1, le=LARGEST, description="s without a like job that end a burst")
    day_tolerance: int = Field(default=2 * 3600, ge=1, le=DAY // 2, description="s about the time of day")
    week_tolerance: int = Field(default=6 * 3600, ge=1, le=3 * DAY, description="s about the time of the week")
    month_tolerance: int = Field(default=DAY, ge=1, le=10 * DAY, description="s about 30 days later")
    tz: str | None = Field(default=None, description="zone of the local clock; none = the log's own clock, or UTC")

    @field_validator("by")
    @classmethod
    def _known(cls, by: tuple[str, ...]) -> tuple[str, ...]:
        for name in by:
            if name not in BY:
                raise ValueError(f"{name!r} is not known; {nearest(name, BY)}")
        return by

    @property
    def tolerance(self) -> np.ndarray:
        """Tolerance by layer, int64[n_layers], s."""
        return np.array([self.day_tolerance, self.week_tolerance, self.month_tolerance], np.int64)


class Bursts(NamedTuple):
    """The bursts in order of their start; an entry per burst, and per layer where two-dimensional."""

    key: np.ndarray  # int64[n], which jobs
    start: np.ndarray  # int64[n], s, Unix, of the first job
    local: np.ndarray  # int64[n], the same on the local clock
    last: np.ndarray  # int64[n], s, of the last job
    n_jobs: np.ndarray  # int64[n]
    previous: np.ndarray  # int64[n], the burst of the same key before; −1 = none
    before: np.ndarray  # int64[3, n], the burst one period ago that this one continues; −1 = none
    length: np.ndarray  # int64[3, n], bursts that follow one another at that period, this one included
    root: np.ndarray  # int64[3, n], the first burst of the pattern in that layer
    again: np.ndarray  # int64[3, n], s at which a burst came one period later; −1 = none


def _no_bursts(n: int) -> Bursts:
    return Bursts(*(np.full(n, -1, np.int64) for _ in range(6)), *(np.full((3, n), -1, np.int64) for _ in range(4)))


@njit(cache=True, nogil=True)
def follow(jobs, rule, bursts, n_bursts, last_of, burst_of):
    """Go on with the pass: put each job into a burst, and each new burst behind the one that it continues.

    ``jobs`` are their keys and submissions, s, in Unix time and on the local clock; ``rule`` the gap between bursts,
    and of each layer the period and its tolerance, s.

    Modifies ``bursts`` from ``n_bursts`` on (and ``last``, ``n_jobs`` and ``again`` before), ``last_of``
    int64[n_keys] and ``burst_of`` int64[n_rows].

    Returns
    -------
    int
        Bursts so far.
    """
    key, submit, local = jobs
    gap, periods, tolerance = rule
    for row in range(key.size):
        k = key[row]
        b = last_of[k]
        if b >= 0 and submit[row] - bursts.last[b] < gap:
            bursts.last[b] = submit[row]
            bursts.n_jobs[b] += 1
        else:
            b = n_bursts
            n_bursts += 1
            bursts.key[b], bursts.start[b], bursts.local[b] = k, submit[row], local[row]
            bursts.last[b], bursts.n_jobs[b] = submit[row], 1
            bursts.previous[b] = last_of[k]
            last_of[k] = b
            _join(bursts, b, periods, tolerance)
        burst_of[row] = b
    return n_bursts


@njit(cache=True, nogil=True)
def _join(bursts, b, periods, tolerance):
    """Find what a new burst continues: of the like bursts in the window, the nearest; ties to the later."""
    local, before, again = bursts.local, bursts.before, bursts.again
    now = local[b]
    earliest = now - periods[-1] - tolerance[-1] - _CLOCK_JUMP
    c = bursts.previous[b]
    while c >= 0 and local[c] >= earliest:
        for layer in range(3):
            away = abs(now - periods[layer] - local[c])
            if away <= tolerance[layer]:
                if again[layer, c] < 0:
                    again[layer, c] = bursts.start[b]
                best = before[layer, b]
                if best < 0 or away < abs(now - periods[layer] - local[best]):
                    before[layer, b] = c
        c = bursts.previous[c]
    for layer in range(3):
        c = before[layer, b]
        bursts.length[layer, b] = 1 if c < 0 else bursts.length[layer, c] + 1
        bursts.root[layer, b] = b
        for below in range(layer, -1, -1):  # a pattern of the layer below belongs together
            c = before[below, b]
            if c >= 0:
                bursts.root[layer, b] = bursts.root[layer, c]
                break


class Patterns:
    """The pass over a log, which `extend` continues.

    Attributes
    ----------
    settings : PatternSettings
        As given, without the columns of ``by`` in which the first log knows nothing.
    keys : pandas.DataFrame
        What the jobs of a key have in common: the columns of ``by``, and ``first_row`` of the log.
    bursts : Bursts
    n_rows : int
        Jobs so far.
    first, last : int
        s; first and last submission so far.
    notes : list of str
        Stated fallbacks.
    """

    def __init__(self, settings: PatternSettings | None = None) -> None:
        """Begin without a job."""
        self.settings = settings or PatternSettings()
        self.keys = pd.DataFrame()
        self.notes: list[str] = []
        self.n_rows = self.first = self.last = 0
        self._number: dict[tuple, int] = {}
        self._last_of = np.zeros(0, np.int64)
        self.bursts = _no_bursts(0)

    def extend(self, jobs: pd.DataFrame) -> np.ndarray:
        """Go on with further jobs of a checked job table, in any order, none before what was seen.

        Returns
        -------
        numpy.ndarray
            int64[n_rows], the burst of each job, in the table's order.

        Raises
        ------
        TableError
            A job was submitted before the last one seen, or nothing that ``by`` names is known.
        """
        submit = jobs["submit_time"].to_numpy(np.int64)
        order = np.argsort(submit, kind="stable")
        if not self.n_rows:
            self._drop_unknown(jobs)
            self.first = int(submit.min()) if len(submit) else 0
        elif len(submit) and submit[order[0]] < self.last:
            raise TableError(
                f"a job was submitted at {submit[order[0]]} s, before the last one seen, {self.last} s; "
                "patterns go on with later jobs only"
            )
        key = self._keys_of(jobs.iloc[order])
        n_old, n_new = len(self.bursts.key), len(order)
        grown = _no_bursts(n_old + n_new)
        for new, old in zip(grown, self.bursts, strict=True):
            new[..., :n_old] = old
        found = np.empty(n_new, np.int64)
        local = to_local(submit[order], self.settings.tz)
        periods = np.array(list(PERIODS.values()), np.int64)
        n = follow(
            (key, submit[order], local),
            (self.settings.gap, periods, self.settings.tolerance),
            grown,
            n_old,
            self._last_of,
            found,
        )
        self.bursts = Bursts(*(np.ascontiguousarray(array[..., :n]) for array in grown))
        self.n_rows += n_new
        self.last = max(self.last, int(submit.max())) if n_new else self.last
        burst_of = np.empty(n_new, np.int64)
        burst_of[order] = found
        return burst_of

    def _drop_unknown(self, jobs: pd.DataFrame) -> None:
        columns = {name: _column(jobs, name) for name in self.settings.by}
        known = tuple(name for name, values in columns.items() if _says_something(name, values))
        if not known:
            raise TableError(
                f"the log knows nothing of {', '.join(self.settings.by)}; name other columns: --set by=[…]"
            )
        if missing := [name for name in self.settings.by if name not in known]:
            self.notes.append(f"the log knows no {', '.join(missing)}; jobs are distinguished by {', '.join(known)}")
        self.settings = self.settings.model_copy(update={"by": known})

    def _keys_of(self, jobs: pd.DataFrame) -> np.ndarray:
        """Number the keys of jobs in order, new ones after the known ones."""
        columns = pd.DataFrame({name: _column(jobs, name) for name in self.settings.by})
        group, distinct = pd.factorize(pd.MultiIndex.from_frame(columns))
        first = np.unique(group, return_index=True)[1]
        numbers = np.empty(len(distinct), np.int64)
        fresh = []
        for i, values in enumerate(distinct):
            if values not in self._number:
                self._number[values] = len(self._number)
                fresh.append((*values, self.n_rows + int(first[i])))
            numbers[i] = self._number[values]
        rows = pd.DataFrame(fresh, columns=[*self.settings.by, "first_row"])
        self.keys = pd.concat([self.keys, rows], ignore_index=True) if len(self.keys) else rows
        self._last_of = np.concatenate([self._last_of, np.full(len(rows), -1, np.int64)])
        return numbers[group]

    def layers(self, until: int | None = None) -> list[str]:
        """Name the layers of which the log holds at least two periods until a moment."""
        span = (self.last if until is None else until) - self.first
        return [name for name, period in PERIODS.items() if span >= 2 * period]

    def table(self, fewest: int = 2) -> pd.DataFrame:
        """Return what recurs, a row per pattern of each layer, longest first.

        Parameters
        ----------
        fewest
            Least length, in periods, of a pattern that is shown.

        Returns
        -------
        pandas.DataFrame
            ``pattern every``, the columns of ``by``, ``length`` (periods in a row, the longest), ``n_bursts``,
            ``n_within`` (patterns of the layer below), ``jobs_per_burst`` (median), ``since``, ``last`` (s),
            ``at`` (time of day of the last burst, HH:MM), ``next`` (s, one period after the last burst),
            ``running`` (whether that is not yet missed) and ``burst``, the last burst's number.
        """
        parts = [self._table_of(layer, fewest) for layer in range(3)]
        shown = [part for part in parts if len(part)] or parts[:1]
        return pd.concat(shown, ignore_index=True)

    def _table_of(self, layer: int, fewest: int) -> pd.DataFrame:
        b = self.bursts
        name, period = list(PERIODS.items())[layer]
        frame = pd.DataFrame({"root": b.root[layer], "length": b.length[layer], "n_jobs": b.n_jobs, "start": b.start})
        frame["below"] = b.root[layer - 1] if layer else np.arange(len(b.key))
        groups = frame.groupby("root")
        found = groups.agg(
            length=("length", "max"),
            n_bursts=("start", "size"),
            n_within=("below", "nunique"),
            jobs_per_burst=("n_jobs", "median"),
            since=("start", "min"),
            last=("start", "max"),
        )
        found["burst"] = groups["length"].apply(lambda values: values.index[-1])
        found = found[found["length"] >= fewest].sort_values(["length", "n_bursts"], ascending=False, kind="stable")
        burst = found["burst"].to_numpy(np.int64)
        expected = from_local(b.local[burst] + period, self.settings.tz)
        found["next"] = expected
        found["running"] = expected + self.settings.tolerance[layer] >= self.last
        local = b.local[burst] % DAY
        found["at"] = [f"{s // 3600:02}:{s % 3600 // 60:02}" for s in local.tolist()]
        what = self.keys.iloc[b.key[burst]][list(self.settings.by)].set_index(found.index)
        head = pd.DataFrame({"pattern": found.index, "every": name}, index=found.index)
        return pd.concat([head, what, found], axis=1).reset_index(drop=True)


def find_patterns(jobs: pd.DataFrame, settings: PatternSettings | None = None) -> Patterns:
    """Find what recurs in a checked job table; see `Patterns`.

    Raises
    ------
    TableError
        The log is shorter than two days, or knows nothing of what ``by`` names.

    Examples
    --------
    >>> import procure
    >>> patterns = procure.find_patterns(procure.read_log("week.parquet").jobs)
    >>> patterns.n_rows > 0
    True
    """
    patterns = Patterns(settings)
    patterns.extend(jobs)
    if not patterns.layers():
        span = patterns.last - patterns.first
        raise TableError(f"the log spans {span / DAY:.1f} days; two periods, at least 2 days, are needed")
    return patterns


def _column(jobs: pd.DataFrame, name: str) -> np.ndarray:
    """Return what jobs have in common by one name; limits by powers of two, amounts of the whole job."""
    nodes = jobs["n_nodes"].to_numpy(np.int64)
    if name == "cpus":
        return np.maximum(jobs["cpus_per_node"].to_numpy(np.int64), 1) * nodes
    if name == "limit":
        limit = jobs["requested_time"].to_numpy(np.int64)
        return np.where(limit > 0, np.floor(np.log2(np.maximum(limit, 1))), -1).astype(np.int64)
    if name in ("mem", "gpus"):
        return jobs["mem_mb_per_node" if name == "mem" else "gpus_per_node"].to_numpy(np.int64) * nodes
    return jobs[name].astype(str).to_numpy() if name in jobs else np.full(len(jobs), "", object)


def _says_something(name: str, values: np.ndarray) -> bool:
    if values.dtype.kind == "O" or values.dtype.kind == "U":
        return bool((values != "").any())
    return bool((values > (-1 if name == "limit" else 0)).any())
