"""``sacct --json`` as the columns of ``sacct --parsable2``: one reader has the rules for both."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import pandas as pd

from procure.errors import TableError
from procure.workload.asked import script_options
from procure.workload.rows import documents

_PARTS = ("time", "required", "state", "array", "het", "tres", "reservation", "association")
_SAME = ("Account", "Partition", "QOS", "Cluster", "Constraints", "Licenses", "Flags")
_TIMES = {"Submit": "submission", "Eligible": "eligible", "Start": "start", "End": "end"}


def json_rows(text: str, source: str) -> pd.DataFrame:
    """Return a row of text per job, with the names of sacct's fields; steps are left out.

    Both forms of a number are read, ``4`` of Slurm 22.05 and ``{"set": true, "number": 4}`` of later versions.

    Raises
    ------
    TableError
        No JSON, or none of sacct's.
    """
    try:
        found = documents(text)
    except ValueError as error:
        at = f", line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise TableError(f"{source}{at}: is no JSON from here on; was it cut? `sacct --json` writes it whole") from None
    lists = [one.get("jobs") if isinstance(one, dict) else one for one in found]
    jobs = [job for one in lists if isinstance(one, list) for job in one]
    if not all(isinstance(one, list) for one in lists) or not all(isinstance(job, dict) for job in jobs):
        raise TableError(f"{source}: no list of jobs under 'jobs', as `sacct --json` writes it")
    if jobs and not any("time" in job for job in jobs) and any("job_state" in job for job in jobs):
        raise TableError(
            f"{source}: is what `squeue --json` prints, the jobs of one moment; a log is what `sacct --json` prints. "
            "For the queue of now: procure queue predict --state"
        )
    if jobs and not any("time" in job for job in jobs):
        raise TableError(f"{source}: its jobs have no 'time': none of sacct's; `sacct --json` prints a log")
    if not jobs:
        raise TableError(f"{source}: holds no job")
    return pd.DataFrame([_row(job) for job in jobs], dtype=object).rename(columns=str.lower)


def _row(job: Mapping[str, Any]) -> dict[str, str]:
    time, required, state, array, het, tres, reservation, association = (_part(job, name) for name in _PARTS)
    current, limit = state.get("current"), time.get("limit")
    number, task, pending = _number(array.get("job_id")), _number(array.get("task_id")), array.get("task")
    job_id = _text(job.get("job_id"))
    if number not in ("", "0") and (task or pending):
        job_id = f"{number}_{task}" if task else f"{number}_[{pending}]"
    if (first := _number(het.get("job_id"))) not in ("", "0"):
        job_id = f"{first}+{_number(het.get('job_offset')) or '0'}"
    at_once = _part(_part(_part(array, "limits"), "max"), "running").get("tasks")
    reserved = _text(reservation.get("name"))
    unlimited = isinstance(limit, dict) and limit.get("infinite")
    row = {
        "JobID": job_id,
        "JobName": _text(job.get("name")),
        "User": _text(job.get("user")) or _text(association.get("user")),
        "TimelimitRaw": "UNLIMITED" if unlimited else _number(limit),
        "ElapsedRaw": _number(time.get("elapsed")),
        "State": _text(current[0] if isinstance(current, list) and current else current),
        "Reason": _text(state.get("reason")),
        "ReqCPUS": _number(required.get("CPUs")),
        "ReqMem": _memory(required),
        "ReqTRES": _tres(tres.get("requested") or job.get("tres")),
        "AllocTRES": _tres(tres.get("allocated")),
        "NNodes": _number(job.get("allocation_nodes")),
        "NodeList": _text(job.get("nodes")),
        "Reservation": "" if reserved == "0" else reserved,
        "ArrayLimit": _number(at_once),
        "Restarts": _number(job.get("restart_cnt")),
        "Priority": _number(job.get("priority")),
        "SubmitLine": _with_script(_text(job.get("submit_line")), job.get("script")),
    }
    row |= {name: _text(job.get(name.lower())) for name in _SAME}
    at = {field: _number(time.get(name)) for field, name in _TIMES.items()}
    return row | {field: "Unknown" if value in ("", "0") else value for field, value in at.items()}


def _with_script(line: str, script: Any) -> str:
    """Return a command line with the options of its batch script, where that is kept, before its own."""
    try:
        options = script_options(script) if isinstance(script, str) else {}
    except ValueError:
        options = {}
    command, _, rest = line.partition(" ")
    words = [f"--{name}={value}" for name, (value, _) in options.items() if value and name != "hetjob"]
    return f"{command or 'sbatch'} {shlex.join(words)} {rest}".strip() if words else line


def _part(job: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = job.get(name)
    return found if isinstance(found, dict) else {}


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "" if value is None else str(value).replace("|", " ").strip()


def _number(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else None
    return "" if value is None or isinstance(value, bool) else str(value)


def _memory(required: Mapping[str, Any]) -> str:
    """Write the request as sacct does, where the job names no TRES."""
    of_cpu, of_node = (_number(required.get(f"memory_per_{name}")) for name in ("cpu", "node"))
    node = of_node or _number(required.get("memory"))  # of Slurm 20.11, whose highest bit says that it is per CPU
    return f"{of_cpu}Mc" if of_cpu not in ("", "0") else f"{node}Mn" if node else ""


def _tres(items: Any) -> str:
    if isinstance(items, str):
        return items
    found = []
    for item in items if isinstance(items, list) else []:
        count = _number(item.get("count")) if isinstance(item, dict) else ""
        if count and count != "0" and not count.startswith("-"):
            name = f"{item.get('type')}/{item['name']}" if item.get("name") else str(item.get("type"))
            found.append(f"{name}={count}{'M' if item.get('type') == 'mem' else ''}")
    return ",".join(found)
