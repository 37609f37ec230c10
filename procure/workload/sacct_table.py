"""What sacct prints as columns of text: --parsable2, whatever delimits it, and --json; components of one job joined."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.text import counted, printable
from procure.workload.asked import script_options
from procure.workload.ledger import Ledger, Rows, documents, log_bytes, parquet_text
from procure.workload.log_settings import How

_CELLS = {
    "jobid": r"\s*\d@", "submit eligible start end": r"\d@|None|Unknown|", "constraints jobname": ".*?",
    "nnodes ncpus reqcpus alloccpus elapsedraw uid gid": r"[\d.KM]*", "exitcode": r"\d+:\d+|",
    "submitline": r"(?:\S*/)?(?:sbatch|srun|salloc)\b.*?|\(null\)|",
}  # fmt: skip
"""What cells look like: of columns that may hold the delimiter, and of those by which that is told; @ holds none."""
HEADER, MOST_BANNER = re.compile(r"(?:^|\|)JobID(?:Raw)?(?:\||$)", re.IGNORECASE), 30
"""A header of sacct --parsable2, and the lines that a login may print before it."""
_MOST_MARKS, _LINE = 200, "submitline"
_OF_JSON = {
    "JobName": "name", "ElapsedRaw": "time elapsed", "Reason": "state reason", "ReqCPUS": "required CPUs",
    "NNodes": "allocation_nodes", "NodeList": "nodes", "Reservation": "reservation name",
    "ArrayLimit": "array limits max running tasks", "Restarts": "restart_cnt", "Priority": "priority",
    "Account": "account", "Partition": "partition", "QOS": "qos", "Cluster": "cluster", "Constraints": "constraints",
    "Licenses": "licenses", "Flags": "flags",
    "Submit": "time submission", "Eligible": "time eligible", "Start": "time start", "End": "time end",
}  # fmt: skip
"""Where fields that stand as they are stand in JSON."""


def table(path: str | Path, how: How, rows: Callable[[str], Rows] | None) -> tuple[pd.DataFrame, Ledger]:
    """Split the file into text columns; lines with another number of fields than the header are bad."""
    if rows is None and str(path).lower().endswith(".parquet"):
        frame = parquet_text(Path(path), ()).rename(columns=str.lower)
        return frame, Ledger(str(path), np.arange(1, len(frame) + 1), len(frame), how.skip_bad_rows)
    text = log_bytes(path).decode("utf-8", errors="replace")
    frame, ledger = _columns(text, path, how, rows)
    if text[-1] not in "\n]}>":
        ledger.note("the last line has no end: if the file was cut there, its last field may be short")
    return frame, ledger


def _columns(text: str, path: str | Path, how: How, rows: Callable[[str], Rows] | None) -> tuple[pd.DataFrame, Ledger]:
    if rows is not None:
        frame, ledger = rows(text).table(str(path), how.skip_bad_rows)
        if frame.empty:
            why = "; ".join(f"{n:,}: {reason}" for reason, n in ledger.dropped.items())
            raise TableError(f"{path}: holds no ended job{'; ' if why else ''}{why}")
        return frame, ledger
    if text.lstrip()[:1] in ("{", "["):
        frame = json_rows(text, str(path))
        return frame, Ledger(str(path), np.arange(1, len(frame) + 1), len(frame), how.skip_bad_rows, "job")
    # A name may hold what Unicode counts as the end of a line, so only the file's own ends count.
    lines = [line.removesuffix("\r") for line in [*filter(None, [how.fields]), *text.split("\n")]]
    body = [number for number, line in enumerate(lines) if line.strip()]
    n = next((n for n, at in enumerate(body[:MOST_BANNER]) if HEADER.search(lines[at])), 0) if how.fields is None else 0
    header, body = lines[body[n]], body[n + 1 :]
    if not re.search(r"\bJobID", header, re.IGNORECASE):
        raise TableError(
            f"{path}: the first line is not a header of sacct --parsable2 (JobID|…); of a file without a header name "
            "its columns, --set fields=JobID,User,Submit,Start,End,…; or make one with the command that "
            "`procure workload import --print-sacct-command` prints"
        )
    sample = header if how.fields is None or not body else lines[body[0]]
    apart = set(re.findall(r"\W+", header)) if how.fields is None else set()
    many = header.count(",") if how.fields is not None and body else 1_000_000  # a node list has commas, too
    delimiter = apart.pop() if len(apart) == 1 else min("|;,^\t", key=lambda mark: abs(many - sample.count(mark)))
    if delimiter not in sample or not delimiter.strip(" "):
        raise TableError(
            f"{path}: no delimiter parts its columns; a table with spaces cuts its cells: collect it with "
            "sacct --parsable2, as `procure workload import --print-sacct-command` prints, or convert it to CSV"
        )
    names = [name.strip(' "').lower() for name in header.split("," if how.fields is not None else delimiter)]
    body = [number for number in body if lines[number] != header]  # it stands again where files were joined
    if _LINE in names:
        body = _in_rows(lines, body, names, delimiter)
    split = [_cells(lines[number], delimiter) for number in body]
    more = names[-1] != _LINE and all(len(one) == len(names) + 1 and not one[-1] for one in split)
    names += [""] * (more and len(split) > 0)  # an empty field after the last of each row, as editors write
    row = _row_of(names, delimiter)
    split = [_mended(parts, delimiter, row) for parts in split]
    good = [i for i, parts in enumerate(split) if len(parts) == len(names)]
    ledger = Ledger(str(path), np.array([body[i] for i in good], dtype=np.int64), len(body), how.skip_bad_rows)
    if len(good) < len(body):
        first = next(i for i, parts in enumerate(split) if len(parts) != len(names))
        what = f"where {'fields names' if how.fields is not None else 'the header has'} {len(names)}"
        commas = "; node lists and TRES hold commas: collect it with sacct --parsable2" if delimiter == "," else ""
        ledger.skip_lines(len(body) - len(good), f"row {body[first]}: {len(split[first])} fields {what}{commas}")
    if n:
        ledger.note(f"{counted(n, 'line')} before the header left out")
    frame = pd.DataFrame([split[i] for i in good], columns=names, dtype=object)
    return frame.loc[:, ~frame.columns.duplicated()], ledger


def _in_rows(lines: list[str], body: list[int], names: list[str], delimiter: str) -> list[int]:
    """Join what follows a line's end in a command with the row that it stands in."""
    begins = re.compile(rf"\d[^{re.escape(delimiter)}]*{re.escape(delimiter)}")
    by_id = names[-1] == _LINE and names[0] == "jobid"
    row = _row_of(names, delimiter)
    rows: list[int] = []
    for number in body:
        line = lines[number]
        short_ = line.count(delimiter) < len(names) - 1
        if rows and (not begins.match(line) if by_id else short_ and not row.fullmatch(lines[rows[-1]])):
            lines[rows[-1]] += f" {line}"
        else:
            rows.append(number)
    return rows


def _cells(line: str, delimiter: str) -> list[str]:
    """Split a row; quotation marks hold a cell together as other tools write CSV, while sacct's own | needs none."""
    quoted = '"' in line and (delimiter != "|" or line[0] == '"')
    return next(csv.reader([line], delimiter=delimiter)) if quoted else line.split(delimiter)


def _row_of(names: list[str], delimiter: str) -> re.Pattern[str]:
    """Return what a row with the delimiter in a constraint (old|new), a name or a command line looks like."""
    other = f"[^{re.escape(delimiter)}]*"
    kinds = {name: cell.replace("@", other) for several, cell in _CELLS.items() for name in several.split()}
    return re.compile(re.escape(delimiter).join(f"({kinds.get(name, other)})" for name in names), re.DOTALL)


def _mended(parts: list[str], delimiter: str, row: re.Pattern[str]) -> list[str]:
    """Return the fields of a row that has more than the header, where its cells tell which of them belong together."""
    if not 0 < len(parts) - row.groups <= _MOST_MARKS:
        return parts
    found = row.fullmatch(delimiter.join(parts))
    return [*found.groups()] if found else parts


def json_rows(text: str, source: str) -> pd.DataFrame:
    """Return a row of text per job, with the names of sacct's fields, of any version's JSON; steps are left out."""
    try:
        found = documents(text)
    except ValueError as error:
        at = f", line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise TableError(f"{source}{at}: is no JSON from here on; was it cut? `sacct --json` writes it whole") from None
    lists = [one.get("jobs", [one] if "time" in one else None) if isinstance(one, dict) else one for one in found]
    jobs = [job for one in lists if isinstance(one, list) for job in one]
    if not all(isinstance(one, list) for one in lists) or not all(isinstance(job, dict) for job in jobs):
        raise TableError(f"{source}: no list of jobs under 'jobs', as `sacct --json` writes it{_keys(found[0])}")
    if jobs and not any("time" in job for job in jobs):
        what = f"its jobs have no 'time': none of sacct's; `sacct --json` prints a log{_keys(jobs)}"
        if any("job_state" in job for job in jobs):
            what = "is what `squeue --json` prints, the jobs of one moment; a log is what `sacct --json` prints. "
            what += "For the queue of now: procure queue predict --state"
        raise TableError(f"{source}: {what}")
    if not jobs:
        raise TableError(f"{source}: holds no job")
    return pd.DataFrame([_row(job) for job in jobs], dtype=object).rename(columns=str.lower)


def _keys(found: Any) -> str:
    """Say what another program's JSON holds, and how it can be read."""
    one = found[0] if isinstance(found, list) and found else found
    keys = f"; its keys are {printable(', '.join(map(str, [*one][:6])))}" if isinstance(one, dict) else ""
    return f"{keys}: of another program write a row per job as CSV, and name its columns with --column FIELD=COLUMN"


def _row(job: Mapping[str, Any]) -> dict[str, str]:
    def text(path: str) -> str:
        return _text(_within(job, path))

    current, limit = _within(job, "state current"), _within(job, "time limit")
    number, task, pending = text("array job_id"), text("array task_id"), _within(job, "array task")
    job_id = text("job_id")
    if number not in ("", "0") and (task or pending):
        job_id = f"{number}_{task}" if task else f"{number}_[{pending}]"
    if (first := text("het job_id")) not in ("", "0"):
        job_id = f"{first}+{text('het job_offset') or '0'}"
    unlimited = isinstance(limit, dict) and limit.get("infinite")
    row = {name: text(path) for name, path in _OF_JSON.items()}
    row |= {name: "Unknown" for name in ("Submit", "Eligible", "Start", "End") if row[name] in ("", "0")}
    return row | {
        "JobID": job_id,
        "User": text("user") or text("association user"),
        "TimelimitRaw": "UNLIMITED" if unlimited else _text(limit),
        "State": _text(current[0] if isinstance(current, list) and current else current),
        "ReqMem": _memory(text("required memory_per_cpu"), text("required memory_per_node") or text("required memory")),
        "ReqTRES": _tres(_within(job, "tres requested") or job.get("tres")),
        "AllocTRES": _tres(_within(job, "tres allocated")),
        "Reservation": "" if row["Reservation"] == "0" else row["Reservation"],
        "SubmitLine": _with_script(text("submit_line"), job.get("script")),
    }


def _with_script(line: str, script: Any) -> str:
    """Return a command line with the options of its batch script, where that is kept, before its own."""
    try:
        options = script_options(script) if isinstance(script, str) else {}
    except ValueError:
        options = {}
    command, _, rest = line.partition(" ")
    words = [f"--{name}={value}" for name, (value, _) in options.items() if value and name != "hetjob"]
    return f"{command or 'sbatch'} {shlex.join(words)} {rest}".strip() if words else line


def _within(job: Any, path: str) -> Any:
    """Return what stands in a job by names within names; None where nothing does."""
    for name in path.split():
        job = job.get(name) if isinstance(job, dict) else None
    return job


def _text(value: Any) -> str:
    """Write a value, or a number as newer versions have it, which may not be set, as text."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else None
    return "" if value is None or isinstance(value, bool) else str(value).replace("|", " ").strip()


def _memory(of_cpu: str, of_node: str) -> str:
    """Write the request as sacct does, where the job names no TRES; in Slurm 20.11 its highest bit says per CPU."""
    return f"{of_cpu}Mc" if of_cpu not in ("", "0") else f"{of_node}Mn" if of_node else ""


def _tres(items: Any) -> str:
    if isinstance(items, str):
        return items
    found = []
    for item in items if isinstance(items, list) else []:
        count = _text(item.get("count")) if isinstance(item, dict) else ""
        if count and count != "0" and not count.startswith("-"):
            name = f"{item.get('type')}/{item['name']}" if item.get("name") else str(item.get("type"))
            found.append(f"{name}={count}{'M' if item.get('type') == 'mem' else ''}")
    return ",".join(found)


_COMPONENT = r"^(\d+)\+\d+(~\d+)?$"
"""sacct calls the components 100+0, 100+1 …; an earlier run of a requeued one has ``~1`` behind."""
_LARGEST = (
    "cpus_per_node mem_mb_per_node gpus_per_node requested_time run_time submit_time eligible_time start_time end_time "
    "held_cpus_per_node"
).split()


def join_het_jobs(columns: dict[str, object], ledger: Ledger) -> dict[str, object]:
    """Return the columns with each heterogeneous job in the row of its first component; the others are dropped.

    Nodes are added up, and each is as large as the largest component's, as a job of the table has equal nodes: a
    joined job asks for no less than its components. It begins with the last of them and ends with the last. Where they
    name different GPU models or constraints, the job names none.
    """
    names = pd.Series(columns["job_id"], dtype=object).astype(str).str.extract(_COMPONENT)
    rows = np.flatnonzero(names[0].notna().to_numpy() & ledger.keep)
    if not rows.size:
        return columns
    whole = (names[0] + names[1].fillna("")).iloc[rows]
    found: dict[str, np.ndarray] = {name: np.array(values, copy=True) for name, values in columns.items()}
    others = np.zeros(len(ledger.keep), dtype=bool)
    jobs = pd.Series(rows, index=whole).groupby(level=0, sort=False)
    for name, each in jobs:
        mine = each.to_numpy()
        first = mine[0]
        found["job_id"][first] = name
        found["n_nodes"][first] = found["n_nodes"][mine].sum()
        for column in set(found) & set(_LARGEST):
            values = found[column][mine].astype(np.float64)
            unlimited = column == "requested_time" and (values == 0).any()  # no limit is the longest
            found[column][first] = 0.0 if unlimited else values.max()
        for column in set(found) & {"gpu_type", "constraint"}:
            named = {str(text) for text in found[column][mine]} - {""}
            found[column][first] = named.pop() if len(named) == 1 else ""
        if "node_ids" in found:
            found["node_ids"][first] = ",".join(dict.fromkeys(",".join(map(str, found["node_ids"][mine])).split(",")))
        others[mine[1:]] = True
    ledger.drop(others, "component of a heterogeneous job, joined with its first")
    n_jobs = counted(jobs.ngroups, "heterogeneous job")
    ledger.note(f"{n_jobs} taken as one job each, all nodes as large as the largest")
    return dict(found)
