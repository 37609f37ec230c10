"""The same package under other conditions: more load, more GPU jobs, another policy, another budget."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.models import Case
from procure.models.case import mean_over
from procure.packages.ids import package_ids
from procure.packages.prices import order_cents
from procure.policies import catalog
from procure.recommender.other_budget import best_package, with_budget
from procure.study import Plan, Study
from procure.sweep.results import StudyResults, load_results
from procure.sweep.trial import find_package, try_counts
from procure.workload.scale import scale_load

_NO_GPUS = "gpu-share: no job of this workload asks for GPUs, so there are none to multiply"


@dataclass(frozen=True)
class Changes:
    """What is to be different; None = as it is.

    Attributes
    ----------
    growth
        Factor on the CPU-seconds submitted (`procure.workload.scale.scale_load`).
    gpu_jobs
        Factor on the CPU-seconds of GPU jobs; those of other jobs stay.
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
        """Refuse changes that are impossible.

        Raises
        ------
        ArgumentError
            A growth or share that is not above 0, an unknown policy, or nothing to change.
        """
        for name in ("growth", "gpu_jobs", "gpu_share"):
            value, argument = getattr(self, name), name.replace("jobs", "share")
            if value is not None and not 0 < value < float("inf"):
                said = f"{argument.replace('_', '-')} {value:g} was given"
                raise ArgumentError(argument, f"{said}; it must be above 0, 1 being no change")
        if self.gpu_share is not None and self.gpu_share >= 1:
            message = f"gpu-share {self.gpu_share:.0%} was given; a share of the jobs is below 100%"
            raise ArgumentError("gpu_share", message)
        if self.policy is not None:
            try:
                catalog.spec(self.policy)
            except TableError as error:
                raise ArgumentError("policy", str(error)) from None
        if not any((self.growth, self.gpu_jobs, self.gpu_share, self.policy, self.budget_usd)):
            message = "nothing is to be changed: give a growth, a GPU share, a policy or a budget"
            raise ArgumentError("growth", message)

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
    """Read ``2x`` or ``0.5x`` (a factor on the GPU jobs) or ``30%`` (of all jobs) as fields of `Changes`.

    Raises
    ------
    ArgumentError
        It is neither.
    """
    if text is None:
        return {}
    found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([x×%])\s*", text)
    if found is None:
        message = f"gpu-share {text!r} was given; write 2x (twice the GPU jobs) or 30% (of all jobs)"
        raise ArgumentError("gpu_share", message)
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


@dataclass(frozen=True)
class WhatIf:
    """One package under other conditions.

    Attributes
    ----------
    study, package_id
        What was asked about.
    table
        From `try_changes`.
    """

    study: str
    package_id: str
    table: pd.DataFrame

    @property
    def title(self) -> str:
        """What the table is of."""
        return f"{self.study}: {self.package_id}"

    @property
    def notes(self) -> list[str]:
        """Which other package is recommended, where the budget is another."""
        others = self.table[self.table["package_id"] != self.package_id]
        return [f"{row.situation}: {row.package_id} is recommended" for row in others.itertuples()]

    def shown(self) -> pd.DataFrame:
        """Return the situations as a table for people."""
        table = self.table
        shown = table[["situation", "n_jobs", "gpu_jobs", "policy"]].assign(
            price_usd=table["price_usd"].round().astype("int64"),
            wait_s=table["mean_wait_time"].round(1),
            times=table["wait_ratio"].round(2),
        )
        return shown.assign(left_out=table["jobs_left_out"]) if table["jobs_left_out"].any() else shown

    def summary(self) -> str:
        """Return the situations as text."""
        return "\n".join([self.title, self.shown().to_string(index=False, na_rep="–"), *self.notes])

    def _repr_html_(self) -> str:
        table = self.shown().to_html(index=False, na_rep="–", border=0)
        return f"<p><b>{html.escape(self.title)}</b></p>{table}<p>{html.escape('; '.join(self.notes))}</p>"


def what_if(
    study: str | Path | Study | StudyResults,
    package: str,
    *,
    growth: float | None = None,
    gpu_share: str | None = None,
    policy: str | None = None,
    budget_usd: float | None = None,
    workload: str | None = None,
    seed: int = 1,
) -> WhatIf:
    """Simulate a package as it is, under each change alone, and under all of them.

    Parameters
    ----------
    study
        The path of a study that was swept, the study, or its results.
    package
        A package id, as `recommend` gives it.
    growth
        Factor on the CPU-seconds submitted: whole bursts of jobs are superposed or left out.
    gpu_share
        ``2x``: a factor on the GPU jobs; ``30%``: their share of all jobs.
    policy
        Another policy than the study's first.
    budget_usd
        Another budget: which package would be recommended?
    workload
        One of the study's; default: all together.
    seed
        Chooses the bursts that are added or left out.

    Raises
    ------
    ArgumentError
        An argument is wrong, or there is no such package.
    TableError
        The study has no results, nothing is feasible for the budget, or a run failed.
    """
    changes = Changes(growth, **parse_gpu_share(gpu_share), policy=policy, budget_usd=budget_usd, seed=seed)
    changes.check()
    results = load_results(study, None, workload)
    try:
        counts = find_package(results.plan, package)
    except TableError as error:
        raise ArgumentError("package", str(error)) from None
    return WhatIf(results.plan.study.name, package, try_changes(results, counts, changes))


def try_changes(results: StudyResults, counts: np.ndarray, changes: Changes) -> pd.DataFrame:
    """Simulate a package as it is, under each change alone, and under all of them.

    Parameters
    ----------
    counts
        int64[n_types], from `procure.sweep.trial.find_package`.
    changes
        What is to be different.

    Returns
    -------
    pandas.DataFrame
        A row per situation: ``situation package_id price_usd policy n_jobs gpu_jobs mean_wait_time
        p95_wait_time jobs_left_out``, ``wait_difference`` (from the first row, s) and ``wait_ratio``. Another
        budget asks which package is recommended then (`procure.recommender.other_budget`). With several
        changes, the last rows are all of them.

    Raises
    ------
    TableError
        An impossible change, or a run failed.
    """
    changes.check()
    any_gpus = any(asks_gpus(results.plan.workloads[case.name]) for case in results.cases)
    if not any_gpus and (changes.gpu_jobs is not None or changes.gpu_share is not None):
        raise TableError(_NO_GPUS)
    rows = [_row("as it is", results, counts, Changes())]
    singles = changes.singles()
    rows += [_situation(name, results, counts, one) for name, one in singles]
    if len(singles) > 1:
        same = replace(changes, budget_usd=None)
        if changes.budget_usd is None:
            rows.append(_situation("all together", results, counts, same))
        else:
            rows.append(_situation("all together, this package", results, counts, same))
            rows.append(_situation("all together, that budget", results, counts, changes))
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


def _situation(name: str, results: StudyResults, counts: np.ndarray, changes: Changes) -> dict[str, object]:
    if changes.budget_usd is not None:
        jobs = {case.name: jobs_of(results.plan, case, changes) for case in results.cases}
        results = replace(results, plan=with_budget(results.plan, changes.budget_usd))
        counts = best_package(results, changes.policy or results.policy, jobs)
    return _row(name, results, counts, changes)


def _row(name: str, results: StudyResults, counts: np.ndarray, changes: Changes) -> dict[str, object]:
    plan, cases, policy = results.plan, results.cases, changes.policy or results.policy
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
