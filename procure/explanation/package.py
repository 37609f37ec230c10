"""Why a package waits as it does: what the model makes of it, what its jobs lack, what one more node is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.explanation.bottleneck import Binding, find_binding
from procure.models import Case, Predicted, features
from procure.models.case import mean_over
from procure.objectives.aggregate import mean_wait
from procure.packages import package_nodes
from procure.packages.ids import package_ids
from procure.packages.prices import order_cents
from procure.run import simulate
from procure.study import Plan
from procure.sweep.trial import try_counts

CONTENTS = (
    ("GPUs", ("total_gpus", "nodes_gpus")),
    ("memory", ("total_mem_gb", "nodes_mem_gb")),
    ("CPUs", ("total_cpus", "nodes_cpus")),
    ("number of nodes", ("total_nodes",)),
)
"""Which features say the same thing, by how their names begin."""


@dataclass(frozen=True)
class Explained:
    """What is known of one package.

    Attributes
    ----------
    package_id, counts, price_usd
        What is bought.
    totals
        CPUs, GB, GPUs and nodes.
    waits
        A row per workload: ``workload mean_wait_time jobs_left_out simulated_before``.
    wait
        Mean over all jobs that ran, s.
    typical_seconds, predicted_seconds
        What the model answers for a package of which nothing is known, and for this one; NaN without a model.
    factors
        ``about feature value factor``: the model's answer is the typical wait × all factors. Strongest first.
    binding
        Per workload that was replayed, what waiting jobs lacked.
    marginal
        From `marginal_values`.
    """

    package_id: str
    counts: dict[str, int]
    price_usd: float
    totals: dict[str, float]
    waits: pd.DataFrame
    wait: float
    typical_seconds: float
    predicted_seconds: float
    factors: pd.DataFrame
    binding: dict[str, Binding]
    marginal: pd.DataFrame

    @property
    def grouped(self) -> pd.DataFrame:
        """The factors of features that say the same thing multiplied: ``about factor``, strongest first."""
        if self.factors.empty:
            return pd.DataFrame({"about": [], "factor": []})
        logs = np.log(self.factors["factor"]).groupby(self.factors["about"], sort=False).sum()
        logs = logs.iloc[np.argsort(-logs.abs().to_numpy(), kind="stable")]
        return pd.DataFrame({"about": logs.index.to_numpy(), "factor": np.exp(logs.to_numpy())})


def explain(
    plan: Plan,
    cases: Sequence[Case],
    policy: str,
    counts: np.ndarray,
    case: Case,
    predicted: Predicted | None,
    replayed: Sequence[str],
    marginal: bool = True,
) -> Explained:
    """Explain one package.

    Parameters
    ----------
    plan, cases, policy
        The study, a case per workload that counts, and which policy decides.
    counts
        int64[n_types], from `procure.sweep.trial.find_package`.
    case, predicted
        The workloads together, and what was learnt of them with the study's feature set; None = no model.
    replayed
        Names of the workloads whose schedules are replayed.
    marginal
        Whether to simulate one more node of each type.

    Raises
    ------
    TableError
        A run failed, or the model cannot say what its features do.
    """
    name = package_ids(counts[None, :], plan.types)[0]
    row = int(np.flatnonzero((case.packages["package_id"] == name).to_numpy())[0])
    waits = _waits(plan, cases, policy, counts, row)
    ran = np.array([[one.weight * one.n_ran[row]] for one in cases])
    typical, guess, factors = _factors(plan, case, predicted, row)
    return Explained(
        name,
        {kind: int(n) for kind, n in zip(plan.types, counts, strict=True) if n},
        float(case.packages["price_usd"].iloc[row]),
        {one: float(case.packages[f"total_{one}"].iloc[row]) for one in ("cpus", "mem_gb", "gpus")}
        | {"nodes": float(counts.sum())},
        waits,
        float(mean_wait(waits[["mean_wait_time"]].to_numpy(dtype="float64"), ran)[0]),
        typical,
        guess,
        factors,
        {one: replay(plan, counts, one, policy) for one in replayed},
        marginal_values(plan, cases, policy, counts) if marginal else pd.DataFrame(),
    )


def _waits(plan: Plan, cases: Sequence[Case], policy: str, counts: np.ndarray, row: int) -> pd.DataFrame:
    rows = []
    for case in cases:
        wait, known = float(case.wait[row]), bool(case.simulated[row])
        if not known and case.left_out[row] < case.n_jobs:
            wait = float(try_counts(plan, counts[None, :], case.name, policy)["mean_wait_time"].iloc[0])
        rows.append((case.name, wait, int(case.left_out[row]), known))
    return pd.DataFrame(rows, columns=["workload", "mean_wait_time", "jobs_left_out", "simulated_before"])


def _factors(
    plan: Plan, case: Case, predicted: Predicted | None, row: int
) -> tuple[float, float, pd.DataFrame]:
    empty = pd.DataFrame({"about": [], "feature": [], "value": [], "factor": []})
    if predicted is None or predicted.model.kind != "xgboost":
        return float("nan"), float("nan"), empty
    x = features(case.packages.iloc[[row]], plan.quotes, plan.study.model.feature_set)
    typical, factors = predicted.model.contributions(x)
    table = pd.DataFrame({"feature": x.columns, "value": x.iloc[0].to_numpy(), "factor": factors[0]})
    table.insert(0, "about", [about(name) for name in table["feature"]])
    strongest = np.argsort(-np.abs(np.log(table["factor"].to_numpy())), kind="stable")
    return typical, typical * float(factors[0].prod()), table.iloc[strongest].reset_index(drop=True)


def about(feature: str) -> str:
    """Say in words what a feature is about."""
    if feature.startswith("type:"):
        return f"how many {feature.removeprefix('type:')}"
    if feature.startswith("category:"):
        return f"what the {feature.split(':')[1]} nodes hold"
    return next((words for words, begins in CONTENTS if feature.startswith(begins)), feature)


def replay(plan: Plan, counts: np.ndarray, workload: str, policy: str) -> Binding:
    """Simulate a package on one workload and say what its waiting jobs lacked."""
    nodes = package_nodes(dict(zip(plan.types, counts.tolist(), strict=True)), plan.quotes, plan.existing)
    run = simulate(
        plan.workloads[workload],
        nodes,
        policy,
        kill_at_limit=plan.study.simulate.kill_at_limit,
        logged_speed=plan.logged_speed(workload),
    )
    return find_binding(run.schedule, nodes)


def marginal_values(plan: Plan, cases: Sequence[Case], policy: str, counts: np.ndarray) -> pd.DataFrame:
    """Simulate a package with one more node of each quoted type.

    Parameters
    ----------
    cases
        A case per workload; the wait is the mean over all their jobs that ran.
    counts
        int64[n_types].

    Returns
    -------
    pandas.DataFrame
        A row per type: ``type``, ``usd`` (what the order then costs more, after discounts), ``mean_wait_time``,
        ``saved_seconds`` of mean wait per job (negative = jobs wait longer: best fit knows no
        guarantee that more nodes help), ``saved_per_1000_usd``, ``more_jobs`` that can run then. Most saved
        per dollar first.
    """
    tried = np.vstack([counts, counts + np.eye(len(counts), dtype=np.int64)])
    runs = [try_counts(plan, tried, case.name, policy) for case in cases]
    left_out = np.sum([rows["n_unrunnable"].to_numpy(dtype="int64") for rows in runs], axis=0)
    wait = mean_over(cases, runs)
    cents = order_cents(tried, plan.quotes, plan.study.packages)
    usd = (cents[1:] - cents[0]) / 100
    saved = wait[0] - wait[1:]
    table = pd.DataFrame(
        {
            "type": plan.types,
            "usd": usd,
            "mean_wait_time": wait[1:],
            "saved_seconds": saved,
            "saved_per_1000_usd": np.where(usd > 0, saved / np.where(usd > 0, usd, 1) * 1000, np.nan),
            "more_jobs": left_out[0] - left_out[1:],
        }
    )
    best = np.argsort(-table["saved_per_1000_usd"].to_numpy(), kind="stable")
    return table.iloc[best].reset_index(drop=True)
