"""How close does a replay of today's nodes come to the log? Without an answer, no simulated wait is a forecast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.comparison.site_check import compare_pairs, pair_waits
from procure.errors import TableError
from procure.files import Archive, keep
from procure.policies import catalog, plugins
from procure.policies.parameters import NOTHING
from procure.run import simulate
from procure.schemas import CLASSES, NODE
from procure.study.existing import read_existing
from procure.study.futures import table_digest
from procure.sweep.results import StudyResults
from procure.tables import check
from procure.text import counted, duration, file_name
from procure.workload.classes import class_of
from procure.workload.replay import counted_jobs

MOST_LOGS = 12
"""Workloads that are looked at; of more, as many evenly spread."""
KNOWN = 0.5
"""Share of a workload's jobs whose starts must be known."""
NEAR, NEAR_S = 0.25, 600.0
"""A level may be read as a forecast where mean, median and 90th percentile are each off by at most this share of the
logged one, or by so many seconds."""
LITTLE_RANK = 0.5
"""Below this rank correlation a replay says little of which jobs wait."""


class Logged(NamedTuple):
    """One workload whose log says how long its jobs waited, and the nodes of today."""

    name: str
    weight: float
    jobs: pd.DataFrame
    nodes: pd.DataFrame
    named: str  # what the nodes are
    counted: np.ndarray  # bool[n_jobs], not of the warm-up, and started in the log


@dataclass(frozen=True)
class Today:
    """The logs of a study that can be replayed on the nodes of today.

    Attributes
    ----------
    logs
        At most `MOST_LOGS`.
    n_logs
        How many there are.
    missing
        Why there is none, a sentence; empty where there are some, or where all jobs are made up.
    """

    logs: tuple[Logged, ...]
    n_logs: int
    missing: str


@dataclass(frozen=True)
class Replayed:
    """How the replay of today compares with the log.

    Attributes
    ----------
    policy, named
        Under what, and on which nodes.
    table
        From `compare_pairs`, of ``all`` and of each class of `procure.schemas.CLASSES` with jobs, with ``forecast``:
        whether a simulated wait of the class may be read as a forecast.
    """

    policy: str
    named: str
    table: pd.DataFrame

    @property
    def is_forecast(self) -> bool:
        """Whether a simulated wait of all jobs may be read as a forecast."""
        return bool(self.table["forecast"].iloc[0])

    @property
    def sentence(self) -> str:
        """How close it is, and how to read simulated waits."""
        of = self.table.iloc[0]
        rank = "" if np.isnan(of["rank_correlation"]) else f", rank correlation {of['rank_correlation']:.2f}"
        text = (
            f"replayed on {self.named} under {self.policy}, {counted(int(of['n_jobs']), 'job')} of the log wait "
            f"{_three(of, 'simulated')}; in the log {_three(of, 'logged')} (mean, median, 90th percentile); "
            f"{of['share_within']:.0%} within ten minutes{rank}"
        )
        if of["rank_correlation"] < LITTLE_RANK:
            text += ", so of which job waits it says little"
        far = self.table.loc[~self.table["forecast"], "class"].tolist()
        if not self.is_forecast:
            return f"{text}; the waits shown here are no forecast, those of packages can only be compared"
        if far:
            return f"{text}; waits of class {', '.join(far)} are no forecast"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        rows = self.table.astype(object).where(self.table.notna(), None).to_dict(orient="records")
        return {"policy": self.policy, "nodes": self.named, "by_class": rows, "sentence": self.sentence}


def _three(of: pd.Series, whose: str) -> str:
    return ", ".join(duration(of[f"{whose}_{name}"]) for name in ("mean", "median", "p90"))


def find_today(results: StudyResults) -> Today:
    """Find the workloads whose waits are known, and the nodes on which they were."""
    study, plan = results.plan.study, results.plan
    made = {one.name for one in study.scenarios if one.generate is not None}
    cases = [case for case in results.cases if case.name not in made]
    if not cases:
        return Today((), 0, "")
    known = [case for case in cases if starts_known(plan.workloads[case.name])]
    if not known:
        return Today(
            (),
            0,
            "the jobs have no start times, so it is not known how much waiting more nodes cut, nor how close a replay "
            "is",
        )
    some = [known[i] for i in np.unique(np.linspace(0, len(known) - 1, min(MOST_LOGS, len(known))).round().astype(int))]
    logs = []
    for case in some:
        jobs = plan.workloads[case.name].reset_index(drop=True)
        found = _nodes_today(results, jobs)
        if found is None:
            return Today(
                (),
                len(known),
                "neither the study (existing_nodes) nor the log (node_ids) says on which nodes the jobs waited, so it "
                "is not known how much waiting more nodes cut, nor how close a replay is",
            )
        kept = counted_jobs(jobs.assign(row=np.arange(len(jobs))), plan.warm_up(case.name))
        counts = np.isin(np.arange(len(jobs)), kept["row"]) & jobs["start_time"].notna().to_numpy()
        logs.append(Logged(case.name, case.weight, jobs, *found, counts))
    return Today(tuple(logs), len(known), "")


def starts_known(jobs: pd.DataFrame) -> bool:
    """Tell whether a log says when most of its jobs started."""
    return "start_time" in jobs and bool(jobs["start_time"].notna().mean() > KNOWN)


def _nodes_today(results: StudyResults, jobs: pd.DataFrame) -> tuple[pd.DataFrame, str] | None:
    """Return the nodes that the log ran on, and what they are called; retired ones still ran."""
    rules = results.plan.study.packages
    if rules.existing_nodes is not None:
        return read_existing(rules.existing_nodes).nodes, "today's nodes"
    seen = log_account().nodes(jobs)
    return None if seen is None else (check(seen, NODE), "the nodes that the log names")


def log_account() -> Any:
    """Return what accounts for the waiting in a log, see `procure.account.entries.LogAccount`.

    Raises
    ------
    TableError
        This installation offers none.
    """
    if "log" not in plugins.offered(plugins.ACCOUNTS):
        raise TableError("this installation offers no account of waits; install procure anew")
    return plugins.load(plugins.ACCOUNTS, "log", "account")


def site_of(policy: str) -> str | None:
    """Return the site folder whose rules a policy knows, so that it holds jobs back by itself; None without."""
    folder = str(getattr(catalog.spec(policy).parameters, "site", NOTHING))
    return None if folder == NOTHING else folder


def replay(
    results: StudyResults, log: Logged, nodes: pd.DataFrame, jobs: pd.DataFrame, policy: str | None = None
) -> pd.DataFrame:
    """Return the schedule of a log's jobs, or of others in their place, on some nodes, under the results' policy."""
    return simulate(
        jobs,
        nodes,
        policy or results.policy,
        kill_at_limit=results.plan.study.simulate.kill_at_limit,
        logged_speed=results.plan.logged_speed(log.name),
    ).schedule


def compare_today(results: StudyResults, today: Today) -> Replayed | None:
    """Compare a replay of today with the log, by class; None where that is not known. It is kept beside the models.

    Raises
    ------
    TableError
        A run failed, or no job that started in the log runs on the nodes.
    """
    if not today.logs:
        return None

    def make() -> list[np.ndarray]:
        return [
            pair_waits(log.jobs, replay(results, log, log.nodes, log.jobs))["simulated"].to_numpy(np.float64)
            for log in today.logs
        ]

    made = keep(
        results.kept if results.keep else None,
        f"today.{file_name(results.policy)}",
        inputs_of(results, today),
        make,
        lambda one: Archive({}, {str(i): waits for i, waits in enumerate(one)}),
        lambda one: [one.arrays[str(i)] for i in range(len(today.logs))],
    )
    parts = []
    for log, simulated in zip(today.logs, made, strict=True):
        pairs = pair_waits(log.jobs, log.jobs).assign(simulated=simulated, kind=np.array(CLASSES)[class_of(log.jobs)])
        parts.append(pairs[log.counted].dropna(subset=["logged", "simulated"]))
    table = pd.concat(parts, ignore_index=True)
    if table.empty:
        raise TableError(f"no job that started in the log runs on {today.logs[0].named}")
    classes = [("all", table), *((name, table[table["kind"] == name]) for name in CLASSES)]
    rows = [{"class": name} | compare_pairs(part) for name, part in classes if len(part)]
    if len(rows) == 2:
        rows = rows[:1]  # one class is all
    found = pd.DataFrame(rows)
    near = pd.Series(True, index=found.index)
    for name in ("mean", "median", "p90"):
        logged = found[f"logged_{name}"]
        near &= (found[f"simulated_{name}"] - logged).abs() <= np.maximum(NEAR * logged, NEAR_S)
    return Replayed(results.policy, today.logs[0].named, found.assign(forecast=near))


def inputs_of(results: StudyResults, today: Today) -> list[object]:
    """Return what a replay of today depends on."""
    nodes = [table_digest(log.nodes) for log in today.logs]
    return [results.plan.fingerprint, results.policy, [log.name for log in today.logs], nodes]
