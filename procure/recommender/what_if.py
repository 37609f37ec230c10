"""The same package under other conditions: more load, more GPU jobs, another policy, changed rules of the centre."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from procure.comparison.waits import conclude, rule_waits, with_rules
from procure.errors import ArgumentError, TableError, argument
from procure.packages.nodes import package_ids
from procure.packages.prices import order_cents
from procure.policies import catalog
from procure.policies.catalog import refuse_on_packages
from procure.progress import silent
from procure.recommender.rank import Note
from procure.recommender.replay_check import check_replay
from procure.study import Study
from procure.study.plan import verify_policies
from procure.sweep.results import StudyResults, load_results
from procure.sweep.trial import about_limits, find_package, replayed, try_everywhere
from procure.tables import with_clock_of
from procure.text import Shown
from procure.workload.load import scale_load

_CALLED = {"growth": "load × {:g}", "gpu_jobs": "GPU jobs × {:g}", "policy": "policy {}", "rules": "rule {}"}


@dataclass(frozen=True)
class Changes:
    """What is to be different; None = as it is.

    ``growth`` is a factor on the CPU-seconds submitted (`procure.workload.load.scale_load`), ``gpu_jobs`` one on
    those of GPU jobs alone; ``policy`` is another one, ``rules`` are changes of the centre's rules
    (`procure.site.change`), by which the policy must go. ``seed`` chooses the bursts that are added or left out.
    """

    growth: float | None = None
    gpu_jobs: float | None = None
    policy: str | None = None
    rules: tuple[str, ...] | None = None
    seed: int = 1

    def policy_of(self, policy: str) -> str:
        """Return the policy that decides in the place of another one, under changed rules."""
        policy = self.policy or policy
        return with_rules(policy, self.rules) if self.rules else policy

    def check(self) -> None:
        """Refuse a factor that is not above 0, an unknown policy, and nothing to change."""
        for what, value in (("growth", self.growth), ("gpu_share", self.gpu_jobs)):
            if value is not None and not 0 < value < float("inf"):
                wrong = f"{what.replace('_', '-')} {value:g} was given"
                raise ArgumentError(what, f"{wrong}; it must be above 0, 1 being no change")
        if self.policy is not None:
            with argument("policy"):
                catalog.spec(self.policy)
            refuse_on_packages(self.policy)
        if not self.singles():
            raise ArgumentError("growth", "nothing changes: give a growth, a GPU share, a policy or a rule")

    def singles(self) -> list[tuple[str, Changes]]:
        """Return each change alone, with what to call it."""
        given = {key: value for key in _CALLED if (value := getattr(self, key)) is not None}
        said = given | ({"rules": "; ".join(self.rules)} if self.rules else {})
        return [(_CALLED[key].format(said[key]), Changes(**{key: given[key]}, seed=self.seed)) for key in given]


def read_factor(text: str | None) -> float | None:
    """Read ``2x`` or ``0.5x``, a factor on the GPU jobs."""
    if text is None:
        return None
    if (found := re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*[x×]\s*", text)) is None:
        raise ArgumentError("gpu_share", f"{text!r} was given; write a factor on the GPU jobs, such as 2x")
    return float(found[1])


def changed_jobs(jobs: pd.DataFrame, changes: Changes) -> pd.DataFrame:
    """Return a workload with its load and, where it has any, its GPU jobs changed; too many jobs are an error."""
    gpu = (jobs["gpus_per_node"] > 0).to_numpy()
    if changes.gpu_jobs is not None and changes.gpu_jobs != 1 and gpu.any():
        with argument("gpu_share"):
            more = scale_load(jobs[gpu], changes.gpu_jobs, changes.seed)
        rest = jobs[~gpu].drop(columns=[name for name in jobs if name not in more])
        mixed = pd.concat([rest, more]) if len(rest) else more
        jobs = with_clock_of(jobs, mixed.sort_values("submit_time", kind="stable", ignore_index=True))
    if changes.growth is not None:
        with argument("growth"):
            jobs = scale_load(jobs, changes.growth, changes.seed)
    return jobs


@dataclass(frozen=True)
class WhatIf(Shown):
    """One package under other conditions.

    ``table`` has a row per situation: ``situation package_id price_usd policy n_jobs gpu_jobs mean_wait_time
    p95_wait_time jobs_left_out``, ``wait_difference`` (from the first row, s) and ``wait_ratio``; of several changes
    the last row is all. ``warnings`` say how close a replay comes to the log and what changed rules do: ``waits`` are
    then from `procure.comparison.waits.rule_waits`. ``notes`` say, too, how many jobs are cut at their limit.
    """

    title: str
    table: pd.DataFrame
    notes: list[str]
    warnings: list[str]
    waits: pd.DataFrame | None = None

    def shown(self) -> pd.DataFrame:
        """Return the situations as a table for people."""
        table = self.table
        shown = table[["situation", "n_jobs", "gpu_jobs", "policy"]].assign(
            price_usd=table["price_usd"].round().astype("int64"),
            wait_s=table["mean_wait_time"].round(1),
            times=table["wait_ratio"].round(2),
        )
        return shown.assign(left_out=table["jobs_left_out"]) if table["jobs_left_out"].any() else shown


def what_if(
    study: str | Path | Study | StudyResults,
    package: str,
    *,
    growth: float | None = None,
    gpu_share: str | None = None,
    policy: str | None = None,
    rules: Sequence[str] = (),
    workload: str | None = None,
    seed: int = 1,
    note: Note = silent,
) -> WhatIf:
    """Simulate a package as it is, under each change alone, and under all of them.

    Parameters
    ----------
    study
        The path of a study that was swept, the study, or its results.
    package
        A package id, as `recommend` gives it.
    growth, gpu_share, policy
        See `Changes`; ``2x`` is a factor on the GPU jobs.
    rules
        Changes of the centre's rules, such as ``qos long GrpTRES=cpu=20%`` or ``bf_max_job_user=50``, all at once; the
        policy must go by them, as that of a study with ``[site]`` does.
    workload, seed, note
        One of the study's, default all together; chooses the bursts that are added or left out; called with a line on
        each step that takes long.

    Raises
    ------
    TableError
        An argument is wrong (`ArgumentError`), the study has no results, or a run failed.

    Examples
    --------
    >>> import procure
    >>> best = procure.recommend("study.toml", k=1).ranking["package_id"].iloc[0]
    >>> print(type(procure.what_if("study.toml", best, growth=1.2).table).__name__)
    DataFrame
    """
    changes = Changes(growth, read_factor(gpu_share), policy=policy, rules=tuple(rules) or None, seed=seed)
    changes.check()
    results = load_results(study, None, workload, search=True)
    plan, names = results.plan, [case.name for case in results.cases]
    if rules:
        with argument("rules"):
            new = changes.policy_of(results.policy)
            verify_policies(plan.study, plan.quotes, plan.existing, plan.workloads, [new])
    counts = find_package(plan, package, "package")
    table = try_changes(results, counts, changes, note)
    limits = about_limits(plan, counts, names, results.policy, "this package as it is")
    warnings, waits = check_replay(results).sentences(), None
    if rules:
        two = (policy or results.policy, new)
        waits = rule_waits(
            *(pd.concat([replayed(plan, counts, name, one)[0].schedule for name in names]) for one in two)
        )
        warnings += [said] if (said := conclude(waits, rules)) else []
    return WhatIf(f"{plan.study.name}: {package}", table, [limits, *warnings], warnings, waits)


def try_changes(results: StudyResults, counts: np.ndarray, changes: Changes, note: Note = silent) -> pd.DataFrame:
    """Return the table of `WhatIf` for a package's counts, int64[n_types]; errors as of `what_if`."""
    plan = results.plan
    own = {case.name: plan.workloads[case.name] for case in results.cases}
    if changes.gpu_jobs is not None and not any((jobs["gpus_per_node"] > 0).any() for jobs in own.values()):
        raise TableError("gpu-share: no job of this workload asks for GPUs, so there are none to multiply")
    singles = changes.singles()
    every = [("as it is", Changes()), *singles, *([("all together", changes)] if len(singles) > 1 else [])]
    cents = int(order_cents(counts[None, :], plan.quotes, plan.study.packages)[0])
    rows: list[dict[str, object]] = []
    for name, one in every:
        note(f"{name}: simulating")
        policy = one.policy_of(results.policy)
        jobs = {day: changed_jobs(each, one) for day, each in own.items()}
        row: dict[str, object] = {"situation": name, "package_id": package_ids(counts[None, :], plan.types)[0]}
        row |= {"price_usd": cents / 100, "policy": policy, "n_jobs": sum(map(len, jobs.values()))}
        row["gpu_jobs"] = sum(int((each["gpus_per_node"] > 0).sum()) for each in jobs.values())
        rows.append(row | try_everywhere(results, counts[None, :], policy, jobs).to_dict(orient="records")[0])
    table = pd.DataFrame(rows)
    wait, first = table["mean_wait_time"], float(table["mean_wait_time"].iloc[0])
    return table.assign(wait_difference=wait - first, wait_ratio=wait / first if first > 0 else np.nan)
