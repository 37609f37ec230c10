"""What does each rule of the packages cost? The best package found for the same money without it, simulated."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.models.case import WorkloadWaits, backlog_waits, make_case
from procure.packages.nodes import jobs_left_out
from procure.packages.rules import ALL_RULES, without_each
from procure.packages.space import Space, distinct_rows, make_space, package_table, rows_in
from procure.policies import catalog
from procure.recommender.rank import rank, values_of
from procure.recommender.values import Criteria, PackageValues, criteria_of
from procure.schemas import as_logged
from procure.study import Study
from procure.study.plan import read_inputs
from procure.sweep.results import RUNS_ALL, StudyResults
from procure.sweep.trial import simulate_packages
from procure.text import counted, duration, with_unit

MOST_TRIED, FEWEST_TRIED = 40, 8
"""Packages that are simulated for each rule: the most, and the fewest where a run takes long."""
_MOST_JOBS = 1_200_000
"""So many jobs at most are simulated for each rule, with the fewest packages excepted."""
_DRAWN, _NEAR = 500, 150
"""Packages drawn from all that the rule forbids, and exchanges around the best so far."""
_ROUNDS = (0.5, 0.25, 0.25)


class RuleCost(NamedTuple):
    """What one rule, as a study file writes it, costs: the best package that only it forbids, for the same money.

    ``package_id``: None = none of ``n_simulated`` is better; ``value`` and ``jobs_left_out`` are without the rule.
    """

    rule: str
    n_simulated: int
    package_id: str | None
    objective: str
    unit: str
    value: float
    before: float
    jobs_left_out: int
    before_left_out: int

    @property
    def called(self) -> str:
        """What the rule is called in a sentence."""
        return self.rule if self.rule == ALL_RULES else f"the rule {self.rule}"

    def sentence(self) -> str:
        """Say it."""
        rule = self.called
        if not self.n_simulated:
            return f"without {rule} the same money buys no other package that was found"
        of = "the same money waits" if self.objective == "mean-wait" else f"the same money has {self.objective}"
        tried = counted(self.n_simulated, "package")
        if self.package_id is None:
            return f"without {rule} none of {tried} simulated for the same money is better"
        more = self.before_left_out - self.jobs_left_out
        runs = f", runs {counted(more, 'job')} more" if more else ""
        value, before = (with_unit(one, self.unit) for one in (self.value, self.before))
        return f"without {rule} {of} {value}{runs}, not {before}: {self.package_id}, the best of {tried} simulated"


def rule_costs(
    results: StudyResults, criteria: Criteria, rule: str = RUNS_ALL, first: np.ndarray | None = None
) -> list[RuleCost]:
    """Say what each rule costs that a study sets, and what all of them cost; of its results nothing is read.

    ``first`` is the best package under the rules, int64[types]; None = the best that as many runs find.
    """
    plan, found = results.plan, list[RuleCost]()
    eased = without_each(plan.study.packages)
    if not eased or not criteria.need_runs:
        return found
    own, tried = make_space(plan.quotes, plan.study.packages), _Tried(results, criteria, rule)
    if first is None:
        try:
            pool, _, best = tried.search(own)
        except TableError:  # a run failed
            return found
        first = pool[best]
    for name, rules in eased.items():
        with contextlib.suppress(TableError):  # without it nothing bounds a count, say
            found.append(tried.cost(name, make_space(plan.quotes, rules), own, first))
    return found


def probe_rules(study: Study) -> list[RuleCost]:
    """Say what each rule costs before any package was swept: the best found under the rules stands for the best."""
    plan = read_inputs(study, study.simulate.policies)
    none = package_table(np.zeros((0, len(plan.types)), np.int64), make_space(plan.quotes, study.packages))
    cases = []
    for one in study.scenarios:
        case = WorkloadWaits(one.name, none, np.zeros(0, np.int64), np.zeros(0), plan.n_counted(one.name))
        cases.append(replace(case, weight=one.weight, class_jobs=plan.class_jobs(one.name)))
    results = StudyResults(replace(plan, packages=none), study.simulate.policies[0], pd.DataFrame(), cases, keep=False)
    return rule_costs(results, criteria_of(study))


class BestOfBudget(NamedTuple):
    """The best package found for another budget, its mean wait, s, and how many were tried."""

    package_id: str
    wait: float
    jobs_left_out: int
    n_simulated: int
    budget_usd: float
    price_usd: float


def best_of_budget(results: StudyResults, criteria: Criteria, rule: str, budget_usd: float) -> BestOfBudget | None:
    """Return the best of some packages simulated for another budget; None where it buys none, or a run failed."""
    rules = results.plan.study.packages.model_copy(update={"budget_usd": budget_usd})
    try:
        pool, values, best = _Tried(results, criteria, rule, 5).search(make_space(results.plan.quotes, rules))
    except TableError:
        return None
    whole = values.whole
    return BestOfBudget(
        str(values.packages["package_id"].iloc[best]), float(whole.wait[best]), int(whole.left_out[best]), len(pool),
        budget_usd, float(values.packages["price_usd"].iloc[best]),
    )  # fmt: skip


def kept_to_nodes(results: StudyResults, criteria: Criteria, rule: str, rows: np.ndarray) -> dict[str, Any] | None:
    """Say what would be chosen if jobs of tasks kept the nodes on which they ran: of the listed and some drawn.

    Returns ``package_id mean_wait_time jobs_left_out n_simulated`` of that choice and, of the first of the listed
    ``rows``, ``first_mean_wait_time first_jobs_left_out`` of the same jobs; None where the shape decides nothing, as no
    job of several nodes asks for tasks, or a run failed.
    """
    plan = results.plan
    names = {one.name for one in plan.study.scenarios if one.shape == "tasks"} & {case.name for case in results.cases}
    several = {name: plan.workloads[name]["n_nodes"] > 1 for name in names if "n_tasks" in plan.workloads[name]}
    if not any((plan.workloads[name]["n_tasks"][some] > 0).any() for name, some in several.items()):
        return None
    if all((plan.workloads[name]["cpus_per_node"][some] == 1).all() for name, some in several.items()):
        return None  # the log counts processors, each as a node: where they stood is not known
    jobs = {name: as_logged(plan.workloads[name]) for name in several}
    kept = replace(results, plan=replace(plan, workloads=plan.workloads | jobs))
    try:
        space = make_space(plan.quotes, plan.study.packages)
        pool, values, best = _Tried(kept, criteria, rule).search(space, results.counts[rows])
    except TableError:
        return None
    wait, out = values.whole.wait, values.whole.left_out
    return {
        "package_id": str(values.packages["package_id"].iloc[best]), "mean_wait_time": float(wait[best]),
        "jobs_left_out": int(out[best]), "first_mean_wait_time": float(wait[0]), "first_jobs_left_out": int(out[0]),
        "n_simulated": len(pool), "stays": best == 0,
    }  # fmt: skip


def shape_notes(of: dict[str, Any] | None) -> list[str]:
    """Say what `kept_to_nodes` found."""
    if of is None:
        return []
    waits, first = (
        f"wait {duration(of[f'{who}mean_wait_time'])}"
        + (f" and {counted(n, 'job')} cannot run" if (n := of[f"{who}jobs_left_out"]) else "")
        for who in ("", "first_")
    )
    choice = f"would be {of['package_id']}, where jobs {waits}; on the first package they then {first}"
    choice = f"stays, where jobs then {waits}" if of["stays"] else choice
    return [f"with jobs kept to their old nodes the choice {choice} (of {of['n_simulated']:,} packages simulated)"]


class _Tried:
    """Looks for good packages with few simulations: by the backlog of work first, then around the best so far."""

    def __init__(self, results: StudyResults, criteria: Criteria, rule: str, times: int = 1) -> None:
        self._results, self._criteria, self._rule = results, criteria, rule
        jobs = [results.plan.workloads[case.name] for case in results.cases]
        n = max(FEWEST_TRIED, times * min(MOST_TRIED, _MOST_JOBS // sum(map(len, jobs))))
        self.n = n if catalog.is_batched(results.policy) else FEWEST_TRIED
        self._busiest = max(jobs, key=len)

    def cost(self, name: str, space: Space, own: Space, first: np.ndarray) -> RuleCost:
        """Compare the first package with the best of those that stand in a space, and not in the study's own."""
        pool, values, best = self.search(space, first, own)
        value, out, of = values.value(self._criteria.objective)[0], values.whole.left_out, self._criteria.objective
        ids = values.packages["package_id"]
        return RuleCost(
            name, len(pool) - 1, str(ids.iloc[best]) if best else None, of.name, of.unit,
            float(value[best]), float(value[0]), int(out[best]), int(out[0]),
        )  # fmt: skip

    def search(
        self, space: Space, first: np.ndarray | None = None, but: Space | None = None
    ) -> tuple[np.ndarray, PackageValues, int]:
        """Simulate packages of a space that another does not allow; return all, their values, and the best's row."""
        rng, best = np.random.default_rng(1), 0
        pool = np.zeros((0, space.constraints.n_types), np.int64) if first is None else np.atleast_2d(first)
        runs = [self._simulated(pool)] if len(pool) else []
        for place, share in enumerate(_ROUNDS):
            near = space.neighbours(pool[best : best + 1], _NEAR, rng)
            new = near if place else distinct_rows(np.concatenate([near, space.sample(_DRAWN, rng)]))
            new = new[~rows_in(new, pool)]
            new = new if but is None else new[~but.allows(new)]
            new = self._promising(new, space, round(share * self.n))
            if len(new):
                pool, runs = np.concatenate([pool, new]), [*runs, self._simulated(new)]
            if not len(pool):
                raise TableError("no package was drawn")
            values = self._values(pool, pd.concat(runs, ignore_index=True), space)
            best = int(rank(values, self._criteria, self._rule)[0])
        return pool, values, best

    def _promising(self, counts: np.ndarray, space: Space, n: int) -> np.ndarray:
        """Return n packages that leave the fewest jobs out and, of these, let work pile up least."""
        plan, table = self._results.plan, package_table(counts, space)
        if len(counts) <= n:
            return counts
        jobs = [plan.workloads[one.name] for one in self._results.cases]
        left_out = np.sum([jobs_left_out(table, plan.quotes, one, plan.existing) for one in jobs], axis=0)
        backlog = backlog_waits(table, plan.quotes, self._busiest, plan.existing)
        return counts[np.lexsort((backlog, left_out))[:n]]

    def _simulated(self, counts: np.ndarray) -> pd.DataFrame:
        plan, policy = self._results.plan, self._results.policy
        return pd.concat([simulate_packages(plan, counts, one.name, policy) for one in self._results.cases])

    def _values(self, counts: np.ndarray, runs: pd.DataFrame, space: Space) -> PackageValues:
        """Gather what packages are compared by, as `recommend` does."""
        plan, policy, table = self._results.plan, self._results.policy, package_table(counts, space)
        cases = []
        for one in self._results.cases:
            made = make_case(table, plan.quotes, plan.workloads[one.name], runs, one.name, policy, plan.existing)
            cases.append(replace(made, weight=one.weight, n_jobs=one.n_jobs, class_jobs=one.class_jobs))
        return values_of(replace(self._results, results=runs, cases=cases), self._criteria)
