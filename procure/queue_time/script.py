"""What a batch script asks for: its #SBATCH lines as a request."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from procure.errors import TableError
from procure.queue_time.predict import Request
from procure.workload.asked import Unreadable, amount, asked_for, script_options
from procure.workload.slurm import array_tasks, slurm_limit


class Script(NamedTuple):
    """What the job of a batch script asks for."""

    request: Request  # its ``partition`` and ``user`` are empty where the script does not say
    notes: tuple[str, ...]  # sentences on what a forecast counts from, or does not look at


def read_script(path: Path) -> Script:
    """Read the #SBATCH lines of a batch script, up to its first command, as sbatch does."""
    if not path.is_file():
        raise TableError(f"{path}: no such file; a batch script with #SBATCH lines is needed")
    try:
        found = script_options(path.read_text(encoding="utf-8", errors="replace"))
    except Unreadable as error:
        raise TableError(f"{path}, line {error.name}: {error}") from None
    given = {name: text for name, (text, _) in found.items()}
    if not given.keys() - {"hetjob"}:
        raise TableError(f"{path}: no #SBATCH line before the first command; give --cpus and --time instead")
    try:
        return Script(_request(given), _notes(given))
    except Unreadable as error:
        text, line = found[error.name]
        raise TableError(f"{path}, line {line}: --{error.name}={text} {error}") from None


def _request(given: dict[str, str]) -> Request:
    """Return the request: tasks that go anywhere count as on the fewest nodes that they may have."""
    asked = asked_for(given)
    nodes = max(asked.min_nodes, -(-asked.n_tasks // asked.tasks_per_node) if asked.tasks_per_node else 1)
    on_each = -(-asked.n_tasks // nodes)
    memory = on_each * asked.mem_mb_per_task or max(asked.mem_mb_per_node, 0)
    gpus = asked.n_tasks * asked.gpus_per_task or nodes * asked.gpus_per_node
    limit, partition = amount(given, "time", slurm_limit), given.get("partition", "").split(",")[0]
    cpus = asked.n_tasks * asked.cpus_per_task
    return Request(cpus, limit, memory, gpus, nodes, partition, gpu_type=asked.gpu_type)


def _notes(given: dict[str, str]) -> tuple[str, ...]:
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
    if "hetjob" in given:
        found.append("only the first component of the heterogeneous job is looked at; all of them start together")
    if not given.get("time"):
        found.append("the script has no --time: the partition's own limit is not known here, none is assumed")
    return tuple(found)
