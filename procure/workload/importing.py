"""Read a job log of any known format."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from procure.errors import TableError
from procure.files import existing_file, is_parquet, read_bytes
from procure.schemas import JOB, as_logged
from procure.settings import validated
from procure.tables import read
from procure.text import nearest
from procure.workload.formats import FORMATS, Format, not_read, recognised
from procure.workload.ledger import Imported, log_bytes
from procure.workload.log_settings import LogFormat, LogSettings, merged
from procure.workload.oddities import oddities
from procure.workload.shapes import Shape
from procure.workload.units import real_limits

_NAMED = (
    "--column submit_time=COLUMN --column start_time=COLUMN --column end_time=COLUMN --column cpus_per_node=COLUMN "
    "(COLUMN::job of a whole job's); columns that hold lists are then left out"
)


def import_log(
    path: str | Path,
    format: str | None = None,
    preset: str | None = None,
    *,
    tz: str | None = None,
    keep_unfinished: bool = False,
    shape: Shape = "tasks",
    **settings: Any,
) -> Imported:
    """Read a log of any known format as a job table.

    Parameters
    ----------
    path
        The log, plain or compressed (.gz .bz2 .xz .zst).
    format
        ``csv``, ``swf``, ``sacct``, ``pbs``, ``lsf``, ``sge``, ``condor``, ``slurmdbd`` or ``jobcomp``; else the
        preset's, or what the file's first lines tell.
    preset
        Name of a preset (`presets.preset_names`) or path of a preset's TOML file; csv and swf.
    tz
        Zone of dates without an offset, e.g. ``America/Chicago``; None is the preset's.
    keep_unfinished
        Keep jobs that never started or have not ended: they stood in the queue, too.
    shape
        ``tasks`` keeps the tasks that jobs asked for; ``as-logged`` gives such jobs the nodes that the log shows.
    **settings
        The other settings of `LogSettings`: ``columns clock cpus_per_node mem_unit cluster strict
        skip_bad_rows``.

    Returns
    -------
    Imported
        ``jobs`` (checked, log order, ``attrs["clock"]``), ``n_read``, ``dropped`` by reason, ``notes``.

    Raises
    ------
    TableError
        One sentence with file, row and column.

    Examples
    --------
    >>> import procure
    >>> found = procure.import_log("log.swf", "swf")
    >>> len(found.jobs)
    2
    """
    if format is not None and format not in FORMATS:
        raise TableError(f"unknown log format {format!r}; {nearest(format, FORMATS)}")
    given = {"format": format, "preset": preset, "log_tz": tz} | settings
    return read_log(path, validated(LogSettings, given, str(path)), keep_unfinished=keep_unfinished, shape=shape)


def guess(path: str | Path) -> Format | None:
    """Return the format that a log's first lines tell; None where nothing does. One known but not read is an error."""
    head = log_bytes(path)[:65_536].decode("utf-8", errors="replace")
    if other := not_read(head):
        raise TableError(f"{path}: {other}")
    return recognised(head)


def read_log(
    path: str | Path,
    settings: LogSettings | None = None,
    *,
    keep_unfinished: bool | LogFormat = False,
    shape: Shape = "as-logged",
) -> Imported:
    """Read a log, or a job table: the one reader of every command, of studies and of the library.

    Parameters
    ----------
    path
        A log; or, where no setting says how a log is read, also a job table (.parquet, or a .csv with its columns).
        ``-`` is standard input: a job table in Parquet, or a log.
    settings
        How the log is read, see `LogSettings`; also a study's workload, which has these settings.
    keep_unfinished
        Keep jobs that never started or have not ended; a format: only of a log of this one.
    shape
        Of jobs that asked for tasks: ``as-logged`` gives them the nodes that the log shows, ``tasks`` keeps the tasks.

    Returns
    -------
    Imported
        Of a job table: its rows, none of them dropped.

    Raises
    ------
    TableError
        One sentence with file, row and column.

    Examples
    --------
    >>> import procure
    >>> len(procure.read_log("jobs.parquet").jobs)
    400
    """
    found = _read_log(existing_file(path), settings or LogSettings(), keep_unfinished)
    return found if shape == "tasks" else replace(found, jobs=as_logged(found.jobs))


def _read_log(path: Path, given: LogSettings, keep_unfinished: bool | LogFormat) -> Imported:
    if is_job_table(path, given):
        try:
            jobs = read(path, JOB)
        except TableError as error:
            if path.suffix != ".parquet" or not re.search("is missing|holds lists", str(error)):
                raise
            raise TableError(f"{error}; of a log name its columns: {_NAMED}") from None
        jobs["requested_time"] = real_limits(jobs["requested_time"].to_numpy())
        return Imported(jobs, len(jobs), {}, [], warnings=oddities(jobs))
    told, why = None, "its first lines tell"
    if given.format is None and given.preset is None:
        if given.columns or path.suffix.lower() == ".parquet":
            told, why = FORMATS["csv" if given.columns else "sacct"], "no format is named, and its columns are"
        else:
            told = guess(path)
        if told is None:
            known = "; ".join(f"{one.name}: {one.of}" for one in FORMATS.values())
            raise TableError(
                f"{path}: nothing in its first lines tells what log it is; say it with --set format=NAME "
                f"({known}). A file without a header needs --set fields=NAME,NAME,… too. Of another system write a row "
                "per job as CSV, and name its columns with --column FIELD=COLUMN"
            )
    how = merged(given, path.name, None if told is None else told.name, keep_unfinished)
    try:
        found = FORMATS[how.format or "sacct"].read(path, how)
    except TableError as error:
        said = str(error) if str(path) in str(error) else f"{path}: {error}"
        raise TableError(said + (_likely(path, how) if told is None else "")) from None
    if told is not None:
        found.notes.insert(0, f"read as {told.name}, {told.of}: {why}")
    return found


def _likely(path: Path, how: LogSettings) -> str:
    """Say what a log that cannot be read as its stated format looks like."""
    head = "" if path.suffix == ".parquet" else log_bytes(path)[:65_536].decode("utf-8", errors="replace")
    found, other = recognised(head), not_read(head)
    if not other and found is not None and found.name not in ("csv", how.format):
        other = f"looks like {found.name}, {found.of}"
    return f"; it {other}" if other else ""


def is_job_table(path: Path, given: LogSettings) -> bool:
    """Tell whether a file is read as a job table, and not as a log."""
    if given.said():
        return False
    if path.name.lower().endswith(".parquet"):
        try:
            return not {"JobID", "Submit"} <= set(pq.read_schema(path).names)
        except (OSError, pa.ArrowException):
            return True
    if str(path) in ("-", "/dev/stdin"):
        return is_parquet(read_bytes(path))
    if ".csv" not in path.name.lower():
        return False
    try:
        header = log_bytes(path).split(b"\n", 1)[0][:65_536].decode(errors="replace")
        return {"submit_time", "cpus_per_node"} <= {one.strip(' "\r') for one in re.split("[,;\t]", header)}
    except (ValueError, OSError, EOFError):
        return False
