"""The values of packages, gathered, simulated or predicted by models; and how far off a study's model is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.files import keep
from procure.models import FEATURE_SETS, Predicted, Surrogate, WorkloadWaits
from procure.models.case import simulated_values
from procure.models.crossfit import correlations
from procure.models.surrogate import SCHEMA, from_archive
from procure.objectives import objective, objectives_of
from procure.progress import silent
from procure.recommender.values import MEAN_WAIT, Criteria, Learn, PackageValues, Simulate
from procure.schemas import COST_UNITS
from procure.study import Study
from procure.study.rules import MOST_RUN_WHOLE, MOST_WITHOUT_MODEL, can_learn, runs_of
from procure.sweep.results import PUBLISHED, RUNS_ALL, StudyResults, few_simulated, load_results
from procure.sweep.trial import simulate_once
from procure.text import Shown, counted, file_name, listed, nearest

_FEWEST_ROWS = 20

Note = Callable[[str], None]


def values_of(results: StudyResults, criteria: Criteria) -> PackageValues:
    """Gather what the results and the costs say of every package; a wait that the results cannot hold is an error."""
    rows = results.results
    there = {"price_usd", *COST_UNITS, *rows.columns[rows.notna().any()]}
    for one in criteria.quantities:
        if one.name in objectives_of(results.plan.study.classes):
            objective(one.name, there, results.plan.study.classes)
        if one.job_class is not None and all(case.class_jobs.get(one.job_class) == 0 for case in results.cases):
            raise TableError(f"{one.name}: no job is of class {one.job_class}, so nobody waits there; leave it out")
    costs = results.costs if criteria.need_costs else pd.DataFrame()
    values = {
        column: np.array([simulated_values(c.packages, rows, c.name, results.policy, column) for c in results.cases])
        for column in (*criteria.result_columns, *({"saturated"} & set(rows.columns)))
    }
    return PackageValues(results.cases, values, costs, results.plan.study.recommend.cvar_share)


def simulator(results: StudyResults, columns: Sequence[str], failures: list[str]) -> Simulate:
    """Return a function that simulates packages under the study; why a run failed is added to ``failures``."""

    names = results.plan.metric_names

    def simulate(rows: np.ndarray) -> dict[str, np.ndarray]:
        runs = np.stack([simulate_once(results, case.name, rows, failures) for case in results.cases])
        return {column: runs[:, :, names.index(column)] for column in columns}

    return simulate


def widen(values: PackageValues, results: StudyResults, criteria: Criteria) -> None:
    """Gather what criteria need beyond those that the values were gathered for."""
    missing = set(criteria.result_columns) - set(values.results)
    if missing or (criteria.need_costs and values.costs.empty):
        more = values_of(results, criteria)
        values.results |= {name: more.results[name] for name in missing}
        values.costs = more.costs if values.costs.empty else values.costs


def learn_values(
    values: PackageValues,
    results: StudyResults,
    criteria: Criteria,
    rule: str = RUNS_ALL,
    verify: bool = True,
    note: Note = silent,
) -> None:
    """Predict what is needed of packages that were not simulated; where no model is to be had, simulate a short list.

    There is none where too few were simulated to learn from, or where a model is no better than a constant. Models
    learn from the sweep's sample, as long as that is large enough; what searches have simulated is
    entered after that.
    """
    widen(values, results, criteria)
    folds, every, columns = results.plan.study.model.folds, np.arange(len(values.packages)), list(values.results)
    left_out = np.zeros_like(values.whole.left_out) if rule == PUBLISHED else values.whole.left_out
    leading = left_out == left_out.min()
    if not can_learn(int((leading & values.simulated).sum()), folds):
        values.add(every, searched_values(results, columns))
    unknown = leading & ~values.simulated
    outright = verify and int(unknown.sum()) <= MOST_WITHOUT_MODEL
    enough = can_learn(int((leading & values.simulated).sum()), folds)
    if criteria.need_runs and unknown.any() and outright and not enough:
        values.confirm(lambda: np.flatnonzero(unknown))
    elif criteria.need_runs:
        learn = learner(results, rule)
        for of in dict.fromkeys(one for one in (*criteria.quantities, MEAN_WAIT) if one.source == "result"):
            if of.per_workload and len(values.cases) > 1:
                note(f"{of.name}: one model per workload, {len(values.cases)}; they are kept for next time")
            if not values.learn(of, learn):
                raise TableError(f"{few_simulated(values.whole, folds)}; simulate more (sweep.sample), or confirm")
        useless = [one.what for one in values.models if not one.useful]
        if verify and useless and runs_of(results.plan.study, int(unknown.sum())) <= MOST_RUN_WHOLE:
            note(f"no model of {listed(useless)} is better than a constant: simulating the other packages")
            values.confirm(lambda: np.flatnonzero(unknown))
    values.add(every, searched_values(results, columns))


def searched_values(results: StudyResults, columns: Sequence[str]) -> dict[str, np.ndarray]:
    """Return what the study's searches have simulated, float64[workloads, packages] by column, NaN elsewhere."""
    ids = results.cases[0].packages["package_id"]
    found = {column: np.full((len(results.cases), len(ids)), np.nan) for column in columns}
    for i, case in enumerate(results.cases if len(results.searched) else []):
        rows = results.searched[results.searched["workload"] == case.name].set_index("package_id").reindex(ids)
        for column in columns:
            found[column][i] = rows[column].to_numpy(dtype="float64")
    return found


def learner(results: StudyResults, rule: str = RUNS_ALL) -> Learn:
    """Return a function that fits the study's model to a case, and one of its own for packages that leave jobs out."""

    def learn(case: WorkloadWaits) -> tuple[Predicted | None, np.ndarray] | None:
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


def _predict_rest(results: StudyResults, case: WorkloadWaits, like: Surrogate | None, guess: np.ndarray) -> np.ndarray:
    """Fill in predictions for packages that leave jobs out, where enough of them were simulated."""
    rest = ~case.runs_all
    learnt, unknown = rest & case.simulated, rest & ~case.simulated & np.isnan(guess)
    if int(learnt.sum()) < _FEWEST_ROWS or not unknown.any():
        return guess
    asked = results.plan.study.model
    made = Surrogate(like.seed, like.profile_) if like else Surrogate(asked.seed)
    x, wait, filled = results.features[learnt], case.wait[learnt], guess.copy()
    model = keep(
        results.kept,
        f"others.{file_name(f'{case.name} {case.column}')}",
        [made.seed, made.profile, asked.feature_set, x, wait],
        lambda: made.fit(x, wait),
        Surrogate.archive,
        lambda archive: from_archive(archive, "what was kept"),
        SCHEMA,
    )
    filled[unknown] = model.predict(results.features[unknown])
    return filled


@dataclass(frozen=True)
class Training(Shown):
    """How far off a study's model is, out of fold.

    ``table`` has a row per workload: ``workload policy model feature_set n_simulated n_packages folds rmse_seconds
    constant_rmse_seconds relative_rmse fold_rmse_seconds trees``; RMSE is in seconds, and relative to that of always
    answering the mean. ``correlations`` by workload are from `procure.models.crossfit.correlations`; ``notes`` name
    workloads without a model, and where models are kept.
    """

    study: str
    table: pd.DataFrame
    correlations: dict[str, pd.DataFrame]
    notes: list[str]

    def records(self) -> list[dict[str, object]]:
        """Return the rows with their correlations, as ``procure train --format json`` prints them."""
        return [
            {str(name): value for name, value in row.items()}
            | {"correlations": self.correlations[row["workload"]].to_dict()}
            for row in self.table.to_dict(orient="records")
        ]

    @property
    def title(self) -> str:
        """What the table is of."""
        return f"{self.study}: out-of-fold error"


def train(
    study: str | Path | Study | StudyResults,
    *,
    feature_set: str | None = None,
    policy: str | None = None,
    note: Note = silent,
) -> Training:
    """Cross-validate the study's model on the packages that were simulated, and keep it with the results.

    ``study`` is the path of a study that was swept, the study, or its results; ``feature_set`` one of
    `procure.models.FEATURE_SETS`, default its own; ``policy`` one of its policies, default the first; ``note``
    is called with a line on each step. That it has no results, or an argument is wrong, is a `TableError`.

    Examples
    --------
    >>> import procure
    >>> print(procure.train("study.toml").summary().splitlines()[0])
    small: out-of-fold error
    """
    if feature_set is not None and feature_set not in FEATURE_SETS:
        raise ArgumentError("feature_set", f"{feature_set!r} is unknown; {nearest(feature_set, FEATURE_SETS)}")
    results = load_results(study, policy)
    settings, rows, notes = results.plan.study.model, [], []
    for case in results.cases:
        note(f"{case.name}: learning from {counted(int(case.simulated.sum()), 'simulated package')}")
        found = results.learn_if_possible(case, feature_set)
        if found is None:
            notes.append(few_simulated(case, settings.folds))
            continue
        learnt = ~np.isnan(found.wait)
        rows.append(
            {
                "workload": case.name, "policy": results.policy, "model": found.model.kind,
                "feature_set": feature_set or settings.feature_set,
                "n_simulated": int((case.simulated & learnt).sum()), "n_packages": int(learnt.sum()),
                "folds": len(found.folds), "rmse_seconds": found.rmse_seconds,
                "constant_rmse_seconds": found.constant_rmse_seconds, "relative_rmse": found.relative_rmse,
                "fold_rmse_seconds": found.folds["rmse_seconds"].round(3).tolist(), "trees": found.model.profile_,
            }
        )  # fmt: skip
    if rows and results.kept and os.access(results.kept, os.W_OK):
        notes.append(f"models are kept in {results.kept}")
    tables = {case.name: correlations(case.packages, case.wait) for case in results.cases}
    return Training(results.plan.study.name, pd.DataFrame(rows), tables, notes)
