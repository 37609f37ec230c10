"""Tables to the arrays of a pass: jobs that started, groups of like requests, nodes known or inferred."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.account.nodes import Placed, check_fit, held_cpus, levels, place_jobs, said_whole, usual_of
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
from procure.simulator.arrays import filled, numbered
from procure.site.model import Site

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


def owners_of(jobs: pd.DataFrame, fewest: int = 2) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Number users, accounts, partitions … along one line: of each job, int32[n_kinds, n_jobs]; names; which of OWNERS.

    A job's is −1 where it names none; of accounts and what follows, where all jobs together name less than ``fewest``.
    """
    rows: list[np.ndarray] = []
    names: list[str] = []
    kinds: list[int] = []
    for kind, name in enumerate(OWNERS):
        text = jobs[name].fillna("").astype(str) if name in jobs else pd.Series("", index=jobs.index)
        if name == "qos_user" and any(one == OWNERS.index("qos") for one in kinds) and "user" in jobs:
            text = jobs["user"].fillna("").astype(str) + " in " + jobs["qos"].fillna("").astype(str)
        number, distinct = pd.factorize(text.where(text != ""))
        if kind and len(distinct) < fewest:
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
    placed = place_jobs(jobs, nodes)
    held, whole, notes = _held(jobs, site, placed, part)
    owner, names, kinds = owners_of(jobs)
    group, groups = _groups(jobs, placed, held, whole, partitions or {})
    log, known, total = _log(jobs, placed, held, owner, group), placed.known, int(placed.table["cpus"].sum())
    if placed.alone and known is not None:
        notes += _too_few(jobs, log.cpus, total)
    largest = held.max() if known is None else known["cpus"].max()
    none, unlimited = np.zeros(0, np.int64), np.full(len(names), FAR, np.int64)
    peaks = np.zeros((2, len(names)), np.int64)
    for kind in log.kinds:
        peaks += usual_of(log.start, log.end, log.owner[kind], log.cpus, len(names))
    totals = (placed.table[name].to_numpy(np.int64).copy() for name in ("cpus", "mem_mb", "gpus"))
    pause = np.zeros(len(jobs), np.int64)
    return Laid(
        log,
        groups,
        Centre(*totals, none, none, unlimited, unlimited.copy(), *peaks, pause),  # type: ignore[call-arg]
        jobs,
        names,
        kinds,
        has_nodes=not placed.alone,
        in_pieces=placed.alone and bool((held < largest).any()),
        total_cpus=total,
        n_held=int(((held > jobs["cpus_per_node"].to_numpy(np.int64)) & (log.end > log.start)).sum()),
        node_ids=placed.table["node_id"].astype(str).tolist(),
        n_nodes=0 if known is None else len(known),
        notes=notes,
    )


def _groups(
    jobs: pd.DataFrame, placed: Placed, held: np.ndarray, whole: np.ndarray, partitions: dict[str, list[str]]
) -> tuple[np.ndarray, Groups]:
    """Return the group of each job, int64[n_jobs], and what the groups ask for."""
    scale, table = placed.scale(jobs), placed.table
    pool, allowed = _partition_nodes(jobs, placed, partitions)
    asked = {
        "n": np.diff(placed.first),
        "cpus": np.where(whole, jobs["cpus_per_node"].to_numpy(np.int64), held) * scale,
        "mem": jobs["mem_mb_per_node"].to_numpy(np.int64) * scale,
        "gpus": jobs["gpus_per_node"].to_numpy(np.int64) * scale,
        "pool": pool,
        "whole": whole,
    }
    if "gpu_type" in jobs and not placed.alone:
        asked["gpu_type"] = jobs["gpu_type"].fillna("").to_numpy()
    group = numbered(*asked.values(), sort=False)
    first_of = ~pd.Series(group).duplicated().to_numpy()
    distinct = pd.DataFrame({"gpu_type": ""} | {name: column[first_of] for name, column in asked.items()})
    may_use = _may_use(distinct, table, allowed)
    # Of a whole node as many CPUs are taken as the smallest has that will do.
    sizes = np.where(may_use, table["cpus"].to_numpy(np.int64), np.iinfo(np.int64).max).min(1)
    return group, Groups(  # type: ignore[misc]
        distinct["n"].to_numpy(np.int64).copy(),
        np.where(distinct["whole"], sizes, distinct["cpus"]).astype(np.int64),
        *(distinct[name].to_numpy(np.int64).copy() for name in ("mem", "gpus", "pool")),
        may_use=may_use,
        whole=distinct["whole"].to_numpy(bool).copy(),
    )


def _partition_nodes(
    jobs: pd.DataFrame, placed: Placed, partitions: dict[str, list[str]]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the partition of each job, int64[n_jobs], and its nodes, bool[n_partitions, n_nodes]; None = any."""
    if placed.alone or "partition" not in jobs:
        return np.zeros(len(jobs), np.int64), None
    pool, names = pd.factorize(jobs["partition"].fillna(""))
    allowed, known = np.zeros((len(names), len(placed.table)), bool), placed.number >= 0
    allowed[np.repeat(pool, np.diff(placed.first))[known], placed.number[known]] = True
    for i, name in enumerate(names):
        if name in partitions:
            allowed[i] = placed.table["node_id"].isin(partitions[name])
    return pool, allowed


def _log(jobs: pd.DataFrame, placed: Placed, held: np.ndarray, owner: np.ndarray, group: np.ndarray) -> Log:
    origin, requested = int(jobs["submit_time"].min()), jobs["requested_time"].to_numpy(np.int64)
    names = ("submit_time", "eligible_time", "start_time", "end_time")
    submit, eligible, start, end = times = [jobs[name].to_numpy(np.int64) - origin for name in names]
    # Events of one moment are in the order of their kinds, and of one kind by job; a job of no length has no end.
    n, job, runs, later = len(submit), np.arange(len(submit), dtype=np.int32), end > start, eligible > submit
    at = np.concatenate([end[runs], eligible[later], submit, start])
    kinds = np.array([ENDED, ELIGIBLE_NOW, SUBMITTED, STARTED], np.int8)
    kind = np.repeat(kinds, [runs.sum(), later.sum(), n, n])
    order = np.argsort(len(kinds) * at + kind, kind="stable")
    return Log(  # type: ignore[call-arg]
        *times,
        np.where(requested > 0, requested, FAR),
        held * jobs["n_nodes"].to_numpy(np.int64),
        owner,
        np.flatnonzero((owner >= 0).any(axis=1)),
        group,
        np.asarray(placed.first, np.int64),
        placed.number,
        at[order],
        kind[order],
        np.concatenate([job[runs], job[later], job, job])[order],
    )


def _held(
    jobs: pd.DataFrame, site: Site | None, placed: Placed, part: bool
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return the CPUs that each job held of each of its nodes, which took them whole, and what a reader must know.

    No node is whole where one stands for all; ``part`` as in `lay_out`.
    """
    n, asked, scale = len(jobs), jobs["cpus_per_node"].to_numpy(np.int64), placed.scale(jobs)
    nodes = placed.known if placed.alone else placed.table
    held = held_cpus(jobs, None if nodes is None else nodes["cpus"].to_numpy(np.int64), site)
    whole = np.zeros(n, bool)
    if not placed.alone:
        size, sizes = np.append(placed.table["cpus"].to_numpy(np.int64), 0)[placed.number], np.diff(placed.first)
        job = np.repeat(np.arange(n), sizes)
        had = np.bincount(job, size, minlength=n).astype(np.int64)
        named = np.bincount(job, placed.number >= 0, minlength=n) == sizes
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
        node_list=log.node_list.copy(),
        **filled(n + 1, following=n, previous=n),
        **filled(n, running=0, stretch=0),
        **filled(n_groups, active=0, place=0, n_waiting=0),
        **filled(n_owners, jobs_of=0, cpus_of=0, seen=-1),
        **filled(len(CAUSES), lower=0, upper=0),
        **filled(4, counters=0),
        unused=np.zeros((n_groups, 3), np.int64),
        fitting=np.zeros((n_groups, 4), np.int64),
        seconds=np.zeros((n, len(CAUSES)), np.int64, order="F"),  # a cause that never applies takes no room
        beside=np.zeros((3, n_owners), np.int64),
        kept=np.zeros((len(OWNERS), n, 2), np.int64),
        spells=np.zeros((2 * n, 2), np.int64),
    )
