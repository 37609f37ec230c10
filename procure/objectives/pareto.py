"""The packages that no other package beats in everything: the Pareto front, and its knee."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from procure.errors import TableError

_PAIRS = 4_000_000
"""So many pairs of points are compared at once."""


def front(points: np.ndarray, minimise: bool | Sequence[bool] = True) -> np.ndarray:
    """Say which points, float[points, dimensions], no other point dominates, bool[points].

    A point dominates another if it is at least as good in every dimension and better in one: all copies of a point of
    the front are on it. A point with a NaN is not, and dominates none; infinities are values like others. ``minimise``:
    whether less is better, for all dimensions or one by one. It is exact: from the least sum of ranks up, the points of
    the front take away what they dominate. Points of another shape are a `TableError`.
    """
    values = np.asarray(points, dtype="float64")
    if values.ndim != 2:
        raise TableError(f"a front needs points of shape (points, dimensions); {values.shape} was given")
    less = [bool(minimise)] * values.shape[1] if np.ndim(minimise) == 0 else [bool(x) for x in minimise]  # type: ignore[union-attr]
    if len(less) != values.shape[1]:
        raise TableError(f"minimise has {len(less)} entries for {values.shape[1]} dimensions")
    on_front = ~np.isnan(values).any(axis=1)
    rows = np.flatnonzero(on_front)
    if not len(rows) or not len(less):
        return on_front
    # Ranks instead of values: exact sums, and no infinity less itself.
    ranks = pd.DataFrame(np.where(less, values[rows], -values[rows])).rank(method="dense").to_numpy()
    order = np.argsort(ranks.sum(axis=1), kind="stable")
    ranks, rows = ranks[order], rows[order]
    on_front[:] = False
    while len(rows):
        n = max(1, _PAIRS // len(rows))
        best = ~_dominated(ranks[:n], ranks[:n])
        on_front[rows[:n][best]] = True
        left = ~_dominated(ranks[:n][best], ranks[n:])
        ranks, rows = ranks[n:][left], rows[n:][left]
    return on_front


def _dominated(these: np.ndarray, those: np.ndarray) -> np.ndarray:
    """Say which of those points one of these dominates."""
    below = these.sum(axis=1)[:, None] < those.sum(axis=1)
    for one, other in zip(these.T, those.T, strict=True):
        below &= one[:, None] <= other
    return below.any(axis=0)


def knee(points: np.ndarray, minimise: bool | Sequence[bool] = True) -> int:
    """Return the row of the front's knee: where a gain in one dimension begins to cost much in another.

    Each dimension is scaled over the points so that the best is 0 and the worst 1; the knee is the point farthest below
    the plane through the unit points of all axes, which is the one of the least sum (Das 1999). A dimension in which
    all points are equal does not count; ties go to the lower row. ``points``, at least one, are finite; ``minimise`` is
    as for `front`.
    """
    values = np.where(np.broadcast_to(minimise, np.shape(points)), points, -np.asarray(points, dtype="float64"))
    span = np.ptp(values, axis=0)
    scaled = (values - values.min(axis=0)) / np.where(span > 0, span, 1.0)
    return int(np.argmin(scaled.sum(axis=1)))
