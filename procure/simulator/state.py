"""What a policy may see, and the truth that it may not: two named tuples of arrays.

Both are plain NumPy arrays inside named tuples, so that the same policy source runs as Python and
compiled. Fields with one entry are counters that the steps advance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from procure.simulator.arrays import Durations, Jobs, Kinds, filled, guards_of, least_nodes, numbered
from procure.simulator.tasks import POOL_BITS, Tasks
from procure.simulator.usable import Usable, forget_idle, make_usable

WAIT = -1
"""A policy's answer when no job is to start now."""
FAR = 1 << 60
"""A time that never comes, s: the expected end of a job without a limit."""
NEVER = 1 << 62
"""The end, s, of a job that is paused: later than every time."""
PACE_ONE = 720_720
"""The pace of a job that runs as logged. All of 1 … 16 divide it, so shares of up to 16 are exact."""
PACE_MOST = 1000 * PACE_ONE
"""The highest pace."""


class System(NamedTuple):
    """The nodes of a run."""

    kinds: Kinds
    kind_of: np.ndarray  # uint32[n_nodes]
    fits_empty: np.ndarray  # bool[n_shapes, n_kinds], see `procure.simulator.arrays.fits_empty`
    leaf: np.ndarray  # int64[n_nodes], leaf switch; −1 = unknown
    pod: np.ndarray  # int64[n_nodes], pod of the fat-tree; −1 = unknown


class Options(NamedTuple):
    """What the simulator itself does differently, fixed for a run; what a policy does is its own parameters."""

    exclusive: int = 0  # a job takes its nodes whole
    last_two: int = 0  # estimate a job by its user's last two run times
    half_life: float = 0.0  # s, in which a user's past use counts half; 0 = usage is not kept
    plans: int = 1  # the policy may keep nodes for jobs that wait; 0 = nodes of tasks are listed as jobs start


class Shapes(NamedTuple):
    """The distinct requests: jobs of one shape ask for the same, however long. int64[n_shapes] each."""

    n_nodes: np.ndarray  # as `State.n_nodes`
    cpus: np.ndarray  # per unit
    mem: np.ndarray  # MB per unit
    gpus: np.ndarray  # per unit, as `State.gpus`
    types: np.ndarray  # mask of the GPU types that will do


class Accounts(NamedTuple):
    """What each user has used, halved every half-life; the last entry is everybody together."""

    usage: np.ndarray  # float64[n_users + 1], CPU-seconds
    rate: np.ndarray  # int64[n_users + 1], CPUs in use
    at: np.ndarray  # int64[n_users + 1], s when usage was brought up to date


class Touched(NamedTuple):
    """The nodes on which something started or ended since a policy last emptied the list."""

    nodes: np.ndarray  # int64[n_nodes], the first n entries
    marked: np.ndarray  # bool[n_nodes], whether a node is among them
    n: np.ndarray  # int64[1]


class State(NamedTuple):
    """What a scheduler can see. A policy reads it, and writes only to ``chosen``, room for its answer,
    to ``wake``, and by `procure.simulator.running.ask_pace`.

    Jobs are numbered in queue order, nodes in table order. The waiting jobs form a linked list:
    start at ``next_waiting[n_jobs]`` and follow ``next_waiting`` until it says ``n_jobs`` again;
    `waiting` walks it in plain Python. A node that a job holds exclusively has −1 of everything free,
    so that no request fits it.
    """

    now: np.ndarray  # int64[1], s after the first submission
    submit: np.ndarray  # int64[n_jobs], s
    requested: np.ndarray  # int64[n_jobs], s; 0 = no limit
    estimate: np.ndarray  # int64[n_jobs], s that the job is expected to run; FAR = unknown
    due: np.ndarray  # int64[n_jobs], s; FAR = no due date
    user: np.ndarray  # int64[n_jobs]
    n_nodes: np.ndarray  # int64[n_jobs], equal units asked for: nodes, or of a job of tasks, tasks
    cpus: np.ndarray  # int64[n_jobs], per unit
    mem: np.ndarray  # int64[n_jobs], MB per unit
    gpus: np.ndarray  # int64[n_jobs], per unit; packed as `guards` says
    types: np.ndarray  # int64[n_jobs], mask of the GPU types that will do
    shape: np.ndarray  # int64[n_jobs], row of shapes
    shapes: Shapes
    next_waiting: np.ndarray  # int64[n_jobs + 1]
    previous_waiting: np.ndarray  # int64[n_jobs + 1]
    n_waiting: np.ndarray  # int64[1]
    n_submitted: np.ndarray  # int64[1], jobs submitted up to now
    running: np.ndarray  # int64[n_jobs], the first n_running entries, by (expected_end, job)
    n_running: np.ndarray  # int64[1]
    expected_end: np.ndarray  # int64[n_jobs], s; of a running job always after now
    ended: np.ndarray  # int64[n_jobs], the first n_ended entries: the jobs that ended at this moment
    n_ended: np.ndarray  # int64[1]
    n_changes: np.ndarray  # int64[1], starts, ends and corrected estimates so far
    n_corrected: np.ndarray  # int64[1], estimates raised so far because a job outlasted them
    start: np.ndarray  # int64[n_jobs], s; −1 until the job starts
    wake: np.ndarray  # int64[1], s at which the policy asks to be called again; none unless after now
    pace: np.ndarray  # int64[n_jobs], PACE_ONE = as logged, 0 = paused
    asked: np.ndarray  # int64[n_jobs], the first n_asked entries: jobs for which a pace was asked
    asked_pace: np.ndarray  # int64[n_jobs], −1 = none was asked
    n_asked: np.ndarray  # int64[1]
    node_first: np.ndarray  # int64[n_jobs + 1]
    node_list: np.ndarray  # int32[], job j's nodes: node_list[node_first[j]:node_first[j + 1]], the first `n_held`
    total_cpus: np.ndarray  # int64[n_nodes]
    total_mem: np.ndarray  # int64[n_nodes], MB
    total_gpus: np.ndarray  # int64[n_nodes], likewise
    node_types: np.ndarray  # int64[n_nodes], mask of its GPU types
    leaf: np.ndarray  # int64[n_nodes], leaf switch; −1 = unknown
    pod: np.ndarray  # int64[n_nodes], pod of the fat-tree; −1 = unknown
    free_cpus: np.ndarray  # int64[n_nodes]
    free_mem: np.ndarray  # int64[n_nodes], MB
    free_gpus: np.ndarray  # int64[n_nodes], likewise
    guards: int | None  # of packed words of GPUs; None = GPUs are plain numbers (`procure.simulator.tasks`)
    pool: int  # 1 if any waiting job can take any idle node, or idle unit, and no two share one: only counts matter
    n_idle: np.ndarray  # int64[1], idle nodes, or units where jobs ask for tasks; kept only in a pool
    touched: Touched
    usable: Usable
    accounts: Accounts
    options: Options
    tasks: Tasks | None  # None = no job asks for tasks, or for whole nodes where others share theirs
    chosen: np.ndarray  # int64[n_nodes], room for a policy's answer


class World(NamedTuple):
    """The truth that only the simulator sees."""

    durations: np.ndarray  # int64[n_speeds, n_jobs], s; cut at the limit where that kills
    full: np.ndarray  # int64[n_speeds, n_jobs], s; not cut
    limit: np.ndarray  # int64[n_jobs], s after which a job is killed; 0 = never
    speed_of_node: np.ndarray  # uint32[n_nodes], row of durations
    runnable: np.ndarray  # bool[n_jobs], some empty set of nodes holds the job
    end: np.ndarray  # int64[n_jobs], s; −1 until the job starts
    speed_of: np.ndarray  # uint32[n_jobs], row of durations that the job ran at
    heap: np.ndarray  # int64[n_jobs], jobs by (end, number): a binary heap
    n_heap: np.ndarray  # int64[1]
    max_queue_depth: np.ndarray  # int64[1]
    named_at: np.ndarray  # int64[n_nodes], the last placement that named the node
    n_placements: np.ndarray  # int64[1]
    idle_wakes: np.ndarray  # int64[2], how often a wake alone was next since which change
    left: np.ndarray  # int64[n_jobs], work left at ``since``, 1 / PACE_ONE s; −1 = the pace never changed
    believed: np.ndarray  # int64[n_jobs], the same as the scheduler expects it; FAR = unknown
    limit_left: np.ndarray  # int64[n_jobs], s until the limit kills, FAR = never
    since: np.ndarray  # int64[n_jobs], s of the last change of pace
    cut: np.ndarray  # bool[n_jobs], of jobs whose pace changed: the limit comes before the work is done
    last_run: np.ndarray  # int64[n_users, 2], s, of the user's last two jobs that ended; −1 = none


def share_cpus(state: State, n: int) -> None:
    """Let so many jobs hold each CPU at a time; who may is then up to the policy, which calls this as it is made.

    Memory and GPUs stay what they are.
    """
    state.free_cpus[:] = n * state.total_cpus
    forget_idle(state.usable)


def waiting(state: State):
    """Walk the waiting jobs in queue order (plain Python)."""
    end = len(state.submit)
    job = int(state.next_waiting[end])
    while job != end:
        yield job
        job = int(state.next_waiting[job])


def n_fitting_nodes(fits_empty: np.ndarray, kind_of: np.ndarray) -> np.ndarray:
    """Count the empty nodes that could each hold one node's share of each shape: int64[n_shapes]."""
    return fits_empty @ np.bincount(kind_of, minlength=fits_empty.shape[1])


def is_pool(jobs: Jobs, system: System, holds: np.ndarray, exclusive: int) -> bool:
    """Say whether only the number of idle nodes matters.

    True where every shape that can run at all fits every node and no node can hold two jobs, because
    nodes are exclusive or every such shape asks for more than half of the CPUs of each.
    """
    present = np.bincount(system.kind_of, minlength=system.fits_empty.shape[1]) > 0
    if not holds.any() or not system.fits_empty[holds][:, present].all():
        return False
    return bool(exclusive) or 2 * int(jobs.shape_cpus[holds].min()) > int(system.kinds.cpus[present].max())


def make_tasks(jobs: Jobs, system: System, whole: bool) -> tuple[Tasks, int]:
    """Lay out what a run with jobs of tasks keeps beside its state.

    Also how many units all nodes hold where only that counts: every job that can run asks for units of one kind,
    on any nodes. −1 where more counts.
    """
    asks, kinds, n_nodes, free = jobs.tasks, system.kinds, len(system.kind_of), np.iinfo(np.int64).max
    assert asks is not None
    held = np.where(system.fits_empty, free, 0)
    gpus: np.ndarray = np.broadcast_to(kinds.gpus, held.shape)
    if guards_of(jobs, kinds) is not None:  # those of the pool in whose field of a word a shape's GPUs stand
        field = sum((jobs.shape_words >> POOL_BITS * i > 0).astype(np.int64) for i in range(1, 4))
        gpus = (kinds.words >> POOL_BITS * np.asarray(field)[:, None]) & ((1 << POOL_BITS) - 1)
    for total, each, fixed in (
        (kinds.cpus, jobs.shape_cpus, np.zeros_like(asks.most)),
        (kinds.mem, jobs.shape_mem, asks.node_mem),
        (gpus, jobs.shape_gpus, asks.node_gpus),
    ):
        left = np.where(each[:, None] > 0, (total - fixed[:, None]) // np.maximum(each, 1)[:, None], free)
        held = np.minimum(held, left)
    per_kind = np.bincount(system.kind_of, minlength=len(kinds.cpus))
    most = np.minimum(asks.most, jobs.shape_nodes)[:, None]
    least = least_nodes(jobs.shape_nodes, asks, np.minimum(held, most), per_kind)
    binds = (asks.min_nodes > 1) | (asks.max_nodes < np.minimum(jobs.shape_nodes, n_nodes))
    runs = least > 0
    free_of = np.stack([asks.node_mem, asks.node_words, binds, asks.whole | int(whole)])
    alike = [jobs.shape_cpus, jobs.shape_mem, jobs.shape_words, jobs.shape_types]
    units_only = (
        bool(runs.any())
        and not free_of[:, runs].any()
        and all((column[runs] == column[runs][0]).all() for column in alike)
        and bool((most >= np.minimum(held, jobs.shape_nodes[:, None]))[runs][:, per_kind > 0].all())
        and bool((held[runs] < free).all())
    )
    n_units = int(held[runs][0] @ per_kind) if units_only else -1
    tasks = Tasks(
        asks.most,
        asks.min_nodes,
        asks.max_nodes,
        asks.node_mem,
        asks.node_words,
        np.full(len(least), 1) if whole else asks.whole,
        least,
        binds.astype(np.int64),
        **filled(n_nodes, units=0, rows=0, enters=0),
        **filled(1, n_chosen=0),
        **filled(len(jobs.submit), n_used=0),
        node_units=np.zeros(0, np.int32),
        n_listed=np.zeros(0, np.int64),
        keys=np.zeros(n_nodes),
    )
    return tasks, n_units


def _writable(column: np.ndarray) -> np.ndarray:
    """Return a column as kernels take it: one of a frame may be read-only, for which they would be compiled anew."""
    return np.require(column, requirements=["C", "W"])


def build(
    jobs: Jobs,
    system: System,
    durations: Durations,
    options: Options | None = None,
    *,
    user: np.ndarray | None = None,
    estimate: np.ndarray | None = None,
    due: np.ndarray | None = None,
) -> tuple[World, State]:
    """Lay out an empty system and a workload of which nothing has been submitted yet.

    ``user`` int64[n_jobs] in queue order, numbered from 0, all jobs are of one without; ``estimate`` int64[n_jobs], s,
    what a scheduler believes that a job will run, without, the requested time; ``due`` int64[n_jobs], s after the first
    submission, FAR = none.
    """
    options = options or Options()
    tasks, n_units, holds = None, -1, n_fitting_nodes(system.fits_empty, system.kind_of) >= jobs.shape_nodes
    if jobs.tasks is not None:
        tasks, n_units = make_tasks(jobs, system, bool(options.exclusive))
        holds = tasks.least > 0
    only_counts = n_units >= 0 if tasks else is_pool(jobs, system, holds, options.exclusive)
    guards = guards_of(jobs, system.kinds)
    jobs = Jobs(*map(_writable, jobs[:-1]))  # type: ignore[arg-type]
    user = np.zeros(len(jobs.submit), np.int64) if user is None else user
    n_users = int(user.max(initial=0)) + 1
    places, tasks = _places(jobs, len(system.kind_of), tasks, options)
    state = State(
        **_of_jobs(jobs, user, estimate, due),
        **_of_nodes(system, jobs.shape_cpus),
        **places,
        **filled(1, now=0, n_waiting=0, n_submitted=0, n_running=0, n_ended=0, n_changes=0, n_corrected=0),
        **filled(1, wake=-1, n_asked=0, n_idle=n_units if tasks else len(system.kind_of)),
        guards=guards,
        pool=int(only_counts),
        accounts=Accounts(np.zeros(n_users + 1), *np.zeros((2, n_users + 1), np.int64)),
        options=options,
        tasks=tasks,
    )
    return _world(system, durations, holds[jobs.shape_of], n_users), state


def _of_jobs(jobs: Jobs, user: np.ndarray, estimate: np.ndarray | None, due: np.ndarray | None) -> dict[str, Any]:
    """Return what a state has of each job."""
    n_jobs, longest = len(jobs.submit), np.where(jobs.requested > 0, jobs.requested, FAR)
    shapes = (jobs.shape_nodes, jobs.shape_cpus, jobs.shape_mem, jobs.shape_words, jobs.shape_types)
    return {
        **{name: getattr(jobs, name) for name in ("submit", "requested", "n_nodes", "cpus", "mem", "types")},
        **filled(n_jobs, running=0, expected_end=-1, ended=0, start=-1, pace=PACE_ONE, asked=0, asked_pace=-1),
        **filled(n_jobs + 1, next_waiting=n_jobs, previous_waiting=n_jobs),
        "estimate": longest if estimate is None else np.clip(estimate, 1, longest),
        "due": np.full(n_jobs, FAR, np.int64) if due is None else due,
        "user": user,
        "gpus": jobs.words,
        "shape": jobs.shape_of.astype(np.int64),
        "shapes": Shapes(*shapes),
    }


def _of_nodes(system: System, shape_cpus: np.ndarray) -> dict[str, Any]:
    """Return what a state has of each node."""
    kinds, kind_of, n_nodes = system.kinds, system.kind_of, len(system.kind_of)
    totals = {"cpus": kinds.cpus[kind_of], "mem": kinds.mem[kind_of], "gpus": kinds.words[kind_of]}
    return {
        **{f"total_{name}": column for name, column in totals.items()},
        **{f"free_{name}": column.copy() for name, column in totals.items()},
        **filled(n_nodes, chosen=0),
        "node_types": kinds.types[kind_of],
        "leaf": system.leaf,
        "pod": system.pod,
        "touched": Touched(np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.bool_), np.zeros(1, np.int64)),
        "usable": make_usable(numbered(*totals.values(), kinds.types[kind_of]), shape_cpus),
    }


def _places(jobs: Jobs, n_nodes: int, tasks: Tasks | None, options: Options) -> tuple[dict[str, Any], Tasks | None]:
    """Return room for the nodes of each job, and the tasks with room for how many stand on each."""
    most_nodes = jobs.n_nodes if tasks is None else np.minimum(tasks.max_nodes[jobs.shape_of], n_nodes)
    first = np.concatenate([[0], np.cumsum(most_nodes)]).astype(np.int64)
    if tasks is None:
        return {"node_first": first, "node_list": np.full(int(first[-1]), -1, np.int32)}, None
    listed, units = np.zeros((2, int(first[-1])), np.int32)
    tasks = tasks._replace(node_units=units, n_listed=np.full(1, -options.plans, np.int64))
    return {"node_first": first, "node_list": listed}, tasks


def _world(system: System, durations: Durations, runnable: np.ndarray, n_users: int) -> World:
    n_jobs = len(runnable)
    return World(
        durations=_writable(durations.took),
        full=_writable(durations.full),
        limit=_writable(durations.limit),
        speed_of_node=system.kinds.speed[system.kind_of],
        runnable=runnable,
        speed_of=np.zeros(n_jobs, np.uint32),
        cut=np.zeros(n_jobs, np.bool_),
        last_run=np.full((n_users, 2), -1, np.int64),
        **filled(n_jobs, end=-1, heap=0, left=-1, believed=0, limit_left=0, since=0),
        **filled(len(system.kind_of), named_at=0),
        **filled(1, n_heap=0, max_queue_depth=0, n_placements=0),
        **filled(2, idle_wakes=0),
    )
