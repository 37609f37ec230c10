"""Slurm's accounting, `sacct -X --parsable2`, as a job table."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.tables import with_clock_of
from procure.text import counted, printable
from procure.workload.clock import unix_seconds
from procure.workload.het_jobs import join_het_jobs
from procure.workload.ledger import (
    Imported,
    Ledger,
    cancelled_in_queue,
    log_bytes,
    numbers,
    refuse_decades,
)
from procure.workload.rows import Rows
from procure.workload.sacct_json import json_rows
from procure.workload.sacct_tasks import Seen, line_columns
from procure.workload.slurm_text import (
    array_tasks,
    node_names,
    parse_gres,
    parse_tres,
    refuse_many_tasks,
    slurm_duration,
    slurm_memory,
)
from procure.workload.units import by_value

FIELDS = (
    "JobID,User,Account,Partition,QOS,Submit,Eligible,Start,End,State,TimelimitRaw,"
    "ReqCPUS,ReqMem,ReqTRES,AllocTRES,NNodes,NodeList,Priority,ElapsedRaw,Constraints,Reservation,Flags,Reason,Cluster"
)
LAST_FIELD = "SubmitLine"
"""Of Slurm 21.08 and later: it may hold the delimiter, so it stands last."""


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


def read_sacct(
    path: str | Path,
    *,
    tz: str | None = None,
    cpus_per_node: int | None = None,
    strict: bool = False,
    keep_unfinished: bool = False,
    skip_bad_rows: bool = False,
    cluster: str | None = None,
    fields: str | None = None,
    rows: Callable[[str], Rows] | None = None,
    asks: str | None = None,
) -> Imported:
    """Read the output of ``sacct --parsable2``, with its columns in any order, or of ``sacct --json``.

    A job's amounts are what was asked for (ReqTRES, ReqCPUS, ReqMem), per node and rounded up; what
    was got (AllocTRES) stands in only where the request is not in the file. Slurm's G is 1,024 M, and
    its M is taken as the job table's MB, as Slurm takes it for its nodes.

    ``--duplicates`` lists a requeued job once per start: the last record, by submission and then by row, is
    the job; those before it that ran are jobs of their own, called ``12~1``, ``12~2`` …, for they held their nodes.
    The components of a heterogeneous job, ``12+0`` and ``12+1``, are one job `procure.workload.het_jobs`.
    Where the file has them, ``constraint reservation licenses dependency flags reason restarts cluster`` are columns.

    Rows dropped: job steps; earlier records of a requeued job that never started; jobs that never started (no
    Start, or no node assigned); jobs still running; jobs of other clusters than ``cluster``.

    Parameters
    ----------
    path
        The file, plain or compressed (.gz .bz2 .xz .zst).
    tz
        Zone of the file's times, needed unless they are Unix seconds; None is UTC, with a note.
    cpus_per_node
        CPUs of every node, for a file that counts nodes only, in place of its own counts of CPUs.
    strict
        Raise if any row is dropped.
    keep_unfinished
        Keep jobs that never started (``start_time`` empty, ``run_time`` 0; a pending array
        ``12_[4-9]`` becomes a row per task) and jobs still running (``end_time`` empty, ``run_time``
        = elapsed so far).
    skip_bad_rows
        Drop rows with text in a number or a wrong number of fields instead of raising.
    cluster
        Whose jobs are kept, of a file of several clusters: an equal JobID is another job there.
    fields
        The names of the columns, with commas between, of a file without a header.
    rows
        What turns the text of another format into sacct's fields, see `procure.workload.formats`.
    asks
        What jobs asked for of which nothing tells, ``tasks`` or ``nodes``, see `procure.workload.sacct_tasks`.

    Raises
    ------
    TableError
        Several clusters and none is named, not a readable sacct file, a missing column, an unreadable value, or no job
        left.
    """
    frame, ledger = _table(path, skip_bad_rows, fields, rows)
    job_id = _need(frame, ledger.source, "JobID", "JobIDRaw").str.strip()
    if rows is None:
        ledger.drop(job_id.str.contains(_STEP).to_numpy(dtype=bool), "job step")
    _keep_cluster(frame, ledger, cluster)
    times = _times(frame, ledger, tz)
    earlier = _superseded(job_id, times, ledger.keep)
    nodes = _pick(frame, "NodeList")
    node_ids = node_names(nodes) if nodes is not None else None
    started = ~np.isnan(times["start_time"])
    if node_ids is not None:
        started &= node_ids != ""
    run_time = _run_time(frame, ledger, times, started)
    state = _text(frame, "State").str.replace(r"\s.*", "", regex=True)
    held_none = _text(frame, "AllocTRES") == "" if node_ids is None else np.zeros(len(frame), bool)
    started &= ~(held_none & cancelled_in_queue(state, times["start_time"], times["end_time"], run_time))
    ran = earlier & started & (run_time > 0) & ~np.isnan(times["end_time"])
    ledger.drop(earlier & ~ran, "earlier record of a requeued job that did not run")
    job_id = _told_apart(job_id, ran, times)
    if ran.any():
        ledger.note(f"{counted(int(ran.sum()), 'earlier run')} of requeued jobs kept, called JOBID~1, JOBID~2 …")
    running = started & (np.isnan(times["end_time"]) | state.isin(_RUNNING).to_numpy())
    if not keep_unfinished:
        ledger.drop(~started, "never started")
        ledger.drop(running, "still running")
    ledger.drop(np.isnan(times["submit_time"]), "no submit time")
    ledger.drop(np.isnan(run_time) | (run_time < 0), "no run time")
    refuse_decades(run_time, ledger)
    amounts, seen = _amounts(frame, ledger, cpus_per_node)
    columns: dict[str, object] = {
        "job_id": job_id.to_numpy(dtype=object),
        "user": _text(frame, "User"),
        "run_time": np.nan_to_num(run_time),
        "requested_time": _limit(frame, ledger),
        **amounts,
        "partition": _text(frame, "Partition"),
        "account": _text(frame, "Account"),
        "qos": _text(frame, "QOS"),
        "state": state,
        **times,
        "start_time": np.where(started, times["start_time"], np.nan),
        "end_time": np.where(running, np.nan, times["end_time"]),
    }
    priority = _pick(frame, "Priority")
    if priority is not None:
        columns["priority"] = numbers(priority, "Priority", ledger)
    if node_ids is not None:
        columns["node_ids"] = node_ids
    columns |= _more(frame, ledger) | _held(frame, ledger, columns)
    columns = line_columns(
        columns, seen, _pick(frame, LAST_FIELD), asks or ("nodes" if cpus_per_node else None), ledger
    )
    imported = ledger.finish(join_het_jobs(columns, ledger), "unix", strict)
    return _with_array_tasks(imported, ledger.source) if keep_unfinished else imported


_MORE = {
    "job_name": "JobName",
    "constraint": "Constraints", "reservation": "Reservation", "licenses": "Licenses", "dependency": "Dependency",
    "flags": "Flags", "reason": "Reason", "cluster": "Cluster",
}  # fmt: skip
"""Further columns of the job table by sacct's fields, where the file has them and they hold anything."""


def _more(frame: pd.DataFrame, ledger: Ledger) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, field in _MORE.items():
        text = _pick(frame, field)
        if text is not None:
            values = text.str.strip().where(~text.str.strip().isin(["None", "(null)", "Unknown"]), "")
            if (values != "").any():
                found[name] = values.to_numpy(dtype=object)
    restarts = _pick(frame, "Restarts")
    if restarts is not None and (restarts.str.strip() != "").any():
        found["restarts"] = np.nan_to_num(numbers(restarts, "Restarts", ledger))
    return found


def _held(frame: pd.DataFrame, ledger: Ledger, columns: dict[str, object]) -> dict[str, object]:
    """Return the CPUs that jobs held on each node, where any held more than it asked for, as of a whole node."""
    got = _tres(frame, "AllocTRES", ledger)
    held = np.ceil(np.nan_to_num(got["cpu"]) / np.maximum(np.nan_to_num(got["node"], nan=1.0), 1.0))
    asked = np.asarray(columns["cpus_per_node"], np.float64)
    more = ledger.keep & (held > asked)
    if not more.any():
        return {}
    ledger.note(f"{counted(int(more.sum()), 'job')} held more CPUs than they asked for: column held_cpus_per_node")
    return {"held_cpus_per_node": np.maximum(held, asked)}


def _keep_cluster(frame: pd.DataFrame, ledger: Ledger, cluster: str | None) -> None:
    """Keep the jobs of one cluster; refuse several where none is named, or one that the file does not have."""
    text = _pick(frame, "Cluster")
    counts = {} if text is None else text[ledger.keep].str.strip().replace("", np.nan).value_counts().to_dict()
    told = ", ".join(f"{printable(str(name))} ({n:,})" for name, n in counts.items())
    if cluster is None:
        if len(counts) > 1:
            raise TableError(
                f"{ledger.source}: holds jobs of {len(counts)} clusters, {told}; an equal JobID is another job there: "
                "name one with --cluster, or cluster in a study"
            )
        return
    if cluster not in counts:
        raise TableError(f"{ledger.source}: holds no job of cluster {cluster!r}; it has {told or 'no Cluster column'}")
    assert text is not None
    ledger.drop((text.str.strip() != cluster).to_numpy(dtype=bool), "of another cluster")


def _told_apart(job_id: pd.Series, ran: np.ndarray, times: dict[str, np.ndarray]) -> pd.Series:
    """Give the earlier runs of requeued jobs numbers of their own, in order of submission and start."""
    if not ran.any():
        return job_id
    rows = _in_order(job_id, times).loc[ran].sort_values(["submit", "start"], kind="stable")
    number = rows.groupby("job_id").cumcount() + 1
    found = job_id.copy()
    found.loc[rows.index] = rows["job_id"] + "~" + number.astype(str)
    return found


_RUNNING = ("RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "RESIZING")


_STEP = re.compile(r"^[^\[]*\.(?:\d+|batch|extern|interactive|0x[0-9a-f]+)", re.IGNORECASE)
"""Behind a point; in an array's list points say that it was cut."""


def _table(
    path: str | Path, skip_bad_rows: bool, fields: str | None = None, rows: Callable[[str], Rows] | None = None
) -> tuple[pd.DataFrame, Ledger]:
    """Split the file into text columns; lines with another number of fields than the header are bad."""
    text = log_bytes(path).decode("utf-8", errors="replace")
    if rows is not None:
        frame, ledger = rows(text).table(str(path), skip_bad_rows)
        if frame.empty:
            why = "; ".join(f"{n:,}: {reason}" for reason, n in ledger.dropped.items())
            raise TableError(f"{path}: holds no ended job{'; ' if why else ''}{why}")
        return frame, ledger
    if text.lstrip()[:1] == "{":
        return _json_table(text, path, skip_bad_rows)
    # A name may hold what Unicode counts as the end of a line, so only the file's own ends count.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    body = [number for number, line in enumerate(lines) if line.strip()]
    header = lines[body.pop(0)] if fields is None else fields
    if not re.search(r"\bJobID", header, re.IGNORECASE):
        raise TableError(
            f"{path}: the first line is not a header of sacct --parsable2 (JobID|…); of a file without a header name "
            "its columns, --set fields=JobID,User,Submit,Start,End,…; or make one with the command that "
            "`procure workload import --print-sacct-command` prints"
        )
    delimiter = max("|;,^\t", key=(header if fields is None or not body else lines[body[0]]).count)
    names = [name.strip() for name in header.split("," if fields is not None else delimiter)]
    split = [lines[number].split(delimiter) for number in body]
    if names[-1].lower() == LAST_FIELD.lower():
        split = [[*parts[: len(names) - 1], delimiter.join(parts[len(names) - 1 :])] for parts in split]
    if body and all(len(parts) == len(names) + 1 and not parts[-1] for parts in split):
        names.append("")  # an empty field after the last of each row, as editors write
    good = [i for i, parts in enumerate(split) if len(parts) == len(names)]
    ledger = Ledger(str(path), np.array([body[i] for i in good], dtype=np.int64), len(body), skip_bad_rows)
    if len(good) < len(body):
        first = next(i for i, parts in enumerate(split) if len(parts) != len(names))
        what = f"where {'fields names' if fields is not None else 'the header has'} {len(names)}"
        ledger.skip_lines(len(body) - len(good), f"row {body[first]}: {len(split[first])} fields {what}")
    frame = pd.DataFrame([split[i] for i in good], columns=[name.lower() for name in names], dtype=object)
    return frame.loc[:, ~frame.columns.duplicated()], ledger


def _json_table(text: str, path: str | Path, skip_bad_rows: bool) -> tuple[pd.DataFrame, Ledger]:
    frame = json_rows(text, str(path))
    if frame.empty:
        raise TableError(f"{path}: holds no job")
    frame.columns = pd.Index([str(name).lower() for name in frame.columns])
    return frame, Ledger(str(path), np.arange(len(frame), dtype=np.int64), len(frame), skip_bad_rows)


def _pick(frame: pd.DataFrame, *names: str) -> pd.Series | None:
    """Return the first of these columns that the file has."""
    for name in names:
        if name.lower() in frame.columns:
            return frame[name.lower()]
    return None


def _need(frame: pd.DataFrame, source: str, *names: str) -> pd.Series:
    found = _pick(frame, *names)
    if found is None:
        has = printable(", ".join(frame.columns))
        raise TableError(f"{source}: column {' or '.join(names)} is missing; the file has {has}")
    return found


def _text(frame: pd.DataFrame, name: str) -> pd.Series:
    found = _pick(frame, name)
    return pd.Series("", index=frame.index, dtype=object) if found is None else found.str.strip()


def _times(frame: pd.DataFrame, ledger: Ledger, tz: str | None) -> dict[str, np.ndarray]:
    """Return submit, eligible, start and end as Unix seconds, NaN where Unknown or None."""
    submit = _need(frame, ledger.source, "Submit")
    times = {"submit_time": unix_seconds(submit, "Submit", ledger, tz)}
    for field, name in (("eligible_time", "Eligible"), ("start_time", "Start"), ("end_time", "End")):
        text = _pick(frame, name)
        if text is None and name != "Eligible":
            _need(frame, ledger.source, name)
        if text is not None:
            times[field] = unix_seconds(text, name, ledger, tz, times["submit_time"])
    return times


def _in_order(job_id: pd.Series, times: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return what tells the records of a job's order: an unknown submission is first, no start is last."""
    return pd.DataFrame(
        {
            "job_id": job_id,
            "submit": np.nan_to_num(times["submit_time"], nan=-np.inf),
            "start": np.nan_to_num(times["start_time"], nan=np.inf),
        }
    )


def _superseded(job_id: pd.Series, times: dict[str, np.ndarray], keep: np.ndarray) -> np.ndarray:
    """Mark each record of a JobID but the last, by submission, start and then by row."""
    rows = _in_order(job_id.reset_index(drop=True), times).loc[keep]
    ordered = rows.sort_values(["submit", "start"], kind="stable")
    marked = np.zeros(len(keep), dtype=bool)
    marked[ordered.index[ordered.duplicated("job_id", keep="last")]] = True
    return marked


def _run_time(frame: pd.DataFrame, ledger: Ledger, times: dict[str, np.ndarray], started: np.ndarray) -> np.ndarray:
    """Return the elapsed seconds, 0 for a job that never started."""
    raw, written = _pick(frame, "ElapsedRaw"), _pick(frame, "Elapsed")
    if raw is not None:
        elapsed = numbers(raw, "ElapsedRaw", ledger)
    elif written is not None:
        elapsed = _durations(written, "Elapsed", ledger)
    else:
        elapsed = times["end_time"] - times["start_time"]
    return np.where(started, elapsed, 0.0)


def _durations(text: pd.Series, name: str, ledger: Ledger) -> np.ndarray:
    seconds = by_value(text, lambda value: (slurm_duration(value),), [float])[0]
    ledger.refuse(np.isnan(seconds), name, text, "a duration D-HH:MM:SS")
    return seconds


def _limit(frame: pd.DataFrame, ledger: Ledger) -> np.ndarray:
    """Return the limit in seconds, 0 where there is none or the file does not say."""
    raw, written = _pick(frame, "TimelimitRaw"), _pick(frame, "Timelimit")
    if raw is not None:
        minutes = raw.where(~raw.str.strip().str.upper().isin(["UNLIMITED", "PARTITION_LIMIT"]), "")
        return np.nan_to_num(numbers(minutes, "TimelimitRaw", ledger)) * 60
    if written is not None:
        return np.nan_to_num(_durations(written, "Timelimit", ledger))
    return np.zeros(len(frame))


def _amounts(frame: pd.DataFrame, ledger: Ledger, cpus_per_node: int | None) -> tuple[dict[str, np.ndarray], Seen]:
    """Return nodes, and CPUs, memory and GPUs on each of them, as asked for; and what tells tasks from nodes."""
    asked, got = _tres(frame, "ReqTRES", ledger), _tres(frame, "AllocTRES", ledger)
    given = _first(got["node"], _count(frame, ledger, "AllocNodes", "NNodes"))
    wished = _first(asked["node"], _count(frame, ledger, "ReqNodes", "NNodes", "AllocNodes"), got["node"])
    # Slurm writes node=1 for a job that asked for tasks alone: what it got is the shape that the log shows.
    spread = (given > wished) & (wished == 1)
    n_nodes = np.maximum(np.nan_to_num(np.where(spread, given, wished), nan=1.0), 1.0)
    nodes = n_nodes if not np.isnan(wished).all() else wished
    cpus = _first(asked["cpu"], _count(frame, ledger, "ReqCPUS", "AllocCPUS", "NCPUS"), got["cpu"])
    wanted = (
        np.zeros(len(frame)) if cpus_per_node is not None else _first(asked["cpu"], _count(frame, ledger, "ReqCPUS"))
    )
    if cpus_per_node is not None:
        cpus = n_nodes * cpus_per_node
        ledger.note(f"every node of a job counts as {counted(cpus_per_node, 'CPU')}")
    elif np.isnan(cpus).all() and not np.isnan(nodes).all():
        raise TableError(
            f"{ledger.source}: no column gives the CPUs of a job (ReqTRES, AllocTRES, ReqCPUS, AllocCPUS or NCPUS); "
            "where the log counts nodes only, --set cpus_per_node=N gives the CPUs of each"
        )
    ledger.drop(~(cpus >= 1), "no CPUs")
    cpus_per_node = np.ceil(np.nan_to_num(cpus) / n_nodes)
    # Of such a job ReqTRES counts the memory of one node.
    memory = np.where(spread, got["mem"], asked["mem"]) / n_nodes
    of_node = spread & (got["mem"] > asked["mem"])
    text = _pick(frame, "ReqMem")
    if text is not None:
        mb, per = by_value(text, slurm_memory, [float, object])
        ledger.refuse(np.isnan(mb), "ReqMem", text, "memory such as 500M, 4Gn or 4000Mc")
        each = np.select([per == "node", per == "cpu"], [mb, mb * cpus_per_node], mb / n_nodes)
        memory = _first(memory, each)
        of_node |= per == "node"
    memory = _first(memory, got["mem"] / n_nodes)
    whole = (memory == 0) & (got["mem"] > 0)
    if n := int((whole & ledger.keep).sum()):
        ledger.note(f"{counted(n, 'job')} asked for all memory of their nodes (--mem=0): what they got is taken")
    if whole.any():
        memory = np.where(whole, got["mem"] / n_nodes, memory)
    wanted, wished, given = (np.nan_to_num(one).astype(np.int64) for one in (wanted, wished, given))
    seen = Seen(wanted, wished, given, spread, of_node | whole)
    return {
        "n_nodes": n_nodes,
        "cpus_per_node": cpus_per_node,
        "mem_mb_per_node": np.ceil(np.nan_to_num(memory)),
        **_gpus(frame, ledger, asked, got, n_nodes),
    }, seen


def _gpus(
    frame: pd.DataFrame,
    ledger: Ledger,
    asked: dict[str, np.ndarray],
    got: dict[str, np.ndarray],
    n_nodes: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the GPUs of a node and their model: as asked for, else as got, from TRES or from GRES."""
    each, model = np.nan_to_num(asked["gpu"]) / n_nodes, asked["gpu_type"]
    for name in ("ReqGRES", "AllocTRES", "AllocGRES"):
        if name == "AllocTRES":
            n, kind = np.nan_to_num(got["gpu"]) / np.maximum(np.nan_to_num(got["node"], nan=1.0), 1.0), got["gpu_type"]
        else:
            n, kind = by_value(_text(frame, name), parse_gres, [float, object])
        more = (each == 0) & (n > 0)
        if name != "ReqGRES" and (found := int((more & ledger.keep).sum())):
            ledger.note(f"{counted(found, 'job')} got GPUs that their request does not name: what they got is taken")
        each, model = np.where(more, n, each), np.where(more, kind, model)
    told = _text(frame, "ReqTRES") + " " + _text(frame, "AllocTRES") + " " + _text(frame, "AllocGRES")
    shares = told.str.contains(r"\b(?:shard|mps)\b").to_numpy(bool) & (each == 0) & ledger.keep
    if shares.any():
        n_jobs = counted(int(shares.sum()), "job")
        ledger.note(f"{n_jobs} asked for a share of a GPU (shard, mps), which is not modelled: none is taken")
    return {"gpus_per_node": np.ceil(each), "gpu_type": model}


def _first(*choices: np.ndarray) -> np.ndarray:
    """Return, row by row, the first choice that is not missing."""
    answer = choices[0]
    for other in choices[1:]:
        answer = np.where(np.isnan(answer), other, answer)
    return answer


def _count(frame: pd.DataFrame, ledger: Ledger, *names: str) -> np.ndarray:
    for name in names:
        text = _pick(frame, name)
        if text is not None:
            return numbers(text, name, ledger)
    return np.full(len(frame), np.nan)


def _tres(frame: pd.DataFrame, name: str, ledger: Ledger) -> dict[str, np.ndarray]:
    """Return a TRES column's amounts for the whole job, NaN where it does not name them."""
    text = _pick(frame, name)
    if text is None:
        text = pd.Series("", index=frame.index)
    cpu, mem, node, gpu, gpu_type, bad = by_value(text, parse_tres, [float] * 4 + [object, bool])
    ledger.refuse(bad, name, text, "a list such as cpu=4,mem=8G,node=1,gres/gpu:a100=2")
    return {"cpu": cpu, "mem": mem, "node": node, "gpu": gpu, "gpu_type": gpu_type}


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
    return Imported(tasks, imported.n_read, imported.dropped, [*imported.notes, note])
