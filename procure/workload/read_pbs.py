"""Accounting records of OpenPBS, PBS Professional and Torque as rows of sacct's fields.

A record is ``date;type;id;key=value …`` (OpenPBS Reference Guide, "Accounting Log"); E is the end of a job.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from procure.workload.ledger import Rows, clock, duration

_RECORD = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(?:\.\d+)?;[A-Za-z];[^;]*;")
_PAIR = re.compile(r'([^\s=]+)=("[^"]*"|\S*(?: [kmgt]b\b)?)')  # mem=4 gb
_MB, _WORD_BYTES = {"b": 1e-6, "kb": 1024 / 1e6, "mb": 1.048576, "gb": 1073.741824, "tb": 1099511.627776}, 8
_ASKED = re.compile(r"(?:Resource_List\.|(?=x$)|req_information\.(?=(?:gpus|memory)\.))(.+)")  # qsub -l, -W x=, -L
_GPUS = re.compile(r"(?:n_?|num_?)?gpus?|naccelerators")
_ABOUT = re.compile(r"[^.]*(?:gpu|accelerator)", re.IGNORECASE)
"""Resources that count GPUs, of which sites name their own, and any that name them, as nodes=1:gpu does."""
_KNOWN = re.compile(
    r"walltime|ncpus|nodect|nodes|neednodes|select|place|p?mem|p?cput|nice|ppn|procs|mpiprocs|ompthreads|mpp\w+|arch"
    rf"|naccesspolicy|{_ABOUT.pattern}.*"
)
"""Resources that are read, said elsewhere, or are no amount of a node."""


def recognises(lines: list[str]) -> bool:
    """Say whether a log is one of PBS."""
    return bool(_RECORD.match(lines[0]))


def rows(text: str) -> Rows:
    """Return a row per ended job."""
    return Rows(text).take(_take, "a record such as 12/21/2009 15:27:00;E;6.host;user=…")


def _take(found: Rows, number: int, line: str) -> None:
    if not _RECORD.match(line):
        raise ValueError(line)
    _, kind, job_id, message = line.split(";", 3)
    if kind != "E" and not (kind == "R" and " end=" in message):  # R: a run after which the job was queued again
        found.skip(f"record {kind}, not the end of a job")
        return
    if "[]" in job_id:
        found.skip("record of an array as a whole, whose jobs have their own")
        return
    told = {name: value.strip('"') for name, value in _PAIR.findall(message)}
    hosts, slots = _hosts(told.get("exec_host", ""))
    asked = {name[1]: value for key, value in told.items() if (name := _ASKED.fullmatch(key))}
    chunks = _chunks(next(filter(None, map(asked.get, ("select", "nodes", "nodect"))), "1"))
    n_nodes = len(hosts) or sum(n for n, _ in chunks)
    # Torque writes its default ncpus=1 beside nodes=2:ppn=8.
    ppn = 0 if asked.get("select") else sum(n * int(re.sub(r"\D", "", c.get("ppn", "1")) or 0) for n, c in chunks)
    width = int(asked.get("mppwidth", 0))  # of a Cray, whose host is that of the launcher
    n_nodes = max(n_nodes, -(-width // (int(asked.get("mppnppn", 0)) or width or 1)))
    if not asked.get("select") and (n := int(asked.get("nodect", 0))) > max(slots.total(), 1):
        n_nodes = max(n_nodes, n)  # of Cobalt, whose host is a place in the machine
    cpus = max(int(asked.get("ncpus", 0)), width * int(asked.get("mppdepth", 1)), sum(slots.values()), ppn, n_nodes)
    told_gpus = re.findall(rf"[:(](?:{_GPUS.pattern})=(\d+)", told.get("exec_vnode", ""))  # of whole nodes, say
    gpus = _gpus(asked) or sum(n * _gpus(c) for n, c in chunks) or sum(map(int, told_gpus))
    gpus = gpus or told.get("exec_gpus", "").count("/")  # n1-gpu/0+n1-gpu/1
    every = [one for c in (asked, *(what for _, what in chunks)) for one in c.items() if one[1] not in ("0", "False")]
    named = [one for one in every if _ABOUT.match(re.sub(r"\w+=(?:0|False)\b", "", "=".join(one)))]
    models = {value for name, value in named if re.search("type|model", name, re.IGNORECASE)}
    model = f":{models.pop()}" if len(models) == 1 else ""
    if not gpus and named:
        found.note("careful: {jobs} naming GPUs, but no number of them that is read: taken as without any")
    memory = _memory(asked.get("mem", "")) or sum(n * _memory(c.get("mem", "")) for n, c in chunks)
    memory = memory or cpus * _memory(asked.get("pmem", ""))
    found.unread({name for name, _ in every if not _KNOWN.fullmatch(name)})
    if _unlike(chunks):
        found.note("{jobs} of unlike chunks (select=1:ncpus=4+2:ncpus=8) taken as of nodes alike, each of their mean")
    if "excl" in asked.get("place", "") and not gpus:
        found.note("{jobs} held whole nodes (place=excl) of which no GPU is named: if they have any, none is counted")
    found.add(
        number,
        JobID=job_id,
        JobName=told.get("jobname", ""),
        User=told.get("user", ""),
        Account=told.get("account", "") or told.get("project", "").removeprefix("_pbs_project_default"),
        Partition=told.get("queue", ""),
        Submit=told.get("ctime", told.get("qtime", "")),
        Eligible=told.get("etime", ""),
        Start=told.get("start", ""),
        End=told["end"],
        ElapsedRaw=clock(told.get("resources_used.walltime", "")),
        Timelimit=duration(clock(asked.get("walltime", ""))),
        State="COMPLETED" if told.get("Exit_status", "0") == "0" else "FAILED",
        NNodes=n_nodes,
        NodeList=",".join(hosts) or "unnamed",  # an E record is of a job that ran
        ReqTRES=f"cpu={cpus},mem={memory:.0f}M,node={n_nodes},gres/gpu{model}={gpus}",
        Dependency=re.sub(r"@[\w.-]+", "", told.get("depend", "")),
        SubmitLine=_line(chunks if asked.get("select") else [], asked.get("place", asked.get("naccesspolicy", ""))),
    )


def _line(chunks: list[tuple[int, dict[str, str]]], place: str) -> str:
    """Write what was asked for as a command line: each chunk is a task, or a node of its own where they are scattered.

    Chunks that are not alike have no such line, as those of Torque.
    """
    whole = "--exclusive " * bool(re.search("excl|single", place))
    if _unlike(chunks) or not chunks:
        return f"qsub {whole}"
    n, what = sum(number for number, _ in chunks), chunks[0][1]
    words = [f"qsub {whole}--ntasks={n} --cpus-per-task={what.get('ncpus', '1')}"]
    words += [f"--nodes={1 if 'pack' in place else n}"] if re.search(r"pack|scatter", place) else []
    memory, gpus = _memory(what.get("mem", "")), _gpus(what)
    words += [f"--mem-per-task={math.ceil(memory)}M"] if memory else []
    return " ".join(words + [f"--gpus-per-task={gpus}"] * (gpus > 0))


def _unlike(chunks: list[tuple[int, dict[str, str]]]) -> bool:
    return len({tuple(sorted(what.items())) for _, what in chunks}) > 1


def _hosts(text: str) -> tuple[list[str], Counter[str]]:
    """Read ``c1/0*13+c2/0`` or Torque's ``n33/0-3+n32/1``: the hosts in order, and the slots on each."""
    slots: Counter[str] = Counter()
    for part in filter(None, text.split("+")):
        host, _, rest = part.partition("/")
        _, star, times = rest.partition("*")
        count = int(times) if star and times.isdigit() else 0
        for one in rest.split(",") if not count else ():
            low, dash, high = one.partition("-")
            count += int(high) - int(low) + 1 if dash and high.isdigit() and low.isdigit() else 1
        slots[host] += count
    return list(slots), slots


def _chunks(text: str) -> list[tuple[int, dict[str, str]]]:
    """Read ``2:ncpus=13:ngpus=1+1:ncpus=4``: how many of each chunk, and what it asks for."""
    found = []
    for part in filter(None, text.split("+")):
        first, *rest = part.split(":")
        number, rest = (int(first), rest) if first.isdigit() else (1, [first, *rest])
        found.append((number, dict(one.split("=", 1) for one in rest if "=" in one)))
    return found


def _gpus(asked: dict[str, str]) -> int:
    counts = (int(n) for name, n in asked.items() if _GPUS.fullmatch(name) and n.isdigit())
    return max(counts, default=0)


def _memory(text: str) -> float:
    """Return MB of ``4gb`` (powers of 1,024), ``100mw`` (words) or bytes; 0 of no text, an error of any other."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmgt]?)i?([bw]?)", text.lower() or "0")
    if not match:
        raise ValueError(text)
    return float(match[1]) * _MB[f"{match[2]}b"] * (_WORD_BYTES if match[3] == "w" else 1)
