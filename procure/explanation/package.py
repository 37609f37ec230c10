"""Why jobs wait as long as they do on a package: the model's factors, the bottleneck, the value of one more node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.explanation.bottleneck import Bottleneck, find_bottleneck
from procure.models import Predicted, WorkloadWaits, features
from procure.objectives.aggregate import pooled_mean
from procure.packages.constraints import build_constraints
from procure.packages.ids import package_ids
from procure.packages.prices import order_cents
from procure.progress import step
from procure.simulator.metrics import METRIC_NAMES
from procure.sweep.results import StudyResults
from procure.sweep.trial import replayed, simulate_once, try_everywhere

CONTENTS = (
    ("GPUs", ("total_gpus", "nodes_gpus")),
    ("memory", ("total_mem_gb", "nodes_mem_gb")),
    ("CPUs", ("total_cpus", "nodes_cpus")),
    ("number of nodes", ("total_nodes",)),
)
"""Groups of features that measure the same thing, by how their names begin."""


@dataclass(frozen=True)
class PackageExplanation:
    """What explains the wait on one package.

    ``counts`` is what is bought, ``totals`` its CPUs, GB, GPUs and nodes; ``waits`` has a row per workload: ``workload
    mean_wait_time jobs_left_out simulated_before``, and ``wait`` is the mean over all jobs that ran, s. The model
    predicts ``typical_seconds`` for a typical package and ``predicted_seconds`` for this one, NaN without a model: the
    typical wait × all ``factors``, ``about feature value factor``, strongest first. ``bottlenecks`` says by replayed
    workload what waiting jobs lacked; ``marginal`` is from `marginal_values`.
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
    bottlenecks: dict[str, Bottleneck]
    marginal: pd.DataFrame

    @property
    def grouped(self) -> pd.DataFrame:
        """The factors multiplied over the features that measure the same thing: ``about factor``, strongest first."""
        if self.factors.empty:
            return pd.DataFrame({"about": [], "factor": []})
        logs = np.log(self.factors["factor"]).groupby(self.factors["about"], sort=False).sum()
        logs = logs.iloc[np.argsort(-logs.abs().to_numpy(), kind="stable")]
        return pd.DataFrame({"about": logs.index.to_numpy(), "factor": np.exp(logs.to_numpy())})


def explain_package(
    results: StudyResults,
    counts: np.ndarray,
    whole: WorkloadWaits,
    predicted: Predicted | None,
    replayed: Sequence[str],
    marginal: bool = True,
) -> PackageExplanation:
    """Explain one package by its counts, int64[n_types]; a run that fails is an error.

    ``whole`` and ``predicted`` are the workloads as one, and the predictions for it with the study's feature set (None
    = no model); the schedules of the ``replayed`` workloads are looked at. ``marginal``: one more node of each type is
    simulated.
    """
    plan = results.plan
    name = package_ids(counts[None, :], plan.types)[0]
    row = int(np.flatnonzero((whole.packages["package_id"] == name).to_numpy())[0])
    package = whole.packages.iloc[row]
    waits = _waits(results, row)
    ran = np.array([[case.weight * case.n_ran[row]] for case in results.cases])
    typical, prediction, factors = _factors(results, whole, predicted, row)
    return PackageExplanation(
        name,
        {kind: int(n) for kind, n in zip(plan.types, counts, strict=True) if n},
        float(package["price_usd"]),
        {total: float(package[f"total_{total}"]) for total in ("cpus", "mem_gb", "gpus")}
        | {"nodes": float(counts.sum())},
        waits,
        float(pooled_mean(waits[["mean_wait_time"]].to_numpy(dtype="float64"), ran)[0]),
        typical,
        prediction,
        factors,
        {workload: replay(results, counts, workload) for workload in replayed},
        marginal_values(results, counts) if marginal else pd.DataFrame(),
    )


def longest_waiting(cases: Sequence[WorkloadWaits]) -> str:
    """Return the name of the workload with the longest wait, by the median over its simulated packages."""
    medians = [float(np.median(case.wait[case.simulated])) if case.simulated.any() else -1.0 for case in cases]
    return cases[int(np.argmax(medians))].name


def _waits(results: StudyResults, row: int) -> pd.DataFrame:
    rows = []
    for case in results.cases:
        wait, known = float(case.wait[row]), bool(case.simulated[row])
        if not known and case.left_out[row] < case.n_jobs:
            failures: list[str] = []
            ran = simulate_once(results, case.name, np.array([row]), failures)
            wait = float(ran[0, METRIC_NAMES.index("mean_wait_time")])
            if failures:
                raise TableError(f"{case.name} under {results.policy}: {failures[0]}")
        rows.append((case.name, wait, int(case.left_out[row]), known))
    return pd.DataFrame(rows, columns=["workload", "mean_wait_time", "jobs_left_out", "simulated_before"])


def _factors(
    results: StudyResults, whole: WorkloadWaits, predicted: Predicted | None, row: int
) -> tuple[float, float, pd.DataFrame]:
    empty = pd.DataFrame({"about": [], "feature": [], "value": [], "factor": []})
    if predicted is None:
        return float("nan"), float("nan"), empty
    plan = results.plan
    x = features(whole.packages.iloc[[row]], plan.quotes, plan.study.model.feature_set)
    typical, factors = predicted.model.contributions(x)
    table = pd.DataFrame({"feature": x.columns, "value": x.iloc[0].to_numpy(), "factor": factors[0]})
    table.insert(0, "about", [about(name) for name in table["feature"]])
    strongest = np.argsort(-np.abs(np.log(table["factor"].to_numpy())), kind="stable")
    return typical, typical * float(factors[0].prod()), table.iloc[strongest].reset_index(drop=True)


def about(feature: str) -> str:
    """Return what a feature measures, in words."""
    if feature.startswith("type:"):
        return f"how many {feature.removeprefix('type:')}"
    if feature.startswith("category:"):
        return f"what the {feature.split(':')[1]} nodes hold"
    return next((words for words, begins in CONTENTS if feature.startswith(begins)), feature)


def replay(results: StudyResults, counts: np.ndarray, workload: str) -> Bottleneck:
    """Simulate a package on one workload and find what its waiting jobs lacked."""
    with step(f"replaying {workload}"):
        run, nodes = replayed(results.plan, counts, workload, results.policy)
        return find_bottleneck(run.schedule, nodes)


def marginal_values(results: StudyResults, counts: np.ndarray) -> pd.DataFrame:
    """Simulate a package, int64[n_types], with one more node of each quoted type; a row each, most saved per dollar
    first.

    ``type``, ``usd`` (what the order then costs more, after discounts), ``mean_wait_time``, ``saved_seconds`` of mean
    wait per job (negative = jobs wait longer: best fit knows no guarantee that more nodes help),
    ``saved_per_1000_usd``, ``more_jobs`` that can run then, ``allowed`` (by the study's rules, the budget apart) and
    ``beyond_usd`` (what the order then costs more than the budget, or 0).
    """
    tried = np.vstack([counts, counts + np.eye(len(counts), dtype=np.int64)])
    plan, rules = results.plan, results.plan.study.packages
    found = try_everywhere(results, tried)
    wait, left_out = found["mean_wait_time"].to_numpy(), found["jobs_left_out"].to_numpy()
    cents = order_cents(tried, plan.quotes, rules)
    usd = (cents[1:] - cents[0]) / 100
    saved = wait[0] - wait[1:]
    offer = build_constraints(plan.quotes, rules)
    table = pd.DataFrame(
        {
            "type": plan.types,
            "usd": usd,
            "mean_wait_time": wait[1:],
            "saved_seconds": saved,
            "saved_per_1000_usd": np.where(usd > 0, saved / np.where(usd > 0, usd, 1) * 1000, np.nan),
            "more_jobs": left_out[0] - left_out[1:],
            "allowed": offer.admits(tried[1:]),
            "beyond_usd": np.maximum(cents[1:] - offer.limits[0], 0) / 100,
        }
    )
    best = np.argsort(-table["saved_per_1000_usd"].to_numpy(), kind="stable")
    return table.iloc[best].reset_index(drop=True)
