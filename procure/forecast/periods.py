"""Patterns of patterns: bursts of like jobs, and their recurrence by day, by week and by month.

After "Deep-learning-based scheduling of academic-purpose HPC systems", section III: the lowest layer
are the jobs; like jobs shortly after one another are a burst; bursts that recur by day are a pattern, and
such patterns that recur by week are a pattern of the next layer. All layers are found in one pass over the
log.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@njit(cache=True, nogil=True)
def follow(jobs, rule, bursts, burst_of, n_keys):
    """Put each job into a burst, and each new burst behind the one that it continues; returns how many there are.

    ``jobs`` are their keys and submissions, s, in Unix time and on the local clock; ``rule`` the gap between bursts,
    and of each layer the period and its tolerance, s. Modifies ``bursts`` and ``burst_of`` int64[n_rows].
    """
    key, submit, local = jobs
    gap, periods, tolerance = rule
    last_of, n_bursts = np.full(n_keys, -1, np.int64), 0
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


@dataclass(frozen=True)
class Patterns:
    """What recurs in a log.

    Attributes
    ----------
    settings
        As given, without the columns of ``by`` in which the log knows nothing.
    jobs
        The job table in order of submission.
    burst_of
        int64[n_jobs], the burst of each.
    keys
        What the jobs of a key have in common: the columns of ``by``.
    bursts
        See there.
    first, last
        s; the first submission, and until when what came is known.
    notes
        Stated fallbacks.
    """

    settings: PatternSettings
    jobs: pd.DataFrame
    burst_of: np.ndarray
    keys: pd.DataFrame
    bursts: Bursts
    first: int
    last: int
    notes: list[str]

    def layers(self) -> list[str]:
        """Name the layers of which the log holds at least two periods."""
        return [name for name, period in PERIODS.items() if self.last - self.first >= 2 * period]

    def table(self, fewest: int = 2) -> pd.DataFrame:
        """Return what recurs, a row per pattern of each layer with at least so many periods, longest first.

        ``every``, the columns of ``by``, ``length`` (periods in a row, the longest), ``n_bursts``, ``jobs_per_burst``
        (median), ``since``, ``last`` (s), ``at`` (time of day of the last burst, HH:MM), ``next`` (s, one period after
        the last burst) and ``running`` (whether that is not yet missed).
        """
        return pd.concat([self._table_of(layer, fewest) for layer in range(3)], ignore_index=True)

    def _table_of(self, layer: int, fewest: int) -> pd.DataFrame:
        b = self.bursts
        name, period = list(PERIODS.items())[layer]
        frame = pd.DataFrame({"length": b.length[layer], "n_jobs": b.n_jobs, "start": b.start})
        groups = frame.groupby(b.root[layer])
        found = groups.agg(
            length=("length", "max"),
            n_bursts=("start", "size"),
            jobs_per_burst=("n_jobs", "median"),
            since=("start", "min"),
            last=("start", "max"),
        )
        found["burst"] = groups["length"].apply(lambda values: values.index[-1])
        found = found[found["length"] >= fewest].sort_values(["length", "n_bursts"], ascending=False, kind="stable")
        burst = found.pop("burst").to_numpy(np.int64)
        clock = pd.to_datetime(b.local[burst], unit="s").strftime("%H:%M")
        expected = from_local(b.local[burst] + period, self.settings.tz)
        running = expected + self.settings.tolerance[layer] >= self.last
        found = found.assign(at=clock, next=expected, running=running).reset_index(drop=True)
        what = self.keys.iloc[b.key[burst]].reset_index(drop=True)
        return pd.concat([what, found], axis=1).assign(every=name)


def recurrences(jobs: pd.DataFrame, settings: PatternSettings | None = None, at: int | None = None) -> Patterns:
    """Make the pass over the jobs submitted by a moment, s; see `find_patterns`, which refuses short logs."""
    settings = settings or PatternSettings()
    if at is not None:
        jobs = jobs[jobs["submit_time"] <= at]
    jobs = jobs.sort_values("submit_time", kind="stable").reset_index(drop=True)
    columns = {name: _column(jobs, name) for name in settings.by}
    known = tuple(name for name, values in columns.items() if _says_something(name, values))
    if not known:
        raise TableError(f"the log knows nothing of {', '.join(settings.by)}; name other columns: --set by=[…]")
    notes = []
    if missing := [name for name in settings.by if name not in known]:
        notes.append(f"the log knows no {', '.join(missing)}; jobs are distinguished by {', '.join(known)}")
        settings = settings.model_copy(update={"by": known})
    key, distinct = pd.factorize(pd.MultiIndex.from_frame(pd.DataFrame(columns)[list(known)]))
    keys = distinct.to_frame(index=False, name=list(known))
    submit = jobs["submit_time"].to_numpy(np.int64)
    grown = Bursts(*(np.full(len(jobs), -1) for _ in range(6)), *(np.full((3, len(jobs)), -1) for _ in range(4)))
    burst_of = np.empty(len(jobs), np.int64)
    rule = (settings.gap, np.array(list(PERIODS.values()), np.int64), settings.tolerance)
    n = follow((key.astype(np.int64), submit, to_local(submit, settings.tz)), rule, grown, burst_of, len(keys))
    bursts = Bursts(*(np.ascontiguousarray(array[..., :n]) for array in grown))
    last = int(submit[-1]) if at is None else at  # that nobody came since the last submission is known, too
    return Patterns(settings, jobs, burst_of, keys, bursts, int(submit[0]), last, notes)


def find_patterns(jobs: pd.DataFrame, settings: PatternSettings | None = None, at: int | None = None) -> Patterns:
    """Find what recurs in a checked job table; see `Patterns`.

    Parameters
    ----------
    at
        Unix seconds: only jobs submitted by then count; the last submission without.

    Raises
    ------
    TableError
        Fewer than two days of the log lie before the moment, or it knows nothing of what ``by`` names.

    Examples
    --------
    >>> import procure
    >>> patterns = procure.find_patterns(procure.read_log("week.parquet").jobs)
    >>> len(patterns.burst_of) > 0
    True
    """
    first, last = (jobs["submit_time"].agg(which) for which in ("min", "max"))
    span = (last if at is None else at) - first if len(jobs) else 0
    if span < 2 * DAY:
        raise TableError(
            f"the log spans {max(span, 0) / DAY:.1f} days by then; two periods, at least 2 days, are needed"
        )
    return recurrences(jobs, settings, at)


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
