"""Tables to the arrays of a pass: jobs that started, groups of like requests, nodes known or inferred."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.account.held import held_cpus, said_whole
from procure.account.levels import levels, usual_of
from procure.account.nodes import by_kind, check_fit, inferred_nodes, nodes_of, one_node
from procure.account.sweep import (
    BACK,
    CAUSES,
    ELIGIBLE_NOW,
    ENDED,
    FAR,
    LEFT,
    STARTED,
    SUBMITTED,
    Centre,
    Groups,
    Log,
    Work,
)
from procure.errors import TableError
from procure.files.gpu_pools import models_of
from procure.schemas import REQUEST, TASKS
from procure.simulator.arrays import numbers_of
from procure.site.model import Site
from procure.text import be, counted

OWNERS = ("user", "account", "partition", "qos", "qos_user")
"""Whose jobs a limit counts; the last is a user in one QOS."""
EXCEEDS = 0.002
"""Share of the time of a log for which more may run than its nodes have before it is said."""
_READ = {
    *("job_id", "cluster", "user", "account", "partition", "qos", "submit_time", "eligible_time", "start_time"),
    *("run_time", "requested_time", "exclusive", "held_cpus_per_node", "node_ids", *REQUEST, *TASKS),
}
"""Columns of a job table that an account reads."""


class Laid(NamedTuple):
    """A log laid out, and what the account needs to say beside it."""

    log: Log
    groups: Groups
    centre: Centre
    jobs: pd.DataFrame  # those that started, by submission
    names: list[str]  # of the owners
    kinds: np.ndarray  # int64[n_owners], which of OWNERS
    has_nodes: bool  # it is known which nodes each job had
    in_pieces: bool  # what is free may be in pieces too small, which is not seen
    total_cpus: int
    n_held: int  # jobs that held more CPUs than they asked for, which is counted as occupied
    node_ids: list[str]
    n_nodes: int  # 0 = not known
    notes: tuple[str, ...] = ()


def without_unread(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return a job table with the columns that an account reads."""
    return jobs[[name for name in jobs if name in _READ]]


def check_started(jobs: pd.DataFrame) -> None:
    """Refuse a log of which no job has a start, and one of several clusters."""
    if "start_time" not in jobs or jobs["start_time"].notna().sum() == 0:
        raise TableError(
            "the jobs have no start_time, so it is not known how long they waited; for Slurm, "
            "`procure workload import --print-sacct-command` prints what collects it"
        )
    if "cluster" in jobs and (n := jobs["cluster"].nunique()) > 1:
        names = ", ".join(sorted(jobs["cluster"].astype(str).unique())[:4])
        raise TableError(f"the jobs are of {n} clusters ({names}); take one at a time")


def started_jobs(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs that started and ended, by submission."""
    check_started(jobs)
    started = jobs["start_time"].notna()
    kept = jobs if started.all() else jobs[started]
    if not kept["submit_time"].is_monotonic_increasing:  # else it is not made twice
        kept = kept.sort_values("submit_time", kind="stable")
    kept = kept.reset_index(drop=True)
    start, submit = kept["start_time"].astype("int64"), kept["submit_time"].astype("int64")
    eligible = kept["eligible_time"].fillna(submit) if "eligible_time" in kept else submit
    end = start + kept["run_time"].astype("int64")
    return kept.assign(
        start_time=np.maximum(start, submit),
        end_time=np.maximum(end, start),
        eligible_time=np.clip(eligible.astype("int64"), submit, np.maximum(start, submit)),
    )


def _too_few(jobs: pd.DataFrame, cpus: np.ndarray, total: int) -> tuple[str, ...]:
    """Say where more CPUs ran at once than there are, for so long that it is no matter of the clock."""
    start, end = (jobs[name].to_numpy(np.int64) for name in ("start_time", "end_time"))
    (some,) = levels(start, end, np.zeros(len(jobs), np.int64), cpus)
    share = some.lasted[some.level > total].sum() / max(int(some.lasted.sum()), 1)
    if share <= EXCEEDS:
        return ()
    return (
        f"careful: for {share:.1%} of the time more ran than these nodes have, up to {some.level.max():,} of {total:,} "
        "CPUs: some nodes are missing in the table, or jobs are counted otherwise than the nodes",
    )


def _owners(jobs: pd.DataFrame) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Number users, accounts, partitions … along one line; −1 where a job names none, or all name the same."""
    rows: list[np.ndarray] = []
    names: list[str] = []
    kinds: list[int] = []
    for kind, name in enumerate(OWNERS):
        text = jobs[name].fillna("").astype(str) if name in jobs else pd.Series("", index=jobs.index)
        if name == "qos_user" and any(one == OWNERS.index("qos") for one in kinds) and "user" in jobs:
            text = jobs["user"].fillna("").astype(str) + " in " + jobs["qos"].fillna("").astype(str)
        number, distinct = pd.factorize(text.where(text != ""))
        if kind and len(distinct) < 2:
            number, distinct = np.full(len(jobs), -1), distinct[:0]
        rows.append(np.where(number < 0, -1, number + len(names)).astype(np.int32))
        names += [str(one) for one in distinct]
        kinds += [kind] * len(distinct)
    return np.array(rows), names, np.array(kinds, np.int64)


def _may_use(groups: pd.DataFrame, table: pd.DataFrame, allowed: np.ndarray | None) -> np.ndarray:
    """Say which nodes hold a group's request when empty, and are of its partition: bool[n_groups, n_nodes]."""
    holds = np.ones((len(groups), len(table)), bool)
    for name, of in {"cpus": "cpus", "mem": "mem_mb", "gpus": "gpus"}.items():
        holds &= table[of].to_numpy(np.int64) >= groups[name].to_numpy(np.int64)[:, None]
    models = [models_of(str(text)) for text in table["gpu_type"].fillna("")]
    for i, (text, n) in enumerate(zip(groups["gpu_type"], groups["gpus"], strict=True)):
        asked = models_of(text)
        if n and asked:
            holds[i] &= np.array([not there or bool(there & asked) for there in models], bool)
    if allowed is not None:
        inside = holds & allowed[groups["pool"].to_numpy(np.int64)]
        holds = np.where(inside.sum(1)[:, None] >= groups["n"].to_numpy()[:, None], inside, holds)
    nowhere = holds.sum(1) < groups["n"].to_numpy()  # the log has run what the table says cannot
    holds[nowhere] = True
    return holds


def lay_out(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame | None,
    partitions: dict[str, list[str]] | None = None,
    site: Site | None = None,
    *,
    part: bool = False,
) -> Laid:
    """Lay a log of `started_jobs` out.

    Without a node table the nodes are what the log shows: each where it names nodes, else all together. The nodes of a
    partition that ``partitions`` does not have are those on which its jobs ran. With ``part`` these are jobs of a log
    whose nodes hold all of it: the few hours for which they do not may be many of a part's, and no reason to refuse it.
    """
    n = len(jobs)
    given = nodes_of(jobs)
    if given is not None and nodes is not None and not set(given[2]) <= set(nodes["node_id"]):
        if not set(given[2]) & set(nodes["node_id"]):
            nodes = by_kind(jobs, given, nodes)
            given = None if nodes is None else given
        else:
            missing = sorted(set(given[2]) - set(nodes["node_id"]))
            raise TableError(
                f"the nodes do not hold what ran on them: jobs ran on {missing[0]}, which is not in the node table"
                + (f", nor {be(n_more)} {counted(n_more, 'other')}" if (n_more := len(missing) - 1) else "")
            )
    if given is not None:
        first, number, names = given
        if nodes is None:
            table = inferred_nodes(jobs, given)
        else:
            table = nodes.reset_index(drop=True)
            rows = np.append(pd.Index(table["node_id"]).get_indexer(pd.Index(names)), -1)
            number = rows[number].astype(np.int64)
        share = np.diff(first)
    else:
        table = one_node(jobs, nodes)
        first, number, share = np.arange(n + 1), np.zeros(n, np.int64), np.ones(n, np.int64)
    alone = given is None
    scale = jobs["n_nodes"].to_numpy(np.int64) if alone else np.ones(n, np.int64)
    asked_cpus = jobs["cpus_per_node"].to_numpy(np.int64)
    held, whole, notes = _held(jobs, nodes if alone else table, site, (table, first, number), alone, part)
    if alone and nodes is not None:
        notes += _too_few(jobs, held * scale, int(table["cpus"].iloc[0]))
    pool = np.zeros(n, np.int64)
    allowed = None
    if not alone and "partition" in jobs:
        pool, parts = pd.factorize(jobs["partition"].fillna(""))
        allowed = np.zeros((len(parts), len(table)), bool)
        allowed[np.repeat(pool, np.diff(first))[number >= 0], number[number >= 0]] = True
        for i, name in enumerate(parts):
            if partitions and name in partitions:
                allowed[i] = table["node_id"].isin(partitions[name])
    asked = {
        "n": share,
        "cpus": np.where(whole, asked_cpus, held) * scale,
        "mem": jobs["mem_mb_per_node"].to_numpy(np.int64) * scale,
        "gpus": jobs["gpus_per_node"].to_numpy(np.int64) * scale,
        "pool": pool,
        "whole": whole,
    }
    if "gpu_type" in jobs and not alone:
        asked["gpu_type"] = jobs["gpu_type"].fillna("").to_numpy()
    group = numbers_of(*asked.values())
    first_of = ~pd.Series(group).duplicated().to_numpy()
    distinct = pd.DataFrame({"gpu_type": ""} | {name: column[first_of] for name, column in asked.items()})
    del asked
    may_use = _may_use(distinct, table, allowed)
    # Of a whole node as many CPUs are taken as the smallest has that will do.
    sizes = np.where(may_use, table["cpus"].to_numpy(np.int64), np.iinfo(np.int64).max).min(1)
    least = np.where(distinct["whole"], sizes, distinct["cpus"]).astype(np.int64)
    groups = Groups(  # type: ignore[misc]
        distinct["n"].to_numpy(np.int64).copy(),
        least,
        *(distinct[name].to_numpy(np.int64).copy() for name in ("mem", "gpus", "pool")),
        may_use=may_use,
        whole=distinct["whole"].to_numpy(bool).copy(),
    )
    owner, names, kinds = _owners(jobs)
    origin = int(jobs["submit_time"].min())
    times = [
        jobs[name].to_numpy(np.int64) - origin for name in ("submit_time", "eligible_time", "start_time", "end_time")
    ]
    requested = jobs["requested_time"].to_numpy(np.int64)
    at, kind, about = _events(*times)
    cpus = held * jobs["n_nodes"].to_numpy(np.int64)
    log = Log(  # type: ignore[misc]
        *times,
        limit=np.where(requested > 0, requested, FAR),
        cpus=cpus,
        owner=owner,
        kinds=np.flatnonzero((owner >= 0).any(axis=1)),
        group=group,
        node_first=np.asarray(first, np.int64),
        node_list=number,
        event_at=at,
        event=kind,
        about=about,
    )
    none = np.zeros(0, np.int64)
    peaks = np.zeros((2, len(names)), np.int64)
    for row in owner:
        if (row >= 0).any():
            peaks += usual_of(times[2], times[3], row, cpus, len(names))
    unlimited = np.full(len(names), FAR, np.int64)
    centre = Centre(  # type: ignore[misc]
        *(table[name].to_numpy(np.int64).copy() for name in ("cpus", "mem_mb", "gpus")),
        outage_node=none,
        outage_cpus=none,
        max_jobs=unlimited,
        max_cpus=unlimited.copy(),
        peak_jobs=peaks[0],
        peak_cpus=peaks[1],
        pause=np.zeros(n, np.int64),
    )
    largest = held.max() if nodes is None else nodes["cpus"].max()
    in_pieces = alone and bool((held < largest).any())
    n_nodes = 0 if nodes is None else len(nodes)
    total = int(table["cpus"].sum())
    n_held = int(((held > asked_cpus) & (times[3] > times[2])).sum())
    node_ids = table["node_id"].astype(str).tolist()
    return Laid(log, groups, centre, jobs, names, kinds, not alone, in_pieces, total, n_held, node_ids, n_nodes, notes)


def _held(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame | None,
    site: Site | None,
    placed: tuple[pd.DataFrame, np.ndarray, np.ndarray],
    alone: bool,
    part: bool,
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return the CPUs that each job held of each of its nodes, which took them whole, and what a reader must know.

    ``alone``: all nodes are counted as one, and no node is whole; ``part``: as in `lay_out`.
    """
    table, first, number = placed
    n, asked = len(jobs), jobs["cpus_per_node"].to_numpy(np.int64)
    scale = jobs["n_nodes"].to_numpy(np.int64) if alone else np.ones(n, np.int64)
    held = held_cpus(jobs, None if nodes is None else nodes["cpus"].to_numpy(np.int64), site)
    whole = np.zeros(n, bool)
    if not alone:
        size = np.append(table["cpus"].to_numpy(np.int64), 0)[number]
        job, sizes = np.repeat(np.arange(n), np.diff(first)), np.diff(first)
        had = np.bincount(job, size, minlength=n).astype(np.int64)
        named = np.bincount(job, number >= 0, minlength=n) == sizes
        # CPUs of each are the mean over a job's nodes, rounded up.
        said = held_cpus(jobs)
        whole = said_whole(jobs, site) | (named & (said > asked) & (said * sizes >= had) & (had > 0))
        held = np.where(whole & named & (sizes > 0), np.maximum(had // np.maximum(sizes, 1), asked), held)
    try:
        check_fit(jobs, placed, held * scale, whole & (held > asked))
    except TableError:
        if not part:
            check_fit(jobs, placed, asked * scale, np.zeros(n, bool))
        if not (held > asked).any():
            if part:
                return held, whole, ()
            raise
        return asked, np.zeros(n, bool), ("the nodes do not hold what jobs held, so what they asked for is taken",)
    return held, whole, ()


def _events(
    submit: np.ndarray, eligible: np.ndarray, start: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the moments, kinds and jobs of all events; a job of no length has no end, one that is eligible no more."""
    n = len(submit)
    job = np.arange(n, dtype=np.int32)
    runs, later = end > start, eligible > submit
    at = np.concatenate([end[runs], eligible[later], submit, start])
    kinds = np.array([ENDED, ELIGIBLE_NOW, SUBMITTED, STARTED], np.int8)
    kind = np.repeat(kinds, [runs.sum(), later.sum(), n, n])
    about = np.concatenate([job[runs], job[later], job, job])
    order = np.argsort(len(kinds) * at + kind, kind="stable")  # of one moment and kind they stand by job
    return at[order], kind[order], about[order]


def with_outages(laid: Laid, node: np.ndarray, cpus: np.ndarray, begin: np.ndarray, end: np.ndarray) -> Laid:
    """Let CPUs of nodes be gone from ``begin`` to ``end``, s after the first submission."""
    log, rows = laid.log, np.arange(len(node))
    at = np.concatenate([log.event_at, begin, end]).astype(np.int64)
    kind = np.concatenate([log.event, np.repeat([LEFT, BACK], len(rows))]).astype(log.event.dtype)
    about = np.concatenate([log.about, rows, rows]).astype(log.about.dtype)
    order = np.lexsort((kind, at))
    log = log._replace(event_at=at[order], event=kind[order], about=about[order])
    centre = laid.centre._replace(outage_node=np.asarray(node, np.int64), outage_cpus=np.asarray(cpus, np.int64))
    return laid._replace(log=log, centre=centre)


def make_work(laid: Laid) -> Work:
    """Lay out room for a pass over a log."""
    log, groups, centre = laid.log, laid.groups, laid.centre
    n, n_groups, n_owners = len(log.submit), len(groups.cpus), len(laid.names)
    free = np.stack([centre.cpus, centre.mem, centre.gpus, np.zeros_like(centre.cpus)])
    return Work(
        free=free,
        following=np.full(n + 1, n, np.int64),
        previous=np.full(n + 1, n, np.int64),
        running=np.zeros(n, np.int64),
        node_list=log.node_list.copy(),
        active=np.zeros(n_groups, np.int64),
        place=np.zeros(n_groups, np.int64),
        n_waiting=np.zeros(n_groups, np.int64),
        unused=np.zeros((n_groups, 3), np.int64),
        fitting=np.zeros((n_groups, 4), np.int64),
        jobs_of=np.zeros(n_owners, np.int64),
        cpus_of=np.zeros(n_owners, np.int64),
        stretch=np.zeros(n, np.int64),
        counters=np.zeros(4, np.int64),
        seconds=np.zeros((n, len(CAUSES)), np.int64, order="F"),  # a cause that never applies takes no room
        lower=np.zeros(len(CAUSES), np.int64),
        upper=np.zeros(len(CAUSES), np.int64),
        seen=np.full(n_owners, -1, np.int64),
        beside=np.zeros((3, n_owners), np.int64),
        kept=np.zeros((len(OWNERS), n, 2), np.int64),
        spells=np.zeros((2 * n, 2), np.int64),
    )
