"""What jobs asked for: options of sbatch, srun and salloc, on a kept line or in a script; tasks of sacct's jobs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.text import counted, short
from procure.workload.ledger import Ledger, by_value
from procure.workload.slurm import parse_gres, slurm_memory_limit

_SHORT = {
    "c": "cpus-per-task", "n": "ntasks", "N": "nodes", "t": "time", "p": "partition", "b": "begin", "d": "dependency",
    "a": "array", "G": "gpus", "L": "licenses", "C": "constraint", "w": "nodelist", "x": "exclude",
    "B": "extra-node-info", "O": "overcommit", "S": "core-spec", "s": "oversubscribe",
}  # fmt: skip
_BARE = {"exclusive": "1", "nice": "100"} | dict.fromkeys(
    "contiguous get-user-env hold ignore-pbs no-kill no-requeue overcommit oversubscribe parsable pty quiet reboot "
    "requeue spread-job test-only use-min-nodes verbose wait H k Q v W h V E X Z".split(),
    "",
)
"""Options that stand alone, so that what follows one may be the script; and what they then mean."""
_UNHEEDED = frozenset((
    "contiguous", "core-spec", "cores-per-socket", "deadline", "exclude", "extra-node-info", "hint", "mincpus",
    "nodefile", "nodelist", "ntasks-per-core", "ntasks-per-socket", "overcommit", "oversubscribe", "prefer",
    "sockets-per-node", "spread-job", "switches", "thread-spec", "threads-per-core", "time-min", "tmp", "use-min-nodes",
))  # fmt: skip
"""Options that may change where or when a job starts, and that no policy goes by."""
_OWN_CORES = {
    ("hint", "nomultithread"): "cpu", ("threads-per-core", "1"): "cpu", ("extra-node-info", "*:*:1"): "cpu",
    ("ntasks-per-core", "1"): "task",
}  # fmt: skip
_LONG = (
    *_SHORT.values(), *_BARE, *_UNHEEDED.difference(_SHORT.values(), _BARE),
    "cpus-per-gpu", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "mem", "mem-per-cpu",
    "mem-per-gpu", "ntasks-per-gpu", "ntasks-per-node", "tasks-per-node", "tres-per-task", "wrap",
)  # fmt: skip
"""Long options that are read here."""


class Unreadable(ValueError):
    """The text of an option ``name`` cannot be read, and why."""

    def __init__(self, name: str, why: str) -> None:
        """Take the option, and what is wrong with it."""
        super().__init__(why)
        self.name = name


def read_options(words: Sequence[str]) -> dict[str, str]:
    """Read options up to a script as sbatch does: ``--name=value``, ``--name value``, ``-x value``, ``-xvalue``."""
    found: dict[str, str] = {}
    left = list(words)
    while left and left[0].startswith("-"):
        word = left.pop(0)
        if word.startswith("--"):
            name, given, value = word[2:].partition("=")
            # A beginning that no other long option has is enough (getopt_long(3)).
            begun = [each for each in _LONG if len(each) > 1 and each.startswith(name)]
            name = begun[0] if len(begun) == 1 and name not in _LONG else name
            name = "ntasks-per-node" if name == "tasks-per-node" else name
        else:
            name, value = _SHORT.get(word[1:2], word[1:2]), word[2:].removeprefix("=")
            given = value
        if not given:
            value = _BARE[name] if name in _BARE else left.pop(0) if left and left[0][:1] != "-" else ""
        found[name] = value
        if name == "wrap" and " " not in value:
            break  # Slurm keeps no quotation marks: the words that follow may be the wrapped command's
    return found


def line_options(line: str) -> dict[str, str]:
    """Read the options of a command such as ``sbatch -n 16 --array=0-9%2 run.sh``; none of an empty or ``(null)`` one.

    A quotation mark without its like is a letter: Slurm joins the words of a line as the shell gave them.
    """
    if line in ("", "(null)", "Unknown"):
        return {}
    try:
        return read_options(shlex.split(line)[1:])
    except ValueError:
        return read_options(line.split()[1:])


def script_options(script: str) -> dict[str, tuple[str, int]]:
    """Read the #SBATCH lines of a batch script up to its first command: each option's text and its line's number.

    ``hetjob`` is one where a further component begins; what stands behind is not read. A quotation mark that is not
    closed is `Unreadable`, whose name is the line's number.
    """
    found: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(script.splitlines(), 1):
        if not line.startswith("#SBATCH"):
            if line.strip() and not line.startswith("#"):
                break
            continue
        try:
            words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
        except ValueError:
            raise Unreadable(str(number), "a quotation mark is not closed") from None
        if words[:1] in (["hetjob"], ["packjob"]):
            found["hetjob"] = ("", number)
            break
        found |= {name: (value, number) for name, value in read_options(words).items()}
    return found


class Asked(NamedTuple):
    """What a job asked for; 0 is nothing said, but for ``mem_mb_per_node`` −1.

    ``shape`` is ``tasks``; ``nodes`` where each of ``min_nodes`` nodes gets ``tasks_per_node`` tasks; empty: unknown.
    """

    shape: str = ""
    n_tasks: int = 0
    cpus_per_task: int = 1
    tasks_per_node: int = 0
    min_nodes: int = 1
    max_nodes: int = 0
    mem_mb_per_task: int = 0
    mem_mb_per_node: int = -1
    gpus_per_task: int = 0
    gpus_per_node: int = 0
    gpus_left: int = 0  # of the whole job, whose shape is unknown
    gpu_type: str = ""
    exclusive: bool = False
    all_memory: bool = False  # of each node, --mem=0; it counts for the CPUs that it asked for
    of_each: int = 0  # tasks of each node that it gets, where a range of nodes alone, -N 1-4, says how many these are
    gpu_defaults: str = ""  # which of cpu and mem it leaves to a site's defaults per GPU
    unheeded: str = ""  # options that no policy goes by
    partitions: str = ""  # several, of which the one that starts it first takes it
    own_cores: str = ""  # whether a task or each cpu has cores of its own
    reservation: str = ""
    dependency: str = ""
    array_limit: int = 0  # how many tasks of its array may run at once; 0 = all
    licenses: str = ""
    nice: int = 0
    is_unreadable: bool = False


def asked_for(options: Mapping[str, str], cpus: int = 0) -> Asked:
    """Return what options ask for, with Slurm's defaults where they do not say; `Unreadable` where one is no amount.

    Beyond sbatch's, ``mem-per-task`` is memory of each task. ``cpus`` are those asked for as the accounting counts
    them, for what only the script said; 0 = the options say all.
    """
    n, c, wide = (_whole(options, name) for name in ("ntasks", "cpus-per-task", "ntasks-per-node"))
    low, high = _nodes(options)
    gpus, model = _gpus(options)
    whole = options.get("exclusive") == "1"
    all_memory = bool(re.fullmatch(r"0+[KMGT]?", options.get("mem", ""), re.IGNORECASE))
    if tasks := _whole(options, "ntasks-per-gpu"):
        n = n or tasks * (gpus["gpus"] or gpus["gpus-per-node"] * max(low, 1))
        gpus["gpus"] = gpus["gpus"] or (0 if gpus["gpus-per-node"] else n // tasks)
    n = n or (gpus["gpus"] // gpus["gpus-per-task"] if gpus["gpus-per-task"] else 0)
    left = gpus["gpus"] or max(gpus["gpus-per-node"] * max(low, 1), gpus["gpus-per-task"] * max(n, 1))
    unknown = Asked(gpus_left=left, gpu_type=model, exclusive=whole, all_memory=all_memory)
    least = max(low, 1) * max(wide, 1)
    own = c
    c = c or _whole(options, "cpus-per-gpu") * (gpus["gpus-per-task"] or (gpus["gpus"] if n <= 1 else 0))
    of_each = 0 if n or high <= low else max(wide, 1)
    if of_each and cpus == of_each * (own or cpus // of_each) > 0:  # those of one node are counted
        c = cpus // of_each
    elif cpus and cpus not in ((n or least) * (own or 1), (n or least) * (c or 1)):  # those per GPU are not counted
        n, c = _completed(n, own, least if low or wide else 0, cpus)
        if not n:
            return unknown
    of_each *= not n
    n, c = n or least, c or 1
    stated = max(min(low, n), 1)
    low = max(stated, -(-n // wide) if wide else 1)
    even = (wide * stated == n and high in (0, low)) or (low == high and low in (1, n))
    total, of_task, of_cpu, of_gpu = (
        amount(options, f"mem{per}", slurm_memory_limit) for per in ("", "-per-task", "-per-cpu", "-per-gpu")
    )
    memory = of_task or c * of_cpu
    asked = Asked(
        shape="nodes" if even else "tasks",
        n_tasks=n,
        cpus_per_task=c,
        tasks_per_node=n // low if even else wide,
        min_nodes=stated,  # Slurm counts no more of --ntasks-per-node in a job's size
        max_nodes=high,
        mem_mb_per_task=memory or of_gpu * gpus["gpus-per-task"],
        mem_mb_per_node=-1 if memory else total or -1,
        gpus_per_task=gpus["gpus-per-task"],
        gpus_per_node=0 if gpus["gpus-per-task"] else gpus["gpus-per-node"],
        gpu_type=model,
        exclusive=whole,
        all_memory=all_memory,
        of_each=of_each,
    )
    return asked if asked.gpus_per_task or asked.gpus_per_node else _shared_out(asked, gpus["gpus"]) or unknown


def by_gpu(asked: Asked, options: Mapping[str, str]) -> Asked:
    """Return a job that asks for GPUs alone as a task for each: they go wherever GPUs are free, with CPUs on each node.

    sbatch's one task, which stands in no option, is no bound then.
    """
    n = asked.gpus_per_task
    said = {"ntasks", "nodes", "ntasks-per-node", "ntasks-per-gpu", "gpus-per-task", "cpus-per-task"}
    if n < 2 or options.keys() & said:
        return asked
    each = asked._replace(shape="tasks", n_tasks=n, tasks_per_node=0, gpus_per_task=1)
    return each._replace(cpus_per_task=max(asked.cpus_per_task // n, 1), mem_mb_per_task=-(-asked.mem_mb_per_task // n))


def _completed(n: int, c: int, least: int, cpus: int) -> tuple[int, int]:
    """Return tasks and CPUs of each that make up the CPUs counted, of which one was not said; 0, 0 where none do."""
    if n and not c and cpus % n == 0:
        return n, cpus // n
    if c and not n and cpus % c == 0:
        return cpus // c, c
    if least and not n and not c and cpus % least == 0:
        return least, cpus // least
    return 0, 0


def _shared_out(asked: Asked, gpus: int) -> Asked | None:
    """Give the GPUs of a whole job to its tasks, or each GPU as many tasks as there are to it, as one; else None."""
    n = asked.n_tasks
    if not gpus:
        return asked
    if asked.shape == "nodes":
        return asked._replace(gpus_per_node=-(-gpus // asked.min_nodes))
    if gpus % n == 0:
        return asked._replace(gpus_per_task=gpus // n)
    k = n // gpus
    if n % gpus or asked.tasks_per_node % k:
        return None
    return asked._replace(
        n_tasks=gpus,
        cpus_per_task=asked.cpus_per_task * k,
        mem_mb_per_task=asked.mem_mb_per_task * k,
        tasks_per_node=asked.tasks_per_node // k,
        gpus_per_task=1,
    )


def _nodes(options: Mapping[str, str]) -> tuple[int, int]:
    """Read ``--nodes=2`` or ``2-4``: the fewest and the most; 0 = not said."""
    text = options.get("nodes", "")
    found = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", text)
    if text and not found:
        raise Unreadable("nodes", "is not a number of nodes, such as 2 or 2-4")
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if low > high:
        raise Unreadable("nodes", "has more nodes at least than at most")
    return low, high


def _gpus(options: Mapping[str, str]) -> tuple[dict[str, int], str]:
    """Read ``--gpus=a100:2`` and the like, and ``--gres=gpu:a100:2``, which is of each node; and the model."""
    counts, model = {}, ""
    for name in ("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"):
        kind, _, number = options.get(name, "").rpartition(":")
        counts[name] = _whole({name: number}, name)
        model = kind or model
    of_node, kind = parse_gres(options.get("gres", ""))
    of_task, own = parse_gres(options.get("tres-per-task", ""))
    of_node = max(of_node, counts["gpus-per-socket"] * max(_whole(options, "sockets-per-node"), 1))
    counts["gpus-per-node"] = max(counts["gpus-per-node"], int(of_node))
    counts["gpus-per-task"] = max(counts["gpus-per-task"], int(of_task))
    return counts, kind or own or model


def _whole(options: Mapping[str, str], name: str) -> int:
    text = options.get(name, "")
    if text and not re.fullmatch(r"\d{1,9}", text):
        raise Unreadable(name, "is not a whole number")
    return int(text or 0)


def amount(options: Mapping[str, str], name: str, read: Callable[[str], int]) -> int:
    """Read an option's amount, 0 where it is not there."""
    try:
        return read(options[name]) if options.get(name) else 0
    except ValueError as error:
        raise Unreadable(name, f"cannot be read: {error}") from None


def _beside_sizes(asked: Asked, options: Mapping[str, str]) -> Asked:
    """Return a request with what options tell beside its size."""
    cpu, mem = {"cpus-per-task", "cpus-per-gpu"}, {"mem", "mem-per-cpu", "mem-per-gpu"}
    own = {name: what for (name, value), what in _OWN_CORES.items() if options.get(name) == value}
    at_once, nice = re.search(r"%(\d{1,9})$", options.get("array", "")), options.get("nice") or "0"
    if not re.fullmatch(r"-?\d{1,10}", nice):
        raise Unreadable("nice", "is not a whole number")
    several, reservation = options.get("partition", ""), options.get("reservation", "")
    return asked._replace(
        gpu_defaults=" ".join(name for name, said in (("cpu", cpu), ("mem", mem)) if not options.keys() & said),
        unheeded=" ".join(sorted((_UNHEEDED & options.keys()) - own.keys())),
        partitions=several if "," in several else "",
        own_cores=next(iter(own.values()), ""),
        reservation="" if "," in reservation else reservation,
        dependency=options.get("dependency", ""),
        array_limit=int(at_once[1]) if at_once else 0,
        licenses=options.get("licenses", ""),
        nice=int(nice),
    )


class Seen(NamedTuple):
    """What the accounting counts of each job: CPUs asked for (0 = not said), nodes wished and given, and two signs."""

    cpus: np.ndarray
    wished: np.ndarray
    given: np.ndarray
    spread: np.ndarray  # it asked for tasks alone, which is counted as one node, and got several
    per_node: np.ndarray  # its memory is that of each node
    all_memory: np.ndarray  # no memory is counted as asked for, and some as given: that of whole nodes
    uneven: np.ndarray  # its GPUs do not part evenly over its nodes
    held: np.ndarray  # CPUs that it got
    more: dict[str, np.ndarray]  # it got the GPUs that it asked for, and more of cpu or mem than it asked for


def read_line(key: str) -> Asked:
    """Read the CPUs and the nodes counted, and the command line: ``4 1 sbatch -n 4 run.sh``."""
    cpus, nodes, *line = key.split(" ", 2)
    try:
        options = line_options("".join(line))
        if int(nodes) > 1 and not options.keys() & {"nodes", "ntasks-per-node"}:
            options["nodes"] = nodes
        is_sized = int(cpus) or options.keys() & _SIZES
        asked = by_gpu(asked_for(options, int(cpus)), options) if is_sized else Asked()
        return _beside_sizes(asked, options)
    except ValueError:
        return Asked(is_unreadable=True)


_SIZES = {"ntasks", "nodes", "cpus-per-task", "ntasks-per-node", "ntasks-per-gpu"}
_DTYPES: list[type] = [{str: object, int: np.int64, bool: bool}[type(one)] for one in Asked()]


def line_columns(
    columns: dict[str, Any], seen: Seen, lines: pd.Series | None, asks: str | None, ledger: Ledger
) -> dict[str, Any]:
    """Return the columns with what each job's command line tells: its tasks, dependency, array, licences, nice.

    ``asks`` is what jobs asked for of which nothing tells; without it their logged shape is kept, and is unknown.
    """
    text = pd.Series("", index=range(len(seen.cpus))) if lines is None else lines.reset_index(drop=True).str.strip()
    keys = pd.Series(seen.cpus.astype(str)) + " " + seen.wished.astype(str) + " " + text
    asked = dict(zip(Asked._fields, by_value(keys, read_line, _DTYPES), strict=True))
    bad = asked["is_unreadable"] & ledger.keep
    if bad.any():
        first = text.iloc[int(np.argmax(bad))]
        ledger.note(
            f"{counted(int(bad.sum()), 'submit line')} cannot be read, first {short(first)}: the shape that the log "
            "shows is taken, and what these jobs depend on is not known"
        )
    for name in ("partitions", "own_cores", "reservation", "dependency", "array_limit", "licenses", "nice"):
        if name == "reservation" and name in columns:  # Slurm names none for a job that came before it had begun
            columns[name] = np.where(columns[name] == "", asked[name], columns[name])
        if name not in columns and any(asked[name][ledger.keep]):
            columns[name] = asked[name]
    if len(names := pd.Series(asked["unheeded"][ledger.keep]).str.split().explode().dropna()):
        each = ", ".join(f"--{name} {n:,}" for name, n in names.value_counts().sort_index().items())
        ledger.note(
            f"{counted(names.index.nunique(), 'job')} name options that no policy goes by, and may start on "
            f"other nodes or at other times than logged: {each}"
        )
    if asked["exclusive"].any():
        columns["exclusive"] = asked["exclusive"]
    open_ = pd.Series(asked["gpu_defaults"], dtype=object).str
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
    gpus = gpus + np.ceil(asked["gpus_left"] / columns["n_nodes"])
    unseen = (asked["shape"] != "tasks") & (columns["gpus_per_node"] == 0) & (gpus > 0)
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
