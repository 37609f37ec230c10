"""What the user should know of a ranking: one table of conditions and sentences, in the order in which they matter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from procure.comparison.owners import say_owners, what_each_got
from procure.errors import TableError
from procure.objectives import Quantity
from procure.packages.cost_notes import budget_notes, cost_notes
from procure.packages.costs import whole_order
from procure.packages.runnable import count_matrix, jobs_left_out, request_shapes
from procure.recommender.criteria import MEAN_WAIT, Criteria
from procure.recommender.recommendation import Recommendation
from procure.recommender.values import Model, PackageValues
from procure.recommender.waiting import about_waiting
from procure.study.plan import Plan
from procure.study.rules import unlisted
from procure.sweep.results import PUBLISHED, RUNS_ALL, StudyResults, costs_of
from procure.sweep.store import study_status
from procure.sweep.trial import about_limits, replayed, try_everywhere
from procure.text import be, counted, duration, with_unit
from procure.workload.describe import multi_node_notes
from procure.workload.futures import WEEK
from procure.workload.replay import counted_jobs


def notes_of(done: Recommendation, asked: int, n_before: int, n_searched: int, failures: list[str]) -> list[str]:
    """Say who waits on the first package and what would change it; then where the order comes from.

    Parameters
    ----------
    done
        Without its notes.
    asked
        So many packages were asked for.
    n_before, n_searched
        So many were simulated before, and so many of these by searches.
    failures
        Why runs failed.
    """
    results, criteria, values = done.results, done.criteria, done.package_values
    study, plan, is_list = results.plan.study, results.plan, done.front is None
    first = int(done.ranking["row"].iloc[0])
    left = done.ranking.loc[~done.ranking["simulated"], "mean_wait_time"]
    head = first if done.front is None else int(done.front["row"].iloc[0])
    jobs = {case.name: plan.workloads[case.name] for case in results.cases}
    runs = counted(done.n_failed, "confirming run")
    rows: list[tuple[object, Any]] = [
        (is_list, lambda: about_waiting(done)),
        (done.other_loads, lambda: done.other_loads.sentences() if done.other_loads else []),
        (True, done.waited.sentences),
        (True, lambda: _coverage(done, n_before, n_searched, left)),
        (done.exchanged, lambda: done.exchanged.sentence() if done.exchanged else []),
        (True, lambda: _about_criteria(values, criteria)),
        (criteria.need_runs, lambda: model_errors(done.models if len(left) else ())),
        (len(values.costs.columns), lambda: cost_notes(plan.quotes, study.costs, plan.existing)),
        (is_list and study.costs.beyond_budget, lambda: _about_budget(done)),
        (done.confirmed or criteria.need_runs, lambda: _confirmation(done, not len(left))),
        (is_list, lambda: list(_about_length(done, asked))),
        (done.rule == PUBLISHED, "the published rule counts only jobs that ran, so it favours packages that leave "
                                 "jobs out"),
        (True, lambda: ties(values, criteria, _comparable(done), done.k if is_list else 0)),
        (is_list, lambda: _saturated(results, values, first)),
        (is_list and study.owners, lambda: _about_owners(results, first)),
        (True, lambda: about_results(results)),
        (failures, f"{runs} failed, and those packages stay unconfirmed; the first: {failures[:1] and failures[0]}"),
        (True, lambda: study.speed_notes(plan.quotes, plan.existing, list(jobs))),
        (True, lambda: about_limits(plan, results.counts[head], jobs, results.policy, "the first package")),
        (True, lambda: multi_node_notes(jobs)),
        (plan.existing is not None and len(plan.existing), lambda: _about_existing(results)),
    ]  # fmt: skip
    found: list[str] = []
    for applies, what in rows:
        if applies:
            said = what() if callable(what) else what
            found += [said] if isinstance(said, str) else said
    return found


def _coverage(done: Recommendation, n_before: int, n_searched: int, left: pd.Series) -> str:
    """Say how many packages there are, and of how many the wait is simulated, predicted, or unknown."""
    n, n_able, n_unknown = len(done.case.packages), int(done.case.runs_all.sum()), int(left.isna().sum())
    rest = "are ranked below" if done.rule == RUNS_ALL else "are ranked among them (published rule)"
    parts = [f"{len(left) - n_unknown:,} are predicted"] if len(left) > n_unknown else []
    parts += [f"{n_unknown:,} have no known wait"] if n_unknown else []
    searched = f" ({n_searched:,} of them by procure search)" if n_searched else ""
    return (
        f"{counted(n, 'distinct package')}: {n_able:,} run every job, {n - n_able:,} cannot and {rest}; "
        f"{n_before:,} were simulated before{searched}, {done.n_verified:,} to confirm the list, "
        + (" and ".join(parts) or "so that all are simulated")
    )


def _about_criteria(values: PackageValues, criteria: Criteria) -> list[str]:
    """Say what the order is by, and how many packages satisfy each constraint."""
    found: list[str] = []
    blind = not criteria.axes and not any(one.of.source == "result" for one in criteria.constraints)
    if criteria != Criteria():
        found += [_meaning(of, values, blind) for of in criteria.axes or (criteria.objective,)]
    able = values.whole.runs_all if values.whole.runs_all.any() else np.ones(len(values.packages), dtype=bool)
    for one in criteria.bounds:
        figures, known = values.value(one.of)
        ok = one.holds(figures) & able
        name = f"target {one.of.job_class or 'all'}, " if one in criteria.targets else ""
        text = f"{name}{one.text}: satisfied by {int(ok.sum()):,} of {counted(int(able.sum()), 'package')}"
        if one.of.source == "result" and not known[able].all():
            text += f", {int((ok & known).sum()):,} of these as simulated, the others as predicted"
        found.append(text)
    return found


def _meaning(of: Quantity, values: PackageValues, unbounded: bool) -> str:
    """Say what an objective or an axis is; ``unbounded``: nothing that is asked for depends on waits."""
    text = f"{of.name}" + (f" ({of.unit})" if of.unit else "") + f": {of.meaning}"
    if of.how == "cvar":
        text += f", here {values.cvar_share:.0%} of them by weight"
    if of.source != "result":
        text += "; known for every package without simulation"
        if unbounded:
            text += ". Jobs may wait long on a package that is good by it: bound that with --constraint 'mean_wait<=…'"
    return text


def model_errors(models: Sequence[Model]) -> str:
    """Say how far off the models are out of fold, and which of them are of no use."""
    if not models:
        return "every package that could lead the list is simulated, so its order needs no model"
    useful, bad = ([one for one in models if one.useful is good] for good in (True, False))
    off = [one.predicted.relative_rmse for one in useful]
    said = [
        f"out of fold, a prediction of {one.what.replace('-', ' ')} is off by "
        f"{with_unit(one.predicted.rmse_seconds, one.unit)} (RMSE; always answering the mean: "
        f"{with_unit(one.predicted.constant_rmse_seconds, one.unit)})"
        for one in useful
    ]
    if len(useful) > 3:
        said = [f"{len(off)} models predict what was not simulated; their error is {min(off):.0%} to {max(off):.0%} of "
                "that of always answering the mean"]  # fmt: skip
    if bad:
        of = " and ".join(one.what.replace("-", " ") for one in bad) if len(models) <= 3 else f"{len(bad)} waits"
        said.append(f"no model of {of} beats always answering the mean; simulate more packages (sweep.sample)")
    return "; ".join(said)


def _confirmation(done: Recommendation, all_simulated: bool) -> str:
    """Say whether all that is shown is simulated; if not, whether simulating was tried."""
    if done.confirmed:
        more = "" if all_simulated else "; procure search --method model looks for better ones among the others"
        return f"every package of the list is simulated; jobs of another day may order them differently{more}"
    way = "they could not be confirmed" if done.verified else "without --no-verify they are simulated"
    return f"the list holds predictions, the best of them more likely too low than too high; {way}"


def _about_budget(done: Recommendation) -> list[str]:
    """Say by how much the whole order of the first package, and of how many of the list, is above the budget."""
    study, rows = done.results.plan.study, done.ranking["row"].to_numpy()[: done.k]
    packages = done.case.packages.iloc[rows]
    costs = costs_of(done.results.plan, packages, {case.name: case.weight for case in done.results.cases})
    whole = whole_order(costs, study.costs)
    above = np.round(whole - study.packages.budget_usd, 2)
    n = int((above > 0).sum())
    if not n:
        return []
    more = f", US$ {above[0]:,.2f} more" if above[0] > 0 else ""
    return [
        f"budget: with racks, network, percentages and tax {n:,} of {counted(len(rows), 'package')} of the list cost "
        f"more than US$ {study.packages.budget_usd:,.2f}; the first comes to US$ {whole[0]:,.2f}{more}",
        *budget_notes(study.packages, study.costs),
    ]


def _about_length(done: Recommendation, asked: int) -> Iterator[str]:
    """Say whether the list is as long as was asked for, and whether it holds packages that leave jobs out."""
    n_able = int(done.case.runs_all.sum())
    if asked > done.k:
        kept = "satisfies" in done.ranking and bool(done.ranking["satisfies"].any())
        there = f"only {done.k:,} satisfy the constraints" if kept else f"there {be(done.k)} only {done.k:,}"
        yield f"{asked:,} packages were requested; {there}"
    if not n_able:
        yield _none_able(done.results)
    elif done.k > n_able and done.rule == RUNS_ALL:
        yield f"only {counted(n_able, 'package')} can run every job; the others of the list leave some out"


def _comparable(done: Recommendation) -> np.ndarray:
    """Return the rows that ties are looked for among: those that keep what is asked for and run the most jobs."""
    if done.front is not None:
        able = done.case.runs_all
        return np.flatnonzero(able if able.any() else ~able)
    best = done.ranking["jobs_left_out"] == done.ranking["jobs_left_out"].min()
    keep = done.ranking.get("satisfies", pd.Series(True, index=done.ranking.index))
    return done.ranking.loc[best & (keep | ~keep.any()), "row"].to_numpy()


def ties(values: PackageValues, criteria: Criteria, among: np.ndarray, k: int) -> list[str]:
    """Say that no simulated package lets jobs wait, or that the first k and more share the least value.

    Of the rows ``among``, those that are predicted do not count; k is 0 for a front.
    """
    waits, known = values.value(MEAN_WAIT)
    rows = among[known[among]]
    of, heavier = criteria.objective, "try a heavier load (procure workload slice --load)"
    if len(rows) > 1 and not waits[rows].max() > 0:
        by = "so the list is sorted by price" if k else "so the front is decided by its other axes"
        return [f"no job waits on any of the {len(rows):,} simulated packages, {by}; {heavier}"]
    figures = values.value(of)[0][rows] if k and of.source == "result" else np.zeros(0)
    least = float(figures.min(initial=np.inf))
    n = int((figures == least).sum())
    if n < max(2, k):
        return []
    return [
        f"{n:,} of the {len(figures):,} simulated packages share the least {of.name}, {with_unit(least, of.unit)}; the "
        f"cheapest come first; {heavier}"
    ]


def _saturated(results: StudyResults, values: PackageValues, row: int) -> list[str]:
    """Warn of a package whose queue grows to the end of a workload of a week or more."""
    long, plan = [], results.plan
    for case, saturated in zip(values.cases, values.results.get("saturated", ()), strict=False):
        submit = counted_jobs(plan.workloads[case.name], plan.warm_up(case.name))["submit_time"]
        if saturated[row] > 0 and submit.max() - submit.min() >= WEEK:
            long.append(case.name)
    return [
        f"the first package saturates on {name}: its queue grows to the end, so its mean wait depends on the length of "
        "the log; it needs more money, or fewer jobs"
        for name in long
    ]


def _about_owners(results: StudyResults, row: int) -> list[str]:
    """Say what each group that owns nodes gets of a package, against what it paid."""
    case = max(results.cases, key=lambda one: one.n_jobs)
    run, nodes = replayed(results.plan, results.counts[row], case.name, results.policy)
    owners = results.plan.study.owners
    return [f"on {case.name}, {line}" for line in say_owners(what_each_got(run.schedule, nodes, owners))]


def _about_existing(results: StudyResults) -> str:
    """Say what existing nodes there are; simulate the jobs on them alone, if these run every job."""
    plan, nodes = results.plan, results.plan.existing
    assert nodes is not None
    cpus, gpus = (counted(int(nodes[f"{noun.lower()}s"].sum()), noun) for noun in ("CPU", "GPU"))
    text = (
        f"every simulated system holds {counted(len(nodes), 'existing node')} ({cpus}, "
        f"{nodes['mem_mb'].sum() / 1000:,.0f} GB, {gpus}); the totals shown are those of the purchase only"
    )
    nothing = np.zeros((1, len(plan.types)), dtype=np.int64)
    bought = pd.DataFrame(nothing, columns=plan.types)
    if any(jobs_left_out(bought, plan.quotes, plan.workloads[one.name], nodes)[0] for one in results.cases):
        return text
    with contextlib.suppress(TableError):  # a run failed
        wait = float(try_everywhere(results, nothing)["mean_wait_time"].iloc[0])
        need = "" if wait else ", so that these jobs need no purchase"
        text += f"; alone they run every job, with a mean wait of {duration(wait)}{need}"
    return text


def _most(plan: Plan) -> pd.DataFrame:
    """Return the most of each type that any package holds: what it leaves out, every package leaves out."""
    return pd.DataFrame([count_matrix(plan.packages, plan.quotes).max(axis=0)], columns=plan.types)


def left_out_by_all(results: StudyResults) -> int:
    """Count the jobs that every package leaves out: packages that leave out as many leave out the same."""
    plan, most = results.plan, _most(results.plan)
    workloads = (plan.workloads[case.name] for case in results.cases)
    return sum(int(jobs_left_out(most, plan.quotes, jobs, plan.existing)[0]) for jobs in workloads)


def _none_able(results: StudyResults) -> str:
    plan, most, lost = results.plan, _most(results.plan), []
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
    return (
        f"no package runs every job; every package leaves out {left_out_by_all(results):,} of "
        f"{counted(sum(case.n_jobs for case in results.cases), 'job')}, the most demanding on "
        f"{counted(top['n_nodes'], 'node')} with {counted(top['cpus_per_node'], 'CPU')}, "
        f"{top['mem_mb_per_node'] / 1000:,.1f} GB and {counted(top['gpus_per_node'], 'GPU')} each; procure study check "
        "says whether a GPU model is missing"
    )


def about_results(results: StudyResults) -> list[str]:
    """Say which runs of the study are missing, failed, or beyond its plan; or that a search chose its packages."""
    plan = results.plan
    if plan.searched is not None:
        return [
            f"the rules allow {unlisted(plan.study, plan.searched)}: these {len(plan.packages):,} are those that "
            "searches have simulated; procure search goes on"
        ]
    counts = study_status(plan)
    missing, failed, beyond = (counts[name] for name in ("n_missing", "n_failed", "n_beyond_plan"))
    bad = results.results[results.results["status"] != "ok"].head(1)
    first = "".join(f"{one.package_id}: {one.reason}" for one in bad.itertuples())
    planned, more = counted(counts["n_runs_planned"], "planned run"), counted(beyond, "result")
    rows = (
        (missing, f"{missing:,} of {planned} {be(missing)} missing: procure sweep {plan.study.path}"),
        (failed, f"{counted(failed, 'run')} of the sweep failed, so the packages count as not simulated; the first: "
                 f"{first}"),
        (beyond, f"{more} {be(beyond)} not in the study file's plan (an earlier sweep of more packages), and used too"),
    )  # fmt: skip
    return [text for n, text in rows if n]
