"""Is a trained policy better where the queue never empties? One run of a whole span beside honest rivals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.learn.days import Day, day_span, runnable, span_words
from procure.learn.judge import LEARNED, N_RESAMPLES, beside_it, ratio_of_sums, utilization_between
from procure.learn.policy import expected_before
from procure.learn.search import candidate_of
from procure.learn.store import TrainedPolicy
from procure.learn.train import DayFilter
from procure.learn.weeks import FIGURES, FLOOR, REFERENCE, WEEK, begins, figures_of, known_before, week_from
from procure.policies.names import RIVALS
from procure.policies.parameters import Parameters
from procure.progress import silent
from procure.run import Outcome, Prepared, prepare_checked, run_prepared
from procure.tables import JOB, NODE, check, with_clock_of
from procure.text import Shown, counted

EXACT = f"{REFERENCE}@oracle"
"""Beside what `beside_it` gives: exact run times."""
FEWEST_WEEKS = 2
"""Of fewer weeks there is no interval."""


@dataclass(frozen=True)
class Continuous(Shown):
    """How a trained policy did on a span without a break.

    Attributes
    ----------
    policies
        Per policy: ``policy``, the figures of `procure.learn.weeks.FIGURES` over all jobs that count,
        ``utilization`` (CPUs in use from the first to the last submission that counts), and the learned policy's
        mean wait and bounded slowdown as a ratio to this policy's (``wait_ratio``, ``slowdown_ratio``), each with
        the bounds of a 95 % interval by resampling weeks (``…_low``, ``…_high``).
    weeks
        Per week and policy: ``week``, ``policy``, ``n_jobs``, ``mean_wait``, ``bounded_slowdown``.
    best_rival
        Whose bounded slowdown is least of those that nobody trained.
    """

    policies: pd.DataFrame
    weeks: pd.DataFrame
    best_rival: str

    @property
    def title(self) -> str:
        """On how many weeks."""
        return f"judged on {counted(self.weeks['week'].nunique(), 'week')} without a break"

    @property
    def table(self) -> pd.DataFrame:
        """The policies."""
        return self.policies

    @property
    def notes(self) -> list[str]:
        """How the policy stands to the best of its rivals."""
        row = self.policies.set_index("policy").loc[self.best_rival]
        words = [f"the best rival by bounded slowdown is {self.best_rival}"]
        for name, what in (("slowdown", "bounded slowdown"), ("wait", "mean wait")):
            low, high = row[f"{name}_low"], row[f"{name}_high"]
            bounds = "" if np.isnan(low) else f" ({low:.3f} to {high:.3f})"
            words.append(f"{LEARNED}: {what} {row[f'{name}_ratio']:.3f} of its{bounds}")
        return ["; ".join(words)]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as ``procure learn evaluate --continuous --format json`` prints it."""
        return {
            "policies": self.policies.to_dict("records"),
            "weeks": self.weeks.to_dict("records"),
            "best_rival": self.best_rival,
        }


def evaluate_continuous(
    trained: TrainedPolicy,
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    days: DayFilter | None = None,
    *,
    rivals: Sequence[str] = RIVALS,
    note: Callable[[str], None] = silent,
) -> Continuous:
    """Judge a trained policy on the whole weeks of a span, simulated in one run with the week before them.

    Parameters
    ----------
    trained
        Of `procure.learn_policy` or `procure.read_policy`.
    jobs, nodes
        Tables; jobs that no empty set of nodes holds are left out.
    days
        The span, and its zone; the other filters do not count.
    rivals
        Policies that it is held against.
    note
        Called with what is being done, and with a warning where weeks were trained on.

    Raises
    ------
    TableError
        No job is submitted in the span.

    Examples
    --------
    >>> import procure
    >>> jobs, nodes = procure.read_log("jobs.parquet").jobs, procure.fat_tree(1, 1, 4, cpus=64, mem_mb=512_000)
    >>> found = procure.evaluate_continuous(procure.read_policy("site.policy"), jobs, nodes, rivals=["easy"])
    >>> found.policies["policy"].to_list()[:2]
    ['easy', 'random']
    """
    days = days or DayFilter(tz=trained.trained.get("tz", "UTC"))
    ready, exact, prior, starts = _laid_out(trained, jobs, nodes, days)
    seen = _trained_on(trained, days)
    if seen:
        note(f"careful: it was trained on days of this span, first {seen}: not a fair judgement")
    runs = {}
    for name, policy in _policies(trained, rivals, Day("", ready, prior, 0.0)).items():
        note(f"{name} on {counted(ready.n_counted, 'job')}")
        runs[name] = run_prepared(exact, REFERENCE) if name == EXACT else run_prepared(ready, policy)
    return _judged(ready, runs, starts, rivals)


def _trained_on(trained: TrainedPolicy, days: DayFilter) -> str | None:
    """Return the first day, or first day of a week, of the training of which a part lies in the span."""
    first, last = day_span(days.days)
    length = pd.Timedelta(days=6 if trained.trained.get("inside") == "easy" else 0)
    ends = {day: (pd.Timestamp(day) + length).strftime("%Y-%m-%d") for day in trained.trained.get("days", ())}
    return min((day for day, end in ends.items() if day <= last and end >= first), default=None)


def _laid_out(
    trained: TrainedPolicy, jobs: pd.DataFrame, nodes: pd.DataFrame, days: DayFilter
) -> tuple[Prepared, Prepared, np.ndarray, np.ndarray]:
    """Return the span prepared, the same with exact requests, expected run times, and where its weeks begin, s."""
    checked, servers = check(jobs, JOB), check(nodes, NODE)
    fitting = with_clock_of(checked, checked[runnable(checked, servers)].reset_index(drop=True))
    span = begins(fitting, *day_span(days.days), days.tz)
    ready = week_from(fitting, servers, span.start, span[-1] + WEEK) if len(span) else None
    if ready is None or ready.table is None:
        span_given = span_words(*day_span(days.days), days.tz)
        raise TableError(f"no job that fits the nodes is submitted {span_given}: there is nothing to judge")
    prior = expected_before(ready.jobs, known_before(fitting, ready, None, trained.history))
    known = ready.table.assign(requested_time=ready.table["run_time"].clip(lower=1))
    exact = prepare_checked(known, servers, True, None, ready.counts_from)
    return ready, exact, prior, np.arange(len(span)) * WEEK + ready.counts_from


def _policies(trained: TrainedPolicy, rivals: Sequence[str], day: Day) -> dict[str, str | Parameters]:
    found = {name: policy(day) for name, policy in beside_it(trained, rivals).items()}
    inside = trained.trained.get("inside", "skip")
    return found | {LEARNED: candidate_of(day, dict(trained.arrays), inside), EXACT: REFERENCE}


def _judged(ready: Prepared, runs: dict[str, Outcome], starts: np.ndarray, rivals: Sequence[str]) -> Continuous:
    submit = ready.jobs.submit
    counts = submit >= ready.counts_from
    span = int(submit[counts].min()), int(submit[counts].max())
    week_of = np.clip(np.searchsorted(starts, submit, side="right") - 1, 0, None)
    sums = {name: _weekly(ready, found, week_of, len(starts)) for name, found in runs.items()}
    n = len(starts)
    draws = np.random.default_rng(0).integers(0, n, (N_RESAMPLES, n))
    rows, weekly = [], []
    for name, found in runs.items():
        row: dict[str, Any] = {"policy": name}
        row |= dict(zip(FIGURES, figures_of(ready, found.start, found.end).tolist(), strict=True))
        row["utilization"] = utilization_between(ready, found, *span)
        for column, what in enumerate(("wait", "slowdown")):
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio, bounds = ratio_of_sums(sums[LEARNED][column], sums[name][column], draws)
            bounds = bounds if n >= FEWEST_WEEKS else [float("nan")] * 2
            row |= {f"{what}_ratio": ratio, f"{what}_low": bounds[0], f"{what}_high": bounds[1]}
        rows.append(row)
        waited, slowed, counted_jobs = sums[name]
        for i in np.flatnonzero(counted_jobs):
            means = {"mean_wait": waited[i] / counted_jobs[i], "bounded_slowdown": slowed[i] / counted_jobs[i]}
            weekly.append({"week": int(i) + 1, "policy": name, "n_jobs": int(counted_jobs[i])} | means)
    table = pd.DataFrame(rows)
    best = table[table["policy"].isin(list(rivals))].set_index("policy")["bounded_slowdown"].idxmin()
    return Continuous(table, pd.DataFrame(weekly), str(best))


def _weekly(ready: Prepared, found: Outcome, week_of: np.ndarray, n_weeks: int) -> np.ndarray:
    """Return the sums of waits and of bounded slowdowns, and how many jobs, per week: float64[3, n_weeks]."""
    counts = (ready.jobs.submit >= ready.counts_from) & (found.start >= 0)
    wait = (found.start - ready.jobs.submit)[counts].astype(np.float64)
    run = (found.end - found.start)[counts]
    slowdown = np.maximum((wait + run) / np.maximum(run, FLOOR), 1.0)
    return np.stack([np.bincount(week_of[counts], values, n_weeks) for values in (wait, slowdown, np.ones(len(wait)))])
