"""Where a ranking comes from and how it might be wrong, a sentence each: for the terminal and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from procure.cli import ties
from procure.cli.cases import Rule
from procure.cli.chosen_output import no_better_than_mean, sentences
from procure.recommender.results import StudyResults, workloads_of
from procure.text import be, counted, listed

if TYPE_CHECKING:
    from procure.cli.chosen import Chosen
    from procure.cli.recommend import Ranked
    from procure.models import Case


def cautions(loaded: StudyResults, done: Ranked, asked: int | None = None) -> list[str]:
    """Say in a few sentences where the ranking comes from and how it might be wrong.

    Parameters
    ----------
    asked
        The length of list that was asked for; default: the study's.
    """
    asked = asked or loaded.plan.study.recommend.k
    by = done.chosen
    return [
        *(
            _sources(done)
            if by is None
            else sentences(loaded, by, asked, done.rule, done.found.confirmed, done.verified)
        ),
        *(_coverage(loaded, done, asked) if by is None else []),
        *ties.of_list(done),
        *about_results(loaded),
        *_failures(done),
        *_speeds(loaded),
        *_existing(loaded),
        *_other_policies(loaded, done),
    ]


def about_front(loaded: StudyResults, front: Chosen, verified: bool) -> list[str]:
    """Say the same of a Pareto front."""
    confirmed = bool(front.the_front["simulated"].all())
    return [
        *sentences(loaded, front, 0, Rule.RUNS_ALL, confirmed, verified),
        *ties.of_front(front),
        *about_results(loaded),
        *_speeds(loaded),
        *_existing(loaded),
    ]


def few_simulated(case: Case, folds: int) -> str:
    """Say that no model can be learnt."""
    return (
        f"{workloads_of(case)}: {int(case.simulated.sum()):,} of {counted(len(case.wait), 'package')} "
        f"{be(int(case.simulated.sum()))} simulated; "
        f"a model with {folds}-fold cross-validation needs {2 * folds}, so there is none"
    )


def about_results(loaded: StudyResults) -> list[str]:
    """Say which runs of the study are missing, failed, or beyond its plan."""
    from procure.sweep.store import study_status

    counts, path = study_status(loaded.plan), loaded.plan.study.path
    lines = []
    if counts["n_missing"]:
        lines.append(
            f"{counts['n_missing']:,} of {counted(counts['n_runs_planned'], 'planned run')} "
            f"{be(counts['n_missing'])} missing: "
            f"procure sweep {path}"
        )
    if counts["n_failed"]:
        failed = loaded.results[loaded.results["status"] != "ok"].iloc[0]
        lines.append(
            f"{counted(counts['n_failed'], 'run')} of the sweep failed, so the packages count as not simulated; the "
            "first: "
            f"{failed['package_id']}: {failed['reason']}"
        )
    if counts["n_beyond_plan"]:
        lines.append(
            f"{counted(counts['n_beyond_plan'], 'result')} {be(counts['n_beyond_plan'])} beyond what the study file "
            "plans (an earlier sweep of more packages), and used too"
        )
    return lines


def _sources(done: Ranked) -> list[str]:
    case, found, predicted = done.case, done.found, done.predicted
    able, n = int(case.runs_all.sum()), len(case.packages)
    others = found.ranking[~found.ranking["simulated"]]
    rest, unknown = len(others), int(others["mean_wait_time"].isna().sum())
    tail = "stand after them" if done.rule is Rule.RUNS_ALL else "are ranked among them (published rule)"
    parts = [f"{rest - unknown:,} are predicted"] if rest > unknown else []
    parts += [f"{unknown:,} have no known wait"] if unknown else []
    lines = [
        f"{counted(n, 'distinct package')}: {able:,} run every job, {n - able:,} leave jobs out and {tail}; "
        f"{int(case.simulated.sum()):,} were simulated before, {found.n_verified:,} to confirm the list, "
        + (" and ".join(parts) or "so that all are simulated")
    ]
    if predicted is None:
        lines.append(
            "every package that could lead the list is simulated, so no model was needed for its order"
        )
    else:
        lines.append(
            f"out of fold, a prediction is off by {predicted.rmse_seconds:,.0f} s (RMSE; always answering the "
            f"mean: {predicted.constant_rmse_seconds:,.0f} s)" + no_better_than_mean([predicted])
        )
    if found.confirmed:
        better = "a better one may be among those that were not, and " if rest else ""
        lines.append(
            f"every package of the list is simulated; {better}the jobs of another day may order them differently"
        )
    else:
        way = "they could not be confirmed" if done.verified else "without --no-verify they are simulated"
        lines.append(
            f"the list holds predictions: those at its head are more likely too low than too high; {way}"
        )
    return lines


def _coverage(loaded: StudyResults, done: Ranked, asked: int) -> list[str]:
    case, k = done.case, done.found.k
    able, lines = int(case.runs_all.sum()), []
    if asked > k:
        lines.append(f"{asked:,} packages were asked for; there {be(k)} only {k:,}")
    if not able:
        lines.append(_nobody_runs_all(loaded))
    elif k > able and done.rule is Rule.RUNS_ALL:
        lines.append(
            f"no more than {counted(able, 'package')} can run every job: the list goes on with packages that leave "
            "some out"
        )
    if done.rule is Rule.PUBLISHED:
        lines.append(
            "the published rule counts only the jobs that ran, and so favours packages that leave jobs out"
        )
    return lines


def _nobody_runs_all(loaded: StudyResults) -> str:
    """Say how many jobs no package runs, and the most demanding of them."""
    import pandas as pd

    from procure.packages.runnable import count_matrix, jobs_left_out, request_shapes

    plan = loaded.plan
    # The most of each type that any package holds: what it leaves out, every package leaves out.
    most = pd.DataFrame([count_matrix(plan.packages, plan.quotes).max(axis=0)], columns=plan.types)
    left_out, lost = 0, []
    for case in loaded.cases:
        jobs = plan.workloads[case.name]
        left_out += int(jobs_left_out(most, plan.quotes, jobs, plan.existing)[0])
        for shape in request_shapes(jobs).to_dict(orient="records"):
            one = jobs.head(1).assign(**{name: shape[name] for name in shape if name != "n_jobs"})
            if jobs_left_out(most, plan.quotes, one, plan.existing)[0]:
                lost.append(shape)
    n_jobs = sum(case.n_jobs for case in loaded.cases)
    if not lost:
        return "no package runs every job, though each job is run by some package"
    top = max(
        lost, key=lambda s: (s["gpus_per_node"], s["mem_mb_per_node"], s["cpus_per_node"], s["n_nodes"])
    )
    return (
        f"no package runs every job; every package leaves out {left_out:,} of {counted(n_jobs, 'job')}, the most "
        f"demanding on {counted(top['n_nodes'], 'node')} with {counted(top['cpus_per_node'], 'CPU')}, "
        f"{top['mem_mb_per_node'] / 1000:,.1f} GB and {counted(top['gpus_per_node'], 'GPU')} each"
    )


def _other_policies(loaded: StudyResults, done: Ranked) -> list[str]:
    """Say how the answer changes under each other policy of the study, from packages simulated under both."""
    from procure.evaluation.ranking import agreement

    able = set(done.case.packages["package_id"].to_numpy()[done.case.runs_all])
    names = [case.name for case in loaded.cases]
    rows = loaded.results[
        loaded.results["workload"].isin(names)
        & (loaded.results["status"] == "ok")
        & loaded.results["package_id"].isin(able)
    ]
    waits = rows.pivot_table(index="package_id", columns="policy", values="mean_wait_time", sort=False)
    lines = []
    for other in waits.columns.drop(loaded.policy, errors="ignore") if loaded.policy in waits else []:
        both = waits[[loaded.policy, other]].dropna()
        if len(both) < 2:
            continue
        said = agreement(both[loaded.policy].to_numpy(), both[other].to_numpy(), done.found.k)
        lines.append(
            f"under {other}, of {len(both):,} packages that were simulated under both policies: rank correlation "
            f"{said.correlation:.2f}, {said.n_shared} of the best {said.k} are the same; the best here has "
            f"rank {said.rank_of_first:,} there, where {both.index[said.best]} is best"
        )
    return lines


def _failures(done: Ranked) -> list[str]:
    if not done.reasons:
        return []
    return [
        f"{counted(done.found.n_failed, 'confirming run')} failed, and what they were of stays unconfirmed; the first: "
        f"{done.reasons[0]}"
    ]


def _speeds(loaded: StudyResults) -> list[str]:
    plan, lines = loaded.plan, []
    speeds = {case.name: plan.logged_speed(case.name) for case in loaded.cases}
    without = [name for name, speed in speeds.items() if speed is None]
    if without:
        lines.append(
            f"{listed(without)}: run times as logged on every node: no logged processor or speed is given, "
            "so differences in processor speed are not in this ranking"
        )
    if len(without) < len(speeds):
        unrated = plan.quotes.loc[plan.quotes["spec_rate"].isna(), "name"].tolist()
        if unrated:
            lines.append(f"no spec_rate is quoted for {listed(unrated)}: run times there are as logged")
    return lines


def _existing(loaded: StudyResults) -> list[str]:
    nodes = loaded.plan.existing
    if nodes is None or not len(nodes):
        return []
    return [
        f"every simulated system holds {counted(len(nodes), 'existing node')} "
        f"({counted(int(nodes['cpus'].sum()), 'CPU')}, {nodes['mem_mb'].sum() / 1000:,.0f} GB, "
        f"{counted(int(nodes['gpus'].sum()), 'GPU')}); the totals shown are those of the purchase only",
        *_without_purchase(loaded),
    ]


def _without_purchase(loaded: StudyResults) -> list[str]:
    """Say what the jobs wait on the existing nodes alone, if these run every job."""
    import numpy as np
    import pandas as pd

    from procure.packages.runnable import jobs_left_out
    from procure.sweep.runner import make_bench, simulate_batch

    plan, waited, n = loaded.plan, 0.0, 0.0
    nothing = pd.DataFrame([dict.fromkeys(plan.types, 0)])
    for case in loaded.cases:
        if jobs_left_out(nothing, plan.quotes, plan.workloads[case.name], plan.existing)[0]:
            return []
    for case in loaded.cases:
        bench = make_bench(plan, case.name, loaded.policy)
        run = simulate_batch(bench, ["nothing"], np.zeros((1, len(plan.types)), dtype=np.int64))[0]
        if run["status"].iloc[0] != "ok":
            return []
        waited += case.weight * case.n_jobs * float(run["mean_wait_time"].iloc[0])
        n += case.weight * case.n_jobs
    wait = waited / max(n, 1)
    return [
        f"the existing nodes run every job without any purchase; the mean wait is then {wait:,.0f} s"
        + ("" if wait else ", so that these jobs need no purchase")
    ]
