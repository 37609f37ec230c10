"""The verifier: which links do two jobs hold at one time? It shares no code with the allocators.

A schedule may say which links a job was granted, in a column ``links``: words such as ``L17=3f`` (leaf
17: its uplinks to the second-level switches 0 to 5, as a hexadecimal mask) and ``P2.4=3`` (second-level
switch 4 of pod 2: its uplinks to spines 0 and 1). A job without that may use whatever a message between
its nodes can cross: every uplink of its leaves if it has several, every spine link of its pods if it
has several. A job on one leaf crosses no link between switches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pandas as pd

from procure.errors import TableError
from procure.text import Shown, counted
from procure.topology.fat_tree import leaf_and_pod

_WORD = re.compile(r"L(?P<leaf>\d+)=(?P<up>[0-9a-f]+)|P(?P<pod>\d+)\.(?P<switch>\d+)=(?P<spine>[0-9a-f]+)")

MOST_CONFLICTS = 1000
"""Conflicts that a verdict lists; all are counted."""

Holding = dict[tuple[str, int, int], int]
"""Links that a job holds: ("leaf", leaf, 0) or ("pod", pod, second-level switch) → mask of uplinks."""


@dataclass(frozen=True)
class Verdict(Shown):
    """What the verifier found.

    Attributes
    ----------
    n_jobs, n_allocations
        Rows of the schedule, and those that held nodes for a time.
    n_shared_links, n_shared_nodes
        Different links, and nodes, that two jobs held at one time.
    n_unrouted
        Ordered pairs of a job's leaves between which its granted links leave no path.
    first_conflicts
        The first thousand meetings of two jobs at a switch or on a node, and jobs without a path, in
        order of time: ``time where jobs``.
    """

    n_jobs: int
    n_allocations: int
    n_shared_links: int
    n_shared_nodes: int
    n_unrouted: int
    first_conflicts: list[dict[str, Any]]

    notes = ()

    @property
    def title(self) -> str:
        """Whether the jobs are isolated."""
        return "no two jobs share a link" if self.isolated else "jobs share links, nodes, or have no path"

    @property
    def table(self) -> pd.DataFrame:
        """One row of counts."""
        names = ("n_jobs", "n_allocations", "n_shared_links", "n_shared_nodes", "n_unrouted")
        return pd.DataFrame([{name: getattr(self, name) for name in names}])

    @property
    def isolated(self) -> bool:
        """Whether no job can meet another on a link."""
        return not self.first_conflicts


def verify(schedule: pd.DataFrame, nodes: pd.DataFrame) -> Verdict:
    """Route every ordered pair of leaves of every job, and list the links that two jobs hold at one time.

    Two nodes are routed as their leaves are. At one moment ends come before starts; a job that takes
    no time holds nothing.

    Parameters
    ----------
    schedule
        ``job_id start_time end_time node_ids`` and perhaps ``links``; jobs without a start are left out.
    nodes
        A checked node table with ``leaf`` and ``pod``.

    Raises
    ------
    TableError
        A column is missing, a node is not in the table, or ``links`` cannot be read.

    Examples
    --------
    >>> import procure
    >>> jobs, nodes = procure.generate(seed=1, n_jobs=20), procure.fat_tree(1, 1, 4, cpus=64, mem_mb=512_000)
    >>> procure.check_isolation(procure.simulate(jobs, nodes, "fcfs:exclusive=true").schedule, nodes).isolated
    True
    """
    jobs = _holders(schedule, nodes)
    events = sorted(
        [(job["start"], 1, i) for i, job in enumerate(jobs)] + [(job["end"], 0, i) for i, job in enumerate(jobs)]
    )
    on_links: dict[tuple[str, int, int], dict[int, int]] = {}
    on_nodes: dict[str, set[int]] = {}
    shared_links: dict[tuple[str, int, int], int] = {}
    shared_nodes: set[str] = set()
    conflicts: list[dict[str, Any]] = []
    n_unrouted = 0

    def note(time: int, where: str, *meeting: dict[str, Any]) -> None:
        if len(conflicts) < MOST_CONFLICTS:
            conflicts.append({"time": time, "where": where, "jobs": [job["id"] for job in meeting]})

    for time, starts, i in events:
        job = jobs[i]
        if not starts:
            for switch in job["links"]:
                del on_links[switch][i]
            for name in job["nodes"]:
                on_nodes[name].discard(i)
            continue
        unrouted = _unrouted(job["links"], job["leaves"]) if job["granted"] else 0
        if unrouted:
            n_unrouted += unrouted
            note(time, f"no path for {counted(unrouted, 'ordered pair')} of leaves", job)
        for switch, mask in job["links"].items():
            others = on_links.setdefault(switch, {})
            for other, held in others.items():
                if mask & held:
                    shared_links[switch] = shared_links.get(switch, 0) | mask & held
                    note(time, _links_name(switch, mask & held), jobs[other], job)
            others[i] = mask
        for name in job["nodes"]:
            here = on_nodes.setdefault(name, set())
            if here:
                shared_nodes.add(name)
                note(time, f"node {name}", jobs[min(here)], job)
            here.add(i)
    n_links = sum(mask.bit_count() for mask in shared_links.values())
    return Verdict(len(schedule), len(jobs), n_links, len(shared_nodes), n_unrouted, conflicts)


def _holders(schedule: pd.DataFrame, nodes: pd.DataFrame) -> list[dict[str, Any]]:
    """Return what each job that ran for a time holds."""
    for name in ("job_id", "start_time", "end_time", "node_ids"):
        if name not in schedule:
            raise TableError(f"schedule: column {name} is missing; `procure simulate --out` writes one")
    leaf, pod = leaf_and_pod(nodes)
    place_of = dict(zip(nodes["node_id"], zip(leaf.tolist(), pod.tolist(), strict=True), strict=True))
    n_in_leaf = int(pd.Series(leaf).value_counts().max())
    n_leaves = int(pd.Series(pod[pd.Series(leaf).drop_duplicates().index]).value_counts().max())
    ran = schedule[schedule["start_time"].notna() & (schedule["end_time"] > schedule["start_time"])]
    links = ran["links"].fillna("") if "links" in ran else pd.Series("", index=ran.index)
    jobs = []
    for job_id, start, end, names, text in zip(
        ran["job_id"], ran["start_time"], ran["end_time"], ran["node_ids"], links, strict=True
    ):
        places = {name: place_of.get(name) for name in str(names).split(",") if name}
        absent = [name for name, place in places.items() if place is None]
        if absent:
            raise TableError(f"schedule: job {job_id} ran on node {absent[0]}, which is not in the node table")
        leaves = sorted({place for place in places.values() if place is not None})
        holding = _granted(text, str(job_id)) if text else _possible(leaves, n_in_leaf, n_leaves)
        jobs.append(
            {
                "id": str(job_id),
                "start": int(start),
                "end": int(end),
                "nodes": list(places),
                "leaves": leaves,
                "links": holding,
                "granted": bool(text),
            }
        )
    return jobs


def _granted(text: str, job: str) -> Holding:
    """Read a job's column ``links``."""
    holding: Holding = {}
    for word in text.split():
        match = _WORD.fullmatch(word)
        if match is None:
            raise TableError(f"schedule: job {job} has {word!r} among its links; L17=3f or P2.4=3 is needed")
        if match["leaf"]:
            holding["leaf", int(match["leaf"]), 0] = int(match["up"], 16)
        else:
            holding["pod", int(match["pod"]), int(match["switch"])] = int(match["spine"], 16)
    return holding


def _possible(leaves: list[tuple[int, int]], n_uplinks: int, n_spines: int) -> Holding:
    """Return every link that messages between leaves may cross, in a tree with as many links as nodes."""
    holding: Holding = {}
    pods = {pod for _, pod in leaves}
    if len(leaves) > 1:
        holding |= {("leaf", leaf, 0): (1 << n_uplinks) - 1 for leaf, _ in leaves}
    if len(pods) > 1:
        holding |= {("pod", pod, i): (1 << n_spines) - 1 for pod in sorted(pods) for i in range(n_uplinks)}
    return holding


def _unrouted(links: Holding, leaves: list[tuple[int, int]]) -> int:
    """Count the ordered pairs of leaves without a path over the links: up, over a spine between pods, down."""
    n = 0
    for leaf, pod in leaves:
        for to, to_pod in leaves:
            if leaf == to:
                continue
            switches = links.get(("leaf", leaf, 0), 0) & links.get(("leaf", to, 0), 0)
            n += not any(
                pod == to_pod or links.get(("pod", pod, i), 0) & links.get(("pod", to_pod, i), 0)
                for i in _bits(switches)
            )
    return n


def _bits(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def _links_name(switch: tuple[str, int, int], mask: int) -> str:
    kind, number, second = switch
    where = f"leaf {number}" if kind == "leaf" else f"pod {number}, second-level switch {second}"
    return f"{where}: uplinks {', '.join(map(str, _bits(mask)))}"
