"""Train a policy on the days of a log, and judge it on others: from tables to a result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pandas as pd
from pydantic import Field

from procure.learn.days import Day, day_span, lay_out_days
from procure.learn.judge import Judgement, evaluate
from procure.learn.search import Settings, train_by_search
from procure.learn.store import TrainedPolicy
from procure.learn.weeks import REFERENCE, lay_out_weeks
from procure.progress import silent
from procure.settings import Count
from procure.text import counted


@dataclass(frozen=True)
class DayFilter:
    """Which days of a log count.

    Attributes
    ----------
    days
        A day, a month or ``FIRST..LAST``, as in ``2021-05-01..2021-06-03``; None is all.
    tz
        Zone of the days.
    min_jobs, max_jobs
        Days with fewer or more jobs that fit the nodes are left out.
    min_wait
        Days with a shorter mean wait under SJF, s, are left out.

    Examples
    --------
    >>> import procure
    >>> procure.DayFilter("2021-05", tz="America/Chicago").min_jobs
    300
    """

    days: str | None = None
    tz: str = "UTC"
    min_jobs: Annotated[
        Count, Field(description="Leave days (train inside easy: weeks) with fewer jobs that fit the nodes out.")
    ] = 300
    max_jobs: Annotated[Count, Field(description="Leave days with more jobs that fit the nodes out.")] = 4500
    min_wait: Annotated[
        float,
        Field(
            ge=0,
            description="Leave days with a shorter mean wait under sjf out, s (train inside easy: weeks, under EASY in "
            "sjf's order).",
        ),
    ] = 300.0


@dataclass(frozen=True)
class DaysToJudge(DayFilter):
    """Which days of a log a policy is judged on: of at most 3,000 jobs."""

    max_jobs: Annotated[Count, Field(description="Leave days with more jobs that fit the nodes out.")] = 3000


def learn_policy(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    days: DayFilter | None = None,
    settings: Settings | None = None,
    *,
    note: Callable[[str], None] = silent,
) -> TrainedPolicy:
    """Train a policy: weeks without a break (or days from an empty system) are simulated under thousands of candidates.

    Parameters
    ----------
    jobs, nodes
        Checked tables; the jobs with Unix times.
    days
        On which days to train.
    settings
        Of the search.
    note
        Called with what is being done.

    Returns
    -------
    TrainedPolicy
        `procure.write_policy` keeps it for ``--policy learned:file=FILE``.

    Raises
    ------
    TableError
        No such day.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.generate(seed=1, n_jobs=300)
    >>> days = procure.DayFilter(min_jobs=10, min_wait=0)
    >>> settings = procure.LearnSettings(generations=1, population=4, processes=1)
    >>> nodes = procure.fat_tree(1, 1, 4, cpus=64, mem_mb=512_000)
    >>> procure.learn_policy(jobs, nodes, days, settings).method
    'search'
    """
    days, settings, began = days or DayFilter(), settings or Settings(), time.perf_counter()

    def say(generation: int, objective: float) -> None:
        seconds = time.perf_counter() - began
        note(f"generation {generation}, {seconds:.0f} s: best objective {objective:.4f}")

    if settings.inside == "easy":
        note(f"simulating the weeks under {REFERENCE}")
        bounds: dict[str, Any] = {"min_jobs": days.min_jobs, "min_wait": days.min_wait}
        chosen = lay_out_weeks(jobs, nodes, *day_span(days.days), days.tz, **bounds)
    else:
        note("simulating the days under sjf")
        chosen = _laid_out(jobs, nodes, days)
    what = "week" if settings.inside == "easy" else "day"
    note(f"training on {counted(len(chosen), what)}, {chosen[0].name} to {chosen[-1].name}")
    return train_by_search(jobs, nodes, chosen, days.tz, settings, say)


def evaluate_policy(
    policy: TrainedPolicy,
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    days: DayFilter | None = None,
    *,
    rollouts: tuple[int, int] = (0, 600),
    note: Callable[[str], None] = silent,
) -> Judgement:
    """Judge a trained policy on days: beside FCFS, SJF, SJF with exact run times, and best fit.

    Parameters
    ----------
    policy
        Of `learn_policy` or `procure.read_policy`.
    jobs, nodes, days
        As `learn_policy` takes them; by default days of at most 3,000 jobs in the zone that it was trained in.
    rollouts
        How far the queue is simulated ahead, s, 0 = not, and after how many seconds the choice is made again.
    note
        Called with what is being done, and with a warning where days were trained on.

    Raises
    ------
    TableError
        No such day, or no job waits on any.

    Examples
    --------
    >>> import procure
    >>> jobs, nodes = procure.read_log("jobs.parquet").jobs, procure.fat_tree(1, 1, 4, cpus=64, mem_mb=512_000)
    >>> days = procure.DayFilter(min_jobs=10, min_wait=0)
    >>> procure.evaluate_policy(procure.read_policy("site.policy"), jobs, nodes, days).days["n_jobs"].to_list()
    [400]
    """
    days = days or DaysToJudge(tz=policy.trained.get("tz", "UTC"))
    chosen = _laid_out(jobs, nodes, days, history=policy.history, with_exact=True)
    seen = sorted({day.name for day in chosen} & set(policy.trained.get("days", ())))
    if seen:
        of_these = counted(len(seen), "of these days", "of these days")
        note(f"careful: trained on {of_these}, first {seen[0]}: not a fair judgement")
    note(f"judging on {counted(len(chosen), 'day')}, {chosen[0].name} to {chosen[-1].name}")
    return evaluate(policy, chosen, ahead=rollouts[0], every=rollouts[1])


def training_days(jobs: pd.DataFrame, nodes: pd.DataFrame, days: DayFilter) -> list[Day]:
    """Return the days of a log to train on, each from an empty system."""
    return _laid_out(jobs, nodes, days)


def _laid_out(jobs: pd.DataFrame, nodes: pd.DataFrame, days: DayFilter, **options: Any) -> list[Day]:
    bounds: dict[str, Any] = {"min_jobs": days.min_jobs, "max_jobs": days.max_jobs, "min_wait": days.min_wait}
    first, last = day_span(days.days)
    return lay_out_days(jobs, nodes, first, last, days.tz, **bounds, **options)
