"""Which package the recommender takes where nothing was simulated before: another budget, or other jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from procure.models import Case, features, predict_packages, together
from procure.models.case import mean_over
from procure.models.crossfit import Predicted
from procure.packages import expand_packages
from procure.packages.runnable import jobs_left_out
from procure.policies.catalog import FAST_LANE_POLICY
from procure.recommender.recommender import recommend
from procure.study import Plan, Study
from procure.sweep.trial import try_counts

FIRST_RUNS = 300
"""Packages of a new budget that are simulated to learn from, per workload."""
SLOW_HEAD = 20
"""Under a policy other than best fit, so many favourites of best fit are simulated and the best taken."""


def with_budget(plan: Plan, budget_usd: float) -> Plan:
    """Return the study with another budget: its packages enumerated anew.

    Raises
    ------
    TableError
        Nothing is feasible for that.
    """
    rules = type(plan.study.packages).model_validate(
        plan.study.packages.model_dump() | {"budget_usd": budget_usd}
    )
    study: Study = plan.study.model_copy(update={"packages": rules})
    return replace(plan, study=study, packages=expand_packages(plan.quotes, rules))


def best_package(
    plan: Plan,
    cases: Sequence[Case],
    policy: str,
    jobs: Mapping[str, pd.DataFrame],
    first_runs: int = FIRST_RUNS,
) -> np.ndarray:
    """Return the counts of the package that the recommender takes, with nothing simulated before.

    Every n-th package is simulated to learn from, the predicted head is simulated, and again until
    the head holds no predictions (`procure.recommender.recommender.recommend`). That is done under best fit, whose runs
    take milliseconds; under another policy, its first `SLOW_HEAD` are then simulated and the best is taken.

    Parameters
    ----------
    plan
        A study with the packages to choose from.
    cases
        One per workload that counts; only names and weights are used.
    policy
        Which policy decides.
    jobs
        The job table of each case by name.
    first_runs
        How many packages are simulated to learn from, about.
    """
    trials = _Trials(plan, cases, jobs)
    able = np.flatnonzero(np.sum(trials.left_out, axis=0) == 0)
    among = able if len(able) else np.arange(len(trials.counts))
    whole = trials.sampled(among[:: max(1, len(among) // first_runs)])
    row_of = {name: row for row, name in enumerate(trials.packages["package_id"])}

    def simulate(package_ids: list[str]) -> np.ndarray:
        return trials.waits(np.array([row_of[name] for name in package_ids]), FAST_LANE_POLICY)

    said = recommend(whole, _learn(plan, whole, among), plan.quotes, 1, simulate)
    head = said.ranking["row"].to_numpy()[:SLOW_HEAD]
    if policy == FAST_LANE_POLICY:
        return trials.counts[head[0]]
    fewest = head[whole.left_out[head] == whole.left_out[head].min()]
    return trials.counts[fewest[int(np.nanargmin(trials.waits(fewest, policy)))]]


class _Trials:
    """The distinct packages of a plan, simulated on given jobs as asked."""

    def __init__(self, plan: Plan, cases: Sequence[Case], jobs: Mapping[str, pd.DataFrame]) -> None:
        self._plan, self._cases, self._jobs = plan, cases, jobs
        self.packages = plan.packages[plan.packages["distinct"].to_numpy()].reset_index(drop=True)
        self.counts = self.packages[plan.types].to_numpy(np.int64)
        self.left_out = [
            jobs_left_out(self.packages, plan.quotes, jobs[case.name], plan.existing) for case in cases
        ]

    def _simulate(self, case: Case, rows: np.ndarray, policy: str) -> pd.DataFrame:
        return try_counts(self._plan, self.counts[rows], case.name, policy, self._jobs[case.name])

    def waits(self, rows: np.ndarray, policy: str) -> np.ndarray:
        """Return mean waits over the jobs of all cases, s."""
        return mean_over(self._cases, [self._simulate(case, rows, policy) for case in self._cases])

    def sampled(self, rows: np.ndarray) -> Case:
        """Simulate some packages under best fit; return all cases together."""
        found = []
        for case, left_out in zip(self._cases, self.left_out, strict=True):
            wait = np.full(len(self.counts), np.nan)
            wait[rows] = self._simulate(case, rows, FAST_LANE_POLICY)["mean_wait_time"]
            n_jobs = len(self._jobs[case.name])
            found.append(replace(case, packages=self.packages, left_out=left_out, wait=wait, n_jobs=n_jobs))
        return together(found)


def _learn(plan: Plan, case: Case, among: np.ndarray) -> Predicted | None:
    choice = plan.study.model
    if int(case.simulated.sum()) < 2 * choice.folds or case.simulated[among].all():
        return None
    x = features(case.packages.iloc[among], plan.quotes, choice.feature_set)
    said = predict_packages(x, case.wait[among], choice.kind, choice.folds, choice.seed)
    wait = np.full(len(case.wait), np.nan)
    wait[among] = said.wait
    return replace(said, wait=wait)
