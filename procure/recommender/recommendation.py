"""What `recommend` returns, what a list holds and who waits on it, and what programs read of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from procure.models import Predicted, WorkloadWaits
from procure.objectives import MEAN_WAIT, Quantity
from procure.packages.nodes import count_matrix
from procure.recommender.confidence import Confidence
from procure.recommender.replay_check import UNKNOWN, ReplayCheck, starts_known
from procure.recommender.rule_costs import RuleCost
from procure.recommender.values import Criteria, Model, PackageValues
from procure.schemas import CLASSES
from procure.sweep.results import StudyResults, workloads_of
from procure.sweep.trial import replayed, simulate_once
from procure.text import Shown, counted, duration
from procure.workload.load import REQUEST_AND_LIMIT, cpu_seconds
from procure.workload.parts import counted_jobs


@dataclass(frozen=True)
class Recommendation(Shown):
    """A ranking of every distinct package, or a Pareto front, with what it stands on.

    ``ranking`` has every distinct package, best first, see `procure.recommender.rank.ranking_table` (with axes, by the
    first axis, and not confirmed beyond the front); the first ``k`` are recommended. ``front`` is that of
    `procure.recommender.rank.find_front`, None without axes; ``package_values`` are all values of all packages;
    ``confidence`` says how sure the order is, None for a front; ``about`` where it comes from; ``verified`` whether
    predictions were simulated to confirm the list, of which ``n_failed`` runs failed; ``waited`` what the first package
    cuts of the waiting in the log; ``exchanged`` what came of swaps around it; ``other_loads`` the first packages under
    other loads, None where nothing was simulated for it; ``rule_costs`` what each rule of the packages costs;
    ``shape`` what would be chosen for jobs kept to their old nodes, see `kept_to_nodes`.
    """

    results: StudyResults
    criteria: Criteria
    rule: str
    ranking: pd.DataFrame
    k: int
    front: pd.DataFrame | None
    package_values: PackageValues
    confidence: Confidence | None
    about: tuple[str, ...]
    verified: bool
    n_failed: int = 0
    waited: ReplayCheck = UNKNOWN
    exchanged: dict[str, Any] | None = None
    rule_costs: tuple[RuleCost, ...] = ()
    other_loads: dict[str, Any] | None = None
    shape: dict[str, Any] | None = None

    @property
    def case(self) -> WorkloadWaits:
        """All workloads pooled: packages, jobs left out, and the mean waits that the study's results hold."""
        return self.package_values.whole

    @property
    def first(self) -> int:
        """The row of the first package, in the distinct packages."""
        return int(self.ranking["row"].iloc[0])

    @property
    def models(self) -> tuple[Model, ...]:
        """The models behind predicted values; none where everything that could lead the list is simulated."""
        return tuple(self.package_values.models)

    @property
    def predicted(self) -> Predicted | None:
        """What the predictions of the mean wait come from; None if nothing is predicted, or no model is useful."""
        return next((one.predicted for one in self.models if one.what == MEAN_WAIT.name and one.useful), None)

    @property
    def n_verified(self) -> int:
        """How many packages were simulated to confirm the list."""
        return int(self.ranking["simulated_now"].sum())

    @property
    def confirmed(self) -> bool:
        """Whether all packages of the list, or of the front, are simulated."""
        shown = self.ranking.head(self.k) if self.front is None else self.front
        return bool(shown["simulated"].all())

    @property
    def notes(self) -> list[str]:
        """Where the order comes from and how it might be wrong, a sentence each."""
        return [*self.about, *(self.confidence.sentences() if self.confidence else [])]

    @property
    def title(self) -> str:
        """What the list or the front is of."""
        where = f"{self.results.plan.study.name}, {workloads_of(self.case)}"
        if self.front is not None:
            axes = " and ".join(axis.name for axis in self.criteria.axes)
            return f"{where}: {counted(len(self.front), 'package')} that no other beats in {axes} together"
        by = "mean wait" if self.criteria == Criteria() else heading(self.criteria.objective)
        return f"{where}: the first{f' {self.k}' if self.k > 1 else ''}, by {by}"

    def shown(self) -> pd.DataFrame:
        """Return the list or the front as a table for people."""
        if self.front is not None:
            names = {axis.name: heading(axis) for axis in self.criteria.axes}
            table = self.front.drop(columns="row")
            table = table.assign(**{name: _rounded(table[name]) for name in names})
            return table.assign(knee=["knee" if one else "" for one in table["knee"]]).rename(columns=names)
        top, of = self.ranking.head(self.k), self.criteria.objective
        table = top[["rank", "package_id"]].assign(price_usd=top["price_usd"].round().astype("int64"))
        if of != Criteria().objective:
            table[heading(of)] = _rounded(top["objective_value"])
        table["wait_s"] = top["mean_wait_time"].round(1)
        table["wait_is"] = ["simulated" if known else "predicted" for known in top["simulated"]]
        if not top["simulated"].all():
            table["low_s"], table["high_s"] = top["low_wait_time"].round(), top["high_wait_time"].round()
        for bound in self.criteria.constraints:
            if bound.of.name not in (of.name, "price_usd", "mean_wait_time", "jobs_left_out"):
                table[heading(bound.of)] = _rounded(top[bound.of.name])
        if top["jobs_left_out"].any():
            table["left_out"] = top["jobs_left_out"]
        return table.assign(**(self.confidence.columns(len(top)) if self.confidence else {}))


def heading(of: Quantity) -> str:
    """Return a quantity's name with its unit."""
    return f"{of.name}, {of.unit}" if of.unit else of.name


def _rounded(values: pd.Series) -> pd.Series:
    return values.round(1) if values.abs().max() >= 100 else values.round(4)


FEW_JOBS = 0.01
"""Fewer jobs than this share that make over half of the waiting are warned of."""
_FIGURES = ("mean_wait_time", "p95_wait_time", "share_over_1h")
_REQUEST = ["n_nodes", "cpus_per_node", "mem_mb_per_node", "gpus_per_node"]
_OF_TASKS = ["n_tasks", "cpus_per_task", "mem_mb_per_task", "gpus_per_task"]


def waits_of(done: Recommendation, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return every metric of some packages on each workload, float64[workloads, rows]; NaN where not simulated."""
    results, names = done.results, list(done.results.plan.metric_names)
    ids = done.case.packages["package_id"].iloc[rows]
    runs = pd.concat([one for one in (results.results, results.searched) if len(one)], ignore_index=True)
    runs = runs[(runs["policy"] == results.policy) & (runs["status"] == "ok") & runs["package_id"].isin(ids)]
    runs = runs.drop_duplicates(["workload", "package_id"]).set_index(["workload", "package_id"]).reindex(columns=names)
    each = []
    for case in results.cases:
        held = runs.reindex([(case.name, one) for one in ids]).to_numpy(dtype="float64").T
        new = np.isnan(held[names.index("mean_wait_time")]) & done.package_values.simulated[rows]
        if new.any():
            held[:, new] = simulate_once(results, case.name, rows[new], []).T
        each.append(held)
    return dict(zip(names, np.stack(each, axis=1), strict=True))


def by_class(done: Recommendation, waits: dict[str, np.ndarray], i: int) -> list[dict[str, Any]]:
    """Return ``class n_jobs mean_wait_time p95_wait_time share_over_1h`` of a package, by jobs over the workloads."""
    found = []
    for name in (*CLASSES, *done.results.plan.study.classes):
        n = np.array([case.class_jobs.get(name, 0) for case in done.results.cases])
        if (weight := n * done.package_values.weight).any():
            figures = {one: _mean(waits[f"{name}_{one}"][:, i], weight) for one in _FIGURES}
            found.append({"class": name, "n_jobs": int(n.sum())} | figures)
    return found


def _mean(figure: np.ndarray, weight: np.ndarray) -> float:
    return float(np.average(np.where(weight > 0, figure, 0.0), weights=weight))


def of_all(done: Recommendation, waits: dict[str, np.ndarray], i: int, row: int) -> dict[str, Any]:
    """Return the mean wait, its 95th percentile, the share over 1 h and the mean over users of a package, column i."""
    weight = done.package_values.ran[:, row] * done.package_values.weight
    return {name: _mean(waits[name][:, i], weight) for name in (*_FIGURES, "user_fair_wait_time")}


def concentration(done: Recommendation, row: int) -> dict[str, Any]:
    """Say whose the demand is, and which request makes most of the waiting, in the workload with the most jobs.

    ``workload``; ``user``, ``share_of_demand`` (CPU-seconds; missing where the log names no user); of the request, of
    one user where users are known, whose jobs wait longest in all: ``n_jobs share_of_jobs share_of_waiting``; ``few``.
    """
    results = done.results
    case = max(results.cases, key=lambda one: one.n_jobs)
    run, _ = replayed(results.plan, results.counts[row], case.name, results.policy)
    jobs = counted_jobs(run.schedule, results.plan.warm_up(case.name))
    wait = (jobs["start_time"] - jobs["submit_time"]).fillna(0).to_numpy(dtype="float64")
    request = jobs.groupby(["user", *REQUEST_AND_LIMIT], sort=False, dropna=False).ngroup().to_numpy()
    waited, n = np.bincount(request, wait), np.bincount(request)
    most = int(waited.argmax())
    found: dict[str, Any] = {"workload": case.name, "user": None, "share_of_demand": None}
    if (jobs["user"] != "").any():
        demand = pd.Series(cpu_seconds(jobs)).groupby(jobs["user"].to_numpy()).sum()
        user = demand.drop(labels="", errors="ignore").idxmax()
        found |= {"user": str(user), "share_of_demand": float(demand[user] / max(float(demand.sum()), 1.0))}
    found |= {"n_jobs": int(n[most]), "share_of_jobs": float(n[most] / len(jobs))}
    share = float(waited[most] / waited.sum()) if waited.sum() > 0 else 0.0
    return found | {"share_of_waiting": share, "few": _few(jobs, wait)}


def _few(jobs: pd.DataFrame, wait: np.ndarray) -> dict[str, Any] | None:
    """Return the fewest jobs that make over half of the waiting, below `FEW_JOBS` of all; None where it takes more."""
    longest = np.argsort(-wait, kind="stable")
    waited = np.cumsum(wait[longest])
    n = int(np.searchsorted(waited, waited[-1] / 2, side="right")) + 1
    if wait.mean() < 1 or n >= FEW_JOBS * len(jobs):
        return None
    few = jobs.iloc[longest[:n]]
    columns = _REQUEST + _OF_TASKS * ("n_tasks" in few)
    alike = few.groupby(columns, sort=False).size()
    return {
        "n_jobs": n,
        "share_of_jobs": n / len(jobs),
        "share_of_waiting": float(waited[n - 1] / waited[-1]),
        "request": dict(zip(columns, map(int, alike.idxmax()), strict=True)),
        "n_of_request": int(alike.max()),
        "users": few.loc[few["user"] != "", "user"].value_counts(sort=True).index.astype(str).tolist(),
    }


def against_log(done: Recommendation) -> tuple[float, float] | None:
    """Return the mean wait on the first package and in the log, s; None where the log does not say it."""
    found, plan = [], done.results.plan
    for case, waits in zip(done.results.cases, done.package_values.results[MEAN_WAIT.column], strict=True):
        jobs = counted_jobs(plan.workloads[case.name], plan.warm_up(case.name))
        if not np.isnan(waits[done.first]) and starts_known(jobs):
            logged = (jobs["start_time"] - jobs["submit_time"]).dropna().astype("float64").clip(lower=0).mean()
            found.append((waits[done.first], logged, case.weight * len(jobs)))
    if not found:
        return None
    here, logged, weight = np.array(found).T
    return float(np.average(here, weights=weight)), float(np.average(logged, weights=weight))


def about_waiting(done: Recommendation) -> list[str]:
    """Say in sentences who waits on the first package, whose demand and whose waiting it is, and what it promises."""
    if not done.package_values.simulated[done.first]:
        return []
    waits = waits_of(done, np.array([done.first]))
    whole, classes = of_all(done, waits, 0, done.first), by_class(done, waits, 0)
    wait, p95 = duration(whole["mean_wait_time"]), duration(whole["p95_wait_time"])
    text = f"on the first package jobs wait {wait} on average, 95 % of them up to {p95}, and "
    text += f"{100 * whole['share_over_1h']:.1f} % over an hour"
    if len(classes) > 1:
        worst = max(classes, key=lambda one: one["mean_wait_time"])
        text += f"; the class that waits longest is {worst['class']}: {duration(worst['mean_wait_time'])} on average, "
        text += f"{100 * worst['share_over_1h']:.1f} % over an hour"
    return [text]


def waiting_records(done: Recommendation, rows: np.ndarray) -> list[dict[str, Any]]:
    """Return what ``procure recommend --format json`` says of each package's waits; whose they are, of the first."""
    waits, found = waits_of(done, rows), list[dict[str, Any]]()
    for i, row in enumerate(rows):
        one: dict[str, Any] = {"by_class": [], "concentration": None, "account": None, "fidelity": None}
        if done.package_values.simulated[row]:
            whole, logged = of_all(done, waits, i, int(row)), against_log(done) if i == 0 else None
            one |= {name: whole[name] for name in ("p95_wait_time", "share_over_1h", "user_fair_wait_time")}
            one |= {"by_class": by_class(done, waits, i), "logged_mean_wait_time": logged and logged[1]}
            if i == 0:
                one |= {"concentration": concentration(done, int(row))} | done.waited.to_dict()
        found.append(one)
    return found


def counts_of(packages: pd.DataFrame, quotes: pd.DataFrame) -> list[dict[str, int]]:
    """Return each package as type → count, without zeros, in quote-file order."""
    names, counts = quotes["name"].tolist(), count_matrix(packages, quotes)
    return [{name: int(n) for name, n in zip(names, row, strict=True) if n} for row in counts]


def records(done: Recommendation) -> list[dict[str, object]]:
    """Return the first k as plain records, as ``procure recommend --format json`` prints them."""
    top, packages, criteria = done.ranking.head(done.k), done.case.packages, done.criteria
    bought = packages.iloc[top["row"].to_numpy()]
    keep = ["rank", "package_id", "price_usd", "mean_wait_time", "simulated", "jobs_left_out"]
    keep += ["low_wait_time", "high_wait_time"]
    table = top[keep].assign(counts=counts_of(bought, done.results.plan.quotes))
    table = table.assign(**{name: bought[name].to_numpy() for name in ("total_cpus", "total_mem_gb", "total_gpus")})
    waiting = waiting_records(done, top["row"].to_numpy())
    rows = [one | more for one, more in zip(table.to_dict(orient="records"), waiting, strict=True)]
    if criteria != Criteria():
        for one, line in zip(rows, top.to_dict(orient="records"), strict=True):
            one |= {"objective": criteria.objective.name, "objective_unit": criteria.objective.unit}
            one |= {name: line[name] for name in line if name.startswith("objective_")}
            one["constrained"] = {bound.of.name: line[bound.of.name] for bound in criteria.constraints}
            names = [bound.of.name for bound in criteria.constraints if bound.of.source == "result"]
            one["constrained_intervals"] = {name: [line[f"{name}_low"], line[f"{name}_high"]] for name in names}
    first = {"rules": [cost._asdict() for cost in done.rule_costs], "shape": done.shape}
    first |= {"other_loads": done.other_loads, "exchanges": done.exchanged}
    rows = [one | (dict.fromkeys(first) if place else first) for place, one in enumerate(rows)]
    if done.confidence is not None:
        sure = done.confidence.head(len(rows)).drop(columns="package_id").to_dict(orient="records")
        rows = [one | more for one, more in zip(rows, sure, strict=True)]
    return rows


def front_records(done: Recommendation) -> dict[str, object]:
    """Return the front as a plain document, as ``procure recommend --pareto … --format json`` prints it."""
    assert done.front is not None
    counts = counts_of(done.case.packages.iloc[done.front["row"].to_numpy()], done.results.plan.quotes)
    rows = done.front.drop(columns="row").to_dict(orient="records")
    axes = [{"name": axis.name, "unit": axis.unit} for axis in done.criteria.axes]
    return {"axes": axes, "front": [one | {"counts": held} for one, held in zip(rows, counts, strict=True)]}


def servers_by_type(packages: pd.DataFrame, quotes: pd.DataFrame) -> pd.DataFrame:
    """Sum the servers of each type over packages: a row per type, in quote-file order.

    ``category name cpus mem_gb gpus``, ``servers``, ``packages`` that hold the type, and ``mean_count`` per package.
    (Hutchison 2024, table 3.6.)
    """
    counts = count_matrix(packages, quotes)
    table = quotes[["category", "name", "cpus", "mem_gb", "gpus"]].reset_index(drop=True)
    mean = counts.mean(axis=0) if len(counts) else 0.0
    return table.assign(servers=counts.sum(axis=0), packages=(counts > 0).sum(axis=0), mean_count=mean)


def budget_by_category(packages: pd.DataFrame, quotes: pd.DataFrame) -> pd.DataFrame:
    """Return what packages spend on each category: ``category price_usd share``, means over packages.

    What discounts take off an order is shared among its nodes by their list prices. (Hutchison 2024, figure 3.5.)
    """
    spent = count_matrix(packages, quotes) * quotes["price_usd"].to_numpy(dtype="float64")
    if "price_usd" in packages:
        listed, paid = spent.sum(axis=1), packages["price_usd"].to_numpy(dtype="float64")
        spent *= (paid / np.where(listed > 0, listed, 1.0))[:, None]
    mean = pd.Series(spent.mean(axis=0)).groupby(quotes["category"].to_numpy(), sort=False).sum()
    total = float(mean.sum())
    table = mean.rename("price_usd").rename_axis("category").reset_index()
    return table.assign(share=mean.to_numpy() / total if total else np.nan)
