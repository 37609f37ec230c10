"""Slurm's job table as slurmdbd keeps it (``CLUSTER_job_table``), and jobcomp/filetxt, as rows of sacct's fields.

Numbers of states and of trackable resources are those of Slurm's source (slurm.h, slurmdb.h): 1 is CPUs, 2 MB of
memory, 4 nodes, 1001 and above what the site counts; the first of these that the log has is taken as GPUs.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter

from procure.text import counted
from procure.workload.ledger import Rows

_NEEDED = {"id_job", "time_submit", "time_start", "time_end"}
_NO_VALUE = {"4294967294", "4294967295", ""}
_STATES = (
    *("PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"),
    *("BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"),
)
_FIELDS = {
    "JobName": "job_name", "Cluster": "cluster", "Account": "account", "Partition": "partition", "QOS": "id_qos",
    "Submit": "time_submit", "Eligible": "time_eligible", "Start": "time_start", "End": "time_end",
    "ReqCPUS": "cpus_req", "ArrayLimit": "array_max_tasks", "ReqGRES": "gres_req", "NNodes": "nodes_alloc",
    "SubmitLine": "submit_line", "Constraints": "constraints",
}  # fmt: skip
"""sacct's fields by the columns that hold them as they are."""
_TRES = {"1": "cpu", "2": "mem", "4": "node"}
_FIRST_GRES = 1001
_PER_CPU = 2**63
_DUMP = re.compile(r"-- (?:MySQL|MariaDB) dump|(?:CREATE TABLE|INSERT INTO) `\w+_job_table`")
_INSERT = re.compile(r"^INSERT INTO `(\w+)_job_table`(?: \(([^)]*)\))? VALUES", re.MULTILINE)
_CREATE = re.compile(r"^CREATE TABLE `(\w+)_job_table` \((.*?)^\)", re.DOTALL | re.MULTILINE)
_QUOTED = r"(?:[^'\\]++|\\.|'')*+"
_TUPLE = re.compile(rf"[\s,]*+\(((?:[^'()]++|'{_QUOTED}')*+)\)", re.DOTALL)
_CELL = re.compile(rf"(?:^|,)(?:'({_QUOTED})'|([^,']*))", re.DOTALL)
"""What mysqldump writes: tables, and rows of numbers, texts and NULL."""


def recognises(lines: list[str]) -> bool:
    """Say whether a log is a dump of slurmdbd's job table."""
    return (
        any(map(_DUMP.match, lines))
        or {name.strip(' "\t\ufeff') for name in lines[0].lower().split(_delimiter(lines[0]))} >= _NEEDED
    )


def _delimiter(header: str) -> str:
    return max(",;\t|", key=header.count)


def rows(text: str) -> Rows:
    """Return a row per job."""
    found = Rows(text)
    every = _dumped(text, found) if any(map(_DUMP.match, text[:65_536].split("\n"))) else _listed(text, found)
    gpus = _gpus(every, found)
    for number, row in enumerate(every, 2):
        if None in row or None in row.values():
            found.bad(number, str(row.get("id_job")), "a row with as many fields as the header")
            continue
        row = {name: _cell(text) for name, text in row.items()}
        if row.get("deleted", "0") not in ("0", ""):
            found.skip("marked as deleted, so that sacct leaves it out")
            continue
        state = row.get("state", "")
        limit = row.get("timelimit", "")
        asked, got = (_tres(row.get(name), "" if _names_gres(row) else gpus) for name in ("tres_req", "tres_alloc"))
        waiting = row.get("array_task_str", "")
        task = f"[{waiting}]" if waiting else row.get("id_array_task", "")
        array, het = row.get("id_array_job", "0"), row.get("het_job_id", row.get("pack_job_id", "0"))
        job_id = f"{array}_{task}" if array not in ("0", "") and task not in _NO_VALUE else row["id_job"]
        if het not in ("0", *_NO_VALUE):
            job_id = f"{het}+{row.get('het_job_offset', row.get('pack_job_offset', '0'))}"
        found.add(
            number,
            JobID=job_id,
            User=row.get("user", "") or row.get("id_user", ""),
            ElapsedRaw=_elapsed(row),
            State=_STATES[int(state)] if state.isdigit() and int(state) < len(_STATES) else state,
            TimelimitRaw="" if limit in _NO_VALUE else limit,
            ReqMem=_memory(row.get("mem_req", ""), "mem=" in asked),
            ReqTRES=asked,
            AllocTRES=got,
            AllocGRES=row.get("gres_alloc") or row.get("gres_used", ""),
            **({"NodeList": _nodes(row["nodelist"])} if "nodelist" in row else {}),
            Priority=row.get("priority", "") if row.get("priority", "").isdigit() else "",
            **{name: row.get(own, "") for name, own in _FIELDS.items()},
        )
    return found


def _listed(text: str, found: Rows) -> list[dict[str, str]]:
    """Read the rows of a CSV."""
    every, header = list[dict[str, str]](), text.split("\n", 1)[0]
    if re.search(r'\\"[^",;\t|\r\n]', text):  # MySQL puts a backslash before a quotation mark
        text = re.sub(r'\\(\\|(?="))', lambda found: found[1] or '"', text)
    lines = io.StringIO(header.lower() + text[len(header) :], newline="")
    reader = csv.DictReader(lines, delimiter=_delimiter(header))
    try:
        every.extend(reader)
    except csv.Error:
        found.bad(reader.line_num, "what stands there", "a row of CSV")
    if missing := _NEEDED - set(reader.fieldnames or ()):
        found.bad(1, "its header", f"one with {', '.join(sorted(missing))}")
        return []
    return every


def _dumped(text: str, found: Rows) -> list[dict[str, str]]:
    """Read the rows that mysqldump inserts; the table tells their columns, or each INSERT (--complete-insert)."""
    columns = {cluster: re.findall(r"^\s*`(\w+)`", body, re.MULTILINE) for cluster, body in _CREATE.findall(text)}
    every = list[dict[str, str]]()
    for insert in _INSERT.finditer(text):
        cluster, listed = insert.groups()
        names, at = re.findall(r"\w+", listed or "") or columns.get(cluster, []), insert.end()
        while row := _TUPLE.match(text, at):
            cells = [re.sub(r"\\(.)|'(?=')", r"\1", quoted) or bare for quoted, bare in _CELL.findall(row[1])]
            at = row.end()
            if len(cells) != len(names) or not set(names) >= _NEEDED:
                wanted = "a row of a known table: give the dump with its CREATE TABLE, or --complete-insert"
                found.bad(text.count("\n", 0, at) + 1, row[1], wanted)
                return every
            every.append({"cluster": cluster} | dict(zip(names, cells, strict=True)))
        if text[at : at + 1] != ";":
            found.bad(
                text.count("\n", 0, at) + 1, text[at : at + 40], "a row, nor the end of an INSERT: was the dump cut?"
            )
    return every


def _cell(text: str) -> str:
    """Return what a cell says: NULL is nothing, and a column with NULL may have become one of decimals."""
    return "" if text in ("NULL", "\\N") else text[:-2] if text.endswith(".0") and text[:-2].isdigit() else text


def _elapsed(row: dict[str, str]) -> str:
    """Return the run time without what the job was suspended, as sacct does; empty where that is not said."""
    times = [row.get(name, "") for name in ("time_end", "time_start", "time_suspended")]
    end, start, suspended = (int(one) if one.isdigit() else 0 for one in times)
    return str(end - start - suspended) if suspended and start and end else ""


def _memory(text: str, told: bool) -> str:
    """Write the request as sacct does: the highest bit says that it is per CPU; nothing of 9.2e+18 if TRES tell it."""
    if not re.fullmatch(r"-?\d+", text) or text in _NO_VALUE:
        return "" if told or text in _NO_VALUE else text  # refused where memory is read
    amount = int(text) % 2**64  # a signed column has the highest bit as a minus
    return f"{amount - _PER_CPU}Mc" if amount >= _PER_CPU else f"{amount}Mn"


def _nodes(text: str) -> str:
    """Return a node list; some dumps write Python's lists."""
    return text.strip("[]").replace("'", "").replace(" ", "") if text.startswith("['") else text


def _gpus(every: list[dict[str, str]], found: Rows) -> str:
    """Return the number of the resource that is GPUs where no column of GRES names them; say what is not read."""
    jobs = Counter(
        number
        for row in every
        if not _names_gres(row)
        for number in {one.partition("=")[0] for name in ("tres_req", "tres_alloc") for one in _pairs(row.get(name))}
        if number.isdigit() and int(number) >= _FIRST_GRES
    )
    first, *others = sorted(jobs, key=int) or [""]
    if first:
        found.note(f"resource {first} is taken as GPUs, the first that a site counts; tres_table of the database tells")
    for number in others:
        found.note(
            f"careful: resource {number}, which {counted(jobs[number], 'job')} asked for, is not read, as the log does "
            "not name it; sacct does: procure workload import --print-sacct-command"
        )
    return first


def _names_gres(row: dict[str, str]) -> bool:
    return any(row.get(name) not in (None, "", "NULL", "\\N") for name in ("gres_req", "gres_alloc"))


def _pairs(text: str | None) -> list[str]:
    return [one for one in (text or "").split(",") if "=" in one]


def _tres(text: str | None, gpus: str) -> str:
    """Write ``1=40,2=362000,4=1,1001=2`` as sacct does."""
    parts = []
    for number, _, amount in (one.partition("=") for one in _pairs(text)):
        if number in _TRES:
            parts.append(f"{_TRES[number]}={amount}{'M' if number == '2' else ''}")
        elif number == gpus or not number.isdigit():  # or with their names, as an export may have joined them
            parts.append(f"{'gres/gpu' if number == gpus else number}={amount}")
    return ",".join(parts)


_OF_JOBCOMP = {
    "JobName": "Name", "State": "JobState", "Partition": "Partition", "TimelimitRaw": "TimeLimit", "Start": "StartTime",
    "End": "EndTime", "NodeList": "NodeList", "NNodes": "NodeCnt", "AllocCPUS": "ProcCnt", "ReqGRES": "Gres",
    "Reservation": "ReservationName", "ReqTRES": "Tres", "Account": "Account", "QOS": "QOS", "Cluster": "Cluster",
    "Submit": "SubmitTime", "Eligible": "EligibleTime",
}  # fmt: skip
"""sacct's fields by those of jobcomp."""
_JOBCOMP_OTHERS = "JobId|UserId|GroupId|WorkDir|WcKey|Array(?:Job|Task)Id|HetJob(?:Id|Offset)|DerivedExitCode|ExitCode"
_JOBCOMP_PAIR = re.compile(rf"(?:^| )({'|'.join(_OF_JOBCOMP.values())}|{_JOBCOMP_OTHERS})=")
"""Where a field begins: names and folders may hold blanks."""


def is_jobcomp(lines: list[str]) -> bool:
    """Say whether a log is one of jobcomp."""
    return bool(re.match(r"JobId=\d+ UserId=", lines[0]))


def jobcomp_rows(text: str) -> Rows:
    """Return a row per ended job."""
    return Rows(text).take(_take_jobcomp, "a line JobId=… UserId=… of jobcomp/filetxt")


def _take_jobcomp(found: Rows, number: int, line: str) -> None:
    _, *pairs = _JOBCOMP_PAIR.split(line)
    told = dict(zip(pairs[::2], map(str.strip, pairs[1::2]), strict=True))
    array, het = (told.get(f"{name}JobId", "0") for name in ("Array", "Het"))
    task = f"{array}_{told.get('ArrayTaskId')}" if array != "0" else told["JobId"]
    row = {name: told.get(own, "") for name, own in _OF_JOBCOMP.items()}
    row["ReqGRES"] = f"PER_NODE:{row['ReqGRES']}"
    row["JobID"] = f"{het}+{told.get('HetJobOffset')}" if het != "0" else task
    found.add(number, User=re.sub(r"\(\d+\)$", "", told.get("UserId", "")), **row)
