"""The nodes of a log: known, seen in it, or inferred; what jobs held of them, and how much ran at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.site.model import Site
from procure.text import be, counted


def said_whole(jobs: pd.DataFrame, site: Site | None = None) -> np.ndarray:
    """Return which jobs took their nodes whole, as the log's column ``exclusive`` or the site says: bool[n_jobs]."""
    found = np.zeros(len(jobs), bool)
    if "exclusive" in jobs:
        found |= jobs["exclusive"].to_numpy(bool)
    if site is not None:
        found |= site.select.consume == "node"
        whole = [one.name for one in site.partitions if one.oversubscribe.startswith("exclusive")]
        if whole and "partition" in jobs:
            found |= jobs["partition"].fillna("").astype(str).isin(whole).to_numpy(bool)
    return found


def held_cpus(jobs: pd.DataFrame, node_cpus: np.ndarray | None = None, site: Site | None = None) -> np.ndarray:
    """Return the CPUs that each job held of each of its nodes: int64[n_jobs].

    Those of the column ``held_cpus_per_node``, where it is more than the job asked for; of a job that took its nodes
    whole all of a node, where all nodes are as large. No job holds more than as many nodes have as it ran on;
    ``node_cpus`` are those of each node that there is, None = not known.
    """
    asked = jobs["cpus_per_node"].to_numpy(np.int64)
    held = asked
    if "held_cpus_per_node" in jobs:
        more = pd.to_numeric(jobs["held_cpus_per_node"], errors="coerce").to_numpy(np.float64, na_value=np.nan)
        held = np.maximum(asked, np.nan_to_num(more, posinf=0.0).astype(np.int64))
    if node_cpus is None or not len(node_cpus):
        return held
    whole = said_whole(jobs, site)
    if node_cpus.min() == node_cpus.max():
        held = np.where(whole, np.maximum(held, node_cpus[0]), held)
    largest = np.sort(node_cpus)[::-1]
    n_nodes = np.clip(jobs["n_nodes"].to_numpy(np.int64), 1, len(largest))
    return np.maximum(asked, np.minimum(held, largest[n_nodes - 1]))


EXCEEDED = 0.02
"""Share of its time for which an owner may exceed what counts as its usual most."""


class Levels(NamedTuple):
    """How much of an amount ran at once, of each owner after each of its changes, and how long."""

    whose: np.ndarray  # int64[m]
    level: np.ndarray  # int64[m]
    lasted: np.ndarray  # int64[m], s


def levels(start: np.ndarray, end: np.ndarray, of: np.ndarray, *amounts: np.ndarray) -> list[Levels]:
    """Return the levels of all owners, of each amount; jobs of no length count nothing, nor do those of nobody (−1)."""
    kept = (end > start) & (of >= 0)
    at = np.concatenate([end[kept], start[kept]])  # of one moment, ends come before starts
    whose = np.concatenate([of[kept], of[kept]]).astype(np.int64)
    order = np.lexsort((at, whose))
    at, whose = at[order], whose[order]
    # Each owner's changes add up to 0, so no level carries over to the next.
    lasted = np.append(np.where(whose[1:] == whose[:-1], np.diff(at), 0), 0)[: len(at)]
    changes = (np.concatenate([-amount[kept], amount[kept]]) for amount in amounts)
    return [Levels(whose, np.cumsum(change[order]), lasted) for change in changes]


def most_at_once(start: np.ndarray, end: np.ndarray, of: np.ndarray, amount: np.ndarray, n: int) -> np.ndarray:
    """Return the most of an amount that ran at once, of each of ``n`` owners."""
    found = np.zeros(n, np.int64)
    (some,) = levels(start, end, of, amount)
    np.maximum.at(found, some.whose, some.level)
    return found


def usual_most(some: Levels, n: int) -> np.ndarray:
    """Return the least level of each owner that it exceeds for at most 2 % of the time with anything running."""
    kept = (some.level > 0) & (some.lasted > 0)
    whose, level, lasted = (one[kept] for one in some)
    order = np.lexsort((-level, whose))
    whose, level, lasted = whose[order], level[order], lasted[order]
    total = np.bincount(whose, lasted, minlength=n)
    before = np.cumsum(lasted) - lasted
    since = before - np.concatenate([[0], np.cumsum(total)])[whose]
    within = since <= EXCEEDED * total[whose]  # so long does it run above this level
    found = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(found, whose[within], level[within])
    return np.where(total > 0, found, 0)


def usual_of(start: np.ndarray, end: np.ndarray, of: np.ndarray, cpus: np.ndarray, n: int) -> np.ndarray:
    """Return the usual most jobs of each owner, and CPUs while several of its jobs run; of all where that never is.

    A job that runs alone shows no limit: one that is larger than its owner's may do so.
    """
    every, jobs, each = levels(start, end, of, cpus, np.minimum(cpus, 1), np.ones_like(cpus))
    several = usual_most(every._replace(lasted=every.lasted * (jobs.level > 1)), n)
    return np.stack([usual_most(each, n), np.where(several > 0, several, usual_most(every, n))])


MOST_UNNAMED = 0.2
"""Share of the CPU-time of a log of which it may be unknown on which nodes it ran before no node is told apart."""
OVERBOOKED = 0.05
"""Share of the CPU-time of a log that may not fit its nodes before the nodes are refused."""
ALL = "all"
"""Name of the one node that stands for all where it is not known on which jobs ran."""


def nodes_of(jobs: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, list[str]] | None:
    """Return each job's nodes as a range of a list of numbers, −1 where it is not known, and their names.

    None where the log names no nodes, or so few that they tell nothing.
    """
    if "node_ids" not in jobs:
        return None
    unknown = (jobs["node_ids"].fillna("") == "").to_numpy(bool)
    asked = jobs["n_nodes"].to_numpy(np.int64)
    used = asked * jobs["cpus_per_node"].to_numpy(np.int64) * (jobs["end_time"] - jobs["start_time"]).to_numpy(np.int64)
    if unknown.all() or used[unknown].sum() > MOST_UNNAMED * max(int(used.sum()), 1):
        return None
    lists = jobs["node_ids"][~unknown].str.split(",")
    sizes = asked.copy()
    sizes[~unknown] = lists.str.len().to_numpy(np.int64)
    if (sizes != asked).mean() > OVERBOOKED:
        return None  # nodes that the log counts otherwise tell nothing of what each gave
    known, names = pd.factorize(np.concatenate(lists.to_numpy()))
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    number = np.full(int(first[-1]), -1, np.int64)
    number[np.repeat(~unknown, sizes)] = known
    return first, number, [str(name) for name in names]


def inferred_nodes(jobs: pd.DataFrame, nodes: tuple[np.ndarray, np.ndarray, list[str]]) -> pd.DataFrame:
    """Return a node table of the most that ran on each node at once."""
    first, number, names = nodes
    job = np.repeat(np.arange(len(jobs)), np.diff(first))
    return _as_large_as_needed(names, jobs, job, number, np.ones(len(jobs), np.int64))


def _as_large_as_needed(
    names: list[str], jobs: pd.DataFrame, job: np.ndarray, number: np.ndarray, scale: np.ndarray
) -> pd.DataFrame:
    """Return nodes that hold ``scale`` times what each ``job`` had on a node at the node of that ``number``."""
    start, end = (jobs[name].to_numpy(np.int64)[job] for name in ("start_time", "end_time"))
    amounts = {"cpus": held_cpus(jobs)}
    amounts |= {name: jobs[f"{name}_per_node"].to_numpy(np.int64) for name in ("mem_mb", "gpus")}
    peaks = {name: most_at_once(start, end, number, (each * scale)[job], len(names)) for name, each in amounts.items()}
    return pd.DataFrame({"node_id": names, **peaks, "gpu_type": ""})


def by_kind(
    jobs: pd.DataFrame, given: tuple[np.ndarray, np.ndarray, list[str]], nodes: pd.DataFrame
) -> pd.DataFrame | None:
    """Give each node of a log, whose names the table does not know, the smallest kind that holds what ran on it."""
    peaks = inferred_nodes(jobs, given)
    amounts = ["cpus", "mem_mb", "gpus"]
    kinds = nodes.sort_values(amounts, kind="stable")
    sizes, is_left = kinds[amounts].to_numpy(np.int64), np.ones(len(kinds), bool)
    rows = []
    for _, node in peaks.sort_values(["cpus", "mem_mb"], ascending=False, kind="stable").iterrows():
        holds = np.flatnonzero((sizes >= node[amounts].to_numpy(np.int64)).all(axis=1) & is_left)
        if not len(holds):
            return None
        is_left[holds[0]] = False
        rows.append(kinds.iloc[holds[0]].to_dict() | {"node_id": node["node_id"]})
    return pd.DataFrame([*rows, *kinds[is_left].to_dict(orient="records")])


def one_node(jobs: pd.DataFrame, nodes: pd.DataFrame | None) -> pd.DataFrame:
    """Return a node table of one node that has what all have together, or the most that was used at once."""
    if nodes is not None:
        totals = {name: [int(nodes[name].sum())] for name in ("cpus", "mem_mb", "gpus")}
        return pd.DataFrame({"node_id": [ALL], **totals, "gpu_type": ""})
    every = np.arange(len(jobs))
    return _as_large_as_needed([ALL], jobs, every, np.zeros_like(every), jobs["n_nodes"].to_numpy(np.int64))


class Placed(NamedTuple):
    """On which nodes the jobs of a log ran: job j on those of rows ``number[first[j]:first[j + 1]]`` of a table."""

    table: pd.DataFrame
    first: np.ndarray  # int64[n_jobs + 1]
    number: np.ndarray  # int64[], −1 = not known
    alone: bool  # one node stands for all
    known: pd.DataFrame | None  # the node table that was given; None = of other nodes, or none was

    def scale(self, jobs: pd.DataFrame) -> np.ndarray | int:
        """Return how many times what it had of each of its nodes a job had of one of these."""
        return jobs["n_nodes"].to_numpy(np.int64) if self.alone else 1


def place_jobs(jobs: pd.DataFrame, nodes: pd.DataFrame | None) -> Placed:
    """Find the nodes on which the jobs of a log ran, as `procure.account.layout.lay_out` says."""
    given = nodes_of(jobs)
    if given is not None and nodes is not None and (missing := sorted(set(given[2]) - set(nodes["node_id"]))):
        if len(missing) < len(given[2]):
            raise TableError(
                f"the nodes do not hold what ran on them: jobs ran on {missing[0]}, which is not in the node table"
                + (f", nor {be(n_more)} {counted(n_more, 'other')}" if (n_more := len(missing) - 1) else "")
            )
        nodes = by_kind(jobs, given, nodes)
        given = None if nodes is None else given
    if given is None:
        n = len(jobs)
        return Placed(one_node(jobs, nodes), np.arange(n + 1), np.zeros(n, np.int64), True, nodes)
    first, number, names = given
    if nodes is None:
        return Placed(inferred_nodes(jobs, given), first, number, False, None)
    table = nodes.reset_index(drop=True)
    rows = np.append(pd.Index(table["node_id"]).get_indexer(pd.Index(names)), -1)
    return Placed(table, first, rows[number].astype(np.int64), False, nodes)


def check_fit(jobs: pd.DataFrame, placed: Placed, per_node: np.ndarray, whole: np.ndarray) -> None:
    """Refuse nodes that do not hold what ran on them.

    ``per_node`` int64[n_jobs] are the CPUs that each job had of each node; ``whole`` bool[n_jobs]: it had all of them.
    """
    table, first, number = placed[:3]
    job = np.repeat(np.arange(len(jobs)), np.diff(first))[number >= 0]
    number = number[number >= 0]
    asked = np.where(whole[job], table["cpus"].to_numpy(np.int64)[number], per_node[job])
    lasted = (jobs["end_time"] > jobs["start_time"]).to_numpy()[job]
    small = lasted & (asked > table["cpus"].to_numpy(np.int64)[number])
    ids, sizes = table["node_id"].tolist(), table["cpus"].tolist()

    def there(row: int) -> str:
        return f"the nodes together, which have {sizes[row]}" if ids == [ALL] else f"{ids[row]}, which has {sizes[row]}"

    if small.mean() > OVERBOOKED:
        row = int(np.flatnonzero(small)[0])
        had = f"job {jobs['job_id'].iloc[job[row]]} had {asked[row]} CPUs of {there(number[row])}"
        raise TableError(f"the nodes do not hold what ran on them: {had}")
    start, end = (jobs[name].to_numpy(np.int64)[job] for name in ("start_time", "end_time"))
    (some,) = levels(start, end, number, asked)
    over = np.maximum(some.level - table["cpus"].to_numpy(np.int64)[some.whose], 0) * some.lasted
    if over.sum() > OVERBOOKED * (some.level * some.lasted).sum():
        row = int(some.whose[over.argmax()])
        most = int(some.level[some.whose == row].max())
        raise TableError(f"the nodes do not hold what ran on them: {most} CPUs ran at once on {there(row)}")
