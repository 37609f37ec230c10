"""``sacct --json`` as the columns of ``sacct --parsable2``: one reader has the rules for both."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import pandas as pd

from procure.errors import TableError
from procure.workload.asked import script_options

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
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TableError(f"{source}: begins with {{ and is no JSON: {str(error)[:100]}") from None
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise TableError(f"{source}: no list of jobs under 'jobs', as `sacct --json` writes it")
    if jobs and not any("time" in job for job in jobs) and any("job_state" in job for job in jobs):
        raise TableError(
            f"{source}: is what `squeue --json` prints, the jobs of one moment; a log is what `sacct --json` prints. "
            "For the queue of now: procure queue predict --state"
        )
    if not jobs:
        raise TableError(f"{source}: holds no job")
    return pd.DataFrame([_row(job) for job in jobs], dtype=object).rename(columns=str.lower)


def _row(job: Mapping[str, Any]) -> dict[str, str]:
    time, required = _part(job, "time"), _part(job, "required")
    state, array = _part(job, "state"), _part(job, "array")
    number, task, pending = _number(array.get("job_id")), _number(array.get("task_id")), array.get("task")
    job_id = _text(job.get("job_id"))
    if number and number != "0" and task:
        job_id = f"{number}_{task}"
    elif number and number != "0" and pending:
        job_id = f"{number}_[{pending}]"
    het = _number(_part(job, "het").get("job_id"))
    if het and het != "0":
        job_id = f"{het}+{_number(_part(job, 'het').get('job_offset')) or '0'}"
    limit = time.get("limit")
    unlimited = isinstance(limit, dict) and limit.get("infinite")
    current = state.get("current")
    reservation = _text(_part(job, "reservation").get("name"))
    row = {
        "JobID": job_id,
        "JobName": _text(job.get("name")),
        "User": _text(job.get("user")) or _text(_part(job, "association").get("user")),
        "TimelimitRaw": "UNLIMITED" if unlimited else _number(limit),
        "ElapsedRaw": _number(time.get("elapsed")) or "0",
        "State": _text(current[0] if isinstance(current, list) and current else current),
        "Reason": _text(state.get("reason")),
        "ReqCPUS": _number(required.get("CPUs")),
        "ReqTRES": _tres(_part(job, "tres").get("requested")),
        "AllocTRES": _tres(_part(job, "tres").get("allocated")),
        "NNodes": _number(job.get("allocation_nodes")),
        "NodeList": _text(job.get("nodes")),
        "Reservation": "" if reservation == "0" else reservation,
        "Flags": _text(job.get("flags")),
        "Restarts": _number(job.get("restart_cnt")),
    }
    for field in ("Account", "Partition", "QOS", "Cluster", "Constraints", "Licenses", "Priority"):
        value = job.get(field.lower())
        row[field] = _number(value) if field == "Priority" else _text(value)
    row["SubmitLine"] = _with_script(_text(job.get("submit_line")), job.get("script"))
    for field, name in _TIMES.items():
        at = _number(time.get(name))
        row[field] = "Unknown" if at in ("", "0") else at
    return row


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


def _tres(items: Any) -> str:
    found = []
    for item in items if isinstance(items, list) else []:
        count = _number(item.get("count")) if isinstance(item, dict) else ""
        if count and count != "0" and not count.startswith("-"):
            name = f"{item.get('type')}/{item['name']}" if item.get("name") else str(item.get("type"))
            found.append(f"{name}={count}{'M' if item.get('type') == 'mem' else ''}")
    return ",".join(found)
