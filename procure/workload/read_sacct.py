"""Slurm's accounting, `sacct -X --parsable2`, as a job table."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.tables import as_floats, with_clock_of
from procure.text import counted, printable
from procure.workload.asked import Seen, line_columns
from procure.workload.clock import unix_seconds
from procure.workload.ledger import Imported, Ledger, Rows, absent, by_value, cancelled_in_queue, numbers
from procure.workload.log_settings import How
from procure.workload.sacct_table import join_het_jobs, table
from procure.workload.slurm import (
    array_tasks,
    names_of,
    node_names,
    parse_gres,
    parse_tres,
    refuse_many_tasks,
    slurm_duration,
    slurm_memory,
)

FIELDS = (
    "JobID,User,Account,Partition,QOS,Submit,Eligible,Start,End,State,TimelimitRaw,"
    "ReqCPUS,ReqMem,ReqTRES,AllocTRES,NNodes,NodeList,Priority,ElapsedRaw,Constraints,Reservation,Flags,Reason,Cluster"
)
LAST_FIELD = "SubmitLine"
"""Of Slurm 21.08 and later: it may hold the delimiter, so it stands last."""
_TEXTS = {
    "job_name": "JobName", "constraint": "Constraints", "reservation": "Reservation", "licenses": "Licenses",
    "dependency": "Dependency", "flags": "Flags", "reason": "Reason", "cluster": "Cluster",
}  # fmt: skip
"""Further columns of the job table by sacct's fields, where the file has them and they hold anything."""
_GPUS_READ = ("reqtres", "alloctres", "reqgres", "allocgres")
_RUNNING = ("RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "RESIZING")
_THOUSANDS = re.compile(r"^\d+(?:\.\d+)?[KM]$")
"""A number such as 2K, of 1,024 each."""
_LICENSE = re.compile(r"\blicense/([^=,]+)=(\d+)")
_STEP = re.compile(r"^[^\[]*\.")
"""Behind a point; in an array's list points say that it was cut."""


def sacct_command(first: str = "now-30days", last: str = "now") -> str:
    """Return the command that collects what the reader needs; times as Unix seconds, so that no zone need be stated.

    Parameters
    ----------
    first, last
        Days, ``YYYY-MM-DD``, or what else `sacct --starttime` takes.
    """
    return (
        "SLURM_TIME_FORMAT=%s sacct --allusers --allocations --parsable2 --noconvert "
        f"--starttime={first} --endtime={last} --format={FIELDS},{LAST_FIELD} > jobs.psv"
    )


class _Log(NamedTuple):
    """Columns of text by sacct's fields, in small letters, and what accounts for their rows."""

    frame: pd.DataFrame
    ledger: Ledger

    def pick(self, *names: str) -> pd.Series | None:
        """Return the first of these columns that the file has."""
        return next((self.frame[name.lower()] for name in names if name.lower() in self.frame), None)

    def need(self, *names: str) -> pd.Series:
        found = self.pick(*names)
        if found is None:
            has = printable(", ".join(self.frame.columns))
            raise TableError(
                f"{self.ledger.source}: column {' or '.join(names)} is missing; the file has {has}; "
                "`procure workload import --print-sacct-command` prints the command that collects what is needed"
            )
        return found

    def text(self, *names: str) -> pd.Series:
        found = self.pick(*names)
        return pd.Series("", index=self.frame.index, dtype=object) if found is None else found.str.strip()

    def number(self, *names: str) -> np.ndarray:
        """Return the numbers of the first of these columns that the file has; NaN without one."""
        name = next((name for name in names if name.lower() in self.frame), None)
        nothing = np.full(len(self.frame), np.nan)
        if name is None:
            return nothing
        text = self.frame[name.lower()]
        if text.str.contains(_THOUSANDS).any():  # sacct without --noconvert
            text = text.map(lambda one: str(round(slurm_memory(one)[0] * 1024**2)) if _THOUSANDS.match(one) else one)
        return numbers(text, name, self.ledger)

    def duration(self, name: str) -> np.ndarray | None:
        text = self.pick(name)
        if text is None:
            return None
        clocks = by_value(text, lambda value: (slurm_duration(value),), [float])[0]
        seconds = _first(clocks, as_floats(text))  # 90.0, of a column of decimals
        self.ledger.refuse(np.isnan(seconds) & ~absent(text), name, text, "a duration D-HH:MM:SS")
        return seconds

    def tres(self, name: str) -> dict[str, np.ndarray]:
        """Return a TRES column's amounts for the whole job, NaN where it does not name them."""
        text = self.pick(name)
        text = pd.Series("", index=self.frame.index) if text is None else text
        *amounts, bad = by_value(text, parse_tres, [float] * 4 + [object, bool])
        self.ledger.refuse(bad, name, text, "a list such as cpu=4,mem=8G,node=1,gres/gpu:a100=2")
        return dict(zip(("cpu", "mem", "node", "gpu", "gpu_type"), amounts, strict=True))


def read_sacct(path: str | Path, how: How, rows: Callable[[str], Rows] | None = None) -> Imported:
    """Read the output of ``sacct --parsable2``, with its columns in any order, or of ``sacct --json``.

    A job's amounts are what was asked for (ReqTRES, ReqCPUS, ReqMem), per node and rounded up; what
    was got (AllocTRES) stands in only where the request is not in the file. Slurm's G is 1,024 M, and
    its M is taken as the job table's MB, as Slurm takes it for its nodes.

    ``rows`` turns the text of another format into sacct's fields, see `procure.workload.importing`.
    """
    log = _Log(*table(path, how, rows))
    ledger = log.ledger
    job_id = log.need("JobID", "JobIDRaw").str.strip()
    if rows is None:
        if job_id.str.fullmatch(r"\d+\.0").all():  # of a column of decimals
            job_id = job_id.str.removesuffix(".0")
        ledger.drop(job_id.str.contains(_STEP).to_numpy(dtype=bool), "job step")
    _keep_cluster(log, how.cluster)
    times = _times(log, how.log_tz)
    order = _in_order(job_id, times)
    earlier = np.zeros(len(order), dtype=bool)
    known = order[ledger.keep[order.index]]
    again = np.zeros(len(order), dtype=bool)
    again[known.index[known.duplicated(["job_id", "submit", "start"], keep="last")]] = True
    ledger.drop(again, "the same record once more, as in joined files")
    known = order[ledger.keep[order.index]]
    earlier[known.index[known.duplicated("job_id", keep="last")]] = True
    nodes = log.pick("NodeList")
    blank = nodes is None or not nodes.str.strip().any()  # left out, as names of people are
    node_ids = None if blank or nodes is None else node_names(nodes)
    started = ~np.isnan(times["start_time"])
    if node_ids is not None:
        started &= node_ids != ""
    run_time = np.where(started, np.ceil(_elapsed(log, times)), 0.0)
    state = log.text("State").str.replace(r"\s.*", "", regex=True)
    got = log.tres("AllocTRES")
    held_none = log.text("AllocTRES") == "" if node_ids is None else np.zeros(len(order), bool)
    started &= ~(held_none & cancelled_in_queue(state, times["start_time"], times["end_time"], run_time))
    ran = earlier & started & (run_time > 0) & ~np.isnan(times["end_time"])
    ledger.drop(earlier & ~ran, "earlier record of a requeued job that did not run")
    if ran.any():
        runs = order[ran[order.index]]
        job_id = job_id.copy()
        job_id[runs.index] = runs["job_id"] + "~" + (runs.groupby("job_id").cumcount() + 1).astype(str)
        ledger.note(f"{counted(int(ran.sum()), 'earlier run')} of requeued jobs kept, called JOBID~1, JOBID~2 …")
    running = started & (np.isnan(times["end_time"]) | state.isin(_RUNNING).to_numpy())
    if not how.keep_unfinished:
        ledger.drop(~started, "never started")
        ledger.drop(running, "still running")
    ledger.drop(np.isnan(times["submit_time"]), "no submit time")
    ledger.drop(np.isnan(run_time) | (run_time < 0), "no run time")
    ledger.refuse_decades(run_time)
    amounts, seen = _amounts(log, got, how.cpus_per_node, names_of(node_ids, len(order)))
    columns: dict[str, object] = {
        "job_id": job_id.to_numpy(dtype=object),
        "user": log.text("User", "UID"),
        "run_time": np.nan_to_num(run_time),
        "requested_time": _limit(log),
        **amounts,
        "partition": log.text("Partition"),
        "account": log.text("Account"),
        "qos": log.text("QOS"),
        "state": state,
        **times,
        "start_time": np.where(started, times["start_time"], np.nan),
        "end_time": np.where(running, np.nan, times["end_time"]),
    }
    if log.pick("Priority") is not None:
        columns["priority"] = log.number("Priority")
    if node_ids is not None:
        columns["node_ids"] = node_ids
    columns |= _more(log) | _held(got, ledger, amounts["cpus_per_node"])
    asks = how.asks or ("nodes" if how.cpus_per_node else None)
    columns = line_columns(columns, seen, log.pick(LAST_FIELD), asks, ledger)
    if not any(np.any(np.asarray(columns.get(name, 0))) for name in ("gpus_per_node", "gpus_per_task")):
        other = log.frame.drop(columns=[*_GPUS_READ], errors="ignore")
        ledger.warn_of_gpus(other, "ReqTRES, AllocTRES and AllocGRES are")
    imported = ledger.finish(join_het_jobs(columns, ledger), "unix", how.strict)
    return _with_array_tasks(imported, ledger.source) if how.keep_unfinished else imported


def _keep_cluster(log: _Log, cluster: str | None) -> None:
    """Keep the jobs of one cluster; refuse several where none is named, or one that the file does not have."""
    text, ledger = log.text("Cluster"), log.ledger
    counts = text[ledger.keep].replace("", np.nan).value_counts().to_dict()
    told = ", ".join(f"{printable(str(name))} ({n:,})" for name, n in counts.items())
    if cluster is None and len(counts) > 1:
        raise TableError(
            f"{ledger.source}: holds jobs of {len(counts)} clusters, {told}; an equal JobID is another job there: "
            "name one with --cluster, or cluster in a study"
        )
    if cluster is not None and cluster not in counts:
        raise TableError(f"{ledger.source}: holds no job of cluster {cluster!r}; it has {told or 'no Cluster column'}")
    if cluster is not None:
        ledger.drop((text != cluster).to_numpy(dtype=bool), "of another cluster")


def _times(log: _Log, tz: str | None) -> dict[str, np.ndarray]:
    """Return submit, eligible, start and end as Unix seconds, NaN where Unknown or None."""
    times = {"submit_time": unix_seconds(log.need("Submit"), "Submit", log.ledger, tz)}
    for field, name in (("eligible_time", "Eligible"), ("start_time", "Start"), ("end_time", "End")):
        text = log.pick(name) if name == "Eligible" else log.need(name)
        if text is not None:
            before = np.fmax(times["submit_time"], times.get("start_time", times["submit_time"]))
            times[field] = unix_seconds(text, name, log.ledger, tz, before)
    return times


def _in_order(job_id: pd.Series, times: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return the JobIDs in order of submission and start: an unknown submission is first, no start is last."""
    submit = np.nan_to_num(times["submit_time"], nan=-np.inf)
    start = np.nan_to_num(times["start_time"], nan=np.inf)
    end = np.nan_to_num(times["end_time"], nan=-np.inf)  # a record of the job as it ran, before that of its end
    rows = pd.DataFrame({"job_id": job_id, "submit": submit, "start": start, "end": end})
    return rows.sort_values(["submit", "start", "end"], kind="stable")


def _elapsed(log: _Log, times: dict[str, np.ndarray]) -> np.ndarray:
    away, written = log.duration("Suspended"), log.duration("Elapsed")
    between = times["end_time"] - times["start_time"] - (0 if away is None else away)
    unsaid = log.text("Elapsed").str.upper().isin(["", "INVALID"])
    return _first(log.number("ElapsedRaw"), np.where(unsaid, np.nan, 0 if written is None else written), between)


def _limit(log: _Log) -> np.ndarray:
    """Return the limit in seconds, 0 where there is none or the file does not say."""
    name = "TimelimitRaw" if log.pick("TimelimitRaw") is not None else "Timelimit"
    minutes = pd.to_numeric(log.text(name), errors="coerce").to_numpy(float) * 60
    written = log.duration(name)
    if name == "Timelimit" and bool((minutes > 0).any()):
        log.ledger.note("numbers in column Timelimit are minutes, as sbatch takes them: look whether they are seconds")
    return np.maximum(np.ceil(np.nan_to_num(minutes if written is None else _first(minutes, written))), 0)


def _amounts(
    log: _Log, got: dict[str, np.ndarray], cpus_per_node: int | None, named: np.ndarray
) -> tuple[dict[str, np.ndarray], Seen]:
    """Return nodes, and CPUs, memory and GPUs on each of them, as asked for; and what tells tasks from nodes."""
    ledger, asked = log.ledger, log.tres("ReqTRES")
    given = _first(got["node"], log.number("AllocNodes", "NNodes"), named)
    wished = _first(asked["node"], log.number("ReqNodes", "NNodes", "AllocNodes"), got["node"], named)
    # Slurm writes node=1 for a job that asked for tasks alone: what it got is the shape that the log shows.
    spread = (given > wished) & (wished == 1)
    n_nodes = np.maximum(np.nan_to_num(np.where(spread, given, wished), nan=1.0), 1.0)
    cpus = _first(asked["cpu"], log.number("ReqCPUS", "AllocCPUS", "NCPUS"), got["cpu"])
    wanted = _first(asked["cpu"], log.number("ReqCPUS"))
    if cpus_per_node is not None:
        cpus, wanted = n_nodes * cpus_per_node, np.zeros(len(cpus))
        ledger.note(f"every node of a job counts as {counted(cpus_per_node, 'CPU')}")
    elif np.isnan(cpus).all() and not np.isnan(wished).all():
        raise TableError(
            f"{ledger.source}: no column gives the CPUs of a job (ReqTRES, AllocTRES, ReqCPUS, AllocCPUS or NCPUS); "
            "where the log counts nodes only, --set cpus_per_node=N gives the CPUs of each"
        )
    ledger.drop(~(cpus >= 1), "no CPUs")
    cpus = np.ceil(np.nan_to_num(cpus) / n_nodes)
    # Of such a job ReqTRES counts the memory of one node, and GPUs that it asked for by the node.
    memory = np.where(spread, got["mem"], asked["mem"]) / n_nodes
    of_node = spread & (got["mem"] > asked["mem"])
    all_memory = np.zeros(len(n_nodes), bool)
    if (text := log.pick("ReqMem")) is not None:
        mb, per = by_value(text, slurm_memory, [float, object])
        ledger.refuse(np.isnan(mb), "ReqMem", text, "memory such as 500M, 4Gn or 4000Mc")
        memory = _first(memory, np.select([per == "node", per == "cpu"], [mb, mb * cpus], mb / n_nodes))
        of_node |= per == "node"
        all_memory = text.str.contains(r"^\s*0+[KMGTnc]*\s*$").to_numpy(bool) & (got["mem"] > 0)
    memory = _first(memory, got["mem"] / n_nodes)
    whole = (memory == 0) & (got["mem"] > 0)
    memory = np.where(whole, got["mem"] / n_nodes, memory)
    wanted, wished, given = (np.nan_to_num(one).astype(np.int64) for one in (wanted, wished, given))
    amounts = {"n_nodes": n_nodes, "cpus_per_node": cpus, "mem_mb_per_node": np.ceil(np.nan_to_num(memory))}
    asked["gpu"] = np.where(spread & (got["gpu"] > asked["gpu"]), got["gpu"], asked["gpu"])
    gpus, uneven = _gpus(log, asked, got, n_nodes)
    as_asked = (asked["gpu"] > 0) & ~(got["gpu"] > asked["gpu"])
    more = {name: as_asked & (got[name] > asked[name]) for name in ("cpu", "mem")}
    return amounts | gpus, Seen(wanted, wished, given, spread, of_node | whole, all_memory, uneven, got["cpu"], more)


def _gpus(
    log: _Log, asked: dict[str, np.ndarray], got: dict[str, np.ndarray], n_nodes: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the GPUs of a node and their model, as asked for, else as got; and whose are not whole."""
    each, model = np.nan_to_num(asked["gpu"]) / n_nodes, asked["gpu_type"]
    held = np.nan_to_num(got["gpu"]) / np.maximum(np.nan_to_num(got["node"], nan=1.0), 1.0)
    wanted, listed = (_gres(log.text(name), n_nodes) for name in ("ReqGRES", "AllocGRES"))
    # What is asked for by the task or socket is told by what was got.
    per = log.text("ReqGRES").str.contains("PER_(?:TASK|SOCKET)").to_numpy(bool) & ((held > 0) | (listed[0] > 0))
    wanted = np.where(per, 0, wanted[0]), wanted[1]
    # A request is a node's where each of its nodes got as many.
    wanted = np.where(listed[0] == wanted[0] * n_nodes, listed[0], wanted[0]), wanted[1]
    for is_got, (n, kind) in ((False, wanted), (True, (held, got["gpu_type"])), (True, listed)):
        more = (each == 0) & (n > 0)
        if is_got:
            log.ledger.count(more, "got GPUs that their request does not name: what they got is taken")
        each, model = np.where(more, n, each), np.where(more, kind, model)
    told = log.text("ReqTRES").str.cat([log.text(name) for name in ("AllocTRES", "ReqGRES", "AllocGRES")], " ")
    unnamed = (model == "") & (each > 0)
    models = told[unnamed].str.findall(r"\bgpu:([A-Za-z][\w.-]*)[=:]").map(set).str.len()
    several = np.zeros(len(told), bool)
    several[unnamed] = models > 1
    log.ledger.count(several, "with GPUs of several models: which node has which is not told, so any model will do")
    on_line = log.text(LAST_FIELD).str.contains(r"\b(?:shard|mps):\w")
    shares = (told.str.contains(r"\b(?:shard|mps)\b") | on_line).to_numpy(bool) & (each == 0)
    log.ledger.count(shares, "asked for a share of a GPU (shard, mps), which is not modelled: none is taken")
    others = told[log.ledger.keep].str.findall(r"\bgres/(?!gpu\b|shard\b|mps\b)(\w+)").map(np.unique).explode().dropna()
    if len(others):
        names = ", ".join(f"{printable(name)} ({counted(n, 'job')})" for name, n in others.value_counts().items())
        log.ledger.note(f"asked for and not read: {names}")
    return {"gpus_per_node": np.ceil(each), "gpu_type": model}, each != np.ceil(each)


def _gres(text: pd.Series, n_nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the GPUs of a node and their model: Slurm adds GRES up over a job's nodes, unless it says PER_NODE."""
    gpus, model = by_value(text, parse_gres, [float, object])
    return np.where(text.str.startswith("PER_NODE:"), gpus, gpus / n_nodes), model


def _first(*choices: np.ndarray) -> np.ndarray:
    """Return, row by row, the first choice that is not missing."""
    return reduce(lambda first, other: np.where(np.isnan(first), other, first), choices)


def _more(log: _Log) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, field in _TEXTS.items():
        text = log.text(field)
        text = text.where(~text.isin(["None", "(null)", "Unknown"]), "")
        if (text != "").any():
            found[name] = text.to_numpy(dtype=object)
    if "licenses" not in found:
        asked = log.text("ReqTRES").map(lambda one: ",".join(map(":".join, _LICENSE.findall(one))))
        found |= {"licenses": asked.to_numpy(dtype=object)} if (asked != "").any() else {}
    billing = pd.to_numeric(log.text("AllocTRES").str.extract(r"\bbilling=(\d+)")[0]).fillna(0)
    if (billing > 0).any():
        found["billing"] = billing.to_numpy(np.float64)
    for name, field in (("restarts", "Restarts"), ("array_limit", "ArrayLimit")):
        if not log.text(field).isin(["", "0"] if name == "array_limit" else [""]).all():
            found[name] = np.nan_to_num(log.number(field)).astype(np.int64)
    return found


def _held(got: dict[str, np.ndarray], ledger: Ledger, asked: np.ndarray) -> dict[str, object]:
    """Return the CPUs that jobs held on each node, where any held more than it asked for, as of a whole node."""
    held = np.ceil(np.nan_to_num(got["cpu"]) / np.maximum(np.nan_to_num(got["node"], nan=1.0), 1.0))
    more = ledger.keep & (held > asked)
    if not more.any():
        return {}
    ledger.note(f"{counted(int(more.sum()), 'job')} held more CPUs than they asked for: column held_cpus_per_node")
    return {"held_cpus_per_node": np.where(held > 0, held, asked)}  # tasks on a range of nodes: fewer on each


def _with_array_tasks(imported: Imported, source: str) -> Imported:
    """Give each task of a pending array (``12_[4-9%2]``) a row of its own."""
    jobs, pending = imported.jobs, imported.jobs["job_id"].str.contains("[", regex=False)
    if not pending.any():
        return imported
    refuse_many_tasks(jobs["job_id"], source)
    ids = jobs["job_id"].map(array_tasks)
    tasks = jobs.assign(job_id=ids).explode("job_id", ignore_index=True)
    with_clock_of(jobs, tasks)
    note = f"{int(pending.sum()):,} pending arrays became {len(tasks) - int((~pending).sum()):,} tasks"
    if cut := int(jobs["job_id"].str.contains("...", regex=False).sum()):
        note += f"; {cut:,} of them have more, as their lists were cut (SLURM_BITSTR_LEN=0 shows them whole)"
    return replace(imported, jobs=tasks, notes=[*imported.notes, note])
