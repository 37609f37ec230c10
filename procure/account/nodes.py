"""The nodes of a log: known, seen in it, or inferred, and whether its jobs fit them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.account.held import held_cpus
from procure.account.levels import levels, most_at_once
from procure.errors import TableError
from procure.text import be, counted

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


def seen_nodes(jobs: pd.DataFrame) -> pd.DataFrame | None:
    """Return the nodes that a log of `started_jobs` names; None where it is not known of most jobs where they ran."""
    given = nodes_of(jobs)
    return None if given is None else inferred_nodes(jobs, given)


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
    kinds = nodes.sort_values(["cpus", "mem_mb", "gpus"], kind="stable")
    n_left = np.ones(len(kinds), np.int64)
    rows = []
    for _, node in peaks.sort_values(["cpus", "mem_mb"], ascending=False, kind="stable").iterrows():
        holds = np.flatnonzero(
            (kinds["cpus"] >= node["cpus"]).to_numpy()
            & (kinds["mem_mb"] >= node["mem_mb"]).to_numpy()
            & (kinds["gpus"] >= node["gpus"]).to_numpy()
            & (n_left > 0)
        )
        if not len(holds):
            return None
        n_left[holds[0]] = 0
        rows.append(kinds.iloc[holds[0]].to_dict() | {"node_id": node["node_id"]})
    return pd.DataFrame([*rows, *kinds[n_left > 0].to_dict(orient="records")])


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
