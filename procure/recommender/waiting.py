"""Who waits on a recommended package: by class of jobs, over an hour, against the targets, and whose jobs they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from procure.models.case import Case
from procure.objectives import MEAN_WAIT
from procure.objectives.constraints import Constraint
from procure.recommender.recommendation import Recommendation
from procure.recommender.replay_check import starts_known
from procure.schemas import CLASSES
from procure.sweep.results import StudyResults
from procure.sweep.trial import replayed, simulate_once
from procure.text import counted, duration, listed
from procure.workload.replay import counted_jobs
from procure.workload.scale import REQUEST_AND_LIMIT, cpu_seconds

FEW_MAKE_MOST = 0.5
"""From this share of the waiting on, or of the demand, one request, or one user, is warned of."""
FEW_JOBS = 0.01
"""Fewer jobs than this share that make over half of the waiting are warned of."""
_FIGURES = ("mean_wait_time", "p95_wait_time", "share_over_1h")


def waits_of(done: Recommendation, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return every metric of some packages on each workload, float64[workloads, rows] by name.

    NaN where a package was not simulated.
    """
    names = done.results.plan.metric_names
    found = np.full((len(names), len(done.results.cases), len(rows)), np.nan)
    for i, case in enumerate(done.results.cases):
        found[:, i] = _metrics(done.results, case, rows).T
        new = np.isnan(found[names.index("mean_wait_time"), i]) & done.package_values.simulated[rows]
        if new.any():
            runs = simulate_once(done.results, case.name, rows[new], [])
            found[:, i, new] = runs.T
    return dict(zip(names, found, strict=True))


def _metrics(results: StudyResults, case: Case, rows: np.ndarray) -> np.ndarray:
    """Return what a sweep and searches have kept, float64[rows, metrics]."""
    ids = case.packages["package_id"].iloc[rows]
    kept = [table for table in (results.results, results.searched) if len(table)]
    runs = pd.concat(kept, ignore_index=True)
    mine = (runs["workload"] == case.name) & (runs["policy"] == results.policy) & (runs["status"] == "ok")
    runs = runs[mine & runs["package_id"].isin(ids)].drop_duplicates("package_id").set_index("package_id")
    return runs.reindex(ids).reindex(columns=list(results.plan.metric_names)).to_numpy(dtype="float64")


def by_class(done: Recommendation, waits: dict[str, np.ndarray], i: int) -> list[dict[str, Any]]:
    """Return ``class n_jobs mean_wait_time p95_wait_time share_over_1h`` of one of the packages, for classes with jobs.

    Means over the workloads by what they weigh and by the jobs that they have of the class.
    """
    values, found = done.package_values, []
    of_all = (*CLASSES, *done.results.plan.study.classes)
    n = np.array([[case.class_jobs.get(name, 0) for name in of_all] for case in done.results.cases])
    for place, name in enumerate(of_all):
        weight = n[:, place] * values.weight
        if not weight.any():
            continue
        figures = {one: waits[f"{name}_{one}"][:, i] for one in _FIGURES}
        found.append(
            {"class": name, "n_jobs": int(n[:, place].sum())}
            | {one: _mean(figure, weight) for one, figure in figures.items()}
        )
    return found


def _mean(figure: np.ndarray, weight: np.ndarray) -> float:
    return float(np.average(np.where(weight > 0, figure, 0.0), weights=weight))


def of_all(done: Recommendation, waits: dict[str, np.ndarray], i: int, row: int) -> dict[str, Any]:
    """Return the mean wait, its 95th percentile, the share over an hour, and the mean over users, of one package.

    It is column ``i`` of the waits, and a row of the package table.
    """
    weight = done.package_values.ran[:, row] * done.package_values.weight
    return {name: _mean(waits[name][:, i], weight) for name in (*_FIGURES, "user_fair_wait_time")}


def against_targets(done: Recommendation, row: int) -> list[dict[str, Any]]:
    """Return ``class target met chance cost_usd`` of one package.

    The chance is the share of the workloads in which it keeps the bound;
    the cost is the price of the cheapest simulated package that keeps this target, missing where none does.
    """
    values, found = done.package_values, []
    for target in done.criteria.targets:
        value, known = values.value(target.of)
        keeps = target.holds(value) & known & values.whole.runs_all
        found.append(
            {
                "class": target.of.job_class or "all",
                "target": target.text,
                "met": bool(target.holds(value[[row]])[0]),
                "chance": _chance(done, target, row),
                "cost_usd": float(values.price[keeps].min()) if keeps.any() else None,
            }
        )
    return found


def _chance(done: Recommendation, target: Constraint, row: int) -> float | None:
    values, of = done.package_values, target.of
    wait = values.results[of.column][:, row]
    counts = values.ran_of(of)[:, row] > 0
    if not counts.any() or np.isnan(wait[counts]).any():
        return None
    return float(target.holds(wait[counts]).mean())


def concentration(done: Recommendation, row: int) -> dict[str, Any]:
    """Say whose the demand is, and which request makes most of the waiting on a package.

    Returns
    -------
    dict
        ``user``, ``share_of_demand`` (CPU-seconds; missing where the log names no user), and of the request, of one
        user where users are known, whose jobs wait longest in all: ``n_jobs``, ``share_of_jobs``,
        ``share_of_waiting``; ``workload``, what was looked at: the one with the most jobs;
        ``few``, the jobs that make over half of the waiting, where they are few, see `_few`.
    """
    results = done.results
    case = max(results.cases, key=lambda one: one.n_jobs)
    run, _ = replayed(results.plan, results.counts[row], case.name, results.policy)
    jobs = counted_jobs(run.schedule, results.plan.warm_up(case.name))
    wait = (jobs["start_time"] - jobs["submit_time"]).fillna(0).to_numpy(dtype="float64")
    request = jobs.groupby(["user", *REQUEST_AND_LIMIT], sort=False, dropna=False).ngroup().to_numpy()
    by_request, n = np.bincount(request, wait), np.bincount(request)
    most, total = int(by_request.argmax()), float(by_request.sum())
    found: dict[str, Any] = {"workload": case.name, "user": None, "share_of_demand": None}
    if (jobs["user"] != "").any():
        demand = pd.Series(cpu_seconds(jobs)).groupby(jobs["user"].to_numpy()).sum()
        user = demand.drop(labels="", errors="ignore").idxmax()
        found |= {"user": str(user), "share_of_demand": float(demand[user] / max(float(demand.sum()), 1.0))}
    share = by_request[most] / total if total > 0 else 0.0
    return found | {
        "n_jobs": int(n[most]),
        "share_of_jobs": float(n[most] / len(jobs)),
        "share_of_waiting": float(share),
        "few": _few(jobs, wait),
    }


def _few(jobs: pd.DataFrame, wait: np.ndarray) -> dict[str, Any] | None:
    """Return the fewest jobs that make over half of the waiting, below `FEW_JOBS` of all; None where it takes more.

    Returns
    -------
    dict
        ``n_jobs``, ``share_of_jobs``, ``share_of_waiting``; ``request``, what most of them ask for, and
        ``n_of_request``; ``users``, those with most of them first.
    """
    longest = np.argsort(-wait, kind="stable")
    waited = np.cumsum(wait[longest])
    n = int(np.searchsorted(waited, waited[-1] / 2, side="right")) + 1
    if wait.mean() < 1 or n >= FEW_JOBS * len(jobs):
        return None
    few = jobs.iloc[longest[:n]]
    columns = ["n_nodes", "cpus_per_node", "mem_mb_per_node", "gpus_per_node"]
    alike = few.groupby(columns, sort=False).size()
    request = dict(zip(columns, map(int, alike.idxmax()), strict=True))
    users = few.loc[few["user"] != "", "user"].value_counts(sort=True)
    return {
        "n_jobs": n,
        "share_of_jobs": n / len(jobs),
        "share_of_waiting": float(waited[n - 1] / waited[-1]),
        "request": request,
        "n_of_request": int(alike.max()),
        "users": users.index.astype(str).tolist(),
    }


def against_log(done: Recommendation) -> tuple[float, float] | None:
    """Return the mean wait on the first package and in the log, s; None where the log does not say it."""
    row, found, plan = int(done.ranking["row"].iloc[0]), [], done.results.plan
    for case, waits in zip(done.results.cases, done.package_values.results[MEAN_WAIT.column], strict=True):
        jobs = counted_jobs(plan.workloads[case.name], plan.warm_up(case.name))
        if np.isnan(waits[row]) or not starts_known(jobs):
            continue
        logged = (jobs["start_time"] - jobs["submit_time"]).dropna().astype("float64").clip(lower=0).mean()
        found.append((waits[row], logged, case.weight * len(jobs)))
    if not found:
        return None
    here, logged, weight = np.array(found).T
    return float(np.average(here, weights=weight)), float(np.average(logged, weights=weight))


def longer_than_logged(done: Recommendation) -> list[str]:
    """Warn where jobs wait longer on the first package than they did in the log."""
    waits = against_log(done)
    if waits is None or waits[0] <= waits[1] or duration(waits[0]) == duration(waits[1]):
        return []
    return [f"jobs wait longer than today: {duration(waits[0])} on average, {duration(waits[1])} in the log"]


def about_waiting(done: Recommendation) -> list[str]:
    """Say in sentences who waits on the first package, whose demand and whose waiting it is, and what it promises."""
    row = int(done.ranking["row"].iloc[0])
    if not done.package_values.simulated[row]:
        return []
    waits = waits_of(done, np.array([row]))
    whole, classes = of_all(done, waits, 0, row), by_class(done, waits, 0)
    text = (
        f"on the first package jobs wait {duration(whole['mean_wait_time'])} on average, 95 % of them up to "
        f"{duration(whole['p95_wait_time'])}, and {whole['share_over_1h']:.1%} over an hour"
    )
    if len(classes) > 1:
        worst = max(classes, key=lambda one: one["mean_wait_time"])
        text += (
            f"; the class that waits longest is {worst['class']}: {duration(worst['mean_wait_time'])} on average, "
            f"{worst['share_over_1h']:.1%} over an hour"
        )
    found = [*longer_than_logged(done), text, *few_make_most(concentration(done, row))]
    for one in against_targets(done, row):
        chance = "" if one["chance"] is None else f" (in {one['chance']:.0%} of the workloads)"
        cost = "no simulated package keeps it" if one["cost_usd"] is None else f"from US$ {one['cost_usd']:,.0f} on"
        kept = "kept" if one["met"] else "not kept"
        found.append(f"target {one['class']}, {one['target']}: {kept}{chance}; {cost}")
    return found


def few_make_most(held: dict[str, Any]) -> list[str]:
    """Warn where few jobs make most of the waiting, and where one user, or one request, makes most of it."""
    found, few = [], held.get("few")
    if held["share_of_demand"] is not None and held["share_of_demand"] >= FEW_MAKE_MOST:
        found.append(f"one user ({held['user']}) holds {held['share_of_demand']:.0%} of the demand")
    if few is None:
        if held["share_of_waiting"] >= FEW_MAKE_MOST and held["share_of_jobs"] < FEW_MAKE_MOST:
            jobs = counted(held["n_jobs"], "job")
            makes = f"makes up {held['share_of_waiting']:.0%} of the waiting"
            found.append(f"one request ({jobs}, {held['share_of_jobs']:.1%} of all) {makes}")
        return found
    asked, users = few["request"], few["users"]
    what = [counted(asked["n_nodes"], "node") + f" with {counted(asked['cpus_per_node'], 'CPU')}"]
    what += [counted(asked["gpus_per_node"], "GPU")] * (asked["gpus_per_node"] > 0)
    what += [f"{asked['mem_mb_per_node'] / 1000:,.1f} GB"] * (asked["mem_mb_per_node"] > 0)
    whose = f"user{'s' if len(users) > 1 else ''} {listed(users)}" if users else "users that the log does not name"
    text = (
        f"careful: {counted(few['n_jobs'], 'job')}, {few['share_of_jobs']:.2%} of all, make up "
        f"{few['share_of_waiting']:.0%} of the waiting and so decide this purchase: {few['n_of_request']:,} on "
        f"{', '.join(what)} each; of {whose}"
    )
    return [text, *found]


def waiting_records(done: Recommendation, rows: np.ndarray) -> list[dict[str, Any]]:
    """Return what ``procure recommend --format json`` says of each package's waits; whose they are, of the first."""
    waits, found = waits_of(done, rows), list[dict[str, Any]]()
    for i, row in enumerate(rows):
        if not done.package_values.simulated[row]:
            found.append({"by_class": [], "targets": [], "concentration": None, "account": None, "fidelity": None})
            continue
        today = against_log(done) if i == 0 else None
        whole = of_all(done, waits, i, int(row))
        found.append(
            {name: whole[name] for name in ("p95_wait_time", "share_over_1h", "user_fair_wait_time")}
            | {"by_class": by_class(done, waits, i), "targets": against_targets(done, int(row))}
            | {"concentration": concentration(done, int(row)) if i == 0 else None}
            | {"logged_mean_wait_time": None if today is None else today[1]}
            | (done.waited.to_dict() if i == 0 else {"account": None, "fidelity": None})
        )
    return found
