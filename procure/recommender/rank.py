"""The ranking and the Pareto front of packages by their values, confirmed by simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.objectives.aggregate import best_first
from procure.objectives.constraints import explain
from procure.objectives.pareto import front, knee
from procure.recommender.criteria import MEAN_WAIT, Criteria
from procure.recommender.values import PackageValues
from procure.sweep.results import PUBLISHED, RUNS_ALL

FEWEST_CONFIRMED = 50
"""Packages at the head that are simulated at least, so that a short list is no worse than a long one's head."""


def rank(values: PackageValues, criteria: Criteria, rule: str = RUNS_ALL, hopeful: bool = False) -> np.ndarray:
    """Return the rows of all packages in the order of recommendation, see `best_first`.

    By the rule ``published`` jobs that are left out do not count. Equal values and prices are ordered by the mean
    wait. ``hopeful`` orders as for confirmation: packages that just miss a bound before those that leave jobs out.
    """
    left_out = np.zeros_like(values.whole.left_out) if rule == PUBLISHED else values.whole.left_out
    value, violation = values.value(criteria.objective)[0], violation_of(values, criteria)
    return best_first(value, values.price, left_out, violation, values.value(MEAN_WAIT)[0], hopeful)


def violation_of(values: PackageValues, criteria: Criteria) -> np.ndarray:
    """Return how far each package is from satisfying the constraints, by what is simulated or else predicted."""
    return criteria.violation(lambda of: values.value(of)[0], len(values.packages))


def ranking_table(values: PackageValues, criteria: Criteria, rule: str = RUNS_ALL) -> pd.DataFrame:
    """Return every distinct package, best first.

    ``rank package_id price_usd mean_wait_time low_wait_time high_wait_time simulated simulated_now jobs_left_out``,
    ``row`` (in the distinct packages). By another objective than the mean wait, or with constraints, also ``satisfies
    objective_value objective_low objective_high``, and each constrained figure under its name, with ``_low`` and
    ``_high``. Low and high are the 90 % range of a prediction. That no package satisfies the constraints is a
    `TableError`: why, a line each.
    """
    order, ok = rank(values, criteria, rule), violation_of(values, criteria) == 0
    able = values.whole.runs_all
    must = violation_of(values, replace(criteria, targets=())) == 0
    if not (must & able if rule == RUNS_ALL and able.any() else must).any():
        raise TableError(_nothing(values, criteria, rule))
    columns: dict[str, np.ndarray] = {
        "package_id": values.packages["package_id"].to_numpy(),
        "price_usd": values.price,
        "mean_wait_time": values.value(MEAN_WAIT)[0],
    }
    columns["low_wait_time"], columns["high_wait_time"] = values.interval(MEAN_WAIT)
    columns |= {"simulated": values.simulated, "simulated_now": values.now}
    columns["jobs_left_out"] = values.whole.left_out
    if criteria != Criteria():
        columns["satisfies"] = ok
        figures = {"objective_value": criteria.objective} | {one.of.name: one.of for one in criteria.bounds}
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
    """Find the packages that no other beats in every axis, among those that run every job; errors as of
    `ranking_table`.

    The front, the front of what is left without it, and so on are simulated, at least `FEWEST_CONFIRMED` packages, and
    as many of the best by each predicted axis, until nothing predicted is among them. Returns the front by the first
    axis: ``package_id``, a column per axis (its name), ``price_usd``, ``simulated``, ``knee`` and ``row``.
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
    table = table.assign(**{axis.name: points[:, i] for i, axis in enumerate(axes)})
    table = table.assign(price_usd=values.price[rows], simulated=values.simulated[rows])
    return table.assign(knee=np.arange(len(rows)) == knee(points), row=rows)


def eligible(values: PackageValues, criteria: Criteria) -> np.ndarray:
    """Say which packages may be on a front: they satisfy every constraint, and run every job if any do.

    If none does, of those that satisfy the constraints the ones that leave the fewest jobs out: means over other jobs
    cannot be compared.
    """
    able, keeps = values.whole.runs_all, violation_of(values, criteria) == 0
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
