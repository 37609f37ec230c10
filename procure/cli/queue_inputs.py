"""What `procure queue` is given: logs, durations, amounts, deadlines and moments as users write them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from procure.cli.common import Format, note
from procure.errors import TableError

if TYPE_CHECKING:
    import pandas as pd


def read_log(path: Path, log_format: str | None, preset: str | None, tz: str | None) -> pd.DataFrame:
    """Read a job table (.parquet, or .csv with our columns) or import a log, by format or file name."""
    from procure.files import existing_file
    from procure.schemas import JOB
    from procure.tables import read
    from procure.workload import import_log

    name = path.name.lower()
    existing_file(path)
    if name.endswith(".parquet") or (
        log_format in (None, "csv") and preset is None and ".csv" in name and _is_job_table(path)
    ):
        return read(path, JOB)
    if log_format is None and ".swf" in name:
        log_format = "swf"
    if log_format is None:
        log_format = "csv" if ".csv" in name else "sacct"
    imported = import_log(
        path, format=log_format, preset=preset, tz=tz, keep_unfinished=log_format == "sacct"
    )
    for reason, count in imported.dropped.items():
        note(f"{path.name}: {count:,} rows dropped: {reason}")
    jobs = imported.jobs
    if log_format == "swf":
        jobs.attrs["origin"] = _swf_origin(path)
    return jobs


def _swf_origin(path: Path) -> int:
    """Return the Unix second at which an SWF log's own clock shows 0, as its header says; 0 if it does not."""
    from procure.workload.ledger import log_bytes

    found = re.search(rb"^;\s*UnixStartTime:\s*(\d+)", log_bytes(path), re.MULTILINE)
    return int(found[1]) if found else 0


def _is_job_table(path: Path) -> bool:
    import pandas as pd

    try:
        header = pd.read_csv(path, nrows=0, sep="[,;\t]", engine="python").columns
        return {"submit_time", "cpus_per_node"} <= set(header.str.strip(' "'))
    except (ValueError, OSError, EOFError):
        return False


def seconds_of(text: str, option: str) -> int:
    """Read a duration: 90m, 2h, 1d, 3600, or Slurm's D-HH:MM:SS."""
    from procure.workload.slurm_text import slurm_duration

    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip().lower())
    if match:
        return round(float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[match[2]])
    if text.strip().isdigit():
        return int(text)
    seconds = slurm_duration(text.strip()) if ":" in text else float("nan")
    if seconds != seconds:
        raise typer.BadParameter(
            f"{text!r} is not a positive time such as 8:00:00, 2-00:00:00, 90m, 2h or 1d", param_hint=option
        )
    return int(seconds)


def megabytes_of(text: str) -> int:
    """Read an amount of memory, G = 1,000 MB, rounded up."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip().upper())
    if not match:
        raise typer.BadParameter(
            f"{text!r} is not an amount of memory such as 64G or 4000M", param_hint="--mem"
        )
    return -int(-float(match[1]) * {"K": 0.001, "": 1, "M": 1, "G": 1000, "T": 1_000_000}[match[2]] // 1)


def deadline_of(text: str | None, now: int, tz: str | None) -> float | None:
    """Read a deadline as seconds from now: a duration, or a moment."""
    if text is None:
        return None
    if re.match(r"\d{4}-\d{2}-\d{2}", text):
        from procure.workload.clock import moment

        seconds = moment(text, tz or "UTC") - now
        if seconds <= 0:
            raise TableError(f"the deadline {text} has passed; a later one is needed")
        return float(seconds)
    return float(seconds_of(text, "--deadline"))


def formats_of(given: list[str]) -> tuple[Format, str | None]:
    """Tell the output format from the input format among the words of --format."""
    output, source = Format.TABLE, None
    for word in given:
        if word in ("table", "json", "csv"):
            output = Format(word)
        elif word in ("swf", "sacct", "features"):
            source = word
        else:
            raise typer.BadParameter(
                f"{word!r}; known: table, json, csv, swf, sacct, features", param_hint="--format"
            )
    return output, source


def splits_of(given: list[str]) -> list[str]:
    """Check the names of splits; each once."""
    from procure.queue_time.evaluation import SPLITS
    from procure.text import nearest

    for name in given:
        if name not in SPLITS:
            raise typer.BadParameter(f"{name!r}; {nearest(name, SPLITS)}", param_hint="--split")
    return list(dict.fromkeys(given))


def cut_of(text: str, jobs: pd.DataFrame, tz: str | None) -> int:
    """Read --test-from: an ISO time, Unix seconds, or seconds in an SWF log's own clock."""
    from procure.workload.clock import moment

    if re.fullmatch(r"-?\d+", text):
        seconds = int(text)
        between = int(jobs["submit_time"].min()) <= seconds <= int(jobs["submit_time"].max())
        return seconds if between else int(jobs.attrs.get("origin", 0)) + seconds
    return moment(text, tz or "UTC")


def followed_by(jobs: pd.DataFrame, later: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Join a log with one that follows it; the second one's first submission is the cut."""
    import pandas as pd

    cut = int(later["submit_time"].min())
    if cut < int(jobs["submit_time"].max()):
        raise TableError("--test-log begins before LOG ends; it must follow it")
    return pd.concat([jobs, later], ignore_index=True), cut


def span(seconds: float | None) -> str:
    """Write seconds as a person says them."""
    if seconds is None:
        return "–"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.0f} s"
