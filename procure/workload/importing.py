"""One door to every log format."""

from __future__ import annotations

from pathlib import Path

from procure.errors import TableError
from procure.text import nearest
from procure.workload.ledger import Imported
from procure.workload.presets import ColumnMap, load_preset
from procure.workload.read_csv import read_csv
from procure.workload.read_sacct import read_sacct
from procure.workload.read_swf import read_swf

FORMATS = ("csv", "swf", "sacct")


def import_log(
    path: str | Path,
    format: str,
    preset: str | None = None,
    *,
    strict: bool = False,
    tz: str | None = None,
    cpus_per_node: int = 1,
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
    cpus_per_node, mem_unit
        How SWF's processors and memory are read.
    columns, clock
        A CSV's mapping by field, and what its times are.
    keep_unfinished
        Keep jobs that never started or have not ended, for those who look at the queue itself.
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
    if format == "csv":
        return read_csv(
            path,
            chosen,
            columns=columns,
            tz=tz,
            clock=clock,
            strict=strict,
            keep_unfinished=keep_unfinished,
            skip_bad_rows=skip_bad_rows,
        )
    if format == "swf":
        return read_swf(
            path,
            cpus_per_node=cpus_per_node,
            mem_unit=mem_unit or (chosen.mem_unit if chosen else "kB:cpu"),
            clock=clock or (chosen.clock if chosen else None),
            node_field=chosen.node_field if chosen else None,
            queue_field=chosen.queue_field if chosen else None,
            strict=strict,
            keep_unfinished=keep_unfinished,
            skip_bad_rows=skip_bad_rows,
        )
    return read_sacct(
        path, tz=tz, strict=strict, keep_unfinished=keep_unfinished, skip_bad_rows=skip_bad_rows
    )
