"""What a search has observed: packages, their simulated values, and their order by what is to be found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from procure.models import WorkloadWaits
from procure.objectives.aggregate import best_first
from procure.packages.prices import order_cents
from procure.packages.space import Space, package_table
from procure.recommender.criteria import Criteria
from procure.recommender.values import PackageValues
from procure.study import Plan
from procure.sweep.results import costs_of

Score = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From counts and answers of all observed packages to their objective and how far they are from the bounds."""

_FARTHEST = 10.0


def as_answered(counts: np.ndarray, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Score packages whose answer is the objective itself, without bounds."""
    return answers[0], np.zeros(len(counts))


class Observations:
    """Packages whose answer is in, in the order in which they came: grows, never forgets.

    ``counts`` are int64 (packages, types), ``answers`` what was simulated, float64 (values, packages); ``value`` is the
    objective, less is better, NaN where the simulation failed; ``violation`` how far each is from the constraints, see
    `Criteria.violation`; ``left_out`` jobs do not run; ``cents`` is the price.
    """

    def __init__(self, space: Space, score: Score = as_answered) -> None:
        """Begin with nothing known."""
        self._space, self._score = space, score
        self._rows: set[bytes] = set()
        self.counts = np.empty((0, space.constraints.n_types), dtype=np.int64)
        self.answers = np.empty((0, 0))
        self.value, self.violation = np.empty(0), np.empty(0)
        self.left_out = np.empty(0, dtype=np.int64)
        self.cents = np.empty(0, dtype=np.int64)

    def like(self) -> Observations:
        """Return one that scores alike and knows nothing."""
        return Observations(self._space, self._score)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def target(self) -> np.ndarray:
        """What a model should predict: the objective, raised for packages that break a constraint.

        It is (value + m) × (1 + violation) − m, with m the median of the known values, so that a package that
        breaks a constraint is worse though its value is 0 (an exterior penalty).
        """
        if not self.violation.any():
            return self.value
        middle = float(np.nanmedian(self.value))
        penalty = 1 + np.minimum(self.violation, _FARTHEST)
        return np.where(self.violation > 0, (self.value + middle) * penalty - middle, self.value)

    def add(self, counts: np.ndarray, answers: np.ndarray, left_out: np.ndarray) -> None:
        """Enter packages that were not known, with their answers, float64[packages] or [values, packages]."""
        answers = np.atleast_2d(answers)
        self.answers = np.hstack([self.answers, answers]) if len(self) else answers
        self.counts = np.concatenate([self.counts, counts])
        self.value, self.violation = self._score(self.counts, self.answers)
        self.left_out = np.concatenate([self.left_out, left_out])
        cents = order_cents(counts, self._space.quotes, self._space.rules)
        self.cents = np.concatenate([self.cents, cents])
        self._rows.update(row.tobytes() for row in counts)

    def has(self, counts: np.ndarray) -> np.ndarray:
        """Tell which packages are known."""
        return np.fromiter((row.tobytes() in self._rows for row in counts), dtype=bool, count=len(counts))

    def order(self) -> np.ndarray:
        """Return the rows whose simulation succeeded, best first, see `best_first`."""
        ran = np.flatnonzero(~np.isnan(self.value))
        return ran[best_first(self.value[ran], self.cents[ran], self.left_out[ran], self.violation[ran])]


class CriteriaScore:
    """Scores all packages that a search has observed, by the criteria of a study.

    ``columns`` are the result columns that an answer holds, per workload, and last the jobs that it leaves out.
    """

    def __init__(self, plan: Plan, space: Space, criteria: Criteria) -> None:
        """Choose the study and the criteria; nothing is computed."""
        self._plan, self._space, self.criteria = plan, space, criteria
        self._weights = {one.name: one.weight for one in plan.study.scenarios}
        self.columns = [*criteria.result_columns, "n_unrunnable"]

    def values(self, counts: np.ndarray, answers: np.ndarray) -> PackageValues:
        """Return every value of packages of which ``answers`` are float64[columns × workloads, packages], NaN: a run
        failed.
        """
        by_column = answers.reshape(len(self.columns), len(self._plan.workloads), -1)
        results = dict(zip(self.columns, by_column, strict=True))
        packages = package_table(counts, self._space)
        cases = [
            WorkloadWaits(
                name,
                packages,
                np.nan_to_num(out),
                wait,
                len(jobs),
                weight=self._weights[name],
                class_jobs=self._plan.class_jobs(name),
            )
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
