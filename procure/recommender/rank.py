"""Rank packages by any objective under constraints, and find the front between several; confirmed by simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.objectives import OBJECTIVES, Quantity
from procure.objectives.constraints import Constraint, explain
from procure.objectives.pareto import front, knee
from procure.recommender import recommender as lists
from procure.recommender.values import WAIT, Figures

Simulate = Callable[[list[str]], dict[str, np.ndarray]]
"""From package ids to simulated values by result column, float64[workloads, packages]; NaN where a run failed."""


def choose(
    figures: Figures,
    objective: Quantity,
    constraints: Sequence[Constraint] = (),
    k: int = 50,
    simulate: Simulate | None = None,
    rule: str = "runs-all",
) -> lists.Recommendation:
    """Rank every package by an objective; those that break a constraint come last.

    Packages that satisfy all constraints come first; the others by how far they are from it, summed over
    the constraints as shares of the bounds. Among those that satisfy them: packages that run every job
    (by the rule ``runs-all``), then the objective, the price, the mean wait, the row.

    Parameters
    ----------
    figures
        What is known and predicted; what is simulated here is entered.
    objective
        What is to be small.
    constraints
        From `procure.objectives.constraints.parse_all`.
    k
        Length of the list; at most the packages that satisfy all constraints.
    simulate
        As for `procure.recommender.recommender.recommend`: the head of the list is simulated until nothing predicted is
        left in it, and what was predicted wrongly moves, constraints included. None = no verification.
    rule
        One of `procure.recommender.recommender.RULES`.

    Returns
    -------
    Recommendation
        Its ranking has in addition ``satisfies``, ``objective_value``, and a column for each figure
        that is constrained.

    Raises
    ------
    TableError
        No package satisfies the constraints: why, a line each; or the objective is unknown for all.
    """
    head = max(k, lists.FEWEST_CONFIRMED)

    def wanted() -> np.ndarray:
        # Those that just miss a bound by prediction may meet it; those that leave jobs out come after them.
        return _order(figures, objective, constraints, rule, runs_all_first=True)[:head]

    now, failed = confirm(figures, simulate, wanted)
    order = _order(figures, objective, constraints, rule)
    values, _ = figures.value(objective)
    ok = satisfied(figures, constraints)
    first = ok & figures.whole.runs_all if rule == "runs-all" and figures.whole.runs_all.any() else ok
    if not first.any():
        raise TableError(_nothing(figures, constraints, rule))
    wait, _ = figures.value(OBJECTIVES["mean-wait"])
    table = pd.DataFrame(
        {
            "rank": np.arange(1, len(order) + 1),
            "package_id": figures.packages["package_id"].to_numpy()[order],
            "price_usd": figures.packages["price_usd"].to_numpy()[order],
            "mean_wait_time": wait[order],
            "low_wait_time": np.nan,
            "high_wait_time": np.nan,
            "simulated": figures.simulated[order],
            "simulated_now": now[order],
            "jobs_left_out": figures.whole.left_out[order],
            "satisfies": ok[order],
            "objective_value": values[order],
            **{one.of.name: figures.value(one.of)[0][order] for one in constraints},
            "row": order,
        }
    )
    k = min(k, int(ok.sum()))
    confirmed = bool(table["simulated"].iloc[:k].all())
    return lists.Recommendation(table, k, int(now.sum()), confirmed, int(failed.sum()))


def satisfied(figures: Figures, constraints: Sequence[Constraint]) -> np.ndarray:
    """Say which packages satisfy every constraint, by what is simulated or else predicted."""
    ok = np.ones(len(figures.packages), dtype=bool)
    for one in constraints:
        ok &= one.holds(figures.value(one.of)[0])
    return ok


def pareto(
    figures: Figures,
    axes: Sequence[Quantity],
    constraints: Sequence[Constraint] = (),
    simulate: Simulate | None = None,
) -> pd.DataFrame:
    """Find the packages that no other beats in every axis, among those that run every job.

    Parameters
    ----------
    axes
        What is to be small, two or more.
    figures, constraints, simulate
        As for `choose`; the front, the front of what is left without it, and so on are simulated, at
        least `procure.recommender.recommender.FEWEST_CONFIRMED` packages, and as many of the best by each predicted
        axis, until nothing predicted is among them.

    Returns
    -------
    pandas.DataFrame
        The front by the first axis: ``package_id``, a column per axis (its name), ``price_usd``,
        ``simulated``, ``knee`` and ``row``.

    Raises
    ------
    TableError
        As `choose`.
    """

    def layers(least: int) -> np.ndarray:
        left = np.flatnonzero(eligible(figures, constraints))
        points = np.column_stack([figures.value(axis)[0] for axis in axes])
        found = [left[:0]]
        while len(left) and sum(map(len, found)) < least:
            first = front(points[left])
            found.append(left[first])
            left = left[~first]
        return np.concatenate(found)

    def heads() -> np.ndarray:
        left = np.flatnonzero(eligible(figures, constraints))
        found = [layers(lists.FEWEST_CONFIRMED)]
        for axis in axes:
            value, known = figures.value(axis)
            if not known[left].all():
                found.append(left[np.argsort(value[left], kind="stable")[: lists.FEWEST_CONFIRMED]])
        return np.unique(np.concatenate(found))

    confirm(figures, simulate, heads)
    rows = layers(1)
    if not len(rows):
        raise TableError(_nothing(figures, constraints, "runs-all"))
    points = np.column_stack([figures.value(axis)[0][rows] for axis in axes])
    order = np.lexsort((rows, *points.T[::-1]))
    rows, points = rows[order], points[order]
    table = pd.DataFrame({"package_id": figures.packages["package_id"].to_numpy()[rows]})
    table = table.assign(**{axis.name: points[:, i] for i, axis in enumerate(axes)})
    table["price_usd"] = figures.packages["price_usd"].to_numpy()[rows]
    table["simulated"] = figures.simulated[rows]
    table["knee"] = np.arange(len(rows)) == knee(points)
    return table.assign(row=rows)


def confirm(
    figures: Figures, simulate: Simulate | None, wanted: Callable[[], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Simulate what is wanted until all of it is simulated: what was, and whose runs failed."""
    n = len(figures.packages)
    now, failed = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    idle = figures.whole.left_out >= figures.whole.n_jobs
    ids = figures.packages["package_id"].to_numpy()
    for _ in range(lists.MOST_ROUNDS if simulate else 0):
        todo = wanted()
        todo = todo[~(figures.simulated | failed | idle)[todo]]
        if not len(todo) or simulate is None:
            break
        found = simulate(ids[todo].tolist())
        figures.add(todo, found)
        ran = figures.simulated[todo]
        now[todo[ran]] = failed[todo[~ran]] = True
    return now, failed


def eligible(figures: Figures, constraints: Sequence[Constraint]) -> np.ndarray:
    """Say which packages may stand on a front: they satisfy every constraint, and run every job if any do."""
    able = figures.whole.runs_all
    return satisfied(figures, constraints) & (able if able.any() else True)


def _order(
    figures: Figures,
    objective: Quantity,
    constraints: Sequence[Constraint],
    rule: str,
    runs_all_first: bool = False,
) -> np.ndarray:
    left_out = figures.whole.left_out if rule == "runs-all" else np.zeros_like(figures.whole.left_out)
    short = np.zeros(len(left_out))
    for one in constraints:
        values, _ = figures.value(one.of)
        off = np.abs(values - one.value) / max(abs(one.value), 1e-9)
        # A strict bound may be missed by nothing.
        short += np.where(one.holds(values), 0.0, np.where(np.isnan(off), np.inf, np.maximum(off, 1e-12)))
    return np.lexsort(
        (
            figures.value(OBJECTIVES["mean-wait"])[0],
            figures.packages["price_usd"].to_numpy(),
            figures.value(objective)[0],
            *((short, left_out) if runs_all_first else (short, left_out, short > 0)),
        )
    )


def _nothing(figures: Figures, constraints: Sequence[Constraint], rule: str) -> str:
    """Say why no package is left."""
    able = figures.whole.runs_all
    among = able if rule == "runs-all" and able.any() else np.ones(len(able), dtype=bool)
    which = "that runs every job " if among is able else ""
    values, known = zip(*(figures.value(one.of) for one in constraints), strict=True)
    lines = explain(constraints, [v[among] for v in values], [int(v[among].sum()) for v in known])
    return "\n  ".join([f"no package {which}satisfies the constraints", *lines])


def result_columns(quantities: Sequence[Quantity]) -> list[str]:
    """Return the result columns that these need, the mean wait always."""
    return list(dict.fromkeys([WAIT, *(one.column for one in quantities if one.source == "result")]))
