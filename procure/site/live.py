"""What waits and which nodes are idle at this moment: squeue and sinfo, as files or asked now."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pandas as pd

from procure.errors import TableError
from procure.files import read_bytes
from procure.text import listed
from procure.workload.slurm_env import slurm_environment
from procure.workload.slurm_text import expand_nodes

SQUEUE = ("squeue", "--all", "--array-unique", "--states=PD,R,CG,CF,S", "--format=%i|%P|%T|%D|%Q|%r|%N|%Y")
SINFO = ("sinfo", "--Node", "--format=%N|%P|%t")
TOPOLOGY = ("scontrol", "show", "topology")
_NAMES = {"ST": "STATE", "NODELIST(REASON)": "REASON", "NODES": "NODES", "PARTITION": "PARTITION"}
_IDLE = ("idle", "planned", "plnd")
_HELD_BACK = ("JobHeld", "Dependency", "BeginTime", "Partition", "Reservation", "Assoc", "QOS", "ReqNodeNotAvail")


def ask(command: tuple[str, ...], file: Path | None) -> str:
    """Return what a command of Slurm printed into a file, or prints now.

    Raises
    ------
    TableError
        No such file or command, or the command fails.
    """
    if file is not None:
        return read_bytes(file).decode("utf-8", errors="replace")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=slurm_environment())
    except (FileNotFoundError, subprocess.TimeoutExpired):
        raise TableError(f"{command[0]} is not here or does not answer; give files that hold what it prints") from None
    if done.returncode:
        raise TableError(f"{command[0]} failed: {done.stderr.strip() or done.returncode}")
    return done.stdout


def read_waiting(text: str, source: str) -> tuple[pd.DataFrame, dict[str, str]]:
    """Read squeue's jobs (`SQUEUE`, or any columns that its header names, divided by bars).

    Returns
    -------
    pandas.DataFrame
        A row per job that waits for nothing but its turn, by priority: ``job_id partition n_nodes planned``, the
        last being the nodes that Slurm's backfill has planned for it, as a list of names.
    dict
        The job that holds a node, by node.

    Raises
    ------
    TableError
        A column is missing, or a row has another number of fields.
    """
    rows, running = [], dict[str, str]()
    for where, cells in _rows(text, source, ("JOBID", "STATE", "NODES")):
        if cells["STATE"].upper() not in ("PENDING", "PD"):
            held = cells.get("NODELIST", "")
            running |= dict.fromkeys(expand_nodes(held), cells["JOBID"])
            continue
        if not cells["NODES"].isdigit():
            raise TableError(f"{where}, column NODES: {cells['NODES']!r} is no number of nodes")
        if cells.get("REASON", "").strip("()").startswith(_HELD_BACK):
            continue
        planned = cells.get("SCHEDNODES", "")
        names = expand_nodes(planned) if planned not in ("", "(null)", "n/a", "N/A") else []
        priority = float(cells["PRIORITY"]) if cells.get("PRIORITY", "").replace(".", "", 1).isdigit() else 0.0
        rows.append((cells["JOBID"], cells.get("PARTITION", ""), int(cells["NODES"]), names, -priority))
    frame = pd.DataFrame(rows, columns=["job_id", "partition", "n_nodes", "planned", "order"])
    return frame.sort_values("order", kind="stable", ignore_index=True).drop(columns="order"), running


def read_idle(text: str, source: str) -> pd.DataFrame:
    """Read sinfo's nodes (`SINFO`, or any columns that its header names): ``node_id partition is_idle``."""
    rows = []
    for _, cells in _rows(text, source, ("NODELIST", "STATE")):
        state = cells["STATE"].lower()
        idle = state.rstrip("~#$@+-").startswith(_IDLE) and "*" not in state
        partition = cells.get("PARTITION", "").rstrip("*")
        rows += [(name, partition, idle) for name in expand_nodes(cells["NODELIST"])]
    return pd.DataFrame(rows, columns=["node_id", "partition", "is_idle"])


def _rows(text: str, source: str, needed: tuple[str, ...]) -> list[tuple[str, dict[str, str]]]:
    lines = [line for line in text.splitlines() if line.strip()]
    bars = bool(lines) and "|" in lines[0]
    header = [word.strip().upper() for word in (lines[0].split("|") if bars else lines[0].split())] if lines else []
    header = [_NAMES.get(name, name) for name in header]
    missing = [name for name in needed if name not in header]
    if missing:
        command = SQUEUE if "JOBID" in needed else SINFO
        raise TableError(
            f"{source}: column {listed(missing)} is missing in the first line; write the file with "
            f"{' '.join((*command[:-1], repr(command[-1])))}"
        )
    found = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("|") if bars else line.split(None, len(header) - 1)
        if len(cells) != len(header):
            raise TableError(f"{source}, line {number}: {len(cells)} fields where the first line has {len(header)}")
        found.append((f"{source}, line {number}", dict(zip(header, (c.strip() for c in cells), strict=True))))
    return found
