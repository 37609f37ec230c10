"""The queue as it is: what ``squeue`` printed, or prints now, as a job table."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.schemas import JOB
from procure.tables import cell_errors, check
from procure.workload.clock import moment, zone
from procure.workload.slurm import (
    array_tasks,
    parse_gres,
    refuse_many_tasks,
    run_slurm,
    slurm_duration,
    slurm_memory,
)

FIELDS = "%i|%u|%P|%T|%r|%C|%D|%m|%b|%l|%V|%S|%Q"
COMMAND = f'squeue --all --array-unique --format="{FIELDS}"'
"""What writes a state file; without its header line it is read as well."""
_HEADER = tuple(
    (
        "JOBID USER PARTITION STATE REASON CPUS NODES MIN_MEMORY TRES_PER_NODE TIME_LIMIT SUBMIT_TIME "
        "START_TIME PRIORITY"
    ).split()
)
_OPTIONAL = ("REASON", "TRES_PER_NODE", "PRIORITY")
_ALL = tuple(
    (
        "JOBID JOBID_RAW ARRAY_TASK ARRAY_JOB STATE REASON USER ACCOUNT PARTITION QOS CPUS MIN_MEMORY "
        "TRES_PER_NODE NODES NODELIST NODELIST(REASON) START_TIME END_TIME SUBMIT_TIME TIME_LIMIT TIME_LEFT "
        "TIME PRIORITY WORK_DIR"
    ).split()
)
_LAYOUTS = {len(_HEADER): _HEADER, len(_ALL): _ALL}
_STATES = dict.fromkeys(("PENDING", "PD"), True) | dict.fromkeys(
    "RUNNING R COMPLETING CG SUSPENDED CONFIGURING CF STOPPED RESIZING".split(), False
)
_COLUMNS = (
    "job_id user partition submit_time requested_time run_time n_nodes cpus_per_node mem_mb_per_node "
    "gpus_per_node gpu_type state reason start_time end_time"
).split()
HELD = "HELD"
"""The state of jobs that do not compete yet, in a table that has them."""
_NOT_WAITING = tuple(
    (
        "JobHeld JobArrayTaskLimit Dependency BeginTime PartitionConfig PartitionTimeLimit PartitionNodeLimit "
        "Reservation"
    ).split()
)


def read_state(path: Path, tz: str | None = None, held: bool = False) -> pd.DataFrame:
    """Read what squeue printed.

    Parameters
    ----------
    path
        A file written by `COMMAND`, or with another pipe-separated format whose header names the columns.
    tz
        Zone of times without an offset; None is UTC.
    held
        Keep the jobs that do not compete yet, with the state `HELD`: held and dependent ones, those with a begin time
        to come, and array tasks beyond the number that may run at once (``%5``).

    Returns
    -------
    pandas.DataFrame
        Job rows with ``submit_time``, ``start_time`` (empty = pending), ``state`` and ``reason``; a pending array is a
        row per task.

    Raises
    ------
    TableError
        No such file, or a layout that is not known.

    Examples
    --------
    >>> import procure
    >>> from pathlib import Path
    >>> procure.read_queue(Path("squeue.txt"))["state"].to_list()
    ['PENDING']
    """
    if not path.is_file():
        raise TableError(f"{path}: no such file; write one with {COMMAND}")
    return parse_state(path.read_text(encoding="utf-8", errors="replace"), str(path), tz, held)


def live_state(tz: str | None = None, held: bool = False) -> pd.DataFrame:
    """Ask squeue for the queue as it is now, with its times as Unix seconds; see `read_state`."""
    asked = ["squeue", "--all", "--array-unique", f"--format={FIELDS}"]
    try:
        printed = run_slurm(asked, unix_times=True)
    except TableError as error:
        raise TableError(f"{error}; a state file is taken with --state") from None
    return parse_state(printed, "squeue", tz, held)


def parse_state(
    text: str, source: str, tz: str | None = None, held: bool = False, bad: list[str] | None = None
) -> pd.DataFrame:
    """Turn squeue's lines into job rows; see `read_state`. A list ``bad`` takes what is wrong with lines left out."""
    lines = [line for line in text.splitlines() if line.strip()]
    if tz is not None:
        zone(tz)
    names = _layout(lines, source)
    if lines and lines[0].split("|")[0].strip() == "JOBID":
        lines = lines[1:]
    refuse_many_tasks((line.split("|")[names.index("JOBID")].strip() for line in lines if "[" in line), source)
    rows = []
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.split("|")]
        try:
            if len(cells) != len(names):
                raise TableError(f"{source}, line {number}: {len(cells)} fields where {len(names)} are known")
            rows += _rows(dict(zip(names, cells, strict=True)), f"{source}, line {number}", tz)
        except TableError as error:
            if bad is None:
                raise
            bad.append(str(error))
    kept = [row for row in rows if held or row["state"] != HELD]
    frame = pd.DataFrame(kept, columns=_COLUMNS, dtype=object)
    if bad is not None:
        wrong = cell_errors(frame, JOB, source)[1]
        bad += map(str, wrong)
        frame = frame.drop({one.row for one in wrong}).reset_index(drop=True)
    return check(frame, JOB, source)


def _layout(lines: list[str], source: str) -> tuple[str, ...]:
    first = [cell.strip() for cell in lines[0].split("|")] if lines else list(_HEADER)
    if first[0] == "JOBID":
        missing = [name for name in _HEADER if name not in first and name not in _OPTIONAL]
        if missing:
            more = f", and {', '.join(missing[1:])}" if missing[1:] else ""
            raise TableError(f"{source}: squeue's column {missing[0]} is missing{more}; write the file with {COMMAND}")
        return tuple(first)
    names = _LAYOUTS.get(len(first))
    if names is None or first[names.index("STATE")].upper() not in _STATES:
        raise TableError(f"{source}: an unknown layout of squeue ({len(first)} fields); write it with {COMMAND}")
    return names


def _rows(cells: dict[str, str], where: str, tz: str | None) -> list[dict[str, object]]:
    state = cells["STATE"].upper()
    if state not in _STATES:
        return []
    pending, reason = _STATES[state], cells.get("REASON", "")
    gpus, model = parse_gres(cells.get("TRES_PER_NODE", ""))
    limit = slurm_duration(cells["TIME_LIMIT"])
    memory, per = slurm_memory(cells["MIN_MEMORY"])
    try:
        nodes = max(int(cells["NODES"].split("-")[0]), 1)
        cpus = max(int(cells["CPUS"]), 1)
    except ValueError:
        raise TableError(f"{where}: CPUS {cells['CPUS']!r} and NODES {cells['NODES']!r} are not counts") from None
    if np.isnan(limit) or np.isnan(memory):
        raise TableError(
            f"{where}: TIME_LIMIT {cells['TIME_LIMIT']!r} or MIN_MEMORY {cells['MIN_MEMORY']!r} is unreadable"
        )
    per_node = -(-cpus // nodes)
    row = {
        "user": cells["USER"],
        "partition": cells["PARTITION"],
        "submit_time": _moment(cells["SUBMIT_TIME"], tz, f"{where}, column SUBMIT_TIME"),
        "requested_time": int(limit),
        "run_time": 0,
        "n_nodes": nodes,
        "cpus_per_node": per_node,
        "mem_mb_per_node": int(np.ceil(memory * (per_node if per == "cpu" else 1))),
        "gpus_per_node": int(gpus),
        "gpu_type": model,
        "state": "PENDING" if pending else "RUNNING",
        "reason": reason if pending and reason != "None" else "",
        "start_time": None if pending else _moment(cells["START_TIME"], tz, f"{where}, column START_TIME"),
        "end_time": None,
    }
    if pending and reason.startswith(_NOT_WAITING):
        row["state"] = HELD
    names = array_tasks(cells["JOBID"]) if pending else [cells["JOBID"]]
    at_once = re.search(r"%(\d{1,9})\]", cells["JOBID"])
    found = [row | {"job_id": name} for name in names]
    for later in found[int(at_once[1]) if at_once else len(found) :]:
        later |= {"state": HELD, "reason": "JobArrayTaskLimit"}
    return found


def _moment(text: str, tz: str | None, where: str) -> int:
    try:
        return moment(text, tz or "UTC")
    except TableError as error:
        raise TableError(f"{where}: {error}") from None
