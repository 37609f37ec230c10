"""The same package under other conditions, see `procure.recommender.changes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from procure.comparison.rule_waits import conclude, rule_waits
from procure.errors import TableError, argument
from procure.packages.ids import package_ids
from procure.packages.prices import order_cents
from procure.policies.catalog import refuse_on_packages
from procure.progress import silent
from procure.recommender.changes import NO_GPUS, Changes, asks_gpus, jobs_of, parse_gpu_share
from procure.recommender.learning import Note
from procure.recommender.waited import UNKNOWN, Waited, fidelity_of
from procure.study import Study
from procure.study.plan import verify_policies
from procure.sweep.results import StudyResults, load_results
from procure.sweep.trial import about_limits, find_package, replayed, try_everywhere
from procure.text import Shown


@dataclass(frozen=True)
class WhatIf(Shown):
    """One package under other conditions.

    Attributes
    ----------
    study, package_id
        What was asked about.
    table
        A row per situation: ``situation package_id price_usd policy n_jobs gpu_jobs mean_wait_time
        p95_wait_time jobs_left_out``, ``wait_difference`` (from the first row, s) and ``wait_ratio``. With several
        changes, the last row is all of them.
    limits
        Whether jobs are cut at their limit, and how many on this package as it is.
    waits
        Under changed rules: waits by class, QOS and partition before and after
        (`procure.comparison.rule_waits.rule_waits`).
    conclusion
        Under changed rules: what they do, in a sentence.
    waited
        How close a replay of today comes to the log.
    """

    study: str
    package_id: str
    table: pd.DataFrame
    limits: str
    waits: pd.DataFrame | None = None
    conclusion: str = ""
    waited: Waited = UNKNOWN

    @property
    def title(self) -> str:
        """What the table is of."""
        return f"{self.study}: {self.package_id}"

    @property
    def notes(self) -> list[str]:
        """How many jobs are cut, how close a replay is, and what follows."""
        return [self.limits, *self.waited.sentences(), *filter(None, [self.conclusion])]

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
        See `procure.recommender.changes.Changes`; of the GPU jobs ``2x`` is a factor, ``30%`` their share of all jobs.
    rules
        Changes of the centre's rules, such as ``qos long GrpTRES=cpu=20%`` or ``bf_max_job_user=50``, all at once; the
        policy must go by them, as that of a study with ``[site]`` does.
    workload, seed
        One of the study's, default all together; chooses the bursts that are added or left out.
    note
        Called with a line on each step that takes long.

    Raises
    ------
    ArgumentError
        An argument is wrong, or there is no such package.
    TableError
        The study has no results, or a run failed.

    Examples
    --------
    >>> import procure
    >>> best = procure.recommend("study.toml", k=1).ranking["package_id"].iloc[0]
    >>> print(type(procure.what_if("study.toml", best, growth=1.2).table).__name__)
    DataFrame
    """
    changes = Changes(growth, **parse_gpu_share(gpu_share), policy=policy, rules=tuple(rules) or None, seed=seed)
    changes.check()
    if policy is not None:
        refuse_on_packages(policy)
    results = load_results(study, None, workload, search=True)
    if rules:
        check_rules(results, changes)
    counts = find_package(results.plan, package, "package")
    table = try_changes(results, counts, changes, note)
    names = [case.name for case in results.cases]
    limits = about_limits(results.plan, counts, names, results.policy, "this package as it is")
    found = WhatIf(results.plan.study.name, package, table, limits, waited=fidelity_of(results))
    if not rules:
        return found
    waits = waits_under_rules(results, counts, replace(changes, growth=None, gpu_jobs=None, gpu_share=None))
    return replace(found, waits=waits, conclusion=conclude(waits, rules))


def check_rules(results: StudyResults, changes: Changes) -> None:
    """Refuse rules that the policy does not have, or a change that the centre's rules cannot take."""
    plan = results.plan
    policy = changes.policy_of(results.policy)
    with argument("rules"):
        verify_policies(plan.study, plan.quotes, plan.existing, plan.workloads, [policy])


def waits_under_rules(results: StudyResults, counts: np.ndarray, changes: Changes) -> pd.DataFrame:
    """Compare a package's waits by class under a policy, and under its changed rules, over all workloads."""
    before, after = (
        pd.concat([replayed(results.plan, counts, case.name, policy)[0].schedule for case in results.cases])
        for policy in (changes.policy or results.policy, changes.policy_of(results.policy))
    )
    return rule_waits(before, after)


def try_changes(results: StudyResults, counts: np.ndarray, changes: Changes, note: Note = silent) -> pd.DataFrame:
    """Return the table of `WhatIf` for a package's counts, int64[n_types]; errors as of `what_if`."""
    any_gpus = any(asks_gpus(results.plan.workloads[case.name]) for case in results.cases)
    if not any_gpus and (changes.gpu_jobs is not None or changes.gpu_share is not None):
        raise TableError(NO_GPUS)
    rows = [_row("as it is", results, counts, Changes())]
    singles = changes.singles()
    rows += [_situation(name, results, counts, one, note) for name, one in singles]
    if len(singles) > 1:
        rows.append(_situation("all together", results, counts, changes, note))
    table = pd.DataFrame(rows)
    first = float(table["mean_wait_time"].iloc[0])
    table["wait_difference"] = table["mean_wait_time"] - first
    table["wait_ratio"] = table["mean_wait_time"] / first if first > 0 else np.nan
    return table


def _situation(name: str, results: StudyResults, counts: np.ndarray, changes: Changes, note: Note) -> dict[str, object]:
    note(f"{name}: simulating")
    return _row(name, results, counts, changes)


def _row(name: str, results: StudyResults, counts: np.ndarray, changes: Changes) -> dict[str, object]:
    plan, policy = results.plan, changes.policy_of(results.policy)
    jobs = {case.name: jobs_of(plan, case, changes) for case in results.cases}
    found = try_everywhere(results, counts[None, :], policy, jobs)
    cents = int(order_cents(counts[None, :], plan.quotes, plan.study.packages)[0])
    return {
        "situation": name,
        "package_id": package_ids(counts[None, :], plan.types)[0],
        "price_usd": cents / 100,
        "policy": policy,
        "n_jobs": sum(len(one) for one in jobs.values()),
        "gpu_jobs": sum(int((one["gpus_per_node"] > 0).sum()) for one in jobs.values()),
    } | found.to_dict(orient="records")[0]
