"""Units of a log, read at the border: memory, durations, amounts per job, node or CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.text import nearest

MEMORY_BYTES = {
    "B": 1, "kB": 10**3, "KB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30,
    "TB": 10**12, "TiB": 2**40,
}  # fmt: skip
"""Memory units that a mapping may state; the job table holds MB of 10^6 bytes."""

SECONDS = {"s": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 0.001, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Time units that a mapping may state; the job table holds seconds."""

COUNTS = {"milli": 1000, "percent": 100}
"""Parts of a CPU or GPU that a mapping may state: so many are one."""

PER = ("node", "job", "cpu")
LONGEST_LIMIT = 10 * 365 * 86_400
"""A time limit of ten years or more is none: logs write the largest number that fits (2,147,483,647 s) for it."""
MOST_MEMORY = 4_000_000
"""MB; no job asks for more memory per CPU, so a log that says so is read in a wrong unit."""


def memory_mb(values: np.ndarray, unit: str) -> np.ndarray:
    """Turn memory into MB, not yet rounded."""
    if unit not in MEMORY_BYTES:
        raise TableError(f"unknown memory unit {unit!r}; {nearest(unit, MEMORY_BYTES)}")
    return values * MEMORY_BYTES[unit] / 1e6


def real_limits(values: np.ndarray) -> np.ndarray:
    """Return time limits in seconds, 0 where one is so long that it is none."""
    return np.where(values >= LONGEST_LIMIT, 0, values)


def seconds(values: np.ndarray, unit: str) -> np.ndarray:
    """Turn durations into whole seconds, rounded up."""
    return np.ceil(values * SECONDS[unit])


def per_node(amount: np.ndarray, per: str, n_nodes: np.ndarray, cpus_per_node: np.ndarray) -> np.ndarray:
    """Turn an amount per job, node or CPU into one per node, rounded up."""
    if per not in PER:
        raise TableError(f"an amount is per node, job or cpu; {per!r} was given")
    return np.ceil({"node": amount, "job": amount / n_nodes, "cpu": amount * cpus_per_node}[per])


def by_value(text: pd.Series, parse: Callable[[str], tuple], dtype: list[type]) -> list[np.ndarray]:
    """Parse each different text once and spread the answers over the rows, one array per field."""
    codes, different = pd.factorize(text.fillna("").astype(str))
    answers = [parse(value.strip()) for value in different]
    fields = zip(*answers, strict=True) if answers else [() for _ in dtype]
    return [np.array(values, dtype=kind)[codes] for values, kind in zip(fields, dtype, strict=True)]
