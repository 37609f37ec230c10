"""The system that is there already: its nodes from a node table or from Slurm, all kept or some retired."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.files import as_utf8, existing_file, read_bytes
from procure.files.gpu_pools import joined_pools
from procure.schemas import NODE
from procure.tables import check, read
from procure.text import listed as name_some
from procure.text import nearest
from procure.workload.slurm import expand_nodes, parse_tres

Unavailable = Literal["keep", "leave-out"]

_KEY = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_]*)=")
_AWAY = {"DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "NOT_RESPONDING", "UNKNOWN"}
_UNREAL = "FUTURE"
_MARKS = "*~#!%$@^-"
_GPU = re.compile(r"gpu(?::(?P<model>[^:]+))?:(?P<count>\d{1,9})")


@dataclass(frozen=True)
class ExistingSystem:
    """The nodes that stay, and how they were chosen.

    ``listed`` is all that the file lists: the node table with the columns ``state`` (as Slurm writes it, empty from a
    node table), ``available`` and ``stays``.
    """

    nodes: pd.DataFrame
    listed: pd.DataFrame
    notes: tuple[str, ...]


def read_existing(path: str | Path, retire: Sequence[str] = (), unavailable: Unavailable = "keep") -> ExistingSystem:
    """Read the nodes of an existing system: a node table, or the text that ``scontrol show node`` prints.

    ``retire`` are node names in Slurm's notation, such as ``node[10-19]``, or kinds; ``unavailable`` says whether nodes
    that are down, drained or failing stay. What is unreadable, or not there, is a `TableError`.
    """
    path = existing_file(path)
    content = b"" if path.suffix == ".parquet" else as_utf8(read_bytes(path))
    if content.lstrip().startswith(b"NodeName="):
        listed = parse_nodes(content.decode("utf-8", errors="replace"), str(path))
    else:
        listed = read(path, NODE).assign(state="")
    # A state ending in * belongs to a node that does not respond.
    able = [not (_states(state) & _AWAY) and not state.endswith("*") for state in listed["state"]]
    listed = listed.assign(available=able)
    retired = _retired(listed, retire, str(path))
    stays = ~retired & (listed["available"].to_numpy() | (unavailable == "keep"))
    listed = listed.assign(stays=stays)
    nodes = check(listed.loc[stays].drop(columns=["state", "available", "stays"]), NODE, str(path))
    return ExistingSystem(nodes, listed, tuple(_notes(listed, retired)))


def parse_nodes(text: str, source: str = "scontrol show node") -> pd.DataFrame:
    """Read what ``scontrol show node`` prints, also with ``-o``, as a node table with the further column ``state``.

    ``cpus`` are CPUEfctv, else CPUTot; ``mem_mb`` RealMemory less MemSpecLimit; GPUs come from Gres, else from CfgTRES.
    ``kind`` is spelled from the figures, e.g. ``64c-512g-4xa100``. Nodes in state FUTURE are left out.
    """
    rows = []
    for number, record in enumerate(re.split(r"^(?=NodeName=)", text, flags=re.MULTILINE)[1:], start=1):
        fields = _fields(record)
        if fields["NodeName"] and _UNREAL not in _states(fields.get("State", "")):
            rows.append(_node(fields, f"{source}, node {number}"))
    if not rows:
        raise TableError(f"{source}: holds no node; lines that begin with NodeName= are needed")
    frame = pd.DataFrame(rows)
    nodes = check(frame.drop(columns="state"), NODE, source)
    return nodes.assign(state=frame["state"].to_numpy())


def _fields(record: str) -> dict[str, str]:
    """Split ``Key=value Key=value``, where a value may hold spaces; the first of a repeated key counts."""
    _, *parts = _KEY.split(record)
    return {key: value.strip() for key, value in reversed([*zip(parts[::2], parts[1::2], strict=True)])}


def _node(fields: dict[str, str], where: str) -> dict[str, object]:
    name = fields["NodeName"]

    def whole(*keys: str, default: str | None = None) -> int:
        key = next((key for key in keys if key in fields), keys[-1])
        value = fields.get(key, default)
        if value is None or not re.fullmatch(r"[0-9]{1,15}", value):
            raise TableError(f"{where} ({name}): {key}={value or ''} was given; a whole number is needed")
        return int(value)

    cpus = whole("CPUEfctv", "CPUTot")
    mem_mb = whole("RealMemory") - whole("MemSpecLimit", default="0")
    gpus, model = _gpus(fields, f"{where} ({name})")
    of_kind = model.replace(" ", "") if "+" in model else f"{gpus}x{model or 'gpu'}"
    kind = f"{cpus}c-{mem_mb / 1000:.12g}g" + (f"-{of_kind}" if gpus else "")
    found = {"node_id": name, "kind": kind, "cpus": cpus, "mem_mb": mem_mb, "gpus": gpus, "gpu_type": model}
    return found | {"state": fields.get("State", "")}


def _gpus(fields: dict[str, str], where: str) -> tuple[int, str]:
    """Return the number of GPUs and their model, ``2x A100 + 1x T4`` if there are several, empty if one has no name."""
    gres = fields.get("Gres", "(null)")
    if gres in ("", "(null)"):
        gpus, model, bad = parse_tres(fields.get("CfgTRES", ""))[3:]
        if bad:
            raise TableError(f"{where}: CfgTRES={fields['CfgTRES']} is unreadable")
        return (0 if math.isnan(gpus) else int(gpus)), model
    # Cores in brackets, as in gpu:a100:4(S:0-1,3), hold commas of their own.
    items = re.sub(r"\([^()]*\)|:no_consume", "", gres).split(",")
    found = [_GPU.fullmatch(item) for item in items if item.split(":")[0] == "gpu"]
    if None in found:
        raise TableError(f"{where}: Gres={gres} is unreadable; GPUs are written gpu:2 or gpu:MODEL:2")
    return joined_pools([(one["model"] or "", int(one["count"])) for one in found if one])


def _states(text: str) -> set[str]:
    return {part.strip(_MARKS) for part in text.upper().split("+")}


def _retired(listed: pd.DataFrame, retire: Iterable[str], source: str) -> np.ndarray:
    """Tell which nodes go; an entry is a kind if there is such, else node names."""
    gone = np.zeros(len(listed), dtype=bool)
    names, kinds = listed["node_id"], listed["kind"]
    for entry in retire:
        if (kinds == entry).any() and not (names == entry).any():
            gone |= (kinds == entry).to_numpy()
            continue
        expanded = expand_nodes(entry)
        if not expanded:
            raise TableError(f"packages.retire: {entry!r} names no node; a range is like old[1-3]")
        for name in sorted(set(expanded) - set(names), key=expanded.index)[:1]:
            hint = nearest(name, legal := [*kinds.unique(), *names])
            if len(legal) > 8 and not hint.startswith("did"):
                hint = nearest(name, [*legal[:8], "…"])
            raise TableError(f"packages.retire: {source} has no node or kind {name!r}; {hint}")
        gone |= names.isin(expanded).to_numpy()
    return gone


def _notes(listed: pd.DataFrame, retired: np.ndarray) -> list[str]:
    notes = []
    stays, away = listed["stays"].to_numpy(), ~listed["available"].to_numpy()
    for which, what in (
        (away & stays, "down, drained or failing, and counted as nodes that will work"),
        (away & ~stays & ~retired, "down, drained or failing, and left out"),
        (retired, "retired"),
    ):
        if which.any():
            notes.append(
                f"existing system: {int(which.sum())} of {len(listed)} nodes are {what}: "
                f"{name_some(listed.loc[which, 'node_id'].tolist())}"
            )
    open_model = (listed["gpus"] > 0) & (listed["gpu_type"] == "") & stays
    if open_model.any():
        names = name_some(listed.loc[open_model, "node_id"].tolist())
        notes.append(f"existing system: GPUs without a model in {names}: any request for a model fits")
    if not stays.any():
        notes.append("existing system: no node stays; packages stand alone")
    return notes


def summarise_nodes(system: ExistingSystem) -> pd.DataFrame:
    """Count the nodes of each kind: ``kind n_nodes n_unavailable n_staying cpus mem_mb gpus gpu_type``, of one node."""
    listed = system.listed
    shape = ["kind", "cpus", "mem_mb", "gpus", "gpu_type"]
    return (
        listed.assign(unavailable=~listed["available"])
        .groupby(shape, sort=False)
        .agg(n_nodes=("node_id", "size"), n_unavailable=("unavailable", "sum"), n_staying=("stays", "sum"))
        .reset_index()[["kind", "n_nodes", "n_unavailable", "n_staying", *shape[1:]]]
    )
