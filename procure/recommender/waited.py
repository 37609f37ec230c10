"""How much of the waiting in the log would a package cut? The account of the log, and two replays under one rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.files import Archive, code_digest, keep
from procure.packages.nodes import package_nodes
from procure.progress import step
from procure.recommender.today import (
    Logged,
    Replayed,
    Today,
    compare_today,
    find_today,
    inputs_of,
    log_account,
    replay,
    site_of,
)
from procure.schemas import CLASSES
from procure.sweep.results import StudyResults
from procure.text import file_name
from procure.workload.classes import class_of

_MOSTLY = 0.9
"""From this share of the want on, nodes are named after the class of jobs that want them."""
_NODES_FOR = {"gpu": "GPU nodes", "memory": "large-memory nodes", "wide": "nodes", "cpu": "nodes"}


class Hours(NamedTuple):
    """Hours waited by the jobs of the logs that started there and in all replays, by what each log weighs."""

    logged: float
    want: float  # logged, for want of nodes
    held: float  # logged, for other causes; stays in both replays
    today: float  # replayed with the holds as they are
    bought: float
    free: float  # replayed with the package, without holds
    by_policy: bool = False  # the policy itself holds jobs back: what is held does not stay job by job

    def cut(self) -> tuple[float, float]:
        """Return the hours of the log that the package cuts: while holds stay, and if they go away.

        Where the replay of today waits longer than the log, the difference counts in proportion.
        """
        whole = min(1.0, self.logged / self.today) if self.today > 0 else 0.0
        want_today = self.today - self.held
        part = whole if self.by_policy else min(1.0, self.want / want_today) if want_today > 0 else 0.0
        least = min(max(0.0, (self.today - self.bought) * part), self.want)
        return least, min(max(least, self.logged - self.free * whole), self.logged)


@dataclass(frozen=True)
class Cut:
    """What of the waiting in the log a package cuts.

    Attributes
    ----------
    named
        The nodes of today.
    n_jobs
        Jobs that started in the log and in every replay.
    hours
        Of all of them.
    causes
        ``cause hours share`` of the account.
    by_class
        ``class n_jobs hours want_hours today_hours package_hours`` of the classes with jobs.
    held_by
        ``the log``: every job keeps the part of its wait that is for other causes; ``the policy``: its rules hold.
    """

    named: str
    n_jobs: int
    hours: Hours
    causes: pd.DataFrame
    by_class: pd.DataFrame
    held_by: str

    @property
    def sentence(self) -> str:
        """The sentence that a committee reads."""
        return f"{self.brief}{self._bound}"

    @property
    def brief(self) -> str:
        """Its beginning, without the upper bound."""
        total = self.hours.logged
        if not total:
            return "in the log no job waited: there is no waiting to cut"
        want, least = 100 * self.hours.want / total, 100 * self.hours.cut()[0] / total
        cut = "none" if round(least) == 0 else "all" if round(least) == round(want) else f"{least:.0f}"
        these = "" if round(want) == 0 else f"; this purchase cuts {cut} of these"
        return f"of 100 hours waited in the log, {want:.0f} were for want of {self._nodes}{these}"

    @property
    def _bound(self) -> str:
        if not self.hours.logged:
            return ""
        most = 100 * self.hours.cut()[1] / self.hours.logged
        return f", and at most {most:.0f} of the 100 if all other holds went away with it"

    @property
    def _nodes(self) -> str:
        """What is wanted: nodes, or those of the class whose jobs want most of it."""
        of = self.by_class.set_index("class")["want_hours"]
        total = float(of.sum())
        most = str(of.idxmax())
        if total and of[most] >= _MOSTLY * total:
            return _NODES_FOR[most]
        gpu = float(of.get("gpu", 0.0)) / total if total else 0.0
        return "nodes" + (f" ({100 * gpu * self.hours.want / self.hours.logged:.0f} by GPU jobs)" if gpu >= 0.1 else "")

    def to_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        least, most = self.hours.cut()
        return {
            "nodes": self.named,
            "n_jobs": self.n_jobs,
            "hours": self.hours.logged,
            "want_hours": self.hours.want,
            "cut_hours": least,
            "cut_hours_at_most": most,
            "replayed": {
                "holds_by": self.held_by,
                "held_hours": self.hours.held,
                "today_hours": self.hours.today,
                "package_hours": self.hours.bought,
                "package_hours_without_holds": self.hours.free,
            },
            "causes": self.causes.to_dict(orient="records"),
            "by_class": self.by_class.to_dict(orient="records"),
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class Waited:
    """What is known of the waiting in the log: what the package cuts, and how close a replay is; or why not.

    Attributes
    ----------
    cut, fidelity
        None where they are not known.
    missing
        What is missing, a sentence; empty where nothing is, and where the jobs are made up.
    """

    cut: Cut | None
    fidelity: Replayed | None
    missing: str

    def sentences(self) -> list[str]:
        """Say it."""
        said = [one.sentence for one in (self.cut, self.fidelity) if one is not None]
        return said + ([self.missing] if self.missing else [])

    def brief(self) -> list[str]:
        """Say it for a first page: what the package cuts, and whether waits are a forecast."""
        if self.cut is None or self.fidelity is None:
            return []
        return [self.cut.brief, *([] if self.fidelity.is_forecast else ["the waits shown are no forecast"])]

    def to_dict(self) -> dict[str, Any]:
        """Return ``account`` and ``fidelity`` for programs; where they are not known, ``missing`` says why."""
        missing = {"missing": self.missing or "the jobs are made up: no log says how long they waited"}
        return {
            "account": missing if self.cut is None else self.cut.to_dict(),
            "fidelity": missing if self.fidelity is None else self.fidelity.to_dict(),
        }


UNKNOWN = Waited(None, None, "")
"""Nothing was looked at."""


def fidelity_of(results: StudyResults) -> Waited:
    """Say how close a replay of today comes to the log of a study, without a look at any package."""
    try:
        today = find_today(results)
        return Waited(None, compare_today(results, today), today.missing)
    except TableError as error:
        return Waited(None, None, f"how close a replay comes to the log is not known: {error}")


def waiting_cut(results: StudyResults, counts: np.ndarray) -> Waited:
    """Account for the waiting in the log, and replay it today and with a package.

    Parameters
    ----------
    counts
        The package, int64[n_types].
    """
    found = fidelity_of(results)
    if found.fidelity is None:
        return found
    try:
        return Waited(_cut(results, find_today(results), counts), found.fidelity, "")
    except TableError as error:
        return Waited(None, found.fidelity, f"how much waiting more nodes cut is not known: {error}")


def _cut(results: StudyResults, today: Today, counts: np.ndarray) -> Cut:
    policy = results.policy
    site = site_of(policy)
    own = site is not None
    accounts = _accounts(results, today, site)
    parts = [_hours_by_job(results, log, counts, one, own) for log, one in zip(today.logs, accounts, strict=True)]
    table = pd.concat(parts, ignore_index=True)
    if table.empty:
        raise TableError("no job of the log runs both today and with the package")
    weight = table["weight"].to_numpy() / 3600
    of = {name: float((table[name] * weight).sum()) for name in table if name not in ("class", "weight", "n_jobs")}
    hours = Hours(of["logged"], of["want"], of["held"], of["today"], of["bought"], of["free"], own)
    names_of = log_account().causes
    causes = pd.DataFrame({"cause": names_of, "hours": [of[name] for name in names_of]})
    names = {"logged": "hours", "want": "want_hours", "today": "today_hours", "bought": "package_hours"}
    rows = [
        {"class": name, "n_jobs": len(part)}
        | {shown: float((part[column] * part["weight"]).sum() / 3600) for column, shown in names.items()}
        for name, part in ((name, table[table["class"] == name]) for name in CLASSES)
        if len(part)
    ]
    return Cut(
        today.logs[0].named,
        len(table),
        hours,
        causes.assign(share=causes["hours"] / max(hours.logged, 1e-9)),
        pd.DataFrame(rows),
        "the policy" if own else "the log",
    )


def _accounts(results: StudyResults, today: Today, site: str | None) -> list[np.ndarray]:
    """Return the seconds of each cause of each job that started, by row of the log; kept, for it does not change."""
    account = log_account()

    def make() -> list[np.ndarray]:
        found = []
        with step("accounting for the waiting in the log", len(today.logs), "log") as one:
            for log in today.logs:
                found.append(account.seconds(log.jobs, log.nodes, site))
                one.done += 1
        return found

    return keep(
        results.kept if results.keep else None,
        f"account.{file_name(results.policy)}",
        [*inputs_of(results, today), site, code_digest(type(account).__module__)],
        make,
        lambda one: Archive({}, {str(i): seconds for i, seconds in enumerate(one)}),
        lambda one: [one.arrays[str(i)] for i in range(len(today.logs))],
    )


def _hours_by_job(
    results: StudyResults, log: Logged, counts: np.ndarray, seconds: np.ndarray, own: bool
) -> pd.DataFrame:
    """Return the waits, s, of each job that counts and runs in every replay.

    Unless the policy knows the rules of the site, each job comes later by the part of its wait that was not for
    want of nodes: so the holds are in both replays what they were in the log.
    """
    plan, jobs = results.plan, log.jobs
    submit = jobs["submit_time"].to_numpy(np.int64)
    account = log_account()
    want = seconds[:, [account.causes.index(name) for name in account.cuttable]].sum(1)
    held = seconds.sum(1) - want
    later = jobs if own else jobs.drop(columns="eligible_time", errors="ignore").assign(submit_time=submit + held)
    bought = package_nodes(dict(zip(plan.types, counts.tolist(), strict=True)), plan.quotes, plan.existing)
    schedules = {
        "today": replay(results, log, log.nodes, later),
        "bought": replay(results, log, bought, later),
        "free": replay(results, log, bought, jobs, "easy" if own else None),
    }
    table = pd.DataFrame(seconds, columns=list(account.causes)).assign(
        logged=seconds.sum(1),
        want=want,
        held=held,
        weight=log.weight,
        **{"class": np.array(CLASSES)[class_of(jobs)]},
        **{
            name: (one["start_time"].astype("Float64").to_numpy(np.float64, na_value=np.nan) - submit).clip(0)
            for name, one in schedules.items()
        },
    )
    return table[log.counted].dropna()
