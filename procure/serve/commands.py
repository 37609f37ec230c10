"""Run Slurm's commands: as they are meant, whatever the environment says, and no longer than they may take."""

from __future__ import annotations

import shutil
import subprocess
import time as clock

from procure.errors import TableError
from procure.workload.slurm_env import slurm_environment

PATIENCE = 60
"""Seconds that a command of Slurm may take."""
SPELT = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
"""Times as Unix seconds, and lists of array tasks whole."""


def stamp(seconds: int) -> str:
    """Write a moment as sacct reads it."""
    return clock.strftime("%Y-%m-%dT%H:%M:%S", clock.localtime(seconds))  # sacct reads local times alone


def run_slurm(command: list[str]) -> str:
    """Run a command of Slurm and return what it prints, or say in a sentence what it lacked."""
    name = command[0]
    if shutil.which(name) is None:
        raise TableError(f"{name} is not installed here; run the service where Slurm's commands are")
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            env=slurm_environment(**SPELT),
        )
    except subprocess.TimeoutExpired:
        raise TableError(f"{name} has not answered within {PATIENCE} s") from None
    except OSError as error:
        raise TableError(f"{name} could not be run: {error.strerror}") from None
    said = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode:
        raise TableError(f"{name} failed: {said[-1][:200] if said else f'exit code {done.returncode}'}")
    return done.stdout.decode(errors="replace")
