"""Why jobs wait as long as they do on a package, or more or less than on another: factors, bottleneck, a node more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.explanation.bottleneck import WORDS, Bottleneck, find_bottleneck
from procure.models import Predicted, WorkloadWaits, features, pool_workloads
from procure.objectives.aggregate import pooled_mean
from procure.packages.constraints import build_constraints
from procure.packages.nodes import package_ids, request_text
from procure.packages.prices import order_cents
from procure.progress import silent, step
from procure.simulator.metrics import METRIC_NAMES
from procure.study import Study
from procure.sweep.results import StudyResults, load_results
from procure.sweep.trial import about_limits, find_package, replayed, simulate_once, try_everywhere
from procure.text import as_html, as_html_list, counted, duration

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
    mean_wait_time jobs_left_out simulated_before``, ``wait`` is the mean over all jobs that ran, s. The model predicts
    ``typical_seconds`` for a typical package and, for this one, ``predicted_seconds``, NaN without a model: typical ×
    all ``factors``, ``about feature value factor``, strongest first. ``bottlenecks``: by replayed workload.
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
    types, name = results.plan.types, package_ids(counts[None, :], results.plan.types)[0]
    row = int(np.flatnonzero((whole.packages["package_id"] == name).to_numpy())[0])
    package, waits = whole.packages.iloc[row], _waits(results, row)
    ran = np.array([[case.weight * case.n_ran[row]] for case in results.cases])
    wait = float(pooled_mean(waits[["mean_wait_time"]].to_numpy(dtype="float64"), ran)[0])
    bought = {kind: int(n) for kind, n in zip(types, counts, strict=True) if n}
    totals = {total: float(package[f"total_{total}"]) for total in ("cpus", "mem_gb", "gpus")}
    totals["nodes"] = float(counts.sum())
    factors = _factors(results, whole, predicted, row)
    lacked = {workload: replay(results, counts, workload) for workload in replayed}
    values = marginal_values(results, counts) if marginal else pd.DataFrame()
    return PackageExplanation(name, bought, float(package["price_usd"]), totals, waits, wait, *factors, lacked, values)


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
    x = features(whole.packages.iloc[[row]], results.plan.quotes, results.plan.study.model.feature_set)
    typical, factors = predicted.model.contributions(x)
    table = pd.DataFrame({"about": [about(name) for name in x], "feature": x.columns, "value": x.iloc[0].to_numpy()})
    table = table.assign(factor=factors[0]).iloc[np.argsort(-np.abs(np.log(factors[0])), kind="stable")]
    return typical, typical * float(factors[0].prod()), table.reset_index(drop=True)


def about(feature: str) -> str:
    """Return what a feature measures, in words."""
    kind, _, name = feature.partition(":")
    if name:
        return f"how many {name}" if kind == "type" else f"what the {name.split(':')[0]} nodes hold"
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
    table = pd.DataFrame({"type": plan.types, "usd": usd, "mean_wait_time": wait[1:], "saved_seconds": saved}).assign(
        saved_per_1000_usd=np.where(usd > 0, saved / np.where(usd > 0, usd, 1) * 1000, np.nan),
        more_jobs=left_out[0] - left_out[1:],
        allowed=offer.admits(tried[1:]),
        beyond_usd=np.maximum(cents[1:] - offer.limits[0], 0) / 100,
    )
    return table.sort_values("saved_per_1000_usd", ascending=False, kind="stable", ignore_index=True)


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
    saved, each = (duration(first[name]) for name in ("saved_seconds", "saved_per_1000_usd"))
    text = f"one more {first['type']} (US$ {first['usd']:,.0f}) would shorten the mean wait by {saved}"
    more = f"; that is US$ {beyond:,.0f} beyond the budget" if beyond else ""
    return [f"{text}, {each} per US$ 1,000: the most for the money of {which}{more}"]


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
        two = f"×{most.first:.2f} for the first, ×{most.second:.2f} for the second"
        lines.append(f"the model attributes most of the difference to {most.item}: {two}")
    return lines


def _waited_for(workload: str, bottleneck: Bottleneck) -> str:
    total = bottleneck.total_seconds
    if not total:
        return f"on {workload} no job waits"
    shares = sorted(((bottleneck.share(cause), WORDS[cause]) for cause in bottleneck.seconds), reverse=True)
    parts = ", ".join(f"{share:.0%} {word}" for share, word in shares if share >= 0.005)
    text = f"what jobs of workload {workload} waited for, by waiting time: {parts}"
    if (fragmented := bottleneck.fragmented_seconds / total) >= 0.005:
        text += f"; for {fragmented:.0%} of it enough was free in total, but on no single node"
    for top in bottleneck.shapes.head(1).to_dict(orient="records"):
        text += (
            f"; {top['waited_seconds'] / total:.0%} of it falls on jobs on {request_text(top)}, which "
            f"{counted(top['n_able'], 'node')} can hold"
        )
    return text


_N_SHAPES = 8


@dataclass(frozen=True)
class Explanation:
    """Why jobs wait so long on one package, or two; ``notes``: what is not explained, and jobs cut at their limit."""

    study: str
    packages: list[PackageExplanation]
    notes: list[str] = field(default_factory=list)

    @property
    def differences(self) -> pd.DataFrame:
        """Two packages side by side: ``what item first second difference``; empty for one."""
        return differences(*self.packages) if len(self.packages) == 2 else pd.DataFrame()

    @property
    def table(self) -> pd.DataFrame:
        """All figures as one long table: ``package_id section item value``."""
        rows: list[tuple[str, str, str, Any]] = []
        for one in self.packages:
            mine: list[tuple[str, str, Any]] = [("count", kind, n) for kind, n in one.counts.items()]
            mine += [("total", "price_usd", one.price_usd), ("wait", "all", one.wait)]
            mine += [("wait", row.workload, row.mean_wait_time) for row in one.waits.itertuples()]
            mine += [("factor", row.feature, row.factor) for row in one.factors.itertuples()]
            for workload, bottleneck in one.bottlenecks.items():
                mine += [(f"lacked_seconds {workload}", cause, s) for cause, s in bottleneck.seconds.items()]
            mine += [("saved_seconds", row.type, row.saved_seconds) for row in one.marginal.itertuples()]
            rows += [(one.package_id, *row) for row in mine]
        return pd.DataFrame(rows, columns=["package_id", "section", "item", "value"])

    def lines(self) -> list[str]:
        """Explain each package, and two beside each other, in sentences."""
        lines = [line for one in self.packages for line in (f"{self.study}: {one.package_id}", *sentences(one))]
        return lines + (comparison_sentences(*self.packages) if len(self.packages) == 2 else [])

    def summary(self) -> str:
        """Return the explanation as text."""
        return "\n".join([*self.notes, *self.lines()])

    def _repr_html_(self) -> str:
        tables = "".join(as_html(one.package_id, one.waits, sentences(one)) for one in self.packages)
        return as_html_list(self.notes) + tables

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as ``procure explain --format json`` prints it."""
        packages, apart = [_plain(one) for one in self.packages], self.differences.to_dict(orient="records")
        return {"packages": packages, "differences": apart}


def explain(
    study: str | Path | Study | StudyResults,
    package_id: str,
    other: str | None = None,
    *,
    workload: str | None = None,
    policy: str | None = None,
    marginal: bool = True,
    note: Callable[[str], None] = silent,
) -> Explanation:
    """Explain why jobs wait as long as they do on a package, and why more or less than on another.

    Parameters
    ----------
    study
        The path of a swept study, the study, or its results.
    package_id, other
        A package of the study, as `procure.recommend` names it, simulated now if it was not; another to compare with.
    workload, policy
        One of the study's; None = all its workloads, its first policy. The schedule of the workload with the longest
        wait is replayed.
    marginal, note
        Whether to simulate one more node of each type; called with a line on each step that takes long.

    Raises
    ------
    TableError
        The study has no such package, workload or policy (`ArgumentError`), no results yet, or a run failed.

    Examples
    --------
    >>> import procure
    >>> best = procure.recommend("study.toml", k=1).ranking["package_id"].iloc[0]
    >>> procure.explain("study.toml", best, marginal=False).summary() != ""
    True
    """
    if other == package_id:
        raise ArgumentError("other", f"the same package is given twice: {other}")
    results = load_results(study, policy, workload, search=True)
    counts = [find_package(results.plan, package_id)]
    if other is not None:
        counts.append(find_package(results.plan, other, "other"))
        if (counts[0] == counts[1]).all():
            raise ArgumentError("other", f"{other} is the same package as {package_id}")
    note(f"learning from the simulated packages; replaying {'both packages' if other else 'the package'}")
    whole = pool_workloads(results.cases)
    predicted = results.learn_if_useful(whole)
    unknown = f"{results.why_no_model(whole)}, and the effect of each feature is unknown" if predicted is None else ""
    names, waited = [case.name for case in results.cases], [longest_waiting(results.cases)]
    called = ("this package",) if other is None else ("the first package", "the second")
    about = zip(counts, called, strict=True)
    notes = [unknown, *(about_limits(results.plan, one, names, results.policy, which) for one, which in about)]
    packages = [explain_package(results, one, whole, predicted, waited, marginal) for one in counts]
    return Explanation(results.plan.study.name, packages, list(dict.fromkeys(filter(None, notes))))


def _plain(one: PackageExplanation) -> dict[str, Any]:
    keys = ("package_id", "counts", "price_usd", "totals", "wait", "typical_seconds", "predicted_seconds")
    tables = {"waits": one.waits, "factors": one.factors, "factors_by_subject": one.grouped, "marginal": one.marginal}
    plain, binding = {key: table.to_dict(orient="records") for key, table in tables.items()}, {}
    for workload, found in one.bottlenecks.items():
        booked = {"seconds": found.seconds, "spread_seconds": found.fragmented_seconds}
        over_time, requests = (t.to_dict(orient="records") for t in (found.over_time(), found.shapes.head(_N_SHAPES)))
        booked |= {"n_unrunnable": found.n_unrunnable, "over_time": over_time, "requests": requests}
        binding[workload] = booked
    return {key: getattr(one, key) for key in keys} | plain | {"binding": binding}
