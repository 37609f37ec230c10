"""From a study's results to a recommendation: a ranking or a Pareto front, confirmed by simulation."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.models import Case, Predicted, Surrogate
from procure.models.case import mean_over, simulated_values
from procure.objectives import OBJECTIVES, Quantity, objective
from procure.packages.costs import cost_notes
from procure.packages.runnable import jobs_left_out
from procure.recommender import notes as facts
from procure.recommender.confidence import Confidence, assess
from procure.recommender.criteria import MEAN_WAIT, Criteria, criteria_of
from procure.recommender.rank import Confirmation, Simulate, confirm_list, pareto, ranking_table
from procure.recommender.values import Learn, Model, PackageValues
from procure.schemas import COST_UNITS
from procure.study import Study, load_study
from procure.study.rules import MOST_WITHOUT_MODEL, can_learn
from procure.sweep.results import (
    PUBLISHED,
    RULES,
    RUNS_ALL,
    StudyResults,
    few_simulated,
    load_results,
    workloads_of,
)
from procure.sweep.trial import simulate_counts
from procure.text import counted, nearest

_FEWEST_ROWS = 20

Note = Callable[[str], None]


@dataclass(frozen=True)
class Recommendation:
    """A ranking of every distinct package, or a Pareto front, with what it stands on.

    Attributes
    ----------
    results
        The study and its results.
    criteria, rule
        What packages are ranked by.
    ranking
        Every distinct package, best first, see `procure.recommender.rank.ranking_table`; with axes, by the
        first axis, and not confirmed beyond the front.
    k
        How many are recommended; at most the packages that satisfy the constraints.
    front
        The Pareto front, see `procure.recommender.rank.pareto`; None without axes.
    package_values
        Every value of every package.
    confidence
        How sure the order of the first packages is; None for a front.
    facts
        What the user should know; `str` makes a sentence of each.
    verified
        Whether predictions were simulated to confirm the list.
    n_failed
        How many confirming runs failed; their packages stay predicted.
    """

    results: StudyResults
    criteria: Criteria
    rule: str
    ranking: pd.DataFrame
    k: int
    front: pd.DataFrame | None
    package_values: PackageValues
    confidence: Confidence | None
    facts: tuple[object, ...]
    verified: bool
    n_failed: int = 0

    @property
    def case(self) -> Case:
        """All workloads pooled: packages, jobs left out, and the mean waits that the study's results hold."""
        return self.package_values.whole

    @property
    def models(self) -> tuple[Model, ...]:
        """The models behind predicted values; none where everything that could lead the list is simulated."""
        return tuple(self.package_values.models)

    @property
    def predicted(self) -> Predicted | None:
        """What the predictions of the mean wait come from."""
        return next((one.predicted for one in self.models if one.what == MEAN_WAIT.name), None)

    @property
    def n_verified(self) -> int:
        """How many packages were simulated to confirm the list."""
        return int(self.ranking["simulated_now"].sum())

    @property
    def confirmed(self) -> bool:
        """Whether all packages of the list, or of the front, are simulated."""
        shown = self.ranking.head(self.k) if self.front is None else self.front
        return bool(shown["simulated"].all())

    @property
    def notes(self) -> list[str]:
        """Where the order comes from and how it might be wrong, a sentence each."""
        sure = self.confidence.sentences(len(self.ranking)) if self.confidence else []
        return [*map(str, self.facts), *sure]

    @property
    def title(self) -> str:
        """What the list or the front is of."""
        where = f"{self.results.plan.study.name}, {workloads_of(self.case)}"
        if self.front is not None:
            axes = ", ".join(heading(axis) for axis in self.criteria.axes)
            return f"{where}: {counted(len(self.front), 'package')} that no other beats in all of {axes}"
        by = "mean wait in seconds" if self.criteria == Criteria() else heading(self.criteria.objective)
        return f"{where}: the first{f' {self.k}' if self.k > 1 else ''}, by {by}"

    def shown(self) -> pd.DataFrame:
        """Return the list or the front as a table for people."""
        if self.front is not None:
            names = {axis.name: heading(axis) for axis in self.criteria.axes}
            table = self.front.drop(columns="row")
            table = table.assign(**{name: _rounded(table[name]) for name in names})
            return table.assign(knee=["knee" if one else "" for one in table["knee"]]).rename(columns=names)
        top, of = self.ranking.head(self.k), self.criteria.objective
        table = top[["rank", "package_id"]].assign(price_usd=top["price_usd"].round().astype("int64"))
        if self.criteria != Criteria():
            table[heading(of)] = _rounded(top["objective_value"])
        table["wait_s"] = top["mean_wait_time"].round(1)
        table["wait_is"] = ["simulated" if known else "predicted" for known in top["simulated"]]
        if not top["simulated"].all():
            table["low_s"], table["high_s"] = top["low_wait_time"].round(), top["high_wait_time"].round()
        for bound in self.criteria.constraints:
            if bound.of.name not in (of.name, "price_usd", "mean_wait_time", "jobs_left_out"):
                table[heading(bound.of)] = _rounded(top[bound.of.name])
        if top["jobs_left_out"].any():
            table["left_out"] = top["jobs_left_out"]
        return table.assign(**(self.confidence.columns(self.k) if self.confidence else {}))

    def summary(self) -> str:
        """Return the list or the front as text, with the notes."""
        table = self.shown().to_string(index=False, na_rep="–")
        return "\n".join([self.title, table, *(f"- {line}" for line in self.notes)])

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(line)}</li>" for line in self.notes)
        table = self.shown().to_html(index=False, na_rep="–", border=0)
        return f"<p><b>{html.escape(self.title)}</b></p>{table}<ul>{notes}</ul>"


def heading(of: Quantity) -> str:
    """Return a quantity's name with its unit."""
    return f"{of.name}, {of.unit}" if of.unit else of.name


def _rounded(values: pd.Series) -> pd.Series:
    return values.round(1) if values.abs().max() >= 100 else values.round(4)


def recommend(
    study: str | Path | Study | StudyResults,
    *,
    k: int | None = None,
    objective: str | None = None,
    constraints: Sequence[str] | None = None,
    pareto: str | Iterable[str] | None = None,
    verify: bool = True,
    rule: str = RUNS_ALL,
    note: Note = lambda text: None,
    policy: str | None = None,
    workload: str | None = None,
    resamples: int | None = None,
    seed: int = 1,
) -> Recommendation:
    """Recommend packages: rank all by an objective under constraints, and simulate the first to confirm them.

    What was not simulated is predicted by a model of the packages that were; what ``procure search`` has simulated
    is used, too.

    Parameters
    ----------
    study
        The path of a study that was swept, the study, or its results from `load_results`.
    k
        Length of the list; default: the study's.
    objective, constraints, pareto
        See `procure.recommender.criteria.criteria_of`; default: the study's. With ``pareto``, the packages that no
        other beats in all of these axes are found.
    verify
        Whether to simulate the first max(k, 50) packages, or the front, where they are predictions.
    rule
        ``runs-all``: packages that run every job come first. ``published``: all by the mean wait over the jobs
        that ran, whatever is left out.
    note
        Called with what the user should know while this goes on.
    policy, workload
        One of the study's policies, default its first; one of its workloads, default all together.
    resamples
        How often the jobs' bursts are resampled and the first packages simulated on them, to say which cannot
        be told apart; default: 20 under best fit, else 0. From 5 workloads on, days are resampled instead.
    seed
        Of the resampling.

    Raises
    ------
    ArgumentError
        An argument is wrong.
    TableError
        An input is missing or wrong, there are no results yet, too few to learn from, or no package
        satisfies the constraints.

    Notes
    -----
    A list that is sorted by prediction shows the luckiest errors first; that is what verification is for. A low
    number among unverified predictions is more likely too low than too high.
    """
    if rule not in RULES:
        raise ArgumentError("rule", f"{rule!r} is unknown; {nearest(rule, RULES)}")
    for argument, number, least in (("k", k, 1), ("resamples", resamples, 0), ("seed", seed, 0)):
        if number is not None and number < least:
            raise ArgumentError(argument, f"{number} was given; it must be {least} or more")
    if isinstance(study, str | Path):
        study = load_study(study)
    settings = study.plan.study if isinstance(study, StudyResults) else study
    # Contradictions are named before anything is read or computed.
    criteria = criteria_of(settings, objective, constraints, pareto)
    if criteria.axes and rule == PUBLISHED:
        raise ArgumentError("rule", "a front is of packages that run every job (runs-all)")
    results = load_results(study, policy, workload, search=True)
    return recommend_by(results, criteria, k, verify, rule, note, resamples, seed)


def recommend_by(
    results: StudyResults,
    criteria: Criteria,
    k: int | None = None,
    verify: bool = True,
    rule: str = RUNS_ALL,
    note: Note = lambda text: None,
    resamples: int | None = None,
    seed: int = 1,
) -> Recommendation:
    """Do as `recommend`, with results and criteria that were read before."""
    asked, values = k or results.plan.study.recommend.k, values_of(results, criteria)
    failures: list[str] = []
    simulate = simulator(results, list(values.results), failures) if verify else None
    confirmation = Confirmation(values, simulate)
    n_sampled = int(values.simulated.sum())
    learn_values(confirmation, results, criteria, rule, verify, note)
    n_before = int((values.simulated & ~confirmation.now).sum())
    if criteria.axes:
        front = pareto(confirmation, criteria)
        ranking, n = (
            ranking_table(confirmation, replace(criteria, objective=criteria.axes[0]), rule),
            len(front),
        )
    else:
        front = None
        confirm_list(confirmation, criteria, asked, rule)
        ranking = ranking_table(confirmation, criteria, rule)
        n = min(asked, int(ranking["satisfies"].sum()) if "satisfies" in ranking else len(ranking))
    done = Recommendation(
        results, criteria, rule, ranking, n, front, values, None, (), verify, int(confirmation.failed.sum())
    )
    if front is None:
        done = replace(done, confidence=assess(results, values, criteria, ranking, n, resamples, seed))
    return replace(done, facts=tuple(_facts(done, asked, n_before, n_before - n_sampled, failures)))


def with_front(
    done: Recommendation, axes: Sequence[Quantity], note: Note = lambda text: None
) -> Recommendation:
    """Find the front between other axes, from what a recommendation has simulated and learnt."""
    criteria = replace(done.criteria, axes=tuple(axes))
    wider, failures = values_of(done.results, criteria), list[str]()
    simulate = simulator(done.results, list(wider.results), failures) if done.verified else None
    confirmation = Confirmation(wider, simulate)
    learn_values(confirmation, done.results, criteria, RUNS_ALL, done.verified, note)
    # What was simulated to confirm the list is known here, too, but no model has learnt from it.
    wider.add(np.arange(len(wider.packages)), done.package_values.results)
    return replace(done, criteria=criteria, front=pareto(confirmation, criteria), package_values=wider)


def values_of(results: StudyResults, criteria: Criteria) -> PackageValues:
    """Gather what the results and the costs say of every package.

    Raises
    ------
    TableError
        The results lack a column that is needed; the objectives that are there are listed.
    """
    rows, quantities = results.results, criteria.quantities
    there = {"price_usd", *COST_UNITS, *rows.columns[rows.notna().any()]}
    for one in quantities:
        if one.name in OBJECTIVES:
            objective(one.name, there)
    costs = results.costs() if any(one.source == "cost" for one in quantities) else pd.DataFrame()
    values = {
        column: np.array(
            [simulated_values(c.packages, rows, c.name, results.policy, column) for c in results.cases]
        )
        for column in criteria.result_columns
    }
    return PackageValues(results.cases, values, costs, results.plan.study.recommend.cvar_share)


def simulator(results: StudyResults, columns: Sequence[str], failures: list[str]) -> Simulate:
    """Return a function that simulates packages under the study; why a run failed is added to ``failures``."""

    def simulate(rows: np.ndarray) -> dict[str, np.ndarray]:
        found = {column: np.full((len(results.cases), len(rows)), np.nan) for column in columns}
        for i, case in enumerate(results.cases):
            runs = simulate_counts(results.plan, results.counts[rows], case.name, results.policy)
            bad = (runs["status"] != "ok").to_numpy()
            failures.extend(f"{run.package_id}: {run.reason}" for run in runs[bad].itertuples())
            for column in columns:
                found[column][i] = np.where(bad, np.nan, runs[column].to_numpy(dtype="float64"))
        return found

    return simulate


def learn_values(
    confirmation: Confirmation,
    results: StudyResults,
    criteria: Criteria,
    rule: str = RUNS_ALL,
    verify: bool = True,
    note: Note = lambda text: None,
) -> None:
    """Predict what is needed of packages that were not simulated; where too few were, simulate the missing few.

    Models learn from the sweep's sample, as long as that is large enough; what searches have simulated is
    entered after that.
    """
    values, folds = confirmation.package_values, results.plan.study.model.folds
    whole, every = values.whole, np.arange(len(values.packages))
    left_out = np.zeros_like(whole.left_out) if rule == PUBLISHED else whole.left_out
    leading = left_out == left_out.min()
    sampled = int((leading & values.simulated).sum())
    if not can_learn(sampled, folds):
        values.add(every, searched_values(results, list(values.results)))
    missing = leading & ~values.simulated
    outright = verify and int(missing.sum()) <= MOST_WITHOUT_MODEL
    enough = can_learn(int((leading & values.simulated).sum()), folds)
    if criteria.need_runs and missing.any() and outright and not enough:
        confirmation.simulate(np.flatnonzero(missing))
    elif criteria.need_runs:
        learn = learner(results, rule)
        wanted = {of: None for of in (*criteria.quantities, MEAN_WAIT) if of.source == "result"}
        for of in wanted:
            if of.per_workload and len(values.cases) > 1:
                note(f"{of.name}: one model per workload, {len(values.cases)}; they are kept for next time")
            if not values.learn(of, learn):
                raise TableError(few_simulated(whole, folds) + "; simulate more (sweep.sample)")
    values.add(every, searched_values(results, list(values.results)))


def searched_values(results: StudyResults, columns: Sequence[str]) -> dict[str, np.ndarray]:
    """Return what the study's searches have simulated, float64[workloads, packages] by column, NaN elsewhere."""
    ids = results.cases[0].packages["package_id"]
    found = {column: np.full((len(results.cases), len(ids)), np.nan) for column in columns}
    for i, case in enumerate(results.cases if len(results.searched) else []):
        rows = (
            results.searched[results.searched["workload"] == case.name].set_index("package_id").reindex(ids)
        )
        for column in columns:
            found[column][i] = rows[column].to_numpy(dtype="float64")
    return found


def learner(results: StudyResults, rule: str = RUNS_ALL) -> Learn:
    """Return a function that fits the study's model to a case, and one of its own for packages that leave jobs out."""

    def learn(case: Case) -> tuple[Predicted | None, np.ndarray] | None:
        able = case.left_out == case.left_out.min() if rule == RUNS_ALL else case.left_out >= 0
        predicted = None
        if (able & ~case.simulated).any():
            predicted = results.learn_if_possible(case, rule=rule)
            if predicted is None:
                return None
        guess = np.full(len(case.wait), np.nan) if predicted is None else predicted.wait
        if rule == RUNS_ALL:
            guess = _predict_rest(results, case, predicted.model if predicted else None, guess)
        return predicted, guess

    return learn


def _predict_rest(results: StudyResults, case: Case, like: Surrogate | None, guess: np.ndarray) -> np.ndarray:
    """Fill in predictions for packages that leave jobs out, where enough of them were simulated."""
    rest = ~case.runs_all
    learnt, unknown = rest & case.simulated, rest & ~case.simulated & np.isnan(guess)
    if int(learnt.sum()) < _FEWEST_ROWS or not unknown.any():
        return guess
    model = Surrogate(like.kind, like.seed, like.n_jobs, like.profile_) if like else Surrogate()
    model.fit(results.features[learnt], case.wait[learnt])
    filled = guess.copy()
    filled[unknown] = model.predict(results.features[unknown])
    return filled


def _facts(
    done: Recommendation, asked: int, n_before: int, n_searched: int, failures: list[str]
) -> list[object]:
    """Gather what the user should know of a list or a front."""
    results, criteria, values, whole = done.results, done.criteria, done.package_values, done.case
    others = done.ranking.loc[~done.ranking["simulated"], "mean_wait_time"]
    unknown = int(others.isna().sum())
    found: list[object] = [
        facts.Coverage(
            len(whole.packages), int(whole.runs_all.sum()), done.rule, n_before, n_searched, done.n_verified,
            len(others) - unknown, unknown,
        )
    ]  # fmt: skip
    found += facts.about_criteria(values, criteria)
    found += [facts.ModelErrors(done.models)] if criteria.need_runs else []
    if len(values.costs.columns):
        found += cost_notes(results.plan.quotes, results.plan.study.costs, results.plan.existing)
    if done.confirmed or criteria.need_runs:
        found.append(facts.Confirmed(done.confirmed, done.verified, not len(others)))
    if done.front is None:
        found += facts.about_length(results, whole, done.rule, asked, done.k, bool(criteria.constraints))
        best = done.ranking["jobs_left_out"] == done.ranking["jobs_left_out"].min()
        among = done.ranking.loc[best & done.ranking.get("satisfies", True), "row"].to_numpy()
    else:
        among = np.flatnonzero(whole.runs_all if whole.runs_all.any() else ~whole.runs_all)
    found += facts.ties(values, criteria, among, done.k if done.front is None else 0)
    found += facts.about_results(results)
    found += [facts.FailedRuns(done.n_failed, failures[0])] if failures else []
    found += facts.about_speeds(results)
    found += _about_existing(results)
    return found + (facts.about_policies(results, whole, done.k) if done.front is None else [])


def _about_existing(results: StudyResults) -> list[object]:
    """Say what existing nodes there are; simulate the jobs on them alone, if these run every job."""
    plan, nodes = results.plan, results.plan.existing
    if nodes is None or not len(nodes):
        return []
    nothing, wait = np.zeros((1, len(plan.types)), dtype=np.int64), None
    bought = pd.DataFrame(nothing, columns=plan.types)
    jobs = [plan.workloads[case.name] for case in results.cases]
    if not any(jobs_left_out(bought, plan.quotes, one, nodes)[0] for one in jobs):
        runs = [simulate_counts(plan, nothing, case.name, results.policy) for case in results.cases]
        if all(run["status"].iloc[0] == "ok" for run in runs):
            wait = float(mean_over(results.cases, runs)[0])
    n_gpus, mem_gb = int(nodes["gpus"].sum()), float(nodes["mem_mb"].sum() / 1000)
    return [facts.Existing(len(nodes), int(nodes["cpus"].sum()), mem_gb, n_gpus, wait)]
