"""What a search is to find: the objective and constraints of packages, from their simulated values."""

from __future__ import annotations

import numpy as np

from procure.models import Case
from procure.packages.space import Space, package_table
from procure.recommender.criteria import Criteria
from procure.recommender.values import PackageValues
from procure.study import Plan
from procure.sweep.results import costs_of


class CriteriaScore:
    """Scores all packages that a search has observed, by the criteria of a study.

    Attributes
    ----------
    columns
        The result columns that an answer holds, per workload, and last the jobs that it leaves out.
    """

    def __init__(self, plan: Plan, space: Space, criteria: Criteria) -> None:
        """Choose the study and the criteria; nothing is computed."""
        self._plan, self._space, self.criteria = plan, space, criteria
        self._weights = {one.name: one.weight for one in plan.study.scenarios}
        self.columns = [*criteria.result_columns, "n_unrunnable"]

    def values(self, counts: np.ndarray, answers: np.ndarray) -> PackageValues:
        """Return every value of some packages.

        Parameters
        ----------
        counts
            int64[packages, types].
        answers
            float64[columns × workloads, packages], a column's workloads together; NaN where a run failed.
        """
        by_column = answers.reshape(len(self.columns), len(self._plan.workloads), -1)
        results = dict(zip(self.columns, by_column, strict=True))
        packages = package_table(counts, self._space)
        cases = [
            Case(name, packages, np.nan_to_num(out), wait, len(jobs), weight=self._weights[name])
            for (name, jobs), out, wait in zip(
                self._plan.workloads.items(), results["n_unrunnable"], results["mean_wait_time"], strict=True
            )
        ]
        quantities = self.criteria.quantities
        paid = any(one.source == "cost" for one in quantities)
        costs = {"costs": costs_of(self._plan, packages, self._weights)} if paid else {}
        return PackageValues(cases, results, cvar_share=self._plan.study.recommend.cvar_share, **costs)

    def __call__(self, counts: np.ndarray, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the objective, NaN where a run failed, and how far the constraints are missed."""
        values = self.values(counts, answers)
        value = values.value(self.criteria.objective)[0]
        violation = self.criteria.violation(lambda of: values.value(of)[0], len(counts))
        return np.where(np.isnan(answers).all(axis=0), np.nan, value), violation
