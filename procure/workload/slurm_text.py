"""How Slurm writes durations, memory, trackable resources, arrays and node lists."""

from __future__ import annotations

import math
import re

from procure.text import clock_seconds


def slurm_duration(text: str) -> float:
    """Return the seconds of ``D-HH:MM:SS``, ``HH:MM:SS``, ``MM:SS`` or ``D-HH``; NaN for anything else.

    ``UNLIMITED``, ``Partition_Limit`` and the like name no number of seconds: 0, no limit.
    """
    if text.upper() in ("UNLIMITED", "PARTITION_LIMIT", "INFINITE", "INVALID", ""):
        return 0.0
    try:
        return clock_seconds(text)
    except ValueError:
        return float("nan")


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


_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?(?::(\d{1,18}))?")


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


def parse_tres(text: str) -> tuple[float, float, float, float, str, bool]:
    """Return CPUs, MB, nodes, GPUs, the GPU model and whether the text is unreadable.

    ``gres/gpu:a100=2,gres/gpu=2`` is two GPUs: the typed entries detail the untyped total. Where only
    typed ones stand, their sum counts. Several models leave the model open. What the text does not
    speak of is NaN; no mention of a GPU beside other resources is none.
    """
    nan = float("nan")
    found: dict[str, float] = {}
    typed: dict[str, float] = {}
    for item in filter(None, text.split(",")):
        key, _, value = item.partition("=")
        amount = float(value) if value.replace(".", "", 1).isdigit() else nan
        if key == "mem":
            found[key] = slurm_memory(value)[0]
        elif key in ("cpu", "node", "gres/gpu"):
            found[key] = amount
        elif key.startswith("gres/gpu:"):
            typed[key.removeprefix("gres/gpu:")] = amount
    bad = not all(map(math.isfinite, (*found.values(), *typed.values())))
    bad |= bool(text) and "=" not in text
    gpus = max(found.get("gres/gpu", 0.0), sum(typed.values())) if found or typed else nan
    model = next(iter(typed)) if len(typed) == 1 else ""
    return found.get("cpu", nan), found.get("mem", nan), found.get("node", nan), gpus, model, bad


_ARRAY = re.compile(r"(.+)_\[([^\]%]*)(?:%\d+)?\]")


def array_tasks(job_id: str) -> list[str]:
    """Return the JobIDs of a pending array's tasks; any other JobID alone."""
    match = _ARRAY.fullmatch(job_id)
    if not match:
        return [job_id]
    return [f"{match.group(1)}_{task}" for task in expand_range(match.group(2)) if task.isdigit()]
