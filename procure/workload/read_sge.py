"""Accounting of Grid Engine, as the man page accounting(5) has it or in JSON, as rows of sacct's fields."""

from __future__ import annotations

import re

from procure.files import from_json
from procure.workload.ledger import Rows, clock, duration

_FEWEST = 43  # of version 6.1; later ones have more at the end
_PE_TASK = re.compile(r"\d+\.[A-Za-z]\S*")
_GPUS = re.compile(r"-l\s+(?:\S*,)?(?:\w*gpus?(?:_cards?)?|gpu\.c|cuda|coproc_\w+)=(\d+)", re.I)
_MODEL = re.compile(r"-l\s+(?:\S*,)?gpu_?(?:type|model)=([A-Za-z][\w.-]*)", re.I)
_KNOWN = re.compile(r"[hs]_\w+|\w*mem\w*|arch|h|hostname|q|qname|excl\w*|.*(?:gpu|cuda|coproc).*", re.IGNORECASE)
"""Resources of -l that are read, said elsewhere, or are no amount of a node."""
_WHOLE = re.compile(r"-l\s+(?:\S*,)?excl(?:usive)?=(?:true|1)\b", re.IGNORECASE)
_BETWEEN = re.compile(r"(?<!\\):")
_MILLISECONDS = 10**12
_REPORTING = re.compile(r"\d{9,}:(acct|new_job|job_log|(?:host|queue)(?:_consumable)?|sharelog|new_ar|ar_\w+):")
"""A line of the file `reporting`, whose records acct are those of `accounting`."""
_PLACES = {
    0: "qname", 1: "hostname", 3: "owner", 4: "job_name", 5: "job_number", 8: "submission_time", 9: "start_time",
    10: "end_time", 11: "failed", 12: "exit_status", 31: "project", 34: "slots", 35: "task_number", 39: "category",
    41: "pe_taskid",
}  # fmt: skip
"""What the fields are called in JSON."""
_WITH_PE = "{jobs} with a parallel environment: the log names their first node only, so each counts as of one node"


def recognises(lines: list[str]) -> bool:
    """Say whether a log is one of Grid Engine."""
    first = next((line for line in lines if not line.startswith("#")), "")
    told = _REPORTING.match(first) or re.match(r'\{.*"job_number":.*"submission_time":', first)
    return bool(told) or _is_record(_BETWEEN.split(first))


def _is_record(fields: list[str]) -> bool:
    return len(fields) >= _FEWEST and all(fields[i].isdigit() for i in (5, 8, 9, 10))


def rows(text: str) -> Rows:
    """Return a row per job, or task of an array job."""
    found = Rows(text).take(_take, "a record of 43 fields or more with : between them")
    found.note("whether a memory request is per slot or per job this log does not say: no job asks for memory here")
    return found


def _take(found: Rows, number: int, line: str) -> None:
    if line.startswith("#"):
        return
    if report := _REPORTING.match(line):
        if report[1] != "acct":
            found.skip(f"record {report[1]} of reporting, not the end of a job")
            return
        line = line[report.end() :]
    fields = [one.replace("\\:", ":") for one in _BETWEEN.split(line)]
    if line.startswith("{"):
        told, fields = from_json(line), ["0"] * 31 + ["NONE"] * 12
        for place, name in _PLACES.items():
            fields[place] = str(told.get(name, fields[place]))
    if not _is_record(fields):
        raise ValueError(line)
    submit, start, end = (_seconds(fields[i]) for i in (8, 9, 10))
    if any(map(_PE_TASK.fullmatch, fields[41:46])):
        found.skip("record of a part of a parallel job, whose own record counts")
        return
    options = ":".join(fields[39:])  # may hold colons, too (-l h_rt=1:00:00)
    slots, task = max(int(fields[34]), 1), fields[35]
    gpus, model = _GPUS.search(options), _MODEL.search(options)
    limit = re.search(r"\b[hs]_rt=(\d+(?::\d+(?![\d.]))*)", options)  # the next field is of decimals
    if slots > 1:
        found.note(_WITH_PE)
    if gpus is None and re.search(r"-l\s+\S*(?:gpu|cuda|coproc)", options, re.IGNORECASE):
        found.note("careful: GPUs that -l names without a number, as gpu=TRUE, are not read: {jobs} taken without any")
    listed = [one.split("=") for group in re.findall(r"-l\s+(\S+)", options) for one in group.split(",")]
    found.unread({name.split(":")[0] for name, *_ in listed if not _KNOWN.fullmatch(name.split(":")[0])})
    if gpus:
        found.note("GPUs are taken as those of the whole job, where -l asks for them")
    found.add(
        number,
        JobID=f"{fields[5]}.{task}".replace(".", "_") if task != "0" else fields[5],
        JobName=fields[4],
        User=fields[3],
        Account=fields[31] if fields[31] != "NONE" else "",
        Partition=fields[0],
        Submit=submit,
        Start=start or "",
        End=end,
        Timelimit="" if not limit else duration(clock(limit[1])),
        State="COMPLETED" if fields[11] == fields[12] == "0" else "FAILED" if start else "CANCELLED",
        NNodes=1,
        NodeList=fields[1] if start else "",
        ReqTRES=f"cpu={slots},node=1,gres/gpu{f':{model[1]}' if gpus and model else ''}={gpus[1] if gpus else 0}",
        SubmitLine=f"qsub {'--ntasks=1 ' * (slots == 1)}{'--exclusive' * bool(_WHOLE.search(options))}",
    )


def _seconds(text: str) -> int:
    """Return Unix seconds; Univa writes milliseconds, Open Cluster Scheduler microseconds."""
    value = int(text)
    while value >= _MILLISECONDS:
        value //= 1000
    return value
