"""Read a job log of any known format."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import pandas as pd

from procure.errors import TableError
from procure.files import existing_file, is_parquet, read_bytes
from procure.schemas import JOB
from procure.tables import read
from procure.text import nearest
from procure.workload.ledger import Imported, log_bytes
from procure.workload.presets import ColumnMap, fitting_preset, load_preset
from procure.workload.read_csv import read_csv
from procure.workload.read_sacct import read_sacct
from procure.workload.read_swf import read_swf
from procure.workload.units import real_limits

LogFormat = Literal["csv", "swf", "sacct"]
FORMATS: tuple[str, ...] = get_args(LogFormat)


def import_log(
    path: str | Path,
    format: str,
    preset: str | None = None,
    *,
    strict: bool = False,
    tz: str | None = None,
    cpus_per_node: int | None = None,
    mem_unit: str | None = None,
    columns: dict[str, ColumnMap] | None = None,
    clock: str | None = None,
    keep_unfinished: bool = False,
    skip_bad_rows: bool = False,
) -> Imported:
    """Read a log of any known format as a job table.

    Parameters
    ----------
    path
        The log, plain or compressed (.gz .bz2 .xz .zst).
    format
        ``csv`` (see `read_csv`), ``swf`` (`read_swf`) or ``sacct`` (`read_sacct`).
    preset
        Name of a preset (`presets.preset_names`) or path of a preset's TOML file; csv and swf.
    strict
        Raise if any row is dropped.
    tz
        Zone of dates without an offset, e.g. ``America/Chicago``; csv and sacct.
    cpus_per_node
        csv, sacct: CPUs of every node, for a log that counts nodes only. swf: processors to a node, see `read_swf`.
    mem_unit
        How SWF's memory is read.
    columns, clock
        A CSV's mapping by field, and what its times are.
    keep_unfinished
        Keep jobs that never started or have not ended: they stood in the queue, too.
    skip_bad_rows
        Drop unreadable rows, counted, instead of raising.

    Returns
    -------
    Imported
        ``jobs`` (checked, log order, ``attrs["clock"]``), ``n_read``, ``dropped`` by reason, ``notes``.

    Raises
    ------
    TableError
        One sentence with file, row and column.
    """
    if format not in FORMATS:
        raise TableError(f"unknown log format {format!r}; {nearest(format, FORMATS)}")
    chosen = load_preset(preset) if preset else None
    if chosen and chosen.format != format:
        raise TableError(f"preset {chosen.name} is for {chosen.format} logs; the format given is {format}")
    rows = {"strict": strict, "keep_unfinished": keep_unfinished, "skip_bad_rows": skip_bad_rows}
    if format == "csv":
        return read_csv(
            path, chosen, columns=columns, tz=tz, clock=clock, cpus_per_node=cpus_per_node, **rows
        )
    if format == "swf":
        return read_swf(
            path,
            cpus_per_node=cpus_per_node or 1,
            mem_unit=mem_unit or (chosen.mem_unit if chosen else "kB:cpu"),
            clock=clock or (chosen.clock if chosen else None),
            node_field=chosen.node_field if chosen else None,
            queue_field=chosen.queue_field if chosen else None,
            **rows,
        )
    return read_sacct(path, tz=tz, cpus_per_node=cpus_per_node, **rows)


def guess(path: str | Path) -> str:
    """Say which option a log looks like it needs, from its first lines; empty where nothing tells."""
    lines = [
        line
        for line in log_bytes(path)[:65_536].decode("utf-8", errors="replace").splitlines()
        if line.strip()
    ]
    if lines[0].lstrip().startswith(";") or len(lines[0].split()) >= 18:
        return "--format swf"
    if "JobID" in lines[0] and "|" in lines[0]:
        return "--format sacct"
    separator = max(",;\t", key=lines[0].count)
    preset = fitting_preset(name.strip(' "\ufeff') for name in lines[0].split(separator))
    return f"--preset {preset}" if preset else "--format csv" if separator in lines[0] else ""


def read_log(
    path: str | Path,
    format: str | None = None,
    preset: str | None = None,
    tz: str | None = None,
    *,
    keep_unfinished: bool = False,
) -> Imported:
    """Read a job table, or import a log whose format its name tells.

    Parameters
    ----------
    path
        A job table (.parquet, or a .csv with its columns), or a log as `import_log` reads it. ``-`` is standard
        input: a job table in Parquet, or a log.
    format, preset, tz
        As in `import_log`. Without a format it is the preset's; else ``swf`` or ``csv`` where the file's
        name holds ``.swf`` or ``.csv``, and ``sacct`` otherwise.
    keep_unfinished
        Of a sacct log, keep jobs that never started or have not ended.

    Returns
    -------
    Imported
        Of a job table: its rows, none of them dropped.

    Raises
    ------
    TableError
        One sentence with file, row and column.
    """
    path = existing_file(path)
    name = path.name.lower()
    piped = str(path) in ("-", "/dev/stdin")
    if (
        name.endswith(".parquet")
        or (piped and is_parquet(read_bytes(path)))
        or (format in (None, "csv") and preset is None and ".csv" in name and _is_job_table(path))
    ):
        jobs = read(path, JOB)
        jobs["requested_time"] = real_limits(jobs["requested_time"].to_numpy())
        return Imported(jobs, len(jobs), {}, [])
    if format is None and preset is not None:
        format = load_preset(preset).format
    elif format is None:
        format = "swf" if ".swf" in name else "csv" if ".csv" in name else "sacct"
    return import_log(path, format, preset, tz=tz, keep_unfinished=keep_unfinished and format == "sacct")


def _is_job_table(path: Path) -> bool:
    try:
        header = pd.read_csv(path, nrows=0, sep="[,;\t]", engine="python").columns
        return {"submit_time", "cpus_per_node"} <= set(header.str.strip(' "'))
    except (ValueError, OSError, EOFError):
        return False
