"""Read a job log of any known format: how one is told, and what reads it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from procure.errors import TableError
from procure.files import existing_file, is_parquet, read_bytes
from procure.schemas import JOB, as_logged
from procure.settings import validated
from procure.tables import read
from procure.text import nearest
from procure.workload import read_condor, read_lsf, read_pbs, read_sge, read_slurmdbd
from procure.workload.describe import oddities
from procure.workload.ledger import Imported, log_bytes, real_limits
from procure.workload.log_settings import How, LogFormat, LogSettings, merged
from procure.workload.read_csv import read_csv
from procure.workload.read_sacct import read_sacct
from procure.workload.read_swf import read_swf
from procure.workload.sacct_table import HEADER, MOST_BANNER
from procure.workload.shapes import Shape


class Format(NamedTuple):
    """A format of logs."""

    name: str
    of: str
    recognises: Callable[[list[str]], bool]  # from a log's first lines that hold anything
    read: Callable[[Path, How], Imported]


def _like_sacct(name: str, of: str, module: ModuleType) -> Format:
    return Format(name, of, module.recognises, partial(read_sacct, rows=module.rows))


def _is_sacct(lines: list[str]) -> bool:
    head = lines[0].lstrip()
    names = set(re.split(r"\W+", head.lower()))  # as other tools write them
    return (
        bool(re.search(r"\bJobID(Raw)?\b", head) or any(map(HEADER.search, lines[:MOST_BANNER])))
        or {"jobid", "submit", "start", "end"} <= names
        or (head[:1] in "{[" and not read_condor.recognises(lines))
    )


def _is_swf(lines: list[str]) -> bool:
    numbers = next((line for line in lines if not line.startswith("#")), "").split()
    is_number = re.compile(r"-?\d+(\.\d*)?").fullmatch  # users and groups of other archives have names
    return lines[0].lstrip().startswith(";") or (len(numbers) >= 18 and all(map(is_number, numbers[:11])))


FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format("swf", "the Standard Workload Format", _is_swf, read_swf),
        _like_sacct("pbs", "accounting records of OpenPBS, PBS Professional, Torque", read_pbs),
        _like_sacct("lsf", "LSF's lsb.acct", read_lsf),
        _like_sacct("sge", "Grid Engine's accounting file", read_sge),
        _like_sacct("condor", "HTCondor's history, -json, -xml or -long", read_condor),
        _like_sacct("slurmdbd", "slurmdbd's job table, as CSV or of mysqldump", read_slurmdbd),
        Format(
            "jobcomp",
            "Slurm's jobcomp/filetxt",
            read_slurmdbd.is_jobcomp,
            partial(read_sacct, rows=read_slurmdbd.jobcomp_rows),
        ),
        Format("sacct", "sacct --parsable2 or --json", _is_sacct, read_sacct),
        Format(
            "csv",
            "columns that --column or a preset names",
            lambda lines: max(map(lines[0].count, ",;\t|")) > 0,
            read_csv,
        ),
    )
}
"""In the order in which a log is tried."""


_SACCT = "procure workload import --print-sacct-command"
_OTHERS = (
    (r"(?:---\s*\n)?jobs:\s*\n", "is YAML, as sacct --yaml prints it; sacct --json prints the same, and is read"),
    (r"JOBID +PARTITION ", f"is what squeue or sprio prints, the jobs of one moment; a log: {_SACCT}"),
    (r'PARTITION[ |]+AVAIL|NODELIST +NODES|NodeName=|PartitionName=|\{\s*"(?:sinfo|nodes)"',
     f"is what sinfo or scontrol prints of nodes, for procure site read; a log of jobs: {_SACCT}"),
    (r"-+\s*\n[\w/]+ (?:Utilization|Usage|Sizes)", f"is what sreport prints, sums of many jobs; a log: {_SACCT}"),
    (r"JobId=\d+ (?:\w+=\d+ )*JobName=", f"is what scontrol show job prints, jobs of one moment; a log: {_SACCT}"),
    (r"(?:.*\n){0,3}?Job (?:ID|id) +(?:Username|Name) |Job Id: |\{[^{}]*\"pbs_version\"",
     "is what qstat prints; a log of PBS is server_priv/accounting/ on its server"),
    (r"=+\s*\nqname ", "is what qacct -j prints; a log is its source, $SGE_ROOT/default/common/accounting"),
    (r"Accounting information about jobs|JOBID +USER +STAT |Job <\d+>|Summary of time in seconds"
     r'|\{[^{}]*"COMMAND": ?"b|"JOB_FINISH2"',
     "is of bacct, bhist, bjobs or lsb.stream; a log of LSF is LSB_SHAREDIR/CLUSTER/logdir/lsb.acct"),
    (r"\d{3} \(\d+\.\d+\.\d+\) |ID +OWNER +SUBMITTED|(?=.*\bQDate\b)(?=.*\bClusterId\b)[\w ,\t]+\n",
     "is of HTCondor, but not its history whole: condor_history -json prints that"),
    (r"\+-[-+]+\+\s*\n\|", "is a table of mysql for people; mysql --batch prints it as it is read"),
)  # fmt: skip
"""How files begin that are known but not read, and what is to be said of them."""


def not_read(text: str) -> str:
    """Say what a file is that is known but not read, and where the log is; nothing of any other."""
    text = re.sub(r"\A(?:\w{3} \w{3} +\d+ .*\n)?\s*", "", text.lstrip())  # the day on which squeue -l printed it
    return next((what for begins, what in _OTHERS if re.match(begins, text)), "")


def recognised(text: str) -> Format | None:
    """Return the format of a log, from its first characters; None where nothing tells."""
    lines = [line for line in text.split("\n") if line.strip()]
    return next((one for one in FORMATS.values() if lines and one.recognises(lines)), None)


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
    keep_unfinished, shape
        As in `read_log`.
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
        said, other = str(error) if str(path) in str(error) else f"{path}: {error}", ""
        if told is None and path.suffix != ".parquet":  # what a log looks like that is not of its stated format
            head = log_bytes(path)[:65_536].decode("utf-8", errors="replace")
            looks, other = recognised(head), not_read(head)
            if not other and looks is not None and looks.name not in ("csv", how.format):
                other = f"looks like {looks.name}, {looks.of}"
        raise TableError(f"{said}; it {other}" if other else said) from None
    if told is not None:
        found.notes.insert(0, f"read as {told.name}, {told.of}: {why}")
    return found


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
