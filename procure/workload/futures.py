"""Futures: workloads that may come, made up of nothing but weeks and bursts of a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from procure.errors import TableError
from procure.schemas import CLASSES
from procure.settings import Seconds, Seed, Settings
from procure.tables import with_clock
from procure.text import counted, duration
from procure.workload.classes import class_of
from procure.workload.clock import from_local, has_dates, to_local
from procure.workload.scale import BURST_GAP, MOST_JOBS, as_submitted, bursts

DAY, HOUR = 86_400, 3600
WEEK = 7 * DAY
YEAR = 365.25 * DAY

Class = Literal["gpu", "memory", "wide", "cpu"]

FEWEST_WEEKS = 3
MOST_TIMES = 50
"""The futures of a log hold `MOST_JOBS` jobs together, or so many times its own."""
SEASON = 28 * DAY
"""Where a log has more than a year, a week is drawn from those at most so far from its place in the year."""

Growth = Annotated[float, Field(ge=0.1, le=10)]


class Futures(Settings):
    """How futures are drawn.

    Attributes
    ----------
    draws, length, seed
        How many futures, how long each is (whole weeks), and the seed of all.
    growth, years
        By how much the load grows a year, and how many years the system is to serve: future i of n stands
        (i + ½)/n × years after the log, with the load that it has grown to by then.
    mix
        Growth a year of single classes (`CLASSES`) instead.
    tz
        Zone of the local clock and of the days of the week; None = UTC.
    """

    draws: Annotated[int, Field(ge=1, le=1000)] = 20
    length: Seconds = 4 * WEEK
    growth: Growth = 1.0
    mix: dict[Class, Growth] = Field(default_factory=dict)
    years: Annotated[float, Field(ge=0, le=20)] = 1.0
    seed: Seed = 1
    tz: str | None = None

    REMOVED: ClassVar[dict[str, str]] = {
        "redraw_run_times": "a future's jobs run as long as they ran",
        "folder": "a study draws its futures itself",
    } | dict.fromkeys(
        ("growth_spread", "load_spread", "class_spread", "user_spread"),
        "futures chosen by spreads were no better than the past as it was; growth says how the load grows",
    )

    @field_validator("length")
    @classmethod
    def _whole_weeks(cls, length: int) -> int:
        if length < WEEK or length % WEEK:
            raise ValueError(f"{duration(length)} was given; whole weeks are needed, such as '28d'")
        return length

    @property
    def n_weeks(self) -> int:
        """Weeks of a future."""
        return self.length // WEEK

    def years_ahead(self) -> np.ndarray:
        """Return how many years after the log each future stands, float64[draws]."""
        return (np.arange(self.draws) + 0.5) / self.draws * self.years

    def loads(self) -> np.ndarray:
        """Return how often a burst of each class is expected in each future, float64[draws, classes]."""
        rates = np.array([self.mix.get(name, self.growth) for name in CLASSES])  # type: ignore[call-overload]
        return np.asarray(rates ** self.years_ahead()[:, None])


class _Past(NamedTuple):
    """A log cut into whole local weeks, and these into units: what of one burst is of one class."""

    jobs: pd.DataFrame  # by unit, and in a unit in the log's order
    local: np.ndarray  # int64[n_jobs], s of the local clock
    first: np.ndarray  # int64[n_units], a unit's first job
    size: np.ndarray  # int64[n_units], its jobs
    unit_class: np.ndarray  # int64[n_units]
    unit_begin: np.ndarray  # int64[n_units], s of the local clock
    unit_week: np.ndarray  # int64[n_units]; −1 = before the first whole week
    week_begin: np.ndarray  # int64[n_weeks], s of the local clock
    has_dates: bool


def local_seconds(jobs: pd.DataFrame, tz: str | None) -> np.ndarray:
    """Return the time of each submission by the local clock, s; of a log's own clock as it is."""
    return to_local(jobs["submit_time"].to_numpy(np.int64), tz if has_dates(jobs) else None)


def _whole_weeks(local: np.ndarray) -> np.ndarray:
    """Return the beginnings of the whole local weeks that end with a log, s; days left over are its first.

    A day counts as whole if the log begins within its first hour, or ends within its last.
    """
    begin = -(-(int(local.min()) - HOUR) // DAY) * DAY
    end = (int(local.max()) + HOUR) // DAY * DAY
    return end - WEEK * np.arange(max(0, (end - begin) // WEEK), 0, -1)


def _read_past(jobs: pd.DataFrame, tz: str | None) -> _Past:
    base, local = as_submitted(jobs), local_seconds(jobs, tz)
    weeks = _whole_weeks(local) if len(jobs) else np.empty(0, np.int64)
    if len(weeks) < FEWEST_WEEKS:
        span = duration(float(np.ptp(local))) if len(jobs) else "no time at all"
        raise TableError(
            f"futures are drawn from {FEWEST_WEEKS} whole local weeks or more, and these jobs, submitted over {span}, "
            f"have {len(weeks)}; what is possible: replay them as they are ([[workloads]] without day), with days "
            "chosen by `procure workload days` or another load by `procure workload slice --load`"
        )
    unit = bursts(base, BURST_GAP) * len(CLASSES) + class_of(base)
    order = np.lexsort((np.arange(len(base)), local, unit))
    held, first, size = np.unique(unit[order], return_index=True, return_counts=True)
    begin, local = local[order][first], local[order]
    inside = (begin >= weeks[0]) & (begin < weeks[-1] + WEEK)
    week = np.where(inside, (begin - weeks[0]) // WEEK, -1)
    base = base.iloc[order].reset_index(drop=True)
    return _Past(base, local, first, size, held % len(CLASSES), begin, week, weeks, has_dates(jobs))


def draw_futures(jobs: pd.DataFrame, settings: Futures) -> Iterator[pd.DataFrame]:
    """Draw workloads that may come after a log.

    Each week of a future is a whole week of the log, drawn with replacement. Every burst of it (what one user
    submits without a pause of 10 minutes; where no user is known, of one request) comes as often as a Poisson draw
    about its class's growth says: the first time where it was, each further time in a week of the future chosen at
    random, at the same hour of the same day of the week. Jobs keep what they ask for and how long they run. With
    growth 1 and no season, the expected CPU-seconds of a future are those of as many average weeks of the log.

    Parameters
    ----------
    jobs
        A job table; it is not modified.
    settings
        See `Futures`. The same jobs and settings give the same tables.

    Yields
    ------
    pandas.DataFrame
        A job table in order of submission, in the weeks after the log. A job that comes again has ``+1``, ``+2`` …
        after its id. What the log says of starts, ends and nodes is left out.

    Raises
    ------
    TableError
        The log has less than three whole weeks, or a future has no job, or futures would hold too many.
    """
    past, loads = _read_past(jobs, settings.tz), settings.loads()
    whole = past.unit_week >= 0
    a_week = np.bincount(past.unit_class[whole], past.size[whole], len(CLASSES)) / len(past.week_begin)
    expected = float(loads.sum(axis=0) @ a_week) * settings.n_weeks
    most = max(MOST_JOBS, MOST_TIMES * len(past.jobs))
    if expected > most:
        raise TableError(
            f"{counted(settings.draws, 'future')} of {counted(settings.n_weeks, 'week')} would hold some "
            f"{expected:,.0f} jobs; at most {most:,} are drawn: ask for fewer or shorter ones, or less growth"
        )
    for draw, (load, later) in enumerate(zip(loads, settings.years_ahead(), strict=True)):
        rng = np.random.default_rng([settings.seed, 1, draw])
        begin = int(past.week_begin[-1]) + WEEK + round(later * YEAR / WEEK) * WEEK
        yield _draw(past, settings, load, begin, rng, f"future {draw + 1}")


def _draw(
    past: _Past, settings: Futures, load: np.ndarray, begin: int, rng: np.random.Generator, name: str
) -> pd.DataFrame:
    rate = load[past.unit_class]
    units, dest = [], []
    for week, source in enumerate(_weeks(past, settings.n_weeks, begin, rng)):
        mine = np.flatnonzero(past.unit_week == source)
        times = rng.poisson(rate[mine])
        again = np.repeat(mine, times)
        copy = np.arange(len(again)) - np.repeat(np.cumsum(times) - times, times)
        since = past.unit_begin[again] - past.week_begin[source]
        moved = since // HOUR * HOUR + rng.integers(0, HOUR, len(again))
        there = np.where(copy == 0, week, rng.integers(0, settings.n_weeks, len(again)))
        units.append(again)
        dest.append(begin + there * WEEK + np.where(copy == 0, since, moved))
    unit, starts = np.concatenate(units), np.concatenate(dest)
    if not len(unit):
        raise TableError(f"{name} has no job: the log's bursts are too few for so small a load")
    size = past.size[unit]
    rows = np.arange(size.sum()) + np.repeat(past.first[unit] - (np.cumsum(size) - size), size)
    local = past.local[rows] + np.repeat(starts - past.unit_begin[unit], size)
    found = past.jobs.iloc[rows]
    submit = from_local(local, settings.tz if past.has_dates else None)
    if "due_time" in found:
        found = found.assign(due_time=found["due_time"] + (submit - found["submit_time"].to_numpy()))
    again = pd.Series(rows).groupby(rows).cumcount().to_numpy()
    ids = [f"{name}+{n}" if n else str(name) for name, n in zip(found["job_id"], again, strict=True)]
    found = found.assign(submit_time=submit, job_id=ids)
    found = found.sort_values("submit_time", kind="stable", ignore_index=True)
    return with_clock(found, "unix" if past.has_dates else "log")


def _weeks(past: _Past, n: int, begin: int, rng: np.random.Generator) -> np.ndarray:
    """Draw which weeks of the past a future consists of."""
    many = len(past.week_begin)
    if not past.has_dates or many * WEEK <= YEAR:
        return rng.integers(0, many, n)
    found = np.empty(n, np.int64)
    for week in range(n):
        off = (past.week_begin - (begin + week * WEEK)) % YEAR
        found[week] = rng.choice(np.flatnonzero(np.minimum(off, YEAR - off) <= SEASON))
    return found
