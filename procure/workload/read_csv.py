"""A CSV log as a job table, by a column mapping with stated units; and schedules, which say who ran where and when."""

from __future__ import annotations

import re
from math import nan
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.files import read_rows
from procure.schemas import JOB, TASKS
from procure.tables import as_floats
from procure.text import counted, nearest, printable, short
from procure.workload.clock import FIRST_DATE, unix_seconds
from procure.workload.ledger import (
    COUNTS,
    SECONDS,
    Imported,
    Ledger,
    absent,
    by_value,
    cancelled_in_queue,
    log_bytes,
    memory_mb,
    numbers,
    parquet_text,
    per_node,
    seconds,
)
from procure.workload.log_settings import AMOUNTS, DURATIONS, TIMES, WAIT, ColumnMap, How, fitting_preset
from procure.workload.slurm import (
    expand_nodes,
    names_of,
    node_names,
    parse_gres,
    parse_tres,
    slurm_duration,
    slurm_memory,
)

MOSTLY = 0.8
"""Share of the jobs of several nodes whose CPUs grow with their nodes, above which they are likely those of the job."""
_LENGTH = re.compile(
    r"T?(\d+(?:\.\d+)?)\s*(d|h|m|s)(?:ays?|ours?|rs?|in(?:ute)?s?|ec(?:ond)?s?)?(?!(?!T)[a-z])[\s,]*", re.IGNORECASE
)
_VALUE = re.compile(r"-?\d+(?:\.\d+)?$|\d{4}-\d\d-\d\d[T ]\d\d:")


def read_csv(path: str | Path, how: How) -> Imported:
    """Read a CSV log, or one in Parquet, by a mapping of its columns.

    Without a preset, a field that no mapping names is the file's column of that name, in the job table's unit. A row
    whose start time is mapped but empty, or to which no node was assigned, never started.
    """
    frame = csv_text(path, how)
    own = {name: ColumnMap(column=name) for name in JOB.names if how.preset is None and name in frame.columns}
    mapping = _mapping(frame, str(path), own | (how.columns or {}), how.cpus_per_node)
    ledger = Ledger(str(path), np.arange(1, len(frame) + 1), len(frame), how.skip_bad_rows)
    for name in sorted({where.column for where in mapping.values() if f"{where.column}.1" in frame}):
        ledger.note(f"column {printable(name)} stands more than once: the first is read")
    log = _Log(frame, mapping, ledger)
    if not {"gpus_per_node", "gpus_per_task"} & set(mapping):
        how_to = "--column gpus_per_node={0}, or {0}::job if it counts those of all nodes of a job"
        ledger.warn_of_gpus(frame, how_to)
    values = _times(log, how)
    for field in (*DURATIONS, WAIT):
        if field in mapping:
            values[field] = _durations(log, field)
    if WAIT in values:
        wait = values.pop(WAIT)
        values["start_time"] = values["submit_time"] + np.where(wait >= 0, wait, np.nan)
    values["requested_time"] = np.maximum(np.nan_to_num(values.get("requested_time", np.zeros(len(frame)))), 0)
    values |= _amounts(log, how.cpus_per_node)
    values |= _tasks(log, values, how.asks)
    texts = _texts(log)
    if "job_id" not in texts:
        ledger.note("no column gives the job's id: jobs bear the numbers of their rows")
        texts["job_id"] = pd.Series(ledger.rows.astype(str), index=frame.index)
    _run_times(values, texts, ledger, how.keep_unfinished)
    clock = how.clock or ("log" if np.nanmax([*values["submit_time"], 0]) < FIRST_DATE else "unix")
    if clock == "log":
        ledger.note("times are seconds of the log's own clock" + ", as none is of 1980 or later" * (how.clock is None))
    ledger.drop(np.isnan(values["submit_time"]), "no submit time")
    ledger.drop(np.asarray(texts["job_id"] == ""), "no job id")
    return ledger.finish(texts | values, "log" if clock == "log" else "unix", how.strict)


class _Log(NamedTuple):
    """Columns of text, what each field comes from, and what accounts for the rows."""

    frame: pd.DataFrame
    mapping: dict[str, ColumnMap]
    ledger: Ledger

    def text(self, field: str) -> pd.Series:
        return self.frame[self.mapping[field].column]

    def number(self, field: str) -> np.ndarray:
        where = self.mapping[field]
        return numbers(self.text(field), where.column, self.ledger, 2.0**53 / SECONDS.get(where.unit, 1))

    def refuse(self, rows: np.ndarray, field: str, wanted: str) -> None:
        self.ledger.refuse(rows, self.mapping[field].column, self.text(field), wanted)


def csv_text(path: str | Path, how: How) -> pd.DataFrame:
    """Read a table as text: CSV, whatever parts its columns, or Parquet."""
    if str(path).lower().endswith(".parquet"):
        return parquet_text(Path(path), {one.column for one in (how.columns or {}).values()})
    content, first, delimiter = _begin(re.sub(rb"\Asep=.\r?\n", b"", log_bytes(path)))  # of a spreadsheet
    if how.fields is not None:
        content = delimiter.join(one.strip() for one in how.fields.split(",")).encode() + b"\n" + content
    elif value := next((one for one in first.split(delimiter) if _VALUE.match(one.strip(' "'))), None):
        raise TableError(
            f"{path}: the first line is no header, as {short(value)} is no name of a column; name the columns with "
            "--set fields=NAME,NAME,… (of sacct's fields beside --set format=sacct)"
        )
    try:
        return read_rows(content, str(path), "replace")
    except pd.errors.EmptyDataError as error:
        raise TableError(f"{path}: cannot be read as CSV: {error}") from None


def _begin(content: bytes) -> tuple[bytes, str, str]:
    """Return a table without the comments before it, its first line and its delimiter; tabs stand for |."""
    body = re.sub(rb"\A(?:#.*\n|\s*\n)+", b"", content)
    first = body.split(b"\n", 1)[0]
    last = content[: len(content) - len(body)].strip().rpartition(b"\n")[2][1:]
    delimiter = max(b",", b";", b"\t", b"|", key=first.count)
    if last.count(delimiter) == first.count(delimiter) > 0:  # a header that begins with #
        body, first = last + b"\n" + body, last
    if delimiter == b"|" and b"\t" not in body:
        body, first, delimiter = (one.replace(b"|", b"\t") for one in (body, first, delimiter))
    return body, first.decode("utf-8", errors="replace"), delimiter.decode()


def _durations(log: _Log, field: str) -> np.ndarray:
    """Return whole seconds: of numbers in the unit of the mapping, and of texts that say their own."""
    text, unit = log.text(field), log.mapping[field].unit or "s"
    if not bool(text[~absent(text)].str.contains("[:A-Za-z]").any()):
        return seconds(log.number(field), unit)
    found = by_value(text, _duration, [float])[0]
    if text.str.fullmatch(r"\s*\d+:\d\d\s*").any():
        log.ledger.note(f"column {log.mapping[field].column}: 24:00 is 24 minutes, as Slurm writes it")
    number = as_floats(text)
    found = np.where(np.isnan(number), found, seconds(number, unit))
    log.refuse(np.isnan(found) & ~absent(text), field, "a duration such as 8:00:00, 2-00:00:00, PT8H or 90m")
    return np.ceil(found)


def _duration(text: str) -> tuple[float]:
    """Read a clock as Slurm writes it, else a length with its units: ``PT5M``, ``1h 30m``."""
    parts, rest = _LENGTH.findall(text), _LENGTH.sub("", text)
    if not parts or rest not in ("", "P") or re.match(r"P\d+M", text):
        return (slurm_duration(text) if text else nan,)
    return (
        sum(
            float(number) * SECONDS[{"m": "min"}.get(unit, unit)]
            for number, unit in ((n, one.lower()) for n, one in parts)
        ),
    )


def _mapping(
    frame: pd.DataFrame, source: str, mapping: dict[str, ColumnMap], cpus_per_node: int | None
) -> dict[str, ColumnMap]:
    """Return the mapping to use, all of whose columns are in the file."""
    if cpus_per_node is not None:
        mapping.pop("cpus_per_node", None)
    gone = [(where.column, f"{where.column!r} (for {field})") for field, where in mapping.items()]
    gone = [one for one in gone if one[0] not in frame.columns]
    if gone:
        more = f"; missing too: {', '.join(text for _, text in gone[1:])}" if gone[1:] else ""
        raise TableError(f"{source}: column {gone[0][1]} is missing; {nearest(gone[0][0], frame.columns)}{more}")
    if WAIT in mapping:  # in place of start times
        mapping.pop("start_time", None)
    ran = "run_time" in mapping or ({"start_time", WAIT} & set(mapping) and "end_time" in mapping)
    sized = cpus_per_node is not None or {"n_tasks", "cpus_per_node"} & set(mapping)
    there = {"submit_time": "submit_time" in mapping, "cpus_per_node": sized, "run_time": ran}
    if lacking := [field for field, is_there in there.items() if not is_there]:
        raise TableError(
            f"{source}: nothing says which column{' is' if len(lacking) == 1 else 's are'} {', '.join(lacking)}; "
            f"the file has {printable(', '.join(map(str, frame.columns)))}; "
            f"name {'it' if len(lacking) == 1 else 'them'} with "
            f"{' '.join(f'--column {field}=COLUMN' for field in lacking)}{_hint(frame, lacking)}"
        )
    return mapping


def _hint(frame: pd.DataFrame, absent: list[str]) -> str:
    """Say what else would tell the columns: a preset that they look like, or CPUs per node for all nodes alike."""
    if {"JobID", "Submit"} <= set(frame.columns):
        return "; these columns are sacct's: --set format=sacct"
    preset = fitting_preset(frame.columns)
    if preset is not None:
        return f"; it looks like a log of the preset {preset}: --set preset={preset}"
    more = "; where the log counts nodes only, --set cpus_per_node=N gives the CPUs of each"
    return f" or --set preset=NAME{more * ('cpus_per_node' in absent)}"


def _times(log: _Log, how: How) -> dict[str, np.ndarray]:
    values: dict[str, np.ndarray] = {}
    for field in (name for name in TIMES if name in log.mapping):
        source, before = log.mapping[field], values.get("start_time", values.get("submit_time"))
        text = log.text(field)
        rounded = text.str.fullmatch(r"\d(?:\.\d{0,5})?E\+\d+").to_numpy(bool)
        log.refuse(
            rounded, field, "a whole time: a spreadsheet rounded it to 1.70419E+12; save the column as whole numbers"
        )
        if source.unit:
            text = pd.Series(np.round(log.number(field) * SECONDS[source.unit], 3), index=text.index)
        if how.clock in ("unix", "log"):
            values[field] = np.floor(numbers(text, source.column, log.ledger))
        else:
            values[field] = unix_seconds(text, source.column, log.ledger, how.log_tz, before)
    return values


def _amounts(log: _Log, cpus_per_node: int | None) -> dict[str, np.ndarray]:
    """Return nodes, and CPUs, memory and GPUs on each, rounded up; negative amounts drop the row."""
    raw, types, mapping = dict[str, np.ndarray](), dict[str, np.ndarray](), log.mapping
    for field in (one for one in ("n_nodes", *AMOUNTS, "priority") if one in mapping):
        if field in _TRES and bool(log.text(field).str.contains(r"\b(?:cpu|mem|node|gpu[\w:.-]*)=\d").any()):
            raw[field], model = _of_tres(log, field)
            types |= {"gpu_type": model} if field == "gpus_per_node" else {}
        elif field == "gpus_per_node" and bool(
            log.text(field)[~absent(log.text(field))].str.contains("[A-Za-z]").any()
        ):
            raw[field], types["gpu_type"] = _gres(log)
        elif field == "mem_mb_per_node" and bool(log.text(field).str.contains(r"\d\s*[kKmMgGtTB]").any()):
            raw[field] = _with_units(log)
        else:
            raw[field] = log.number(field) / COUNTS.get(mapping[field].unit, 1)
    listed = _nodes(log) if "node_ids" in mapping and "n_nodes" not in raw else None
    wished = raw.get("n_nodes", np.ones(len(log.frame)) if listed is None else names_of(listed, len(listed)))
    n_nodes = np.maximum(np.nan_to_num(wished, nan=1.0), 1.0)
    if listed is None and (n := int((~(wished >= 1) & log.ledger.keep).sum())):
        log.ledger.note(f"{counted(n, 'row')} without a number of nodes: one is taken")
    for field in ("n_nodes", "cpus_per_node", "gpus_per_node"):
        parts = np.nan_to_num(raw.get(field, np.zeros(1))) % 1 > 0
        log.ledger.count(parts, f"of {field} that is no whole number, as 1.600 is 1.6: rounded up")
    for field in AMOUNTS:
        log.ledger.drop(raw.get(field, np.zeros(1)) < 0, f"negative {field}")
    if cpus_per_node is not None:
        cpus = np.full(len(n_nodes), float(cpus_per_node))
        log.ledger.note(f"every node of a job counts as {counted(cpus_per_node, 'CPU')}")
    elif "cpus_per_node" in raw:
        log.ledger.drop(np.isnan(raw["cpus_per_node"]), "no CPUs")
        cpus = per_node(np.nan_to_num(raw["cpus_per_node"]), mapping["cpus_per_node"].per, n_nodes, np.ones(1))
        several = log.ledger.keep & (n_nodes > 1)
        each, times = np.unique((cpus / n_nodes)[several], return_counts=True)
        if len(np.unique(cpus[several])) > 4 and times.max() > MOSTLY * times.sum():
            log.ledger.warnings.append(
                f"jobs of several nodes have {each[times.argmax()]:g} times their nodes of CPUs on each: if these are "
                f"of the whole job, --column cpus_per_node={mapping['cpus_per_node'].column}::job"
            )
    else:
        cpus = np.ones(len(n_nodes))
    values = {"n_nodes": n_nodes, "cpus_per_node": cpus} | types
    for field in (one for one in AMOUNTS[1:] if one in raw):
        amount, source = np.nan_to_num(raw[field]), mapping[field]
        amount = memory_mb(amount, source.unit or "MB") if field == "mem_mb_per_node" else amount
        values[field] = per_node(amount, source.per, n_nodes, cpus)
    return values | ({"priority": raw["priority"]} if "priority" in raw else {})


def _tasks(log: _Log, values: dict[str, np.ndarray], asks: str | None) -> dict[str, np.ndarray]:
    """Return the columns of tasks: as mapped, or each GPU, else CPU, one where the user says that jobs ask for them."""
    ledger, nodes, cpus = log.ledger, values["n_nodes"], values["cpus_per_node"]
    found = {name: np.nan_to_num(log.number(name)) for name in TASKS[:-1] if name in log.mapping}
    if found and "n_tasks" not in found:
        ledger.note(f"{', '.join(found)} without n_tasks: not read")
    elif found:
        if "cpus_per_node" not in log.mapping:
            each = np.maximum(found.get("cpus_per_task", np.ones(1)), 1)
            found["cpus_per_node"] = np.ceil(found["n_tasks"] / nodes) * each
        elif "cpus_per_task" not in found:
            found["cpus_per_task"] = np.ceil(
                nodes * cpus / np.where(found["n_tasks"] > 0, found["n_tasks"], nodes * cpus)
            )
        ledger.shape = np.where(found["n_tasks"] > 0, "tasks", asks or "nodes")
        return found | {name: np.maximum(found[name], 1) for name in {"cpus_per_task", "min_nodes"} & set(found)}
    ledger.shape, ledger.unknown = asks or "unknown", "--set asks=tasks or asks=nodes says it"
    if asks != "tasks":
        return {}
    nothing = np.zeros(len(nodes))
    gpus, memory = values.get("gpus_per_node", nothing), values.get("mem_mb_per_node", nothing)
    ledger.shape, each = "tasks", np.maximum(np.where(gpus > 0, gpus, cpus), 1)
    return {
        "n_tasks": nodes * each,
        "cpus_per_task": np.maximum(np.ceil(cpus / each), 1),
        "gpus_per_task": np.where(gpus > 0, 1, 0),
        "mem_mb_per_task": np.ceil(memory / each),
        "mem_mb_per_node": nothing,
        "gpus_per_node": nothing,
    }


_TRES = ("cpus_per_node", "mem_mb_per_node", "n_nodes", "gpus_per_node")
_WITH_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b|i)", re.IGNORECASE)


def _memory(text: str) -> tuple[float, str]:
    """Read memory with its unit, ``16 GB``, ``16GiB``, ``16Gi``, else as Slurm writes it, ``4G``."""
    if not (match := _WITH_BYTES.fullmatch(text)):
        return slurm_memory(re.sub("[kmgt]", lambda unit: unit[0].upper(), text))
    return float(match[1]) * (1000 if match[3] in "bB" else 1024) ** " KMGT".index(match[2].upper() or " ") / 1e6, "job"


def _with_units(log: _Log) -> np.ndarray:
    """Return MB of amounts that say their unit; per CPU or node as they say, ``4Gc``, else as the mapping says."""
    field = "mem_mb_per_node"
    where, text = log.mapping[field], log.text(field)
    found, per = by_value(text, _memory, [float, object])
    log.refuse(np.isnan(found) & ~absent(text), field, "memory such as 500M, 4G or 16 GB")
    per = np.where(per == "job", where.per, per)
    each = str(per[found > 0][0]) if (found > 0).any() else where.per
    log.refuse((found > 0) & (per != each), field, f"memory per {each}, as in the rows before")
    log.mapping[field] = where.model_copy(update={"unit": "MB", "per": each})
    log.ledger.note(f"column {where.column}: memory as Slurm writes it, per {each}; its G is 1,024 M, a GB 1,000 MB")
    return np.nan_to_num(found)


def _of_tres(log: _Log, field: str) -> tuple[np.ndarray, np.ndarray]:
    """Return an amount of TRES (``cpu=4,mem=16G,gres/gpu:a100=2``), which are a whole job's, and the model of GPUs."""
    where, text = log.mapping[field], log.text(field)
    *amounts, model, bad = by_value(text, parse_tres, [float] * 4 + [object, bool])
    whole = bool(text.str.contains(r"\b(?:cpu|mem|node)=").any())
    log.mapping[field] = where.model_copy(update={"unit": ""} | ({"per": "job"} if whole else {}))
    log.refuse(np.asarray(bad, bool), field, "a list such as cpu=4,mem=8G,gres/gpu:a100=2")
    return amounts[_TRES.index(field)], model


def _gres(log: _Log) -> tuple[np.ndarray, np.ndarray]:
    """Return GPUs and their model from GRES (``gpu:a100:2``)."""
    field = "gpus_per_node"
    text = log.text(field)
    gpus, model = by_value(text, parse_gres, [float, object])
    gpus = np.where(gpus == 0, as_floats(text), gpus)
    lost = text.str.contains(r"gpu|^\s*\d" if text.str.contains("gpu", case=False).any() else "", case=False)
    log.refuse(np.isnan(gpus) & ~absent(text) & lost.to_numpy(bool), field, "GPUs as 2, gpu:2 or gpu:a100:2")
    if others := sorted({*text[np.isnan(gpus) & ~absent(text)]}):
        log.ledger.note(f"column {log.mapping[field].column}: no GPU is taken of {short(others[0])} and the like")
    return np.nan_to_num(gpus), model


def _nodes(log: _Log) -> np.ndarray:
    """Return node lists, also of names with blanks between, and as Python writes them."""
    text = log.text("node_ids").str.replace(r"(?i)^\s*none assigned\s*$|^\s*\['|'\]\s*$|'", "", regex=True)
    return node_names(text.str.strip().str.replace(r"\s*[,;|+\s]\s*", ",", regex=True))


def _texts(log: _Log) -> dict[str, object]:
    known = {*TIMES, *DURATIONS, *AMOUNTS, "n_nodes", "priority", WAIT, *TASKS[:-1]}
    texts: dict[str, object] = {name: log.text(name).str.strip() for name in log.mapping if name not in known}
    if "node_ids" in texts:
        texts["node_ids"] = _nodes(log)
    if "state" in texts:
        texts["state"] = log.text("state").str.strip().str.replace(r"\s.*", "", regex=True)
    return texts


def _run_times(values: dict[str, np.ndarray], texts: dict[str, object], ledger: Ledger, keep_unfinished: bool) -> None:
    """Decide which jobs ran and for how long, in place."""
    started = ~np.isnan(values.get("start_time", np.zeros(len(ledger.keep))))
    if "node_ids" in texts and np.any(texts["node_ids"] != ""):
        started &= np.asarray(texts["node_ids"]) != ""
    run = values["run_time"] if "run_time" in values else values["end_time"] - values["start_time"]
    if "state" in texts and "node_ids" not in texts and {"start_time", "end_time"} <= set(values):
        started &= ~cancelled_in_queue(texts["state"], values["start_time"], values["end_time"], run)
    running = started & np.isnan(values["end_time"]) if "end_time" in values else np.zeros(1, dtype=bool)
    if keep_unfinished:
        run = np.where(~started | (running & np.isnan(run)), 0.0, run)
        if "start_time" in values:
            values["start_time"] = np.where(started, values["start_time"], np.nan)
    else:
        ledger.drop(~started, "never started")
        ledger.drop(running & np.isnan(run), "still running")
    ledger.drop(np.isnan(run), "no run time")
    ledger.drop(run < 0, "negative run time")
    ledger.refuse_decades(run)
    values["run_time"] = run


COLUMNS = {"job_id": "JobID", "start_time": "Start", "end_time": "End", "node_ids": "NodeList"}
"""What is needed, and what ``sacct`` calls it."""


def read_schedule(path: str | Path) -> pd.DataFrame:
    """Read where jobs ran: Parquet, CSV, or what ``sacct -X --parsable2`` prints; only `COLUMNS` are needed.

    Times are seconds or ISO dates; node lists may be host lists such as ``n[5-8],g1``. A job that has not ended
    is taken to run until the table's last moment; steps, and jobs without start or nodes, are left out. Returns
    ``job_id start_time end_time node_ids``, names joined by commas, and ``links`` where the file has it.
    """
    text = csv_text(path, How())
    known = {slurm.lower(): ours for ours, slurm in COLUMNS.items()}
    text = text.rename(columns=lambda name: known.get(name.strip().lower(), name.strip()))
    for ours in COLUMNS:
        if ours not in text:
            raise TableError(
                f"{path}: column {ours} is missing; needed are {', '.join(COLUMNS)}, as `procure simulate --out` "
                f"writes them, or {', '.join(COLUMNS.values())}, as `sacct -X -P -o` does"
            )
    ledger = Ledger(str(path), np.arange(1, len(text) + 1), len(text))
    times = {name: unix_seconds(text[name], name, ledger, None) for name in ("start_time", "end_time")}
    names = node_names(text["node_ids"])
    ran = ~np.isnan(times["start_time"]) & (names != "") & ~text["job_id"].str.contains(".", regex=False).to_numpy()
    last = np.nanmax([0.0, *times["start_time"][ran], *times["end_time"][ran]])
    kept = {name: text[name] for name in ("job_id", "links") if name in text}
    whole = pd.DataFrame(kept | {name: np.where(np.isnan(values), last, values) for name, values in times.items()})
    return whole.assign(node_ids=names)[ran].astype(dict.fromkeys(times, np.int64)).reset_index(drop=True)


def names_in(node_ids: str) -> list[str]:
    """Return the names of a job's nodes, which may be written as a host list."""
    return expand_nodes(node_ids) if "[" in node_ids else [name for name in node_ids.split(",") if name]
