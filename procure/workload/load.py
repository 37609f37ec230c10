"""More or less of the same load: bursts superposed or left out, and futures drawn from a log's weeks and bursts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from procure.errors import ArgumentError, TableError
from procure.schemas import CLASSES, REQUEST
from procure.settings import Seconds, Seed, Settings
from procure.tables import with_clock, with_clock_of
from procure.text import counted, duration
from procure.workload.clock import from_local, has_dates, to_local
from procure.workload.describe import class_of

BURST_GAP = 600
"""Seconds; a job submitted less than this after the one before it, by the same user, is of the same burst."""

TOLERANCE = 0.01
"""How far the CPU-seconds may be from the load asked for before the user is told, as a share of the input's."""

MOST_LOAD, MOST_JOBS, JOBS_RATIO = 1000, 3_000_000, 10
"""The largest load, in multiples of the table's own, and the most jobs it may make, or ten times the table's."""

_OF_THE_LOG = ["eligible_time", "start_time", "end_time", "node_ids"]
REQUEST_AND_LIMIT = [*REQUEST, "requested_time"]
DAY, HOUR = 86_400, 3600
WEEK = 7 * DAY
YEAR = 365.25 * DAY


def cpu_seconds(jobs: pd.DataFrame) -> np.ndarray:
    """Return CPUs × nodes × run time of each job, float64."""
    amount = jobs["cpus_per_node"].to_numpy(dtype="float64") * jobs["n_nodes"].to_numpy()
    return np.asarray(amount * jobs["run_time"].to_numpy())


def as_submitted(jobs: pd.DataFrame) -> pd.DataFrame:
    """Leave out what a log says of starts, ends and nodes."""
    return jobs.drop(columns=[name for name in _OF_THE_LOG if name in jobs])


def owners(jobs: pd.DataFrame) -> np.ndarray:
    """Number who submitted each job: its user, or where the log names none, its request and limit."""
    named = (jobs["user"] != "").to_numpy()
    by_user = jobs.groupby("user", sort=False).ngroup().to_numpy()
    by_request = jobs.groupby(REQUEST_AND_LIMIT, sort=False, dropna=False).ngroup().to_numpy()
    return np.where(named, by_user, len(jobs) + by_request)


def bursts(jobs: pd.DataFrame, gap: int = BURST_GAP) -> np.ndarray:
    """Return the number of the burst that each job is of, int64 from 0.

    A burst is what one user submits with less than ``gap`` seconds from job to job. Where the log names
    no user, jobs with the same request and limit count as one user's.
    """
    who, submit = owners(jobs), jobs["submit_time"].to_numpy()
    order = np.lexsort((np.arange(len(jobs)), submit, who))
    begins = np.ones(len(jobs), dtype=bool)
    begins[1:] = (np.diff(who[order]) != 0) | (np.diff(submit[order]) >= gap)
    found = np.empty(len(jobs), dtype="int64")
    found[order] = np.cumsum(begins) - 1
    return found


def scale_load(jobs: pd.DataFrame, factor: float, seed: int = 1) -> pd.DataFrame:
    """Return the workload with a different load: its CPU-seconds are ``factor`` times as many.

    Below 1, whole bursts are left out. Above 1, copies of whole bursts are superposed, each moved in
    time: to a random second of the same hour of the day, and where the log is long enough to another day
    of it (from two weeks on, to the same weekday). The copies lie between the first and the last
    submission of the log. Run times, limits and requests are never changed.

    Parameters
    ----------
    jobs
        A job table; it is not modified.
    factor
        Above 0.
    seed
        The same table, factor and seed give the same table.

    Returns
    -------
    pandas.DataFrame
        A job table in order of submission, where equal submissions stand as in ``jobs``, copies last. A
        copy's ``job_id`` ends in ``+1``, ``+2`` … What the log says of starts, ends and nodes
        is left out: it did not happen under this load.

    Raises
    ------
    TableError
        The factor is not above 0 or too large, or nothing would be left.

    Notes
    -----
    Bursts are gone through from the largest down. Each is taken with the probability that the bursts
    from it on must have for the target to be met on average, so that every size has about the same chance; it is left
    out if it would exceed the target, and taken if the target could not be met without it. So the CPU-seconds meet the
    target exactly, but where a burst outweighs all smaller ones together: then they miss it by half of that burst.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.generate(seed=1, n_jobs=100)
    >>> len(procure.scale_load(jobs, 0.5, seed=1)) < len(jobs)
    True
    """
    most = max(MOST_JOBS, JOBS_RATIO * len(jobs))
    if not 0 < factor <= MOST_LOAD:
        allowed = f"it must be above 0 and at most {MOST_LOAD:,}, 1 being the log's own"
        raise ArgumentError("factor", f"a load of {factor:g} was given; {allowed}")
    if jobs.empty:
        raise TableError("there are no jobs whose load could be scaled")
    if (n := factor * len(jobs)) > most:
        raise ArgumentError("factor", f"a load of {factor:g} makes some {n:,.0f} jobs; at most {most:,} are made")
    rng = np.random.default_rng(seed)
    base = as_submitted(jobs)
    burst = bursts(base)
    sizes = np.bincount(burst, weights=cpu_seconds(base))
    whole, part = divmod(factor, 1.0)
    if whole == 0:
        scaled = base[_pick(sizes, part, rng)[burst]]
        if scaled.empty:
            raise TableError(f"a load of {factor} leaves no burst of the {len(sizes):,} in this workload")
    else:
        taken = [np.ones(len(sizes), dtype=bool)] * (int(whole) - 1)
        taken += [_pick(sizes, part, rng)] if part else []
        scaled = pd.concat([base, *(_moved(base, burst, one, f"+{i}", rng) for i, one in enumerate(taken, 1))])
    return with_clock_of(jobs, scaled.sort_values("submit_time", kind="stable", ignore_index=True))


def _pick(sizes: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Mark bursts that together hold the share of all CPU-seconds, as nearly as whole bursts can."""
    descending = np.argsort(-sizes, kind="stable")
    to_come = np.cumsum(sizes[descending][::-1])[::-1]
    target = float(to_come[0]) * share
    taken = np.zeros(len(sizes), dtype=bool)
    for one, coming, luck in zip(descending, to_come, rng.random(len(sizes)), strict=True):
        size = float(sizes[one])
        over, short = size - target, target - (coming - size)
        if max(over, short) > 0:
            taken[one] = over <= short
        else:
            taken[one] = luck * coming < target if coming else luck < share
        target -= size * taken[one]
    return taken


def _moved(
    jobs: pd.DataFrame, burst: np.ndarray, taken: np.ndarray, suffix: str, rng: np.random.Generator
) -> pd.DataFrame:
    """Return a copy of some bursts, each moved as a whole."""
    submit = jobs["submit_time"].to_numpy()
    first, last = int(submit.min()), int(submit.max())
    start = np.full(len(taken), np.iinfo("int64").max)
    end = np.full(len(taken), np.iinfo("int64").min)
    np.minimum.at(start, burst, submit)
    np.maximum.at(end, burst, submit)
    latest = last - (end - start)
    hour = start // HOUR * HOUR
    period = WEEK if last - first >= 2 * WEEK else DAY
    # Whole periods by which some second of the hour stays inside the log; 0 is always among them.
    low, high = -((hour + HOUR - 1 - first) // period), (latest - hour) // period
    hour = hour + period * rng.integers(low, high + 1)
    second = rng.integers(np.maximum(hour, first), np.minimum(hour + HOUR - 1, latest) + 1)
    shift = (second - start)[burst][taken[burst]]
    copy = jobs[taken[burst]]
    copy = copy.assign(job_id=copy["job_id"] + suffix, submit_time=copy["submit_time"] + shift)
    return copy.assign(due_time=copy["due_time"] + shift) if "due_time" in copy else copy


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
    """Draw workloads that may come after a log, in order of submission, in the weeks after it.

    Each week of a future is a whole week of the log, drawn with replacement. Every burst of it (what one user
    submits without a pause of 10 minutes; where no user is known, of one request) comes as often as a Poisson draw
    about its class's growth says: the first time where it was, each further time in a week of the future chosen at
    random, at the same hour of the same day of the week. Jobs keep what they ask for and how long they run. With
    growth 1 and no season, the expected CPU-seconds of a future are those of as many average weeks of the log.

    A job that comes again has ``+1``, ``+2`` … after its id. What the log says of starts, ends and nodes is left out.
    A log of less than three whole weeks, a future without a job, and too many jobs are `TableError`.
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
