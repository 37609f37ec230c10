"""The read-only commands that print what a site folder is made from."""

from __future__ import annotations

import shutil
from datetime import date, timedelta
from pathlib import Path

from procure.errors import TableError
from procure.files import whole_file
from procure.workload.read_sacct import FIELDS, LAST_FIELD
from procure.workload.slurm import PATIENCE, run_slurm

COMMANDS = {
    "config.txt": "scontrol show config",
    "partition.txt": "scontrol --all show partition",
    "node.txt": "scontrol --all show node",
    "reservation.txt": "scontrol show reservation",
    "license.txt": "scontrol show license",
    "topology.conf": "scontrol show topology",
    "database.txt": "sacctmgr show config",
    "qos.txt": "sacctmgr show qos --parsable",
    # Of a QOS what is not printed unless asked for; an old Slurm that lacks one of these fails, and says so.
    "qos_rest.txt": "sacctmgr show qos --parsable format=Name,MaxWall,LimitFactor,MinPrioThres,GrpJobsAccrue",
    "assoc.txt": "sacctmgr show assoc tree --parsable",
    "event.txt": "sacctmgr show event --parsable start={begin}",
    "reservation_past.txt": (
        "sacctmgr show reservation --parsable start={begin} end={end} "
        "format=Cluster,Name,Start,End,NodeNames,Flags,TRES"
    ),
    "share.txt": "sshare --all --long --parsable2",
    "jobs.psv": (
        "SLURM_TIME_FORMAT=%s sacct --allusers --allocations --duplicates --parsable2 --noconvert "
        f"--starttime={{begin}} --endtime={{end}} --format={FIELDS},{LAST_FIELD}"
    ),
}
"""By the file that takes what each prints; ``begin`` and ``end`` are days."""
DAYS = 31
"""So many days before the end are asked for where no begin is given."""
TIMEOUT = {"jobs.psv": 3600}
"""Seconds after which a command is given up, by file; `PATIENCE` for every other."""


def commands(begin: str = "", end: str = "") -> dict[str, str]:
    """Return the commands by the file that takes what each prints.

    From the first day until before the last, YYYY-MM-DD, in the cluster's time; by default `DAYS` until today. What is
    no day, and an end that is not after the begin, are a ValueError.
    """
    until = _day(end) if end else date.today()
    since = _day(begin) if begin else until - timedelta(days=DAYS)
    if since >= until:
        raise ValueError(f"{since} to {until} is no span of days; the end is after the begin")
    return {name: text.format(begin=since, end=until) for name, text in COMMANDS.items()}


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no day; write it as 2026-03-01") from None


def shell_lines(folder: str = "slurm", begin: str = "", end: str = "") -> list[str]:
    """Return the commands as lines of a shell; see `commands`."""
    lines = commands(begin, end).items()
    return [f"mkdir -p {folder}", *(f"{command} > {folder}/{name}" for name, command in lines)]


def _printed(command: str, patience: int) -> str:
    """Run a command; an sacct that does not know the last field (before Slurm 21.08) is asked without it."""
    try:
        return run_slurm(command.split(), patience)
    except TableError as error:
        if LAST_FIELD not in str(error) or f",{LAST_FIELD}" not in command:
            raise
        return run_slurm(command.replace(f",{LAST_FIELD}", "").split(), patience)


def collect(folder: str | Path, begin: str = "", end: str = "") -> list[str]:
    """Run the `commands` and keep what they print; returns a sentence for each that failed or printed nothing.

    Without scontrol it is a TableError.
    """
    if shutil.which("scontrol") is None:
        raise TableError("there is no scontrol here; run what procure site collect prints on a node of the cluster")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name, command in commands(begin, end).items():
        asked = command.replace(" --all", "").split("--")[0].strip()
        try:
            printed = _printed(command, TIMEOUT.get(name, PATIENCE))
        except TableError as error:
            failed.append(f"{asked}: {error}")
            continue
        if not printed.strip():
            failed.append(f"{asked}: printed nothing")
            continue
        with whole_file(folder / name) as temporary:
            temporary.write_text(printed, encoding="utf-8")
    return failed
