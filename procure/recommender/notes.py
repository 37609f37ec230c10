"""Facts about a ranking: where it comes from and how it might be wrong. Each words itself in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.evaluation.ranking import Agreement, agreement
from procure.models import Case, Predicted
from procure.objectives import Quantity
from procure.objectives.constraints import Constraint
from procure.packages.runnable import count_matrix, jobs_left_out, request_shapes
from procure.recommender.criteria import MEAN_WAIT, Criteria
from procure.recommender.values import Model, PackageValues
from procure.sweep.results import PUBLISHED, RUNS_ALL, StudyResults
from procure.sweep.store import study_status
from procure.text import be, counted, listed, with_unit
from procure.workload.describe import multi_node_notes
from procure.workload.speed_ratios import core_rates, rate_warnings, ratio_text, speed_ratios, unrated

_HEAVIER = "a heavier load says more (procure workload load)"


@dataclass(frozen=True)
class Coverage:
    """How many packages there are, and of how many a value is simulated, predicted, or unknown."""

    n_packages: int
    n_able: int
    rule: str
    n_before: int
    n_searched: int
    n_now: int
    n_predicted: int
    n_unknown: int

    def __str__(self) -> str:
        rest = "are ranked below" if self.rule == RUNS_ALL else "are ranked among them (published rule)"
        parts = [f"{self.n_predicted:,} are predicted"] if self.n_predicted else []
        parts += [f"{self.n_unknown:,} have no known wait"] if self.n_unknown else []
        searched = f" ({self.n_searched:,} of them by procure search)" if self.n_searched else ""
        return (
            f"{counted(self.n_packages, 'distinct package')}: {self.n_able:,} run every job, "
            f"{self.n_packages - self.n_able:,} cannot and {rest}; {self.n_before:,} were simulated "
            f"before{searched}, {self.n_now:,} to confirm the list, "
            + (" and ".join(parts) or "so that all are simulated")
        )


@dataclass(frozen=True)
class Meaning:
    """What an objective or an axis is."""

    of: Quantity
    cvar_share: float
    n_workloads: int
    unbounded: bool

    def __str__(self) -> str:
        of = self.of
        text = f"{of.name}" + (f" ({of.unit})" if of.unit else "") + f": {of.meaning}"
        if of.how == "cvar":
            text += f", here {self.cvar_share:.0%} of them by weight"
        if of.how == "regret-max":
            text += "; the best is that of the packages simulated so far"
        if of.per_workload and self.n_workloads == 1:
            text += "; with one workload that is the order by mean wait"
        if of.source != "result":
            text += "; known for every package without simulation"
        if self.unbounded:
            text += ". A package that is good by it may let jobs wait long: bound that with --constraint 'mean_wait<=…'"
        return text


@dataclass(frozen=True)
class Satisfied:
    """How many packages satisfy one constraint, of how many; ``n_simulated`` None = none of them is predicted."""

    constraint: Constraint
    n: int
    n_among: int
    n_simulated: int | None

    def __str__(self) -> str:
        text = f"{self.constraint.text}: satisfied by {self.n:,} of {counted(self.n_among, 'package')}"
        if self.n_simulated is None:
            return text
        return f"{text}, {self.n_simulated:,} of these as simulated, the others as predicted"


@dataclass(frozen=True)
class ModelErrors:
    """How far off the models are out of fold."""

    models: Sequence[Model]

    def __str__(self) -> str:
        if not self.models:
            return "every package that could lead the list is simulated, so no model was needed for its order"
        doubt = no_better_than_mean([one.predicted for one in self.models])
        if len(self.models) > 3:
            off = [one.predicted.relative_rmse for one in self.models]
            return (
                f"{len(off)} models predict what was not simulated: out of fold, their error (RMSE) is "
                f"{min(off):.0%} to {max(off):.0%} of that of always answering the mean{doubt}"
            )
        return "; ".join(
            f"out of fold, a prediction of {one.what} is off by {with_unit(one.predicted.rmse_seconds, one.unit)} "
            f"(RMSE; always answering the mean: {with_unit(one.predicted.constant_rmse_seconds, one.unit)})"
            for one in self.models
        ) + (doubt)


def no_better_than_mean(models: Sequence[Predicted]) -> str:
    """Remark on models that know no more than the mean does; empty if there are none."""
    bad = [one for one in models if one.rmse_seconds >= one.constant_rmse_seconds > 0]
    if not bad:
        return ""
    which = "the model is" if len(models) == 1 else f"{len(bad)} of them {be(len(bad))}"
    return f": {which} no better than that, so do not trust the predictions; simulate more packages (sweep.sample)"


@dataclass(frozen=True)
class Confirmed:
    """Whether all that is shown is simulated; if not, whether simulating was tried."""

    confirmed: bool
    verified: bool
    all_simulated: bool

    def __str__(self) -> str:
        if self.confirmed:
            better = "" if self.all_simulated else "a better one may be among those that were not, and "
            return f"every package of the list is simulated; {better}the jobs of another day may order them differently"
        way = "they could not be confirmed" if self.verified else "without --no-verify they are simulated"
        return f"the list holds predictions: the best of them are more likely too low than too high; {way}"


@dataclass(frozen=True)
class ShortList:
    """A list shorter than was asked for."""

    asked: int
    k: int
    constrained: bool

    def __str__(self) -> str:
        what = (
            f"only {self.k:,} satisfy the constraints"
            if self.constrained
            else f"there {be(self.k)} only {self.k:,}"
        )
        return f"{self.asked:,} packages were requested; {what}"


@dataclass(frozen=True)
class FewAble:
    """A list that goes beyond the packages that run every job."""

    n_able: int

    def __str__(self) -> str:
        return (
            f"only {counted(self.n_able, 'package')} can run every job: the list goes on with packages that leave some "
            "out"
        )


@dataclass(frozen=True)
class NoneAble:
    """Jobs that no package runs, and the most demanding request among them; None = each is run by some package."""

    n_left_out: int
    n_jobs: int
    request: dict[str, int] | None

    def __str__(self) -> str:
        if self.request is None:
            return "no package runs every job, though each job is run by some package"
        top = self.request
        return (
            f"no package runs every job; every package leaves out {self.n_left_out:,} of "
            f"{counted(self.n_jobs, 'job')}, the most demanding on {counted(top['n_nodes'], 'node')} with "
            f"{counted(top['cpus_per_node'], 'CPU')}, {top['mem_mb_per_node'] / 1000:,.1f} GB and "
            f"{counted(top['gpus_per_node'], 'GPU')} each"
        )


@dataclass(frozen=True)
class Tie:
    """Packages with the same least value; ``of`` None = no job waits under any of them."""

    n: int
    n_among: int
    of: Quantity | None = None
    least: float = 0.0
    front: bool = False

    def __str__(self) -> str:
        if self.of is None:
            rest = (
                "the front is decided by its other axes"
                if self.front
                else "among those with equal figures the cheapest come first"
            )
            return (
                f"no job waits under any of the {self.n:,} packages that were simulated: with this workload, waits do "
                f"not tell packages apart, and {rest}; {_HEAVIER}"
            )
        return (
            f"{self.n:,} of the {self.n_among:,} packages that were simulated have the same least {self.of.name}, "
            f"{with_unit(self.least, self.of.unit)}: it does not tell these apart, and the cheapest of "
            f"them come first; {_HEAVIER}"
        )


@dataclass(frozen=True)
class OtherPolicy:
    """How far the order under another policy agrees, over packages that were simulated under both."""

    policy: str
    n: int
    found: Agreement
    best: str

    def __str__(self) -> str:
        return (
            f"under {self.policy}, of {self.n:,} packages that were simulated under both policies: rank correlation "
            f"{self.found.correlation:.2f}, {self.found.n_shared} of the best {self.found.k} are the same; the best "
            f"here has rank {self.found.rank_of_first:,} there, where {self.best} is best"
        )


@dataclass(frozen=True)
class Existing:
    """The nodes that every simulated system holds, and the mean wait on them alone, s, if they run every job."""

    n_nodes: int
    cpus: int
    mem_gb: float
    gpus: int
    wait: float | None

    def __str__(self) -> str:
        text = (
            f"every simulated system holds {counted(self.n_nodes, 'existing node')} ({counted(self.cpus, 'CPU')}, "
            f"{self.mem_gb:,.0f} GB, {counted(self.gpus, 'GPU')}); the totals shown are those of the purchase only"
        )
        if self.wait is None:
            return text
        need = "" if self.wait else ", so that these jobs need no purchase"
        alone = f"the existing nodes run every job without any purchase; the mean wait is then {self.wait:,.0f} s{need}"
        return f"{text}; {alone}"


@dataclass(frozen=True)
class FailedRuns:
    """Runs that failed while the list was confirmed, and why the first did."""

    n: int
    first: str

    def __str__(self) -> str:
        runs = counted(self.n, "confirming run")
        return f"{runs} failed, and those packages stay unconfirmed; the first: {self.first}"


Fact = object
"""Whatever `str` puts in a sentence: one of the above, or a sentence."""


def ties(values: PackageValues, criteria: Criteria, among: np.ndarray, k: int) -> list[Fact]:
    """Find that no simulated package lets jobs wait, or that the first k and more share the least value.

    Parameters
    ----------
    among
        Rows of the packages to compare; those that are predicted do not count.
    k
        Length of the list; 0 for a front.
    """
    waits, known = values.value(MEAN_WAIT)
    rows = among[known[among]]
    if len(rows) > 1 and not waits[rows].max() > 0:
        return [Tie(len(rows), len(rows), front=not k)]
    if not k or criteria.objective.source != "result":
        return []
    figures = values.value(criteria.objective)[0][rows]
    least = float(figures.min(initial=np.inf))
    n = int((figures == least).sum())
    return [Tie(n, len(figures), criteria.objective, least)] if n >= max(2, k) else []


def about_criteria(values: PackageValues, criteria: Criteria) -> list[Fact]:
    """Say what the order is by, and how many packages satisfy each constraint."""
    found: list[Fact] = []
    blind = not criteria.axes and not any(one.of.source == "result" for one in criteria.constraints)
    if criteria != Criteria():
        for of in criteria.axes or (criteria.objective,):
            unbounded = blind and of.source != "result"
            found.append(Meaning(of, values.cvar_share, len(values.cases), unbounded))
    able = values.whole.runs_all if values.whole.runs_all.any() else np.ones(len(values.packages), dtype=bool)
    for one in criteria.constraints:
        figures, known = values.value(one.of)
        ok = one.holds(figures) & able
        predicted = one.of.source == "result" and not known[able].all()
        n_simulated = int((ok & known).sum()) if predicted else None
        found.append(Satisfied(one, int(ok.sum()), int(able.sum()), n_simulated))
    return found


def about_length(
    results: StudyResults, whole: Case, rule: str, asked: int, k: int, constrained: bool
) -> list[Fact]:
    """Say whether the list is as long as was asked for, and whether it holds packages that leave jobs out."""
    found: list[Fact] = [ShortList(asked, k, constrained)] if asked > k else []
    n_able = int(whole.runs_all.sum())
    if not n_able:
        found.append(_none_able(results))
    elif k > n_able and rule == RUNS_ALL:
        found.append(FewAble(n_able))
    if rule == PUBLISHED:
        found.append(
            "the published rule counts only the jobs that ran, and so favours packages that leave jobs out"
        )
    return found


def _none_able(results: StudyResults) -> NoneAble:
    plan, left_out, lost = results.plan, 0, []
    # The most of each type that any package holds: what it leaves out, every package leaves out.
    most = pd.DataFrame([count_matrix(plan.packages, plan.quotes).max(axis=0)], columns=plan.types)
    for case in results.cases:
        jobs = plan.workloads[case.name]
        left_out += int(jobs_left_out(most, plan.quotes, jobs, plan.existing)[0])
        for shape in request_shapes(jobs).to_dict(orient="records"):
            one = jobs.head(1).assign(**{name: shape[name] for name in shape if name != "n_jobs"})
            if jobs_left_out(most, plan.quotes, one, plan.existing)[0]:
                lost.append({str(name): value for name, value in shape.items()})
    order = ("gpus_per_node", "mem_mb_per_node", "cpus_per_node", "n_nodes")
    top = max(lost, key=lambda shape: [shape[name] for name in order]) if lost else None
    return NoneAble(left_out, sum(case.n_jobs for case in results.cases), top)


def about_results(results: StudyResults) -> list[Fact]:
    """Say which runs of the study are missing, failed, or beyond its plan."""
    counts, path = study_status(results.plan), results.plan.study.path
    lines: list[Fact] = []
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


def about_speeds(results: StudyResults) -> list[Fact]:
    """Say how run times are scaled, where they are as logged, and what is odd about the quoted speeds."""
    plan = results.plan
    speeds = {case.name: plan.logged_speed(case.name) for case in results.cases}
    without = [name for name, speed in speeds.items() if speed is None]
    lines: list[Fact] = []
    if without:
        lines.append(
            f"{listed(without)}: run times as logged on every node: no logged processor or speed is given, "
            "so differences in processor speed are not in this ranking"
        )
    if len(without) < len(speeds):
        missing = unrated(plan.quotes)
        if missing:
            lines.append(f"no spec_rate is quoted for {listed(missing)}: run times there are as logged")
        known = [float(speed) for speed in speeds.values() if speed is not None]
        if core_rates(plan.quotes).notna().any():
            lines.append(f"run times are multiplied by {ratio_text(speed_ratios(plan.quotes, known))}")
        lines += rate_warnings(plan.quotes, known)
    return lines


def about_jobs(results: StudyResults) -> list[Fact]:
    """Say whether jobs are cut at their limit, and how many ask for several nodes."""
    lines: list[Fact] = []
    if results.plan.study.simulate.kill_at_limit:
        lines.append("jobs end at their limit (kill_at_limit = true), which flatters slow nodes")
    jobs = {case.name: results.plan.workloads[case.name] for case in results.cases}
    return [*lines, *multi_node_notes(jobs)]


def about_policies(results: StudyResults, whole: Case, k: int) -> list[Fact]:
    """Compare the order with that under each other policy of the study, over packages simulated under both."""
    able = set(whole.packages["package_id"].to_numpy()[whole.runs_all])
    rows = results.results
    rows = rows[
        rows["workload"].isin([case.name for case in results.cases])
        & (rows["status"] == "ok")
        & rows["package_id"].isin(able)
    ]
    waits = rows.pivot_table(index="package_id", columns="policy", values="mean_wait_time", sort=False)
    lines: list[Fact] = []
    for other in waits.columns.drop(results.policy, errors="ignore") if results.policy in waits else []:
        both = waits[[results.policy, other]].dropna()
        if len(both) < 2:
            continue
        found = agreement(both[results.policy].to_numpy(), both[other].to_numpy(), k)
        lines.append(OtherPolicy(str(other), len(both), found, str(both.index[found.best])))
    return lines
