"""One value of a package from its values on several workloads, the order of packages by it, and the Pareto front."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.text import nearest


def pooled_mean(values: np.ndarray, jobs_ran: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the mean of a figure over the jobs that ran on all workloads, float64[packages].

    ``values`` are each workload's own means and ``jobs_ran`` how many jobs ran, float64[workloads, packages], NaN where
    unknown; ``weights`` how often a workload's jobs count, default once. NaN where a workload of which jobs ran is
    unknown, or where none ran at all. One workload's values are returned as they are, to the last bit.
    """
    values = np.asarray(values, dtype="float64")
    weight = np.broadcast_to(np.asarray(jobs_ran, dtype="float64"), values.shape)
    if weights is not None:
        weight = weight * np.asarray(weights, dtype="float64")[:, None]
    counts = weight > 0
    if len(values) == 1:
        return np.where(counts[0], values[0], np.nan)
    total = np.where(counts, weight * np.where(counts, values, 0.0), 0.0).sum(axis=0)
    return np.where(counts.any(axis=0), total / np.where(counts.any(axis=0), weight.sum(axis=0), 1.0), np.nan)


def best_first(
    value: np.ndarray,
    price: np.ndarray,
    left_out: np.ndarray | None = None,
    violation: np.ndarray | None = None,
    tie: np.ndarray | None = None,
    runs_all_first: bool = False,
) -> np.ndarray:
    """Return the rows of packages from the best to the worst: the one order of every list.

    Packages within all bounds come first; then those that leave out the fewest jobs (``left_out``), those nearest to
    the bounds (``violation``, 0 = within), the lowest ``value``, the lowest ``price``, the lowest ``tie``, the lower
    row. A NaN is the worst. ``runs_all_first`` compares jobs left out before bounds: a package that just misses a bound
    by prediction may meet it, one that leaves jobs out will always do so.
    """
    none = np.zeros(len(value))
    left_out, violation = none if left_out is None else left_out, none if violation is None else violation
    bounds = (violation, left_out) if runs_all_first else (violation, left_out, violation > 0)
    return np.lexsort((none if tie is None else tie, price, value, *bounds))


REGRET_FLOOR = 60.0
"""Seconds; below this, a best mean wait is taken as this, so that seconds do not become large shares."""


CVAR_SHARE = 0.2
"""``cvar`` is the mean over this share of the weight of all workloads, those with the longest waits."""


def kept_by(values: np.ndarray, counts: np.ndarray, share: float) -> np.ndarray:
    """Return the least value that at least a share of the workloads does not exceed, float64[packages].

    ``values`` are float64[workloads, packages], ``counts`` bool in that shape; NaN where a workload that counts is
    unknown, and where none counts.
    """
    unknown = (np.isnan(values) & counts).any(axis=0) | ~counts.any(axis=0)
    place = np.ceil(share * counts.sum(axis=0) - 1e-9).astype(np.int64) - 1
    rising = np.sort(np.where(counts, values, np.inf), axis=0)
    return np.where(unknown, np.nan, np.take_along_axis(rising, np.maximum(place, 0)[None], axis=0)[0])


HOW = ("mean", "max", "worst", "cvar", "regret-max")
"""Names that `aggregate` knows."""


def aggregate(
    waits: np.ndarray,
    how: str = "mean",
    weights: np.ndarray | None = None,
    share: float = CVAR_SHARE,
    best: np.ndarray | None = None,
) -> np.ndarray:
    """Put the figures of several workloads together, one per package: float64[packages].

    ``waits`` are float64[workloads, packages]; the result is NaN where one that counts is unknown, or none counts.
    ``mean`` is weighted; ``max`` or ``worst`` the largest; ``cvar`` the mean of the largest values that hold ``share``
    of all weight, the last of them in part (Rockafellar and Uryasev 2000); ``regret-max`` the largest of `regrets`,
    from ``best`` (Savage 1951, there in absolute terms). ``weights``, (workloads,) or (workloads, packages), are equal
    by default; what weighs 0 does not count. An unknown ``how``, or a share outside (0, 1], is a `TableError`.
    """
    if how not in HOW:
        raise TableError(f"aggregate by {how!r} is unknown; {nearest(how, HOW)}")
    if not 0 < share <= 1:
        raise TableError(f"the share of cvar is {share:g}; it must be above 0 and at most 1")
    waits = np.asarray(waits, dtype="float64")
    weight = np.ones(len(waits)) if weights is None else np.asarray(weights, dtype="float64")
    weight = np.broadcast_to(weight if weight.ndim == 2 else weight[:, None], waits.shape)
    if how == "mean":
        return pooled_mean(waits, weight)
    counts = weight > 0
    if how == "cvar":
        return np.where(counts.any(axis=0), _cvar(waits, weight, share), np.nan)
    if how == "regret-max":
        waits = regrets(waits, best)
    largest = np.where(counts, waits, -np.inf).max(axis=0, initial=-np.inf)
    return np.where(counts.any(axis=0), largest, np.nan)


def regrets(waits: np.ndarray, best: np.ndarray | None = None) -> np.ndarray:
    """Return (wait − best)/max(best, `REGRET_FLOOR`) of each workload, at least 0.

    ``waits``: s, float64[workloads, packages], NaN where unknown. ``best``: s, float64[workloads]; default: the
    smallest known wait of each workload.
    """
    if best is None:
        lowest = np.where(np.isnan(waits), np.inf, waits).min(axis=1, initial=np.inf)
        best = np.where(np.isinf(lowest), np.nan, lowest)
    least = np.asarray(best, dtype="float64")[:, None]
    return np.maximum((waits - least) / np.maximum(least, REGRET_FLOOR), 0.0)


def _cvar(waits: np.ndarray, weight: np.ndarray, share: float) -> np.ndarray:
    order = np.argsort(-np.where(weight > 0, waits, -np.inf), axis=0, kind="stable")
    value = np.take_along_axis(np.where(weight > 0, waits, 0.0), order, axis=0)
    given, limit = np.take_along_axis(weight, order, axis=0), share * weight.sum(axis=0)
    used = np.clip(limit - (np.cumsum(given, axis=0) - given), 0.0, given)
    unknown = (np.isnan(waits) & (weight > 0)).any(axis=0)
    found = np.where(used > 0, used * value, 0.0).sum(axis=0) / np.where(limit > 0, limit, 1.0)
    return np.where(unknown, np.nan, found)


_PAIRS = 4_000_000
"""So many pairs of points are compared at once."""


def front(points: np.ndarray) -> np.ndarray:
    """Say which points, float[points, dimensions], no other point dominates, bool[points]; less is better.

    A point dominates another if it is at least as good in every dimension and better in one: all copies of a point of
    the front are on it. A point with a NaN is not, and dominates none; infinities are values like others. It is exact:
    from the least sum of ranks up, the points of the front take away what they dominate.
    """
    values = np.asarray(points, dtype="float64")
    if values.ndim != 2:
        raise TableError(f"a front needs points of shape (points, dimensions); {values.shape} was given")
    on_front = ~np.isnan(values).any(axis=1)
    rows = np.flatnonzero(on_front)
    if not values[rows].size:
        return on_front
    # Ranks instead of values: exact sums, and no infinity less itself.
    ranks = pd.DataFrame(values[rows]).rank(method="dense").to_numpy()
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
    below = these.sum(axis=1)[:, None] < those.sum(axis=1)
    for one, other in zip(these.T, those.T, strict=True):
        below &= one[:, None] <= other
    return below.any(axis=0)


def knee(points: np.ndarray) -> int:
    """Return the row of the front's knee: where a gain in one dimension begins to cost much in another.

    Each dimension is scaled over the points so that the best is 0 and the worst 1; the knee is the point farthest below
    the plane through the unit points of all axes, which is the one of the least sum (Das 1999). A dimension in which
    all points are equal does not count; ties go to the lower row. ``points``, at least one, are finite.
    """
    values = np.asarray(points, dtype="float64")
    span = np.ptp(values, axis=0)
    scaled = (values - values.min(axis=0)) / np.where(span > 0, span, 1.0)
    return int(np.argmin(scaled.sum(axis=1)))
