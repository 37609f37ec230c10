"""Which package is recommended where nothing was simulated before: another budget, or other jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from procure.errors import TableError, argument
from procure.packages.runnable import jobs_left_out
from procure.policies import catalog
from procure.recommender.criteria import MEAN_WAIT, Criteria
from procure.recommender.learning import learn_values, simulator
from procure.recommender.rank import confirm_list, rank
from procure.recommender.values import PackageValues
from procure.settings import validated
from procure.study import Plan, Study
from procure.study.plan import list_packages
from procure.sweep.results import StudyResults
from procure.sweep.trial import try_everywhere

FIRST_RUNS = 300
"""Packages of a new budget that are simulated to learn from, per workload."""
SLOW_HEAD = 20
"""Under a policy other than best fit, this many favourites of best fit are simulated and the best is taken."""


def with_budget(plan: Plan, budget_usd: float) -> Plan:
    """Return the study with another budget: its packages enumerated anew; that there are none is an error."""
    study = study_with_budget(plan.study, budget_usd)
    return replace(plan, study=study, packages=list_packages(study, plan.quotes))


def study_with_budget(study: Study, budget_usd: float) -> Study:
    """Return the study with another budget in its file, which must be one that a study file may have."""
    changed = study.packages.model_dump() | {"budget_usd": budget_usd}
    with argument("budget_usd"):
        rules = validated(type(study.packages), changed, "another budget")
    return study.model_copy(update={"packages": rules})


def best_package(
    results: StudyResults, policy: str, jobs: Mapping[str, pd.DataFrame], first_runs: int = FIRST_RUNS
) -> np.ndarray:
    """Return the counts of the package that is recommended, with nothing simulated before.

    Every n-th package is simulated to learn from, the predicted head is simulated, and again until
    the head holds no predictions. That is done under best fit, whose runs take milliseconds; under another
    policy, its first `SLOW_HEAD` are then simulated and the best is taken.

    Parameters
    ----------
    results
        A study with the packages to choose from; of its cases only names and weights are used.
    policy
        Which policy decides.
    jobs
        The job table of each case by name.
    first_runs
        How many packages are simulated to learn from, about.

    Raises
    ------
    TableError
        No job runs on any package, or too few packages for a model.
    """
    plan = replace(results.plan, workloads=results.plan.workloads | dict(jobs))
    packages = plan.packages[plan.packages["distinct"].to_numpy()].reset_index(drop=True)
    unknown = np.full(len(packages), np.nan)
    cases = [
        replace(
            case,
            packages=packages,
            left_out=jobs_left_out(packages, plan.quotes, jobs[case.name], plan.existing),
            wait=unknown,
            n_jobs=len(jobs[case.name]),
        )
        for case in results.cases
    ]
    results = StudyResults(plan, catalog.DEFAULT, pd.DataFrame(), cases, keep=False)
    simulate = simulator(results, [MEAN_WAIT.column], [])
    values = PackageValues(cases, {MEAN_WAIT.column: np.stack([case.wait for case in cases])}, simulate=simulate)
    if (values.whole.left_out >= values.whole.n_jobs).all():
        raise TableError(_no_job(results))
    able = np.flatnonzero(values.whole.left_out == 0)
    among = able if len(able) else np.arange(len(packages))
    values.confirm(lambda: among[:: max(1, len(among) // first_runs)])
    learn_values(values, results, Criteria())
    confirm_list(values, Criteria(), 1)
    head = rank(values, Criteria())[:SLOW_HEAD]
    if catalog.is_batched(policy):
        return results.counts[head[0]]
    fewest = head[values.whole.left_out[head] == values.whole.left_out[head].min()]
    wait = try_everywhere(results, results.counts[fewest], policy)["mean_wait_time"].to_numpy()
    if np.isnan(wait).all():
        raise TableError(f"{_no_job(results)} under {policy}")
    return results.counts[fewest[int(np.nanargmin(wait))]]


def _no_job(results: StudyResults) -> str:
    return f"no job runs on any package for US$ {results.plan.study.packages.budget_usd:,.0f}"
