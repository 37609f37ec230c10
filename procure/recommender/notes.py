"""What the user should know of a ranking: one table of conditions and sentences, in the order in which they matter."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.objectives import Quantity
from procure.packages.costs import budget_notes, cost_notes, whole_order
from procure.packages.nodes import count_matrix, jobs_left_out, request_shapes, request_text
from procure.recommender.confidence import load_notes
from procure.recommender.recommendation import Recommendation, about_waiting
from procure.recommender.rule_costs import shape_notes
from procure.recommender.values import Criteria, Model, PackageValues
from procure.schemas import as_logged
from procure.study.rules import unlisted
from procure.sweep.results import PUBLISHED, RUNS_ALL, StudyResults
from procure.sweep.store import verify
from procure.sweep.trial import about_limits, try_everywhere
from procure.text import be, counted, duration, with_unit
from procure.workload.describe import multi_node_notes, waiting_for_others

NO_WAIT = "no job waits on any simulated package, so price decides; try a heavier load (procure workload slice --load)"


def notes_of(done: Recommendation, asked: int, n_before: int, n_searched: int, failures: list[str]) -> list[str]:
    """Say who waits on the first package and what would change it; then where the order comes from.

    ``done`` is without its notes; ``asked`` packages were asked for, ``n_before`` were simulated before, ``n_searched``
    of these by searches; ``failures`` says why runs failed.
    """
    results, criteria, values = done.results, done.criteria, done.package_values
    study, plan, is_list, rank = results.plan.study, results.plan, done.front is None, done.ranking
    first, n_able = int(rank["row"].iloc[0]), int(done.case.runs_all.sum())
    unknown = rank.loc[~rank["simulated"], "mean_wait_time"]
    head = first if done.front is None else int(done.front["row"].iloc[0])
    jobs = {case.name: plan.workloads[case.name] for case in results.cases}
    runs, waits = counted(done.n_failed, "confirming run"), values.mean_wait[values.simulated]
    kept = "satisfy the constraints" if "satisfies" in rank else "there are"
    rows: list[tuple[object, Any]] = [
        (is_list, lambda: about_waiting(done)),
        (done.other_loads, lambda: load_notes(done.other_loads)),
        (done.shape, lambda: shape_notes(done.shape)),
        (done.rule_costs, lambda: [one.sentence() for one in done.rule_costs]),
        (True, done.waited.sentences),
        (True, lambda: _coverage(done, n_before, n_searched, unknown)),
        (done.exchanged, lambda: _about_swaps(done)),
        (True, lambda: _about_criteria(values, criteria)),
        (criteria.need_runs, lambda: model_errors(done.models if len(unknown) else ())),
        (criteria.need_costs, lambda: cost_notes(plan.quotes, study.costs, plan.existing)),
        (is_list and study.costs.beyond_budget, lambda: _about_budget(done)),
        (done.confirmed, "every package of the list is simulated; jobs of another day may order them differently"),
        (not done.confirmed and criteria.need_runs, "the list holds predictions, the best of them more likely too low "
         f"than too high; {'they could not be' if done.verified else 'without --no-verify they are'} confirmed"),
        (is_list and asked > done.k, f"{asked:,} packages were requested; only {done.k:,} {kept}"),
        (is_list and not n_able, lambda: _none_able(results)),
        (is_list and done.k > n_able > 0 and done.rule == RUNS_ALL,
         f"only {counted(n_able, 'package')} can run every job; the others of the list leave some out"),
        (done.rule == PUBLISHED, "the published rule counts only jobs that ran, so it favours packages that leave "
         "jobs out"),
        (len(waits) > 1 and not waits.max() > 0, NO_WAIT),
        (True, lambda: about_results(results)),
        (failures, f"{runs} failed, and those packages stay unconfirmed; the first: {failures[:1] and failures[0]}"),
        (True, lambda: study.speed_notes(plan.quotes, plan.existing, list(jobs))),
        (True, lambda: about_limits(plan, results.counts[head], jobs, results.policy, "the first package")),
        (True, lambda: multi_node_notes(jobs)),
        (True, lambda: [line for each in jobs.values()
         for line in waiting_for_others(each, results.policy.startswith("slurm"))]),
        (plan.existing is not None and len(plan.existing), lambda: _about_existing(results)),
    ]  # fmt: skip
    said = (what() if callable(what) else what for applies, what in rows if applies)
    return [line for one in said for line in ([one] if isinstance(one, str) else one)]


def _about_swaps(done: Recommendation) -> str:
    swaps, of = done.exchanged or {}, done.criteria.objective
    value, before = (with_unit(swaps[name], of.unit) for name in ("value", "before"))
    lead = f"the lead changed {counted(swaps['n_better'], 'time')}, {of.name} {value} instead of {before}"
    tried = f"tried {counted(swaps['n_packages'], 'single swap')} of node types around the first package"
    return f"{tried}; {'none is better' if swaps['instead_of'] is None else lead}"


def _coverage(done: Recommendation, n_before: int, n_searched: int, left: pd.Series) -> str:
    """Say how many packages there are, and of how many the wait is simulated, predicted, or unknown."""
    n, n_able, n_unknown = len(done.case.packages), int(done.case.runs_all.sum()), int(left.isna().sum())
    rest = "are ranked below" if done.rule == RUNS_ALL else "are ranked among them (published rule)"
    parts = [f"{len(left) - n_unknown:,} are predicted"] if len(left) > n_unknown else []
    parts += [f"{n_unknown:,} have no known wait"] if n_unknown else []
    searched = f" ({n_searched:,} of them by procure search)" if n_searched else ""
    jobs = f"{counted(n, 'distinct package')}: {n_able:,} run every job, {n - n_able:,} cannot and {rest}"
    runs = f"{n_before:,} were simulated before{searched}, {done.n_verified:,} to confirm the list"
    return f"{jobs}; {runs}, " + (" and ".join(parts) or "so that all are simulated")


def _about_criteria(values: PackageValues, criteria: Criteria) -> list[str]:
    """Say what the order is by, and how many packages satisfy each constraint."""
    blind = not criteria.axes and not any(one.of.source == "result" for one in criteria.constraints)
    found = [_meaning(of, values, blind) for of in criteria.axes or (criteria.objective,) if criteria != Criteria()]
    able = values.whole.runs_all if values.whole.runs_all.any() else np.ones(len(values.packages), dtype=bool)
    for one in criteria.constraints:
        figures, known = values.value(one.of)
        ok = one.holds(figures) & able
        text = f"{one.text}: satisfied by {int(ok.sum()):,} of {counted(int(able.sum()), 'package')}"
        if one.of.source == "result" and not known[able].all():
            text += f", {int((ok & known).sum()):,} of these as simulated, the others as predicted"
        found.append(text)
    return found


def _meaning(of: Quantity, values: PackageValues, unbounded: bool) -> str:
    """Say what an objective or an axis is; ``unbounded``: nothing that is asked for depends on waits."""
    text = of.name + (f" ({of.unit})" if of.unit else "") + f": {of.meaning}"
    text += f", here {values.cvar_share:.0%} of them by weight" if of.how == "cvar" else ""
    if of.source != "result":
        text += "; known for every package without simulation"
        text += "; bound the waits, too, with --constraint 'mean_wait<=…'" if unbounded else ""
    return text


def model_errors(models: Sequence[Model]) -> str:
    """Say how far off the models are out of fold, and which of them are of no use."""
    if not models:
        return "every package that could lead the list is simulated, so its order needs no model"
    useful, bad = ([one for one in models if one.useful is good] for good in (True, False))
    said = []
    for one in useful[: 3 if len(useful) < 4 else 1]:
        off, constant = (with_unit(getattr(one.predicted, f"{of}rmse_seconds"), one.unit) for of in ("", "constant_"))
        what = f"out of fold, a prediction of {one.what.replace('-', ' ')}"
        said.append(f"{what} is off by {off} (RMSE; always answering the mean: {constant})")
    if bad:
        of = " and ".join(one.what.replace("-", " ") for one in bad) if len(models) <= 3 else f"{len(bad)} waits"
        said.append(f"no model of {of} beats always answering the mean; simulate more packages (sweep.sample)")
    return "; ".join(said)


def _about_budget(done: Recommendation) -> list[str]:
    """Say by how much the whole order of the first package, and of how many of the list, is above the budget."""
    study, rows = done.results.plan.study, done.ranking["row"].to_numpy()[: done.k]
    whole = whole_order(done.results.costs.iloc[rows], study.costs)
    above = np.round(whole - study.packages.budget_usd, 2)
    if not (above > 0).any():
        return []
    more, of = f", US$ {above[0]:,.2f} more" if above[0] > 0 else "", counted(len(rows), "package")
    text = f"budget: with racks, network, percentages and tax {(above > 0).sum():,} of {of} of the list cost more than "
    text += f"US$ {study.packages.budget_usd:,.2f}; the first comes to US$ {whole[0]:,.2f}{more}"
    return [text, *budget_notes(study.costs)]


def _about_existing(results: StudyResults) -> str:
    """Say what existing nodes there are; simulate the jobs on them alone, if these run every job."""
    plan, nodes = results.plan, results.plan.existing
    assert nodes is not None
    cpus, gpus = (counted(int(nodes[f"{noun.lower()}s"].sum()), noun) for noun in ("CPU", "GPU"))
    held = f"{counted(len(nodes), 'existing node')} ({cpus}, {nodes['mem_mb'].sum() / 1000:,.0f} GB, {gpus})"
    text = f"every simulated system holds {held}; the totals shown are those of the purchase only"
    nothing = np.zeros((1, len(plan.types)), dtype=np.int64)
    bought = pd.DataFrame(nothing, columns=plan.types)
    if any(jobs_left_out(bought, plan.quotes, plan.workloads[one.name], nodes)[0] for one in results.cases):
        return text
    with contextlib.suppress(TableError):  # a run failed
        wait = float(try_everywhere(results, nothing)["mean_wait_time"].iloc[0])
        need = "" if wait else ", so that these jobs need no purchase"
        text += f"; alone they run every job, with a mean wait of {duration(wait)}{need}"
    return text


def left_out_by_all(results: StudyResults) -> int:
    """Count the jobs that every package leaves out: packages that leave out as many leave out the same."""
    return int(_lost(results)["n_jobs"].sum())


def _lost(results: StudyResults) -> pd.DataFrame:
    """Return the requests, see `request_shapes`, that not even the most of each type that a package holds can run."""
    plan, lost = results.plan, [pd.DataFrame({"n_jobs": []})]
    most = pd.DataFrame([count_matrix(plan.packages, plan.quotes).max(axis=0)], columns=plan.types)
    for case in results.cases:
        jobs, shapes = plan.workloads[case.name], request_shapes(plan.workloads[case.name])
        for i in range(len(shapes)):
            one = jobs.head(1).assign(**{str(name): shapes[name].iloc[i] for name in shapes if name != "n_jobs"})
            lost += [shapes.iloc[[i]]] if jobs_left_out(most, plan.quotes, one, plan.existing)[0] else []
    return pd.concat(lost[1:] or lost, ignore_index=True)


def _none_able(results: StudyResults) -> str:
    if not len(lost := _lost(results)):
        return "no package runs every job, though each job is run by some package"
    asked = as_logged(lost)[["gpus_per_node", "mem_mb_per_node", "cpus_per_node", "n_nodes"]]
    top = lost.loc[asked.sort_values([*asked]).index[-1]]
    out = f"{lost['n_jobs'].sum():,} of {sum(case.n_jobs for case in results.cases):,}"
    text = f"no package runs every job; every package leaves out {out}, the most demanding on {request_text(top)}"
    return f"{text}; procure study check says whether a GPU model is missing"


def about_results(results: StudyResults) -> list[str]:
    """Say which runs of the study are missing, failed, or beyond its plan; or that a search chose its packages."""
    plan = results.plan
    if plan.searched:
        these = f"these {len(plan.packages):,} are those that searches have simulated; procure search goes on"
        return [f"the rules allow {unlisted(plan.study)}: {these}"]
    counts, _ = verify(plan)
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
