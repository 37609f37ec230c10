"""Packages that a backtest chooses among: drawn by what is known before a cut, simulated on any jobs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.objectives.aggregate import REGRET_FLOOR
from procure.objectives.quantities import BY_CLASS
from procure.packages.runnable import jobs_left_out
from procure.recommender.race import features_of
from procure.run import run_prepared
from procure.schemas import CLASSES
from procure.study import Plan
from procure.sweep.runner import Bench, make_bench, ready_of_package, simulate_batch
from procure.workload.past import part_bounds, waits_by_part


@dataclass(frozen=True)
class Candidates:
    """Simulates packages of one study on any jobs."""

    plan: Plan
    policy: str
    ids: np.ndarray
    counts: np.ndarray

    def lay_out(self, jobs: pd.DataFrame, warm_up: int = 0) -> Bench:
        """Lay out some jobs."""
        name = next(iter(self.plan.workloads))
        first = self.plan.study.workloads[0].model_copy(update={"warm_up": warm_up, "begin": "empty"})
        study = self.plan.study.model_copy(update={"workloads": (first,)})
        plan = replace(self.plan, study=study, workloads={name: jobs})
        return make_bench(plan, name, self.policy)

    @property
    def features(self) -> np.ndarray:
        """What a race's model knows the packages by."""
        return features_of(self.counts, self.plan.packages[["total_cpus", "total_mem_gb", "total_gpus"]].to_numpy())

    def runs(self, on: Bench, rows: np.ndarray) -> pd.DataFrame:
        """Return result rows of some packages."""
        found, _ = simulate_batch(on, self.ids[rows].tolist(), self.counts[rows])
        for run in found[found["status"] != "ok"].head(1).itertuples():
            raise TableError(f"package {run.package_id}: {run.reason}")
        return found

    def wait(self, on: Bench, rows: np.ndarray) -> np.ndarray:
        """Return mean waits, s."""
        return self.runs(on, rows)["mean_wait_time"].fillna(0.0).to_numpy(dtype="float64")

    def waits_by_class(self, on: Bench, rows: np.ndarray) -> np.ndarray:
        """Return the mean waits of all jobs, then of each class, s, float64[1 + classes, rows]."""
        return self.runs(on, rows)[list(BY_CLASS)].to_numpy(dtype="float64").T

    def past_by_part(self, on: Bench, rows: np.ndarray) -> np.ndarray:
        """Replay the past once a package; return its waits, s, float64[1 + parts, 1 + classes, rows]."""
        return self.waits_between(on, rows, part_bounds(on.ready.jobs.submit, on.ready.counts_from))

    def waits_between(self, on: Bench, rows: np.ndarray, bounds: list[tuple[int, int]]) -> np.ndarray:
        """Replay jobs once a package; return the waits of those submitted between some times from the first submission.

        In s, float64[bounds, 1 + classes, rows].
        """
        ready = on.ready
        found, submit = np.empty((len(bounds), 1 + len(CLASSES), len(rows))), ready.jobs.submit
        for i, row in enumerate(rows):
            start = run_prepared(ready_of_package(on, self.counts[row]), on.policy).start
            wait = np.where(start >= 0, start - submit, -1)
            found[:, :, i] = waits_by_part(submit, wait, ready.job_class, bounds)
        return found

    def judge(self, jobs: pd.DataFrame, warm_up: int) -> pd.DataFrame:
        """Replay jobs on every package; in its mean wait, a job that it cannot run waits to the last submission."""
        found = self.runs(self.lay_out(jobs, warm_up), np.arange(len(self.ids)))
        submit = jobs["submit_time"].to_numpy(np.int64)
        counted = submit >= submit.min() + warm_up
        never = np.where(counted, submit.max() - submit, 0)
        plan = self.plan
        left_out = jobs_left_out(plan.packages, plan.quotes, jobs, plan.existing, never)
        ran = (found["n_completed"].fillna(0) * found["mean_wait_time"].fillna(0.0)).to_numpy("float64")
        return found.assign(mean_wait_time=(ran + left_out) / max(int(counted.sum()), 1))


def between(jobs: pd.DataFrame, low: int, high: int) -> pd.DataFrame:
    """Return the jobs submitted from ``low`` on and before ``high``, s."""
    return jobs[(jobs["submit_time"] >= low) & (jobs["submit_time"] < high)].reset_index(drop=True)


def draw_candidates(plan: Plan, policy: str, jobs: pd.DataFrame, n: int, seed: int) -> Candidates:
    """Draw n packages at random from those that run every job; that there is none is an error."""
    packages = plan.packages[plan.packages["distinct"].to_numpy(dtype=bool)].reset_index(drop=True)
    able = np.flatnonzero(jobs_left_out(packages, plan.quotes, jobs, plan.existing) == 0)
    if not len(able):
        raise TableError("no package runs every job, so there is nothing to choose from")
    rows = np.random.default_rng(seed).permutation(able)[:n]
    chosen = packages.iloc[rows].reset_index(drop=True)
    counts = np.ascontiguousarray(chosen[plan.types].to_numpy(np.int64))
    return Candidates(replace(plan, packages=chosen), policy, chosen["package_id"].to_numpy(), counts)


def ratio_of(wait: np.ndarray, row: int) -> float:
    """Return the wait on a package over the least, both at least 60 s."""
    return float(max(wait[row], REGRET_FLOOR) / max(wait.min(), REGRET_FLOOR))
