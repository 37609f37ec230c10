"""The nodes of a site, as Slurm's configuration and what it shows describe them: a table, and which are closed now."""

from __future__ import annotations

import re
from typing import Any, Literal

import pandas as pd

from procure.errors import TableError
from procure.files.gpu_pools import joined_pools
from procure.site.conf import Configuration, Record
from procure.site.gaps import GPU, geometry, listed_gpus
from procure.site.model import NodeEvent
from procure.site.network import host_names
from procure.site.rows import NODES, taken
from procure.tables import NODE, check
from procure.workload.slurm import expand_nodes

_DRAINED, _FAILED = {"drain", "draining", "drained"}, {"fail", "failing", "invalid_reg", "inval"}


def closed_as(node: Record) -> Literal["down", "drain"] | None:
    """Tell whether a node takes no jobs, and how; POWERED_DOWN is no DOWN: one that sleeps is there for jobs."""
    states = {word.strip("*~#$@!%^-") for word in node.get("state", "").lower().split("+")}
    down = "down" in states and not states & _DRAINED
    return "down" if down else "drain" if states & (_DRAINED | _FAILED) else None


def resolve_node_sets(found: Configuration) -> None:
    """Write the nodes of a NodeSet in its place in the partitions' lines (slurm.conf(5), NODESET CONFIGURATION)."""
    sets: dict[str, list[str]] = {}
    for record in found.node_sets:
        named = host_names(record["nodes"], record["_where"]) if record.get("nodes") else []
        wanted = set(filter(None, record.get("feature", "").split(",")))
        for node in found.nodes if wanted else ():
            features = set(re.split("[,|&]", node.get("feature", "")))
            named += expand_nodes(node["nodename"]) if wanted & features else []
        if record["nodeset"] in sets:
            found.unread.append((record["_where"], record["nodeset"], "a NodeSet of a line before: this one counts"))
        sets[record["nodeset"]] = list(dict.fromkeys(named))
    for record in found.partitions if sets else ():
        parts = host_names(record["nodes"], record["_where"]) if record.get("nodes") else []
        if any(part in sets for part in parts):
            every = [name for part in parts for name in sets.get(part, [part])]
            record["nodes"] = ",".join(dict.fromkeys(every))


def leave_out_future(found: Configuration) -> None:
    """Take nodes of State FUTURE, which are defined for later, out of what names them."""
    later = [each for each in found.nodes if each.get("state", "").upper().startswith("FUTURE")]
    found.nodes = [each for each in found.nodes if each not in later]
    gone = {name for each in later for name in host_names(each["nodename"], each["_where"])}
    for record in (*found.partitions, *found.reservations, *found.down) if gone else ():
        key = "downnodes" if "downnodes" in record else "nodes"
        if gone & set(names := expand_nodes(record.get(key, ""))):
            record[key] = ",".join(name for name in names if name not in gone)


def node_table(found: Configuration) -> tuple[pd.DataFrame, list[NodeEvent]]:
    """Make the node table, and an event of each node that is shown as down or drained."""
    places: dict[str, tuple[int, int]] = {}
    if found.network is not None:
        places = {row.node_id: (row.leaf, row.pod) for row in found.network.nodes.itertuples()}
    rows, events = [], []
    at = -(2**40) + 1  # since before any log
    for record in found.down:
        state = closed_as(record) or "down"
        events.append(NodeEvent(nodes=record["downnodes"], start=at, state=state, reason=record.get("reason", "")))
    for record in found.nodes:
        names = host_names(record["nodename"], record["_where"])
        row = _node(record)
        for name in names:
            leaf, pod = places.get(name, (None, None))
            gpus, gpu_type = _gpus(name, record, found)
            rows.append({"node_id": name, **row, "gpus": gpus, "gpu_type": gpu_type, "leaf": leaf, "pod": pod})
        if (kind := closed_as(record)) is not None:
            events.append(NodeEvent(nodes=record["nodename"], start=at, state=kind, reason=record.get("reason", "")))
    if not rows:
        raise TableError("no node is left: all are of State FUTURE")
    frame = pd.DataFrame(rows).drop_duplicates("node_id", keep="first")
    kinds = ["cpus", "mem_mb", "gpus", "gpu_type", "features"]
    number = frame.groupby(kinds, sort=False).ngroup()
    prefix = frame["node_id"].str.extract(r"^(.*?)\d*$")[0].where(lambda text: text != "", "node")
    first = prefix.groupby(number).first()
    repeated = first.duplicated(keep=False)
    called = {n: f"{first[n]}-{n + 1}" if repeated[n] else first[n] for n in first.index}
    frame["kind"] = number.map(called)
    if "cr_socket" not in found.settings.get("selecttypeparameters", "").lower():
        frame = frame.drop(columns="cpus_per_socket")
    if frame["leaf"].isna().all():
        frame = frame.drop(columns=["leaf", "pod"])
    # Slurm has its nodes in the order of their names, however slurm.conf lists them, and among equals takes the first.
    parts = frame["node_id"].map(lambda name: [_place(part) for part in re.findall("[0-9]+|.", name)])
    return check(frame.loc[sorted(frame.index, key=parts.get)], NODE), events


def _place(part: str) -> tuple[int, bool, int | str]:
    """Return what puts parts of names in order: a number counts as a whole, one that begins with 0 digit by digit."""
    return (48, part[0] != "0", part if part[0] == "0" else int(part)) if part.isdecimal() else (ord(part), False, "")


_LARGEST = 10**9
"""CPUs or MB of a node at most."""


def _node(record: Record) -> dict[str, Any]:
    given, _ = taken(NODES, record, lambda _: record["_where"], f"{record['nodename']} ")
    cpus, threads, sockets = geometry(given)
    of_socket, reserved = cpus // sockets, 0
    if "usable" in given:
        cpus = given["usable"]
    else:  # the CPUs of a line's list are numbered core by core, and the list stands above the count
        listed = len({number // threads for number in given.get("reserved_cpus", ())})
        cores = given.get("reserved_cores", 0)
        reserved = threads * (cores or listed if "_shown" in record else listed or cores)
        cpus -= reserved
    memory = given.get("mem_mb", 1) - given.get("reserved_mb", 0)
    if not (min(reserved, 1) <= cpus <= _LARGEST and min(given.get("reserved_mb", 0), 1) <= memory <= _LARGEST):
        raise TableError(
            f"{record['_where']}: node {record['nodename'][:40]} would have {cpus:,} CPUs and {memory:,} MB for jobs; "
            "correct its CPUs, CoreSpecCount, RealMemory or MemSpecLimit"
        )
    return {
        "cpus": cpus,
        "mem_mb": memory,
        "features": given.get("features", ""),
        "weight": given.get("weight", 1),
        "threads_per_core": threads,
        "cpus_per_socket": of_socket,
    }


def _gpus(name: str, record: Record, found: Configuration) -> tuple[int, str]:
    """Count a node's GPUs: as its line says, where that names gpu, else as gres.conf counts them."""
    kinds: dict[str, int] = {}
    for item in filter(None, re.sub(r"\([^)]*\)", "", record.get("gres", "")).split(",")):
        match = GPU.fullmatch(item)
        if match:
            kinds[match[1] or ""] = kinds.get(match[1] or "", 0) + int(match[2] or 1)
    if sum(kinds.values()) > _LARGEST:
        raise TableError(f"{record['_where']}: node {name} would have {sum(kinds.values()):,} GPUs; correct its Gres")
    if not kinds and "_shown" not in record:
        return 0, ""
    if set(kinds) == {""}:
        # Slurm counts the models of an untyped number as gres.conf lists them, and so for this node.
        typed = {model: n for model, n in listed_gpus(name, found).items() if model}
        if len(typed) == 1:
            return kinds[""], next(iter(typed))
        if typed and sum(typed.values()) == kinds[""]:
            kinds = typed
    return joined_pools(list(kinds.items()))
