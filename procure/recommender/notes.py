"""Sentences about a ranking: where it comes from and how it might be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from procure.evaluation.ranking import agreement
from procure.files.gpu_pools import models_of
from procure.models import Case
from procure.objectives import Quantity
from procure.packages.cost_notes import budget_notes
from procure.packages.costs import whole_order
from procure.packages.runnable import count_matrix, jobs_left_out, request_shapes
from procure.recommender.criteria import MEAN_WAIT, Criteria
from procure.recommender.values import Model, PackageValues
from procure.study.plan import Plan
from procure.study.rules import unlisted
from procure.sweep.results import PUBLISHED, RUNS_ALL, StudyResults, costs_of
from procure.sweep.store import study_status
from procure.sweep.trial import about_limits
from procure.text import be, counted, duration, listed, with_unit
from procure.workload.describe import multi_node_notes


def coverage(whole: Case, rule: str, n_before: int, n_searched: int, n_now: int, others: pd.Series) -> str:
    """Say how many packages there are, and of how many the wait is simulated, predicted, or unknown.

    ``n_before`` were simulated before, ``n_searched`` of them by searches, ``n_now`` to confirm the list; ``others``
    are the mean waits of those that are not simulated, NaN where none is predicted.
    """
    n, n_able, n_unknown = len(whole.packages), int(whole.runs_all.sum()), int(others.isna().sum())
    rest = "are ranked below" if rule == RUNS_ALL else "are ranked among them (published rule)"
    parts = [f"{len(others) - n_unknown:,} are predicted"] if len(others) > n_unknown else []
    parts += [f"{n_unknown:,} have no known wait"] if n_unknown else []
    searched = f" ({n_searched:,} of them by procure search)" if n_searched else ""
    return (
        f"{counted(n, 'distinct package')}: {n_able:,} run every job, {n - n_able:,} cannot and {rest}; "
        f"{n_before:,} were simulated before{searched}, {n_now:,} to confirm the list, "
        + (" and ".join(parts) or "so that all are simulated")
    )


def about_smaller(results: StudyResults, values: PackageValues) -> list[str]:
    """Say which packages a bound on the price has listed beside the study's."""
    n, usd = int(results.smaller.sum()), results.most_usd
    if not n or usd is None:
        return []
    if values.simulate is None:
        how = "what is predicted of them was learnt from dearer ones; without --no-verify some are simulated"
    else:
        how = f"{int((values.now & results.smaller).sum()):,} of them were simulated for this list"
    return [
        f"the bound on the price lists {counted(n, 'package')} that US$ {usd:,.0f} buys, to which no further node can "
        f"be added for it, beside those of the budget; {how}"
    ]


def meaning(of: Quantity, values: PackageValues, unbounded: bool) -> str:
    """Say what an objective or an axis is; ``unbounded``: nothing that is asked for depends on waits."""
    text = f"{of.name}" + (f" ({of.unit})" if of.unit else "") + f": {of.meaning}"
    if of.how == "cvar":
        text += f", here {values.cvar_share:.0%} of them by weight"
    if of.how == "regret-max":
        text += "; the best is that of the packages simulated so far"
    if of.per_workload and len(values.cases) == 1:
        text += "; with one workload that is the order by mean wait"
    if of.source != "result":
        text += "; known for every package without simulation"
        if unbounded:
            text += ". A package that is good by it may let jobs wait long: bound that with --constraint 'mean_wait<=…'"
    return text


def model_errors(models: Sequence[Model]) -> str:
    """Say how far off the models are out of fold."""
    if not models:
        return "every package that could lead the list is simulated, so no model was needed for its order"
    useful = [one for one in models if one.useful]
    parts = [_errors(useful)] if useful else []
    return "; ".join(parts + ([_no_model(models)] if len(useful) < len(models) else []))


def _errors(models: Sequence[Model]) -> str:
    if len(models) > 3:
        off = [one.predicted.relative_rmse for one in models]
        return (
            f"{len(off)} models predict what was not simulated: out of fold, their error (RMSE) is "
            f"{min(off):.0%} to {max(off):.0%} of that of always answering the mean"
        )
    return "; ".join(
        f"out of fold, a prediction of {one.what.replace('-', ' ')} is off by "
        f"{with_unit(one.predicted.rmse_seconds, one.unit)} (RMSE; always answering the mean: "
        f"{with_unit(one.predicted.constant_rmse_seconds, one.unit)})"
        for one in models
    )


def _no_model(models: Sequence[Model]) -> str:
    """Say of what there is no model, as it knows hardly more than the mean does."""
    bad = [one for one in models if not one.useful]
    of = (
        f"{len(bad)} of {counted(len(models), 'model')}"
        if len(models) > 3
        else " and ".join(one.what.replace("-", " ") for one in bad)
    )
    which = f"{of} {be(len(bad))} hardly better" if len(models) > 3 else f"there is no model of {of}: none is better"
    return f"{which} than always answering the mean; simulate more packages (sweep.sample)"


def confirmation(confirmed: bool, verified: bool, all_simulated: bool) -> str:
    """Say whether all that is shown is simulated; if not, whether simulating was tried."""
    if confirmed:
        better = "a better one may be among those that were not (procure search --method model looks for such, and "
        better = "" if all_simulated else f"{better}recommend takes them up), and "
        return f"every package of the list is simulated; {better}the jobs of another day may order them differently"
    way = "they could not be confirmed" if verified else "without --no-verify they are simulated"
    return f"the list holds predictions: the best of them are more likely too low than too high; {way}"


def existing(nodes: pd.DataFrame, wait: float | None) -> str:
    """Say which nodes every simulated system holds; ``wait`` on them alone, s, None if they cannot run every job."""
    n = counted(len(nodes), "existing node")
    cpus, gpus = (counted(int(nodes[f"{noun.lower()}s"].sum()), noun) for noun in ("CPU", "GPU"))
    text = (
        f"every simulated system holds {n} ({cpus}, {nodes['mem_mb'].sum() / 1000:,.0f} GB, {gpus}); "
        "the totals shown are those of the purchase only"
    )
    if wait is None:
        return text
    need = "" if wait else ", so that these jobs need no purchase"
    alone = f"the existing nodes run every job without any purchase; the mean wait is then {duration(wait)}{need}"
    return f"{text}; {alone}"


def ties(values: PackageValues, criteria: Criteria, among: np.ndarray, k: int) -> list[str]:
    """Say that no simulated package lets jobs wait, or that the first k and more share the least value.

    Of the rows ``among``, those that are predicted do not count; k is 0 for a front.
    """
    waits, known = values.value(MEAN_WAIT)
    rows = among[known[among]]
    of, heavier = criteria.objective, "a heavier load says more (procure workload slice --load)"
    if len(rows) > 1 and not waits[rows].max() > 0:
        rest = (
            "among those with equal figures the cheapest come first" if k else "the front is decided by its other axes"
        )
        return [
            f"no job waits under any of the {len(rows):,} packages that were simulated: with this workload, waits do "
            f"not tell packages apart, and {rest}; {heavier}"
        ]
    figures = values.value(of)[0][rows] if k and of.source == "result" else np.zeros(0)
    least = float(figures.min(initial=np.inf))
    n = int((figures == least).sum())
    if n < max(2, k):
        return []
    return [
        f"{n:,} of the {len(figures):,} packages that were simulated have the same least {of.name}, "
        f"{with_unit(least, of.unit)}: it does not tell these apart, and the cheapest of them come first; {heavier}"
    ]


def about_criteria(values: PackageValues, criteria: Criteria) -> list[str]:
    """Say what the order is by, and how many packages satisfy each constraint."""
    found: list[str] = []
    blind = not criteria.axes and not any(one.of.source == "result" for one in criteria.constraints)
    if criteria != Criteria():
        found += [meaning(of, values, blind) for of in criteria.axes or (criteria.objective,)]
    able = values.whole.runs_all if values.whole.runs_all.any() else np.ones(len(values.packages), dtype=bool)
    for one in criteria.bounds:
        figures, known = values.value(one.of)
        ok = one.holds(figures) & able
        text = f"{one.text}: satisfied by {int(ok.sum()):,} of {counted(int(able.sum()), 'package')}"
        if one.of.source == "result" and not known[able].all():
            text += f", {int((ok & known).sum()):,} of these as simulated, the others as predicted"
        found.append(text)
    return found


def about_length(results: StudyResults, whole: Case, rule: str, asked: int, k: int, constrained: bool) -> list[str]:
    """Say whether the list is as long as was asked for, and whether it holds packages that leave jobs out."""
    found, n_able = [], int(whole.runs_all.sum())
    if asked > k:
        there = f"only {k:,} satisfy the constraints" if constrained else f"there {be(k)} only {k:,}"
        found.append(f"{asked:,} packages were requested; {there}")
    if not n_able:
        found.append(_none_able(results))
    elif k > n_able and rule == RUNS_ALL:
        found.append(
            f"only {counted(n_able, 'package')} can run every job: the list goes on with packages that leave some out"
        )
    if rule == PUBLISHED:
        found.append("the published rule counts only the jobs that ran, and so favours packages that leave jobs out")
    return found


def _most(plan: Plan) -> pd.DataFrame:
    """Return the most of each type that any package holds: what it leaves out, every package leaves out."""
    return pd.DataFrame([count_matrix(plan.packages, plan.quotes).max(axis=0)], columns=plan.types)


def left_out_by_all(results: StudyResults) -> int:
    """Count the jobs that every package leaves out: packages that leave out as many leave out the same."""
    plan, most = results.plan, _most(results.plan)
    workloads = (plan.workloads[case.name] for case in results.cases)
    return sum(int(jobs_left_out(most, plan.quotes, jobs, plan.existing)[0]) for jobs in workloads)


def _none_able(results: StudyResults) -> str:
    plan, left_out, lost = results.plan, left_out_by_all(results), []
    most = _most(plan)
    for case in results.cases:
        jobs = plan.workloads[case.name]
        for shape in request_shapes(jobs).to_dict(orient="records"):
            one = jobs.head(1).assign(**{str(name): shape[name] for name in shape if name != "n_jobs"})
            if jobs_left_out(most, plan.quotes, one, plan.existing)[0]:
                lost.append(shape)
    if not lost:
        return "no package runs every job, though each job is run by some package"
    order = ("gpus_per_node", "mem_mb_per_node", "cpus_per_node", "n_nodes")
    top = max(lost, key=lambda shape: [shape[name] for name in order])
    models = sorted({shape["gpu_type"] for shape in lost if shape["gpus_per_node"] > 0 and _no_such_gpu(plan, shape)})
    of_model = (
        f"; nobody offers the GPU model of some: {listed(models)} (procure study check shows how to map them)"
        if models
        else ""
    )
    return (
        f"no package runs every job; every package leaves out {left_out:,} of "
        f"{counted(sum(case.n_jobs for case in results.cases), 'job')}, the most demanding on "
        f"{counted(top['n_nodes'], 'node')} with {counted(top['cpus_per_node'], 'CPU')}, "
        f"{top['mem_mb_per_node'] / 1000:,.1f} GB and {counted(top['gpus_per_node'], 'GPU')} each{of_model}"
    )


def _no_such_gpu(plan: Plan, shape: dict[Any, Any]) -> bool:
    """Tell whether a request names only GPU models that no quote and no existing node has."""
    asked = models_of(shape["gpu_type"])
    tables = [plan.quotes, *([] if plan.existing is None else [plan.existing])]
    there = [models_of(text) for table in tables for text in table.loc[table["gpus"] > 0, "gpu_type"]]
    return bool(asked) and all(models and not asked & models for models in there)


def about_results(results: StudyResults) -> list[str]:
    """Say which runs of the study are missing, failed, or beyond its plan; or that a search chose its packages."""
    if results.plan.searched is not None:
        return [
            f"the rules allow {unlisted(results.plan.study, results.plan.searched)}: these "
            f"{len(results.plan.packages):,} are those that searches have simulated; procure search goes on"
        ]
    counts, path = study_status(results.plan), results.plan.study.path
    lines: list[str] = []
    if counts["n_missing"]:
        lines.append(
            f"{counts['n_missing']:,} of {counted(counts['n_runs_planned'], 'planned run')} "
            f"{be(counts['n_missing'])} missing: procure sweep {path}"
        )
    if counts["n_failed"]:
        failed = results.results[results.results["status"] != "ok"].iloc[0]
        lines.append(
            f"{counted(counts['n_failed'], 'run')} of the sweep failed, so the packages count as not simulated; the "
            f"first: {failed['package_id']}: {failed['reason']}"
        )
    if counts["n_beyond_plan"]:
        lines.append(
            f"{counted(counts['n_beyond_plan'], 'result')} {be(counts['n_beyond_plan'])} not in the study file's plan "
            "(an earlier sweep of more packages), and used too"
        )
    return lines


def about_jobs(results: StudyResults, first: int) -> list[str]:
    """Say how run times are scaled, whether jobs are cut at their limit, and how many ask for several nodes.

    ``first`` is the row of the first package, on which those that are cut are counted.
    """
    plan = results.plan
    lines = plan.study.speed_notes(plan.quotes, plan.existing, [case.name for case in results.cases])
    jobs = {case.name: results.plan.workloads[case.name] for case in results.cases}
    limits = about_limits(plan, results.counts[first], jobs, results.policy, "the first package")
    return [*lines, limits, *multi_node_notes(jobs)]


def about_policies(results: StudyResults, whole: Case, k: int) -> list[str]:
    """Compare the order with that under each other policy of the study, over packages simulated under both."""
    able = set(whole.packages["package_id"].to_numpy()[whole.runs_all])
    rows = results.results
    rows = rows[
        rows["workload"].isin([case.name for case in results.cases])
        & (rows["status"] == "ok")
        & rows["package_id"].isin(able)
    ]
    waits = rows.pivot_table(index="package_id", columns="policy", values="mean_wait_time", sort=False)
    lines: list[str] = []
    for other in waits.columns.drop(results.policy, errors="ignore") if results.policy in waits else []:
        both = waits[[results.policy, other]].dropna()
        if len(both) < 2:
            continue
        found = agreement(both[results.policy].to_numpy(), both[other].to_numpy(), k)
        lines.append(
            f"under {other}, of {len(both):,} packages that were simulated under both policies: rank correlation "
            f"{found.correlation:.2f}, {found.n_shared} of the best {found.k} are the same; the best here has rank "
            f"{found.rank_of_first:,} there, where {both.index[found.best]} is best"
        )
    return lines


def about_budget(results: StudyResults, rows: np.ndarray) -> list[str]:
    """Say by how much the whole order of the first package, and of how many of these, is above the budget.

    ``rows`` are of the package table, best first.
    """
    study = results.plan.study
    packages = results.cases[0].packages.iloc[rows]
    weights = {case.name: case.weight for case in results.cases}
    whole = whole_order(costs_of(results.plan, packages, weights), study.costs)
    above = np.round(whole - study.packages.budget_usd, 2)
    n = int((above > 0).sum())
    if not n:
        return []
    first = (
        f"that of the first package comes to US$ {whole[0]:,.2f}, US$ {above[0]:,.2f} more"
        if above[0] > 0
        else f"not that of the first package, US$ {whole[0]:,.2f}"
    )
    which = f"{n:,} of the {len(rows):,} packages of the list" if len(rows) > 1 else "the package"
    return [
        f"budget: the whole order (with racks, network, percentages and tax, which turn on it) of {which} is above "
        f"US$ {study.packages.budget_usd:,.2f}; {first}",
        *budget_notes(study.packages, study.costs),
    ]
