"""Weeks without a break to train and to judge on: what ran and waited before each is there when it begins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.learn.days import Day, known_at, runnable, span_words
from procure.learn.policy import expected_before
from procure.learn.run_times import RunTimes
from procure.progress import silent
from procure.run import Outcome, Prepared, prepare_checked, run_prepared
from procure.tables import JOB, NODE, check, with_clock_of
from procure.workload.clock import day_bounds, zone
from procure.workload.days import local_days

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


def figures_of(ready: Prepared, start: np.ndarray, end: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """Return the `FIGURES` of the jobs that count: float64[len(FIGURES)]; NaN of none.

    Parameters
    ----------
    start, end
        int64[n_jobs], s; a start below 0 of who never ran.
    counts
        bool[n_jobs], who counts; None = who was submitted from ``counts_from`` on.
    """
    jobs = ready.jobs
    counts = (jobs.submit >= ready.counts_from if counts is None else counts) & (start >= 0)
    if not counts.any():
        return np.full(len(FIGURES), np.nan)
    wait = (start - jobs.submit)[counts].astype(np.float64)
    run = (end - start)[counts]
    cpus = (np.maximum(jobs.cpus, 1) * jobs.n_nodes)[counts]
    wide = wait[cpus >= np.quantile(cpus, WIDE)]
    slowdown = np.maximum((wait + run) / np.maximum(run, FLOOR), 1.0)
    _, user = np.unique(ready.user[counts], return_inverse=True)
    of_users = (np.bincount(user, wait) / np.bincount(user)).mean()
    return np.array([wait.mean(), slowdown.mean(), np.quantile(wait, 0.95), wait.max(), wide.mean(), of_users])


def lay_out_weeks(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    first: str,
    last: str,
    tz: str,
    *,
    min_jobs: int = 50,
    min_wait: float = 60.0,
    history: RunTimes | None = None,
    progress: Callable[[str], None] = silent,
) -> list[Day]:
    """Cut the local days of a span into weeks, each with the week before it, in which jobs run but do not count.

    Parameters
    ----------
    first, last
        ``YYYY-MM-DD``, both included.
    min_jobs, min_wait
        Weeks with fewer jobs that fit the nodes, or a shorter mean wait under `REFERENCE`, s, are left out.
    history
        As `procure.learn.days.lay_out_days`: what was known of run times once.
    progress
        Called with each week's first day.

    Raises
    ------
    TableError
        No such week.
    """
    checked, servers = check(jobs, JOB), check(nodes, NODE)
    fitting = with_clock_of(checked, checked[runnable(checked, servers)].reset_index(drop=True))
    known: RunTimes | None = None
    found: list[Day] = []
    for at in begins(fitting, first, last, tz):
        ready = week_from(fitting, servers, at)
        if ready is None:
            continue
        known = known_before(fitting, ready, known, history)
        under = run_prepared(ready, REFERENCE)
        reference = float(figures_of(ready, under.start, under.end)[MEAN_WAIT])
        if ready.n_counted < min_jobs or not reference >= min_wait:
            continue
        name = pd.Timestamp(at, unit="s", tz="UTC").tz_convert(zone(tz)).strftime("%Y-%m-%d")
        found.append(Day(name, ready, expected_before(ready.jobs, known), reference))
        progress(name)
    if not found:
        raise TableError(
            f"no week {span_words(first, last, tz)} has {min_jobs} jobs that fit the nodes and a mean wait of at "
            f"least {min_wait:g} s under {REFERENCE}: there is nothing to learn from, or to judge"
        )
    return found


def begins(jobs: pd.DataFrame, first: str, last: str, tz: str) -> range:
    """Return the Unix seconds at which the whole weeks of a span begin; of a shorter span, its begin."""
    names = local_days(jobs, tz)
    inside = names[(names >= first) & (names <= last)]
    if not len(inside):
        return range(0)
    begin, end = day_bounds(str(inside.min()), tz)[0], day_bounds(str(inside.max()), tz)[1]
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


def figures_under(ready: Prepared, found: Outcome) -> np.ndarray:
    """Return the `FIGURES` of a run."""
    return figures_of(ready, found.start, found.end)
