"""Why jobs wait as long as they do on a package: the model's factors, the bottleneck, the value of one more node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.explanation.bottleneck import WORDS, Bottleneck, find_bottleneck
from procure.models import Predicted, WorkloadWaits, features
from procure.objectives.aggregate import pooled_mean
from procure.packages.constraints import build_constraints
from procure.packages.nodes import package_ids, request_text
from procure.packages.prices import order_cents
from procure.progress import step
from procure.simulator.metrics import METRIC_NAMES
from procure.sweep.results import StudyResults
from procure.sweep.trial import replayed, simulate_once, try_everywhere
from procure.text import counted, duration

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
    """Simulate a package, int64[n_types], with one more node of each type; most saved per dollar first.

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


_STRONGEST = 5


def differences(one: PackageExplanation, other: PackageExplanation) -> pd.DataFrame:
    """Compare two packages: ``what item first second difference`` (first − second; of factors the ratio)."""
    rows: list[tuple[str, str, float, float]] = [("price", "US$", one.price_usd, other.price_usd)]
    kinds = list(dict.fromkeys([*one.counts, *other.counts]))
    rows += [("nodes", kind, one.counts.get(kind, 0), other.counts.get(kind, 0)) for kind in kinds]
    rows += [("total", name, one.totals[name], other.totals[name]) for name in one.totals]
    rows.append(("wait, s", "all", one.wait, other.wait))
    both = one.waits.merge(other.waits, on="workload", suffixes=("", "_other"))
    if len(both) > 1:
        rows += [("wait, s", str(r.workload), r.mean_wait_time, r.mean_wait_time_other) for r in both.itertuples()]
    mine, theirs = (int(each.waits["jobs_left_out"].sum()) for each in (one, other))
    rows.append(("jobs left out", "all", mine, theirs))
    for workload, here in one.bottlenecks.items():
        shares = [(WORDS[cause], here.share(cause), other.bottlenecks[workload].share(cause)) for cause in here.seconds]
        rows += [("share of waiting for", *share) for share in shares if any(share[1:])]
    table = pd.DataFrame(rows, columns=["what", "item", "first", "second"])
    table["difference"] = table["first"] - table["second"]
    factors = _factors_of(one, other).head(_STRONGEST).assign(what="factor")
    return pd.concat([table, factors[table.columns]], ignore_index=True)


def _factors_of(one: PackageExplanation, other: PackageExplanation) -> pd.DataFrame:
    """Return the factors of both, ``item first second difference``, those that differ most first."""
    both = one.grouped.merge(other.grouped, on="about", suffixes=("", "_other"))
    both = both.rename(columns={"about": "item", "factor": "first", "factor_other": "second"})
    both["difference"] = both["first"] / both["second"]
    return both.iloc[np.argsort(-np.abs(np.log(both["difference"].to_numpy(dtype="float64"))), kind="stable")]


def sentences(one: PackageExplanation) -> list[str]:
    """Explain a package in sentences; one that begins with spaces belongs to the list before it."""
    totals, left_out, grouped = one.totals, int(one.waits["jobs_left_out"].sum()), one.grouped
    lines = [
        f"{', '.join(f'{n} × {kind}' for kind, n in one.counts.items())}: US$ {one.price_usd:,.0f} for "
        f"{totals['cpus']:,.0f} CPUs, {totals['mem_gb']:,.0f} GB and {totals['gpus']:,.0f} GPUs in "
        f"{totals['nodes']:,.0f} nodes; jobs wait {duration(one.wait)} on average"
    ]
    if left_out:
        lines.append(f"{counted(left_out, 'job')} cannot run on any of its nodes")
    if len(grouped):
        lines.append(
            f"the model predicts a mean wait of {duration(one.predicted_seconds)}, against "
            f"{duration(one.typical_seconds)} for a typical package, because of:"
        )
        factors = list(zip(grouped["about"], grouped["factor"], strict=True))
        rest = [("everything else", float(np.prod([one for _, one in factors[_STRONGEST:]])))]
        for what, factor in factors[:_STRONGEST] + rest * (len(factors) > _STRONGEST):
            size = f"{1 - factor:.0%} less" if factor < 1 else f"{factor - 1:.0%} more"
            size = size if factor < 2 else f"{factor:.1f} times the"
            lines.append(f"  {what}: " + (f"×{factor:.2f}, {size} waiting" if abs(factor - 1) > 0.005 else "no effect"))
    lines += [_waited_for(workload, bottleneck) for workload, bottleneck in one.bottlenecks.items()]
    return lines + marginal_sentences(one)


def marginal_sentences(one: PackageExplanation) -> list[str]:
    """Say which further node, of those that the study's rules allow, shortens the wait most for its price.

    And whether the budget suffices for it; empty if none was tried.
    """
    if not len(one.marginal):
        return []
    better = one.marginal[one.marginal["saved_seconds"] > 0]
    allowed = better[better["allowed"]] if len(better) else better
    if not len(allowed):
        which = "any type" if not len(better) else "a type that the study's rules allow"
        return [f"one more node of {which} would not shorten the wait"]
    first, beyond = allowed.iloc[0], allowed["beyond_usd"].iloc[0]
    which = "all types" if one.marginal["allowed"].all() else "the types that the rules allow"
    return [
        f"one more {first['type']} (US$ {first['usd']:,.0f}) would shorten the mean wait by "
        f"{duration(first['saved_seconds'])}, {duration(first['saved_per_1000_usd'])} per US$ 1,000: the most for the "
        f"money of {which}" + (f"; that is US$ {beyond:,.0f} beyond the budget" if beyond else "")
    ]


def comparison_sentences(one: PackageExplanation, other: PackageExplanation) -> list[str]:
    """Say on which of two packages jobs wait less, and why."""
    if not (one.wait > 0 or other.wait > 0):
        return ["no job waits on either"]
    better, worse = (one, other) if one.wait <= other.wait else (other, one)
    short, long = duration(better.wait), duration(worse.wait)
    lines = [f"jobs wait equally long on both: {short}"]
    if better.wait < worse.wait:
        instead = f": {short} against {long}" if short != long else ""
        less = duration(worse.wait - better.wait)
        lines = [f"jobs wait {less} less on {better.package_id} than on {worse.package_id}{instead}"]
        if len(one.waits) > 1:
            shorter = better.waits["mean_wait_time"].to_numpy() < worse.waits["mean_wait_time"].to_numpy()
            lines.append(f"they wait less on {int(shorter.sum())} of {len(one.waits)} workloads")
    factors = _factors_of(one, other)
    same_way = (factors["difference"] < 1) if one.wait < other.wait else (factors["difference"] > 1)
    for most in factors[same_way].head(1 if one.wait != other.wait else 0).itertuples():
        lines.append(
            f"the model attributes most of the difference to {most.item}: ×{most.first:.2f} for the first, "
            f"×{most.second:.2f} for the second"
        )
    return lines


def _waited_for(workload: str, bottleneck: Bottleneck) -> str:
    total = bottleneck.total_seconds
    if not total:
        return f"on {workload} no job waits"
    shares = sorted(((bottleneck.share(cause), WORDS[cause]) for cause in bottleneck.seconds), reverse=True)
    parts = ", ".join(f"{share:.0%} {word}" for share, word in shares if share >= 0.005)
    text = f"what jobs of workload {workload} waited for, by waiting time: {parts}"
    fragmented = bottleneck.fragmented_seconds / total
    if fragmented >= 0.005:
        text += f"; for {fragmented:.0%} of it enough was free in total, but on no single node"
    for top in bottleneck.shapes.head(1).to_dict(orient="records"):
        text += (
            f"; {top['waited_seconds'] / total:.0%} of it falls on jobs on {request_text(top)}, which "
            f"{counted(top['n_able'], 'node')} can hold"
        )
    return text
