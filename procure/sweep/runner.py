"""One batch: the runs of some packages on one workload under one policy, as result rows.

Workers of one node share a workload: its arrays stand in a file that each maps, not in every process.
"""

from __future__ import annotations

import contextlib
import mmap
import pickle
import socket
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from procure.errors import TableError
from procure.files import whole_file
from procure.packages import package_nodes
from procure.policies import catalog
from procure.run import Prepared, measured, prepare_checked, run_prepared
from procure.schemas import NODE, RESULT
from procure.simulator.fast_lane import FastLaneError, best_fit_batch, check_fast_lane
from procure.simulator.metrics import metric_names
from procure.study import Plan
from procure.sweep.parts import schema_of
from procure.tables import check

_ALIGNED = 64


@dataclass(frozen=True)
class Bench:
    """A workload, a policy and the quoted types, ready to simulate any package, see `share`.

    ``ready`` has the existing nodes first, then one node of each type. ``bits`` is None where the
    kernel for many packages does not apply; then each package is a run of its own.
    """

    workload: str
    policy: str
    ready: Prepared
    n_existing: int
    bits: tuple[int, int, int] | None


def make_bench(plan: Plan, workload: str, policy: str) -> Bench:
    """Lay out one workload and policy of a plan; jobs that the policy cannot place are an error."""
    jobs = plan.workloads[workload]
    catalog.refuse_multi_node(jobs, policy)
    one_each = package_nodes(dict.fromkeys(plan.quotes["name"], 1), plan.quotes)
    existing = one_each.iloc[:0] if plan.existing is None else check(plan.existing, NODE)
    nodes = pd.concat([existing, one_each], ignore_index=True)
    kill, speed, warm_up = (
        plan.study.simulate.kill_at_limit,
        plan.logged_speed(workload),
        plan.warm_up(workload),
    )
    ready = _with_own_classes(prepare_checked(jobs, nodes, kill, speed, warm_up), plan)
    bits = None
    if catalog.is_batched(policy):
        with contextlib.suppress(FastLaneError):
            bits = check_fast_lane(ready.jobs, ready.kinds, ready.durations.took)
    return Bench(workload, policy, ready, len(existing), bits)


def _with_own_classes(ready: Prepared, plan: Plan) -> Prepared:
    """Say which jobs are of the classes that the study defines."""
    if not plan.study.job_classes:
        return ready
    assert ready.table is not None
    members = np.array([one.members(ready.table) for one in plan.study.job_classes])
    own = np.where(members, np.arange(len(members))[:, None], -1)
    return replace(ready, own_classes=tuple(one.name for one in plan.study.job_classes), own=own)


def simulate_rows(bench: Bench, package_ids: list[str], counts: np.ndarray) -> tuple[pa.Table, float]:
    """Simulate some packages.

    ``counts`` is int64[n_packages, n_types], types in quote order. Returns result rows in the schema of
    `procure.sweep.parts.schema_of`, one per package, of a run that failed with its reason; and the seconds spent in the
    simulation itself.
    """
    out = np.full((len(counts), len(metric_names(bench.ready.own_classes))), np.nan)
    reasons = [""] * len(counts)
    began = time.perf_counter()
    if bench.bits is not None:
        ready, n = bench.ready, bench.n_existing
        best_fit_batch(
            ready.jobs,
            ready.kinds,
            ready.fits,
            ready.durations.took,
            ready.durations.killed,
            bench.bits,
            ready.usage,
            ready.groups,
            ready.counts_from,
            ready.kind_of[:n],
            ready.kind_of[n:],
            counts,
            out,
        )
        seconds = time.perf_counter() - began
    else:
        seconds = 0.0
        for row, package in enumerate(counts):
            elapsed, reasons[row] = _simulate_one(bench, package, out[row])
            seconds += elapsed
    return _result_rows(bench, package_ids, out, reasons), seconds


def ready_of_package(bench: Bench, counts: np.ndarray) -> Prepared:
    """Return what a run of one package needs: the existing nodes, then as many of each type as it holds."""
    ready, n = bench.ready, bench.n_existing
    rows = np.concatenate([np.arange(n), np.repeat(np.arange(n, len(ready.kind_of)), counts)])
    table = None if ready.nodes is None else ready.nodes.iloc[rows].reset_index(drop=True)
    return replace(ready, kind_of=ready.kind_of[rows], leaf=ready.leaf[rows], pod=ready.pod[rows], nodes=table)


def _simulate_one(bench: Bench, counts: np.ndarray, out: np.ndarray) -> tuple[float, str]:
    try:
        ready = ready_of_package(bench, counts)
        found = run_prepared(ready, bench.policy)
    except Exception as error:  # a policy may raise anything; one run is not worth a sweep
        return 0.0, f"{type(error).__name__}: {error}"
    out[:] = measured(ready, found)
    return found.elapsed, ""


def failed_rows(bench: Bench, package_ids: list[str], reason: str) -> pa.Table:
    """Return result rows of runs that gave none, with the reason why."""
    out = np.full((len(package_ids), len(metric_names(bench.ready.own_classes))), np.nan)
    return _result_rows(bench, package_ids, out, [reason] * len(package_ids))


def _result_rows(bench: Bench, package_ids: list[str], out: np.ndarray, reasons: list[str]) -> pa.Table:
    n, own = len(package_ids), bench.ready.own_classes
    schema = schema_of(own)
    columns: dict[str, Any] = {
        "package_id": package_ids,
        "workload": [bench.workload] * n,
        "policy": [bench.policy] * n,
        "status": ["failed" if reason else "ok" for reason in reasons],
        "reason": reasons,
    }
    for name, values in zip(metric_names(own), out.T, strict=True):
        columns[name] = pa.array(values, from_pandas=True).cast(schema.field(name).type)
    columns["n_jobs"] = np.full(n, bench.ready.n_counted)
    columns["schema_version"] = np.full(n, RESULT.version)
    return pa.table([pa.array(columns[name], schema.field(name).type) for name in schema.names], schema)


class SharedBench(NamedTuple):
    """A bench without its arrays, some kilobytes that a worker is sent, and where they stand in a file."""

    path: Path
    bounds: tuple[tuple[int, int], ...]
    rest: bytes


def share(bench: Bench, path: Path) -> SharedBench:
    """Write the arrays of a bench into a new file that all workers see; a full disk is a `TableError`."""
    ready = replace(bench.ready, profiles=np.ascontiguousarray(bench.ready.profiles))  # else it is no buffer
    if bench.bits is not None:  # no policy will ask for the job table, mostly text, or for the profiles
        ready = replace(ready, table=None, profiles=ready.profiles[:, :0])
    _ = ready.usage  # kept in it from now on
    buffers: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(replace(bench, ready=ready), protocol=5, buffer_callback=buffers.append)
    bounds = []
    with whole_file(path, durable=False) as temporary, temporary.open("wb") as stream:
        for raw in (each.raw() for each in buffers):
            stream.write(bytes(-stream.tell() % _ALIGNED))
            bounds.append((stream.tell(), raw.nbytes))
            stream.write(raw)
        stream.write(bytes(_ALIGNED))  # a file without a byte cannot be mapped
    return SharedBench(path, tuple(bounds), rest)


@lru_cache(maxsize=1)
def opened(shared: SharedBench) -> Bench:
    """Return the bench, its arrays mapped from the file: memory that all processes of a node have in common."""
    try:
        with shared.path.open("rb") as stream:
            # Pages that somebody writes to would become that process's own; kernels want arrays that may be written.
            view = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY))
    except OSError as error:
        raise TableError(
            f"{shared.path}: the worker on {socket.gethostname()} cannot read it: {error.strerror}; let `results` in "
            "the study file name a folder that all workers see"
        ) from None
    return pickle.loads(shared.rest, buffers=[view[at : at + n] for at, n in shared.bounds])
