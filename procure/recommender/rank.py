"""The values of packages, simulated or predicted; ranking and front by them, confirmed; swaps around the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from procure.errors import TableError
from procure.files import keep
from procure.models import Predicted, Surrogate, WorkloadWaits
from procure.models.surrogate import SCHEMA, from_archive
from procure.objectives import objective, objectives_of
from procure.objectives.aggregate import REGRET_FLOOR, best_first, front, knee
from procure.objectives.constraints import explain
from procure.progress import silent
from procure.recommender.values import MEAN_WAIT, Criteria, Learn, PackageValues, Simulate, n_nodes, stored
from procure.schemas import COST_UNITS
from procure.study.rules import MOST_RUN_WHOLE, MOST_WITHOUT_MODEL, can_learn, runs_of
from procure.sweep.results import PUBLISHED, RUNS_ALL, StudyResults, few_simulated
from procure.sweep.trial import simulate_once
from procure.text import file_name, listed

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
    columns = [*criteria.result_columns, *({"saturated"} & set(rows.columns))]
    values = stored(results, rows, results.cases[0].packages["package_id"], columns)
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
    learn from the sweep's sample, as long as that is large enough; what searches have simulated comes after that.
    """
    widen(values, results, criteria)
    folds, every, columns = results.plan.study.model.folds, np.arange(len(values.packages)), list(values.results)
    left_out = np.zeros_like(values.whole.left_out) if rule == PUBLISHED else values.whole.left_out
    leading = left_out == left_out.min()
    if not can_learn(int((leading & values.simulated).sum()), folds):
        values.add(every, stored(results, results.searched, values.packages["package_id"], columns))
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
    values.add(every, stored(results, results.searched, values.packages["package_id"], columns))


def learner(results: StudyResults, rule: str = RUNS_ALL) -> Learn:
    """Return a function that fits the study's model to a case, and one of its own for packages that leave jobs out."""

    def learn(case: WorkloadWaits) -> tuple[Predicted | None, np.ndarray] | None:
        able = case.left_out == case.left_out.min() if rule == RUNS_ALL else case.left_out >= 0
        needed = bool((able & ~case.simulated).any())
        predicted = results.learn_if_possible(case, rule=rule) if needed else None
        if needed and predicted is None:
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
    name, inputs = file_name(f"{case.name} {case.column}"), [made.seed, made.profile, asked.feature_set, x, wait]
    read = partial(from_archive, source="what was kept")
    fit = partial(made.fit, x, wait)
    model = keep(results.kept, f"others.{name}", inputs, fit, Surrogate.archive, read, SCHEMA)
    filled[unknown] = model.predict(results.features[unknown])
    return filled


FEWEST_CONFIRMED = 50
"""Packages at the head that are simulated at least, so that a short list is no worse than a long one's head."""


def rank(values: PackageValues, criteria: Criteria, rule: str = RUNS_ALL, hopeful: bool = False) -> np.ndarray:
    """Return the rows of all packages in the order of recommendation, see `best_first`.

    By the rule ``published`` jobs that are left out do not count. Equal values and prices are ordered by the mean
    wait. ``hopeful`` orders as for confirmation: packages that just miss a bound before those that leave jobs out.
    """
    left_out = np.zeros_like(values.whole.left_out) if rule == PUBLISHED else values.whole.left_out
    value, violation = values.value(criteria.objective)[0], values.violation(criteria.constraints)
    return best_first(value, values.price, left_out, violation, values.value(MEAN_WAIT)[0], hopeful)


def ranking_table(values: PackageValues, criteria: Criteria, rule: str = RUNS_ALL) -> pd.DataFrame:
    """Return every distinct package, best first.

    ``rank package_id price_usd mean_wait_time low_wait_time high_wait_time simulated simulated_now jobs_left_out``,
    ``row`` (in the distinct packages). By another objective than the mean wait, or with constraints, also ``satisfies
    objective_value objective_low objective_high``, and each constrained figure under its name, with ``_low`` and
    ``_high``. Low and high are the 90 % range of a prediction. That no package satisfies the constraints is a
    `TableError`: why, a line each.
    """
    order, ok = rank(values, criteria, rule), values.violation(criteria.constraints) == 0
    able = values.whole.runs_all
    if not (ok & able if rule == RUNS_ALL and able.any() else ok).any():
        raise TableError(_nothing(values, criteria, rule))
    columns: dict[str, np.ndarray] = {"package_id": values.packages["package_id"].to_numpy(), "price_usd": values.price}
    columns["mean_wait_time"] = values.value(MEAN_WAIT)[0]
    columns["low_wait_time"], columns["high_wait_time"] = values.interval(MEAN_WAIT)
    columns |= {"simulated": values.simulated, "simulated_now": values.now, "jobs_left_out": values.whole.left_out}
    if criteria != Criteria():
        columns["satisfies"] = ok
        figures = {"objective_value": criteria.objective} | {one.of.name: one.of for one in criteria.constraints}
        for name, of in figures.items():
            columns[name] = values.value(of)[0]
            if of.source == "result":
                stem = name.removesuffix("_value")
                columns[f"{stem}_low"], columns[f"{stem}_high"] = values.interval(of)
    columns["row"] = np.arange(len(order))
    table = pd.DataFrame({name: one[order] for name, one in columns.items()})
    table.insert(0, "rank", np.arange(1, len(order) + 1))
    return table


def find_front(values: PackageValues, criteria: Criteria) -> pd.DataFrame:
    """Find the packages that no other beats in every axis, among those that run every job.

    The front, the front of what is left without it, and so on are simulated, at least `FEWEST_CONFIRMED` packages, and
    as many of the best by each predicted axis, until nothing predicted is among them. Returns the front by the first
    axis: ``package_id``, a column per axis (its name), ``price_usd``, ``simulated``, ``knee`` and ``row``; errors are
    those of `ranking_table`.
    """
    axes = criteria.axes

    def layers(least: int) -> np.ndarray:
        left, found = np.flatnonzero(eligible(values, criteria)), list[np.ndarray]()
        points = np.column_stack([values.value(axis)[0] for axis in axes])
        while len(left) and sum(map(len, found)) < least:
            first = front(points[left])
            found.append(left[first])
            left = left[~first]
        return np.concatenate([left[:0], *found])

    def heads() -> np.ndarray:
        left, found = np.flatnonzero(eligible(values, criteria)), [layers(FEWEST_CONFIRMED)]
        for value, known in map(values.value, axes):
            if not known[left].all():
                found.append(left[np.argsort(value[left], kind="stable")[:FEWEST_CONFIRMED]])
        return np.unique(np.concatenate(found))

    values.confirm(heads)
    rows = layers(1)
    points = np.column_stack([values.value(axis)[0][rows] for axis in axes])
    known = ~np.isnan(points).any(axis=1)
    rows, points = rows[known], points[known]
    if not len(rows):
        raise TableError(_nothing(values, criteria, RUNS_ALL))
    order = np.lexsort((rows, *points.T[::-1]))
    rows, points = rows[order], points[order]
    table = pd.DataFrame({"package_id": values.packages["package_id"].to_numpy()[rows]})
    table = table.assign(**{axis.name: points[:, i] for i, axis in enumerate(axes)}, price_usd=values.price[rows])
    return table.assign(simulated=values.simulated[rows], knee=np.arange(len(rows)) == knee(points), row=rows)


def eligible(values: PackageValues, criteria: Criteria) -> np.ndarray:
    """Say which packages may be on a front: they satisfy every constraint, and run every job if any do.

    If none does, of those that satisfy the constraints the ones that leave the fewest jobs out: means over other jobs
    cannot be compared.
    """
    able, keeps = values.whole.runs_all, values.violation(criteria.constraints) == 0
    if not able.any() and keeps.any():
        able = values.whole.left_out == values.whole.left_out[keeps].min()
    return keeps & able


def _nothing(values: PackageValues, criteria: Criteria, rule: str) -> str:
    able, constraints = values.whole.runs_all, criteria.constraints
    among = able if rule == RUNS_ALL and able.any() else np.ones(len(able), dtype=bool)
    which = "that runs every job " if among is able else ""
    found = [values.value(one.of) for one in constraints]
    lines = explain(constraints, [v[among] for v, _ in found], [int(known[among].sum()) for _, known in found])
    return "\n  ".join([f"no package {which}satisfies the constraints", *lines])


MOST_SWAPPED = 50
"""So many packages are simulated for it at most: as many as a list has confirmed at least."""
TRIED = 10
"""So many at once, before what is expected of the others is looked at again."""
FEWEST_KNOWN, MOST_LEARNT = 10, 500
"""What is expected is learnt from so many simulated packages."""
REACH, NOISE = 3.0, 0.03
"""Length of the Gaussian process in standard deviations of a feature, and its noise against the variance."""


def confirm_list(values: PackageValues, criteria: Criteria, k: int, rule: str = RUNS_ALL) -> None:
    """Simulate the first max(k, `FEWEST_CONFIRMED`) packages until none of them is predicted."""
    head = max(k, FEWEST_CONFIRMED)
    values.confirm(lambda: rank(values, criteria, rule, hopeful=True)[:head])


def try_swaps(
    values: PackageValues,
    criteria: Criteria,
    counts: np.ndarray,
    k: int,
    rule: str = RUNS_ALL,
    most: int = MOST_SWAPPED,
) -> dict[str, Any] | None:
    """Simulate packages one swap away from the first of a confirmed list; where one is better, those around it.

    Those that are expected to be best are simulated, `TRIED` at a time, until none is left or ``most`` are; ``counts``
    are int64[packages, types], in the order of the values. The first ``k`` are confirmed again. Returns how many were
    simulated, ``n_packages n_runs``; ``n_better`` times one took the lead, in the end ``instead_of`` another (None
    where the first still leads), with ``value`` of the objective instead of ``before``; None where nothing was tried.
    """
    n_tried, n_better, leader = 0, 0, _leader(values, criteria, rule)
    first = leader
    while leader is not None and values.simulate is not None and n_tried < most:
        left_out = values.whole.left_out if rule == RUNS_ALL else np.zeros_like(values.whole.left_out)
        untried = ~(values.simulated | values.failed) & (left_out <= left_out[leader])
        rows = _best_first(values, criteria, np.flatnonzero(is_one_swap_away(counts, leader) & untried))
        rows = rows[: min(TRIED, most - n_tried)]
        if not len(rows):
            break
        values.confirm(lambda rows=rows: rows)  # type: ignore[misc]
        n_tried += len(rows)
        before, leader = leader, _leader(values, criteria, rule)
        n_better += leader != before
    if first is None or leader is None or not n_tried:
        return None
    confirm_list(values, criteria, k, rule)
    leader = int(rank(values, criteria, rule)[0])
    of, led = criteria.objective, str(values.packages["package_id"].iloc[first]) if leader != first else None
    figures = values.value(of)[0]
    return {
        "n_packages": n_tried, "n_runs": n_tried * len(values.cases), "n_better": n_better, "instead_of": led,
        "before": float(figures[first]), "value": float(figures[leader]),
    }  # fmt: skip


def is_one_swap_away(counts: np.ndarray, row: int) -> np.ndarray:
    """Say which packages, int64[packages, types], are one swap away from that of a row, bool[packages].

    Of one type they have more nodes or fewer, of one or more others the reverse.
    """
    fewer, more = (counts < counts[row]).sum(axis=1), (counts > counts[row]).sum(axis=1)
    return np.asarray(np.minimum(fewer, more) == 1)


def _leader(values: PackageValues, criteria: Criteria, rule: str) -> int | None:
    order = rank(values, criteria, rule)
    known = order[values.simulated[order]]
    return int(known[0]) if len(known) else None


def _best_first(values: PackageValues, criteria: Criteria, rows: np.ndarray) -> np.ndarray:
    """Order packages by how far they keep the constraints, and by the objective that is expected of them.

    What was simulated to confirm the list says more of its neighbours than the model does, which has learnt from the
    sweep's sample only: waits are predicted by a Gaussian process of all that is simulated.
    """
    of = criteria.objective
    expected = values.value(of)[0][rows]
    if of.source == "result" and of.unit == "s" and len(rows):
        known = np.flatnonzero(values.simulated & values.whole.runs_all)
        found = np.full(values.results[of.column].shape, np.nan)
        found[:, rows] = _predicted(values.results[of.column], values.packages, known, rows)
        filled = values.pooled(found, of)[rows]
        expected = np.where(np.isnan(filled) | ~values.whole.runs_all[rows], expected, filled)
    return rows[np.lexsort((values.price[rows], expected, values.violation(criteria.constraints)[rows]))]


def _predicted(waits: np.ndarray, packages: pd.DataFrame, known: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Predict waits, float64[workloads, rows], from those of known packages, float64[workloads, packages]."""
    found, some = np.full((len(waits), len(rows)), np.nan), ~np.isnan(waits[:, known]).all(axis=1)
    known = known[~np.isnan(waits[np.ix_(some, known)]).any(axis=0)]
    if len(known) < FEWEST_KNOWN or not some.any():
        return found
    by_mean = known[np.argsort(waits[np.ix_(some, known)].mean(axis=0), kind="stable")]
    best, others = by_mean[: MOST_LEARNT // 2], by_mean[MOST_LEARNT // 2 :]
    learnt = np.concatenate([best, others[:: 1 + 2 * len(others) // MOST_LEARNT]])
    some_packages = packages.iloc[np.union1d(known, rows)]
    totals = some_packages[["total_cpus", "total_mem_gb", "total_gpus"]].to_numpy(dtype="float64")
    x = np.log1p(np.column_stack([n_nodes(some_packages), totals]))
    x = pd.DataFrame((x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9), some_packages.index)
    log = np.log(np.maximum(waits[np.ix_(some, learnt)], REGRET_FLOOR)).T
    model = GaussianProcessRegressor(RBF(REACH), alpha=NOISE, optimizer=None)
    at = packages.index
    model.fit(x.loc[at[learnt]].to_numpy(), log - log.mean(axis=0))
    guess = model.predict(x.loc[at[rows]].to_numpy()).reshape(len(rows), -1)
    found[some] = np.exp(log.mean(axis=0) + guess).T
    return found
