"""Simulate the head of a list, and packages one swap away from its first: some nodes of one type for others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from procure.objectives.aggregate import REGRET_FLOOR
from procure.recommender.criteria import Criteria
from procure.recommender.rank import FEWEST_CONFIRMED, rank, violation_of
from procure.recommender.values import PackageValues
from procure.schemas import PACKAGE
from procure.sweep.results import RUNS_ALL

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
    """Return the row of the first package that is simulated."""
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
    return rows[np.lexsort((values.price[rows], expected, violation_of(values, criteria)[rows]))]


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
    n_nodes = some_packages.drop(columns=PACKAGE.names, errors="ignore").to_numpy(dtype="float64").sum(axis=1)
    totals = some_packages[["total_cpus", "total_mem_gb", "total_gpus"]].to_numpy(dtype="float64")
    x = np.log1p(np.column_stack([n_nodes, totals]))
    x = pd.DataFrame((x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9), some_packages.index)
    log = np.log(np.maximum(waits[np.ix_(some, learnt)], REGRET_FLOOR)).T
    model = GaussianProcessRegressor(RBF(REACH), alpha=NOISE, optimizer=None)
    at = packages.index
    model.fit(x.loc[at[learnt]].to_numpy(), log - log.mean(axis=0))
    guess = model.predict(x.loc[at[rows]].to_numpy()).reshape(len(rows), -1)
    found[some] = np.exp(log.mean(axis=0) + guess).T
    return found
