"""Futures: workloads that may come, made up of nothing but weeks and bursts of a log."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist
from typing import Annotated, Literal, NamedTuple

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
from procure.workload.scale import BURST_GAP, MOST_JOBS, REQUEST_AND_LIMIT, as_submitted, bursts, cpu_seconds, owners
from procure.workload.turnover import STATED, Spreads, learn_spreads

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
    growth_spread, load_spread
        Standard deviation of the logarithm of the growth a year, and of a future's load about its growth.
    class_spread, user_spread
        The same of each class's load in a future, and of each user's (of each request's, where no user is known), as
        some will be busier than they were and others less. None, of these and of ``load_spread``: learnt from the log,
        see `procure.workload.turnover`; `with_spreads` fills them in.
    redraw_run_times
        Draw run times anew from those of the same user and request.
    tz
        Zone of the local clock and of the days of the week; None = UTC.
    """

    draws: Annotated[int, Field(ge=1, le=1000)] = 20
    length: Seconds = 4 * WEEK
    growth: Growth = 1.0
    growth_spread: Annotated[float, Field(ge=0, le=1)] = 0.0
    load_spread: Annotated[float | None, Field(ge=0, le=1)] = None
    class_spread: Annotated[float | None, Field(ge=0, le=2)] = None
    user_spread: Annotated[float | None, Field(ge=0, le=2)] = None
    mix: dict[Class, Growth] = Field(default_factory=dict)
    years: Annotated[float, Field(ge=0, le=20)] = 1.0
    redraw_run_times: bool = False
    seed: Seed = 1
    tz: str | None = None

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

    @property
    def spreads(self) -> Spreads:
        """The spreads of load, class and user; the stated ones where none is given."""
        given = (self.load_spread, self.class_spread, self.user_spread)
        return Spreads(*(stated if one is None else one for one, stated in zip(given, STATED, strict=True)))

    def years_ahead(self) -> np.ndarray:
        """Return how many years after the log each future stands, float64[draws]."""
        return (np.arange(self.draws) + 0.5) / self.draws * self.years

    def loads(self, ahead: np.ndarray | None = None) -> pd.DataFrame:
        """Return how often a burst of each class is expected in each future: a row per future, a column per class.

        ``ahead``: years after the log, float64[draws]; None = `years_ahead`.

        The spreads are evenly spaced quantiles of a normal distribution, dealt out at random, and their factors
        have the mean 1: so that twenty futures hold what many would.
        """
        ahead = self.years_ahead() if ahead is None else ahead
        rng = np.random.default_rng([self.seed, 0])
        evenly = np.array([NormalDist().inv_cdf((i + 0.5) / self.draws) for i in range(self.draws)])
        drawn = np.exp(
            self.spreads.load * rng.permutation(evenly) + self.growth_spread * ahead * rng.permutation(evenly)
        )
        drawn /= drawn.mean()
        rates = {name: self.mix.get(name, self.growth) for name in CLASSES}  # type: ignore[call-overload]
        return pd.DataFrame({name: rate**ahead * drawn for name, rate in rates.items()})


class _Past(NamedTuple):
    """A log cut into whole local weeks, and these into units: what of one burst is of one class."""

    jobs: pd.DataFrame  # by unit, and in a unit in the log's order
    local: np.ndarray  # int64[n_jobs], s of the local clock
    first: np.ndarray  # int64[n_units + 1], a unit's jobs are first[u]:first[u + 1]
    unit_class: np.ndarray  # int64[n_units]
    unit_owner: np.ndarray  # int64[n_units], the user, or the request where no user is known
    unit_begin: np.ndarray  # int64[n_units], s of the local clock
    unit_week: np.ndarray  # int64[n_units]; −1 = before the first whole week
    week_begin: np.ndarray  # int64[n_weeks], s of the local clock
    has_dates: bool

    @property
    def end(self) -> int:
        return int(self.week_begin[-1] + WEEK)


def local_seconds(jobs: pd.DataFrame, tz: str | None) -> np.ndarray:
    """Return the time of each submission by the local clock, s; of a log's own clock as it is."""
    return to_local(jobs["submit_time"].to_numpy(np.int64), tz if has_dates(jobs) else None)


def whole_weeks(local: np.ndarray) -> np.ndarray:
    """Return the beginnings of the whole local weeks that end with a log, s; days left over are its first.

    A day counts as whole if the log begins within its first hour, or ends within its last.
    """
    first, last = int(local.min()), int(local.max())
    begin = -(-(first - HOUR) // DAY) * DAY
    end = (last + HOUR) // DAY * DAY
    n = max(0, (end - begin) // WEEK)
    return end - WEEK * np.arange(n, 0, -1)


def read_past(jobs: pd.DataFrame, tz: str | None = None) -> _Past:
    """Cut a log into the weeks and bursts that futures are made of.

    Raises
    ------
    TableError
        It has less than `FEWEST_WEEKS` whole weeks.
    """
    base = as_submitted(jobs)
    local = local_seconds(jobs, tz)
    weeks = whole_weeks(local) if len(jobs) else np.empty(0, np.int64)
    if len(weeks) < FEWEST_WEEKS:
        span = duration(float(np.ptp(local))) if len(jobs) else "no time at all"
        raise TableError(
            f"futures are drawn from {FEWEST_WEEKS} whole local weeks or more, and these jobs, submitted over {span}, "
            f"have {len(weeks)}; what is possible: replay them as they are ([[workloads]] without day), with days "
            "chosen by `procure workload days` or another load by `procure workload load`"
        )
    unit = bursts(base, BURST_GAP) * len(CLASSES) + class_of(base)
    order = np.lexsort((np.arange(len(base)), local, unit))
    held, first = np.unique(unit[order], return_index=True)
    begin = local[order][first]
    week = np.where(begin < weeks[0], -1, np.minimum((begin - weeks[0]) // WEEK, len(weeks) - 1))
    week[begin >= weeks[-1] + WEEK] = -1
    return _Past(
        base.iloc[order].reset_index(drop=True),
        local[order],
        np.append(first, len(base)),
        held % len(CLASSES),
        owners(base)[order][first],
        begin,
        week,
        weeks,
        has_dates(jobs),
    )


def with_spreads(jobs: pd.DataFrame, settings: Futures) -> Futures:
    """Return the settings with the spreads that futures of these jobs are drawn with."""
    return _settled(read_past(jobs, settings.tz), settings)[0]


def _settled(past: _Past, settings: Futures) -> tuple[Futures, int]:
    """Fill in spreads that are not given; return from how many pairs of weeks they were learnt, too."""
    if None not in (settings.load_spread, settings.class_spread, settings.user_spread):
        return settings, 0
    load = np.add.reduceat(cpu_seconds(past.jobs), past.first[:-1])
    learnt, n = learn_spreads(past.unit_week, past.unit_class, past.unit_owner, load)
    names = ("load_spread", "class_spread", "user_spread")
    missing = {name: one for name, one in zip(names, learnt, strict=True) if getattr(settings, name) is None}
    return settings.model_copy(update=missing), n


def draw_futures(jobs: pd.DataFrame, settings: Futures, ahead: np.ndarray | None = None) -> Iterator[pd.DataFrame]:
    """Draw workloads that may come after a log.

    Each week of a future is a whole week of the log, drawn with replacement. Every burst of it (what one user
    submits without a pause of 10 minutes; where no user is known, of one request) comes as often as a Poisson draw
    about its class's growth says: the first time where it was, each further time in a week of the future chosen at
    random, at the same hour of the same day of the week. Jobs keep what they ask for; run times are kept, or drawn
    anew within user and request.

    Parameters
    ----------
    jobs
        A job table; it is not modified.
    settings
        See `Futures`. The same jobs and settings give the same tables.
    ahead
        How many years after the log each future stands, float64[draws]; None = as the settings say. A future has the
        same random numbers wherever it stands.

    Yields
    ------
    pandas.DataFrame
        A job table in order of submission, in the weeks after the log. A job that comes again has ``+1``, ``+2`` …
        after its id. What the log says of starts, ends and nodes is left out.

    Raises
    ------
    TableError
        The log has less than three whole weeks, or a future has no job.

    Notes
    -----
    With growth 1, no season and any spreads, the expected CPU-seconds of a future are those of as many average
    weeks of the log.
    """
    past = read_past(jobs, settings.tz)
    settings, _ = _settled(past, settings)
    years = settings.years_ahead() if ahead is None else ahead
    loads = settings.loads(years).to_numpy()
    _refuse_too_many(past, settings, loads)
    for draw, (load, later) in enumerate(zip(loads, years, strict=True)):
        rng = np.random.default_rng([settings.seed, 1, draw])
        begin = past.end + round(later * YEAR / WEEK) * WEEK
        yield _draw(past, settings, load, begin, rng, f"future {draw + 1}")


def _refuse_too_many(past: _Past, settings: Futures, loads: np.ndarray) -> None:
    """Refuse futures that would hold more jobs than memory does; all of them are held at once."""
    whole = past.unit_week >= 0
    size = (past.first[1:] - past.first[:-1])[whole]
    a_week = np.bincount(past.unit_class[whole], size, len(CLASSES)) / len(past.week_begin)
    expected = float(loads.sum(axis=0) @ a_week) * settings.n_weeks
    most = max(MOST_JOBS, MOST_TIMES * len(past.jobs))
    if expected > most:
        raise TableError(
            f"{counted(settings.draws, 'future')} of {counted(settings.n_weeks, 'week')} would hold some "
            f"{expected:,.0f} jobs; at most {most:,} are drawn: ask for fewer or shorter ones, or less growth"
        )


def _draw(
    past: _Past, settings: Futures, load: np.ndarray, begin: int, rng: np.random.Generator, name: str
) -> pd.DataFrame:
    busy = _spread_about_1(settings.spreads.by_class, len(CLASSES), rng)[past.unit_class]
    owners, owner = np.unique(past.unit_owner, return_inverse=True)
    rate = load[past.unit_class] * busy * _spread_about_1(settings.spreads.by_user, len(owners), rng)[owner]
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
    size = (past.first[1:] - past.first[:-1])[unit]
    rows = np.arange(size.sum()) + np.repeat(past.first[unit] - (np.cumsum(size) - size), size)
    local = past.local[rows] + np.repeat(starts - past.unit_begin[unit], size)
    found = past.jobs.iloc[rows]
    submit = from_local(local, settings.tz if past.has_dates else None)
    if "due_time" in found:
        found = found.assign(due_time=found["due_time"] + (submit - found["submit_time"].to_numpy()))
    found = found.assign(submit_time=submit, job_id=_ids(found["job_id"].to_numpy(), rows))
    if settings.redraw_run_times:
        found = found.assign(run_time=_redrawn(past.jobs, rows, rng))
    found = found.sort_values("submit_time", kind="stable", ignore_index=True)
    return with_clock(found, "unix" if past.has_dates else "log")


def _spread_about_1(spread: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw log-normal factors of mean 1."""
    return np.exp(rng.normal(0.0, spread, n) - spread**2 / 2)


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


def _ids(names: np.ndarray, rows: np.ndarray) -> list[str]:
    """Tell a job's further appearances apart."""
    again = pd.Series(rows).groupby(rows).cumcount().to_numpy()
    return [f"{name}+{n}" if n else str(name) for name, n in zip(names, again, strict=True)]


def _redrawn(jobs: pd.DataFrame, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw run times from all jobs of the log of the same user and request."""
    group = jobs.groupby(["user", *REQUEST_AND_LIMIT], sort=False, dropna=False).ngroup().to_numpy()
    order = np.argsort(group, kind="stable")
    size = np.bincount(group)
    first = np.cumsum(size) - size
    mine = group[rows]
    return jobs["run_time"].to_numpy()[order[first[mine] + rng.integers(0, size[mine])]]


def compare_futures(jobs: pd.DataFrame, futures: list[pd.DataFrame], settings: Futures) -> pd.DataFrame:
    """Say how futures differ from the past: CPU-hours a week, by week, by class and by hour of the day.

    Returns
    -------
    pandas.DataFrame
        ``by`` (week, class, hour), ``of`` (its name), ``past`` (CPU-hours a week; the mean over the log's whole
        weeks, but for single weeks), ``mean low high`` (over the futures, or for weeks over all their weeks: mean
        and the 5 % and 95 % quantiles).
    """
    past = read_past(jobs, settings.tz)
    whole = np.repeat(past.unit_week >= 0, past.first[1:] - past.first[:-1])
    n, begin = len(past.week_begin), int(past.week_begin[0])
    before = _loads(past.jobs[whole], past.local[whole], begin, n)
    after = [_loads(one, local_seconds(one, settings.tz), begin, settings.n_weeks) for one in futures]
    every = np.concatenate([one["week"].to_numpy() for one in after])
    rows = [
        {"by": "week", "of": f"{i + 1}", "past": load} | _spread(every)
        for i, load in enumerate(before["week"].to_numpy())
    ]
    for by in ("class", "hour"):
        for of, load in before[by].items():
            drawn = np.array([one[by][of] for one in after]) / settings.n_weeks
            rows.append({"by": by, "of": str(of), "past": float(load) / n} | _spread(drawn))
    return pd.DataFrame(rows)


def _loads(jobs: pd.DataFrame, local: np.ndarray, begin: int, n_weeks: int) -> dict[str, pd.Series]:
    """Sum CPU-hours by week, by class and by hour of the day; what reaches beyond the last week is of that."""
    hours = pd.Series(cpu_seconds(jobs) / HOUR)
    week = (local - begin) // WEEK
    week = np.minimum(week - week.min(), n_weeks - 1)
    names = pd.Categorical.from_codes(class_of(jobs), categories=list(CLASSES))
    return {
        "week": hours.groupby(week).sum().reindex(range(n_weeks), fill_value=0.0),
        "class": hours.groupby(names, observed=False).sum(),
        "hour": hours.groupby(local % DAY // HOUR).sum().reindex(range(24), fill_value=0.0),
    }


def _spread(drawn: np.ndarray) -> dict[str, float]:
    low, high = np.quantile(drawn, [0.05, 0.95])
    return {"mean": float(drawn.mean()), "low": float(low), "high": float(high)}


def say_futures(jobs: pd.DataFrame, settings: Futures) -> str:
    """Say in one sentence how futures are drawn."""
    past = read_past(jobs, settings.tz)
    settled, pairs = _settled(past, settings)
    ahead, load, spreads = settled.years_ahead(), settled.loads(), settled.spreads
    how = "as given"
    if settled is not settings:
        how = (
            f"learnt from {counted(pairs, 'pair')} of weeks four weeks apart"
            if pairs
            else "stated: the log is too short to learn them"
        )
    return (
        f"{counted(settings.draws, 'future')} of {duration(settings.length)}, drawn from "
        f"{counted(len(past.week_begin), 'week')} of the past, {ahead[0]:.1f} to {ahead[-1]:.1f} years ahead, with "
        f"{load.min().min():.2f} to {load.max().max():.2f} times the load; spreads of load {spreads.load:.2f}, "
        f"classes {spreads.by_class:.2f} and users {spreads.by_user:.2f}, {how}"
    )
