"""The environment in which a command of Slurm is run."""

from __future__ import annotations

import os
import re

_NOT_TAKEN = re.compile(r"SLURM_(CLUSTERS|TIME_FORMAT)|(SQUEUE|SINFO|SACCT|SCONTROL)_\w+")
"""Variables that would have Slurm's commands show another cluster, a part of the jobs, or other times."""


def slurm_environment(**more: str) -> dict[str, str]:
    """Return our environment without what changes what Slurm's commands show, lists of array tasks whole, and more."""
    kept = {name: value for name, value in os.environ.items() if not _NOT_TAKEN.fullmatch(name)}
    return kept | {"SLURM_BITSTR_LEN": "0"} | more
