"""How Slurm writes durations, memory, trackable resources, arrays and node lists; and how its commands are run."""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from decimal import Decimal

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.text import NUMBER, clock_seconds, number, seconds, short
from procure.workload.ledger import LONGEST_LIMIT


def slurm_duration(text: str) -> float:
    """Return the seconds of ``D-HH:MM:SS``, ``HH:MM:SS``, ``MM:SS`` or ``D-HH``; NaN for anything else.

    ``UNLIMITED``, ``Partition_Limit`` and the like name no number of seconds: 0, no limit.
    """
    if text.upper() in ("UNLIMITED", "PARTITION_LIMIT", "INFINITE", "INVALID", ""):
        return 0.0
    text = re.sub(r"^(\d+) days?,? *", r"\1-", text)  # as pandas and Python write it
    try:
        return clock_seconds(text + "0" * text.endswith("-"))
    except ValueError:
        return float("nan")


def slurm_limit(text: str) -> int:
    """Read a job's time limit as ``sbatch --time`` does, in seconds; 0 = none.

    A number is minutes; ``MM:SS``, ``HH:MM:SS``, ``D-HH``, ``D-HH:MM``, ``D-HH:MM:SS``; 0 and ``UNLIMITED`` are no
    limit. Beyond Slurm's, a number may have a unit: ``90m``, ``8h``, ``2d``. Anything else is a ValueError.
    """
    text = text.strip()
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return 0
    try:
        read = 60 * int(text) if text.isdecimal() and text.isascii() else math.ceil(seconds(text))
    except (ValueError, OverflowError):
        read = -1
    if read < 0 or read >= LONGEST_LIMIT:
        raise ValueError(
            f"{short(text)} is no time limit; as in sbatch: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS or "
            "UNLIMITED; or a number with a unit, such as 90m, 8h, 2d"
        )
    return read


_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)([cn]?)")
_SLURM_MB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_ASKED = re.compile(rf"({NUMBER})\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def slurm_memory_limit(text: str) -> int:
    """Read an amount of memory as ``sbatch --mem`` does, in Slurm's MB of 2^20 bytes, rounded up.

    A number is MB; K, M, G and T are powers of 1,024, with or without a B. Anything else is a ValueError.
    """
    match = _ASKED.fullmatch(text.strip())
    if not match:
        raise ValueError(
            f"{short(text)} is no amount of memory; as in sbatch: a number of MB, or with K, M, G or T, such as 64G"
        )
    return math.ceil(number(match[1]) * Decimal(_SLURM_MB[match[2].upper()]))


_LONGEST_MEMORY = 20
"""Signs of an amount: 2^64 has so many."""


def slurm_memory(text: str) -> tuple[float, str]:
    """Return Slurm's memory text as MB and what it is per: ``500M`` job, ``4000Mc`` cpu, ``4Gn`` node.

    Slurm's G is 1,024 M. Old accounting leaves the flag bit "per CPU" (2^31 or 2^63) inside the
    number. Unreadable text is NaN.
    """
    if text in ("", "?", "Unknown"):
        return 0.0, "job"
    match = _MEMORY.fullmatch(text)
    if not match or len(match[1]) > _LONGEST_MEMORY:
        return float("nan"), "job"
    amount, scale, suffix = match.groups()
    for flag in (2**63, 2**31) if amount.isdigit() else ():
        if int(amount) >= flag:  # as whole numbers: 2^63 leaves a float no room for the amount
            return (int(amount) - flag) * _SLURM_MB[scale], "cpu"
    return float(amount) * _SLURM_MB[scale], {"c": "cpu", "n": "node", "": "job"}[suffix]


MOST_NAMES = 1_000_000
"""Names that a node list or an array may hold: no computer has more nodes, and Slurm keeps no more jobs."""
_MOST_CHARACTERS = 100_000_000
_LONGEST_NUMBER = 18
_RANGE = re.compile(rf"([0-9]{{1,{_LONGEST_NUMBER}}})(?:-([0-9]{{1,{_LONGEST_NUMBER}}}))?(?::([0-9]{{1,9}}))?")
_PARTS = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_NO_NODES = ("", "none assigned", "none", "unknown", "(null)", "-")
_FEWEST_IN_ALL, _CHARACTERS_PER_CHARACTER = 200_000_000, 200


def _numbers(part: str) -> tuple[range, int] | None:
    """Return the numbers of ``8``, ``08-10`` or ``0-8:4`` and their width; None for any other text."""
    match = _RANGE.fullmatch(part.strip())
    if not match:
        return None
    low, high, step = match.groups()
    return range(int(low), int(high or low) + 1, max(int(step or 1), 1)), len(low)


def _count(text: str) -> int:
    return sum(len(found[0]) if (found := _numbers(part)) else 1 for part in text.split(","))


def _refuse_many(text: str, n: int, longest: int) -> None:
    if n > MOST_NAMES or n * longest > _MOST_CHARACTERS:
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise TableError(f"{shown!r} names {n:,} nodes or tasks; at most {MOST_NAMES:,} can be named at once")


def _expand_range(text: str) -> list[str]:
    """Expand ``1-3,5`` to its numbers, zero padding kept (``08-10`` → 08, 09, 10); ``0-8:4`` has a step."""
    _refuse_many(text, _count(text), _LONGEST_NUMBER)
    numbers: list[str] = []
    for part in text.split(","):
        found = _numbers(part)
        numbers += [part.strip()] if found is None else [f"{n:0{found[1]}d}" for n in found[0]]
    return numbers


def expand_nodes(text: str) -> list[str]:
    """Expand a node list such as ``c[1-3,5],g2`` to the names of its nodes, in order; at most `MOST_NAMES`."""
    cut = [re.split(r"\[([^\[\]]*)\]", part.strip()) for part in _PARTS.findall(text)]
    sizes = [(math.prod(map(_count, pieces[1::2])), _longest(pieces)) for pieces in cut]
    _refuse_many(text, sum(n for n, _ in sizes), max((longest for _, longest in sizes), default=0))
    names: list[str] = []
    for head, *pieces in cut:
        expanded = [head]
        for inside, tail in zip(pieces[::2], pieces[1::2], strict=True):
            expanded = [name + n + tail for name in expanded for n in _expand_range(inside)]
        names += expanded
    return names


def _longest(pieces: list[str]) -> int:
    """Return how many characters a name has at most."""
    inside = (max(map(len, text.split(","))) for text in pieces[1::2])
    return sum(map(len, pieces[::2])) + sum(max(longest, _LONGEST_NUMBER) for longest in inside)


def node_names(lists: pd.Series) -> np.ndarray:
    """Return the names of each node list joined by commas, empty where no node was assigned.

    Raises
    ------
    TableError
        A list, or all of them together, name more nodes than a log of this length does.
    """
    codes, different = pd.factorize(lists.fillna("").astype(str).str.strip())
    left = max(_FEWEST_IN_ALL, _CHARACTERS_PER_CHARACTER * int(lists.str.len().sum()))
    names = []
    for text in different:
        names.append("" if text.lower() in _NO_NODES else ",".join(expand_nodes(text)))
        left -= len(names[-1])
        if left < 0:
            raise TableError(
                "the node lists name far more nodes than a log of this length does; if that is right, leave the "
                "column with the node lists out"
            )
    return np.array(names, dtype=object)[codes]


def names_of(lists: np.ndarray | None, n: int) -> np.ndarray:
    """Return how many nodes each of ``n`` lists of `node_names` names, NaN where none is named."""
    found = np.full(n, math.nan) if lists is None else pd.Series(lists).str.count(",").to_numpy(float) + 1
    return found if lists is None else np.where(lists == "", math.nan, found)


def parse_tres(text: str) -> tuple[float, float, float, float, str, bool]:
    """Return CPUs, MB, nodes, GPUs, the GPU model and whether the text is unreadable.

    ``gres/gpu:a100=2,gres/gpu=2`` is two GPUs: the typed entries detail the untyped total. Where only
    typed ones stand, their sum counts. Several models leave the model open. What the text does not
    speak of is NaN; no mention of a GPU beside other resources is none.
    """
    found, typed = dict[str, float](), dict[str, float]()
    for item in filter(None, text.split(",")):
        key, _, value = re.sub(r"^gres[/:]", "", item.strip(), flags=re.IGNORECASE).partition("=")
        kind, colon, model = key.partition(":")
        count = float(value) if value.replace(".", "", 1).isdigit() else math.nan
        if kind.lower() in ("cpu", "mem", "node", "gpu"):
            held = typed if colon else found
            held[model or kind.lower()] = slurm_memory(value)[0] if kind.lower() == "mem" else count
    bad = (bool(text) and "=" not in text) or not all(abs(n) < 2**53 for n in (*found.values(), *typed.values()))
    if bad:
        return math.nan, math.nan, math.nan, math.nan, "", True
    gpus = max(found.get("gpu", 0.0), sum(typed.values())) if found or typed else math.nan
    cpu, mem, node = (found.get(name, math.nan) for name in ("cpu", "mem", "node"))
    return cpu, mem, node, gpus, next(iter(typed)) if len(typed) == 1 else "", False


MODEL = r"\d*[A-Za-z_.-][\w.-]*|\d+(?=[:=]\d)"
"""A GPU's model; one of digits alone, such as 3090, is followed by how many."""
_GRES = re.compile(
    rf"(?:PER_[A-Z]+:)?(?:gres[:/])?(?:gpu|7696487)(?::({MODEL}))?(?:[:=](\d+))?(?:\(.*\))?", re.IGNORECASE
)


def parse_gres(text: str) -> tuple[float, str]:
    """Return the GPUs, 0 if none, and their model, of ``gpu:2``, ``gres:gpu:v100:4``, ``gpu:a100:2(S:0-1)``.

    A list of several models leaves the model open. sacct prints the number 7696487 for a plugin gpu that it lacks.
    """
    n, models = 0.0, set[str]()
    for part in re.split(r",(?![^(]*\))", text):
        if match := _GRES.fullmatch(part.strip()):
            n += float(match[2] or 1)
            models.add(match[1] or "")
    return n, next(iter(models)) if len(models) == 1 else ""


_ARRAY = re.compile(r"(.+)_\[([^\[\]%]*)(?:%\d+)?\]")


def refuse_many_tasks(job_ids: Iterable[str], source: str) -> None:
    """Raise a `TableError` if the pending arrays among some JobIDs have more than `MOST_NAMES` tasks together."""
    n = sum(_count(match.group(2)) for job_id in job_ids if (match := _ARRAY.fullmatch(job_id)))
    if n > MOST_NAMES:
        raise TableError(f"{source}: the pending arrays have {n:,} tasks; at most {MOST_NAMES:,} can be read")


def array_tasks(job_id: str) -> list[str]:
    """Return the JobIDs of a pending array's tasks; any other JobID alone."""
    match = _ARRAY.fullmatch(job_id)
    if not match:
        return [job_id]
    return [f"{match.group(1)}_{task}" for task in _expand_range(match.group(2)) if task.isdigit()]


PATIENCE = 60
"""Seconds that a command of Slurm may take."""

_NOT_TAKEN = re.compile(r"SLURM_(CLUSTERS|TIME_FORMAT)|(SQUEUE|SINFO|SACCT|SCONTROL)_\w+")
"""Variables that would have Slurm's commands show another cluster, a part of the jobs, or other times."""


def run_slurm(command: Sequence[str], patience: int = PATIENCE, *, unix_times: bool = False) -> str:
    """Run a command of Slurm and return what it prints; lists of array tasks are whole.

    Words ``NAME=VALUE`` before the program are its environment, as in a shell; ``unix_times`` has it print times as
    Unix seconds. That it is not installed here, gave no answer within ``patience`` s, or failed is a `TableError`.
    """
    n = next(i for i, word in enumerate(command) if "=" not in word)
    name, environment = command[n], {key: value for key, value in os.environ.items() if not _NOT_TAKEN.fullmatch(key)}
    environment |= {"SLURM_BITSTR_LEN": "0"} | ({"SLURM_TIME_FORMAT": "%s"} if unix_times else {})
    environment |= dict(word.split("=", 1) for word in command[:n])
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
