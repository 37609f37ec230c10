"""What packages are compared by: named objectives, and how several workloads become one figure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

from procure.errors import TableError
from procure.schemas import CLASS_FIGURES, CLASSES, METRICS


@dataclass(frozen=True)
class Quantity:
    """A figure of a package: to be made small, or to be kept within bounds.

    ``name`` is as in ``--objective`` or a constraint; ``column`` and ``source`` say whether it is of the result table
    (``result``: known by simulation, predicted elsewhere), the package table (``package``) or
    `procure.packages.costs.total_costs` (``cost``), known for every package. ``how`` workloads are put together, see
    `aggregate`; ``quantile``: the least value that so large a ``share`` of the workloads keeps.
    """

    name: str
    column: str
    source: str
    unit: str
    meaning: str
    how: str = "mean"
    share: float | None = None

    @property
    def per_workload(self) -> bool:
        """Whether it turns on single workloads, so that a prediction is needed for each."""
        return self.source == "result" and self.how in ("worst", "cvar", "regret-max")

    @property
    def job_class(self) -> str | None:
        """The class of jobs that it is about, built in or a study's own; None = all jobs."""
        if self.source != "result":
            return None
        ends = (f"_{one}" for one in CLASS_FIGURES)
        return next((self.column.removesuffix(end) for end in ends if self.column.endswith(end)), None)


def _result(name: str, column: str, unit: str, meaning: str, how: str = "mean") -> Quantity:
    return Quantity(name, column, "result", unit, meaning, how)


def quantities_of_class(name: str) -> tuple[Quantity, ...]:
    """Return the objectives of one class of jobs: ``NAME-wait``, ``NAME-p95-wait``, ``NAME-share-over-1h``."""
    return (
        _result(f"{name}-wait", f"{name}_mean_wait_time", "s", f"mean wait of the class {name}"),
        _result(f"{name}-p95-wait", f"{name}_p95_wait_time", "s", f"95th percentile of the wait of the class {name}"),
        _result(f"{name}-share-over-1h", f"{name}_share_over_1h", "share", f"share of the class {name} over an hour"),
    )


REMOVED = dict.fromkeys(("rank", "rank-by-class"), "it chose no better than mean-wait on the past; use that")
_OF_CLASS = ("-wait", "-p95-wait", "-share-over-1h")

OBJECTIVES: dict[str, Quantity] = {
    one.name: one
    for one in (
        *(
            _result(one.objective, one.name, one.unit, one.goal or one.meaning, "max" if one.how == "max" else "mean")
            for one in METRICS
            if one.objective
        ),
        _result("worst-day", "mean_wait_time", "s", "mean wait on the workload where it is longest", "worst"),
        _result("cvar", "mean_wait_time", "s", "mean wait over the worst share of the workloads", "cvar"),
        _result("regret-max", "mean_wait_time", "share",
                "largest over the workloads of (wait − the best there)/max(the best there, 60 s)", "regret-max"),
        *(one for name in CLASSES for one in quantities_of_class(name)),
        Quantity("price", "price_usd", "package", "US$", "purchase price"),
        *(
            Quantity(name, column, "cost", unit, meaning)
            for name, column, unit, meaning in (
                ("tco", "tco_usd", "US$", "total cost of ownership over the study's years"),
                ("cost-per-job", "usd_per_job", "US$/job", "total cost of ownership per job"),
                ("cost-per-core-hour", "usd_per_core_hour", "US$/core-hour", "total cost per core-hour used"),
                ("energy", "energy_kwh_per_year", "kWh/year", "energy, cooling included"),
            )
        ),
    )
}  # fmt: skip
"""By name, in the order in which help shows them; less is better for each."""
MEAN_WAIT = OBJECTIVES["mean-wait"]


def of_class(name: str) -> bool:
    """Tell whether a name is written like an objective of a class of jobs."""
    return any(name.endswith(end) and name != end[1:] for end in _OF_CLASS)


def quantity_of(name: str) -> Quantity:
    """Return an objective, or one of a class of jobs that a study may have, by its name."""
    end = max((end for end in _OF_CLASS if name.endswith(end) and name != end[1:]), key=len, default="")
    return OBJECTIVES[name] if name in OBJECTIVES else objectives_of([name.removesuffix(end)])[name]


def objectives_of(classes: Iterable[str] = ()) -> dict[str, Quantity]:
    """Return `OBJECTIVES`, and those of a study's own classes of jobs, by name."""
    return OBJECTIVES | {one.name: one for name in classes for one in quantities_of_class(name)}


def objective(name: str, columns: Iterable[str] | None = None, classes: Iterable[str] = ()) -> Quantity:
    """Look an objective up, one of `OBJECTIVES` or of a study's own ``classes`` of jobs.

    That it is unknown, or ``columns`` (what the results and the cost table hold; default: everything) are without its
    column, is a `TableError` that lists those that are there, the nearest first.
    """
    every = objectives_of(classes)
    there = list(every) if columns is None else [one for one in every if every[one].column in set(columns)]
    if name in there:
        return every[name]
    if name in REMOVED:
        raise TableError(f"objective {name!r} was removed: {REMOVED[name]}")
    if name in every:
        raise TableError(
            f"objective {name!r} needs column {every[name].column}, which these results do not hold; "
            f"available here: {_listed(name, there)}"
        )
    raise TableError(f"objective {name!r} is unknown; available here: {_listed(name, there)}")


def _listed(name: str, there: list[str]) -> str:
    return ", ".join(sorted(there, key=lambda one: -SequenceMatcher(None, name, one).ratio())) or "none"
