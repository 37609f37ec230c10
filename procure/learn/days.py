"""Days to train and to judge on: each from an empty system, with what was known of run times before it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from pydantic import ConfigDict

from procure.errors import ArgumentError, TableError
from procure.learn.order import LearnedEasy
from procure.learn.policy import compiled, expected_before
from procure.learn.run_times import RunTimes
from procure.learn.store import TrainedPolicy
from procure.policies.parameters import Parameters
from procure.run import Outcome, Prepared, prepare, run_prepared
from procure.settings import NaturalInt, PositiveInt
from procure.simulator import state as simulator_state
from procure.simulator.drive import CompiledPolicy, drive
from procure.simulator.state import State
from procure.tables import with_clock_of
from procure.workload.days import local_days, split_days

DAY_OR_MONTH = re.compile(r"\d{4}-\d{2}(-\d{2})?")
FIRST_MONTH, LAST_MONTH = "0001-01", "9999-12"
"""The ends of a span that is open."""


@dataclass(frozen=True)
class Day:
    """A day's jobs, laid out on the nodes.

    Attributes
    ----------
    name
        ``YYYY-MM-DD``.
    ready
        The jobs that fit the nodes.
    prior
        float64[n_jobs], s: what each was expected to run when the day began, in queue order.
    reference
        Mean wait, s, under SJF.
    exact
        The same jobs with run times as requests; None unless asked for.
    """

    name: str
    ready: Prepared
    prior: np.ndarray
    reference: float
    exact: Prepared | None = None

    @property
    def n_jobs(self) -> int:
        """How many jobs were submitted."""
        return len(self.ready.jobs.submit)


def day_span(text: str | None) -> tuple[str, str]:
    """Return the first and last day of a span: ``2021-05-04``, ``2021-05``, ``FIRST..LAST``; all without.

    Raises
    ------
    ArgumentError
        It is not written so, or ends before it begins.
    """
    if text is None:
        return "0000", "9999"
    first, dots, last = text.partition("..")
    last = last if dots else first
    for part in (first, last):
        if not DAY_OR_MONTH.fullmatch(part):
            raise ArgumentError(
                "days",
                f"{text!r} was given; write a day, a month, or FIRST..LAST, e.g. 2021-05-01..2021-06-03",
            )
    last = last if len(last) > 7 else f"{last}-31"
    if last < first:
        raise ArgumentError("days", f"{text!r} was given; it ends before it begins")
    return first, last


def span_words(first: str, last: str, tz: str) -> str:
    """Name a span in a message; of an open end nothing is said."""
    begins, ends = first > FIRST_MONTH, last[:4] < LAST_MONTH[:4]
    if not begins and not ends:
        return "in the log"
    if not ends:
        return f"from {first} on ({tz})"
    return f"from {first} to {last} ({tz})" if begins else f"up to {last} ({tz})"


def within(jobs: pd.DataFrame, first: str, last: str, tz: str) -> pd.DataFrame:
    """Return the jobs submitted on the local days of a span.

    Raises
    ------
    TableError
        There is none.
    """
    names = local_days(jobs, tz)
    part = jobs[(names >= first) & (names <= last)].reset_index(drop=True)
    if part.empty:
        raise TableError(f"no job was submitted {span_words(first, last, tz)}: there is nothing to learn from")
    return part


def mean_wait(ready: Prepared, found: Outcome) -> float:
    """Return the mean wait of the jobs that ran, s."""
    ran = found.start >= 0
    return float((found.start - ready.jobs.submit)[ran].mean())


def on_day(day: Day, trained: TrainedPolicy, ahead: int = 0, every: int = 600) -> Parameters:
    """Return a trained policy as it knows a day, with rollouts if ``ahead`` is not 0.

    Raises
    ------
    TableError
        Rollouts of a policy that was trained inside EASY.
    """
    if trained.trained.get("inside") == "easy":
        if ahead:
            raise TableError("rollouts (ahead) need a policy of `procure learn train --inside skip`")
        given = {"trained": trained, "prior": day.prior, "place": trained.trained.get("place", "first")}
        return LearnedEasy.model_validate(given)
    return OnDay.model_validate({"trained": trained, "prior": day.prior, "ahead": ahead, "every": every})


def thinned(day: Day, keep: np.ndarray) -> Day:
    """Return a day of some of its jobs; the reference holds no more and is NaN.

    Parameters
    ----------
    keep
        bool[n_jobs] in queue order; at least one.
    """
    jobs, took = day.ready.jobs, day.ready.durations
    names = ("row", "submit", "requested", "n_nodes", "cpus", "mem", "gpus", "types", "shape_of")
    per_job = {name: getattr(jobs, name)[keep] for name in names}
    begins = int(per_job["submit"][0])
    per_job["submit"] = per_job["submit"] - begins
    n_alike = np.bincount(per_job["shape_of"], minlength=len(jobs.shape_nodes))
    per_job["line_job"] = np.argsort(per_job["shape_of"], kind="stable").astype(np.uint32)
    per_job["line_first"] = np.concatenate([[0], np.cumsum(n_alike)])
    fewer = replace(
        day.ready,
        jobs=jobs._replace(**per_job),
        durations=type(took)(*(column[..., keep] for column in took)),
        user=day.ready.user[keep],
        due=day.ready.due[keep],
        usage=type(day.ready.usage)(*(column[keep] for column in day.ready.usage)),
        counts_from=max(day.ready.counts_from - begins, 0),
    )
    return Day(day.name, fewer, day.prior[keep], float("nan"))


def runnable(jobs: pd.DataFrame, nodes: pd.DataFrame) -> np.ndarray:
    """Say which jobs some empty set of nodes holds: bool[n_jobs]."""
    ready = prepare(jobs, nodes)
    n_fitting = simulator_state.n_fitting_nodes(ready.jobs, ready.fits, ready.kind_of)
    holds = np.empty(len(jobs), bool)
    holds[ready.jobs.row] = (n_fitting >= ready.jobs.shape_nodes)[ready.jobs.shape_of]
    return holds


def lay_out_days(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    first: str,
    last: str,
    tz: str,
    *,
    min_jobs: int = 300,
    max_jobs: int = 3000,
    min_wait: float = 300.0,
    history: RunTimes | None = None,
    with_exact: bool = False,
) -> list[Day]:
    """Cut a log into local days, and keep those on which there is something to decide.

    Parameters
    ----------
    first, last
        ``YYYY-MM-DD``, both included.
    min_jobs, max_jobs
        Days with fewer or more jobs that fit the nodes are left out.
    min_wait
        Days on which the mean wait under SJF is below this, s, are left out.
    history
        What was known of run times once; used on days that begin later, with what ended since. On others, and
        without, all that is known is what had ended when the day began.
    with_exact
        Lay the days out with exact run times as well.

    Raises
    ------
    TableError
        No such day.
    """
    fitting = with_clock_of(jobs, jobs[runnable(jobs, nodes)].reset_index(drop=True))
    known: RunTimes | None = None
    found = []
    for name, part in split_days(fitting, tz).items():
        if not (first <= name <= last and min_jobs <= len(part) <= max_jobs):
            continue
        ready = prepare(part, nodes)
        reference = mean_wait(ready, run_prepared(ready, "sjf"))
        if reference < min_wait:
            continue
        exact = None
        if with_exact:
            exact = prepare(part.assign(requested_time=part["run_time"].clip(lower=1)), nodes)
        moment = int(part["submit_time"].min())
        if known is None or (history is not None and known.as_of < history.as_of <= moment):
            known = known_at(fitting, moment, history)
        else:  # as at the day before, and what has ended since
            known = known.updated(fitting, moment)
        found.append(Day(name, ready, expected_before(ready.jobs, known), reference, exact))
    if not found:
        raise TableError(
            f"no day {span_words(first, last, tz)} has {min_jobs} to {max_jobs} jobs that fit the nodes and a mean "
            f"wait of at least {min_wait:g} s under sjf: there is nothing to learn from, or to judge"
        )
    return found


def known_at(jobs: pd.DataFrame, moment: int, history: RunTimes | None = None) -> RunTimes:
    """Return what a scheduler that knows no user's name can know of run times at a moment, Unix seconds."""
    past = jobs[jobs["submit_time"] < moment]
    if history is not None and history.as_of <= moment:
        return history.updated(past, moment)
    return RunTimes(by_user=False).fit(past, moment)


class OnDay(Parameters):
    """A trained policy with what was known when the day began."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    trained: TrainedPolicy
    prior: np.ndarray
    ahead: NaturalInt = 0
    every: PositiveInt = 600

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        return compiled(state, self.trained, self.prior, self.ahead, self.every)


def quick_run(day: Day, policy: Parameters) -> tuple[np.ndarray, np.ndarray]:
    """Return starts and ends, int64[n_jobs] s, under a compiled policy: a run without what only a report needs."""
    took = day.ready.durations
    world, state = simulator_state.build(
        day.ready.jobs,
        day.ready.kinds,
        day.ready.fits,
        day.ready.kind_of,
        took.took,
        options=policy.options(),
        user=day.ready.user,
        full=took.full,
        limit=took.limit,
    )
    drive(world, state, policy.make(state), name="learned")
    return state.start, world.end


def quick_wait(day: Day, policy: Parameters) -> float:
    """Return a day's mean wait, s, by `quick_run`."""
    start, _ = quick_run(day, policy)
    ran = start >= 0
    return float((start - day.ready.jobs.submit)[ran].mean())


def simulate_day(day: Day, trained: TrainedPolicy, ahead: int = 0, every: int = 600) -> Outcome:
    """Simulate a day under a trained policy, with rollouts if ``ahead`` is not 0."""
    return run_prepared(day.ready, on_day(day, trained, ahead, every))
