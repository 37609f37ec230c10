"""The network as Slurm knows it: ``topology.conf``, ``topology.yaml``, or what ``scontrol show topology`` prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from procure.errors import TableError, reason
from procure.files import read_bytes
from procure.text import listed, short
from procure.workload.slurm import expand_nodes

_NAME = r"[^\[\],=\s$<>{}@%'\"]"  # without what stands in a template's place of a value
_RANGE = r"\d{1,18}(?:-\d{1,18})?"
_PART = rf"(?:{_NAME}+(?:\[{_RANGE}(?:,{_RANGE})*\]{_NAME}*)*)"
_HOST_LIST = re.compile(rf"{_PART}(?:,{_PART})*")
_MOST_NAMES, _DEEPEST = 1_000_000, 100
_KEYS = ("switchname", "blockname", "blocksizes", "aggregatedblock")
_FOREIGN = re.compile(r"(?im)^[^#\n]*\b(dragonfly|(?:3d_?)?torus(?:_?3d)?)\b")
Record = tuple[str, dict[str, str]]
"""Where it stands, and its keys, in lower case, with their values."""


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
    n_tops
        Switches with none above them; of several nothing says that they are connected.
    """

    nodes: pd.DataFrame
    n_levels: int
    n_tops: int = 1


def is_slurm_topology(path: str | Path) -> bool:
    """Say whether the first line that is neither empty nor a comment begins as in a network's file of Slurm."""
    for line in read_bytes(path)[: 1 << 16].splitlines():
        if line.strip() and not line.lstrip().startswith((b"#", b"---")):
            first = re.split(rb"[=:]", line.lstrip(b"- \t").lower())[0].strip().decode("utf-8", "replace")
            return first in (*_KEYS, "topology", "topologyplugin", "topologyparam") or bool(_FOREIGN.match(first))
    return False


def read_slurm_topology(path: str | Path) -> Network:
    """Read ``topology.conf``, ``topology.yaml``, or the text of ``scontrol show topology``.

    Raises
    ------
    TableError
        As `parse_slurm_topology`, or the file is missing.
    """
    return parse_slurm_topology(read_bytes(path).decode("utf-8", errors="replace"), str(path))


def parse_slurm_topology(text: str, source: str = "topology.conf") -> Network:
    """Read a tree of at most three levels of switches, or blocks as leaves.

    A line is ``SwitchName=… Nodes=…`` for a leaf switch, ``SwitchName=… Switches=…`` for one above;
    names are host lists such as ``c[1-18]``. The nodes that ``scontrol`` repeats for the switches
    above are not needed. A block (``BlockName=… Nodes=…``) is a leaf; of ``BlockSizes=4,16``, or of
    ``AggregatedBlock=…``, the second size makes pods. Of several topologies in YAML, the cluster's default is read.

    Raises
    ------
    TableError
        A line or host list that cannot be read, a switch or node that stands under two parents, a
        switch that is not defined, leaves at different levels, more than three levels, or no tree at all.
    """
    if foreign := _FOREIGN.search(text):
        raise TableError(f"{source}: {foreign[1]} is no fat-tree; trees and blocks are supported")
    is_yaml = re.search(r"(?m)^\s*(?:- +)?topology:", text)
    nodes_of, switches_of = _switches(_yaml_records(text, source) if is_yaml else _line_records(text, source), source)
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
    if len({level[name] for name in tops}) > 1:
        raise TableError(f"{source}: {listed(tops)} stand at the top, but at different levels; not a fat-tree")
    n_levels = 1 + level[tops[0]]
    if n_levels > 3:
        raise TableError(f"{source}: {n_levels} levels of switches; at most 3 are supported")
    rows = []
    for leaf, switch in enumerate(_leaves_under(tops, switches_of)):
        rows += [(name, leaf, parent.get(switch, switch), switch) for name in nodes_of[switch]]
    frame = pd.DataFrame(rows, columns=["node_id", "leaf", "pod_switch", "leaf_switch"])
    frame["pod"] = pd.factorize(frame["pod_switch"])[0]
    if n_levels == 1 and len(tops) > 1:
        frame["pod"] = 0  # leaf switches of which nothing is known above: one pod
    return Network(frame[["node_id", "leaf", "pod", "leaf_switch", "pod_switch"]], n_levels, len(tops))


def joined_lines(text: str) -> Iterator[tuple[int, str]]:
    """Give the lines of a file as Slurm's parser joins them: a comment goes first, so that it continues nothing."""
    held, first = "", 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = re.sub(r"(?<!\\)((?:\\\\)*)#.*", r"\1", raw).rstrip()
        first = first or number
        if re.search(r"(?<!\\)(?:\\\\)*\\$", line):
            held += line[:-1]
            continue
        yield first, re.sub(r"\\(.)", r"\1", held + line).strip()
        held, first = "", 0
    if held:
        yield first, held.strip()


def _line_records(text: str, source: str) -> Iterator[Record]:
    for number, line in joined_lines(text):
        where, fields = f"{source}, line {number}", {}
        for token in re.sub(r"\s*=\s*", "=", line).split():
            key, equals, value = token.partition("=")
            if not equals or not value:
                raise TableError(f"{where}: {token!r} was given; KEY=VALUE such as SwitchName=s0 is needed")
            fields[key.lower()] = value
        if fields:
            yield where, fields


def _yaml_records(text: str, source: str) -> Iterator[Record]:
    """Make of a topology.yaml what stands in a topology.conf."""
    import yaml  # type: ignore[import-untyped]

    try:
        given = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise TableError(f"{source}: cannot be read as YAML: {reason(error)}") from None
    found = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    found.sort(key=lambda each: not each.get("cluster_default"))
    kinds = [str(key) for each in found for key in each if key not in ("topology", "cluster_default")]
    if not found or not {"tree", "block"} & set(found[0]):
        raise TableError(f"{source}: has {listed(kinds) if kinds else 'no topology'}; a tree or blocks are needed")
    kind = "tree" if "tree" in found[0] else "block"
    part: Any = found[0][kind]
    items = part.get("switches" if kind == "tree" else "blocks") if isinstance(part, dict) else None
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
        raise TableError(f"{source}: {kind} needs a list of {'switches' if kind == 'tree' else 'blocks'}")
    if part.get("block_sizes"):
        yield source, {"blocksizes": ",".join(map(str, part["block_sizes"]))}
    names = {"switch": "switchname", "children": "switches", "block": "blockname"}
    for number, item in enumerate(items, start=1):
        yield f"{source}, {kind} entry {number}", {names.get(key, key): str(value) for key, value in item.items()}


def _switches(records: Iterable[Record], source: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the nodes of each leaf switch and the switches under each other one."""
    nodes_of: dict[str, list[str]] = {}
    switches_of: dict[str, list[str]] = {}
    sizes: list[int] = []
    above: dict[int, list[list[str]]] = {}
    n_names = 0
    for where, fields in records:
        name = fields.get("switchname", fields.get("blockname"))
        if "blocksizes" in fields:
            sizes = [int(size) for size in fields["blocksizes"].split(",") if size.isascii() and size.isdigit()]
            continue
        if "aggregatedblock" in fields:
            size = fields.get("blocksize", "0")
            above.setdefault(int(size) if size.isdigit() else 0, []).append(
                host_names(fields["aggregatedblock"], where)
            )
            continue
        if name is None or not {"nodes", "switches"} & set(fields):
            raise TableError(f"{where}: a line needs SwitchName= and Nodes= or Switches=")
        for switch in host_names(name, where):
            if switch in nodes_of or switch in switches_of:
                raise TableError(f"{where}: switch {switch} stands already in a line before")
            of, key = (switches_of, "switches") if "switches" in fields else (nodes_of, "nodes")
            of[switch] = host_names(fields[key], where)
            n_names += len(of[switch])
            if n_names > _MOST_NAMES:
                raise TableError(f"{where}: with this line, more than {_MOST_NAMES:,} nodes are named in all")
    if not nodes_of:
        raise TableError(f"{source}: no leaf switch; a line such as SwitchName=s0 Nodes=c[1-18] is needed")
    blocks = list(nodes_of)
    if len(sizes) > 1 and (step := sizes[1] // max(sizes[0], 1)) > 0:
        above[0] = [blocks[i : i + step] for i in range(0, len(blocks), step)]
    pods = above[min(above)] if above else []
    return nodes_of, switches_of | {f"blocks {group[0]} to {group[-1]}": group for group in pods}


def host_names(text: str, where: str) -> list[str]:
    """Expand a host list; a comma at its end, a second one, or a space, counts for nothing, as in Slurm."""
    text = re.sub(r"[,\s]+", ",", text).strip(",")
    if not _HOST_LIST.fullmatch(text):
        cut = (
            "; no ] closes its [ (scontrol cuts lines at SLURM_TOPO_LEN characters)"
            if text.count("[") > text.count("]")
            else ""
        )
        raise TableError(f"{where}: host list {short(text)} cannot be read{cut}; names are written c[1-18,20],g1")
    size = 0
    for low, high in re.findall(r"(\d+)-(\d+)", ",".join(re.findall(r"\[([^\]]*)\]", text))):
        if int(high) < int(low):
            raise TableError(f"{where}: host list {short(text)} has the range {low}-{high}, which runs backwards")
        size += int(high) - int(low)
    if size > _MOST_NAMES:
        raise TableError(f"{where}: host list {short(text)} names more than {_MOST_NAMES:,} nodes")
    return expand_nodes(text)


def _parents(nodes_of: dict[str, list[str]], switches_of: dict[str, list[str]], source: str) -> dict[str, str]:
    """Return the switch above each switch; nodes and switches may stand under one only."""
    parent: dict[str, str] = {}
    for what, of in (("switch", switches_of), ("node", nodes_of)):
        for switch, children in of.items():
            for child in children:
                if what == "switch" and child not in nodes_of and child not in switches_of:
                    raise TableError(
                        f"{source}: switch {switch} lists {child}, which is not defined; "
                        f"defined are {listed([*nodes_of, *switches_of])}"
                    )
                if (key := f"{what} {child}") in parent:
                    raise TableError(f"{source}: {key} stands under {parent[key]} and under {switch}")
                parent[key] = switch
    return {key.removeprefix("switch "): above for key, above in parent.items() if key.startswith("switch ")}


def _leaves_under(tops: list[str], switches_of: dict[str, list[str]]) -> Iterator[str]:
    for switch in tops:
        if switch in switches_of:
            yield from _leaves_under(switches_of[switch], switches_of)
        else:
            yield switch


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
