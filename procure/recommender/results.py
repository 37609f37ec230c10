"""A study's results, one case per workload, and the models that are learnt from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import ArgumentError
from procure.models import Case, Predicted, make_case
from procure.models.cache import learn
from procure.study import Plan, Study, load_plan, load_study
from procure.sweep import read_results
from procure.text import listed, nearest

RULES = ("runs-all", "published")
"""``runs-all``: packages that run every job first; ``published``: by the mean over the jobs that ran."""
RUNS_ALL, PUBLISHED = RULES


@dataclass(frozen=True)
class StudyResults:
    """A study read in, one policy of it chosen, and a case per workload."""

    plan: Plan
    policy: str
    results: pd.DataFrame
    cases: list[Case]

    @property
    def kept(self) -> Path:
        """Where models and predictions are kept."""
        return self.plan.study.folder / "models"

    def learn(self, case: Case, feature_set: str | None = None, among: np.ndarray | None = None) -> Predicted:
        """Fit the study's model, or take up the one that was kept."""
        choice = self.plan.study.model
        return learn(
            case,
            self.plan.quotes,
            feature_set or choice.feature_set,
            choice.kind,
            choice.folds,
            choice.seed,
            among,
            self.kept,
        )

    def learn_if_possible(
        self, case: Case, feature_set: str | None = None, rule: str = RUNS_ALL
    ) -> Predicted | None:
        """Learn from the packages that run every job; if they are too few, from all; else return None.

        By the published rule, always from all.
        """
        everyone = np.ones(len(case.wait), dtype=bool)
        for among in (case.runs_all, everyone) if rule == RUNS_ALL else (everyone,):
            if int((among & case.simulated).sum()) >= 2 * self.plan.study.model.folds:
                return self.learn(case, feature_set, among)
        return None

    def learn_both(self, case: Case, feature_set: str) -> tuple[Predicted, Predicted] | None:
        """Learn for the ranked set and by the published rule; None if too few packages are simulated."""
        inner = self.learn_if_possible(case, feature_set)
        outer = self.learn_if_possible(case, feature_set, PUBLISHED)
        return (inner, outer) if inner is not None and outer is not None else None


def workloads_of(case: Case) -> str:
    """Name a case's workloads; of cases taken together, whose name joins all, the first three of many."""
    names = case.name.split(" + ")
    return case.name if len(names) == 1 else listed(names)


def load_results(
    study: str | Path | Study | StudyResults, policy: str | None = None, workload: str | None = None
) -> StudyResults:
    """Read a study, its inputs and its results.

    Parameters
    ----------
    study
        A study, the path of its file, or its results, which are read again only for another policy or workload.
    policy
        One of the study's policies; None = its first.
    workload
        One of the study's workloads; None = all of them.

    Raises
    ------
    ArgumentError
        The study has no such policy or workload.
    TableError
        An input is missing or wrong, or there are no results yet.
    """
    if isinstance(study, StudyResults):
        if policy is None and workload is None:
            return study
        study = study.plan.study
    plan = load_plan(study if isinstance(study, Study) else load_study(study))
    policies = plan.study.simulate.policies
    for argument, given, known in (("policy", policy, policies), ("workload", workload, plan.workloads)):
        if given is not None and given not in known:
            raise ArgumentError(argument, f"{given!r} is not in the study; {nearest(given, known)}")
    policy = policy or policies[0]
    results = read_results(plan.study, plan)
    names = [workload] if workload else list(plan.workloads)
    weights = {one.name: one.weight for one in plan.study.workloads}
    cases = [
        replace(
            make_case(plan.packages, plan.quotes, plan.workloads[name], results, name, policy, plan.existing),
            weight=weights[name],
        )
        for name in names
    ]
    return StudyResults(plan, policy, results, cases)
