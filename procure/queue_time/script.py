"""What a batch script asks for: its #SBATCH lines as a request."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from procure.errors import TableError
from procure.queue_time.predict import Request
from procure.workload.slurm_text import array_tasks, slurm_limit, slurm_memory_limit

_SHORT = {
    "c": "cpus-per-task", "n": "ntasks", "N": "nodes", "t": "time", "p": "partition", "b": "begin", "d": "dependency",
    "a": "array", "G": "gpus",
}  # fmt: skip
_COUNTS = ("cpus-per-task", "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task")


@dataclass(frozen=True)
class Script:
    """A batch script.

    Attributes
    ----------
    request
        What its job asks for; ``partition`` and ``user`` are empty where it does not say.
    notes
        Sentences on what a forecast counts from, or does not look at.
    """

    request: Request
    notes: tuple[str, ...]


def read_script(path: Path) -> Script:
    """Read the #SBATCH lines of a batch script, up to its first command, as sbatch does.

    Raises
    ------
    TableError
        No such file, no #SBATCH line, or an amount that cannot be read.
    """
    if not path.is_file():
        raise TableError(f"{path}: no such file; a batch script with #SBATCH lines is needed")
    given: dict[str, str] = {}
    lines: dict[str, int] = {}
    het = False
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line.startswith("#SBATCH"):
            if line.strip() and not line.startswith("#"):
                break
            continue
        if line.split()[1:2] in (["hetjob"], ["packjob"]):
            het = True
            break
        try:
            words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
        except ValueError:
            raise TableError(f"{path}, line {number}: a quotation mark is not closed") from None
        found = _options(words)
        given |= found
        lines |= dict.fromkeys(found, number)
    if not given:
        raise TableError(f"{path}: no #SBATCH line before the first command; give --cpus and --time instead")
    try:
        return Script(_request(given), _notes(given, het))
    except _Unreadable as error:
        raise TableError(f"{path}, line {lines[error.name]}: --{error.name}={given[error.name]} {error}") from None


class _Unreadable(Exception):
    """The text of an option ``name`` cannot be read, and why."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name


def _options(words: list[str]) -> dict[str, str]:
    """Read options as sbatch takes them: --name=value, --name value, -x value, -xvalue."""
    found: dict[str, str] = {}
    place = 0
    while place < len(words):
        word, place = words[place], place + 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif word.startswith("-") and word[1:2] in _SHORT:
            name, value = _SHORT[word[1]], word[2:].removeprefix("=")
            equals = value
        else:
            continue
        if not equals and place < len(words) and not words[place].startswith("-"):
            value, place = words[place], place + 1
        found[name] = value
    return found


def _request(given: dict[str, str]) -> Request:
    model, counts = "", {}
    for name in _COUNTS:
        text = given.get(name, "")
        kind, _, number = text.rpartition(":")
        model = kind or model
        counts[name] = _whole(name, number, 0)
    nodes = _whole("nodes", given.get("nodes", "").split("-")[0], 0)
    per_node = counts["ntasks-per-node"]
    tasks = counts["ntasks"] or max(nodes, 1) * max(per_node, 1)
    nodes = nodes or (-(-tasks // per_node) if per_node else 1)
    cpus = tasks * max(counts["cpus-per-task"], 1)
    gpus = max(counts["gpus"], nodes * counts["gpus-per-node"], tasks * counts["gpus-per-task"])
    for item in given.get("gres", "").removeprefix("gres/").split(","):
        parts = item.replace("=", ":").split(":")
        if parts[0] == "gpu":
            number = parts[-1].split("(")[0]
            gpus = max(gpus, nodes * (int(number) if number.isdigit() else 1))
            model = next((part for part in parts[1:] if not part[:1].isdigit()), model)
    memory = _amount(given, "mem", slurm_memory_limit)
    memory = memory or _amount(given, "mem-per-cpu", slurm_memory_limit) * -(-cpus // nodes)
    limit = _amount(given, "time", slurm_limit)
    return Request(cpus, limit, memory, gpus, nodes, given.get("partition", "").split(",")[0], gpu_type=model)


def _whole(name: str, text: str, default: int) -> int:
    if not text:
        return default
    if not re.fullmatch(r"\d{1,9}", text):
        raise _Unreadable(name, "is not a whole number")
    return int(text)


def _amount(given: dict[str, str], name: str, read: Callable[[str], int]) -> int:
    try:
        return read(given[name]) if given.get(name) else 0
    except ValueError as error:
        raise _Unreadable(name, f"cannot be read: {error}") from None


def _notes(given: dict[str, str], het: bool) -> tuple[str, ...]:
    found = []
    if given.get("dependency"):
        found.append(f"the wait counts from when its dependency is met ({given['dependency']}): until then it is held")
    if given.get("begin"):
        found.append(f"the wait counts from its begin time, {given['begin']}")
    if given.get("array"):
        tasks, _, at_once = given["array"].partition("%")
        n = len(array_tasks(f"1_[{tasks}]"))
        limit = (
            f", and at most {at_once} of them run at once: later ones wait for earlier ones to end" if at_once else ""
        )
        found.append(f"the forecast is of the first of {n:,} array tasks{limit}")
    if het:
        found.append("only the first component of the heterogeneous job is looked at; all of them start together")
    if not given.get("time"):
        found.append("the script has no --time: the partition's own limit is not known here, none is assumed")
    return tuple(found)
