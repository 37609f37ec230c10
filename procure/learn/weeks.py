"""Weeks without a break, or days from an empty system, to train and to judge on, and the figures of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from procure.errors import ArgumentError, TableError
from procure.learn.features import RunTimes, expected_before, known_at
from procure.run import Prepared, prepare, prepare_checked, run_prepared
from procure.settings import Count
from procure.simulator.state import n_fitting_nodes
from procure.tables import JOB, NODE, check, with_clock_of
from procure.workload.clock import day_bounds, zone
from procure.workload.parts import local_days, split_days

WEEK = 604_800
"""s; the length of a week that counts, and of what is simulated before it."""
REFERENCE = "easy:order=sjf,queue_order=sjf,place=best"
"""What a search is held against: the shortest request first, at the head of the queue too."""
FIGURES = ("mean_wait", "bounded_slowdown", "p95_wait", "max_wait", "widest_wait", "user_wait")
"""Of the jobs that count: waits in s, that of the 5 % with most CPUs, and the mean over users of each one's mean."""
MEAN_WAIT, SLOWDOWN, P95, LONGEST, WIDEST, USERS = range(6)
WIDE = 0.95
"""Jobs of at least this quantile of CPUs are the widest."""
FLOOR = 10.0
"""s, of the bounded slowdown."""
DAY_OR_MONTH = re.compile(r"\d{4}-\d{2}(-\d{2})?")
FIRST_MONTH, LAST_MONTH = "0001-01", "9999-12"
"""The ends of a span that is open."""


@dataclass(frozen=True)
class DayFilter:
    """Which weeks or days of a log count.

    Attributes
    ----------
    days
        A day, a month or ``FIRST..LAST``, as in ``2021-05-01..2021-06-03``, of which one may lack; None is all.
    tz
        Zone of the days.
    min_jobs
        Weeks, or days, with fewer jobs that fit the nodes are left out.
    min_wait
        Those with a shorter mean wait, s, are left out: weeks under `REFERENCE`, days under SJF.
    max_jobs
        Days with more jobs that fit the nodes are left out.

    Examples
    --------
    >>> import procure
    >>> procure.DayFilter("2021-05", tz="America/Chicago").min_jobs
    300
    """

    days: str | None = None
    tz: str = "UTC"
    min_jobs: Annotated[Count, Field(description="Leave weeks (or days) with fewer jobs that fit the nodes out.")] = 300
    min_wait: Annotated[
        float, Field(ge=0, description="Leave those with a shorter mean wait under EASY in sjf's order (sjf) out, s.")
    ] = 300.0
    max_jobs: Annotated[Count, Field(description="Leave days with more jobs that fit the nodes out.")] = 3000

    @property
    def span(self) -> tuple[str, str]:
        """The first and the last day."""
        first, dots, last = (self.days or "..").partition("..")
        if dots:
            first, last = first or FIRST_MONTH, last or LAST_MONTH
        last = last or first
        for part in (first, last):
            if not DAY_OR_MONTH.fullmatch(part):
                words = "write a day, a month, FIRST..LAST, FIRST.. or ..LAST, e.g. 2021-05-01..2021-06-03"
                raise ArgumentError("days", f"{self.days!r} was given; {words}")
        last = last if len(last) > 7 else f"{last}-31"
        if last < first:
            raise ArgumentError("days", f"{self.days!r} was given; it ends before it begins")
        return first, last

    def __str__(self) -> str:
        first, last = self.span
        begins, ends = first > FIRST_MONTH, last[:4] < LAST_MONTH[:4]
        if not begins and not ends:
            return "in the log"
        if not ends:
            return f"from {first} on ({self.tz})"
        return f"from {first} to {last} ({self.tz})" if begins else f"up to {last} ({self.tz})"


@dataclass(frozen=True)
class Period:
    """The jobs of a week, with those of the week before it, or of a day, laid out on the nodes that hold them."""

    name: str  # its first day, YYYY-MM-DD
    ready: Prepared
    prior: np.ndarray  # float64[n_jobs], s that each was expected to run when the period began, in queue order


def waits_of(ready: Prepared, start: np.ndarray, end: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the waits, s, and the bounded slowdowns of the jobs that count, float64[n_counted]."""
    wait = (start - ready.jobs.submit)[counts].astype(np.float64)
    run = (end - start)[counts]
    return wait, np.maximum((wait + run) / np.maximum(run, FLOOR), 1.0)


def figures_of(ready: Prepared, start: np.ndarray, end: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """Return the `FIGURES` of the jobs that count: float64[len(FIGURES)]; NaN of none.

    A start, s, is below 0 of who never ran. Without ``counts`` who was submitted from ``counts_from`` on counts.
    """
    jobs = ready.jobs
    counts = (jobs.submit >= ready.counts_from if counts is None else counts) & (start >= 0)
    if not counts.any():
        return np.full(len(FIGURES), np.nan)
    wait, slowdown = waits_of(ready, start, end, counts)
    cpus = (np.maximum(jobs.cpus, 1) * jobs.n_nodes)[counts]
    wide = wait[cpus >= np.quantile(cpus, WIDE)]
    _, user = np.unique(ready.user[counts], return_inverse=True)
    of_users = (np.bincount(user, wait) / np.bincount(user)).mean()
    return np.array([wait.mean(), slowdown.mean(), np.quantile(wait, 0.95), wait.max(), wide.mean(), of_users])


def fitting(jobs: pd.DataFrame, nodes: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Check a job and a node table; return the jobs that some empty set of nodes holds, and the nodes."""
    checked, servers = check(jobs, JOB), check(nodes, NODE)
    ready = prepare(checked, servers)
    n_fitting = n_fitting_nodes(ready.fits, ready.kind_of)
    holds = np.empty(len(checked), bool)
    holds[ready.jobs.row] = (n_fitting >= ready.jobs.shape_nodes)[ready.jobs.shape_of]
    return with_clock_of(checked, checked[holds].reset_index(drop=True)), servers


def lay_out(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    days: DayFilter,
    *,
    daily: bool = False,
    history: RunTimes | None = None,
) -> list[Period]:
    """Cut a span of a log into weeks, or into days from an empty system, and keep those in which jobs wait.

    What was known of run times once, the ``history``, is used on periods that begin later, with what ended since. On
    others, and without, all that is known is what had ended when the period began.
    """
    able, servers = fitting(jobs, nodes)
    known: RunTimes | None = None
    found: list[Period] = []
    for name, ready in (_days if daily else _weeks)(able, servers, days):
        known = known_before(able, ready, known, history)
        under = run_prepared(ready, "sjf" if daily else REFERENCE)
        wait = figures_of(ready, under.start, under.end)[MEAN_WAIT]
        if days.min_jobs <= ready.n_counted and wait >= days.min_wait:
            found.append(Period(name, ready, expected_before(ready.jobs, known)))
    if not found:
        what, rule = (f"to {days.max_jobs} ", "sjf") if daily else ("", REFERENCE)
        raise TableError(
            f"no {'day' if daily else 'week'} {days} has {days.min_jobs} {what}jobs that fit the nodes and a mean wait "
            f"of at least {days.min_wait:g} s under {rule}: there is nothing to learn from, or to judge"
        )
    return found


def _weeks(jobs: pd.DataFrame, nodes: pd.DataFrame, days: DayFilter) -> Iterator[tuple[str, Prepared]]:
    for at in begins(jobs, days):
        ready = week_from(jobs, nodes, at)
        if ready is not None:
            yield pd.Timestamp(at, unit="s", tz="UTC").tz_convert(zone(days.tz)).strftime("%Y-%m-%d"), ready


def _days(jobs: pd.DataFrame, nodes: pd.DataFrame, days: DayFilter) -> Iterator[tuple[str, Prepared]]:
    first, last = days.span
    for name, part in split_days(jobs, days.tz).items():
        if first <= name <= last and len(part) <= days.max_jobs:
            yield name, prepare(part, nodes)


def begins(jobs: pd.DataFrame, days: DayFilter) -> range:
    """Return the Unix seconds at which the whole weeks of a span begin; of a shorter span, its begin."""
    names, (first, last) = local_days(jobs, days.tz), days.span
    inside = names[(names >= first) & (names <= last)]
    if not len(inside):
        return range(0)
    begin, end = day_bounds(str(inside.min()), days.tz)[0], day_bounds(str(inside.max()), days.tz)[1]
    return range(begin, max(end - WEEK, begin) + 1, WEEK)


def week_from(jobs: pd.DataFrame, nodes: pd.DataFrame, at: int, end: int | None = None) -> Prepared | None:
    """Lay out what counts from ``at`` on, Unix s, a week or until ``end``; None if nobody is submitted in it."""
    submit = jobs["submit_time"]
    mine = jobs[(submit >= at - WEEK) & (submit < (at + WEEK if end is None else end))]
    if mine.empty or int(mine["submit_time"].max()) < at:
        return None
    mine = with_clock_of(jobs, mine.reset_index(drop=True))
    return prepare_checked(mine, nodes, True, None, max(at - int(mine["submit_time"].min()), 0))


def known_before(jobs: pd.DataFrame, ready: Prepared, known: RunTimes | None, history: RunTimes | None) -> RunTimes:
    """Return what was known of run times when prepared jobs of a log begin; ``known`` is of an earlier moment."""
    moment = int(ready.began or 0)
    if known is None or (history is not None and known.as_of < history.as_of <= moment):
        return known_at(jobs, moment, history)
    return known.updated(jobs, moment)
