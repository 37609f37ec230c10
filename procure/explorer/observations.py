"""The packages that a search has observed, and the simulator that answers, through the sweep's farm, none twice."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.models import WorkloadWaits
from procure.objectives.aggregate import best_first
from procure.packages.nodes import counts_of_ids, jobs_left_out, package_ids
from procure.packages.prices import order_cents
from procure.packages.space import Space, make_space, package_table, rows_in
from procure.progress import silent
from procure.recommender.values import Criteria, PackageValues
from procure.study import Plan, Study
from procure.study.plan import lower_rules, read_inputs
from procure.sweep import FarmOptions, run_sweep
from procure.sweep.connect import QUEUES, connect, n_local_workers
from procure.sweep.results import SEARCH_FOLDER, costs_of, read_runs

Score = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From counts and answers of all observed packages to their objective and how far they are from the bounds."""

_FARTHEST = 10.0


class Observations:
    """Packages whose answer is in, in the order in which they came: grows, never forgets.

    ``counts`` are int64 (packages, types), ``answers`` what was simulated, float64 (values, packages); ``value`` is the
    objective, less is better, NaN where the simulation failed; ``violation`` how far each is from the constraints, see
    `PackageValues.violation`; ``left_out`` jobs do not run; ``cents`` is the price.
    """

    def __init__(self, space: Space, score: Score | None = None) -> None:
        """Begin with nothing known; without a score, an answer is the objective itself."""
        self._space, self._score = space, score or (lambda counts, answers: (answers[0], np.zeros(len(counts))))
        self.counts = np.empty((0, space.constraints.n_types), dtype=np.int64)
        self.answers = np.empty((0, 0))
        self.value, self.violation = np.empty(0), np.empty(0)
        self.left_out = np.empty(0, dtype=np.int64)
        self.cents = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def target(self) -> np.ndarray:
        """What a model should predict: the objective, raised for packages that break a constraint.

        It is (value + m) × (1 + violation) − m, with m the median of the known values, so that a package that
        breaks a constraint is worse though its value is 0 (an exterior penalty).
        """
        if not self.violation.any():
            return self.value
        middle = float(np.nanmedian(self.value))
        penalty = 1 + np.minimum(self.violation, _FARTHEST)
        return np.where(self.violation > 0, (self.value + middle) * penalty - middle, self.value)

    def add(self, counts: np.ndarray, answers: np.ndarray, left_out: np.ndarray) -> None:
        """Enter packages that were not known, with their answers, float64[packages] or [values, packages]."""
        answers = np.atleast_2d(answers)
        self.answers = np.hstack([self.answers, answers]) if len(self) else answers
        self.counts = np.concatenate([self.counts, counts])
        self.value, self.violation = self._score(self.counts, self.answers)
        self.left_out = np.concatenate([self.left_out, left_out])
        self.cents = np.concatenate([self.cents, order_cents(counts, self._space.quotes, self._space.rules)])

    def has(self, counts: np.ndarray) -> np.ndarray:
        """Tell which packages are known."""
        return rows_in(counts, self.counts)

    def order(self) -> np.ndarray:
        """Return the rows whose simulation succeeded, best first, see `best_first`."""
        ran = np.flatnonzero(~np.isnan(self.value))
        return ran[best_first(self.value[ran], self.cents[ran], self.left_out[ran], self.violation[ran])]


class CriteriaScore:
    """Scores all packages that a search has observed, by the criteria of a study.

    ``columns`` are the result columns that an answer holds, per workload, and last the jobs that it leaves out.
    """

    def __init__(self, plan: Plan, space: Space, criteria: Criteria) -> None:
        """Choose the study and the criteria."""
        self.plan, self.space, self.criteria = plan, space, criteria
        self._weights = {one.name: one.weight for one in plan.study.scenarios}
        self.columns = [*criteria.result_columns, "n_unrunnable"]

    def values(self, counts: np.ndarray, answers: np.ndarray) -> PackageValues:
        """Return every value of packages and their answers, float64[columns × workloads, packages], NaN: it failed."""
        by_column = answers.reshape(len(self.columns), len(self.plan.workloads), -1)
        results = dict(zip(self.columns, by_column, strict=True))
        packages = package_table(counts, self.space)
        cases = [
            WorkloadWaits(
                name, packages, np.nan_to_num(results["n_unrunnable"][i]), results["mean_wait_time"][i], len(jobs),
                weight=self._weights[name], class_jobs=self.plan.class_jobs(name),
            )
            for i, (name, jobs) in enumerate(self.plan.workloads.items())
        ]  # fmt: skip
        costs = costs_of(self.plan, packages, self._weights) if self.criteria.need_costs else pd.DataFrame()
        return PackageValues(cases, results, costs, self.plan.study.recommend.cvar_share)

    def __call__(self, counts: np.ndarray, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the objective, NaN where a run failed, and how far the constraints are missed."""
        values = self.values(counts, answers)
        value = values.value(self.criteria.objective)[0]
        return np.where(np.isnan(answers).all(axis=0), np.nan, value), values.violation(self.criteria.constraints)


class SearchPlan(Plan):
    """A plan of the packages that a search has proposed."""

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """What a run depends on: everything but the list of packages, for its counts are in its name."""
        return {name: value for name, value in super().fingerprint.items() if name != "packages"}


class Simulator:
    """Simulates what a search proposes, or reads what this study has simulated before."""

    def __init__(
        self,
        score: CriteriaScore,
        policy: str,
        workers: tuple[str, FarmOptions],
        folder: Path,
        note: Callable[[str], None] = silent,
    ) -> None:
        """Read what the study's folder holds of this policy.

        Runs are kept in the ``folder``, see `workspace`; an answer holds the columns of the ``score``. Results of other
        inputs in the folder are a `TableError`.
        """
        plan, study = score.plan, score.plan.study
        own: dict[str, object] = {"simulate": study.simulate.model_copy(update={"policies": (policy,)})}
        own |= {"sweep": study.sweep.model_copy(update={"sample": 1, "batch_size": 0})}
        inner = study.model_copy(update={"name": folder.name, "results": folder.parent, **own})
        self._plan = SearchPlan(inner, plan.quotes, plan.packages, plan.workloads, plan.existing, plan.notes)
        self._space, self._policy, self._note = score.space, policy, note
        (self._farm, self._options), self._columns = workers, score.columns
        self.n_computed = self.n_failed = 0
        self.kernel_seconds = 0.0
        self.swept = self._read(study)
        self._stored = self._read(inner)

    def __call__(self, counts: np.ndarray) -> np.ndarray:
        """Return the simulated values, float64[columns × workloads, packages]; NaN where a run failed."""
        ids = package_ids(counts, self._plan.types)
        new = counts[~pd.Index(ids).isin(self._stored.index)]
        if len(new):
            known, _ = self.counts_of(self._stored)
            packages = package_table(np.concatenate([known, new]), self._space)
            study = self._plan.study
            size = max(1, -(-len(new) // 16)) if self._farm != "serial" else len(new)
            study = study.model_copy(update={"sweep": study.sweep.model_copy(update={"batch_size": size})})
            plan = replace(self._plan, study=study, packages=packages)
            done = run_sweep(plan, self._farm, note=self._note, options=self._options)
            self.n_computed += done.n_computed
            self.kernel_seconds += done.kernel_seconds
            self._stored = self._read(study)
        found = self._stored.reindex(ids).to_numpy(dtype="float64").T
        self.n_failed += int(np.isnan(found).all(axis=0).sum())
        return found

    def counts_of(self, table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return the counts of some stored packages, and their answers."""
        return counts_of_ids(table.index.tolist(), self._plan.types), table.to_numpy(dtype="float64").T

    def _read(self, study: Study) -> pd.DataFrame:
        """Read the answers in a folder, those that are complete: a column per value and workload, by package id."""
        names = list(self._plan.workloads)
        rows = read_runs(self._plan, study.folder, lambda path, why: self._note(f"{path} is {why}; it is not used"))
        rows = rows[(rows["policy"] == self._policy) & rows["workload"].isin(names)]
        rows = rows.drop_duplicates(["package_id", "workload"])
        # Of a package whose run failed on any workload nothing is known.
        failed = rows["package_id"].isin(rows.loc[rows["status"] != "ok", "package_id"])
        size = rows["package_id"].value_counts()
        complete = [name for name in rows["package_id"].unique() if size[name] == len(names)]
        rows.loc[failed, self._columns] = np.nan
        of = {name: rows[rows["workload"] == name].set_index("package_id") for name in names}
        wide = {(column, name): of[name][column].astype("float64") for column in self._columns for name in names}
        return pd.DataFrame(wide, index=complete)


def workspace(study: Study) -> Path:
    """Return the folder of a study's searches; that it cannot be written is an error."""
    folder = study.folder / SEARCH_FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise TableError(f"{folder}: {error.strerror}; give results a folder of your own in the study file") from None
    return folder


@contextlib.contextmanager
def held_farm(
    farm: str, options: FarmOptions, note: Callable[[str], None] = silent
) -> Iterator[tuple[str, FarmOptions]]:
    """Start workers once for all rounds: give the address of their scheduler, or the farm as it is, and its options."""
    if farm not in ("local", *QUEUES):
        yield farm, options
        return
    if farm == "local":
        options = replace(options, jobs=n_local_workers())
    with connect(farm, options, note) as (client, _):
        yield client.scheduler.address, replace(options, security=client.security)


def load_inputs(study: Study, policy: str, most_usd: float | None = None) -> tuple[Plan, Space]:
    """Read and check what a study names, but for the list of its packages.

    ``most_usd``: what a package may cost, US$; below the budget, the space is of the packages that this buys.
    """
    plan = read_inputs(study, (policy,))
    lower = None if most_usd is None else lower_rules(study.packages, most_usd)
    space = make_space(plan.quotes, lower or study.packages)
    none = package_table(np.zeros((0, len(plan.quotes)), dtype=np.int64), space)
    return replace(plan, packages=none), space


def left_out_of(plan: Plan) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from counts to the jobs of all workloads that each package cannot run."""

    def left_out(counts: np.ndarray) -> np.ndarray:
        packages, every = pd.DataFrame(counts, columns=plan.types), plan.workloads.values()
        return np.sum([jobs_left_out(packages, plan.quotes, jobs, plan.existing) for jobs in every], axis=0)

    return left_out
