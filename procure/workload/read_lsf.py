"""LSF's ``lsb.acct`` as rows of sacct's fields.

A line is an event of quoted texts and numbers ("lsb.acct", IBM Spectrum LSF configuration reference); JOB_FINISH is
the end of a job.
"""

from __future__ import annotations

import csv
import re
from collections import Counter

from procure.workload.rows import Rows

_DONE = "64"
_GPUS = re.compile(
    r"(?:rusage\[[^\]]*?\bngpus(?:_physical|_excl_p|_shared)?\s*=\s*|-gpu\s+\S*num=)(\d+)(?:\.\d+)?(/task)?"
)
_SPAN = re.compile(r"span\[\s*(hosts|ptile)\s*=\s*(\d+)")
_LIMIT = re.compile(r"#BSUB\s+-W\s+(?:(\d+):)?(\d+)")


def recognises(lines: list[str]) -> bool:
    """Say whether a log is one of LSF."""
    return bool(re.match(r'"(?:JOB|EVENT)_[A-Z_0-9]+" "[\d.]+" \d+', lines[0]))


def rows(text: str) -> Rows:
    """Return a row per ended job."""
    found = Rows(text).take(_take, "a JOB_FINISH event of lsb.acct")
    found.note(
        "the unit of memory in rusage[mem=…] is not in the log: no job asks for memory here; time limits are those of "
        "#BSUB -W in the command"
    )
    return found


def _take(found: Rows, number: int, line: str) -> None:
    event = line.split(" ", 1)[0].strip('"')
    if event != "JOB_FINISH":
        found.skip(f"event {event[:20]}, not the end of a job")
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
    gpus = _GPUS.search(" ".join([fields[13], *rest[3:4], *rest[24:]]))
    limit = _LIMIT.search(command)
    n_nodes = max(len(slots), 1)
    held = int(gpus[1]) * (cpus if gpus[2] else n_nodes) if gpus else 0
    found.add(
        number,
        JobID=f"{fields[3]}_{index}" if index else fields[3],
        JobName=name,
        User=fields[11],
        Account=rest[24] if len(rest) > 24 else "",
        Partition=fields[12],
        Submit=fields[7],
        Start=fields[10] if started else "",
        End=fields[2],
        Timelimit=f"{int(limit[1] or 0):02d}:{limit[2]}:00" if limit else "",
        State="COMPLETED" if state == _DONE else "FAILED" if started else "CANCELLED",
        NNodes=n_nodes,
        NodeList=",".join(slots),
        ReqTRES=f"cpu={cpus},node={n_nodes},gres/gpu={held}",
        SubmitLine=_line(cpus, f"{fields[13]} {command}"),
    )


def _line(slots: int, text: str) -> str:
    """Write the slots asked for as tasks, on one host or so many on each where span[…] says so."""
    span = _SPAN.search(text)
    where = "" if not span else "--nodes=1" if span[1] == "hosts" else f"--ntasks-per-node={min(int(span[2]), slots)}"
    whole = "--exclusive" if re.search(r"#BSUB\s+-x\b|^bsub\s(?:.*\s)?-x\s", text) else ""
    return f"bsub --ntasks={slots} {where} {whole}"
