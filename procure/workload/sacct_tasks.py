"""Which of sacct's jobs asked for tasks: by their command lines, else by what was counted beside what they got."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.text import counted, short
from procure.workload.asked import Asked, asked_for, beside_sizes, by_gpu, line_options
from procure.workload.ledger import Ledger
from procure.workload.units import by_value


class Seen(NamedTuple):
    """What the accounting counts of each job: CPUs asked for (0 = not said), nodes wished and given, and two signs."""

    cpus: np.ndarray
    wished: np.ndarray
    given: np.ndarray
    spread: np.ndarray
    """It asked for tasks alone, which is counted as one node, and got several."""
    per_node: np.ndarray
    """Its memory is that of each node."""
    all_memory: np.ndarray
    """No memory is counted as asked for, and some as given: that of whole nodes."""
    uneven: np.ndarray
    """Its GPUs do not part evenly over its nodes."""
    held: np.ndarray
    """CPUs that it got."""
    more: dict[str, np.ndarray]
    """It got the GPUs that it asked for, and more of ``cpu`` or ``mem`` than it asked for."""


def read_line(line: str, cpus: int = 0, nodes: int = 0) -> tuple[Any, ...]:
    """Read a line beside the CPUs and nodes counted: the columns of `_FIELDS`, the last = it is unreadable."""
    try:
        options = line_options(line)
        if nodes > 1 and not options.keys() & {"nodes", "ntasks-per-node"}:
            options["nodes"] = str(nodes)
        asked = by_gpu(asked_for(options, cpus), options) if cpus or options.keys() & _SIZES else Asked()
        return *asked, *beside_sizes(options), False
    except ValueError:
        return *Asked(), "", "", "", "", "", "", 0, "", 0, True


def _read_key(key: str) -> tuple[Any, ...]:
    cpus, nodes, *line = key.split(" ", 2)
    return read_line("".join(line), int(cpus), int(nodes))


_SIZES = {"ntasks", "nodes", "cpus-per-task", "ntasks-per-node", "ntasks-per-gpu"}
_FIELDS: list[type] = [
    object, *[np.int64] * 9, object, bool, bool, np.int64, *[object] * 6, np.int64, object, np.int64, bool,
]  # fmt: skip


def line_columns(
    columns: dict[str, Any], seen: Seen, lines: pd.Series | None, asks: str | None, ledger: Ledger
) -> dict[str, Any]:
    """Return the columns with what each job's command line tells: its tasks, dependency, array, licences, nice.

    ``asks`` is what jobs asked for of which nothing tells; without it their logged shape is kept, and is unknown.
    """
    text = pd.Series("", index=range(len(seen.cpus))) if lines is None else lines.reset_index(drop=True).str.strip()
    keys = pd.Series(seen.cpus.astype(str)) + " " + seen.wished.astype(str) + " " + text
    fields = by_value(keys, _read_key, _FIELDS)
    asked = dict(zip(Asked._fields, fields, strict=False))
    bad = fields[-1] & ledger.keep
    if bad.any():
        first = text.iloc[int(np.argmax(bad))]
        ledger.note(
            f"{counted(int(bad.sum()), 'submit line')} cannot be read, first {short(first)}: the shape that the log "
            "shows is taken, and what these jobs depend on is not known"
        )
    told = ("partitions", "own_cores", "reservation", "dependency", "array_limit", "licenses", "nice")
    for name, values in zip(told, fields[-8:-1], strict=True):
        if name == "reservation" and name in columns:  # Slurm names none for a job that came before it had begun
            columns[name] = np.where(columns[name] == "", values, columns[name])
        if name not in columns and any(values[ledger.keep]):
            columns[name] = values
    if len(names := pd.Series(fields[-9][ledger.keep]).str.split().explode().dropna()):
        each = ", ".join(f"--{name} {n:,}" for name, n in names.value_counts().sort_index().items())
        ledger.note(
            f"{counted(names.index.nunique(), 'job')} name options that no policy goes by, and may start on "
            f"other nodes or at other times than logged: {each}"
        )
    if asked["exclusive"].any():
        columns["exclusive"] = asked["exclusive"]
    open_ = pd.Series(fields[-10], dtype=object).str
    left = {name: more & ~asked["exclusive"] & open_.contains(name).to_numpy(bool) for name, more in seen.more.items()}
    if any((of & ledger.keep).any() for of in left.values()):
        columns["gpu_defaults"] = np.where(left["cpu"], "cpu ", "") + np.where(left["mem"], "mem", "").astype(object)
    whole = (seen.all_memory | asked["all_memory"]) & ledger.keep
    if whole.any():
        columns["all_memory"] = whole
    shape = _shapes(asked, seen, asks, columns["job_id"])
    odd = seen.uneven & ledger.keep & ((shape != "tasks") | (asked["gpus_per_task"] == 0))
    ranged = (asked["of_each"] > 0) & (seen.held > seen.cpus) & ledger.keep & (shape == "tasks")
    of_user = text.str.contains(r"\s--exclusive=(?:user|mcs|topo)\b").to_numpy(bool) & ledger.keep
    for jobs, what in (
        (whole, "asked for all memory of their nodes (--mem=0): what they got is taken, but under policy slurm"),
        (odd, "asked for GPUs that do not part evenly over their nodes: each node is taken to give the larger part"),
        (ranged, "asked for a range of nodes alone (-N 1-4): their CPUs are those of the nodes that they got"),
        (of_user, "asked for nodes alone with jobs of their user, label or topology: they share nodes with all"),
    ):
        ledger.count(jobs, what)
    why = "no SubmitLine" if lines is None else "no command line or script tells"
    # Where the centre does not count GPUs (AccountingStorageTRES), or not by model, only the command line tells of it.
    gpus = asked["gpus_per_node"] + asked["gpus_per_task"] * np.maximum(asked["tasks_per_node"], 1)
    unseen = (shape == "nodes") & (asked["shape"] == "nodes") & (columns["gpus_per_node"] == 0) & (gpus > 0)
    columns["gpus_per_node"] = np.where(unseen, gpus, columns["gpus_per_node"])
    unnamed = (columns["gpus_per_node"] > 0) & (columns["gpu_type"] == "")
    columns["gpu_type"] = np.where(unnamed, asked["gpu_type"], columns["gpu_type"])
    ledger.shape, ledger.unknown = shape, f"{why}; --set asks=tasks or asks=nodes says it"
    return columns | _tasks(columns, asked, seen, shape == "tasks")


def _shapes(asked: dict[str, np.ndarray], seen: Seen, asks: str | None, job_id: Any) -> np.ndarray:
    shape = asked["shape"].copy()
    component = pd.Series(job_id, dtype=object).astype(str).str.contains("+", regex=False).to_numpy(bool)
    shape[component] = "nodes"
    rest = shape == ""
    shape[rest & (seen.wished > 1)] = "nodes"
    alone = rest & (seen.spread | ((asks == "tasks") & (seen.wished <= 1)))
    shape[alone] = "tasks"
    asked["n_tasks"][alone] = np.maximum(seen.cpus, 1)[alone]
    shape[(shape == "") & (asks == "nodes")] = "nodes"
    shape[shape == ""] = "unknown"
    return shape


def _tasks(columns: dict[str, Any], asked: dict[str, np.ndarray], seen: Seen, tasks: np.ndarray) -> dict[str, Any]:
    """Return the columns of jobs of tasks, and the nodes that they got; those of nodes stay as they are."""
    if not tasks.any():
        return {}
    nodes, memory = np.asarray(columns["n_nodes"], float), np.asarray(columns["mem_mb_per_node"], float)
    got = np.where(seen.given > 0, seen.given, np.maximum(nodes, asked["min_nodes"]))
    every = got * asked["of_each"]
    n_tasks = np.where(seen.held >= every * asked["cpus_per_task"], every, 0)
    n_tasks = np.maximum(n_tasks, np.maximum(asked["n_tasks"], 1))
    cpus = np.ceil(n_tasks * asked["cpus_per_task"] / got)
    said = (asked["mem_mb_per_task"] > 0) | (asked["mem_mb_per_node"] >= 0)
    total = np.maximum(memory * nodes - (nodes - 1), 0)  # at least: each node's part of it was rounded up
    each = np.where(said, asked["mem_mb_per_task"], np.where(seen.per_node | (every > 0), 0, np.ceil(total / n_tasks)))
    of_node = np.where(said, np.maximum(asked["mem_mb_per_node"], 0), np.where(each > 0, 0, memory))
    gpus_said = asked["gpus_per_task"] + asked["gpus_per_node"] > 0
    gpus = np.where(gpus_said, asked["gpus_per_node"], columns["gpus_per_node"])
    default = Asked()
    own = {
        name: np.where(tasks, n_tasks if name == "n_tasks" else asked[name], getattr(default, name))
        for name in ("n_tasks", "cpus_per_task", "gpus_per_task", "tasks_per_node", "min_nodes", "max_nodes")
    }
    changed = {"n_nodes": got, "cpus_per_node": cpus, "mem_mb_per_node": of_node, "gpus_per_node": gpus}
    changed = {name: np.where(tasks, values, columns[name]) for name, values in changed.items()}
    model = np.where((columns["gpu_type"] == "") & tasks, asked["gpu_type"], columns["gpu_type"])
    return own | changed | {"mem_mb_per_task": np.where(tasks, each, 0), "gpu_type": model}
