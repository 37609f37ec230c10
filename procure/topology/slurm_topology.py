"""The network as Slurm's tree plugin knows it: ``topology.conf``, or what ``scontrol show topology`` prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from procure.errors import TableError
from procure.files import read_bytes
from procure.text import listed, short
from procure.workload.slurm_text import expand_nodes

_NAME = r"[^\[\],=\s]"
_RANGE = r"\d{1,18}(?:-\d{1,18})?"
_PART = rf"(?:{_NAME}+(?:\[{_RANGE}(?:,{_RANGE})*\]{_NAME}*)*)"
_HOST_LIST = re.compile(rf"{_PART}(?:,{_PART})*")
_MOST_NAMES, _DEEPEST = 1_000_000, 100


@dataclass(frozen=True)
class Network:
    """Where Slurm says that each node is.

    Attributes
    ----------
    nodes
        One row per node in the file's order: ``node_id leaf pod leaf_switch pod_switch``; leaves and
        pods are numbered from 0 in the order in which the file gives them to their parents.
    n_levels
        Levels of switches: 1 (one leaf switch), 2 (one pod) or 3.
    """

    nodes: pd.DataFrame
    n_levels: int


def is_slurm_topology(path: str | Path) -> bool:
    """Say whether a file's first line that is neither empty nor a comment begins with ``SwitchName=``."""
    for line in read_bytes(path)[: 1 << 16].splitlines():
        if line.strip() and not line.lstrip().startswith(b"#"):
            return line.lstrip().lower().startswith(b"switchname=")
    return False


def read_slurm_topology(path: str | Path) -> Network:
    """Read ``topology.conf`` of the tree plugin, or the text of ``scontrol show topology``.

    Raises
    ------
    TableError
        As `parse_slurm_topology`, or the file is missing.
    """
    return parse_slurm_topology(read_bytes(path).decode("utf-8", errors="replace"), str(path))


def parse_slurm_topology(text: str, source: str = "topology.conf") -> Network:
    """Read the switches of a tree of at most three levels.

    A line is ``SwitchName=… Nodes=…`` for a leaf switch, ``SwitchName=… Switches=…`` for one above;
    names are host lists such as ``c[1-18]``. The nodes that ``scontrol`` repeats for the switches
    above are not needed. Other keys (``Level``, ``LinkSpeed``) are ignored.

    Raises
    ------
    TableError
        A line or host list that cannot be read, a switch or node that stands under two parents, a
        switch that is not defined, leaves at different levels, or more than three levels.
    """
    nodes_of, switches_of = _read_lines(text, source)
    parent = _parents(nodes_of, switches_of, source)
    level = dict.fromkeys(nodes_of, 0)

    def height(name: str, path: tuple[str, ...] = ()) -> int:
        if name in path:
            raise TableError(f"{source}: switch {name} stands under itself")
        if len(path) > _DEEPEST:
            raise TableError(f"{source}: more than {_DEEPEST} levels of switches; at most 3 are supported")
        if name not in level:
            below = {height(child, (*path, name)) for child in switches_of[name]}
            if len(below) != 1:
                raise TableError(f"{source}: switch {name} has children of different levels; not a fat-tree")
            level[name] = 1 + below.pop()
        return level[name]

    for name in switches_of:
        height(name)
    tops = [name for name in (*switches_of, *nodes_of) if name not in parent]
    heights = {name: level[name] for name in tops}
    n_levels = 1 + max(heights.values())
    if len(set(heights.values())) > 1:
        raise TableError(f"{source}: {listed(tops)} stand at the top, but at different levels; not a fat-tree")
    if n_levels > 3:
        raise TableError(f"{source}: {n_levels} levels of switches; at most 3 are supported")
    rows = []
    for leaf, switch in enumerate(_leaves_in_order(tops, nodes_of, switches_of)):
        pod = parent.get(switch, switch)
        rows += [(name, leaf, pod, switch) for name in nodes_of[switch]]
    frame = pd.DataFrame(rows, columns=["node_id", "leaf", "pod_switch", "leaf_switch"])
    frame["pod"] = pd.factorize(frame["pod_switch"])[0]
    if n_levels == 1 and len(tops) > 1:
        frame["pod"] = 0  # leaf switches of which nothing is known above: one pod
    return Network(frame[["node_id", "leaf", "pod", "leaf_switch", "pod_switch"]], n_levels)


def _read_lines(text: str, source: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    nodes_of: dict[str, list[str]] = {}
    switches_of: dict[str, list[str]] = {}
    n_names = 0
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        where = f"{source}, line {number}"
        fields = {}
        for token in line.split():
            key, equals, value = token.partition("=")
            if not equals or not value:
                raise TableError(f"{where}: {token!r} was given; KEY=VALUE such as SwitchName=s0 is needed")
            fields[key.lower()] = value
        if "switchname" not in fields or not {"nodes", "switches"} & set(fields):
            raise TableError(f"{where}: a line needs SwitchName= and Nodes= or Switches=")
        for name in _names(fields["switchname"], where):
            if name in nodes_of or name in switches_of:
                raise TableError(f"{where}: switch {name} stands already in a line before")
            if "switches" in fields:
                switches_of[name] = _names(fields["switches"], where)
            else:
                nodes_of[name] = _names(fields["nodes"], where)
            n_names += len((nodes_of if name in nodes_of else switches_of)[name])
            if n_names > _MOST_NAMES:
                raise TableError(f"{where}: with this line, more than {_MOST_NAMES:,} nodes are named in all")
    if not nodes_of:
        raise TableError(f"{source}: no leaf switch; a line such as SwitchName=s0 Nodes=c[1-18] is needed")
    return nodes_of, switches_of


def _names(text: str, where: str) -> list[str]:
    """Expand a host list."""
    if not _HOST_LIST.fullmatch(text):
        cut = "; the line is cut off (SLURM_TOPO_LEN lengthens it)" if text.count("[") > text.count("]") else ""
        raise TableError(f"{where}: host list {short(text)} cannot be read{cut}; names are written c[1-18,20],g1")
    size = 0
    for low, high in re.findall(r"(?<!\d)(\d+)-(\d+)(?=[,\]])", text):
        if int(high) < int(low):
            raise TableError(f"{where}: host list {short(text)} has the range {low}-{high}, which runs backwards")
        size += int(high) - int(low)
    if size > _MOST_NAMES:
        raise TableError(f"{where}: host list {short(text)} names more than {_MOST_NAMES:,} nodes")
    return expand_nodes(text)


def _parents(nodes_of: dict[str, list[str]], switches_of: dict[str, list[str]], source: str) -> dict[str, str]:
    """Return the switch above each switch; nodes and switches may stand under one only."""
    parent: dict[str, str] = {}
    for switch, children in switches_of.items():
        for child in children:
            if child not in nodes_of and child not in switches_of:
                raise TableError(
                    f"{source}: switch {switch} lists {child}, which is not defined; "
                    f"defined are {listed([*nodes_of, *switches_of])}"
                )
            if child in parent:
                raise TableError(f"{source}: switch {child} stands under {parent[child]} and under {switch}")
            parent[child] = switch
    seen: dict[str, str] = {}
    for switch, names in nodes_of.items():
        for name in names:
            if name in seen:
                raise TableError(f"{source}: node {name} stands under {seen[name]} and under {switch}")
            seen[name] = switch
    return parent


def _leaves_in_order(tops: list[str], nodes_of: dict[str, list[str]], switches_of: dict[str, list[str]]) -> list[str]:
    leaves: list[str] = []
    waiting = tops[::-1]
    while waiting:
        switch = waiting.pop()
        if switch in nodes_of:
            leaves.append(switch)
        else:
            waiting += switches_of[switch][::-1]
    return leaves


def attach(nodes: pd.DataFrame, network: Network) -> pd.DataFrame:
    """Return the node table with the columns ``leaf`` and ``pod`` of a network.

    Parameters
    ----------
    nodes
        A checked node table; it is not modified. What it had in these columns is replaced.
    network
        From `read_slurm_topology`; nodes that the table does not have are left out.

    Raises
    ------
    TableError
        A node of the table is not in the network.
    """
    places = network.nodes.set_index("node_id")
    absent = nodes.loc[~nodes["node_id"].isin(places.index), "node_id"]
    if len(absent):
        raise TableError(
            f"{listed(absent.tolist())}: in the node table, but not in the network, "
            f"whose nodes are {listed(places.index.tolist())}"
        )
    found = places.loc[nodes["node_id"]]
    return nodes.assign(**{name: pd.array(found[name].to_numpy(), dtype="Int64") for name in ("leaf", "pod")})
