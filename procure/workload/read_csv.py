"""A CSV log as a job table, by a column mapping with stated units."""

from __future__ import annotations

import re
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.files import check_parquet, read_rows
from procure.schemas import JOB, TASKS
from procure.text import counted, nearest, printable, short
from procure.workload.clock import unix_seconds
from procure.workload.ledger import (
    Imported,
    Ledger,
    absent,
    cancelled_in_queue,
    log_bytes,
    numbers,
    refuse_decades,
)
from procure.workload.presets import AMOUNTS, DURATIONS, TIMES, WAIT, ColumnMap, fitting_preset
from procure.workload.slurm_text import node_names, parse_gres, parse_tres, slurm_duration, slurm_memory
from procure.workload.units import by_value, memory_mb, per_node, seconds

_NEEDED = ("submit_time", "cpus_per_node")
_VALUE = re.compile(r"-?\d+(?:\.\d+)?$|\d{4}-\d\d-\d\d[T ]\d\d:")
_NO_TIME = ("", "na", "n/a", "nan", "none", "null", "unknown")


def read_csv(
    path: str | Path,
    columns: dict[str, ColumnMap] | None = None,
    *,
    own_columns: bool = True,
    tz: str | None = None,
    clock: str | None = None,
    cpus_per_node: int | None = None,
    fields: str | None = None,
    strict: bool = False,
    keep_unfinished: bool = False,
    skip_bad_rows: bool = False,
    asks: str | None = None,
) -> Imported:
    """Read a CSV log.

    Parameters
    ----------
    path
        The log with a header line, plain or compressed (.gz .bz2 .xz .zst).
    columns
        Mappings by field, to columns of the file.
    own_columns
        A field that ``columns`` does not name is the file's column of that name, in the job table's unit.
    tz
        Zone of dates without an offset; None is UTC, with a note.
    clock
        ``unix``, ``log`` or ``local``; None: numbers are Unix seconds and dates are local.
    cpus_per_node
        CPUs of every node, for a log that counts nodes only, in place of a column.
    fields
        The names of the columns, with commas between, of a file without a header.
    strict, keep_unfinished, skip_bad_rows
        As in `read_sacct`; a row whose start time is mapped but empty, or to which no node was
        assigned, never started.
    asks
        What jobs asked for where no column ``n_tasks`` says it; ``tasks`` are of one CPU, but of jobs with GPUs.

    Raises
    ------
    TableError
        A column is missing, a value is unreadable, or no job is left.
    """
    frame = _table(path, fields)
    own = {name: ColumnMap(column=name) for name in JOB.names if own_columns and name in frame.columns}
    mapping = _mapping(frame, str(path), own | (columns or {}), cpus_per_node)
    ledger = Ledger(str(path), np.arange(1, len(frame) + 1), len(frame), skip_bad_rows)
    values = _times(frame, mapping, ledger, clock, tz)
    for field in (*DURATIONS, WAIT):
        if field in mapping:
            source = mapping[field]
            raw = _durations(frame[source.column], source.column, ledger)
            values[field] = seconds(raw, source.unit or "s")
    if WAIT in values:
        wait = values.pop(WAIT)
        values["start_time"] = values["submit_time"] + np.where(wait >= 0, wait, np.nan)
    values["requested_time"] = np.maximum(np.nan_to_num(values.get("requested_time", np.zeros(len(frame)))), 0)
    values |= _amounts(frame, mapping, ledger, cpus_per_node)
    values |= _tasks(frame, mapping, values, ledger, asks)
    texts = _texts(frame, mapping)
    if "job_id" not in texts:
        ledger.note("no column gives the job's id: jobs bear the numbers of their rows")
        texts["job_id"] = pd.Series(ledger.rows.astype(str), index=frame.index)
    _run_times(values, texts, ledger, keep_unfinished)
    ledger.drop(np.isnan(values["submit_time"]), "no submit time")
    ledger.drop(np.asarray(texts["job_id"] == ""), "no job id")
    if clock != "log":
        clock = "unix"
    return ledger.finish(texts | values, clock, strict)


def _table(path: str | Path, fields: str | None) -> pd.DataFrame:
    if str(path).lower().endswith(".parquet"):
        check_parquet(Path(path))
        frame = pd.read_parquet(path)
        return frame.astype(object).where(frame.notna(), "").astype(str)
    content = log_bytes(path)
    if fields is not None:
        first = content.split(b"\n", 1)[0].decode("utf-8", errors="replace")
        delimiter = max(",;\t|", key=first.count)
        content = delimiter.join(one.strip() for one in fields.split(",")).encode() + b"\n" + content
    else:
        first = content.split(b"\n", 1)[0].decode("utf-8", errors="replace")
        delimiter = max(",;\t|", key=first.count)
        value = next((one for one in first.split(delimiter) if _VALUE.match(one.strip(' "'))), None)
        if value is not None:
            raise TableError(
                f"{path}: the first line is no header, as {short(value)} is no name of a column; name the columns with "
                "--set fields=NAME,NAME,… (of sacct's fields beside --set format=sacct)"
            )
    try:
        return read_rows(content, str(path), "replace")
    except pd.errors.EmptyDataError as error:
        raise TableError(f"{path}: cannot be read as CSV: {error}") from None


def _durations(text: pd.Series, column: str, ledger: Ledger) -> np.ndarray:
    """Return numbers, and seconds where a clock's ``D-HH:MM:SS`` stands."""
    if not bool(text.astype(str).str.contains(":", regex=False).any()):
        return numbers(text, column, ledger)
    found = by_value(text, lambda one: (nan if one.lower() in _NO_TIME else slurm_duration(one),), [float])[0]
    ledger.refuse(np.isnan(found) & ~absent(text), column, text, "a duration such as 8:00:00 or 2-00:00:00")
    return found


def _mapping(
    frame: pd.DataFrame,
    source: str,
    mapping: dict[str, ColumnMap],
    cpus_per_node: int | None,
) -> dict[str, ColumnMap]:
    """Return the mapping to use, all of whose columns are in the file."""
    mapping = dict(mapping)
    if cpus_per_node is not None:
        mapping.pop("cpus_per_node", None)
    gone = [(field, where.column) for field, where in mapping.items() if where.column not in frame.columns]
    if gone:
        more = "".join(f", {column!r} (for {field})" for field, column in gone[1:])
        raise TableError(
            f"{source}: column {gone[0][1]!r} (for {gone[0][0]}) is missing; "
            f"{nearest(gone[0][1], frame.columns)}{'; missing too: ' + more[2:] if more else ''}"
        )
    needed = _NEEDED if cpus_per_node is None and "n_tasks" not in mapping else _NEEDED[:-1]
    absent = [field for field in needed if field not in mapping]
    if WAIT in mapping:  # in place of start times
        mapping.pop("start_time", None)
    starts = {"start_time", WAIT} & set(mapping)
    if "run_time" not in mapping and not (starts and "end_time" in mapping):
        absent.append("run_time")
    if absent:
        options = " ".join(f"--column {field}=COLUMN" for field in absent)
        raise TableError(
            f"{source}: nothing says which column{' is' if len(absent) == 1 else 's are'} {', '.join(absent)}; "
            "the file has "
            f"{printable(', '.join(map(str, frame.columns)))}; "
            f"name {'it' if len(absent) == 1 else 'them'} with {options}"
            f"{_hint(frame, absent)}"
        )
    return mapping


def _hint(frame: pd.DataFrame, absent: list[str]) -> str:
    """Say what else would tell the columns: a preset that they look like, or CPUs per node for all nodes alike."""
    if len(frame.columns) == 1 and "|" in str(frame.columns[0]):
        return "; the fields are separated by | as sacct's are: --set format=sacct"
    preset = fitting_preset(frame.columns)
    if preset is not None:
        return f"; it looks like a log of the preset {preset}: --set preset={preset}"
    if "cpus_per_node" in absent:
        return " or --set preset=NAME; where the log counts nodes only, --set cpus_per_node=N gives the CPUs of each"
    return " or --set preset=NAME"


def _times(
    frame: pd.DataFrame, mapping: dict[str, ColumnMap], ledger: Ledger, clock: str | None, tz: str | None
) -> dict[str, np.ndarray]:
    values: dict[str, np.ndarray] = {}
    for field in (name for name in TIMES if name in mapping):
        column = mapping[field].column
        if clock in ("unix", "log"):
            values[field] = np.floor(numbers(frame[column], column, ledger))
        else:
            values[field] = unix_seconds(frame[column], column, ledger, tz, values.get("submit_time"))
    if clock == "log":
        ledger.note("times are seconds of the log's own clock")
    return values


def _amounts(
    frame: pd.DataFrame, mapping: dict[str, ColumnMap], ledger: Ledger, cpus_per_node: int | None
) -> dict[str, np.ndarray]:
    """Return nodes, and CPUs, memory and GPUs on each, rounded up; negative amounts drop the row."""
    raw, types = {}, None
    for field in ("n_nodes", *AMOUNTS, "priority"):
        if field in mapping:
            text = frame[mapping[field].column]
            if field == "gpus_per_node" and bool(text.str.contains("gpu", regex=False).any()):
                raw[field], types = _gres(text, mapping[field].column, ledger)
            elif field == "mem_mb_per_node" and bool(text.str.contains(_SLURM_MEMORY).any()):
                raw[field] = _slurm_memory(text, mapping, ledger)
            else:
                raw[field] = numbers(text, mapping[field].column, ledger)
    n_nodes = np.maximum(np.nan_to_num(raw.get("n_nodes", np.ones(len(frame))), nan=1.0), 1.0)
    for field in AMOUNTS:
        ledger.drop(raw.get(field, np.zeros(1)) < 0, f"negative {field}")
    if cpus_per_node is None and "cpus_per_node" not in mapping:
        cpus = np.ones(len(frame))
    elif cpus_per_node is None:
        ledger.drop(np.isnan(raw["cpus_per_node"]), "no CPUs")
        cpus = per_node(np.nan_to_num(raw["cpus_per_node"]), mapping["cpus_per_node"].per, n_nodes, np.ones(1))
    else:
        cpus = np.full(len(frame), float(cpus_per_node))
        ledger.note(f"every node of a job counts as {counted(cpus_per_node, 'CPU')}")
    values = {"n_nodes": n_nodes, "cpus_per_node": cpus}
    if "mem_mb_per_node" in raw:
        source = mapping["mem_mb_per_node"]
        memory = memory_mb(np.nan_to_num(raw["mem_mb_per_node"]), source.unit or "MB")
        values["mem_mb_per_node"] = per_node(memory, source.per, n_nodes, cpus)
    if "gpus_per_node" in raw:
        gpus = np.nan_to_num(raw["gpus_per_node"])
        values["gpus_per_node"] = per_node(gpus, mapping["gpus_per_node"].per, n_nodes, cpus)
    values |= {} if types is None else {"gpu_type": types}
    return values | ({"priority": raw["priority"]} if "priority" in raw else {})


def _tasks(
    frame: pd.DataFrame,
    mapping: dict[str, ColumnMap],
    values: dict[str, np.ndarray],
    ledger: Ledger,
    asks: str | None,
) -> dict[str, np.ndarray]:
    """Return the columns of tasks: as mapped, or each CPU one where the user says that jobs ask for tasks."""
    found = {
        name: np.nan_to_num(numbers(frame[mapping[name].column], mapping[name].column, ledger))
        for name in TASKS[:-1]
        if name in mapping
    }
    if found:
        if "cpus_per_node" not in mapping:
            each = np.maximum(found.get("cpus_per_task", np.ones(1)), 1)
            found["cpus_per_node"] = np.ceil(found["n_tasks"] / values["n_nodes"]) * each
        ledger.shape = np.where(found["n_tasks"] > 0, "tasks", asks or "nodes")
        return {
            name: np.maximum(one, 1) if name in ("cpus_per_task", "min_nodes") else one for name, one in found.items()
        }
    ledger.shape, ledger.unknown = asks or "unknown", "--set asks=tasks or asks=nodes says it"
    if asks != "tasks":
        return {}
    with_gpu = values.get("gpus_per_node", np.zeros(len(frame))) > 0
    ledger.shape = np.where(with_gpu, "nodes", "tasks")
    n_tasks = values["n_nodes"] * values["cpus_per_node"]
    memory = values.get("mem_mb_per_node", np.zeros(len(frame)))
    each = np.where(with_gpu, 0, np.ceil(memory * values["n_nodes"] / np.maximum(n_tasks, 1)))
    return {
        "n_tasks": np.where(with_gpu, 0, n_tasks),
        "mem_mb_per_task": each,
        "mem_mb_per_node": np.where(with_gpu, memory, 0),
    }


_SLURM_MEMORY = re.compile(r"^\s*\d+(?:\.\d+)?[KMGT][cn]?\s*$")


def _slurm_memory(text: pd.Series, mapping: dict[str, ColumnMap], ledger: Ledger) -> np.ndarray:
    """Return MB of amounts as Slurm writes them, ``4G``; per CPU or node as the mapping says, not by ``c`` or ``n``."""
    where = mapping["mem_mb_per_node"]
    found, per = by_value(text, slurm_memory, [float, object])
    ledger.refuse(np.isnan(found) & ~absent(text), where.column, text, "memory such as 500M or 4G")
    each = {"c": "cpu", "n": "node"}.get(str(text[text.str.contains(_SLURM_MEMORY)].iloc[0]).strip()[-1], where.per)
    mixed = np.isin(per, ["cpu", "node"]) & (per != each)
    ledger.refuse(mixed, where.column, text, f"memory per {each}, as in the rows before")
    mapping["mem_mb_per_node"] = where.model_copy(update={"unit": "MB", "per": each})
    ledger.note(f"column {where.column}: memory as Slurm writes it, per {each}; its G is 1,024 M")
    return np.nan_to_num(found)


def _gres(text: pd.Series, column: str, ledger: Ledger) -> tuple[np.ndarray, np.ndarray]:
    """Return GPUs and their model from TRES (``cpu=4,gres/gpu:a100=2``) or GRES (``gpu:a100:2``)."""
    if bool(text.str.contains("=", regex=False).any()):
        *_, gpus, model, bad = by_value(text, parse_tres, [float] * 4 + [object, bool])
        ledger.refuse(np.asarray(bad, bool), column, text, "a list such as cpu=4,gres/gpu:a100=2")
        return np.nan_to_num(gpus), model
    gpus, model = by_value(text, parse_gres, [float, object])
    ledger.refuse((gpus == 0) & text.str.contains("gpu", regex=False).to_numpy(bool), column, text, "GPUs as gpu:2")
    return gpus, model


def _texts(frame: pd.DataFrame, mapping: dict[str, ColumnMap]) -> dict[str, object]:
    known = set(TIMES) | set(DURATIONS) | set(AMOUNTS) | {"n_nodes", "priority", WAIT, *TASKS[:-1]}
    texts: dict[str, object] = {}
    for field in (name for name in mapping if name not in known):
        text = frame[mapping[field].column].str.strip()
        if field == "node_ids":
            texts[field] = node_names(text)
        elif field == "state":
            texts[field] = text.str.replace(r"\s.*", "", regex=True)
        else:
            texts[field] = text
    return texts


def _run_times(values: dict[str, np.ndarray], texts: dict[str, object], ledger: Ledger, keep_unfinished: bool) -> None:
    """Decide which jobs ran and for how long, in place."""
    started = np.ones(len(ledger.keep), dtype=bool)
    if "start_time" in values:
        started &= ~np.isnan(values["start_time"])
    if "node_ids" in texts and np.any(texts["node_ids"] != ""):
        started &= np.asarray(texts["node_ids"]) != ""
    run = values.get("run_time")
    if run is None:
        run = values["end_time"] - values["start_time"]
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
    refuse_decades(run, ledger)
    values["run_time"] = run
