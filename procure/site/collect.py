"""The read-only commands that print what a site folder is made from."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from procure.errors import TableError
from procure.files import whole_file
from procure.workload.read_sacct import FIELDS
from procure.workload.slurm_env import slurm_environment

COMMANDS = {
    "config.txt": "scontrol show config",
    "partition.txt": "scontrol show partition",
    "node.txt": "scontrol show node",
    "reservation.txt": "scontrol show reservation",
    "topology.conf": "scontrol show topology",
    "qos.txt": "sacctmgr show qos --parsable",
    "assoc.txt": "sacctmgr show assoc --parsable",
    "event.txt": "sacctmgr show event --parsable start=2025-01-01",
    "jobs.psv": (
        "SLURM_TIME_FORMAT=%s sacct --allusers --allocations --duplicates --parsable2 --noconvert "
        f"--starttime=2025-01-01 --endtime=2025-02-01 --format={FIELDS}"
    ),
}
"""By the file that takes what each prints."""


def shell_lines(folder: str = "slurm") -> list[str]:
    """Return the commands as lines of a shell."""
    return [f"mkdir -p {folder}", *(f"{command} > {folder}/{name}" for name, command in COMMANDS.items())]


def collect(folder: str | Path) -> list[str]:
    """Run the commands and keep what they print; returns a sentence for each that failed.

    Raises
    ------
    TableError
        There is no scontrol here.
    """
    if shutil.which("scontrol") is None:
        raise TableError(
            "there is no scontrol here; run what procure site collect --print-commands prints on a node of the cluster"
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name, command in COMMANDS.items():
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=slurm_environment())
        if done.returncode or not done.stdout.strip():
            failed.append(f"{command.split('--')[0].strip()}: {(done.stderr or 'printed nothing').strip()[:200]}")
        else:
            with whole_file(folder / name) as temporary:
                temporary.write_text(done.stdout, encoding="utf-8")
    return failed
