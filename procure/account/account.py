"""The account of every hour that jobs waited: by cause, and by class of jobs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.account.inferred import (
    Limit,
    Outage,
    book_pauses,
    bounds_of,
    infer_limits,
    infer_outages,
    infer_pause,
    pauses_of,
    with_limits,
)
from procure.account.layout import OWNERS, Laid, lay_out, make_work, started_jobs, with_outages, without_unread
from procure.account.sweep import CAUSES, FRAGMENTED, INFERRED, N_SPELLS, PAUSE, UNEXPLAINED, Work, sweep
from procure.schemas import CLASSES, JOB, NODE
from procure.site.model import Site
from procure.site.store import node_list
from procure.tables import as_table
from procure.text import Shown, counted
from procure.workload.describe import class_of

SAID = {
    "not_eligible": "not eligible (dependency, begin time, hold)",
    "above_limit": "above a limit",
    "full": "nodes are full",
    "fragmentation": "CPUs free, but not on enough of one node",
    "memory": "CPUs free, but not the memory",
    "gpus": "CPUs free, but not the GPUs",
    "reserved": "reserved for an earlier job",
    "outage": "capacity was not there",
    "pause": "the scheduler's pause",
    "unexplained": "unexplained",
}
"""What each cause is called."""
_STEP = 1 << 18
"""Jobs that are summed at a time."""
_PLURAL = dict(zip(OWNERS, ("users", "accounts", "partitions", "QOS", "users in a QOS"), strict=True))
HARDWARE = ("full", "fragmentation", "memory", "gpus", "reserved")
"""Causes that hardware can cut; a reservation is for a job that wants nodes."""


@dataclass(frozen=True, repr=False)
class Account(Shown):
    """Why jobs waited.

    Attributes
    ----------
    causes
        A row per cause, in the order in which they are tried: ``cause hours share lower upper``. ``lower`` counts
        the hours for which no other cause would do, ``upper`` those for which it would do, whatever comes first.
    by_class
        ``class`` (`procure.schemas.CLASSES`) with ``n_jobs hours`` and the hours of each cause.
    by_job
        int64[n_jobs, n_causes], s, the jobs that started in order of submission.
    limits, outages, pause
        What the log itself shows, see `procure.account.inferred`; the pause is the median over jobs.
    notes
        Sentences on what a reader must know.
    """

    causes: pd.DataFrame
    by_class: pd.DataFrame
    by_job: np.ndarray
    limits: list[Limit]
    outages: list[Outage]
    pause: int
    n_jobs: int
    names: list[str] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What was accounted for."""
        return f"why {counted(self.n_jobs, 'job')} waited {self.causes['hours'].sum():,.0f} hours"

    @property
    def table(self) -> pd.DataFrame:
        """The causes."""
        return self.causes

    def shown(self) -> pd.DataFrame:
        """Return the causes for people, those without hours left out."""
        kept = self.causes[(self.causes["hours"] > 0) | (self.causes["upper"] > 0)]
        hours = {name: kept[name].map("{:,.1f}".format) for name in ("hours", "lower", "upper")}
        return kept.assign(cause=kept["cause"].map(SAID), share=kept["share"].map("{:.1%}".format), **hours)

    @property
    def sentence(self) -> str:
        """The sentence that a committee reads."""
        of = self.causes.set_index("cause")
        total = of["hours"].sum()
        if not total:
            return "No job waited."
        cut = sum(of["hours"][name] for name in HARDWARE) / total
        behind = sum(of["upper"][name] - of["hours"][name] for name in HARDWARE) / total
        most = min(1.0, cut + behind)
        rest = of["hours"].drop(list(HARDWARE)).sort_values(ascending=False)
        first = rest.index[0]
        largest = f"; the largest other part, {rest.iloc[0] / total:.0%}, is: {SAID[first]}"
        bound = f" (up to {most:.0%} whatever else held them)" if most > cut + 0.005 else ""
        return (
            f"Of 100 hours waited, {100 * cut:.0f} were for want of nodes, memory or GPUs{bound}"
            f"{largest if rest.iloc[0] > 0 else ''}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the account for programs."""
        return {
            "n_jobs": self.n_jobs,
            "hours": float(self.causes["hours"].sum()),
            "causes": self.causes.to_dict(orient="records"),
            "by_class": self.by_class.to_dict(orient="records"),
            "limits": [
                {one.kind: self.names[one.owner], "resource": one.resource, "value": one.value,
                 "n_jobs": one.n_jobs, "share": one.share, "chance": one.chance}
                for one in self.limits
            ],
            "outages": [one._asdict() for one in self.outages],
            "pause": self.pause,
            "sentence": self.sentence,
            "notes": list(self.notes),
        }  # fmt: skip


def account_waits(
    jobs: pd.DataFrame | str | Path,
    nodes: pd.DataFrame | str | Path | None = None,
    site: Site | None = None,
    *,
    infer: bool = True,
    part: bool = False,
) -> Account:
    """Account for every hour that the jobs of a log waited.

    Each second of each wait falls to the first cause that applies: the job is not eligible; its user is at a limit; the
    nodes that it may use have too few CPUs or GPUs free; they have enough, but not on enough nodes at once
    (fragmentation), or not with the memory or GPUs beside them; an earlier job that cannot start would need the room
    at the time that EASY would promise it; capacity was not there; the scheduler's pause; unexplained.

    Parameters
    ----------
    jobs
        Job table with ``start_time``; ``eligible_time`` and ``node_ids`` are used where they are known.
    nodes
        Node table. Without, or where the log does not say on which nodes jobs ran, room is counted in CPUs, memory
        and GPUs of all nodes together, and fragmentation cannot be seen.
    site
        Rules that are known: partitions, and the inferred ``rules`` that an administrator left standing.
    infer
        Infer limits, outages and the pause from the log; what the site knows comes first.
    part
        These are some jobs of a log of which the nodes hold all.

    Raises
    ------
    TableError
        No job has a start; there are jobs of several clusters; the nodes do not hold what ran on them.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.generate(seed=1, n_jobs=200)
    >>> nodes = procure.fat_tree(1, 1, 2, cpus=64, mem_mb=512_000)
    >>> procure.account_waits(procure.simulate(jobs, nodes, "easy").schedule, nodes).n_jobs
    200
    """
    given = without_unread(as_table(jobs, JOB))
    log = started_jobs(given)
    table = None if nodes is None else as_table(nodes, NODE)
    partitions = None
    if site is not None and table is not None:
        partitions = {one.name: node_list(one.nodes, table) for one in site.partitions if one.nodes}
    laid = lay_out(log, table, partitions, site, part=part)
    if site is not None:  # its rules that say of themselves how they bind
        max_jobs, max_cpus = bounds_of(site.rules, laid.names, laid.kinds)
        pause = pauses_of(site.rules, laid.jobs)
        laid = laid._replace(centre=laid.centre._replace(max_jobs=max_jobs, max_cpus=max_cpus, pause=pause))
    limits: list[Limit] = []
    outages: list[Outage] = []
    laid, node_days = _with_events(laid, site, table, int(log["submit_time"].iloc[0]))
    if infer:
        outages = [] if node_days else infer_outages(laid)
        if outages:
            laid = with_outages(laid, *np.array([one[:4] for one in outages], np.int64).T.copy())
        work = _pass(laid)
        for kind in range(len(OWNERS)):  # what the limits of users explain shows no limit of their account
            if found := infer_limits(laid, kind, work):
                limits, laid = [*limits, *found], with_limits(laid, found)
                work = _pass(laid)
        if not laid.centre.pause.any():
            pause = np.full(len(laid.jobs), infer_pause(work.seconds), np.int64)
            laid = laid._replace(centre=laid.centre._replace(pause=pause))
            book_pauses(work, pause)
        if work.counters[N_SPELLS] > len(work.spells):
            del work  # as large as that of the last pass
            work = _pass(laid, last=True)
    else:
        work = _pass(laid, last=True)
    account = _summed(laid, work, limits, outages)
    if node_days:
        said = f"the site's events take nodes away for {node_days:,.1f} node-days of the log: `outage` goes by them"
        account = replace(account, notes=(*account.notes, said))
    return replace(account, notes=(*account.notes, *laid.notes, *_of_log(given, laid)))


def _of_log(jobs: pd.DataFrame, laid: Laid) -> list[str]:
    """Say what of a log the account leaves out or cannot know."""
    started = jobs["start_time"].notna()
    counts = {
        "without a start: left out": len(jobs) - int(started.sum()),
        "with a start before the submission: the wait is taken as 0": int(
            (jobs["start_time"] < jobs["submit_time"]).sum()
        ),
    }
    if "node_ids" in jobs and (named := started & (jobs["node_ids"].fillna("") != "")).any():
        taken = "they are taken to be where most was free" if laid.has_nodes else "so that nodes are not told apart"
        unnamed = started & (jobs["run_time"] > 0) & ~named
        counts[f"of which it is not known on which nodes they ran: {taken}"] = int(unnamed.sum())
    counts["that held more CPUs than they asked for, as of whole nodes: all of these count as occupied"] = laid.n_held
    return [f"{counted(n, 'job')} {what}" for what, n in counts.items() if n]


def _pass(laid: Laid, last: bool = False) -> Work:
    """Book every wait; only in the ``last`` pass nothing is kept of what shows a limit."""
    work = make_work(laid)
    if last:
        work = work._replace(kept=work.kept[:, :0].copy())
    sweep(laid.log, laid.groups, laid.centre, work)
    return work


def _with_events(laid: Laid, site: Site | None, nodes: pd.DataFrame | None, origin: int) -> tuple[Laid, float]:
    """Take nodes away that a site's events say were down or drained, and return for how many node-days they were."""
    if site is None or nodes is None or not site.events:
        return laid, 0.0
    last = int(laid.log.event_at[-1])
    row_of = {name: row for row, name in enumerate(laid.node_ids)}
    cpus_of = dict(zip(nodes["node_id"], nodes["cpus"], strict=True))
    spans: dict[str, list[tuple[int, int]]] = {}
    for one in site.events:
        begin, end = max(0, one.start - origin), last if one.end is None else min(last, one.end - origin)
        for name in node_list(one.nodes, nodes):
            if begin < end and name in cpus_of and (name in row_of or not laid.has_nodes):
                spans.setdefault(name, []).append((begin, end))
    rows = [
        (row_of.get(name, 0), int(cpus_of[name]), begin, end)
        for name, given in spans.items()
        for begin, end in _apart(given)
    ]
    if not rows:
        return laid, 0.0
    columns = np.array(rows, np.int64).T.copy()
    return with_outages(laid, *columns), float((columns[3] - columns[2]).sum()) / 86_400


def _apart(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join spans that overlap: a node is away but once."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def _summed(laid: Laid, work: Work, limits: list[Limit], outages: list[Outage]) -> Account:
    jobs, seconds = laid.jobs, work.seconds
    lower, upper = work.lower.copy(), work.upper.copy()
    total = int(seconds.sum())
    notes = []
    if not laid.has_nodes:
        notes.append("it is not known on which nodes jobs ran: room is counted over all nodes together")
    if laid.in_pieces:
        behind = [cause for cause in range(PAUSE) if INFERRED >> cause & 1]
        upper[FRAGMENTED] += int(seconds[:, [PAUSE, UNEXPLAINED, *behind]].sum())
        lower[[PAUSE, UNEXPLAINED, *behind]] = 0
        notes.append("what was free in pieces too small for a job cannot be told from what is unexplained")
    if limits:
        ordered = sorted(limits, key=lambda one: OWNERS.index(one.kind))
        notes.append(
            f"{counted(len(limits), 'limit')} of {' and '.join(dict.fromkeys(_PLURAL[one.kind] for one in ordered))} "
            "inferred: the most that ran while the next job waited with room"
        )
    if outages:
        days = sum(one.end - one.begin for one in outages) / 86_400
        nodes = counted(len({one.node_id for one in outages}), "node")
        ran_nothing = f"{nodes} ran nothing while jobs waited, for {days:,.1f} node-days in all: `outage` goes by that"
        missing = f"capacity was missing on {days:,.0f} days, as usage shows"
        notes.append(ran_nothing if laid.has_nodes else missing)
    hours = {"hours": seconds.sum(0) / 3600, "share": seconds.sum(0) / max(total, 1)}
    return Account(
        causes=pd.DataFrame({"cause": CAUSES} | hours | {"lower": lower / 3600, "upper": upper / 3600}),
        by_class=_by_class(jobs, seconds),
        by_job=seconds,
        limits=limits,
        outages=outages,
        pause=int(np.median(laid.centre.pause)),
        n_jobs=len(jobs),
        names=laid.names,
        notes=tuple(notes),
    )


def _by_class(jobs: pd.DataFrame, seconds: np.ndarray) -> pd.DataFrame:
    """Return the hours of each class of jobs, column by column: all as hours take as much room as the log."""
    names = sorted(CLASSES)
    classes = np.array([names.index(one) for one in CLASSES], np.int8)[class_of(jobs)]
    rows = (np.ascontiguousarray(seconds[at : at + _STEP]) / 3600 for at in range(0, len(jobs), _STEP))
    sums = {"n_jobs": pd.Series(1, range(len(jobs))).groupby(classes).sum()}
    sums["hours"] = pd.Series(np.concatenate([pd.DataFrame(each).sum(axis=1) for each in rows])).groupby(classes).sum()
    sums |= {cause: pd.Series(seconds[:, i] / 3600).groupby(classes).sum() for i, cause in enumerate(CAUSES)}
    table = pd.DataFrame(sums).rename(index=dict(enumerate(names)))
    return table.rename_axis("class").reset_index()
