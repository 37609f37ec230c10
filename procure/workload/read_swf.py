"""The Standard Workload Format 2.2 as a job table (D. Feitelson's Parallel Workloads Archive)."""

from __future__ import annotations

import io
import re
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.text import counted
from procure.workload.ledger import MOST_MEMORY, Imported, Ledger, log_bytes, memory_mb, numbers, per_node
from procure.workload.log_settings import How

_NAMES = [
    *("job number", "submit time", "wait time", "run time", "allocated processors"),
    *("average CPU time", "used memory", "requested processors", "requested time", "requested memory"),
    *("status", "user", "group", "executable", "queue", "partition", "preceding job", "think time"),
]
_UNUSED = ("average CPU time", "used memory", "executable", "think time")
_OF_GRIDS = 29
"""Fields of a line of the Grid Workload Archive."""
_STATES, _PARTIAL, _CANCELLED = {0: "FAILED", 1: "COMPLETED", 5: "CANCELLED"}, (2, 3, 4), 5
MOST_FIELDS = 64
"""Fields of a line: the standard's 18, and those that a centre adds."""
LATEST_OWN = 500_000_000
"""s, almost 16 years; a log whose first job comes later counts in Unix seconds, not since its own start."""
LATEST_UNIX = 2**32
"""s, 2106; what comes later is no Unix second."""
MANY = 0.05
"""Share of the jobs that may have got more processors than they asked for without a warning."""


def read_swf(path: str | Path, how: How) -> Imported:
    """Read an SWF 2.2 log; −1 means missing.

    A processor is a task of one CPU, with its share of the memory, unless the jobs ask for nodes. Processors asked
    for (those got, where the request is missing), p, are ⌈p/N⌉ nodes by ``cpus_per_node`` N = 1, unless ``node_field``
    names those got. A job without run time, or cancelled with none and no processors, never started.

    The header's UnixStartTime is added to times, unless ``clock`` is ``unix`` or ``log``, or the first submission is
    so late that times must be Unix seconds; without such a header they are seconds of the log's own clock.
    """
    columns, clock, origin, ledger = _columns(path, how)
    return ledger.finish(columns, clock, how.strict, origin)


def _columns(path: str | Path, how: How) -> tuple[dict[str, Any], str, int, Ledger]:
    """Return the job table's columns, the clock and its origin; the log's own are gone then, for memory's sake."""
    header, frame, ledger = _table(path, how.skip_bad_rows)
    if frame.shape[1] == _OF_GRIDS:
        raise TableError(
            f"{path}: rows have {_OF_GRIDS} fields, as in the Grid Workload Archive's format, which is not read; write "
            "a row per job as CSV, and name its columns with --column FIELD=COLUMN"
        )
    used = {name: i for i, name in enumerate(_NAMES) if name not in _UNUSED}
    field = {name: numbers(frame[i], f"{i + 1} ({name})", ledger) for name, i in used.items()}
    cpus_per_node, mem_unit = how.cpus_per_node or 1, how.mem_unit or "kB:cpu"
    submit, wait, run = field["submit time"], field["wait time"], field["run time"]
    ledger.drop(np.isin(field["status"], _PARTIAL), "part of a job that has its own row")
    ledger.drop(~(submit >= 0), "no submit time")
    ledger.drop((run < 0) & (run != -1), "negative run time")
    gone = (run == 0) & (field["status"] == _CANCELLED) & ~(field["allocated processors"] >= 1)
    never = ~(run >= 0) | gone
    if not how.keep_unfinished:
        ledger.drop(gone, "never started")
        ledger.drop(never, "no run time")
    ledger.refuse_decades(run)
    ledger.count(field["preceding job"] >= 1, "with a preceding job (field 17), for whose end it does not wait here")
    _look_at_header(header, field, cpus_per_node, ledger)
    origin, clock = _origin(header, how.clock, submit[ledger.keep], ledger)
    submit = np.floor(submit) + origin
    left_queue = np.where(wait >= 0, submit + np.floor(wait), np.nan)
    start = np.where(never, np.nan, left_queue)
    run = np.where(never, 0.0, np.ceil(run))
    columns = {
        "job_id": _whole_text(field["job number"]),
        "user": _whole_text(field["user"]),
        "account": _whole_text(field["group"]),
        "submit_time": submit,
        "requested_time": np.ceil(np.fmax(field["requested time"], 0)),
        "run_time": run,
        "partition": _queues(field, frame, header, how.queue_field, ledger),
        "state": pd.Series(field["status"]).map(_STATES).fillna("").to_numpy(dtype=object),
        "start_time": start,
        "end_time": np.where(never, left_queue, start + run),
    }
    ledger.drop(~((field["requested processors"] >= 1) | (field["allocated processors"] >= 1)), "no processors")
    asked, held = field["requested processors"], field["allocated processors"]
    processors = np.where(asked >= 1, asked, held)
    processors = np.ceil(np.where(processors >= 1, processors, 1))
    nodes = np.ceil(processors / cpus_per_node)
    if how.node_field is not None:
        names = _extra(frame, how.node_field, ledger).fillna("").astype(str)
        lists = names.str.strip("{}").map(lambda text: list(dict.fromkeys(filter(None, text.split(",")))))
        columns["node_ids"] = lists.str.join(",").to_numpy(dtype=object)
        named = lists.str.len().to_numpy(dtype="float64")
        nodes = np.where(named >= 1, np.minimum(named, processors), nodes)
    cpus, more_fields = np.ceil(processors / nodes), frame.shape[1] > len(_NAMES)
    unit, _, per = mem_unit.partition(":")
    memory, per = memory_mb(np.fmax(field["requested memory"], 0), unit), per or "node"
    columns |= {"n_nodes": nodes, "cpus_per_node": cpus, "mem_mb_per_node": per_node(memory, per, nodes, cpus)}
    if how.node_field is None and more_fields:
        ledger.note(
            f"rows have {frame.shape[1]} fields where SWF has {len(_NAMES)}, as MetaCentrum's have: if it is of "
            "theirs, --set preset=metacentrum reads the nodes, and memory in its unit"
        )
    _look_at_memory(columns, field["requested memory"], mem_unit, more_fields, ledger)
    ledger.shape = how.asks or "tasks"
    if ledger.shape == "tasks":
        each = {"cpu": memory, "job": memory / processors, "node": 0.0 * memory}[per]
        columns |= {"n_tasks": processors, "mem_mb_per_task": np.ceil(each)}
        columns |= {} if per == "node" else {"mem_mb_per_node": 0.0 * memory}
    return columns, clock, origin, ledger


def _look_at_memory(
    columns: dict[str, Any], written: np.ndarray, mem_unit: str, more_fields: bool, ledger: Ledger
) -> None:
    """Warn of memory that no computer has, and name the unit in which it would be plausible."""
    cpus = columns["cpus_per_node"]
    per_cpu = np.where(ledger.keep, columns["mem_mb_per_node"] / cpus, 0)
    if (n := int((per_cpu > MOST_MEMORY).sum())) == 0:
        return
    in_bytes = np.where(ledger.keep, written, 0) / (columns["n_nodes"] * cpus) / 1e6
    likely = "another unit, see --set mem_unit=UNIT:PER"
    if in_bytes.max() <= MOST_MEMORY and mem_unit != "B:job":
        likely = "bytes per job, as MetaCentrum's (--set preset=metacentrum)" if more_fields else "bytes per job"
        likely += "" if more_fields else " (`procure workload import --set mem_unit=B:job`)"
    ledger.warnings.append(
        f"memory: read as {mem_unit}, {counted(n, 'job')} of {int(ledger.keep.sum()):,} {'asks' if n == 1 else 'ask'} "
        f"for more than {MOST_MEMORY // 10**6} TB per CPU, up to {per_cpu.max() / 1e6:,.0f} TB; it may be in {likely}"
    )


def _table(path: str | Path, skip_bad_rows: bool) -> tuple[dict[str, str], pd.DataFrame, Ledger]:
    """Split the log into its header and a frame of text fields, 18 or more a row."""
    comments, rows, body, bad, most = list[str](), array("q"), io.BytesIO(), list[tuple[int, int]](), 0
    for number, piece in enumerate(io.BytesIO(log_bytes(path)), 1):  # line by line: lists would take as much memory
        text = piece.decode("utf-8", errors="replace").strip()
        if text.startswith((";", "#")):
            comments.append(text)
        elif text:
            count = len(text.split(";", 1)[0].split(maxsplit=MOST_FIELDS))
            if not len(_NAMES) <= count <= MOST_FIELDS:
                bad.append((number, count))
                continue
            most = max(most, count)
            rows.append(number)
            body.write(text.replace("\r", " ").encode() + b"\n")
    ledger = Ledger(str(path), np.array(rows, np.int64), len(rows) + len(bad), skip_bad_rows, line="line")
    if bad:
        at, count = bad[0]
        n = f"more than {MOST_FIELDS}" if count > MOST_FIELDS else count
        ledger.skip_lines(len(bad), f"line {at}: {n} fields where SWF has {len(_NAMES)}")
    if not rows:
        raise TableError(f"{path}: holds no job; no line has the {len(_NAMES)} fields of SWF")
    body.seek(0)
    form: dict[str, Any] = {"sep": r"\s+", "comment": ";", "header": None, "index_col": False, "quoting": 3}
    frame = pd.read_csv(body, names=list(range(most)), low_memory=False, **form)
    return _header(comments), frame, ledger


def _header(comments: list[str]) -> dict[str, str]:
    """Return the header's fields; ``Queue: 1 express`` becomes ``queue 1`` → ``express``."""
    fields: dict[str, str] = {}
    for line in comments:
        key, colon, value = line.lstrip(";# \t").partition(":")
        numbered = re.fullmatch(r"\s*(\d+)\s+(\S+).*", value)
        if colon and key.strip() in ("Queue", "Partition") and numbered:
            fields[f"{key.strip().lower()} {numbered.group(1)}"] = numbered.group(2)
        elif colon:
            fields.setdefault(key.strip().lower(), value.strip())
    return fields


def _look_at_header(header: dict[str, str], field: dict[str, np.ndarray], cpus_per_node: int, ledger: Ledger) -> None:
    """Say what the header tells of the nodes, and what the log does not tell: waits, and what jobs held."""
    nodes, processors = (_number(header, key) for key in ("maxnodes", "maxprocs"))
    if cpus_per_node == 1 and 0 < 2 * nodes <= processors:
        each = -(-processors // nodes)
        ledger.note(
            f"the header says {nodes:,} nodes and {processors:,} processors; here each "
            f"processor is a node of its own: --set cpus_per_node={each} makes nodes of {each}"
        )
    kept = ledger.keep & (field["run time"] >= 0)
    if kept.any() and not (field["wait time"][kept] >= 0).any():
        ledger.warnings.append("no job has a wait time (field 3), so it is not known when any started")
    more = kept & (field["requested processors"] >= 1)
    more &= field["allocated processors"] > field["requested processors"]
    if more.sum() > MANY * kept.sum():
        ledger.warnings.append(
            f"{counted(int(more.sum()), 'job')} got more processors than they asked for (field 5 above field 8); "
            "those asked for are taken"
        )


def _origin(header: dict[str, str], clock: str | None, submit: np.ndarray, ledger: Ledger) -> tuple[int, str]:
    """Return what is added to the log's times and the clock that results."""
    if clock == "unix":
        return 0, "unix"
    start = _number(header, "unixstarttime")
    if clock is None and len(submit) and LATEST_OWN <= submit.min() < LATEST_UNIX:
        more = f"; UnixStartTime {start} is not added" if start else ""
        ledger.note(f"times are Unix seconds already, from {pd.Timestamp(submit.min(), unit='s'):%Y-%m-%d} on{more}")
        return 0, "unix"
    if clock == "log" or not start:
        ledger.note("no UnixStartTime in the header: times are seconds of the log's own clock")
        return 0, "log"
    ledger.note(f"times are the log's plus UnixStartTime {start}")
    return start, "unix"


def _number(header: dict[str, str], key: str) -> int:
    """Return the number that a field of the header begins with, also of 1,704,186,000; 0 without one."""
    found = re.match(r"\d{1,15}(?![\d:/-])", re.sub(r"(?<=\d),(?=\d{3})", "", header.get(key, "")))
    return int(found.group()) if found else 0


def _whole_text(values: np.ndarray) -> np.ndarray:
    """Write identifiers as text, empty where −1."""
    codes, each = pd.factorize(np.where(values >= 0, values, -1.0))  # one text for all jobs of a user
    return np.array(["" if one < 0 else str(int(one)) for one in each], dtype=object)[codes]


def _queues(
    field: dict[str, np.ndarray], frame: pd.DataFrame, header: dict[str, str], queue_field: int | None, ledger: Ledger
) -> np.ndarray:
    """Return the queue's name, or its number, or the partition's where the log has no queues."""
    if queue_field is not None:
        return _extra(frame, queue_field, ledger).astype(str).to_numpy(dtype=object)
    kind = "queue" if any(_whole_text(field["queue"]) != "") else "partition"
    number = pd.Series(_whole_text(field[kind]))
    return number.map(lambda n: header.get(f"{kind} {n}", n)).to_numpy(dtype=object)


def _extra(frame: pd.DataFrame, number: int, ledger: Ledger) -> pd.Series:
    if number > frame.shape[1]:
        raise TableError(f"{ledger.source}: field {number} was asked for; the lines have {frame.shape[1]}")
    return frame[number - 1]
