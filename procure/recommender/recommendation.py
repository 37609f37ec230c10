"""What `recommend` returns, what a list holds and who waits on it, and what programs read of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from procure.models import Predicted, WorkloadWaits
from procure.objectives import MEAN_WAIT, Quantity
from procure.packages.nodes import count_matrix
from procure.recommender.confidence import Confidence
from procure.recommender.replay_check import UNKNOWN, ReplayCheck, starts_known
from procure.recommender.rule_costs import RuleCost
from procure.recommender.values import Criteria, Model, PackageValues, stored
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
_LISTED = ("rank package_id price_usd mean_wait_time simulated jobs_left_out low_wait_time high_wait_time".split(),
           ["total_cpus", "total_mem_gb", "total_gpus"])  # fmt: skip


def jobs_on(results: StudyResults, counts: np.ndarray | None) -> Iterator[pd.DataFrame]:
    """Give the jobs of each workload that count, as a package, int64[n_types], runs them; None = as in the log.

    Beside its columns a table has ``workload``, its ``weight`` and ``wait``, s, NaN where a job did not start.
    """
    plan, policy = results.plan, results.policy
    for case in results.cases:
        jobs = plan.workloads[case.name] if counts is None else replayed(plan, counts, case.name, policy)[0].schedule
        jobs = counted_jobs(jobs.reset_index(drop=True), plan.warm_up(case.name))
        wait = np.nan if "start_time" not in jobs else (jobs["start_time"] - jobs["submit_time"]).astype("float64")
        yield jobs.assign(workload=case.name, weight=case.weight, wait=wait)


def waits_of(done: Recommendation, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return every metric of some packages on each workload, float64[workloads, rows]; NaN where not simulated."""
    results, names = done.results, list(done.results.plan.metric_names)
    runs = pd.concat([one for one in (results.results, results.searched) if len(one)], ignore_index=True)
    held = stored(results, runs, done.case.packages["package_id"].iloc[rows], names)
    new = np.isnan(held["mean_wait_time"]) & done.package_values.simulated[rows]
    for i, case in enumerate(results.cases):
        if new[i].any():
            for name, values in zip(names, simulate_once(results, case.name, rows[new[i]], []).T, strict=True):
                held[name][i, new[i]] = values
    return held


def by_class(done: Recommendation, waits: dict[str, np.ndarray], i: int) -> list[dict[str, Any]]:
    """Return ``class n_jobs mean_wait_time p95_wait_time share_over_1h`` of package i, by jobs over the workloads."""
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
    """Return the mean wait, its 95th percentile, the share over 1 h and the mean over users of package i."""
    weight = done.package_values.ran[:, row] * done.package_values.weight
    return {name: _mean(waits[name][:, i], weight) for name in (*_FIGURES, "user_fair_wait_time")}


def concentration(done: Recommendation) -> dict[str, Any]:
    """Say whose the demand is, and which request makes most of the waiting, in the workload with the most jobs.

    On the first package. ``workload``; ``user``, ``share_of_demand`` (CPU-seconds; missing where the log names no
    user); of the request, of one user where users are known, whose jobs wait longest in all: ``n_jobs share_of_jobs
    share_of_waiting``; ``few``.
    """
    case = max(done.results.cases, key=lambda one: one.n_jobs)
    [jobs] = jobs_on(replace(done.results, cases=[case]), done.results.counts[done.first])
    wait = jobs["wait"].fillna(0).to_numpy(dtype="float64")
    request = jobs.groupby(["user", *REQUEST_AND_LIMIT], sort=False, dropna=False).ngroup().to_numpy()
    waited, n = np.bincount(request, wait), np.bincount(request)
    most = int(waited.argmax())
    found: dict[str, Any] = {"workload": case.name, "user": None, "share_of_demand": None}
    demand = pd.Series(cpu_seconds(jobs)).groupby(jobs["user"].to_numpy()).sum()
    if len(named := demand.drop(labels="", errors="ignore")):
        user = named.idxmax()
        found |= {"user": str(user), "share_of_demand": float(demand[user] / max(float(demand.sum()), 1.0))}
    share = float(waited[most] / waited.sum()) if waited.sum() > 0 else 0.0
    found |= {"n_jobs": int(n[most]), "share_of_jobs": float(n[most] / len(jobs)), "share_of_waiting": share}
    return found | {"few": _few(jobs, wait)}


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
    here = done.package_values.results[MEAN_WAIT.column][:, done.first]
    found = [
        (wait, jobs["wait"].dropna().clip(lower=0).mean(), jobs["weight"].sum())
        for wait, jobs in zip(here, jobs_on(done.results, None), strict=True)
        if not np.isnan(wait) and starts_known(jobs)
    ]
    if not found:
        return None
    waits, logged, weight = np.array(found).T
    return float(np.average(waits, weights=weight)), float(np.average(logged, weights=weight))


def about_waiting(done: Recommendation) -> list[str]:
    """Say in sentences who waits on the first package, whose demand and whose waiting it is, and what it promises."""
    if not done.package_values.simulated[done.first]:
        return []
    waits = waits_of(done, np.array([done.first]))
    whole, classes = of_all(done, waits, 0, done.first), by_class(done, waits, 0)
    text = "on the first package jobs wait {mean_wait_time} on average, 95 % of them up to {p95_wait_time}, and "
    text = (text + "{share_over_1h} over an hour").format(**_worded(whole))
    if len(classes) > 1:
        longest = _worded(max(classes, key=lambda one: one["mean_wait_time"]))
        more = "; the class that waits longest is {class}: {mean_wait_time} on average, {share_over_1h} over an hour"
        text += more.format(**longest)
    return [text]


def _worded(figures: dict[str, Any]) -> dict[str, str]:
    times = {name: duration(value) for name, value in figures.items() if name.endswith("_time")}
    return figures | times | {"share_over_1h": f"{100 * figures['share_over_1h']:.1f} %"}


def counts_of(packages: pd.DataFrame, quotes: pd.DataFrame) -> list[dict[str, int]]:
    """Return each package as type → count, without zeros, in quote-file order."""
    names, counts = quotes["name"].tolist(), count_matrix(packages, quotes)
    return [{name: int(n) for name, n in zip(names, row, strict=True) if n} for row in counts]


def records(done: Recommendation) -> list[dict[str, object]]:
    """Return the first k as plain records, as ``procure recommend --format json`` prints them.

    What it takes a replay to know, such as whose the demand is, is said of the first package alone.
    """
    top, of, results = done.ranking.head(done.k), done.criteria.objective, done.results
    rows = top["row"].to_numpy()
    packages, waits, found = done.case.packages.iloc[rows], waits_of(done, rows), list[dict[str, Any]]()
    bought = packages[_LISTED[1]].assign(counts=counts_of(packages, results.plan.quotes))[["counts", *_LISTED[1]]]
    sure = pd.DataFrame(index=rows) if done.confidence is None else done.confidence.head(len(rows))
    sure = sure.drop(columns="package_id", errors="ignore")
    parts = (table.to_dict(orient="records") for table in (top, bought, sure))
    for i, (line, holds, ranks) in enumerate(zip(*parts, strict=True)):
        one: dict[str, Any] = {name: line[name] for name in _LISTED[0]} | holds
        one |= {"by_class": [], "concentration": None, "account": None, "fidelity": None}
        if done.package_values.simulated[rows[i]]:
            whole, logged = of_all(done, waits, i, int(rows[i])), None if i else against_log(done)
            one |= {name: whole[name] for name in ("p95_wait_time", "share_over_1h", "user_fair_wait_time")}
            one |= {"by_class": by_class(done, waits, i), "logged_mean_wait_time": logged and logged[1]}
            one |= {} if i else {"concentration": concentration(done)} | done.waited.to_dict()
        if done.criteria != Criteria():
            bounds = [bound.of for bound in done.criteria.constraints]
            one |= {"objective": of.name, "objective_unit": of.unit}
            one |= {name: line[name] for name in line if name.startswith("objective_")}
            one["constrained"] = {each.name: line[each.name] for each in bounds}
            one["constrained_intervals"] = {
                each.name: [line[f"{each.name}_{end}"] for end in ("low", "high")]
                for each in bounds
                if each.source == "result"
            }
        first = {"rules": [cost._asdict() for cost in done.rule_costs], "shape": done.shape}
        first |= {"other_loads": done.other_loads, "exchanges": done.exchanged}
        found.append(one | (dict.fromkeys(first) if i else first) | ranks)
    return found


def front_records(done: Recommendation) -> dict[str, object]:
    """Return the front as a plain document, as ``procure recommend --pareto … --format json`` prints it."""
    assert done.front is not None
    counts = counts_of(done.case.packages.iloc[done.front["row"].to_numpy()], done.results.plan.quotes)
    axes = [{"name": axis.name, "unit": axis.unit} for axis in done.criteria.axes]
    return {"axes": axes, "front": done.front.drop(columns="row").assign(counts=counts).to_dict(orient="records")}


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
