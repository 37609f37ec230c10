"""The packages that no other package beats in everything: the Pareto front, and its knee."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from procure.errors import TableError

_CHUNK = 512
_PAIRS = 4_000_000


def front(points: np.ndarray, minimise: bool | Sequence[bool] = True) -> np.ndarray:
    """Say which points no other point dominates.

    A point dominates another if it is at least as good in every dimension and better in one.
    Duplicates do not dominate each other, so all copies of a point of the front are on it.

    Parameters
    ----------
    points
        Float, shape (points, dimensions). A point with a NaN is not on the front and dominates none;
        infinities are values like others.
    minimise
        Whether less is better, for all dimensions or one by one.

    Returns
    -------
    numpy.ndarray
        bool, shape (points,).

    Raises
    ------
    TableError
        ``points`` has not two axes, or ``minimise`` another length than its second.

    Notes
    -----
    Exact. Every point is compared with the front so far, from the least sum of ranks up, which is quadratic where
    most points are on the front.
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
    ranks = rankdata(np.where(less, values[rows], -values[rows]), "dense", axis=0)
    # What the point of the least sum dominates goes at once: most points, of most sets.
    least = ranks[int(np.argmin(ranks.sum(axis=1)))]
    alive = ~(ranks >= least).all(axis=1) | (ranks == least).all(axis=1)
    rows, (distinct, which) = rows[alive], np.unique(ranks[alive], axis=0, return_inverse=True)
    order = np.argsort(distinct.sum(axis=1), kind="stable")
    best = np.empty(len(order), dtype=bool)
    best[order] = _by_comparison(distinct[order])
    on_front[:] = False
    on_front[rows[best[which.ravel()]]] = True
    return on_front


def _by_comparison(ordered: np.ndarray) -> np.ndarray:
    """Find the front of distinct points, each of which comes after all that dominate it."""
    found = ordered[:0]
    best = np.zeros(len(ordered), dtype=bool)
    for start in range(0, len(ordered), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(ordered)))
        for first in range(0, len(found), _PAIRS // _CHUNK):
            rows = rows[_n_below(found[first : first + _PAIRS // _CHUNK], ordered[rows]) == 0]
        rows = rows[_n_below(ordered[rows], ordered[rows]) == 1]  # each is below itself
        best[rows] = True
        found = np.concatenate([found, ordered[rows]])
    return best


def _n_below(these: np.ndarray, those: np.ndarray) -> np.ndarray:
    """Count for each of those points how many of these are nowhere above it."""
    below = np.ones((len(these), len(those)), dtype=bool)
    for one, other in zip(these.T, those.T, strict=True):
        below &= one[:, None] <= other[None, :]
    return below.sum(axis=0)


def knee(points: np.ndarray, minimise: bool | Sequence[bool] = True) -> int:
    """Return the row of the front's knee: where a gain in one dimension begins to cost much in another.

    Each dimension is scaled over the points given so that the best is 0 and the worst 1. The knee is the
    point farthest below the plane through the unit points of all axes, which is the one of the least
    sum; in two dimensions the distance is that to the chord between the front's ends. A dimension in
    which all points are equal does not count. Ties go to the lower row.

    Parameters
    ----------
    points
        The points of a front, finite, shape (points, dimensions), at least one.
    minimise
        As for `front`.

    References
    ----------
    Das (1999), On characterizing the knee of the Pareto curve, Structural Optimization 18.
    """
    values = np.where(
        np.broadcast_to(minimise, np.shape(points)), points, -np.asarray(points, dtype="float64")
    )
    span = np.ptp(values, axis=0)
    scaled = (values - values.min(axis=0)) / np.where(span > 0, span, 1.0)
    return int(np.argmin(scaled.sum(axis=1)))
