"""LSF's ``lsb.acct`` as rows of sacct's fields.

A line is an event of quoted texts and numbers ("lsb.acct", IBM Spectrum LSF configuration reference); JOB_FINISH is
the end of a job.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter

from procure.workload.ledger import Rows, duration

_DONE, _EXCLUSIVE = 0x40, 0x40
"""Bits of a job's status and of its options (lsf.h)."""
_GPUS = re.compile(
    r"(?:rusage\[[^\]]*?\bn?gpus?(?:_physical|_excl_p|_shared)?\s*=\s*|-gpu\s+(?:\S*num=)?)(\d+(?:\.\d+)?)?(/task)?"
)
_OTHERS = re.compile(r"(?<=[\[,:])\s*(?!n?gpus?(?:_|\b)|mem|swp|tmp|duration|decay|j_)(\w+)\s*=")
"""Names within rusage[…], but for those that are read or said."""
_SPAN = re.compile(r"span\[\s*(hosts|ptile)\s*=\s*(\d+)")
_LIMIT = re.compile(r"(?<!#)#BSUB\s+-W\s+(?:(\d+):)?(\d+)")
_AFTER = {"done": "afterok", "ended": "afterany", "exit": "afternotok", "started": "after"}


def recognises(lines: list[str]) -> bool:
    """Say whether a log is one of LSF."""
    return any(re.match(r'"(?:JOB|EVENT)_[A-Z_0-9]+" "[\d.]+" \d+', line) for line in lines[:2])  # or behind #80


def rows(text: str) -> Rows:
    """Return a row per ended job."""
    found = Rows(text).take(_take, "a JOB_FINISH event of lsb.acct")
    found.note("the unit of memory in rusage[mem=…] is not in the log: no job asks for memory here")
    found.note("time limits are those of the record (LSF 9 and later), else of #BSUB -W in the command")
    return found


def _take(found: Rows, number: int, line: str) -> None:
    event = re.match(r'"([A-Z]\w+)" |#', line)
    if event is None:
        raise ValueError(line)
    if event[1] != "JOB_FINISH":
        found.skip(f"event {event[1]}, not the end of a job" if event[1] else "comment")
        return
    fields = next(csv.reader([line], delimiter=" ", skipinitialspace=True, strict=True))  # a record that is cut is bad
    n_asked = int(fields[22])
    n_hosts = int(fields[23 + n_asked])
    hosts = fields[24 + n_asked : 24 + n_asked + n_hosts]
    rest = fields[24 + n_asked + n_hosts :]
    state, _, name, command = rest[:4]
    cpus, index = int(fields[6]), int(rest[29]) if len(rest) > 29 and rest[29].isdigit() else 0
    slots = Counter[str]()
    for host in hosts:
        times, star, one = host.partition("*")
        slots[one if star else host] += int(times) if star and times.isdigit() else 1
    started = int(fields[10]) > 0
    if (n := slots.total()) > cpus:
        found.note("{jobs} asked for a range of slots (-n 4,16): those that they got are taken")
        cpus = n
    # What bsub -gpu asked for stands in the effective resource requirement, near the end.
    named = _GPUS.findall(" ".join([*rest[24:], fields[13], command]))
    gpus = [(n and str(math.ceil(float(n))), each) for n, each in named] or [("0", "")]
    n_nodes = max(len(slots), 1)
    held = int(gpus[0][0] or 1) * (cpus if gpus[0][1] else n_nodes)
    text = " ".join([fields[13], *rest[24:]])
    if held and (len({n for n, _ in gpus if n}) > 1 or re.search(r"\}\s*\+", text)):
        found.note("careful: {jobs} with GPUs that differ by host: the first number is taken for all their hosts")
    others = {name for part in re.findall(r"rusage\[[^\]]*", text) for name in _OTHERS.findall(part)}
    found.unread(others | {"affinity[…], CPUs of a slot"} if "affinity[" in text else others)
    after = re.fullmatch(rf"({'|'.join(_AFTER)})\((\d+)\)", fields[14].strip())
    if fields[14] and not after:
        found.note("{jobs} whose dependency (bsub -w) is more than the end of one job, which is not read")
    found.add(
        number,
        JobID=f"{fields[3]}_{index}" if index else fields[3],
        JobName=name,
        User=fields[11],
        Account=rest[24] if len(rest) > 24 else "",
        Partition=fields[12],
        Submit=fields[7],
        Eligible=max(fields[7], fields[8], key=int),
        Start=fields[10] if started else "",
        End=fields[2],
        Timelimit=duration(_limit(rest, command)),
        Dependency=f"{_AFTER[after[1]]}:{after[2]}" if after else "",
        State="COMPLETED" if int(state) & _DONE else "FAILED" if started else "CANCELLED",
        NNodes=n_nodes,
        NodeList=",".join(slots),
        ReqTRES=f"cpu={cpus},node={n_nodes},gres/gpu={held}",
        SubmitLine=_line(cpus, f"{fields[13]} {command}", bool(int(fields[5]) & _EXCLUSIVE)),
    )


def _limit(rest: list[str], command: str) -> str:
    """Return the seconds of the run limit, behind what the hosts used; else of #BSUB -W."""
    try:
        hosts = 54 + 2 * int(rest[53])
        limit = hosts + 1 + 6 * int(rest[hosts])
        if int(rest[limit]) > 0 and "[" in rest[limit + 3]:  # the effective resource requirement
            return rest[limit]
    except (IndexError, ValueError):
        pass
    said = _LIMIT.search(command)
    return str(3600 * int(said[1] or 0) + 60 * int(said[2])) if said else ""


def _line(slots: int, text: str, whole: bool) -> str:
    """Write the slots asked for as tasks, on one host or so many on each where span[…] says so."""
    span = _SPAN.search(text)
    where = "" if not span else "--nodes=1" if span[1] == "hosts" else f"--ntasks-per-node={min(int(span[2]), slots)}"
    return f"bsub --ntasks={slots} {where} {'--exclusive' * whole}"
