"""Run a command of Slurm: in an environment that the user's cannot bend, and no longer than it may take."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence

from procure.errors import TableError

PATIENCE = 60
"""Seconds that a command of Slurm may take."""

_NOT_TAKEN = re.compile(r"SLURM_(CLUSTERS|TIME_FORMAT)|(SQUEUE|SINFO|SACCT|SCONTROL)_\w+")
"""Variables that would have Slurm's commands show another cluster, a part of the jobs, or other times."""


def slurm_environment(**more: str) -> dict[str, str]:
    """Return our environment without what changes what Slurm's commands show, lists of array tasks whole, and more."""
    kept = {name: value for name, value in os.environ.items() if not _NOT_TAKEN.fullmatch(name)}
    return kept | {"SLURM_BITSTR_LEN": "0"} | more


def run_slurm(command: Sequence[str], patience: int = PATIENCE, *, unix_times: bool = False) -> str:
    """Run a command of Slurm and return what it prints.

    Parameters
    ----------
    command
        Its words. Those ``NAME=VALUE`` before the program are its environment, as in a shell; lists of array tasks are
        whole.
    patience
        Seconds after which it is given up.
    unix_times
        Have it print times as Unix seconds.

    Raises
    ------
    TableError
        It is not installed here, gave no answer in time, or failed: in its own last line.
    """
    n = next(i for i, word in enumerate(command) if "=" not in word)
    more = {"SLURM_TIME_FORMAT": "%s"} if unix_times else {}
    name, environment = command[n], slurm_environment(**more, **dict(word.split("=", 1) for word in command[:n]))
    try:
        done = subprocess.run(command[n:], capture_output=True, timeout=patience, check=False, env=environment)
    except FileNotFoundError:
        raise TableError(f"{name} is not installed here") from None
    except subprocess.TimeoutExpired:
        raise TableError(f"{name} has not answered within {patience:,} s") from None
    except OSError as error:
        raise TableError(f"{name} could not be run: {error.strerror}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise TableError(f"{name} failed: {said[-1][:200] if said else f'exit code {done.returncode}'}")
    return done.stdout.decode(errors="replace")
