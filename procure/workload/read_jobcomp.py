"""Slurm's jobcomp/filetxt as rows of sacct's fields: a line ``JobId=5 UserId=ann(1001) …`` per ended job."""

from __future__ import annotations

import re

from procure.workload.rows import Rows

_FIELDS = {
    "JobName": "Name", "State": "JobState", "Partition": "Partition", "TimelimitRaw": "TimeLimit", "Start": "StartTime",
    "End": "EndTime", "NodeList": "NodeList", "NNodes": "NodeCnt", "AllocCPUS": "ProcCnt", "ReqGRES": "Gres",
    "Reservation": "ReservationName", "ReqTRES": "Tres", "Account": "Account", "QOS": "QOS", "Cluster": "Cluster",
    "Submit": "SubmitTime", "Eligible": "EligibleTime",
}  # fmt: skip
"""sacct's fields by those of jobcomp."""
_OTHERS = "JobId|UserId|GroupId|WorkDir|WcKey|Array(?:Job|Task)Id|HetJob(?:Id|Offset)|DerivedExitCode|ExitCode"
_PAIR = re.compile(rf"(?:^| )({'|'.join(_FIELDS.values())}|{_OTHERS})=")
"""Where a field begins: names and folders may hold blanks."""


def recognises(lines: list[str]) -> bool:
    """Say whether a log is one of jobcomp."""
    return bool(re.match(r"JobId=\d+ UserId=", lines[0]))


def rows(text: str) -> Rows:
    """Return a row per ended job."""
    return Rows(text).take(_take, "a line JobId=… UserId=… of jobcomp/filetxt")


def _take(found: Rows, number: int, line: str) -> None:
    _, *pairs = _PAIR.split(line)
    told = dict(zip(pairs[::2], map(str.strip, pairs[1::2]), strict=True))
    array, het = (told.get(f"{name}JobId", "0") for name in ("Array", "Het"))
    task = f"{array}_{told.get('ArrayTaskId')}" if array != "0" else told["JobId"]
    row = {name: told.get(own, "") for name, own in _FIELDS.items()}
    row["ReqGRES"] = f"PER_NODE:{row['ReqGRES']}"
    row["JobID"] = f"{het}+{told.get('HetJobOffset')}" if het != "0" else task
    found.add(number, User=re.sub(r"\(\d+\)$", "", told.get("UserId", "")), **row)
