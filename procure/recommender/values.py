"""What packages are ranked by, and what is known of each: results by workload, simulated or predicted, and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError, argument
from procure.models import Predicted, WorkloadWaits, pool_workloads
from procure.models.surrogate import ConformalErrors
from procure.objectives import MEAN_WAIT, Quantity
from procure.objectives.aggregate import CVAR_SHARE, aggregate, kept_by, pooled_mean
from procure.objectives.constraints import SHORT, Constraint, parse_all, quantities
from procure.schemas import PACKAGE
from procure.study import Study
from procure.study.rules import objective_of, own_constraints
from procure.sweep.results import StudyResults


@dataclass(frozen=True)
class Criteria:
    """What is to be small, within which bounds; with ``axes``, what a Pareto front is drawn by."""

    objective: Quantity = MEAN_WAIT
    constraints: tuple[Constraint, ...] = ()
    axes: tuple[Quantity, ...] = ()

    @property
    def quantities(self) -> list[Quantity]:
        """Everything that has to be known of a package."""
        return [*(self.axes or [self.objective]), *(one.of for one in self.constraints)]

    @property
    def need_runs(self) -> bool:
        """Whether any of it is known by simulation only."""
        return any(one.source == "result" for one in self.quantities)

    @property
    def need_costs(self) -> bool:
        """Whether any of it is a cost."""
        return any(one.source == "cost" for one in self.quantities)

    @property
    def result_columns(self) -> list[str]:
        """The result columns that are needed, the mean wait always."""
        needed = [one.column for one in self.quantities if one.source == "result"]
        return list(dict.fromkeys([MEAN_WAIT.column, *needed]))


def criteria_of(
    study: Study,
    objective: str | None = None,
    constraints: str | Sequence[str] | None = None,
    pareto: str | Iterable[str] | None = None,
) -> Criteria:
    """Read criteria as the command line writes them; what is not given is the study's own.

    ``objective`` is a name in `procure.objectives.OBJECTIVES`; ``constraints``, as
    `procure.objectives.constraints.parse` reads them, count besides the study's; ``pareto`` are two objectives or more,
    separated by commas or in a list; ``wait`` and ``cost`` for short. What cannot be read, names what does not exist,
    or contradicts another is a `TableError`, of an argument an `ArgumentError`.
    """
    quotes = study.read_quotes()
    bounds = own_constraints(study, quotes)
    if more := [constraints] if isinstance(constraints, str) and constraints else constraints:
        with argument("constraints"):
            written = [*study.recommend.constraints, *more]
            bounds = parse_all(written, quantities(quotes["name"], study.classes))
    with argument("objective"):
        target = objective_of(objective or study.recommend.objective, quotes, study.classes)
    names = [one.strip() for one in (pareto.split(",") if isinstance(pareto, str) else pareto or ())]
    with argument("pareto"):
        axes = tuple(objective_of(SHORT.get(name, name), quotes, study.classes) for name in names)
    if names and len(set(axes)) < 2:
        raise ArgumentError("pareto", "a front needs two axes or more, e.g. wait,cost")
    return Criteria(target, tuple(bounds), axes)


Learn = Callable[[WorkloadWaits], tuple[Predicted | None, np.ndarray] | None]
"""From a case to a model, if one was needed, and a prediction per package, or NaN; None = too few were simulated."""
Simulate = Callable[[np.ndarray], dict[str, np.ndarray]]
"""From rows of packages to simulated values by result column, float64[workloads, rows]; NaN where a run failed."""

MOST_ROUNDS = 10
"""After so many rounds of simulating the head of a list, what is left there stays predicted."""


@dataclass(frozen=True)
class Model:
    """One fitted model behind predicted values: what it predicts, of which workload, in which unit."""

    what: str
    unit: str
    predicted: Predicted

    @property
    def useful(self) -> bool:
        """Whether it knows more than the mean does; what one that is not predicts is not used."""
        return self.predicted.beats_constant


@dataclass
class PackageValues:
    """Every value by which packages may be compared; grows as more packages are simulated.

    ``cases`` are one per workload, ``costs`` from `procure.packages.costs.total_costs`; ``results`` are by result
    column the simulated values, float64[workloads, packages], NaN elsewhere; ``simulate`` simulates packages that are
    predicted, None = nothing ever is. ``models`` is what `learn` has fitted; ``now`` which packages `confirm` has
    simulated, and ``failed`` of which a run failed, bool[packages].

    The range of a prediction comes from the errors of its model out of fold. A value of single workloads, such as the
    worst day's, has a model for each; their out-of-fold predictions are pooled as the simulated values are.
    """

    cases: Sequence[WorkloadWaits]
    results: dict[str, np.ndarray]
    costs: pd.DataFrame = field(default_factory=pd.DataFrame)
    cvar_share: float = CVAR_SHARE
    simulate: Simulate | None = None
    models: list[Model] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.whole = pool_workloads(self.cases)
        self.packages = self.whole.packages
        self.price = self.packages["price_usd"].to_numpy()
        self.ran = np.array([case.n_ran for case in self.cases], dtype="float64")
        self.weight = np.array([case.weight for case in self.cases])
        self.results = {column: values.copy() for column, values in self.results.items()}
        self.now, self.failed = (np.zeros(len(self.packages), dtype=bool) for _ in range(2))
        self._predicted: dict[str, np.ndarray] = {}
        self._by_workload: dict[str, np.ndarray] = {}
        self._errors: dict[str, ConformalErrors] = {}
        self._calibrated: dict[str, np.ndarray] = {}

    @property
    def mean_wait(self) -> np.ndarray:
        """The mean wait of each package that was simulated, s, also by `confirm`; else NaN."""
        return pooled_mean(self.results[MEAN_WAIT.column], self.ran, self.weight)

    @property
    def simulated(self) -> np.ndarray:
        """Which packages were simulated on every workload of which they run a job."""
        return ~np.isnan(self.mean_wait)

    def value(self, of: Quantity) -> tuple[np.ndarray, np.ndarray]:
        """Return a value of every package, and for which of them it is known and not predicted."""
        if of.source != "result":
            return self._fixed(of), np.ones(len(self.packages), dtype=bool)
        known = self.pooled(self.results[of.column], of)
        is_known, guess = ~np.isnan(known), self._predicted.get(_key(of))
        if of.per_workload and of.column in self._by_workload:
            guess = self.pooled(self.filled(of.column), of)
        return (known if guess is None else np.where(is_known, known, guess)), is_known

    def filled(self, column: str) -> np.ndarray:
        """Return a result on each workload, float64[workloads, packages], with predictions where there are any."""
        held = self.results[column]
        return np.where(np.isnan(held), self._by_workload.get(column, np.nan), held)

    def violation(self, constraints: Iterable[Constraint]) -> np.ndarray:
        """Return how far each package is from keeping bounds, as shares of these, summed; 0 = it does, NaN = infinity.

        What is not simulated counts as predicted.
        """
        far = np.zeros(len(self.packages))
        for one in constraints:
            values = self.value(one.of)[0]
            off = np.abs(values - one.value) / max(abs(one.value), 1e-9)
            # A strict bound may be missed by nothing.
            far += np.where(one.holds(values), 0.0, np.where(np.isnan(off), np.inf, np.maximum(off, 1e-12)))
        return far

    def interval(self, of: Quantity) -> tuple[np.ndarray, np.ndarray]:
        """Return the 90 % range of each predicted value; NaN where it is known, or its error is not."""
        value, known = self.value(of)
        if (errors := self._errors.get(_key(of))) is None:
            return np.full(len(value), np.nan), np.full(len(value), np.nan)
        none = known | ~self._calibrated[_key(of)]
        low, high = (np.where(none, np.nan, one) for one in errors.interval(value))
        return low, high

    def is_learnt(self, of: Quantity) -> bool:
        """Return whether `learn` has to be asked for a quantity no more."""
        held = self._by_workload if of.per_workload else self._predicted
        return of.source != "result" or (of.column if of.per_workload else _key(of)) in held

    def learn(self, of: Quantity, learn: Learn) -> bool:
        """Predict a quantity of the packages that were not simulated; return whether that was possible.

        One model of the quantity itself; where it turns on single workloads, one for each of them.
        """
        key = _key(of)
        if key in self._predicted or key in self._errors:
            return True
        if not of.per_workload:
            column = of.column if of.how == "mean" else f"{of.column} {of.how}"
            found = learn(replace(self.whole, wait=self.pooled(self.results[of.column], of), column=column))
            if found is None:
                return False
            predicted, guess = found
            if predicted is not None:
                self.models.append(Model(of.name, of.unit, predicted))
                if not self.models[-1].useful:
                    guess = np.full(len(self.packages), np.nan)
                self._errors[key], self._calibrated[key] = predicted.errors, ~np.isnan(predicted.wait)
            self._predicted[key] = guess
            return True
        if of.column not in self._by_workload and not self._learn_each(of.column, learn):
            return False
        truth, guess = (self.pooled(one[of.column], of) for one in (self.results, self._by_workload))
        self._calibrated[key] = self._calibrated[of.column]
        held = self._calibrated[key] & ~np.isnan(truth) & ~np.isnan(guess)
        if held.any():
            self._errors[key] = ConformalErrors(guess[held], (truth[held] + 1) / (guess[held] + 1))
        return True

    def _learn_each(self, column: str, learn: Learn) -> bool:
        """Fit a model of a result on each workload."""
        rows, calibrated = [], np.ones(len(self.packages), dtype=bool)
        for case, values in zip(self.cases, self.results[column], strict=True):
            found = learn(replace(case, wait=values, column=column))
            if found is None:
                return False
            rows.append(found[1])
            if found[0] is not None:
                self.models.append(Model(f"{MEAN_WAIT.name}, {case.name}", MEAN_WAIT.unit, found[0]))
                calibrated &= ~np.isnan(found[0].wait)
                # Of one workload among several the mean stands for what is not known, so that the others count.
                if not self.models[-1].useful:
                    rows[-1] = np.where(np.isnan(found[1]), np.nan, np.nanmean(values))
        self._by_workload[column], self._calibrated[column] = np.array(rows), calibrated
        return True

    def confirm(self, head: Callable[[], np.ndarray]) -> None:
        """Simulate what is predicted in the head of a list, order it anew, and so on until nothing in it is."""
        # A package that runs no job has no values to find.
        idle = self.whole.left_out >= self.whole.n_jobs
        for _ in range(MOST_ROUNDS if self.simulate is not None else 0):
            rows = head()
            rows = rows[~(self.simulated | self.failed | idle)[rows]]
            if self.simulate is None or not len(rows):
                return
            self.add(rows, self.simulate(rows))
            ran = self.simulated[rows]
            self.now[rows[ran]] = self.failed[rows[~ran]] = True

    def add(self, rows: np.ndarray, found: Mapping[str, np.ndarray]) -> None:
        """Enter simulated values, float64[workloads, rows] by result column; a NaN changes nothing."""
        for column, values in found.items():
            if column in self.results:
                held = self.results[column][:, rows]
                self.results[column][:, rows] = np.where(np.isnan(values), held, values)

    def pooled(self, values: np.ndarray, of: Quantity) -> np.ndarray:
        """Return a quantity of every package from its values on each workload, float64[workloads, packages]."""
        return pool(of, values, self.ran_of(of), self.weight, self.cvar_share, self.best)

    def ran_of(self, of: Quantity) -> np.ndarray:
        """Return how many jobs ran that a quantity is about, float64[workloads, packages]."""
        if of.job_class is None:
            return self.ran
        n = np.array([case.class_jobs.get(of.job_class, case.n_jobs) for case in self.cases])
        return np.minimum(self.ran, n[:, None])

    @property
    def best(self) -> np.ndarray:
        """The least simulated wait of each workload among packages that run every job, if any do, s."""
        first = self.whole.runs_all if self.whole.runs_all.any() else np.ones(len(self.packages), dtype=bool)
        waits = self.results[MEAN_WAIT.column]
        held = np.where(np.isnan(waits) | ~first, np.inf, waits).min(axis=1)
        return np.where(np.isinf(held), np.nan, held)

    def _fixed(self, of: Quantity) -> np.ndarray:
        if of.column == "jobs_left_out":
            return self.whole.left_out.astype("float64")
        if of.column == "total_nodes":
            return n_nodes(self.packages)
        found = (self.costs if of.source == "cost" else self.packages)[of.column].to_numpy(dtype="float64")
        if of.column in ("usd_per_job", "usd_per_core_hour"):  # without a job it costs more than any amount
            found = np.where(np.isnan(found) & (self.costs["busy_share"].to_numpy() == 0), np.inf, found)
        if n := int(np.isnan(found).sum()):
            hint = "; the quotes' power_w, idle_power_w and rack_units, and [costs], say it" * (of.source == "cost")
            raise TableError(f"{of.name}: {of.column} is not known for {n:,} of {len(found):,} packages{hint}")
        return found


def stored(
    results: StudyResults, runs: pd.DataFrame, package_ids: pd.Series, columns: Sequence[str]
) -> dict[str, np.ndarray]:
    """Return columns of stored runs of some packages, float64[workloads, packages] each, NaN where there is none."""
    if not len(runs):
        return {column: np.full((len(results.cases), len(package_ids)), np.nan) for column in columns}
    keys, ok = ["workload", "package_id"], runs[(runs["policy"] == results.policy) & (runs["status"] == "ok")]
    ok = ok.drop_duplicates(keys, keep="last").set_index(keys).reindex(columns=columns)
    every = pd.MultiIndex.from_product([[case.name for case in results.cases], package_ids])
    found = ok.reindex(every).to_numpy(dtype="float64", na_value=np.nan).T
    return dict(zip(columns, found.reshape(len(columns), len(results.cases), -1), strict=True))


def n_nodes(packages: pd.DataFrame) -> np.ndarray:
    """Return how many nodes each package has, of all types, float64[packages]."""
    return packages.drop(columns=PACKAGE.names, errors="ignore").to_numpy(dtype="float64").sum(axis=1)


def pool(
    of: Quantity,
    values: np.ndarray,
    ran: np.ndarray,
    weight: np.ndarray,
    cvar_share: float = CVAR_SHARE,
    best: np.ndarray | None = None,
) -> np.ndarray:
    """Return one value per package from its values on each workload, float64[workloads, packages].

    ``ran`` says how many jobs ran, in the same shape; ``weight`` is each workload's; for the rest see `aggregate`.
    """
    if of.how in ("mean", "max"):
        return aggregate(values, of.how, ran * weight[:, None])
    if of.share is not None:
        return kept_by(values, ran > 0, of.share)
    by_workload = np.where(ran > 0, weight[:, None], 0.0)
    return aggregate(values, of.how, by_workload, cvar_share, best if of.how == "regret-max" else None)


def _key(of: Quantity) -> str:
    return f"{of.column} {of.how}" + ("" if of.share is None else f" {of.share:g}")
