"""What packages are compared by: named objectives, and how several workloads become one figure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from procure.errors import TableError
from procure.tables import nearest

REGRET_FLOOR = 60.0
"""Seconds; below this, a best mean wait is taken as this, so that seconds do not become large shares."""

CVAR_SHARE = 0.2
"""``cvar`` is the mean over this share of the weight of all workloads, those with the longest waits."""

HOW = ("mean", "max", "worst", "cvar", "regret-max")
"""Names that `aggregate` knows."""


@dataclass(frozen=True)
class Quantity:
    """A figure of a package: to be made small, or to be kept within bounds.

    Attributes
    ----------
    name
        As in ``--objective`` or a constraint.
    column
        Of the result table, the package table, or `procure.costs.total_costs`.
    source
        ``result``: known by simulation, predicted elsewhere; ``package`` and ``cost``: known for every
        package.
    unit
        Of its values.
    meaning
        In a few words.
    how
        How workloads are put together, see `aggregate`; a cost is one figure anyhow.
    """

    name: str
    column: str
    source: str
    unit: str
    meaning: str
    how: str = "mean"

    @property
    def per_workload(self) -> bool:
        """Whether it turns on single workloads, so that a prediction is needed for each."""
        return self.source == "result" and self.how in ("worst", "cvar", "regret-max")


def _result(name: str, column: str, unit: str, meaning: str, how: str = "mean") -> Quantity:
    return Quantity(name, column, "result", unit, meaning, how)


def _cost(name: str, column: str, unit: str, meaning: str) -> Quantity:
    return Quantity(name, column, "cost", unit, meaning)


OBJECTIVES: dict[str, Quantity] = {
    one.name: one
    for one in (
        _result("mean-wait", "mean_wait_time", "s", "mean wait over all jobs"),
        _result("median-wait", "median_wait_time", "s", "median wait; several workloads: their mean by jobs"),
        _result("p95-wait", "p95_wait_time", "s", "95th percentile of the wait; several: their mean by jobs"),
        _result("max-wait", "max_wait_time", "s", "longest wait of any job", "max"),
        _result("slowdown", "mean_bounded_slowdown", "", "mean bounded slowdown over all jobs"),
        _result("turnaround", "mean_turnaround_time", "s", "mean of end − submit over all jobs"),
        _result("worst-day", "mean_wait_time", "s", "mean wait on the workload where it is longest", "worst"),
        _result("cvar", "mean_wait_time", "s", "mean wait over the worst share of the workloads", "cvar"),
        _result(
            "regret-max", "mean_wait_time", "share",
            "largest over the workloads of (wait − the best there)/max(the best there, 60 s)", "regret-max",
        ),
        Quantity("price", "price_usd", "package", "US$", "purchase price"),
        _cost("tco", "tco_usd", "US$", "total cost of ownership over the study's years"),
        _cost("cost-per-job", "usd_per_job", "US$/job", "total cost of ownership per job"),
        _cost("cost-per-core-hour", "usd_per_core_hour", "US$/core-hour", "total cost per core-hour used"),
        _cost("energy", "energy_kwh_per_year", "kWh/year", "energy, cooling included"),
    )
}  # fmt: skip
"""By name, in the order in which help shows them; less is better for each."""


def objective(name: str, columns: Iterable[str] | None = None) -> Quantity:
    """Look an objective up.

    Parameters
    ----------
    name
        One of `OBJECTIVES`.
    columns
        What the results and the cost table hold; default: everything.

    Raises
    ------
    TableError
        It is unknown, or these results do not hold its column: the message lists those that are there,
        the nearest first.
    """
    there = available(columns)
    if name in there:
        return OBJECTIVES[name]
    if name in OBJECTIVES:
        raise TableError(
            f"objective {name!r} needs column {OBJECTIVES[name].column}, which these results do not hold; "
            f"available here: {_listed(name, there)}"
        )
    raise TableError(f"objective {name!r} is unknown; available here: {_listed(name, there)}")


def said(value: float, unit: str = "") -> str:
    """Write a value with its unit, e.g. ``14,400 s`` or ``US$ 900,000``."""
    if np.isnan(value):
        return "unknown"
    whole = abs(value) >= 1000 or value == round(value)
    number = f"{value:,.0f}" if whole else f"{value:,.4g}"
    if unit.startswith("US$"):
        return f"US$ {number if whole else f'{value:,.2f}'}{unit.removeprefix('US$')}"
    return f"{value:.1%}" if unit == "share" else f"{number} {unit}".rstrip()


def available(columns: Iterable[str] | None = None) -> list[str]:
    """Return the names of the objectives whose column is among these; default: all."""
    if columns is None:
        return list(OBJECTIVES)
    there = set(columns)
    return [name for name, one in OBJECTIVES.items() if one.column in there]


def _listed(name: str, there: list[str]) -> str:
    near = sorted(there, key=lambda one: -SequenceMatcher(None, name, one).ratio())
    return ", ".join(near) or "none"


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
