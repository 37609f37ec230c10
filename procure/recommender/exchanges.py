"""Exchanges around the first package of a list: some nodes of one type fewer, nodes of others in their place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from procure.recommender.criteria import Criteria
from procure.recommender.filling import filled_waits
from procure.recommender.rank import confirm_list, rank, violation_of
from procure.recommender.values import PackageValues
from procure.sweep.results import RUNS_ALL
from procure.text import be, counted, with_unit

MOST_EXCHANGED = 50
"""So many packages are simulated for it at most: as many as a list has confirmed at least."""
TRIED = 10
"""So many at once, before what is expected of the others is looked at again."""


@dataclass(frozen=True)
class Exchanged:
    """What came of exchanges around the first package.

    Attributes
    ----------
    n_packages, n_runs
        How many packages were simulated for it, and the runs, one on each workload.
    n_better
        How many times one of them took the lead.
    instead_of
        The package that led before; None where it still does.
    objective, unit
        What they are compared by.
    before, value
        The objective of the package that led before, and of the one that leads now.
    """

    n_packages: int
    n_runs: int
    n_better: int
    instead_of: str | None
    objective: str
    unit: str
    before: float
    value: float

    def sentence(self) -> str:
        """Say how many were tried, and what came of it."""
        found = "none is better"
        if self.instead_of is not None:
            found = (
                f"the lead changed {counted(self.n_better, 'time')}, {self.objective} "
                f"{with_unit(self.value, self.unit)} instead of {with_unit(self.before, self.unit)}"
            )
        n, runs = self.n_packages, counted(self.n_runs, "run")
        return (
            f"of these, {counted(n, 'package')} {be(n)} one exchange away from the first (nodes of one type for nodes "
            f"of others), simulated once the list was confirmed, {runs}: {found}"
        )

    def document(self) -> dict[str, object]:
        """Return it as ``procure recommend --format json`` prints it."""
        names = ("n_packages", "n_runs", "n_better", "instead_of", "before", "value")
        return {name: getattr(self, name) for name in names}


def try_exchanges(
    values: PackageValues,
    criteria: Criteria,
    counts: np.ndarray,
    k: int,
    rule: str = RUNS_ALL,
    most: int = MOST_EXCHANGED,
) -> Exchanged | None:
    """Simulate packages one exchange away from the first of a confirmed list; where one is better, those around it.

    Those that are expected to be best are simulated, `TRIED` at a time, until none is left or ``most`` are.

    Parameters
    ----------
    counts
        int64[packages, types], in the order of the values.
    k
        Length of the list, which is confirmed again: by rank, what is simulated since moves the others.
    most
        So many packages at most are simulated.

    Returns
    -------
    Exchanged or None
        None where nothing was tried: all around the first package is simulated, or nothing is to be.
    """
    n_tried, n_better, leader = 0, 0, _leader(values, criteria, rule)
    first = leader
    while leader is not None and values.simulate is not None and n_tried < most:
        left_out = values.whole.left_out if rule == RUNS_ALL else np.zeros_like(values.whole.left_out)
        open_ = near(counts, leader) & ~(values.simulated | values.failed) & (left_out <= left_out[leader])
        rows = _best_first(values, criteria, np.flatnonzero(open_))[: min(TRIED, most - n_tried)]
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
    of = criteria.objective
    figures, ids = values.value(of)[0], values.packages["package_id"]
    return Exchanged(
        n_tried,
        n_tried * len(values.cases),
        n_better,
        str(ids.iloc[first]) if leader != first else None,
        of.name,
        of.unit,
        float(figures[first]),
        float(figures[leader]),
    )


def near(counts: np.ndarray, row: int) -> np.ndarray:
    """Say which packages are one exchange away from another: of one type more or fewer nodes, of others the reverse.

    Parameters
    ----------
    counts
        int64[packages, types].
    row
        Of the package that nodes are exchanged in.

    Returns
    -------
    numpy.ndarray
        bool[packages].
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
    sweep's sample only: waits are filled in from all that is simulated.
    """
    of = criteria.objective
    expected = values.value(of)[0][rows]
    if of.source == "result" and of.unit == "s":
        able, held = values.whole.runs_all, values.results[of.column]
        some = np.union1d(np.flatnonzero(values.simulated & able), rows)
        found = np.full(held.shape, np.nan)
        found[:, some] = filled_waits(held[:, some], values.packages.iloc[some], able[some])
        filled = values.pooled(found, of)[rows]
        expected = np.where(np.isnan(filled), expected, filled)
    return rows[np.lexsort((values.price[rows], expected, violation_of(values, criteria)[rows]))]
