"""Tables to arrays: jobs in queue order, request shapes, kinds of node, durations per speed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.files.gpu_pools import Pool, models_of, pool_for, pools_of
from procure.simulator.tasks import GUARDS, POOL_BITS, enough
from procure.text import listed

_DEFAULTS = {
    "n_tasks": 0,
    "cpus_per_task": 1,
    "mem_mb_per_task": 0,
    "gpus_per_task": 0,
    "tasks_per_node": 0,
    "min_nodes": 1,
    "max_nodes": 0,
    "exclusive": False,
}


class Asks(NamedTuple):
    """How units stand on nodes, int64 each, of jobs or of shapes. A job of nodes has one unit on each of its nodes."""

    most: np.ndarray  # units on one node at most
    min_nodes: np.ndarray
    max_nodes: np.ndarray  # at most as many as units
    node_mem: np.ndarray  # MB on each node that is used, beside those of its units
    node_gpus: np.ndarray  # likewise
    node_words: np.ndarray  # likewise, packed as `Jobs.words`
    whole: np.ndarray  # 1 = the nodes are taken whole


def task_columns(jobs: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the columns of a job table that jobs of tasks need, int64[n_jobs] each, with what is missing filled in."""
    return {
        name: jobs[name].fillna(default).to_numpy(np.int64) if name in jobs else np.full(len(jobs), int(default))
        for name, default in _DEFAULTS.items()
    }


def gpus_of(jobs: pd.DataFrame) -> np.ndarray:
    """Return the GPUs that each job asks for per task or, where it asks for none so, per node: int64[n_jobs]."""
    gpus = jobs["gpus_per_node"].to_numpy(np.int64)
    if "n_tasks" not in jobs or "gpus_per_task" not in jobs:
        return gpus
    of = task_columns(jobs)
    return np.where(of["n_tasks"] > 0, np.maximum(gpus, of["gpus_per_task"]), gpus)


def with_tasks(jobs: pd.DataFrame, asked: np.ndarray) -> tuple[np.ndarray, Asks | None]:
    """Put the tasks of a job table into what its jobs ask for, where any job asks for them or takes its nodes whole.

    Tasks of which each node must hold equally many become a job of nodes, such as those that stand on one node.
    ``asked`` is int64[6, n_jobs] as for a job of nodes: nodes, CPUs, MB, GPUs, mask of types, packed GPUs; modified.
    """
    of = task_columns(jobs)
    n, tasks = of["n_tasks"], of["n_tasks"] > 0
    if not tasks.any() and not of["exclusive"].any():
        return asked, None
    per_task = tasks & (of["gpus_per_task"] > 0)
    units, _, mem, gpus, _, words = asked
    node_mem, node_gpus, node_words = (np.where(tasks, amount, 0) for amount in (mem, gpus, words))
    node_gpus, node_words = np.where(per_task, 0, node_gpus), np.where(per_task, 0, node_words)
    asked[0], asked[1] = np.where(tasks, n, units), np.where(tasks, of["cpus_per_task"], asked[1])
    asked[2] = np.where(tasks, of["mem_mb_per_task"], mem)
    asked[3], asked[5] = gpus - node_gpus, words - node_words
    most = np.where(tasks, np.minimum(np.where(of["tasks_per_node"] > 0, of["tasks_per_node"], n), n), 1)
    max_nodes = np.where(tasks & (of["max_nodes"] > 0), np.minimum(of["max_nodes"], asked[0]), asked[0])
    min_nodes = np.where(tasks, np.minimum(of["min_nodes"], n), 1)
    even = tasks & ((most * max_nodes == n) | (min_nodes == n))
    each = np.where(min_nodes == n, 1, most)
    even &= (words == gpus) | (asked[3] * each <= 1000)  # so many in one field of a packed word
    each = np.where(even, each, 1)
    for row, more in ((1, 0), (2, node_mem), (3, node_gpus), (5, node_words)):
        asked[row] = np.where(even, asked[row] * each + more, asked[row])
    asked[0] = np.where(even, asked[0] // each, asked[0])
    node_mem, node_gpus, node_words = (np.where(even, 0, amount) for amount in (node_mem, node_gpus, node_words))
    most, min_nodes = np.where(even, 1, most), np.where(even, 1, min_nodes)
    max_nodes = np.where(even, asked[0], max_nodes)
    if even[tasks].all() and not of["exclusive"].any():
        return asked, None
    return asked, Asks(most, min_nodes, max_nodes, node_mem, node_gpus, node_words, of["exclusive"])


def least_nodes(asked: np.ndarray, asks: Asks, held: np.ndarray, per_kind: np.ndarray) -> np.ndarray:
    """Return the fewest empty nodes that hold each shape, 0 where none do: int64[n_shapes].

    A shape asks for ``asked`` units, int64[n_shapes]; an empty node holds ``held`` of them, int64[n_shapes, n_kinds].
    """
    order = np.argsort(-held, axis=1, kind="stable")
    units, nodes = np.take_along_axis(held, order, axis=1), per_kind[order]
    before = np.cumsum(units * nodes, axis=1) - units * nodes
    lacking = np.maximum(asked[:, None] - before, 0)
    used = np.minimum(nodes, -(-lacking // np.maximum(units, 1)))
    used[units == 0] = 0
    fewest = np.maximum(used.sum(axis=1), asks.min_nodes)
    enough = ((units * nodes).sum(axis=1) >= asked) & (((units > 0) * nodes).sum(axis=1) >= asks.min_nodes)
    return np.where(enough & (fewest <= asks.max_nodes), fewest, 0)


ANY_TYPE = np.int64(-1)
"""The GPU type mask of a job that asks for any type, and of a node that states none: every bit set."""
_MOST_POOLS = 4
_MOST_IN_POOL = (1 << 15) - 1


class Jobs(NamedTuple):
    """A workload as arrays, one entry per job in queue order (submission time, then table row).

    Times are seconds after the first submission. The waiting jobs of one *shape* (one combination of
    nodes, CPUs, memory, GPUs, GPU type) stand in one FIFO line: line ``s`` is
    ``line_job[line_first[s]:line_first[s + 1]]``.
    """

    row: np.ndarray  # int64[n], the job's row in the table
    submit: np.ndarray  # int64[n], s
    requested: np.ndarray  # int64[n], s; 0 = no limit
    n_nodes: np.ndarray  # int64[n], equal units that it asks for: nodes, or tasks
    cpus: np.ndarray  # int64[n], per unit
    mem: np.ndarray  # int64[n], MB per unit
    gpus: np.ndarray  # int64[n], per unit
    types: np.ndarray  # int64[n], bit mask of the GPU types that will do
    words: np.ndarray  # int64[n], GPUs per unit in the field of their pool (`gpu_fields`); else as ``gpus``
    shape_of: np.ndarray  # uint32[n]
    shape_nodes: np.ndarray  # int64[s]
    shape_cpus: np.ndarray  # int64[s]
    shape_mem: np.ndarray  # int64[s]
    shape_gpus: np.ndarray  # int64[s]
    shape_types: np.ndarray  # int64[s]
    shape_words: np.ndarray  # int64[s]
    line_job: np.ndarray  # uint32[n]
    line_first: np.ndarray  # int64[s + 1]
    tasks: Asks | None = None  # of each shape; None = every job asks for nodes, shared with others


class Kinds(NamedTuple):
    """Kinds of node: nodes of one kind have equal totals, GPU type and speed."""

    cpus: np.ndarray  # int64[k]
    mem: np.ndarray  # int64[k], MB
    gpus: np.ndarray  # int64[k]
    types: np.ndarray  # int64[k], bit mask of the GPU types that it has, or ANY_TYPE
    speed: np.ndarray  # uint32[k], row of the durations
    words: np.ndarray  # int64[k], GPUs of each pool in its field (`gpu_fields`); else as ``gpus``


class Fields(NamedTuple):
    """Where the GPUs of each pool stand in packed words, for a system where some node has several GPU models."""

    of_model: dict[str, int]  # by model, case aside
    of_request: dict[str, int]  # by a job's ``gpu_type``


def gpu_fields(jobs: pd.DataFrame, nodes: pd.DataFrame) -> Fields | None:
    """Give the pools of nodes, and so the requests of jobs, a field of packed words each; None = no node has two pools.

    A job takes the first pool of a node whose model will do for it. Where it has several to choose from, on whichever
    nodes, these share a field, so that one word says what a job takes of every node.

    Raises
    ------
    TableError
        Two models that stand in one node would share a field, or there are more than four.
    """
    if "gpu_type" not in nodes or not any("+" in str(text) for text in nodes["gpu_type"].unique()):
        return None
    with_gpus = nodes.loc[nodes["gpus"] > 0, ["gpu_type", "gpus"]].drop_duplicates()
    if not with_gpus["gpu_type"].str.contains("+", regex=False).any():
        return None
    kinds = [pools_of(str(text), int(n)) for text, n in with_gpus.itertuples(index=False)]
    asking = jobs.loc[gpus_of(jobs) > 0, "gpu_type"].unique()
    group = {name.casefold(): name.casefold() for pools in kinds for name, _ in pools}
    for text in asking:
        joined = {group[name] for name in _first_pools(kinds, models_of(str(text)))}
        group = {name: min(joined) if one in joined else one for name, one in group.items()}
    field: dict[str, int] = {}
    for pools in kinds:
        names = [name.casefold() for name, _ in pools]
        for name in names:
            twin = next((other for other in names if other != name and group[other] == group[name]), None)
            if twin is not None:
                same = {one for one, of in group.items() if of == group[name]}
                raise TableError(_open_choice(name, twin, kinds, same, map(str, asking)))
            beside = {
                field[group[other.casefold()]]
                for each in kinds
                if group[name] in [group[one.casefold()] for one, _ in each]
                for other, _ in each
                if group[other.casefold()] in field
            }
            field.setdefault(group[name], min(set(range(len(group) + 1)) - beside))
    if max(field.values()) >= _MOST_POOLS:
        raise TableError(f"at most {_MOST_POOLS} GPU models that stand in nodes with others can be told apart")
    of_model = {name: field[one] for name, one in group.items()}
    first = {text: _first_pools(kinds, models_of(str(text))) for text in asking}
    return Fields(of_model, {text: min((of_model[name] for name in names), default=0) for text, names in first.items()})


def _open_choice(name: str, twin: str, kinds: Sequence[tuple[Pool, ...]], same: set[str], asking: Iterable[str]) -> str:
    """Say which requests, that may take either of two models of one node, must be told which, and what to write."""
    open_ = []
    for text in asking:
        taken = sorted(_first_pools(kinds, models_of(text)) & same)
        if len(taken) > 1:
            own = text.split("|")[0].strip()
            of = f"for {own!r} (gpu_models.{json.dumps(own)})" if own else "for no model (gpu_models.any)"
            open_.append(f"{of} may run on {listed(taken)}")
    return (
        f"GPU models {name!r} and {twin!r} stand in one node, and jobs would take one here and the other elsewhere: "
        f"those that ask {'; '.join(open_)}. Write runs_on with only one of {name!r} and {twin!r} in it, or leave "
        "gpu_type of that node empty: any GPU of it will do then"
    )


def _first_pools(kinds: Iterable[tuple[Pool, ...]], asked: frozenset[str]) -> set[str]:
    """Return the models that a request takes on the nodes that have one of them."""
    return {pools[i][0].casefold() for pools in kinds if (i := pool_for(pools, asked)) >= 0}


def guards_of(jobs: Jobs, kinds: Kinds) -> int | None:
    """Return the guard bits of a run's packed words of GPUs, None where words are plain numbers."""
    packed = (kinds.words != kinds.gpus).any() or (jobs.shape_words != jobs.shape_gpus).any()
    packed = packed or (jobs.tasks is not None and (jobs.tasks.node_words != jobs.tasks.node_gpus).any())
    return GUARDS if packed else None


def gpu_type_bits(*columns: pd.Series) -> dict[str, int]:
    """Give every GPU type that the tables name one bit; case does not matter, the empty name means any.

    A job may name several that will do: ``v100|H100``.
    """
    names = sorted({name for column in columns for text in column.unique() for name in models_of(str(text))})
    if len(names) > 62:
        raise TableError(f"{len(names)} GPU types are named; at most 62 can be told apart")
    return {name: 1 << bit for bit, name in enumerate(names)}


def filled(length: int, /, **values: int) -> dict[str, Any]:
    """Return by name int64 arrays of one length, each of one value."""
    # Of zeros that are never touched the system provides no room.
    return {name: np.full(length, one, np.int64) if one else np.zeros(length, np.int64) for name, one in values.items()}


def numbered(*columns: pd.Series | np.ndarray, sort: bool = True) -> np.ndarray:
    """Number the distinct rows of some columns: int64[n]; what is missing is a value, too.

    In their order by the first column, then the second, …; or, unless they are to be sorted, by first appearance.
    """
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        row, distinct = pd.factorize(column, sort=sort, use_na_sentinel=False)
        number = pd.factorize(number * len(distinct) + row, sort=sort)[0].astype(np.int64)
    return number


def _masks(names: pd.Series, bits: dict[str, int]) -> np.ndarray:
    row, distinct = pd.factorize(names, use_na_sentinel=False)
    masks = [sum(bits[name] for name in models_of(str(text))) or int(ANY_TYPE) for text in distinct]
    return np.array(masks, np.int64)[row]


def profiles(jobs: pd.DataFrame) -> np.ndarray:
    """Return what jobs use of their CPUs, memory and memory bandwidth, %, in table order: float64[3, n_jobs].

    NaN where the CPU share is unknown; where only another is, it is taken to be 100.
    """
    if "cpu_percent" not in jobs:
        return np.broadcast_to(np.nan, (3, len(jobs)))
    found = np.full((3, len(jobs)), np.nan)
    for i, name in enumerate(("cpu_percent", "mem_percent", "bandwidth_percent")):
        if name in jobs:
            found[i] = pd.to_numeric(jobs[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    return np.where(np.isnan(found[0]), np.nan, np.where(np.isnan(found), 100.0, found))


def in_queue_order(jobs: pd.DataFrame, row: np.ndarray) -> pd.DataFrame:
    """Return the rows of a job table in another order; the table itself where it stands so."""
    return jobs if (row == np.arange(len(row))).all() else jobs.iloc[row].reset_index(drop=True)


def job_arrays(jobs: pd.DataFrame, bits: dict[str, int], fields: Fields | None = None) -> Jobs:
    """Bring a checked job table into queue order and find its request shapes; with `gpu_type_bits` and `gpu_fields`."""
    order = np.argsort(jobs["submit_time"].to_numpy(np.int64), kind="stable")
    ordered = in_queue_order(jobs, order)
    submit = ordered["submit_time"].to_numpy(np.int64)
    gpus = gpus_of(ordered)
    types = np.where(gpus > 0, _masks(ordered["gpu_type"], bits), ANY_TYPE)
    words = request_words(ordered, fields)
    columns = (ordered[name].to_numpy(np.int64) for name in ("n_nodes", "cpus_per_node", "mem_mb_per_node"))
    asked = np.stack([*columns, gpus, types, words])
    requested = np.array(ordered["requested_time"], np.int64)
    return _shaped(order, submit - submit[0], requested, *with_tasks(ordered, asked))


def with_held(jobs: Jobs, cpus: np.ndarray, mem: np.ndarray) -> Jobs:
    """Return the same jobs with other CPUs and memory per unit, int64[n_jobs] each, in queue order."""
    asked = np.stack([jobs.n_nodes, np.asarray(cpus, np.int64), mem, jobs.gpus, jobs.types, jobs.words])
    tasks = None if jobs.tasks is None else Asks(*(column[jobs.shape_of] for column in jobs.tasks))
    return _shaped(jobs.row, jobs.submit, jobs.requested, asked, tasks)


def request_words(jobs: pd.DataFrame, fields: Fields | None) -> np.ndarray:
    """Pack the GPUs per node or task that jobs ask for into their fields: int64[n_jobs]; too many remain too many."""
    gpus = gpus_of(jobs)
    if fields is None:
        return gpus
    place = jobs["gpu_type"].map(fields.of_request).fillna(0).to_numpy(np.int64)
    return np.minimum(gpus, _MOST_IN_POOL) << POOL_BITS * place


def node_words(nodes: pd.DataFrame, fields: Fields | None) -> np.ndarray:
    """Pack the GPUs of nodes into their fields: int64[n_nodes]."""
    if fields is None:
        return nodes["gpus"].to_numpy(np.int64)
    words = {}
    for text, n in nodes[["gpu_type", "gpus"]].drop_duplicates().itertuples(index=False):
        if n > _MOST_IN_POOL:
            raise TableError(f"a node has {n:,} GPUs; beside nodes with several GPU models, at most {_MOST_IN_POOL:,}")
        pools = pools_of(str(text), int(n)) if n else ()
        words[text, n] = sum(count << (POOL_BITS * fields.of_model[name.casefold()]) for name, count in pools)
    return np.array([words[key] for key in nodes[["gpu_type", "gpus"]].itertuples(index=False, name=None)], np.int64)


def _shaped(
    row: np.ndarray, submit: np.ndarray, requested: np.ndarray, asked: np.ndarray, tasks: Asks | None = None
) -> Jobs:
    """Find the request shapes of jobs in queue order.

    ``asked`` is int64[6, n]: units, CPUs, MB, GPUs, mask of types, and the word, which these two imply.
    """
    shape_of = numbered(*asked[:5], *(tasks or ()))
    lengths = np.bincount(shape_of)
    shapes = np.empty((len(asked), len(lengths)), np.int64)
    shapes[:, shape_of] = asked
    first = np.unique(shape_of, return_index=True)[1]
    return Jobs(  # type: ignore[call-arg]
        row,
        submit,
        requested,
        *asked,
        shape_of.astype(np.uint32),
        *(np.ascontiguousarray(row) for row in shapes),
        np.argsort(shape_of, kind="stable").astype(np.uint32),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        None if tasks is None else Asks(*(column[first] for column in tasks)),
    )


def node_kinds(
    nodes: pd.DataFrame, bits: dict[str, int], by_kind: bool = False, fields: Fields | None = None
) -> tuple[Kinds, np.ndarray, list[tuple[Any, str, str]]]:
    """Group nodes that are alike; ``by_kind`` says that run times turn on the column ``kind``, too.

    Returns the kinds in order of first appearance; uint32[n_nodes], the kind of each node, in table order; and the
    distinct speeds, as given, each with a GPU type and, where that counts, the ``kind``, else empty: ``Kinds.speed``
    counts along it.
    """
    speeds = nodes["speed"] if "speed" in nodes else pd.Series(np.nan, index=nodes.index)
    models = nodes["gpu_type"].str.casefold().where(nodes["gpus"] > 0, "")
    names = nodes["kind"].astype(str) if by_kind and "kind" in nodes else pd.Series("", index=nodes.index)
    speed_row = numbered(speeds, models, names, sort=False)
    first_rows = np.unique(speed_row, return_index=True)[1]
    found = [(speeds.iloc[row], str(models.iloc[row]), str(names.iloc[row])) for row in first_rows]
    totals = (nodes[name].to_numpy(np.int64) for name in ("cpus", "mem_mb", "gpus"))
    columns = (*totals, _masks(nodes["gpu_type"], bits), speed_row.astype(np.uint32), node_words(nodes, fields))
    kind_of = numbered(*columns, sort=False)
    first = np.unique(kind_of, return_index=True)[1]
    return Kinds(*(column[first] for column in columns)), kind_of.astype(np.uint32), found  # type: ignore[call-arg]


def switches(nodes: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the leaf switch and the pod of each node, int64[n_nodes] each, −1 where unknown."""
    unknown = pd.Series(-1, index=nodes.index)
    leaf, pod = (nodes[name].fillna(-1) if name in nodes else unknown for name in ("leaf", "pod"))
    return np.array(leaf, np.int64), np.array(pod, np.int64)


def fits_empty(jobs: Jobs, kinds: Kinds) -> np.ndarray:
    """Say which shapes fit an empty node of which kind, with one unit at least: bool[n_shapes, n_kinds]."""
    mem, words = jobs.shape_mem, jobs.shape_words
    if jobs.tasks is not None:
        mem, words = mem + jobs.tasks.node_mem, words + jobs.tasks.node_words
    return (
        (kinds.cpus >= jobs.shape_cpus[:, None])
        & (kinds.mem >= mem[:, None])
        & enough(kinds.words, words[:, None], guards_of(jobs, kinds))
        & ((kinds.types & jobs.shape_types[:, None]) != 0)
    )


class Durations(NamedTuple):
    """How long each job runs at each speed, and what its limit does to it."""

    took: np.ndarray  # int64[n_speeds, n_jobs], s; cut at the limit where that kills
    killed: np.ndarray  # bool[n_speeds, n_jobs], the limit cuts the job
    full: np.ndarray  # int64[n_speeds, n_jobs], s; as ``took`` without a limit
    limit: np.ndarray  # int64[n_jobs], s after which a job is killed; 0 = never


def durations(jobs: Jobs, scaled_run_times: list[np.ndarray], kill_at_limit: bool) -> Durations:
    """Lay the run times at each speed, int64[n_jobs] in table order, out in queue order, cut at the limit if asked."""
    full = np.stack([run_time[jobs.row] for run_time in scaled_run_times])
    limit = jobs.requested if kill_at_limit else np.zeros_like(jobs.requested)
    killed = (limit > 0) & (full > limit)
    return Durations(np.where(killed, limit, full) if killed.any() else full, killed, full, limit)
