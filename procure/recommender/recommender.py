"""From a study's results to a recommendation: a ranking or a Pareto front, confirmed by simulation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.objectives import MEAN_WAIT, Quantity, objectives_of
from procure.objectives.constraints import price_bound
from procure.packages.cost_notes import cost_notes
from procure.packages.costs import Costs
from procure.packages.runnable import jobs_left_out
from procure.progress import silent
from procure.recommender import notes
from procure.recommender.confidence import assess
from procure.recommender.criteria import Criteria, criteria_of
from procure.recommender.exchanges import MOST_EXCHANGED, try_exchanges
from procure.recommender.learning import Note, learn_values, simulator, values_of
from procure.recommender.other_loads import drawn_weeks, other_loads
from procure.recommender.rank import FEWEST_CONFIRMED, confirm_list, eligible, find_front, ranking_table
from procure.recommender.recommendation import Recommendation
from procure.recommender.rule_costs import rule_costs
from procure.recommender.values import MOST_ROUNDS, PackageValues
from procure.recommender.waited import UNKNOWN, Waited, fidelity_of, waiting_cut
from procure.recommender.waiting import about_owners, about_saturation, about_waiting
from procure.study import Study, load_study
from procure.sweep.results import PUBLISHED, RULES, RUNS_ALL, StudyResults, load_results
from procure.sweep.trial import try_everywhere
from procure.text import counted, nearest

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
        Length of the list; see `procure.recommender.criteria.criteria_of`. Default: the study's.
    verify
        Whether to simulate the first max(k, 50) packages, or the front, where they are predictions.
    rule, policy, workload, note
        One of `procure.sweep.results.RULES`; of the study's policies, default its first; of its workloads, default all;
        called with what the user should know.
    resamples, seed
        How often the jobs' bursts are resampled to say which packages cannot be told apart; default: 20 under best
        fit, else 0. From 5 workloads on, days are resampled instead.
    exchanges
        So many packages at most, one exchange away from the first, are simulated once the list is confirmed; one that
        is better leads. Default: as many as a list has confirmed at least; 0 = none.

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
    _check(rule, k=k, resamples=resamples, seed=seed, exchanges=exchanges)
    study = study if isinstance(study, StudyResults) else load_study(study)
    settings = study.plan.study if isinstance(study, StudyResults) else study
    # Contradictions are named before anything is read or computed.
    criteria = criteria_of(settings, objective, constraints, pareto)
    if criteria.axes and rule == PUBLISHED:
        raise ArgumentError("rule", "a front is of packages that run every job (runs-all)")
    results = load_results(study, policy, workload, search=True, most_usd=price_bound(criteria.constraints))
    return _recommend(
        results, criteria, _Asked(k or settings.recommend.k, verify, rule, resamples, seed, exchanges), note
    )


class _Asked(NamedTuple):
    """What a call asks for beside study and criteria, see `recommend`."""

    k: int
    verify: bool
    rule: str
    resamples: int | None
    seed: int
    exchanges: int | None


def _check(rule: str, **numbers: int | None) -> None:
    """Refuse an unknown rule, and a number that is too small."""
    if rule not in RULES:
        raise ArgumentError("rule", f"{rule!r} is unknown; {nearest(rule, RULES)}")
    for argument, number in numbers.items():
        least = int(argument == "k")
        if number is not None and number < least:
            raise ArgumentError(argument, f"{number} was given; it must be {least} or more")


def _recommend(results: StudyResults, criteria: Criteria, asked: _Asked, note: Note) -> Recommendation:
    """Rank, confirm, and try the first package on other loads."""
    rule, verify, values = asked.rule, asked.verify, values_of(results, criteria)
    weeks = drawn_weeks(results) if verify and not criteria.axes else []
    failures: list[str] = []
    values.simulate = simulator(results, list(values.results), failures) if verify else None
    n_sampled = int(values.simulated.sum())
    _try_smaller(values, results)
    learn_values(values, results, criteria, rule, verify, note)
    n_before = int((values.simulated & ~values.now).sum())
    front, exchanged = None, None
    if criteria.axes:
        front = find_front(values, criteria)
        ranking, n = ranking_table(values, replace(criteria, objective=criteria.axes[0]), rule), len(front)
    else:
        confirm_list(values, criteria, asked.k, rule)
        most = MOST_EXCHANGED if asked.exchanges is None else asked.exchanges
        if criteria.need_runs:
            exchanged = try_exchanges(values, criteria, results.counts, asked.k, rule, most)
        if verify and rule == RUNS_ALL and criteria.need_runs:
            _take_front(values, results, criteria, asked.k, failures)
        ranking = ranking_table(values, criteria, rule)
        n_keep = int(ranking["satisfies"].sum()) if "satisfies" in ranking else len(ranking)
        n = min(asked.k, n_keep or len(ranking))  # where no package keeps all targets, those nearest to it are listed
    n_failed = int(values.failed.sum())
    done = Recommendation(
        results, criteria, rule, ranking, n, front, values, None, (), verify, n_failed, UNKNOWN, exchanged
    )
    if front is None:
        sure = assess(results, values, criteria, ranking, n, asked.resamples, asked.seed)
        done = replace(done, confidence=sure)
    done = replace(done, waited=_waited(done))
    first = int(ranking["row"].iloc[0])
    if verify and front is None and rule == RUNS_ALL and criteria.need_runs and values.simulated[first]:
        costs = rule_costs(results, criteria, rule, results.counts[first])
        done = replace(done, rule_costs=tuple(costs))
        try:
            done = replace(done, other_loads=other_loads(results, values, _alike_first(done), weeks, asked.seed))
        except TableError as error:  # a run failed; the list stands without it
            note(f"other loads are not tried: {error}")
    return replace(done, about=tuple(_notes(done, asked.k, n_before, n_before - n_sampled, failures)))


def _alike_first(done: Recommendation) -> np.ndarray:
    """Return the rows of the list that are simulated and leave out as many jobs as the first, best first."""
    top = done.ranking.head(max(done.k, 1))
    alike = top["simulated"] & (top["jobs_left_out"] == top["jobs_left_out"].iloc[0])
    return top.loc[alike, "row"].to_numpy()


def _try_smaller(values: PackageValues, results: StudyResults) -> None:
    """Simulate some of the packages that a bound on the price lists, so that models know such as these, too."""
    rows = np.flatnonzero(results.smaller & values.whole.runs_all)
    n = max(FEWEST_CONFIRMED, FIRST_RUNS // len(values.cases)) - int(values.simulated[rows].sum())
    if len(rows) and n > 0:
        values.confirm(lambda: rows[:: max(1, len(rows) // n)])


def _waited(done: Recommendation) -> Waited:
    """Say what the first package cuts of the waiting in the log, and how close a replay is; of a front only that."""
    first = int(done.ranking["row"].iloc[0])
    if done.front is not None or not done.package_values.simulated[first]:
        return fidelity_of(done.results)
    return waiting_cut(done.results, done.results.counts[first])


def with_front(done: Recommendation) -> Recommendation:
    """Find the front of wait against cost, from what a recommendation has simulated and learnt."""
    criteria = replace(done.criteria, axes=_front_axes(done.results, done.criteria.objective))
    known = done.package_values if done.rule == RUNS_ALL else None
    wider = _front_values(done.results, criteria, known, done.verified, [])
    wider.add(np.arange(len(wider.packages)), done.package_values.results)
    return replace(done, criteria=criteria, front=find_front(wider, criteria), package_values=wider)


def _front_values(
    results: StudyResults, criteria: Criteria, known: PackageValues | None, verify: bool, failures: list[str]
) -> PackageValues:
    """Gather what a front's axes ask for; no model of it learns from what was simulated to confirm a list."""
    wider = values_of(results, criteria)
    wider.simulate = simulator(results, list(wider.results), failures) if verify else None
    if known is not None:
        wider.adopt(known)
    learn_values(wider, results, criteria, RUNS_ALL, verify)
    return wider


def _front_axes(results: StudyResults, objective: Quantity) -> tuple[Quantity, ...]:
    """Return the objective, or the mean wait where it is no wait, the cost, and the energy where quotes state watts."""
    by_wait = objective.source == "result" and objective.unit == "s"
    names = [objective.name if by_wait else MEAN_WAIT.name]
    names += ["price" if results.plan.study.costs == Costs() else "tco"]
    if not results.costs["energy_kwh_per_year"].isna().any():
        names.append("energy")
    every = objectives_of(results.plan.study.classes)
    return tuple(every[name] for name in names)


def _take_front(values: PackageValues, results: StudyResults, criteria: Criteria, k: int, failures: list[str]) -> None:
    """Simulate the front of wait against cost, too, until nothing new is in it: none there is better than the first."""
    wide = replace(criteria, axes=_front_axes(results, criteria.objective))
    if not eligible(values, criteria).any():
        return  # no package keeps what is asked for: there is no front of those that do
    wider, every = _front_values(results, wide, values, True, failures), np.arange(len(values.packages))
    for _ in range(MOST_ROUNDS):
        wider.add(every, values.results)
        wider.failed |= values.failed  # a run that failed is not tried again
        find_front(wider, wide)
        values.failed |= wider.failed
        new = np.flatnonzero(wider.simulated & ~values.simulated)
        if not len(new):
            return
        values.confirm(lambda new=new: new)  # type: ignore[misc]
        confirm_list(values, criteria, k)


def _notes(done: Recommendation, asked: int, n_before: int, n_searched: int, failures: list[str]) -> list[str]:
    results, criteria, values, whole = done.results, done.criteria, done.package_values, done.case
    others = done.ranking.loc[~done.ranking["simulated"], "mean_wait_time"]
    # Who waits, and which other package is as good, comes first: the rest is where that comes from.
    found = about_waiting(done) if done.front is None else []
    found += done.other_loads.sentences() if done.other_loads else []
    found += [one.sentence() for one in done.rule_costs] + done.waited.sentences()
    found += [notes.coverage(whole, done.rule, n_before, n_searched, done.n_verified, others)]
    found += [done.exchanged.sentence()] if done.exchanged else []
    found += notes.about_criteria(values, criteria) + notes.about_smaller(results, values)
    if criteria.need_runs:  # where nothing is left to predict, models are of no account
        found.append(notes.model_errors(done.models if len(others) else ()))
    if len(values.costs.columns):
        found += cost_notes(results.plan.quotes, results.plan.study.costs, results.plan.existing)
    if done.front is None and results.plan.study.costs.beyond_budget:
        found += notes.about_budget(results, done.ranking["row"].to_numpy()[: done.k])
    if done.confirmed or criteria.need_runs:
        found.append(notes.confirmation(done.confirmed, done.verified, not len(others)))
    if done.front is None:
        found += notes.about_length(
            results, whole, done.rule, asked, done.k, bool(done.ranking.get("satisfies", pd.Series([False])).any())
        )
        best = done.ranking["jobs_left_out"] == done.ranking["jobs_left_out"].min()
        keep = done.ranking.get("satisfies", pd.Series(True, index=done.ranking.index))
        among = done.ranking.loc[best & (keep | ~keep.any()), "row"].to_numpy()
    else:
        among = np.flatnonzero(whole.runs_all if whole.runs_all.any() else ~whole.runs_all)
    found += notes.ties(values, criteria, among, done.k if done.front is None else 0)
    first = int(done.ranking["row"].iloc[0])
    if done.front is None:
        found += about_saturation(results, values, first)
        found += about_owners(results, first)
    found += notes.about_results(results)
    if failures:
        runs = counted(done.n_failed, "confirming run")
        found.append(f"{runs} failed, and those packages stay unconfirmed; the first: {failures[0]}")
    head = first if done.front is None else int(done.front["row"].iloc[0])
    found += [*notes.about_jobs(results, head), *_about_existing(results)]
    return found + (notes.about_policies(results, whole, done.k) if done.front is None else [])


def _about_existing(results: StudyResults) -> list[str]:
    """Say what existing nodes there are; simulate the jobs on them alone, if these run every job."""
    plan, nodes = results.plan, results.plan.existing
    if nodes is None or not len(nodes):
        return []
    nothing, wait = np.zeros((1, len(plan.types)), dtype=np.int64), None
    bought = pd.DataFrame(nothing, columns=plan.types)
    jobs = [plan.workloads[case.name] for case in results.cases]
    if not any(jobs_left_out(bought, plan.quotes, one, nodes)[0] for one in jobs):
        with contextlib.suppress(TableError):  # a run failed
            wait = float(try_everywhere(results, nothing)["mean_wait_time"].iloc[0])
    return [notes.existing(nodes, wait)]
