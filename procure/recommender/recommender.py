"""From a study's results to a recommendation: a ranking or a Pareto front, confirmed by simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from procure.errors import ArgumentError, TableError
from procure.objectives import MEAN_WAIT, OBJECTIVES, Quantity
from procure.objectives.constraints import price_bound
from procure.packages.costs import Costs
from procure.progress import silent
from procure.recommender import rank
from procure.recommender.confidence import assess, drawn_weeks, other_loads
from procure.recommender.notes import notes_of
from procure.recommender.rank import Note, learn_values, simulator, values_of, widen
from procure.recommender.recommendation import Recommendation
from procure.recommender.replay_check import check_replay
from procure.recommender.rule_costs import RuleCost, kept_to_nodes, rule_costs
from procure.recommender.values import MOST_ROUNDS, Criteria, PackageValues, criteria_of
from procure.study import Study, load_study
from procure.sweep.results import PUBLISHED, RULES, RUNS_ALL, StudyResults, load_results
from procure.text import nearest

FIRST_RUNS = 300
"""Packages of a bound on the price that are simulated to learn from, over all workloads."""


def recommend(
    study: str | Path | Study | StudyResults,
    *,
    k: int | None = None,
    objective: str | None = None,
    constraints: str | Sequence[str] | None = None,
    pareto: str | Iterable[str] | None = None,
    verify: bool = True,
    rule: str = RUNS_ALL,
    note: Note = silent,
    policy: str | None = None,
    workload: str | None = None,
    resamples: int | None = None,
    seed: int = 1,
    exchanges: int | None = None,
) -> Recommendation:
    """Recommend packages: rank all by an objective under constraints, and simulate the first to confirm them.

    What was not simulated is predicted by a model of what was, in a sweep or by ``procure search``.

    Parameters
    ----------
    study
        The path of a study that was swept, the study, or its results from `load_results`.
    k, objective, constraints, pareto
        Length of the list; see `procure.recommender.values.criteria_of`. Default: the study's.
    verify
        Whether to simulate the first max(k, 50) packages, or the front, where they are predictions.
    rule, policy, workload, note
        One of `procure.sweep.results.RULES`; of the study's policies, default its first; of its workloads, default all;
        called with what the user should know.
    resamples, seed
        How often the jobs' bursts are resampled to say which packages cannot be told apart; default: 20 under best
        fit, else 0. From 5 workloads on, days are resampled instead.
    exchanges
        So many packages at most, one swap of node types away from the first, are simulated once the list is confirmed;
        one that is better leads. Default: as many as a list has confirmed at least; 0 = none.

    Raises
    ------
    TableError
        An argument or input is missing or wrong, there are no results or too few, or no package keeps the constraints.

    Examples
    --------
    >>> import procure
    >>> len(procure.recommend("study.toml", k=5).ranking)
    29
    """
    if rule not in RULES:
        raise ArgumentError("rule", f"{rule!r} is unknown; {nearest(rule, RULES)}")
    given = {"k": (k, 1), "resamples": (resamples, 0), "seed": (seed, 0), "exchanges": (exchanges, 0)}
    for name, (number, least) in given.items():
        if number is not None and number < least:
            raise ArgumentError(name, f"{number} was given; it must be {least} or more")
    study = study if isinstance(study, StudyResults) else load_study(study)
    settings = study.plan.study if isinstance(study, StudyResults) else study
    # Contradictions are named before anything is read or computed.
    criteria = criteria_of(settings, objective, constraints, pareto)
    if criteria.axes and rule == PUBLISHED:
        raise ArgumentError("rule", "a front is of packages that run every job (runs-all)")
    results = load_results(study, policy, workload, search=True, most_usd=price_bound(criteria.constraints))
    most = rank.MOST_SWAPPED if exchanges is None else exchanges
    asked = _Asked(k or settings.recommend.k, verify, rule, resamples, seed, most, note)
    return _recommend(results, criteria, asked)


class _Asked(NamedTuple):
    """What a call asks for beside study and criteria, see `recommend`."""

    k: int
    verify: bool
    rule: str
    resamples: int | None
    seed: int
    most_swapped: int
    note: Note


def _recommend(results: StudyResults, criteria: Criteria, asked: _Asked) -> Recommendation:
    k, rule, verify, failures = asked.k, asked.rule, asked.verify, list[str]()
    values = values_of(results, criteria)
    weeks = drawn_weeks(results) if verify and not criteria.axes else []
    values.simulate = simulator(results, list(values.results), failures) if verify else None
    n_sampled = int(values.simulated.sum())
    # Some of the packages that a bound on the price lists, so that models know such as these, too.
    rows = np.flatnonzero(results.smaller & values.whole.runs_all)
    n = max(rank.FEWEST_CONFIRMED, FIRST_RUNS // len(values.cases)) - int(values.simulated[rows].sum())
    if len(rows) and n > 0:
        values.confirm(lambda: rows[:: max(1, len(rows) // n)])
    learn_values(values, results, criteria, rule, verify, asked.note)
    n_before = int((values.simulated & ~values.now).sum())
    front = rank.find_front(values, criteria) if criteria.axes else None
    swaps, by = None, replace(criteria, objective=criteria.axes[0]) if criteria.axes else criteria
    if front is None:
        rank.confirm_list(values, criteria, k, rule)
    if front is None and criteria.need_runs:
        swaps = rank.try_swaps(values, criteria, results.counts, k, rule, asked.most_swapped)
        if verify and rule == RUNS_ALL:
            _take_front(values, results, criteria, k)
    ranking = rank.ranking_table(values, by, rule)
    k = min(k, int(ranking["satisfies"].sum()) if "satisfies" in ranking else len(ranking))
    k = k if front is None else len(front)
    first = int(ranking["row"].iloc[0])
    is_known = front is None and bool(values.simulated[first])
    sure = None if front is not None else assess(results, values, criteria, ranking, k, asked.resamples, asked.seed)
    waited = check_replay(results, results.counts[first] if is_known else None)
    other, costs, shape = None, tuple[RuleCost, ...](), None
    if verify and is_known and rule == RUNS_ALL and criteria.need_runs:
        costs = tuple(rule_costs(results, criteria, rule, results.counts[first]))
        top = ranking.head(max(k, 1))
        shape = kept_to_nodes(results, criteria, rule, top["row"].to_numpy()[: rank.FEWEST_CONFIRMED])
        alike = top["simulated"] & (top["jobs_left_out"] == top["jobs_left_out"].iloc[0])
        try:
            other = other_loads(results, values, top.loc[alike, "row"].to_numpy(), weeks, asked.seed)
        except TableError as error:  # a run failed; the list stands without it
            asked.note(f"other loads are not tried: {error}")
    n_failed = int(values.failed.sum())
    done = Recommendation(
        results, criteria, rule, ranking, k, front, values, sure, (), verify, n_failed, waited, swaps, costs, other,
        shape,
    )  # fmt: skip
    return replace(done, about=tuple(notes_of(done, asked.k, n_before, n_before - n_sampled, failures)))


def with_front(done: Recommendation) -> Recommendation:
    """Find the front of wait against cost, from what a recommendation has simulated and learnt."""
    values = deepcopy(done.package_values)  # what a front simulates is not of the list
    criteria = replace(done.criteria, axes=_front_axes(done.results, done.criteria.objective))
    learn_values(values, done.results, criteria, verify=done.verified)
    return replace(done, criteria=criteria, front=rank.find_front(values, criteria), package_values=values)


def _front_axes(results: StudyResults, objective: Quantity) -> tuple[Quantity, ...]:
    """Return the objective, or the mean wait where it is no wait, the cost, and the energy where quotes state watts."""
    by_wait = objective.source == "result" and objective.unit == "s"
    cost = OBJECTIVES["price" if results.plan.study.costs == Costs() else "tco"]
    energy = () if results.costs["energy_kwh_per_year"].isna().any() else (OBJECTIVES["energy"],)
    return (objective if by_wait else MEAN_WAIT, cost, *energy)


def _take_front(values: PackageValues, results: StudyResults, criteria: Criteria, k: int) -> None:
    """Simulate the front of wait against cost, too, until nothing new is in it: none there is better than the first."""
    if not rank.eligible(values, criteria).any():
        return  # no package keeps what is asked for: there is no front of those that do
    wide = replace(criteria, axes=_front_axes(results, criteria.objective))
    widen(values, results, wide)
    for _ in range(MOST_ROUNDS):
        before = values.simulated
        rank.find_front(values, wide)
        if (values.simulated == before).all():
            return
        rank.confirm_list(values, criteria, k)
