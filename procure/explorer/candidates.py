"""The packages that a search has observed, and where it looks for more."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pandas as pd

from procure.models import WorkloadWaits, features
from procure.objectives.aggregate import best_first
from procure.packages.prices import order_cents
from procure.packages.space import Space, package_table, rows_in
from procure.recommender.values import Criteria, PackageValues
from procure.study import Plan
from procure.sweep.results import costs_of

Score = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From counts and answers of all observed packages to their objective and how far they are from the bounds."""

_FARTHEST = 10.0


class Observations:
    """Packages whose answer is in, in the order in which they came: grows, never forgets.

    ``counts`` are int64 (packages, types), ``answers`` what was simulated, float64 (values, packages); ``value`` is the
    objective, less is better, NaN where the simulation failed; ``violation`` how far each is from the constraints, see
    `PackageValues.violation`; ``left_out`` jobs do not run; ``cents`` is the price.
    """

    def __init__(self, space: Space, score: Score | None = None) -> None:
        """Begin with nothing known; without a score, an answer is the objective itself."""
        self._space, self._score = space, score or (lambda counts, answers: (answers[0], np.zeros(len(counts))))
        self._rows: set[bytes] = set()
        self.counts = np.empty((0, space.constraints.n_types), dtype=np.int64)
        self.answers = np.empty((0, 0))
        self.value, self.violation = np.empty(0), np.empty(0)
        self.left_out = np.empty(0, dtype=np.int64)
        self.cents = np.empty(0, dtype=np.int64)

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
        self.cents = np.concatenate([self.cents, order_cents(counts, self._space.quotes, self._space.rules)])
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
        self.plan, self.space, self.criteria = plan, space, criteria
        self._weights = {one.name: one.weight for one in plan.study.scenarios}
        self.columns = [*criteria.result_columns, "n_unrunnable"]

    def values(self, counts: np.ndarray, answers: np.ndarray) -> PackageValues:
        """Return every value of packages and their answers, float64[columns × workloads, packages], NaN: it failed."""
        by_column = answers.reshape(len(self.columns), len(self.plan.workloads), -1)
        results = dict(zip(self.columns, by_column, strict=True))
        packages = package_table(counts, self.space)
        cases = [
            WorkloadWaits(
                name, packages, np.nan_to_num(results["n_unrunnable"][i]), results["mean_wait_time"][i], len(jobs),
                weight=self._weights[name], class_jobs=self.plan.class_jobs(name),
            )
            for i, (name, jobs) in enumerate(self.plan.workloads.items())
        ]  # fmt: skip
        costs = costs_of(self.plan, packages, self._weights) if self.criteria.need_costs else pd.DataFrame()
        return PackageValues(cases, results, costs, self.plan.study.recommend.cvar_share)

    def __call__(self, counts: np.ndarray, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the objective, NaN where a run failed, and how far the constraints are missed."""
        values = self.values(counts, answers)
        value = values.value(self.criteria.objective)[0]
        return np.where(np.isnan(answers).all(axis=0), np.nan, value), values.violation(self.criteria.constraints)


LeftOut = Callable[[np.ndarray], np.ndarray]
"""From counts, int64 (packages, types), to the jobs that each package cannot run, int64."""

_PROBE = 4096


class Candidates:
    """The packages of a space that leave out as few jobs as can be: those that run every job, if any does.

    ``listed`` are all packages of the ``space``, int64 (packages, types), in table order, None where they are too many;
    ``level`` is how many jobs the candidates leave out.
    """

    def __init__(self, space: Space, left_out: LeftOut, seed: int, listed: np.ndarray | None) -> None:
        """Look over the whole space, or over a few thousand packages drawn from it."""
        self.space, self.listed, self.left_out = space, listed, left_out
        probe = space.sample(_PROBE, np.random.default_rng([seed, 0])) if listed is None else listed
        self._n_left_out = left_out(probe)
        self.level = int(self._n_left_out.min())

    @cached_property
    def all(self) -> np.ndarray | None:
        """Every candidate, or None where they are too many."""
        return None if self.listed is None else self.listed[self._n_left_out == self.level]

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw candidates; fewer than n where most of the space is outside."""
        if self.all is not None:
            return self.all[rng.permutation(len(self.all))[:n]]
        return self.inside(self.space.sample(n, rng))

    def near(self, centres: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return candidates that are one exchange away, about n tries for each."""
        found = self.inside(self.space.neighbours(centres, n, rng))
        if self.all is not None and self.space.constraints.prices is not None:
            # Under discounts, what cannot grow type by type may still lie below another package.
            found = found[rows_in(found, self.all)]
        return found

    def inside(self, counts: np.ndarray) -> np.ndarray:
        """Keep the packages that leave out no more jobs than the best do."""
        return counts[self.left_out(counts) <= self.level] if len(counts) else counts

    def describe(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return features for the trees and for the Gaussian process, shape (packages, features).

        The trees see `procure.models.features`; the process the same without means, as logarithms, and the square root
        of the budget's share of each type.
        """
        quotes = self.space.quotes
        table = features(pd.DataFrame(counts, columns=quotes["name"].tolist()), quotes)
        amounts = [
            name
            for name in table.columns
            if name.startswith(("total_", "nodes_", "category:")) and not name.endswith("_per_node")
        ]
        share = counts * quotes["price_usd"].to_numpy() / self.space.rules.budget_usd
        return table.to_numpy(), np.hstack([np.log1p(table[amounts].to_numpy()), np.sqrt(share)])


def spread(counts: np.ndarray, known: Observations, rng: np.random.Generator) -> np.ndarray:
    """Bring packages into an order in which the combinations of types take turns.

    The combinations that are least known come first; within one, and among equals, chance decides.
    """
    mixed = counts[rng.permutation(len(counts))]
    bought = np.concatenate([known.counts, mixed]) > 0
    _, combination = np.unique(np.packbits(bought, axis=1), axis=0, return_inverse=True)
    combination = combination.ravel()
    # How many rows of its combination stand before each row, known ones included.
    by = np.argsort(combination, kind="stable")
    begins = np.flatnonzero(np.diff(combination[by], prepend=-1))
    turn = np.empty(len(by), dtype=np.int64)
    turn[by] = np.arange(len(by)) - np.repeat(begins, np.diff(np.append(begins, len(by))))
    luck = rng.random(int(combination.max(initial=0)) + 1)
    rows = np.arange(len(known), len(by))
    return mixed[np.lexsort((luck[combination[rows]], turn[rows]))]
