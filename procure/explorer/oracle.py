"""Answers from the simulator: through the sweep's farm, kept in the study's folder, none simulated twice."""

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
from procure.explorer.candidates import CriteriaScore
from procure.packages.nodes import counts_of_ids, jobs_left_out, package_ids
from procure.packages.space import Space, make_space, package_table
from procure.progress import silent
from procure.study import Study
from procure.study.plan import lower_rules, read_inputs
from procure.sweep import FarmOptions, Plan, run_sweep
from procure.sweep.connect import QUEUES, connect, n_local_workers
from procure.sweep.parts import PartError
from procure.sweep.results import SEARCH_FOLDER, read_runs


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
        inner = study.model_copy(
            update={
                "name": folder.name,
                "results": folder.parent,
                "simulate": study.simulate.model_copy(update={"policies": (policy,)}),
                "sweep": study.sweep.model_copy(update={"sample": 1, "batch_size": 0}),
            }
        )
        self._plan = SearchPlan(inner, plan.quotes, plan.packages, plan.workloads, plan.existing, plan.notes)
        self._space, self._policy, self._note = score.space, policy, note
        self._farm, self._options = workers
        self._columns = score.columns
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

        def refused(path: Path, why: PartError) -> None:
            self._note(f"{path} is {why}; it is not used")

        names = list(self._plan.workloads)
        rows = read_runs(self._plan, study.folder, refused)
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
        packages = pd.DataFrame(counts, columns=plan.types)
        found = np.zeros(len(counts), dtype=np.int64)
        for jobs in plan.workloads.values():
            found += jobs_left_out(packages, plan.quotes, jobs, plan.existing)
        return found

    return left_out
