"""One run: a job table on a node table under a policy gives a schedule and its metrics."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from procure.errors import ArgumentError, TableError
from procure.policies import catalog
from procure.policies.parameters import Parameters
from procure.schemas import JOB, NODE
from procure.settings import validated
from procure.simulator import state as simulator_state
from procure.simulator.arrays import (
    Jobs,
    Kinds,
    durations,
    fits_empty,
    gpu_type_bits,
    job_arrays,
    node_kinds,
    switches,
)
from procure.simulator.drive import CompiledPolicy, Policy, drive, load_compiled, policy_name
from procure.simulator.fast_lane import FastLaneError, best_fit_schedule, check_fast_lane
from procure.simulator.metrics import METRIC_NAMES, Usage, as_record, measure
from procure.simulator.state import FAR, Options, State
from procure.tables import check
from procure.workload.speed import scale_run_time


@dataclass(frozen=True)
class Run:
    """What one simulation gave.

    Attributes
    ----------
    schedule
        The job table in its own row order with simulated ``start_time``, ``end_time`` (Unix seconds,
        empty for unrunnable jobs) and ``node_ids``.
    metrics
        `procure.tables.METRICS` by name; None where undefined.
    elapsed
        Seconds that the simulation itself took (a measurement, not a result).
    killed
        bool[n_jobs] in the job table's order: ended at its limit.
    """

    schedule: pd.DataFrame
    metrics: dict[str, Any]
    elapsed: float
    killed: np.ndarray


@dataclass(frozen=True)
class Prepared:
    """A workload and nodes as arrays, ready to run."""

    jobs: Jobs
    kinds: Kinds
    kind_of: np.ndarray
    fits: np.ndarray
    durations: np.ndarray
    killed: np.ndarray
    leaf: np.ndarray
    pod: np.ndarray


def usage_of(jobs: Jobs) -> Usage:
    """Return what each job keeps busy on all its nodes together."""
    return Usage(*((column * jobs.n_nodes).astype(np.float64) for column in (jobs.cpus, jobs.mem, jobs.gpus)))


def scaled_durations(
    jobs: Jobs, table: pd.DataFrame, speeds: list[Any], logged_speed: Any, kill_at_limit: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return `simulator.arrays.durations` of a job table at each of the speeds."""
    run_time = table["run_time"].to_numpy(np.int64)
    return durations(jobs, [scale_run_time(run_time, logged_speed, speed) for speed in speeds], kill_at_limit)


def prepare(
    jobs: pd.DataFrame, nodes: pd.DataFrame, *, kill_at_limit: bool = True, logged_speed: Any = None
) -> Prepared:
    """Check both tables and lay them out as arrays."""
    return _prepare(check(jobs, JOB), check(nodes, NODE), kill_at_limit, logged_speed)


def _prepare(jobs: pd.DataFrame, nodes: pd.DataFrame, kill_at_limit: bool, logged_speed: Any) -> Prepared:
    if jobs.empty or nodes.empty:
        raise TableError(f"there are no {'jobs' if jobs.empty else 'nodes'} to simulate")
    bits = gpu_type_bits(jobs["gpu_type"], nodes["gpu_type"])
    job_rows = job_arrays(jobs, bits)
    kinds, kind_of, speeds = node_kinds(nodes, bits)
    took, killed = scaled_durations(job_rows, jobs, speeds, logged_speed, kill_at_limit)
    leaf, pod = switches(nodes)
    return Prepared(job_rows, kinds, kind_of, fits_empty(job_rows, kinds), took, killed, leaf, pod)


def simulate(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    policy: str | Parameters | Callable = catalog.DEFAULT,
    *,
    parameters: Mapping[str, Any] | None = None,
    kill_at_limit: bool = True,
    logged_speed: Any = None,
    options: Mapping[str, Any] | None = None,
    estimates: np.ndarray | None = None,
    fast_lane: bool = True,
) -> Run:
    """Simulate a workload on nodes under a policy.

    Parameters
    ----------
    jobs, nodes
        Job and node tables; they are not modified. Due dates come from a column ``due_time`` (Unix
        seconds, empty = none) where the jobs have one.
    policy
        A name from `procure.policies.catalog.names`, also written ``NAME:key=value,key=value``; the
        parameters of a policy, which make it; or a callable of the policy protocol.
    parameters
        Of a policy that is named: those that differ from the defaults.
    kill_at_limit
        End a job at its ``requested_time`` (0 = no limit); such jobs are counted in ``n_killed``.
    logged_speed
        Speed of the logged system in the unit of the nodes' ``speed``; a job takes
        ⌈run_time × logged_speed / speed⌉ s. None = the ratio 1.0 on every node.
    options
        The same under the names of earlier versions, where EASY's order behind the reservation was
        ``backfill_order`` and that of the queue ``order``; and what the simulator does differently for
        a callable: ``exclusive``, ``last_two``, ``half_life``.
    estimates
        int64[n_jobs] in table order, s: what the scheduler believes that each job will run, e.g. a
        model's quantile. Never above the requested time. None = the requested time.
    fast_lane
        Use the specialised kernel where one exists; the schedule is the same without.

    Raises
    ------
    TableError
        A bad table, an unknown policy or parameter, or jobs that the policy cannot place.
    """
    jobs, nodes = check(jobs, JOB), check(nodes, NODE)
    ready = _prepare(jobs, nodes, kill_at_limit, logged_speed)
    if isinstance(policy, str):
        catalog.refuse_multi_node(jobs, policy)
    chosen = _chosen(policy, parameters, options or {})
    batched = chosen.batched and fast_lane
    start, end, speed_of, placed, depth, elapsed = _simulate(ready, chosen, jobs, estimates, batched)
    out = np.empty(len(METRIC_NAMES))
    kinds, kind_of = ready.kinds, ready.kind_of
    capacity = tuple(float(column[kind_of].sum()) for column in (kinds.cpus, kinds.mem, kinds.gpus))
    measure(ready.jobs.submit, start, end, ready.killed, speed_of, usage_of(ready.jobs), capacity, depth, out)
    killed = np.empty(len(start), dtype=bool)
    killed[ready.jobs.row] = ready.killed[speed_of, np.arange(len(start))] & (start >= 0)
    return Run(_schedule(jobs, nodes, ready.jobs, start, end, placed), as_record(out), elapsed, killed)


class _Chosen(NamedTuple):
    """Which policy decides a run: what to call it, how it is made, and what the simulator does for it."""

    name: str
    make: Callable[[State], Policy]
    options: Options
    batched: bool = False


class _CallableOptions(Parameters):
    half_life: float = Field(0.0, ge=0)

    def options(self) -> Options:
        return super().options()._replace(half_life=self.half_life)


def _chosen(policy: Any, parameters: Mapping[str, Any] | None, options: Mapping[str, Any]) -> _Chosen:
    if isinstance(policy, str):
        given = catalog.from_options(catalog.split(policy)[0], options) | dict(parameters or {})
        spec = catalog.spec(policy, given)
        return _Chosen(spec.name, spec.parameters.make, spec.parameters.options(), spec.batched)
    if parameters:
        raise ArgumentError("parameters", "parameters belong to a policy that is named")
    if isinstance(policy, Parameters):
        return _Chosen(type(policy).__name__, policy.make, policy.options())
    plain = validated(_CallableOptions, dict(options), "options of a callable policy")
    return _Chosen(policy_name(policy), lambda state: policy, plain.options())


def _simulate(
    ready: Prepared, chosen: _Chosen, jobs: pd.DataFrame, estimates: np.ndarray | None, batched: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any, int, float]:
    if batched:
        with contextlib.suppress(FastLaneError):
            return _by_fast_lane(ready)
    return _by_loop(ready, chosen, jobs, estimates)


def _by_fast_lane(ready: Prepared) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any, int, float]:
    bits = check_fast_lane(ready.jobs, ready.kinds, ready.durations)
    n_jobs = len(ready.jobs.submit)
    start, end, node_of = np.empty(n_jobs, np.int64), np.empty(n_jobs, np.int64), np.empty(n_jobs, np.int32)
    arguments = (
        ready.jobs,
        ready.kinds,
        ready.fits,
        ready.kind_of,
        ready.durations,
        bits,
        start,
        end,
        node_of,
    )
    load_compiled(best_fit_schedule, *arguments)
    began = time.perf_counter()
    depth = best_fit_schedule(*arguments)
    elapsed = time.perf_counter() - began
    speed_of = ready.kinds.speed[ready.kind_of[np.maximum(node_of, 0)]]
    return start, end, speed_of, (node_of, np.arange(n_jobs + 1), {}), depth, elapsed


def _by_loop(
    ready: Prepared, chosen: _Chosen, table: pd.DataFrame, estimates: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any, int, float]:
    row = ready.jobs.row
    due = None
    if "due_time" in table:
        given = pd.to_numeric(table["due_time"], errors="coerce").to_numpy(np.float64)[row]
        first = float(table["submit_time"].min())
        due = np.where(np.isnan(given), FAR, np.nan_to_num(given) - first).astype(np.int64)
    world, state = simulator_state.build(
        ready.jobs,
        ready.kinds,
        ready.fits,
        ready.kind_of,
        ready.durations,
        options=chosen.options,
        user=pd.factorize(table["user"])[0][row].astype(np.int64),
        estimate=None if estimates is None else np.asarray(estimates).astype(np.int64)[row],
        due=due,
        leaf=ready.leaf,
        pod=ready.pod,
    )
    policy = chosen.make(state)
    if isinstance(policy, CompiledPolicy):
        load_compiled(policy.loop, world, state, policy.own)
    began = time.perf_counter()
    drive(world, state, policy, name=chosen.name)
    elapsed = time.perf_counter() - began
    own_columns = policy.columns() if isinstance(policy, CompiledPolicy) and policy.columns else {}
    placed = (state.node_list, state.node_first, own_columns)
    return state.start, world.end, world.speed_of, placed, int(world.max_queue_depth[0]), elapsed


def _schedule(
    jobs: pd.DataFrame, nodes: pd.DataFrame, arrays: Jobs, start: np.ndarray, end: np.ndarray, placed: Any
) -> pd.DataFrame:
    ran = start >= 0
    names = nodes["node_id"].astype(str).to_list()
    first = int(jobs["submit_time"].to_numpy()[arrays.row[0]])
    columns = {
        "start_time": pd.array(np.where(ran, start + first, 0), dtype="Int64"),
        "end_time": pd.array(np.where(ran, end + first, 0), dtype="Int64"),
    }
    for values in columns.values():
        values[~ran] = pd.NA
    flat, first_of, own_columns = placed
    bounds = first_of.tolist()
    node_ids = [
        ",".join([names[n] for n in flat[low:high].tolist()]) if runs else ""
        for low, high, runs in zip(bounds, bounds[1:], ran.tolist(), strict=False)
    ]
    schedule = jobs.reset_index(drop=True).copy()
    back = np.argsort(arrays.row, kind="stable")
    for name, values in columns.items():
        schedule[name] = values[back]
    for name, values in {"node_ids": node_ids, **own_columns}.items():
        schedule[name] = np.array(values, dtype=object)[back]
    return schedule
