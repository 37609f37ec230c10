"""One value of a package from its values on several workloads: mean, worst, CVaR, largest regret."""

from __future__ import annotations

import numpy as np

from procure.errors import TableError
from procure.text import nearest


def mean_wait(waits: np.ndarray, n_ran: np.ndarray) -> np.ndarray:
    """Return the mean wait over the jobs that ran on all workloads, s.

    Parameters
    ----------
    waits, n_ran
        Shape (workloads, packages); jobs may be weighted. Where no job ran, the wait does not count; NaN
        where none ran at all.
    """
    return np.where(n_ran.sum(axis=0) > 0, aggregate(waits, "mean", n_ran), np.nan)


REGRET_FLOOR = 60.0
"""Seconds; below this, a best mean wait is taken as this, so that seconds do not become large shares."""


CVAR_SHARE = 0.2
"""``cvar`` is the mean over this share of the weight of all workloads, those with the longest waits."""


HOW = ("mean", "max", "worst", "cvar", "regret-max")
"""Names that `aggregate` knows."""


def aggregate(
    waits: np.ndarray,
    how: str = "mean",
    weights: np.ndarray | None = None,
    share: float = CVAR_SHARE,
    best: np.ndarray | None = None,
) -> np.ndarray:
    """Put the figures of several workloads together, one per package.

    Parameters
    ----------
    waits
        Float, shape (workloads, packages); NaN where unknown.
    how
        ``mean``: weighted mean. ``max`` or ``worst``: the largest. ``cvar``: weighted mean of the
        largest values that hold ``share`` of all weight, the last of them in part (conditional value at
        risk at level 1 − share). ``regret-max``: the largest over the workloads of
        (wait − best)/max(best, `REGRET_FLOOR`), at least 0.
    weights
        ≥ 0, shape (workloads,) or (workloads, packages); default: equal. A workload of weight 0 does
        not count, and may be unknown.
    share
        In (0, 1]; 1 makes ``cvar`` the mean.
    best
        For ``regret-max``: the best value of each workload, shape (workloads,); default: the smallest
        that is known.

    Returns
    -------
    numpy.ndarray
        float64, shape (packages,); NaN where a workload that counts is unknown, 0 where none counts.

    References
    ----------
    Rockafellar and Uryasev (2000), Optimization of conditional value-at-risk, Journal of Risk 2.
    Savage (1951), The theory of statistical decision, JASA 46, for minimax regret (there in absolute
    terms; here relative, so that one day's seconds weigh like another's).

    Raises
    ------
    TableError
        An unknown ``how``, or a share outside (0, 1].
    """
    if how not in HOW:
        raise TableError(f"aggregate by {how!r} is unknown; {nearest(how, HOW)}")
    if not 0 < share <= 1:
        raise TableError(f"the share of cvar is {share:g}; it must be above 0 and at most 1")
    waits = np.asarray(waits, dtype="float64")
    weight = np.ones(len(waits)) if weights is None else np.asarray(weights, dtype="float64")
    weight = np.broadcast_to(weight if weight.ndim == 2 else weight[:, None], waits.shape)
    counts = weight > 0
    if how == "mean":
        total = np.where(counts, weight * np.where(counts, waits, 0.0), 0.0).sum(axis=0)
        return total / np.where(counts.any(axis=0), weight.sum(axis=0), 1.0)
    if how == "cvar":
        return _cvar(waits, weight, share)
    if how == "regret-max":
        waits = regrets(waits, best)
    largest = np.where(counts, waits, -np.inf).max(axis=0, initial=-np.inf)
    return np.where(counts.any(axis=0), largest, 0.0)


def regrets(waits: np.ndarray, best: np.ndarray | None = None) -> np.ndarray:
    """Return (wait − best)/max(best, `REGRET_FLOOR`) of each workload, at least 0.

    Parameters
    ----------
    waits
        s, shape (workloads, packages), NaN where unknown.
    best
        s, shape (workloads,); default: the smallest known wait of each workload.
    """
    if best is None:
        lowest = np.where(np.isnan(waits), np.inf, waits).min(axis=1, initial=np.inf)
        best = np.where(np.isinf(lowest), np.nan, lowest)
    least = np.asarray(best, dtype="float64")[:, None]
    return np.maximum((waits - least) / np.maximum(least, REGRET_FLOOR), 0.0)


def _cvar(waits: np.ndarray, weight: np.ndarray, share: float) -> np.ndarray:
    order = np.argsort(-np.where(weight > 0, waits, -np.inf), axis=0, kind="stable")
    value = np.take_along_axis(np.where(weight > 0, waits, 0.0), order, axis=0)
    given = np.take_along_axis(weight, order, axis=0)
    limit = share * weight.sum(axis=0)
    before = np.cumsum(given, axis=0) - given
    used = np.clip(limit - before, 0.0, given)
    unknown = (np.isnan(waits) & (weight > 0)).any(axis=0)
    found = np.where(used > 0, used * value, 0.0).sum(axis=0) / np.where(limit > 0, limit, 1.0)
    return np.where(unknown, np.nan, found)
