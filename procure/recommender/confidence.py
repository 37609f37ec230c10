"""The list again under redrawn workloads: days drawn anew, or for one workload its bursts of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.evaluation.bootstrap import Standing, bootstrap, standing, top_edge, unseen_day
from procure.models import Case, Predicted
from procure.models.intervals import SHARE, places
from procure.objectives.aggregate import mean_wait
from procure.policies.catalog import FAST_LANE_POLICY
from procure.recommender.recommender import Recommendation
from procure.study import Plan
from procure.sweep.trial import try_counts
from procure.workload.scale import bursts

FEWEST_DAYS = 5
"""From so many workloads on, days are redrawn; below, the bursts within each."""
DAY_DRAWS = 1000
REDRAWS = 20
"""Redrawn bursts cost a simulation of every package of the head each."""
HEAD = 50


@dataclass(frozen=True)
class Assurance:
    """How sure a list is.

    Attributes
    ----------
    table
        A row per package of the ranking's head, in rank order: ``package_id rank_low rank_high share_first
        chance_top alike``. Ranks are among the head. What is not known is missing.
    unit
        What was redrawn: ``days``, ``bursts of jobs``, or ``nothing`` (the ranges of predictions were compared
        instead; of simulated packages nothing is known then).
    n_draws, n_units
        How often, and of how many.
    another_day
        The range of the first package's mean wait on another day like those simulated, s, and its nominal
        probability; None for a single workload.
    """

    table: pd.DataFrame
    unit: str
    n_draws: int
    n_units: int
    another_day: tuple[float, float, float] | None = None

    @property
    def n_alike(self) -> int:
        """How many of the head are known not to be told from the first."""
        return int(self.table["alike"].sum())


def redraw_bursts(jobs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return a workload of as many bursts, drawn from this one with replacement; times stay.

    Parameters
    ----------
    jobs
        A job table; bursts are those of `procure.workload.scale.bursts`.
    seed
        The same seed gives the same table. Jobs drawn again get ``+1``, ``+2`` … after their id.
    """
    burst = bursts(jobs)
    n_bursts = int(burst.max()) + 1
    drawn_bursts = np.random.default_rng(seed).integers(0, n_bursts, n_bursts)
    times = np.bincount(drawn_bursts, minlength=n_bursts)[burst]
    rows = np.repeat(np.arange(len(jobs)), times)
    again = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    drawn = jobs.iloc[rows]
    ids = [f"{one}+{n}" if n else one for one, n in zip(drawn["job_id"], again, strict=True)]
    return drawn.assign(job_id=ids).reset_index(drop=True)


def assure(
    plan: Plan,
    cases: Sequence[Case],
    policy: str,
    found: Recommendation,
    predicted: Predicted | None = None,
    redraws: int | None = None,
    seed: int = 1,
) -> Assurance:
    """Say how sure the head of a ranking is.

    Parameters
    ----------
    plan, cases, policy
        The study, a case per workload that the ranking is about, and which policy decided.
    found
        From `procure.recommender.recommender.recommend`.
    predicted
        What the predictions of the ranking come from.
    redraws
        How often bursts are redrawn; 0 = not at all; None = `REDRAWS` under best fit's fast lane,
        0 under policies that are simulated slowly. Days are redrawn anyhow.
    seed
        Of all draws.

    Notes
    -----
    If the head holds predictions, nothing is redrawn: a predicted package is alike if the 90 % range of its
    wait reaches down to the first's (to the upper end of the first's own range, where that is a prediction).
    A simulated package has no such range, and one run does not say how other draws would order it: without
    redraws, its ranks, chance and likeness are missing.
    """
    head = found.ranking.head(max(found.k, HEAD))
    rows = head["row"].to_numpy()
    chance = _chance(found, predicted)[: len(head)]
    if not head["simulated"].all():
        return Assurance(_overlapping(head, chance), "nothing", 0, 0)
    if redraws is None:
        redraws = REDRAWS if policy == FAST_LANE_POLICY else 0
    counts = cases[0].packages.iloc[rows][plan.types].to_numpy(np.int64)
    if len(cases) >= FEWEST_DAYS:
        waits, ran = _daily_waits(plan, cases, policy, rows, counts)
        said = _redrawn_days(cases, waits, ran, seed)
        ratio = unseen_day(waits[:, :1], np.zeros((len(cases), 1)), np.zeros(1))
        low, high = places(len(cases), SHARE)
        sure = (high - low) / (len(cases) + 1)
        another = (float(ratio[0][0]), float(ratio[1][0]), sure)
        return Assurance(_labelled(head, said), "days", DAY_DRAWS, len(cases), another)
    if redraws == 0:
        return Assurance(_overlapping(head, chance), "nothing", 0, 0)
    drawn = np.stack([_redrawn_once(plan, cases, policy, counts, seed + i) for i in range(redraws)])
    n_bursts = sum(int(bursts(plan.workloads[case.name]).max()) + 1 for case in cases)
    table = _labelled(head, standing(drawn))
    return Assurance(table.assign(chance_top=chance), "bursts of jobs", redraws, n_bursts)


def _labelled(head: pd.DataFrame, said: Standing) -> pd.DataFrame:
    table = said.table.copy()
    table.insert(0, "package_id", head["package_id"].to_numpy())
    return table


def _overlapping(head: pd.DataFrame, chance: np.ndarray) -> pd.DataFrame:
    """Compare ranges instead of redraws; what is simulated has none, so nothing is said of it."""
    wait = head["mean_wait_time"].to_numpy(dtype="float64")
    low = head["low_wait_time"].fillna(head["mean_wait_time"]).to_numpy(dtype="float64")
    high = head["high_wait_time"].fillna(head["mean_wait_time"]).to_numpy(dtype="float64")
    bar = max(float(wait[0]), float(high[0])) if len(wait) else 0.0
    table = pd.DataFrame(
        {
            "package_id": head["package_id"].to_numpy(),
            "rank_low": 1 + (high[None, :] < low[:, None]).sum(axis=1),
            "rank_high": (low[None, :] <= high[:, None]).sum(axis=1),
            "share_first": np.nan,
            "chance_top": chance,
            "alike": low <= bar,
        }
    )
    table = table.astype({"rank_low": "Int64", "rank_high": "Int64", "alike": "boolean"})
    rangeless = head["low_wait_time"].isna().to_numpy()
    table.loc[rangeless, ["rank_low", "rank_high", "chance_top", "alike"]] = pd.NA
    return table


def _chance(found: Recommendation, predicted: Predicted | None) -> np.ndarray:
    """Return the probability of being among the best 5 % of the packages that run every job, in rank order."""
    table = found.ranking
    wait = table["mean_wait_time"].to_numpy(dtype="float64")
    able = (table["jobs_left_out"] == 0).to_numpy() & ~np.isnan(wait)
    if not able.any():
        return np.full(len(table), np.nan)
    edge = float(top_edge(wait[able]))
    chance = np.where(np.isnan(wait), np.nan, (wait <= edge).astype("float64"))
    if predicted is not None:
        guessed = ~table["simulated"].to_numpy(dtype=bool)
        chance[guessed] = predicted.spread.chance_below(wait[guessed], edge)
    return np.where(able, chance, 0.0)


def _daily_waits(
    plan: Plan, cases: Sequence[Case], policy: str, rows: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the head's mean wait and jobs run per day; what the results do not hold is simulated."""
    waits = np.stack([case.wait[rows] for case in cases])
    for wait, case in zip(waits, cases, strict=True):
        todo = np.isnan(wait)
        if todo.any():
            wait[todo] = try_counts(plan, counts[todo], case.name, policy)[case.column].to_numpy(
                dtype="float64"
            )
    return waits, np.stack([case.weight * (case.n_jobs - case.left_out[rows]) for case in cases])


def _redrawn_days(cases: Sequence[Case], waits: np.ndarray, ran: np.ndarray, seed: int) -> Standing:
    drawn = bootstrap(waits, lambda some, days: mean_wait(some, ran[days]), DAY_DRAWS, seed)
    known = np.all([case.simulated & case.runs_all for case in cases], axis=0)
    if not known.any():
        return standing(drawn)
    every = np.stack([case.wait[known] for case in cases])
    n_jobs = np.array([[case.weight * case.n_jobs] for case in cases])
    edges = bootstrap(
        every, lambda some, days: np.array([top_edge(mean_wait(some, n_jobs[days]))]), DAY_DRAWS, seed
    )
    return standing(drawn, edges=edges[:, 0])


def _redrawn_once(
    plan: Plan, cases: Sequence[Case], policy: str, counts: np.ndarray, seed: int
) -> np.ndarray:
    waits, ran = [], []
    for case in cases:
        jobs = redraw_bursts(plan.workloads[case.name], seed)
        rows = try_counts(plan, counts, case.name, policy, jobs)
        waits.append(rows[case.column].to_numpy(dtype="float64"))
        ran.append(case.weight * (len(jobs) - rows["n_unrunnable"].to_numpy(dtype="float64")))
    return mean_wait(np.stack(waits), np.stack(ran))
