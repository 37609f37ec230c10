"""The same package under other conditions: more load, more GPU jobs, another policy, another budget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.models import Case
from procure.models.case import mean_over
from procure.packages.ids import package_ids
from procure.packages.prices import order_cents
from procure.policies import catalog
from procure.recommender.other_budget import best_package, with_budget
from procure.study import Plan
from procure.sweep.trial import find_package, try_counts
from procure.workload.scale import scale_load

_NO_GPUS = "gpu-share: no job of this workload asks for GPUs, so there are none to multiply"


@dataclass(frozen=True)
class Changes:
    """What is to be different; None = as it is.

    Attributes
    ----------
    growth
        CPU-seconds submitted, times so many (`procure.workload.scale.scale_load`).
    gpu_jobs
        GPU jobs' CPU-seconds, times so many; those of other jobs stay.
    gpu_share
        Instead of ``gpu_jobs``: the share of the jobs that ask for GPUs.
    policy
        Name of another policy.
    budget_usd
        Another budget.
    seed
        Of which bursts are added or left out.
    """

    growth: float | None = None
    gpu_jobs: float | None = None
    gpu_share: float | None = None
    policy: str | None = None
    budget_usd: float | None = None
    seed: int = 1

    def check(self) -> None:
        """Complain of what cannot be.

        Raises
        ------
        TableError
            A growth or share that is not above 0, an unknown policy, or nothing to change.
        """
        for name, value in (
            ("growth", self.growth),
            ("gpu-share", self.gpu_jobs),
            ("gpu-share", self.gpu_share),
        ):
            if value is not None and not 0 < value < float("inf"):
                raise TableError(f"{name} {value:g} was given; it must be above 0, 1 being no change")
        if self.gpu_share is not None and self.gpu_share >= 1:
            raise TableError(f"gpu-share {self.gpu_share:.0%} was given; a share of the jobs is below 100%")
        if self.policy is not None:
            catalog.spec(self.policy)
        if not any((self.growth, self.gpu_jobs, self.gpu_share, self.policy, self.budget_usd)):
            raise TableError("nothing is to be changed: give a growth, a GPU share, a policy or a budget")

    def singles(self) -> list[tuple[str, Changes]]:
        """Return each change alone, with what to call it."""
        found = []
        if self.growth is not None:
            found.append((f"load × {self.growth:g}", Changes(growth=self.growth, seed=self.seed)))
        if self.gpu_jobs is not None:
            found.append((f"GPU jobs × {self.gpu_jobs:g}", Changes(gpu_jobs=self.gpu_jobs, seed=self.seed)))
        if self.gpu_share is not None:
            found.append(
                (f"GPU jobs {self.gpu_share:.1%} of all", Changes(gpu_share=self.gpu_share, seed=self.seed))
            )
        if self.policy is not None:
            found.append((f"policy {self.policy}", Changes(policy=self.policy, seed=self.seed)))
        if self.budget_usd is not None:
            found.append(
                (f"budget US$ {self.budget_usd:,.0f}", Changes(budget_usd=self.budget_usd, seed=self.seed))
            )
        return found


def parse_gpu_share(text: str | None) -> dict[str, float]:
    """Read ``2x`` or ``0.5x`` (so many times the GPU jobs) or ``30%`` (of all jobs) as fields of `Changes`.

    Raises
    ------
    TableError
        It is neither.
    """
    if text is None:
        return {}
    found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([x×%])\s*", text)
    if found is None:
        raise TableError(f"gpu-share {text!r} was given; write 2x (twice the GPU jobs) or 30% (of all jobs)")
    value = float(found.group(1))
    return {"gpu_share": value / 100} if found.group(2) == "%" else {"gpu_jobs": value}


def changed_jobs(jobs: pd.DataFrame, changes: Changes) -> pd.DataFrame:
    """Return a workload with its load and GPU jobs changed; whole bursts are superposed or left out.

    Raises
    ------
    TableError
        The workload has no GPU jobs to multiply.
    """
    factor = changes.gpu_jobs
    gpu = (jobs["gpus_per_node"] > 0).to_numpy()
    if changes.gpu_share is not None:
        # Of n jobs, f·g out of f·g + (n − g) are to ask for GPUs.
        others = int((~gpu).sum())
        factor = changes.gpu_share * others / ((1 - changes.gpu_share) * max(int(gpu.sum()), 1))
    if factor is not None and factor != 1:
        if not gpu.any():
            raise TableError(_NO_GPUS)
        if gpu.all():
            raise TableError("gpu-share: every job of this workload asks for GPUs; use growth")
        more = scale_load(jobs[gpu], factor, changes.seed)
        rest = jobs[~gpu].drop(columns=[name for name in jobs if name not in more])
        mixed = pd.concat([rest, more]).sort_values("submit_time", kind="stable", ignore_index=True)
        mixed.attrs = dict(jobs.attrs)
        jobs = mixed
    if changes.growth is not None:
        jobs = scale_load(jobs, changes.growth, changes.seed)
    return jobs


def what_if(
    plan: Plan,
    cases: Sequence[Case],
    policy: str,
    counts: np.ndarray,
    changes: Changes,
    best: str | None = None,
) -> pd.DataFrame:
    """Simulate a package as it is, under each change alone, and under all together.

    Parameters
    ----------
    plan, cases, policy
        The study, a case per workload that counts, and which policy decides.
    counts
        int64[n_types], from `procure.sweep.trial.find_package`.
    changes
        What is to be different.
    best
        The package that is recommended as things are, to be held against that of another budget.

    Returns
    -------
    pandas.DataFrame
        A row per situation: ``situation package_id price_usd policy n_jobs gpu_jobs mean_wait_time
        p95_wait_time jobs_left_out``, ``wait_difference`` (from the first row, s) and ``wait_ratio``. Another
        budget asks which package the recommender then takes (`procure.recommender.other_budget`). With several
        changes, the last rows are all together.

    Raises
    ------
    TableError
        A change that cannot be, or a run failed.
    """
    changes.check()
    any_gpus = any(asks_gpus(plan.workloads[case.name]) for case in cases)
    if not any_gpus and (changes.gpu_jobs is not None or changes.gpu_share is not None):
        raise TableError(_NO_GPUS)
    rows = [_row("as it is", plan, cases, policy, counts, Changes())]
    if best is not None and best != rows[0]["package_id"]:
        rows.append(_row("as it is, recommended", plan, cases, policy, find_package(plan, best), Changes()))
    for name, one in changes.singles():
        rows.append(_situation(name, plan, cases, policy, counts, one))
    if len(rows) > 2 and len(changes.singles()) > 1:
        same = replace(changes, budget_usd=None)
        if changes.budget_usd is None:
            rows.append(_situation("all together", plan, cases, policy, counts, same))
        else:
            rows.append(_situation("all together, this package", plan, cases, policy, counts, same))
            rows.append(_situation("all together, that budget", plan, cases, policy, counts, changes))
    table = pd.DataFrame(rows)
    first = float(table["mean_wait_time"].iloc[0])
    table["wait_difference"] = table["mean_wait_time"] - first
    table["wait_ratio"] = table["mean_wait_time"] / first if first > 0 else np.nan
    return table


def asks_gpus(jobs: pd.DataFrame) -> bool:
    """Say whether any job asks for a GPU."""
    return bool((jobs["gpus_per_node"] > 0).any())


def jobs_of(plan: Plan, case: Case, changes: Changes) -> pd.DataFrame:
    """Return a day's changed jobs; a day without GPU jobs among others that have some keeps its own."""
    jobs = plan.workloads[case.name]
    if not asks_gpus(jobs):
        changes = replace(changes, gpu_jobs=None, gpu_share=None)
    return changed_jobs(jobs, changes)


def _situation(
    name: str, plan: Plan, cases: Sequence[Case], policy: str, counts: np.ndarray, changes: Changes
) -> dict[str, object]:
    if changes.budget_usd is not None:
        plan = with_budget(plan, changes.budget_usd)
        jobs = {case.name: jobs_of(plan, case, changes) for case in cases}
        counts = best_package(plan, cases, changes.policy or policy, jobs)
    return _row(name, plan, cases, policy, counts, changes)


def _row(
    name: str, plan: Plan, cases: Sequence[Case], policy: str, counts: np.ndarray, changes: Changes
) -> dict[str, object]:
    policy = changes.policy or policy
    jobs = [jobs_of(plan, case, changes) for case in cases]
    runs = [
        try_counts(plan, counts[None, :], case.name, policy, one)
        for case, one in zip(cases, jobs, strict=True)
    ]
    cents = int(order_cents(counts[None, :], plan.quotes, plan.study.packages)[0])
    return {
        "situation": name,
        "package_id": package_ids(counts[None, :], plan.types)[0],
        "price_usd": cents / 100,
        "policy": policy,
        "n_jobs": sum(len(one) for one in jobs),
        "gpu_jobs": sum(int((one["gpus_per_node"] > 0).sum()) for one in jobs),
        "mean_wait_time": float(mean_over(cases, runs)[0]),
        "p95_wait_time": float(mean_over(cases, runs, "p95_wait_time")[0]),
        "jobs_left_out": sum(int(rows["n_unrunnable"].iloc[0]) for rows in runs),
    }
