"""What is known of every package: results workload by workload, simulated or predicted, and its costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.models import Case, together
from procure.objectives import Quantity
from procure.objectives.aggregate import CVAR_SHARE, aggregate

Learn = Callable[[Case], np.ndarray | None]
"""From a case to a predicted value per package, NaN where there is none; None = too few were simulated."""

WAIT = "mean_wait_time"


@dataclass
class Figures:
    """Every figure by which packages may be compared; grows as more of them are simulated.

    Attributes
    ----------
    cases
        One per workload.
    results
        By result column: simulated values, float64[workloads, packages], NaN elsewhere.
    costs
        From `procure.packages.costs.total_costs`, a row per package.
    cvar_share
        See `procure.objectives.aggregate`.
    """

    cases: Sequence[Case]
    results: dict[str, np.ndarray]
    costs: pd.DataFrame = field(default_factory=pd.DataFrame)
    cvar_share: float = CVAR_SHARE

    def __post_init__(self) -> None:
        """Take the cases together, and begin with no prediction."""
        self.whole = together(self.cases)
        self.packages = self.whole.packages
        self._ran = np.array([case.n_ran for case in self.cases], dtype="float64")
        self._day = np.array([case.weight for case in self.cases])
        self.results = {column: values.copy() for column, values in self.results.items()}
        self._guesses: dict[str, np.ndarray] = {}
        self._guesses_by_day: dict[str, np.ndarray] = {}

    @property
    def simulated(self) -> np.ndarray:
        """Which packages were simulated on every workload of which they run a job."""
        return ~np.isnan(self._together(self.results[WAIT], "mean"))

    def columns(self) -> list[str]:
        """Return the columns that objectives and constraints may name."""
        return [*self.results, *self.costs.columns, "price_usd"]

    def value(self, of: Quantity) -> tuple[np.ndarray, np.ndarray]:
        """Return a figure of every package, and for which of them it is known and not predicted."""
        if of.source != "result":
            return self._fixed(of), np.ones(len(self.packages), dtype=bool)
        known = self._together(self.results[of.column], of.how)
        is_known = ~np.isnan(known)
        guess = self._guesses.get(_key(of))
        if of.per_workload and of.column in self._guesses_by_day:
            held = self.results[of.column]
            guess = self._together(np.where(np.isnan(held), self._guesses_by_day[of.column], held), of.how)
        return (known if guess is None else np.where(is_known, known, guess)), is_known

    def learn(self, of: Quantity, learn: Learn) -> bool:
        """Predict a figure of the packages that were not simulated; return whether that was possible.

        One model of the figure itself; where it turns on single workloads, one for each of them.
        """
        if not of.per_workload:
            known = self._together(self.results[of.column], of.how)
            column = of.column if of.how == "mean" else f"{of.column} {of.how}"
            guess = learn(replace(self.whole, wait=known, column=column))
            if guess is not None:
                self._guesses[_key(of)] = guess
            return guess is not None
        rows = []
        for case, values in zip(self.cases, self.results[of.column], strict=True):
            guess = learn(replace(case, wait=values, column=of.column))
            if guess is None:
                return False
            rows.append(guess)
        self._guesses_by_day[of.column] = np.array(rows)
        return True

    def add(self, rows: np.ndarray, found: Mapping[str, np.ndarray]) -> None:
        """Enter simulated values, float64[workloads, rows] by result column."""
        for column, values in found.items():
            if column in self.results:
                self.results[column][:, rows] = values

    def _together(self, values: np.ndarray, how: str) -> np.ndarray:
        by_jobs = self._ran * self._day[:, None]
        if how in ("mean", "max"):
            return aggregate(values, how, by_jobs)
        by_day = np.where(self._ran > 0, self._day[:, None], 0.0)
        return aggregate(values, how, by_day, self.cvar_share, self._best() if how == "regret-max" else None)

    def _best(self) -> np.ndarray:
        """Return the least simulated wait of each workload among packages that run every job, if any do."""
        first = self.whole.runs_all if self.whole.runs_all.any() else np.ones(len(self.packages), dtype=bool)
        held = np.where(np.isnan(self.results[WAIT]) | ~first, np.inf, self.results[WAIT]).min(axis=1)
        return np.where(np.isinf(held), np.nan, held)

    def _fixed(self, of: Quantity) -> np.ndarray:
        if of.source == "cost":
            values = self.costs[of.column]
        elif of.column == "jobs_left_out":
            return self.whole.left_out.astype("float64")
        else:
            values = self.packages[of.column]
        found = values.to_numpy(dtype="float64")
        if np.isnan(found).any():
            hint = "; the quotes' power_w, idle_power_w and rack_units, and [costs], say it"
            raise TableError(
                f"{of.name}: {of.column} is not known for {int(np.isnan(found).sum()):,} of {len(found):,} packages"
                + (hint if of.source == "cost" else "")
            )
        return found


def _key(of: Quantity) -> str:
    return f"{of.column} {of.how}"
