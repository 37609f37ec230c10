"""The packages that no other package beats in everything: the Pareto front, and its knee."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

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
    Exact. Up to three dimensions n log² n at worst (Kung, Luccio and Preparata 1975, On finding the
    maxima of a set of vectors, by merging halves level by level); above, every point is compared with
    the front so far, which is quadratic where most points are on it.
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
    ranks = np.column_stack(
        [_dense(column if small else -column) for column, small in zip(values[rows].T, less, strict=True)]
    )
    alive = _not_beaten_by_one(ranks)
    rows, ranks = rows[alive], ranks[alive]
    order = _order(ranks if len(less) <= 3 else np.column_stack([ranks.sum(axis=1), ranks]))
    ordered = ranks[order]
    fresh = np.ones(len(ordered), dtype=bool)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    best = (_by_levels if len(less) <= 3 else _by_comparison)(ordered[fresh])
    on_front[:] = False
    on_front[rows[order[best[np.cumsum(fresh) - 1]]]] = True
    return on_front


def _dense(column: np.ndarray) -> np.ndarray:
    """Return the rank of each value, from 0, equal values alike."""
    column = np.ascontiguousarray(column)
    order = np.argsort(column)
    step = np.empty(len(column), dtype="int64")
    step[:1], step[1:] = 0, column[order[1:]] != column[order[:-1]]
    ranks = np.empty(len(column), dtype="int64")
    ranks[order] = np.cumsum(step)
    return ranks


def _order(ranks: np.ndarray) -> np.ndarray:
    """Return the lexicographic order of rows; where the columns fit in one integer, by one sort."""
    size = [int(column.max()) + 1 for column in ranks.T]
    if math.prod(size) < 2**62:
        return np.argsort(np.ravel_multi_index(tuple(ranks.T), size))
    return np.lexsort(ranks.T[::-1])


def _not_beaten_by_one(ranks: np.ndarray) -> np.ndarray:
    """Drop at once what the point of the least rank sum dominates: most points, of most sets."""
    best = ranks[int(np.argmin(ranks.sum(axis=1)))]
    return ~(ranks >= best).all(axis=1) | (ranks == best).all(axis=1)


def _by_levels(ordered: np.ndarray) -> np.ndarray:
    """Find the front of distinct points in lexicographic order, of three dimensions at most.

    An earlier point is no worse in the first dimension. It dominates a later one if it is no worse in
    the second and third: level by level, halves of twice the size are merged by the second dimension,
    and the least third value so far of the earlier half is held against the later half's.
    """
    n, d = ordered.shape
    second, third = (ordered[:, i] if d > i else np.zeros(n, dtype="int64") for i in (1, 2))
    bits = max(1, int(n - 1).bit_length())
    size = 1 << bits
    place = np.arange(size)
    by_second = place.copy()
    by_second[np.sort((second << bits) | place[:n]) & (size - 1)] = place[:n]
    none = np.iinfo("int32").max
    value = np.full(size, none, dtype="int32")
    value[:n] = third
    keys, dominated = (by_second << bits) | place, np.zeros(size, dtype=bool)
    for level in range(bits):
        keys = np.sort(keys.reshape(-1, 2 << level), axis=1)
        row = keys & (size - 1)
        mine, later = value[row], (row >> level) & 1 == 1
        least = np.minimum.accumulate(np.where(later, none, mine), axis=1)
        dominated[row[later & (least <= mine)]] = True
    return ~dominated[:n]


def _by_comparison(ordered: np.ndarray) -> np.ndarray:
    """Find the front of distinct points, each of which comes after all that dominate it."""
    best = np.ones(len(ordered), dtype=bool)
    for start in range(0, len(ordered), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(ordered)))
        before = np.flatnonzero(best[:start])
        for first in range(0, len(before), _PAIRS // _CHUNK):
            rows = rows[~_any_below(ordered[before[first : first + _PAIRS // _CHUNK]], ordered[rows])]
        best[start : start + _CHUNK] = False
        best[rows[_any_below(ordered[rows], ordered[rows], own=1) == 0]] = True
    return best


def _any_below(these: np.ndarray, those: np.ndarray, own: int = 0) -> np.ndarray:
    """Say which of those points more than ``own`` of these are below or equal to."""
    below = np.ones((len(these), len(those)), dtype=bool)
    for one, other in zip(these.T, those.T, strict=True):
        below &= one[:, None] <= other[None, :]
    return below.sum(axis=0) > own


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
