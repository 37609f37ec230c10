"""A moment of a live Slurm as a window: where its waiting jobs would go, and how many hops that saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.site.live import read_idle, read_waiting
from procure.site.network import attach, parse_slurm_topology
from procure.tables import NODE, check
from procure.text import Shown, listed
from procure.topology.fat_tree import FatTree
from procure.topology.metrics import average_hops
from procure.window.problem import Window, write_window
from procure.window.solve import place_compact, solve


@dataclass(frozen=True)
class Snapshot(Shown):
    """Where the waiting jobs would go.

    Attributes
    ----------
    window
        The instance: the tree, the idle nodes and the jobs that fit them together, by priority.
    table
        A row per job: ``job n_nodes nodes hops slurm_nodes slurm_hops slurm_by``; hops are means over the pairs of its
        nodes (APH), ``slurm_by`` says whether Slurm had planned these nodes or its tree plugin's rule chose them here.
    n_left_out
        Waiting jobs that do not fit what is left.
    """

    window: Window
    method: str
    table: pd.DataFrame
    n_left_out: int

    @property
    def title(self) -> str:
        """What was placed."""
        return f"{len(self.table)} waiting jobs on {len(self.window.idle)} idle nodes, by {self.method}"

    @property
    def totals(self) -> dict[str, float]:
        """Hops summed over all pairs of nodes of all jobs, ours and Slurm's, and the share that is saved, in %."""
        pairs = self.table["n_nodes"] * (self.table["n_nodes"] - 1) / 2
        ours, theirs = (float((pairs * self.table[name]).sum()) for name in ("hops", "slurm_hops"))
        return {"hops": ours, "slurm_hops": theirs, "saved_percent": 100 * (1 - ours / theirs) if theirs else 0.0}

    @property
    def notes(self) -> tuple[str, ...]:
        """What is saved, and who was left out."""
        found = self.totals
        said = f"{found['hops']:,.0f} hops between the nodes of all jobs; Slurm's choice has {found['slurm_hops']:,.0f}"
        left_out = (f"{self.n_left_out} waiting jobs do not fit beside them",) if self.n_left_out else ()
        return (f"{said} ({found['saved_percent']:.0f} % saved)", *left_out)

    def to_dict(self) -> dict[str, Any]:
        """Return what scripts read."""
        rows = self.table.to_dict(orient="records")
        return {"instance": write_window(self.window), **self.totals, "n_left_out": self.n_left_out, "jobs": rows}


def solve_snapshot(
    texts: Sequence[str], sources: Sequence[str], *, partition: str | None = None, **how: Any
) -> Snapshot:
    """Make a snapshot of what squeue, sinfo and ``scontrol show topology`` print, of one partition.

    Raises
    ------
    TableError
        A text cannot be read; a node is idle by sinfo and held by squeue, as when jobs start between the two; nobody
        waits; or as `take_snapshot`.
    """
    waiting, running = read_waiting(texts[0], sources[0])
    found = read_idle(texts[1], sources[1])
    network = parse_slurm_topology(texts[2], sources[2])
    if waiting.empty:
        raise TableError(f"{sources[0]}: no job waits for its turn")
    parts = sorted({part for each in waiting["partition"] for part in each.split(",")})
    partition = partition or waiting["partition"].str.split(",").str[0].mode()[0]
    if partition not in parts:
        raise TableError(f"{sources[0]}: no job waits in partition {partition}; there are {listed(parts)}")
    waiting = waiting[[partition in each.split(",") for each in waiting["partition"]]]
    if (found["partition"] != "").any():
        found = found[found["partition"] == partition]
    idle = list(dict.fromkeys(found.loc[found["is_idle"], "node_id"]))
    both = [name for name in idle if name in running]
    if both:
        raise TableError(
            f"{sources[1]}: node {both[0]} is idle, and {sources[0]} says that job {running[both[0]]} runs there; "
            "jobs started between the two: take both again"
        )
    nodes = check(network.nodes[["node_id"]].assign(cpus=1, mem_mb=1), NODE)
    return take_snapshot(waiting.reset_index(drop=True), attach(nodes, network), idle, **how)


def take_snapshot(
    waiting: pd.DataFrame,
    nodes: pd.DataFrame,
    idle: list[str],
    *,
    method: str = "lns",
    seed: int = 0,
    most_jobs: int = 20,
) -> Snapshot:
    """Place the waiting jobs that fit the idle nodes, in the order given, and set that beside Slurm's choice.

    Parameters
    ----------
    waiting
        ``job_id n_nodes planned``, by priority; ``planned`` are the nodes that Slurm has planned for it, if any.
    nodes
        A node table with ``leaf`` and ``pod``.
    idle
        Names of the idle nodes.
    most_jobs
        Jobs in the window.

    Raises
    ------
    TableError
        An idle node is not in the network, or no waiting job fits.
    """
    tree = FatTree.from_nodes(nodes)
    names = nodes["node_id"].to_numpy()
    place_of = {names[row]: place for place, row in enumerate(tree.rows.tolist()) if row >= 0}
    absent = [name for name in idle if name not in place_of]
    if absent:
        raise TableError(f"sinfo: {listed(absent)}: not in the network")
    left, chosen = len(idle), list[int]()
    for row, size in enumerate(waiting["n_nodes"].tolist()):
        if size <= left and len(chosen) < most_jobs:
            chosen.append(row)
            left -= size
    if not chosen:
        raise TableError(f"squeue: none of {len(waiting)} waiting jobs fits the {len(idle)} idle nodes")
    jobs = waiting.iloc[chosen]
    window = Window(
        tree, np.array([place_of[name] for name in idle]), tuple(jobs["job_id"]), jobs["n_nodes"].to_numpy()
    )
    found = solve(window, method, seed=seed)
    theirs = _choice_of_slurm(window, [[place_of.get(name, -1) for name in planned] for planned in jobs["planned"]])
    rows = []
    for job, n, ours, (places, by) in zip(window.ids, window.sizes.tolist(), found.places, theirs, strict=True):
        told = [",".join(names[tree.rows[np.sort(each)]]) for each in (ours, places)]
        rows.append((job, n, told[0], _hops(tree, ours), told[1], _hops(tree, places), by))
    columns = ["job", "n_nodes", "nodes", "hops", "slurm_nodes", "slurm_hops", "slurm_by"]
    return Snapshot(window, method, pd.DataFrame(rows, columns=columns), len(waiting) - len(chosen))


def _hops(tree: FatTree, places: np.ndarray) -> float:
    leaf = np.asarray(places) // tree.nodes
    return average_hops(leaf, leaf // tree.leaves)


def _choice_of_slurm(window: Window, planned: list[list[int]]) -> list[tuple[np.ndarray, str]]:
    """Return each job's planned places where all are idle and nobody's, else what the tree plugin's rule takes."""
    free, found = set(window.idle.tolist()), dict[int, tuple[np.ndarray, str]]()
    for job, (places, n) in enumerate(zip(planned, window.sizes.tolist(), strict=True)):
        if len(places) == n and free.issuperset(places):
            free -= set(places)
            found[job] = np.sort(places), "planned"
    rest = [job for job in range(len(planned)) if job not in found]
    placed = place_compact(window.tree.shape, np.array(sorted(free), np.int64), window.sizes[rest].tolist())
    found |= {job: (places, "tree plugin's rule") for job, places in zip(rest, placed, strict=True)}
    return [found[job] for job in range(len(planned))]
