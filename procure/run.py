"""One run: a job table on a node table under a policy gives a schedule and its metrics."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from procure.errors import TableError
from procure.policies import catalog
from procure.policies.catalog import Chosen, chosen_policy
from procure.policies.parameters import Facts, Parameters
from procure.progress import step
from procure.schemas import JOB, METRICS, NODE, REQUEST, TASKS
from procure.simulator.arrays import (
    Durations,
    Jobs,
    Kinds,
    durations,
    fits_empty,
    gpu_fields,
    gpu_type_bits,
    in_queue_order,
    job_arrays,
    node_kinds,
    profiles,
    switches,
    with_held,
)
from procure.simulator.drive import CompiledPolicy, compiling, drive, load_compiled
from procure.simulator.fast_lane import FastLaneError, best_fit_schedule, check_fast_lane
from procure.simulator.metrics import (
    NO_CLASSES,
    Groups,
    Usage,
    as_record,
    measure,
    measure_groups,
    metric_names,
    utilization_nodes,
)
from procure.simulator.schedule import Outcome, schedule_of
from procure.simulator.state import FAR, System, build
from procure.simulator.tasks import placed
from procure.tables import as_table, check, with_clock_of
from procure.text import Shown, counted, with_unit
from procure.workload.clock import has_dates
from procure.workload.describe import class_of
from procure.workload.parts import check_warm_up
from procure.workload.speedups import GPUS as GPU_SPEEDS
from procure.workload.speedups import KINDS as KIND_SPEEDS
from procure.workload.speedups import run_times_on

_UNITS = {one.name: one.unit for one in METRICS if one.unit != "0 or 1"} | {"utilization_nodes": "share"}


_PLACED = ("start", "tasks", "node_list", "node_first")
_READ = {
    *("job_id", "user", "submit_time", "requested_time", "run_time", "due_time", "partition", KIND_SPEEDS, GPU_SPEEDS),
    *("cpu_percent", "mem_percent", "bandwidth_percent", *REQUEST, *TASKS),
}
"""Columns of a job table that the simulator reads."""


@dataclass(frozen=True, repr=False)
class Run(Shown):
    """What one simulation gave.

    Attributes
    ----------
    metrics
        `procure.tables.METRICS` by name, and ``utilization_nodes``, the share of the nodes that run at least one job
        over the makespan; None where undefined.
    elapsed
        Seconds that the simulation itself took (a measurement, not a result).
    killed
        bool[n_jobs] in the job table's order: ended at its limit.
    """

    metrics: dict[str, Any]
    elapsed: float
    killed: np.ndarray
    _schedule: Callable[[], pd.DataFrame]

    notes = ()

    @functools.cached_property
    def schedule(self) -> pd.DataFrame:
        """The job table in its own row order with simulated ``start_time``, ``end_time`` and ``node_ids``.

        Times in Unix seconds, empty for unrunnable jobs. Made when it is asked for.
        """
        return self._schedule()

    @property
    def title(self) -> str:
        """What was simulated."""
        return f"simulated {counted(len(self.killed), 'job')}"

    def shown(self) -> pd.DataFrame:
        """Return the metrics for people, with their units."""
        said = {key: "–" if one is None else with_unit(one, _UNITS.get(key, "")) for key, one in self.metrics.items()}
        return pd.DataFrame({"metric": list(said), "value": list(said.values())})


@dataclass(frozen=True)
class Prepared:
    """A workload and nodes as arrays, laid out once and ready for any number of runs."""

    jobs: Jobs
    kinds: Kinds
    fits: np.ndarray  # bool[n_shapes, n_kinds]
    durations: Durations
    user: np.ndarray  # int64[n_jobs], numbered from 0
    due: np.ndarray  # int64[n_jobs], s after the first submission; FAR = none
    job_class: np.ndarray  # int64[n_jobs], a place in `procure.schemas.CLASSES`
    kind_of: np.ndarray  # uint32[n_nodes]
    leaf: np.ndarray  # int64[n_nodes]; −1 = unknown
    pod: np.ndarray  # int64[n_nodes]; −1 = unknown
    profiles: np.ndarray  # float64[3, n_jobs], % of CPUs, memory and bandwidth that a job uses; NaN = unknown
    counts_from: int = 0  # s after the first submission; jobs submitted before are not counted
    began: int | None = None  # Unix s of the first submission; None = the log has no dates
    table: pd.DataFrame | None = None  # the job table in queue order
    nodes: pd.DataFrame | None = None  # the node table
    own_classes: tuple[str, ...] = ()  # names of the classes that a study defines
    own: np.ndarray = field(default_factory=lambda: NO_CLASSES)  # int64[n_own, n_jobs], see `Groups`

    @functools.cached_property
    def usage(self) -> Usage:
        """What jobs ask for on all their nodes."""
        jobs = self.jobs
        return Usage(*((column * jobs.n_nodes).astype(np.float64) for column in (jobs.cpus, jobs.mem, jobs.gpus)))

    @property
    def n_counted(self) -> int:
        """Jobs that are not of the warm-up."""
        return int((self.jobs.submit >= self.counts_from).sum())

    @property
    def system(self) -> System:
        """The nodes."""
        return System(self.kinds, self.kind_of, self.fits, self.leaf, self.pod)

    @property
    def groups(self) -> Groups:
        """The class of each job, and whose it is."""
        return Groups(self.job_class, self.user, self.own)

    @property
    def capacity(self) -> tuple[float, float, float]:
        """CPUs, MB and GPUs of all nodes."""
        cpus, mem, gpus = (column[self.kind_of].sum() for column in self.kinds[:3])
        return float(cpus), float(mem), float(gpus)


def prepare(
    jobs: pd.DataFrame, nodes: pd.DataFrame, *, kill_at_limit: bool = True, logged_speed: Any = None
) -> Prepared:
    """Check both tables and lay them out as arrays."""
    return prepare_checked(check(jobs, JOB), check(nodes, NODE), kill_at_limit, logged_speed)


def prepare_checked(
    jobs: pd.DataFrame, nodes: pd.DataFrame, kill_at_limit: bool, logged_speed: Any, warm_up: int = 0
) -> Prepared:
    """Do as `prepare` with tables that are known to be right."""
    if jobs.empty or nodes.empty:
        raise TableError(f"there are no {'jobs' if jobs.empty else 'nodes'} to simulate")
    check_warm_up(jobs, warm_up)
    bits = gpu_type_bits(jobs["gpu_type"], nodes["gpu_type"])
    fields = gpu_fields(jobs, nodes)
    rows = job_arrays(jobs, bits, fields)
    table = in_queue_order(jobs, rows.row)
    kinds, kind_of, speeds = node_kinds(nodes, bits, KIND_SPEEDS in jobs, fields)
    scaled = [run_times_on(jobs, logged_speed, *each) for each in speeds]
    if len(scaled) > 1:  # rows that are equal become one: nearly always, as GPUs do not change run times
        distinct = list({row.tobytes(): None for row in scaled})
        row_of = np.array([distinct.index(row.tobytes()) for row in scaled])
        scaled = [np.frombuffer(row, np.int64) for row in distinct]
        kinds = kinds._replace(speed=row_of[kinds.speed].astype(np.uint32))
    took = durations(rows, scaled, kill_at_limit)
    user = pd.factorize(jobs["user"])[0][rows.row].astype(np.int64)
    due = np.full(len(jobs), FAR, np.int64)
    if "due_time" in jobs:
        given = pd.to_numeric(jobs["due_time"], errors="coerce").to_numpy(np.float64)[rows.row]
        after = np.nan_to_num(given) - float(jobs["submit_time"].min())
        due = np.where(np.isnan(given), FAR, after).astype(np.int64)
    fits, classes = fits_empty(rows, kinds), class_of(jobs)[rows.row]
    return Prepared(
        *(rows, kinds, fits, took, user, due, classes, kind_of, *switches(nodes)),
        profiles=profiles(table),
        counts_from=warm_up,
        began=int(jobs["submit_time"].min()) if len(jobs) and has_dates(jobs) else None,
        table=table,
        nodes=nodes,
    )


def simulate(
    jobs: pd.DataFrame | str | Path,
    nodes: pd.DataFrame | str | Path,
    policy: str | Parameters | Callable = catalog.DEFAULT,
    *,
    parameters: Mapping[str, Any] | None = None,
    kill_at_limit: bool = True,
    logged_speed: Any = None,
    estimates: np.ndarray | None = None,
    fast_lane: bool = True,
    warm_up: int = 0,
) -> Run:
    """Simulate a workload on nodes under a policy.

    Parameters
    ----------
    jobs, nodes
        Job and node tables, which are not modified, or their files. Due dates come from a column ``due_time`` (Unix
        seconds, empty = none) where the jobs have one.
    policy
        A name from `procure.policies.catalog.names`, also written ``NAME:key=value,key=value``; the
        parameters of a policy, which make it; or a callable of the policy protocol.
    parameters
        Of a policy that is named: those that differ from the defaults. Of a callable: ``exclusive``, ``last_two``,
        ``half_life``.
    kill_at_limit
        End a job at its ``requested_time`` (0 = no limit); such jobs are counted in ``n_killed``.
    logged_speed
        Speed of the logged system in the unit of the nodes' ``speed``; a job takes
        ⌈run_time × logged_speed / speed⌉ s. None = the ratio 1.0 on every node. Where the jobs' ``kind_speeds`` name
        the node's ``kind``, that speed holds instead.
    estimates
        int64[n_jobs] in table order, s: what the scheduler believes that each job will run, e.g. a
        model's quantile. Never above the requested time. None = the requested time.
    fast_lane
        Use the specialised kernel where one exists; the schedule is the same without.
    warm_up
        s from the first submission; what is submitted in it is simulated, but not counted in the metrics.

    Raises
    ------
    TableError
        A bad table, an unknown policy or parameter, or jobs that the policy cannot place.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.generate(seed=1, n_jobs=50)
    >>> nodes = procure.fat_tree(1, 1, 4, cpus=64, mem_mb=512_000)
    >>> procure.simulate(jobs, nodes, "easy").metrics["n_jobs"]
    50
    """
    jobs, nodes = as_table(jobs, JOB), as_table(nodes, NODE)
    ready = prepare_checked(jobs, nodes, kill_at_limit, logged_speed, warm_up)
    if isinstance(policy, str):
        catalog.refuse_multi_node(jobs, policy)
    given = None if estimates is None else np.asarray(estimates).astype(np.int64)[ready.jobs.row]
    found = run_prepared(ready, policy, parameters, given, fast_lane)
    return _run_of(ready, found, lambda: schedule_of(jobs, nodes, ready.jobs, found))


def _run_of(ready: Prepared, found: Outcome, schedule: Callable[[], pd.DataFrame]) -> Run:
    killed = np.empty(len(found.start), dtype=bool)
    killed[ready.jobs.row] = found.killed
    places = (found.start, found.end, found.node_list, found.node_first, len(ready.kind_of))
    metrics = as_record(measured(ready, found)) | {"utilization_nodes": utilization_nodes(*places)}
    return Run(metrics, found.elapsed, killed, schedule)


def simulate_only(jobs: list[pd.DataFrame], nodes: pd.DataFrame, policy: str, **options: Any) -> Run:
    """Do as `simulate` with checked tables, the jobs in a list: nothing else may hold them, so that they can be let go.

    The schedule has ``job_id`` and ``start_time`` only, unless the policy reads the table.
    """
    made, sees = type(catalog.spec(policy).parameters), ("make_with", "occupied", "consumes_memory")
    if any(getattr(made, name) is not getattr(Parameters, name) for name in sees):
        return simulate(jobs.pop(), nodes, policy, **options)
    given = jobs.pop()
    table = with_clock_of(given, given[[name for name in given if name in _READ]])
    del given
    ready = prepare_checked(table, nodes, **options)
    catalog.refuse_multi_node(table, policy)
    ids, ready = pa.array(table["job_id"], pa.large_string()), replace(ready, table=None)
    del table
    found = run_prepared(ready, policy)

    def schedule() -> pd.DataFrame:
        start = np.empty(len(ids))
        start[ready.jobs.row] = np.where(found.start >= 0, found.start, np.nan)
        return pd.DataFrame({"job_id": ids.to_pandas(), "start_time": start})

    return _run_of(ready, found, schedule)


def measured(ready: Prepared, found: Outcome) -> np.ndarray:
    """Return the metrics of a run, float64[n_metrics] in the order of `metric_names` of the own classes."""
    out = np.empty(len(metric_names(ready.own_classes)))
    jobs, depth = ready.jobs, found.max_queue_depth
    times = (jobs.submit, found.start, found.end)
    measure(*times, found.killed, _usage(ready, found), ready.capacity, 0, depth, ready.counts_from, out)
    measure_groups(jobs.submit, found.start, ready.groups, ready.counts_from, out)
    return out


def _usage(ready: Prepared, found: Outcome) -> Usage:
    """Return what jobs keep busy, with what jobs of tasks ask for on each node that they use."""
    tasks, usage = ready.jobs.tasks, ready.usage
    if tasks is None:
        return usage
    used = np.diff(found.node_first)
    mem, gpus = (used * column[ready.jobs.shape_of] for column in (tasks.node_mem, tasks.node_gpus))
    return Usage(usage.cpus, usage.mem + mem, usage.gpus + gpus)


def run_prepared(
    ready: Prepared,
    policy: str | Parameters | Callable = catalog.DEFAULT,
    parameters: Mapping[str, Any] | None = None,
    estimates: np.ndarray | None = None,
    fast_lane: bool = True,
) -> Outcome:
    """Do what `simulate` does, from arrays to arrays; ``estimates`` stand in queue order."""
    if not len(ready.kind_of):
        raise TableError("there are no nodes to simulate")
    chosen = chosen_policy(policy, dict(parameters or {}))
    if chosen.batched and fast_lane:
        with contextlib.suppress(FastLaneError):
            return _by_fast_lane(ready)
    made, tasks = chosen.made, ready.jobs.tasks
    if tasks is not None and made is not None and not made.takes_tasks:
        says_itself = made.exclusive or type(made).occupied is not Parameters.occupied
        if not says_itself or (tasks.most > 1).any():
            raise TableError(_no_tasks(ready, chosen.name))
        ready = replace(ready, jobs=ready.jobs._replace(tasks=None))  # what whole nodes take the policy says itself
    return _by_loop(_as_occupied(ready, chosen), chosen, estimates)


def _no_tasks(ready: Prepared, policy: str) -> str:
    """Say that a policy places jobs of nodes only, and which do not."""
    tasks = ready.jobs.tasks
    assert tasks is not None
    of_tasks, whole = (tasks.most > 1)[ready.jobs.shape_of], (tasks.whole > 0)[ready.jobs.shape_of]
    asking, n = (of_tasks | whole if of_tasks.any() else whole).sum(), f"{len(ready.jobs.row):,}"
    able = ", ".join(name for name in catalog.POLICIES if catalog.model_of(name).takes_tasks)
    if not of_tasks.any():
        return (
            f"policy {policy} lets jobs share nodes, and {asking:,} of {n} jobs take theirs whole (column exclusive); "
            f"leave the column out, let all jobs do so by exclusive=true, or simulate by one of {able}"
        )
    return (
        f"policy {policy} places jobs of nodes only, and {asking:,} of {n} jobs ask for tasks or for whole nodes; "
        f"simulate with --shape as-logged, or by one of {able}"
    )


def _as_occupied(ready: Prepared, chosen: Chosen) -> Prepared:
    """Let jobs take what the policy says: other CPUs than they ask for where nodes hold them, or no memory."""
    if chosen.made is None or ready.table is None:
        return ready
    if not chosen.made.consumes_memory(ready.table):
        jobs = with_held(ready.jobs, ready.jobs.cpus, np.zeros_like(ready.jobs.mem))
        ready = replace(ready, jobs=jobs, fits=fits_empty(jobs, ready.kinds))
    cpus = chosen.made.occupied(ready.table, ready.kinds.cpus[ready.kind_of])
    if cpus is None or (cpus == ready.jobs.cpus).all():
        return ready
    n_of_kind = np.bincount(ready.kind_of, minlength=len(ready.kinds.cpus))
    jobs = with_held(ready.jobs, cpus, ready.jobs.mem)
    holds = fits_empty(jobs, ready.kinds) @ n_of_kind >= jobs.shape_nodes
    jobs = with_held(ready.jobs, np.where(holds[jobs.shape_of], cpus, ready.jobs.cpus), ready.jobs.mem)
    return replace(ready, jobs=jobs, fits=fits_empty(jobs, ready.kinds))


def _by_fast_lane(ready: Prepared) -> Outcome:
    jobs, kinds, took = ready.jobs, ready.kinds, ready.durations.took
    bits = check_fast_lane(jobs, kinds, took)
    n_jobs = len(jobs.submit)
    start, end, node_of = np.empty(n_jobs, np.int64), np.empty(n_jobs, np.int64), np.empty(n_jobs, np.int32)
    arguments = (jobs, kinds, ready.fits, ready.kind_of, took, bits, start, end, node_of)
    with compiling("best-fit"):
        load_compiled(best_fit_schedule, *arguments)
    began = time.perf_counter()
    depth = best_fit_schedule(*arguments)
    elapsed = time.perf_counter() - began
    speed_of = kinds.speed[ready.kind_of[np.maximum(node_of, 0)]]
    killed = ready.durations.killed[speed_of, np.arange(n_jobs)] & (start >= 0)
    return Outcome(start, end, killed, node_of, np.arange(n_jobs + 1), depth, elapsed)


def _by_loop(ready: Prepared, chosen: Chosen, estimates: np.ndarray | None) -> Outcome:
    took = ready.durations
    world, state = build(
        ready.jobs, ready.system, took, chosen.options, user=ready.user, estimate=estimates, due=ready.due
    )
    facts = Facts(ready.profiles, took.full, ready.kinds.speed[ready.kind_of], ready.began, ready.table, ready.nodes)
    policy = chosen.make(state, facts)
    if isinstance(policy, CompiledPolicy) and policy.rejected is not None:
        world.runnable[policy.rejected] = False
    with step(f"simulating {counted(len(state.start), 'job')}"), compiling(chosen.name):
        if isinstance(policy, CompiledPolicy):
            load_compiled(policy.loop, world, state, policy.own)
        began = time.perf_counter()
        drive(world, state, policy, name=chosen.name)
        elapsed = time.perf_counter() - began
    killed = took.killed[world.speed_of, np.arange(len(state.start))] & (state.start >= 0)
    killed = np.where(world.left >= 0, world.cut, killed)
    depth = int(world.max_queue_depth[0])
    columns = policy.columns() if isinstance(policy, CompiledPolicy) and policy.columns else {}
    end, kept = world.end, SimpleNamespace(**{name: getattr(state, name) for name in _PLACED})
    del world, state, policy  # half of what is held
    nodes, first, units = placed(kept)
    return Outcome(kept.start, end, killed, nodes, first, depth, elapsed, columns, units)
