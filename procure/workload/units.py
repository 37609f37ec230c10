"""Units of a log, read at the border: memory, durations, amounts per job, node or CPU."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.tables import nearest

MEMORY_BYTES = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "KiB": 2**10,
    "MB": 10**6,
    "MiB": 2**20,
    "GB": 10**9,
    "GiB": 2**30,
    "TB": 10**12,
    "TiB": 2**40,
}
"""Memory units that a mapping may state; the job table holds MB of 10^6 bytes."""

SECONDS = {"s": 1.0, "ms": 0.001, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Time units that a mapping may state; the job table holds seconds."""

PER = ("node", "job", "cpu")


def whole(values: np.ndarray) -> np.ndarray:
    """Round up to whole numbers, NaN left as it is."""
    return np.ceil(values)


def memory_mb(values: np.ndarray, unit: str) -> np.ndarray:
    """Turn memory into MB, not yet rounded."""
    if unit not in MEMORY_BYTES:
        raise TableError(f"unknown memory unit {unit!r}; {nearest(unit, MEMORY_BYTES)}")
    return values * MEMORY_BYTES[unit] / 1e6


def seconds(values: np.ndarray, unit: str) -> np.ndarray:
    """Turn durations into whole seconds, rounded up."""
    if unit not in SECONDS:
        raise TableError(f"unknown time unit {unit!r}; {nearest(unit, SECONDS)}")
    return whole(values * SECONDS[unit])


def per_node(amount: np.ndarray, per: str, n_nodes: np.ndarray, cpus_per_node: np.ndarray) -> np.ndarray:
    """Turn an amount per job, node or CPU into one per node, rounded up."""
    if per not in PER:
        raise TableError(f"an amount is per node, job or cpu; {per!r} was given")
    if per == "job":
        return whole(amount / n_nodes)
    if per == "cpu":
        return whole(amount * cpus_per_node)
    return whole(amount)


def by_value(text: pd.Series, parse: Callable[[str], tuple], dtype: list[object]) -> list[np.ndarray]:
    """Parse each different text once and spread the answers over the rows, one array per field."""
    codes, different = pd.factorize(text.fillna("").astype(str))
    answers = [parse(value.strip()) for value in different]
    fields = zip(*answers, strict=True) if answers else [() for _ in dtype]
    return [np.array(values, dtype=kind)[codes] for values, kind in zip(fields, dtype, strict=True)]


_DURATION = re.compile(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)(?:\.\d+)?")


def slurm_duration(text: str) -> float:
    """Return the seconds of ``D-HH:MM:SS``, ``HH:MM:SS``, ``MM:SS`` or ``D-HH``; NaN for anything else.

    ``UNLIMITED``, ``Partition_Limit`` and the like name no number of seconds: 0, no limit.
    """
    if text.upper() in ("UNLIMITED", "PARTITION_LIMIT", "INFINITE", "INVALID", ""):
        return 0.0
    match = _DURATION.fullmatch(text)
    if not match:
        return float("nan")
    days, first, second, third = match.groups()
    if days and second is None:
        return int(days) * 86400.0 + int(third) * 3600.0
    if days and first is None:
        return int(days) * 86400.0 + int(second) * 3600.0 + int(third) * 60.0
    return int(days or 0) * 86400.0 + int(first or 0) * 3600.0 + int(second or 0) * 60.0 + int(third)


_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)([cn]?)")
_SLURM_MB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_PER_CPU_FLAGS = (2**63, 2**31)


def slurm_memory(text: str) -> tuple[float, str]:
    """Return Slurm's memory text as MB and what it is per: ``500M`` job, ``4000Mc`` cpu, ``4Gn`` node.

    Slurm's G is 1,024 M. Old accounting leaves the flag bit "per CPU" (2^31 or 2^63) inside the
    number. Unreadable text is NaN.
    """
    if text in ("", "?", "Unknown"):
        return 0.0, "job"
    match = _MEMORY.fullmatch(text)
    if not match:
        return float("nan"), "job"
    amount, scale, suffix = match.groups()
    mb = float(amount) * _SLURM_MB[scale]
    for flag in _PER_CPU_FLAGS:
        if mb >= flag:
            return mb - flag, "cpu"
    return mb, {"c": "cpu", "n": "node", "": "job"}[suffix]


_RANGE = re.compile(r"(\d+)(?:-(\d+))?(?::(\d+))?")


def expand_range(text: str) -> list[str]:
    """Expand ``1-3,5`` to its numbers, zero padding kept (``08-10`` → 08, 09, 10); ``0-8:4`` has a step."""
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            numbers.append(part.strip())
            continue
        low, high, step = match.groups()
        width = len(low)
        numbers += [f"{n:0{width}d}" for n in range(int(low), int(high or low) + 1, int(step or 1))]
    return numbers


def expand_nodes(text: str) -> list[str]:
    """Expand a node list such as ``c[1-3,5],g2`` to the names of its nodes, in order."""
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        pieces = re.split(r"\[([^\]]*)\]", part.strip())
        expanded = [pieces[0]]
        for i in range(1, len(pieces), 2):
            expanded = [head + n + pieces[i + 1] for head in expanded for n in expand_range(pieces[i])]
        names += expanded
    return names


_NO_NODES = ("", "none assigned", "none", "unknown", "(null)")


def node_names(text: str) -> tuple[str]:
    """Return the names of a node list joined by commas, empty where no node was assigned."""
    return ("" if text.strip().lower() in _NO_NODES else ",".join(expand_nodes(text)),)
