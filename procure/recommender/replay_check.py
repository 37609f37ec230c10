"""How close does a replay of today's nodes come to the log, and how much of the waiting in it would a package cut?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.comparison.waits import compare_pairs, is_near, waits_of
from procure.errors import TableError
from procure.files import code_digest, keep_array
from procure.packages.nodes import package_nodes
from procure.policies import catalog, entries
from procure.policies.parameters import NOTHING
from procure.progress import track
from procure.run import simulate
from procure.schemas import CLASSES, NODE
from procure.study.existing import read_existing
from procure.study.sections import table_digest
from procure.sweep.results import StudyResults
from procure.tables import check
from procure.text import counted, duration, file_name
from procure.workload.describe import class_of
from procure.workload.parts import counted_jobs

MOST_LOGS = 12
"""Workloads that are looked at; of more, as many evenly spread."""
KNOWN = 0.5
"""Share of a workload's jobs whose starts must be known."""
LITTLE_RANK = 0.5
"""Below this rank correlation a replay says little of which jobs wait."""
_MOSTLY = 0.9
"""From this share of the want on, nodes are named after the class of jobs that want them."""
_NODES_FOR = {"gpu": "GPU nodes", "memory": "large-memory nodes"}


class Logged(NamedTuple):
    """One workload whose log says how long its jobs waited, and the nodes of today."""

    name: str
    weight: float
    jobs: pd.DataFrame
    nodes: pd.DataFrame
    named: str  # what the nodes are
    counted: np.ndarray  # bool[n_jobs], not of the warm-up, and started in the log


class ReplayCheck(NamedTuple):
    """What is known of the waiting in the log: what the package cuts, and how close a replay is, as programs read it.

    ``account`` is ``nodes n_jobs hours want_hours cut_hours cut_hours_at_most replayed causes by_class sentence``;
    ``fidelity`` is ``policy nodes by_class sentence``, ``by_class`` being `compare_pairs` of ``all`` and of each class
    with jobs, and ``forecast``, whether a simulated wait may be read as one. ``missing`` says why one is not known.
    """

    account: dict[str, Any] | None = None
    fidelity: dict[str, Any] | None = None
    missing: str = ""

    @property
    def far(self) -> bool:
        """Whether the replay is known to be too far from the log for a forecast."""
        return self.fidelity is not None and not self.fidelity["by_class"][0]["forecast"]

    def sentences(self) -> list[str]:
        """Say it."""
        return [*(one["sentence"] for one in (self.account, self.fidelity) if one), *filter(None, [self.missing])]

    def to_dict(self) -> dict[str, Any]:
        """Return ``account`` and ``fidelity``; where they are not known, ``missing`` says why."""
        missing = {"missing": self.missing or "the jobs are made up: no log says how long they waited"}
        return {"account": self.account or missing, "fidelity": self.fidelity or missing}


UNKNOWN = ReplayCheck()


def check_replay(results: StudyResults, counts: np.ndarray | None = None) -> ReplayCheck:
    """Replay today's nodes beside the log; with a package, int64[n_types], say what of the waiting it cuts, too."""
    try:
        logs, missing = find_logs(results)
        fidelity = compare_baseline(results, logs)
    except TableError as error:
        return ReplayCheck(missing=f"how close a replay comes to the log is not known: {error}")
    if counts is None or fidelity is None:
        return ReplayCheck(fidelity=fidelity, missing=missing)
    try:
        return ReplayCheck(_account(results, logs, counts), fidelity)
    except TableError as error:
        return ReplayCheck(fidelity=fidelity, missing=f"how much waiting more nodes cut is not known: {error}")


def find_logs(results: StudyResults) -> tuple[list[Logged], str]:
    """Return the workloads whose waits and nodes are known; or why there are none, empty where all jobs are made up."""
    study, plan, unknown = results.plan.study, results.plan, "so it is not known how much waiting more nodes cut"
    made = {one.name for one in study.scenarios if one.generate is not None}
    cases = [case for case in results.cases if case.name not in made]
    known = [case for case in cases if starts_known(plan.workloads[case.name])]
    if not known:
        return [], f"the jobs have no start times, {unknown}, nor how close a replay is" if cases else ""
    logs = []
    for i in np.unique(np.linspace(0, len(known) - 1, min(MOST_LOGS, len(known))).round().astype(int)):
        case, jobs = known[i], plan.workloads[known[i].name].reset_index(drop=True)
        named = "today's nodes" if study.packages.existing_nodes else "the nodes that the log names"
        if study.packages.existing_nodes is not None:  # retired ones still ran
            nodes = read_existing(study.packages.existing_nodes).nodes
        elif (found := log_account().nodes(jobs)) is not None:
            nodes = check(found, NODE)
        else:
            where = "neither the study (existing_nodes) nor the log (node_ids) says on which nodes the jobs waited"
            return [], f"{where}, {unknown}, nor how close a replay is"
        kept = counted_jobs(jobs.assign(row=np.arange(len(jobs))), plan.warm_up(case.name))
        counts = np.isin(np.arange(len(jobs)), kept["row"]) & jobs["start_time"].notna().to_numpy()
        logs.append(Logged(case.name, case.weight, jobs, nodes, named, counts))
    return logs, ""


def starts_known(jobs: pd.DataFrame) -> bool:
    """Tell whether a log says when most of its jobs started."""
    return "start_time" in jobs and bool(jobs["start_time"].notna().mean() > KNOWN)


def log_account() -> Any:
    """Return what accounts for the waiting in a log, see `procure.account.entries.LogAccount`."""
    return entries.load(entries.ACCOUNTS, "log", "account")


def _replay(
    results: StudyResults, log: Logged, nodes: pd.DataFrame, jobs: pd.DataFrame, policy: str | None = None
) -> pd.DataFrame:
    """Return the schedule of a log's jobs, or of others in their place, on some nodes, under the results' policy."""
    kill, speed = results.plan.study.simulate.kill_at_limit, results.plan.logged_speed(log.name)
    return simulate(jobs, nodes, policy or results.policy, kill_at_limit=kill, logged_speed=speed).schedule


def _kept(
    results: StudyResults, name: str, logs: Sequence[Logged], more: list[object], make: Callable[[Logged], np.ndarray]
) -> list[np.ndarray]:
    """Return an array for each log; kept beside the models, for it does not change."""
    found = []
    for log in track(logs, "replaying the log, and accounting for its waits", "log"):
        inputs = [results.plan.fingerprint, results.policy, log.name, table_digest(log.nodes), *more]
        called = f"{name}.{file_name(f'{log.name} {results.policy}')}"
        found.append(keep_array(results.kept, called, inputs, partial(make, log)))
    return found


def compare_baseline(results: StudyResults, logs: Sequence[Logged]) -> dict[str, Any] | None:
    """Compare a replay of today with the log, by class; None where there is no log; a run that fails is an error."""
    if not logs:
        return None
    kept = _kept(results, "today", logs, [], lambda log: waits_of(log.jobs, _replay(results, log, log.nodes, log.jobs)))
    parts, named = [], logs[0].named
    for log, simulated in zip(logs, kept, strict=True):
        pairs = pd.DataFrame({"logged": waits_of(log.jobs, log.jobs), "simulated": simulated})
        parts.append(pairs.assign(kind=np.array(CLASSES)[class_of(log.jobs)])[log.counted])
    table = pd.concat(parts, ignore_index=True).dropna()
    if table.empty:
        raise TableError(f"no job that started in the log runs on {named}")
    classes = [("all", table), *((name, table[table["kind"] == name]) for name in CLASSES)]
    rows = [{"class": name} | compare_pairs(part) for name, part in classes if len(part)]
    found = pd.DataFrame(rows[:1] if len(rows) == 2 else rows)  # one class is all
    found = found.assign(forecast=is_near(found))
    of, far = found.iloc[0], found.loc[~found["forecast"], "class"].tolist()
    three = ("mean", "median", "p90")
    here, there = (", ".join(duration(of[f"{who}_{one}"]) for one in three) for who in ("simulated", "logged"))
    jobs = f"replayed on {named} under {results.policy}, {counted(int(of['n_jobs']), 'job')} of the log wait {here}"
    text = f"{jobs}; in the log {there} (mean, median, 90th percentile); {of['share_within']:.0%} within ten minutes"
    if of["rank_correlation"] < LITTLE_RANK:
        text += f", rank correlation {of['rank_correlation']:.2f}, too low to say which job waits"
    if not of["forecast"]:
        text += "; the waits shown here are no forecast: use them only to compare packages"
    elif far:
        text += f"; waits of class {', '.join(far)} are no forecast"
    records = found.astype(object).where(found.notna(), None).to_dict(orient="records")
    return {"policy": results.policy, "nodes": named, "by_class": records, "sentence": text}


def cut_hours(hours: Mapping[str, float], by_policy: bool = False) -> tuple[float, float]:
    """Return the hours of the log that a package cuts: while what else holds jobs stays, and if that goes away.

    ``hours`` are those waited in the log, ``logged``, of it ``want`` for nodes and ``held`` for other causes; replayed
    on the nodes of ``today``; with the package, ``bought``, and without holds, ``free``. Where the replay of today
    waits longer than the log, the difference counts in proportion. ``by_policy``: the policy itself holds jobs back, so
    what is held does not stay job by job.
    """
    logged, want, today = hours["logged"], hours["want"], hours["today"]
    whole, want_today = min(1.0, logged / today) if today > 0 else 0.0, today - hours["held"]
    part = whole if by_policy else min(1.0, want / want_today) if want_today > 0 else 0.0
    least = min(max(0.0, (today - hours["bought"]) * part), want)
    return least, min(max(least, logged - hours["free"] * whole), logged)


def cut_sentence(account: Mapping[str, Any], most: bool = True) -> str:
    """Say what of the waiting in the log a package cuts, ``most``: and what at most."""
    total = account["hours"]
    if not total:
        return "in the log no job waited: there is no waiting to cut"
    want, least, at_most = (100 * account[one] / total for one in ("want_hours", "cut_hours", "cut_hours_at_most"))
    cut = "none" if round(least) == 0 else "all" if round(least) == round(want) else f"{least:.0f}"
    of = {one["class"]: one["want_hours"] for one in account["by_class"]}
    wants = max(of, key=of.__getitem__)
    nodes = _NODES_FOR.get(wants, "nodes") if sum(of.values()) and of[wants] >= _MOSTLY * sum(of.values()) else "nodes"
    text = f"of 100 hours waited in the log, {want:.0f} were for want of {nodes}"
    text += "" if round(want) == 0 else f"; this purchase cuts {cut} of these"
    return text + (f", and at most {at_most:.0f} of the 100 if all other holds went away with it" if most else "")


def _account(results: StudyResults, logs: Sequence[Logged], counts: np.ndarray) -> dict[str, Any]:
    """Account for the waiting in the logs, and say what of it a package cuts."""
    account, site = log_account(), getattr(catalog.spec(results.policy).parameters, "site", NOTHING)
    own = site != NOTHING  # the policy knows a site's rules, so that it holds jobs back by itself
    folder = str(site) if own else None
    code = code_digest(type(account).__module__)
    seconds = _kept(results, "account", logs, [folder, code], lambda log: account.seconds(log.jobs, log.nodes, folder))
    parts = [_seconds_by_job(results, log, counts, one, own) for log, one in zip(logs, seconds, strict=True)]
    table = pd.concat(parts, ignore_index=True)
    if table.empty:
        raise TableError("no job of the log runs both today and with the package")
    hours = table.drop(columns=["class", "weight"]).mul(table["weight"] / 3600, axis=0)
    total, by_class = hours.sum(), hours.groupby(table["class"])
    named = {"logged": "hours", "want": "want_hours", "today": "today_hours", "bought": "package_hours"}
    order = [one for one in CLASSES if one in by_class.groups]
    classes = by_class[list(named)].sum().rename(columns=named).reindex(order)
    classes.insert(0, "n_jobs", by_class.size())
    causes = pd.DataFrame({"cause": account.causes, "hours": total[list(account.causes)].to_numpy()})
    causes["share"] = causes["hours"] / max(float(total["logged"]), 1e-9)
    whole = {str(name): float(value) for name, value in total.items()}
    least, most = cut_hours(whole, own)
    found = {
        "nodes": logs[0].named, "n_jobs": len(table), "hours": whole["logged"], "want_hours": whole["want"],
        "cut_hours": least, "cut_hours_at_most": most,
        "replayed": {"holds_by": "the policy" if own else "the log", "held_hours": whole["held"], "today_hours":
                     whole["today"], "package_hours": whole["bought"], "package_hours_without_holds": whole["free"]},
        "causes": causes.to_dict(orient="records"),
        "by_class": classes.rename_axis("class").reset_index().to_dict(orient="records"),
    }  # fmt: skip
    return found | {"sentence": cut_sentence(found)}


def _seconds_by_job(
    results: StudyResults, log: Logged, counts: np.ndarray, seconds: np.ndarray, own: bool
) -> pd.DataFrame:
    """Return the waits, s, of each job that counts and runs in every replay.

    Unless the policy knows the rules of the site, each job comes later by the part of its wait that was not for
    want of nodes: so the holds are in both replays what they were in the log.
    """
    plan, jobs, account = results.plan, log.jobs, log_account()
    submit = jobs["submit_time"].to_numpy(np.int64)
    want = seconds[:, [account.causes.index(name) for name in account.cuttable]].sum(1)
    held = seconds.sum(1) - want
    later = jobs if own else jobs.drop(columns="eligible_time", errors="ignore").assign(submit_time=submit + held)
    bought = package_nodes(dict(zip(plan.types, counts.tolist(), strict=True)), plan.quotes, plan.existing)
    table = pd.DataFrame(seconds, columns=list(account.causes))
    table = table.assign(logged=seconds.sum(1), want=want, held=held, weight=log.weight)
    table["class"] = np.array(CLASSES)[class_of(jobs)]
    today, purchase = (_replay(results, log, nodes, later) for nodes in (log.nodes, bought))
    free = _replay(results, log, bought, jobs, "easy" if own else None)
    for name, one in (("today", today), ("bought", purchase), ("free", free)):
        table[name] = (one["start_time"].astype("Float64").to_numpy(np.float64, na_value=np.nan) - submit).clip(0)
    return table[log.counted].dropna()
