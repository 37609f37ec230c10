"""The verifier: which links do two jobs hold at one time? It shares no code with the allocators.

A schedule may say which links a job was granted, in a column ``links``: words such as ``L17=3f`` (leaf
17: its uplinks to the second-level switches 0 to 5, as a hexadecimal mask) and ``P2.4=3`` (second-level
switch 4 of pod 2: its uplinks to spines 0 and 1). A job without that may use whatever a message between
its nodes can cross: every uplink of its leaves if it has several, every spine link of its pods if it
has several. A job on one leaf crosses no link between switches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.text import Shown, counted
from procure.topology.fat_tree import FatTree, leaf_and_pod, links_of_leaves
from procure.workload.read_csv import names_in

_WORD = re.compile(r"L(?P<leaf>\d+)=(?P<up>[0-9a-f]+)|P(?P<pod>\d+)\.(?P<switch>\d+)=(?P<spine>[0-9a-f]+)")

MOST_CONFLICTS = 1000
"""Conflicts that a verdict lists; all are counted."""

Switch = tuple[str, int, int]
"""("leaf", leaf, 0) or ("pod", pod, second-level switch)."""
Holding = dict[Switch, int]
"""Links that a job holds, or that there are, as a mask of the uplinks of each switch."""


@dataclass(frozen=True)
class Verdict(Shown):
    """What the verifier found.

    Attributes
    ----------
    n_jobs, n_allocations
        Rows of the schedule, and those that held nodes for a time.
    n_over_links, n_sharing
        Of these, the jobs that hold links between switches, and those that ever shared one.
    shared_time
        Of the seconds in which jobs hold links, the share in which another job held one of theirs.
    n_shared_links, n_shared_nodes
        Different links, and nodes, that two jobs held at one time.
    n_unrouted
        Ordered pairs of a job's leaves between which its granted links leave no path.
    n_unknown_links
        Granted links that the tree does not have.
    first_conflicts
        The first thousand meetings of two jobs at a switch or on a node, and jobs without a path or with links that
        do not exist, in order of time: ``time where jobs``.
    """

    n_jobs: int
    n_allocations: int
    n_over_links: int
    n_sharing: int
    shared_time: float
    n_shared_links: int
    n_shared_nodes: int
    n_unrouted: int
    n_unknown_links: int
    first_conflicts: list[dict[str, Any]]

    notes = ()

    @property
    def title(self) -> str:
        """Whether the jobs are isolated."""
        return "no two jobs share a link" if self.isolated else "jobs share links, nodes, or have no path"

    @property
    def table(self) -> pd.DataFrame:
        """One row of counts."""
        return pd.DataFrame([{name: value for name, value in vars(self).items() if name != "first_conflicts"}])

    @property
    def isolated(self) -> bool:
        """Whether no job can meet another on a link."""
        return not self.first_conflicts


@dataclass
class _Job:
    """What a job that ran for a time holds, and from when until when it shared a link with another."""

    id: str
    start: int
    end: int
    nodes: list[str]
    leaves: list[tuple[int, int]]  # (leaf, pod), ascending
    links: Holding
    granted: bool
    shares: list[tuple[int, int]] = field(default_factory=list)  # s


def verify(schedule: pd.DataFrame, nodes: pd.DataFrame, *, uplinks: int = 0, spines: int = 0) -> Verdict:
    """Route every ordered pair of leaves of every job, and list the links that two jobs hold at one time.

    Two nodes are routed as their leaves are. At one moment ends come before starts; a job that takes
    no time holds nothing.

    Parameters
    ----------
    schedule
        ``job_id start_time end_time node_ids`` and perhaps ``links``; jobs without a start are left out.
    nodes
        A checked node table with ``leaf`` and ``pod``, and perhaps ``uplinks``.
    uplinks, spines
        Uplinks of a leaf switch of which the node table does not tell them, and of a second-level switch; 0 = as many
        as the largest leaf has nodes, and the largest pod leaves.

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
    all_links = _links_of_tree(nodes, uplinks, spines)
    jobs = _jobs(schedule, nodes, all_links)
    events = sorted([(job.start, 1, i) for i, job in enumerate(jobs)] + [(job.end, 0, i) for i, job in enumerate(jobs)])
    on_links: dict[Switch, dict[int, int]] = {}
    on_nodes: dict[str, set[int]] = {}
    shared_links: Holding = {}
    shared_nodes: set[str] = set()
    conflicts: list[dict[str, Any]] = []
    n_unrouted = n_unknown = 0

    def note(time: int, where: str, *meeting: _Job) -> None:
        if len(conflicts) < MOST_CONFLICTS:
            conflicts.append({"time": time, "where": where, "jobs": [job.id for job in meeting]})

    for time, starts, i in events:
        job = jobs[i]
        if not starts:
            for switch in job.links:
                del on_links[switch][i]
            for name in job.nodes:
                on_nodes[name].discard(i)
            continue
        if job.granted and (unrouted := _unrouted(job.links, job.leaves)):
            n_unrouted += unrouted
            note(time, f"no path for {counted(unrouted, 'ordered pair')} of leaves", job)
        for switch, mask in job.links.items():
            if unknown := mask & ~all_links.get(switch, 0):
                n_unknown += unknown.bit_count()
                note(time, f"{_links_name(switch, unknown)}, which the tree does not have", job)
            others = on_links.setdefault(switch, {})
            for other, held in others.items():
                if mask & held:
                    shared_links[switch] = shared_links.get(switch, 0) | mask & held
                    note(time, _links_name(switch, mask & held), jobs[other], job)
                    for one in (job, jobs[other]):
                        one.shares.append((time, min(job.end, jobs[other].end)))
            others[i] = mask
        for name in job.nodes:
            here = on_nodes.setdefault(name, set())
            if here:
                shared_nodes.add(name)
                note(time, f"node {name}", jobs[min(here)], job)
            here.add(i)
    n_links = sum(mask.bit_count() for mask in shared_links.values())
    over = [job for job in jobs if job.links]
    seconds = sum(job.end - job.start for job in over)
    return Verdict(
        len(schedule),
        len(jobs),
        len(over),
        sum(bool(job.shares) for job in over),
        sum(_covered(job.shares) for job in over) / seconds if seconds else 0.0,
        n_links,
        len(shared_nodes),
        n_unrouted,
        n_unknown,
        conflicts,
    )


def _covered(spans: list[tuple[int, int]]) -> int:
    """Return how long at least one of some spans, in order of their beginning, lasts; s."""
    total, until = 0, spans[0][0] if spans else 0
    for begin, end in spans:
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return total


def _links_of_tree(nodes: pd.DataFrame, uplinks: int, spines: int) -> Holding:
    """Return every link of the tree: without figures, a leaf has as many as the largest has nodes."""
    leaf, pod = leaf_and_pod(nodes)
    given, pod_of = links_of_leaves(nodes), dict(zip(leaf.tolist(), pod.tolist(), strict=True))
    usual = uplinks or int(pd.Series(leaf).value_counts().max())
    n = {each: min(given.get(each, usual), uplinks or 1 << 20) for each in pod_of}
    spines = spines or int(pd.Series(pod_of).value_counts().max())
    links: Holding = {("leaf", each, 0): (1 << n[each]) - 1 for each in pod_of}
    return links | {("pod", p, i): (1 << spines) - 1 for p in set(pod_of.values()) for i in range(max(n.values()))}


def _jobs(schedule: pd.DataFrame, nodes: pd.DataFrame, all_links: Holding) -> list[_Job]:
    """Return what each job that ran for a time holds."""
    for name in ("job_id", "start_time", "end_time", "node_ids"):
        if name not in schedule:
            raise TableError(f"schedule: column {name} is missing; `procure simulate --out` writes one")
    leaf, pod = leaf_and_pod(nodes)
    place_of = dict(zip(nodes["node_id"], zip(leaf.tolist(), pod.tolist(), strict=True), strict=True))
    ran = schedule[schedule["start_time"].notna() & (schedule["end_time"] > schedule["start_time"])]
    links = ran["links"].fillna("") if "links" in ran else pd.Series("", index=ran.index)
    jobs = []
    for job_id, start, end, text, granted in zip(
        ran["job_id"], ran["start_time"], ran["end_time"], ran["node_ids"], links, strict=True
    ):
        names = list(dict.fromkeys(names_in(str(text))))
        absent = next((name for name in names if name not in place_of), None)
        if absent is not None:
            raise TableError(f"schedule: job {job_id} ran on node {absent}, which is not in the node table")
        leaves = sorted({place_of[name] for name in names})
        holding = _granted(granted, str(job_id)) if granted else _possible(leaves, all_links)
        jobs.append(_Job(str(job_id), int(start), int(end), names, leaves, holding, bool(granted)))
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


def _possible(leaves: list[tuple[int, int]], all_links: Holding) -> Holding:
    """Return every link that messages between leaves may cross."""
    pods = {pod for _, pod in leaves}
    switches: list[Switch] = [("leaf", leaf, 0) for leaf, _ in leaves] if len(leaves) > 1 else []
    if len(pods) > 1:
        n_second = max(all_links[switch].bit_length() for switch in switches)
        switches += [("pod", pod, i) for pod in sorted(pods) for i in range(n_second)]
    return {switch: all_links[switch] for switch in switches}


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


def _links_name(switch: Switch, mask: int) -> str:
    kind, number, second = switch
    where = f"leaf {number}" if kind == "leaf" else f"pod {number}, second-level switch {second}"
    return f"{where}: uplinks {', '.join(map(str, _bits(mask)))}"


def average_hops(leaves: np.ndarray, pods: np.ndarray) -> float:
    """Return the average pairwise hops (APH) of nodes by the leaf and the pod of each.

    The mean over ordered pairs of different nodes of the links between switches that a message
    crosses: 0 on one leaf, 2 in one pod, 4 otherwise; 0 for a single node. Pollard et al. (SC18), eq. 1.
    """
    n = len(leaves)
    if n < 2:
        return 0.0
    same = [np.unique(where, return_counts=True)[1].astype(np.int64) for where in (leaves, pods)]
    return float(4 - 2 * sum(int((c * (c - 1)).sum()) for c in same) / (n * (n - 1)))


def ideal_hops(n: int, tree: FatTree) -> float:
    """Return the APH of ``n`` nodes placed as close as an empty tree allows.

    On the largest leaves of the pod in which that is fewest hops; if no pod holds them, in the largest pods.
    """
    sizes = -np.sort(-tree.shape.here.reshape(tree.pods, tree.leaves, -1).sum(axis=2), axis=1)

    def filled(pods: np.ndarray) -> float:
        leaf = np.repeat(np.arange(pods.size), pods.ravel())[:n]
        return average_hops(leaf, leaf // tree.leaves)

    able = [filled(pod) for pod in np.unique(sizes, axis=0) if pod.sum() >= n]
    return min(able) if able else filled(sizes[np.argsort(-sizes.sum(axis=1), kind="stable")])


def hops_of_jobs(schedule: pd.DataFrame, nodes: pd.DataFrame) -> pd.DataFrame:
    """Return the APH of each job that ran: ``job_id n_nodes aph ideal_aph``.

    Raises
    ------
    TableError
        No tree in the node table, or a node of the schedule that is not in it.

    Examples
    --------
    >>> import procure
    >>> jobs, nodes = procure.generate(seed=1, n_jobs=20), procure.fat_tree(1, 1, 4, cpus=64, mem_mb=512_000)
    >>> procure.count_hops(procure.simulate(jobs, nodes, "fcfs").schedule, nodes)["aph"].max()
    np.float64(0.0)
    """
    tree = FatTree.from_nodes(nodes)
    places = dict(zip(nodes["node_id"], nodes[["leaf", "pod"]].to_numpy(np.int64), strict=True))
    ideal: dict[int, float] = {}
    rows = []
    ran = schedule[schedule["start_time"].notna()]
    for job, names in zip(ran["job_id"], ran["node_ids"], strict=True):
        own = [places.get(name) for name in names_in(names)]
        if any(place is None for place in own):
            raise TableError(f"schedule: job {job} ran on nodes that are not in the node table: {names}")
        n = len(own)
        if n not in ideal:
            ideal[n] = ideal_hops(n, tree)
        leaf, pod = np.array(own).T
        rows.append((job, n, average_hops(leaf, pod), ideal[n]))
    return pd.DataFrame(rows, columns=["job_id", "n_nodes", "aph", "ideal_aph"])
