"""What would more money buy, or a rule less? The best of some packages under changed rules, simulated."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.models.case import make_case, simulated_values
from procure.packages.runnable import jobs_left_out
from procure.packages.space import Space, distinct_rows, make_space, package_table, rows_in
from procure.policies import catalog
from procure.recommender.criteria import Criteria
from procure.recommender.rank import rank
from procure.recommender.values import PackageValues
from procure.sweep.results import StudyResults, costs_of
from procure.sweep.trial import simulate_packages

MOST_TRIED, FEWEST_TRIED = 200, 8
"""Packages that are simulated: the most, and the fewest where a run takes long."""
_MOST_JOBS = 6_000_000
"""So many jobs at most are simulated, with the fewest packages excepted."""
_DRAWN, _NEAR = 500, 150
"""Packages drawn from the space, and exchanges around the best so far."""
_ROUNDS = (0.5, 0.25, 0.25)


class BestUnder(NamedTuple):
    """The best package found under changed rules, its mean wait, s, and how many were tried."""

    package_id: str
    wait: float
    jobs_left_out: int
    n_simulated: int


def best_under(results: StudyResults, criteria: Criteria, rule: str, **changed: float) -> BestUnder | None:
    """Return the best of some packages simulated under changed rules; None where they buy none, or a run failed."""
    plan = results.plan
    rules = plan.study.packages.model_copy(update=changed)
    n_jobs = sum(len(plan.workloads[case.name]) for case in results.cases)
    n = min(MOST_TRIED, _MOST_JOBS // n_jobs) if catalog.is_batched(results.policy) else 0
    n, rng, best, runs = max(FEWEST_TRIED, n), np.random.default_rng(1), 0, list[pd.DataFrame]()
    try:
        space = make_space(plan.quotes, rules)
        pool = np.zeros((0, space.constraints.n_types), np.int64)
        for place, share in enumerate(_ROUNDS):
            near = space.neighbours(pool[best : best + 1], _NEAR, rng)
            new = near if place else distinct_rows(np.concatenate([near, space.sample(_DRAWN, rng)]))
            new = _promising(results, new[~rows_in(new, pool)], space, round(share * n))
            if len(new):
                pool = np.concatenate([pool, new])
                runs += [simulate_packages(plan, new, case.name, results.policy) for case in results.cases]
            if not len(pool):
                return None
            values = _values(results, criteria, package_table(pool, space), pd.concat(runs, ignore_index=True))
            best = int(rank(values, criteria, rule)[0])
    except TableError:
        return None
    whole = values.whole
    package_id = str(values.packages["package_id"].iloc[best])
    return BestUnder(package_id, float(whole.wait[best]), int(whole.left_out[best]), len(pool))


def _promising(results: StudyResults, counts: np.ndarray, space: Space, n: int) -> np.ndarray:
    """Return n packages that leave the fewest jobs out and, of these, have the most CPUs."""
    if len(counts) <= n:
        return counts
    plan, table = results.plan, package_table(counts, space)
    jobs = [plan.workloads[case.name] for case in results.cases]
    left_out = np.sum([jobs_left_out(table, plan.quotes, one, plan.existing) for one in jobs], axis=0)
    return counts[np.lexsort((-table["total_cpus"].to_numpy(), left_out))[:n]]


def _values(results: StudyResults, criteria: Criteria, table: pd.DataFrame, runs: pd.DataFrame) -> PackageValues:
    """Gather what packages are compared by, as `recommend` does."""
    plan, policy = results.plan, results.policy
    cases = [
        replace(
            make_case(table, plan.quotes, plan.workloads[one.name], runs, one.name, policy, plan.existing),
            weight=one.weight,
            n_jobs=one.n_jobs,
            class_jobs=one.class_jobs,
        )
        for one in results.cases
    ]
    found = {
        column: np.array([simulated_values(table, runs, one.name, policy, column) for one in cases])
        for column in criteria.result_columns
    }
    costs = costs_of(plan, table, {one.name: one.weight for one in cases})
    return PackageValues(cases, found, costs, plan.study.recommend.cvar_share)
