"""One batch: the runs of some packages on one workload under one policy, as result rows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from procure.packages import package_nodes
from procure.policies import catalog
from procure.run import scaled_durations, simulate, usage_of
from procure.schemas import NODE, RESULT
from procure.simulator.arrays import Jobs, Kinds, fits_empty, gpu_type_bits, job_arrays, node_kinds
from procure.simulator.batch import best_fit_batch
from procure.simulator.fast_lane import FastLaneError, check_fast_lane
from procure.simulator.metrics import METRIC_NAMES, Usage
from procure.study import Plan
from procure.sweep.parts import SCHEMA
from procure.tables import check


@dataclass(frozen=True)
class FastBench:
    """What the fast lane needs of a workload and the quoted types, laid out once for all packages."""

    jobs: Jobs
    kinds: Kinds
    fits: np.ndarray
    durations: np.ndarray
    killed: np.ndarray
    bits: tuple[int, int, int]
    usage: Usage
    existing_kind_of: np.ndarray
    first_type: int


@dataclass(frozen=True)
class Bench:
    """A workload, a policy and the quotes, ready to simulate any package; sent once to each worker.

    ``fast`` is None where the fast lane does not apply; then each package is simulated by
    `procure.simulate`.
    """

    workload: str
    policy: str
    jobs: pd.DataFrame
    quotes: pd.DataFrame
    existing: pd.DataFrame | None
    kill_at_limit: bool
    logged_speed: str | None
    fast: FastBench | None


def make_bench(plan: Plan, workload: str, policy: str) -> Bench:
    """Lay out one workload and policy of a plan."""
    jobs = plan.workloads[workload]
    needed = jobs.drop(columns=[c for c in ("state", "account", "qos", "priority") if c in jobs])
    bench = Bench(
        workload,
        policy,
        needed,
        plan.quotes,
        plan.existing,
        plan.study.simulate.kill_at_limit,
        plan.logged_speed(workload),
        None,
    )
    if not catalog.is_batched(policy):
        return bench
    try:
        fast = _fast_bench(bench)
    except FastLaneError:
        return bench
    return Bench(**(vars(bench) | {"fast": fast}))


def _fast_bench(bench: Bench) -> FastBench:
    one_each = package_nodes(dict.fromkeys(bench.quotes["name"], 1), bench.quotes)
    existing = one_each.iloc[:0] if bench.existing is None else check(bench.existing, NODE)
    nodes = pd.concat([existing, one_each], ignore_index=True)
    bits = gpu_type_bits(bench.jobs["gpu_type"], nodes["gpu_type"])
    jobs = job_arrays(bench.jobs, bits)
    # Types keep a kind each, in quote order, after those of the existing nodes.
    known, existing_kind_of, _ = node_kinds(existing, bits)
    types, type_kind_of, _ = node_kinds(one_each, bits)
    _, _, speeds = node_kinds(nodes, bits)
    kinds = Kinds(  # type: ignore[call-arg]
        *(np.concatenate([a, b[type_kind_of]]) for a, b in zip(known[:4], types[:4], strict=True)),
        _speed_rows(nodes, speeds, existing_kind_of, len(known.cpus)),
    )
    took, killed = scaled_durations(jobs, bench.jobs, speeds, bench.logged_speed, bench.kill_at_limit)
    if (took == took[0]).all() and (killed == killed[0]).all():  # one speed, or the ratio 1.0 everywhere
        took, killed = took[:1], killed[:1]
        kinds = kinds._replace(speed=np.zeros_like(kinds.speed))
    width = check_fast_lane(jobs, kinds, took)
    fits = fits_empty(jobs, kinds)
    return FastBench(
        jobs, kinds, fits, took, killed, width, usage_of(jobs), existing_kind_of, len(known.cpus)
    )


def _speed_rows(
    nodes: pd.DataFrame, speeds: list[Any], existing_kind_of: np.ndarray, n_known: int
) -> np.ndarray:
    row_of, _ = pd.factorize(nodes["speed"], use_na_sentinel=False)
    first_of_kind = [int(np.flatnonzero(existing_kind_of == kind)[0]) for kind in range(n_known)]
    return np.concatenate([row_of[first_of_kind], row_of[len(existing_kind_of) :]]).astype(np.uint32)


def simulate_batch(bench: Bench, package_ids: list[str], counts: np.ndarray) -> tuple[pd.DataFrame, float]:
    """Simulate some packages.

    Parameters
    ----------
    counts
        int64[n_packages, n_types], types in quote order.

    Returns
    -------
    pandas.DataFrame
        The result table, one row per package; a run that failed is a row with its status and reason.
    float
        Seconds spent in the simulation itself.
    """
    rows, seconds = simulate_rows(bench, package_ids, counts)
    return check(rows.to_pandas(), RESULT), seconds


def simulate_rows(bench: Bench, package_ids: list[str], counts: np.ndarray) -> tuple[pa.Table, float]:
    """Do as `simulate_batch`, with the rows in `procure.sweep.parts.SCHEMA`."""
    out = np.full((len(counts), len(METRIC_NAMES)), np.nan)
    reasons = [""] * len(counts)
    began = time.perf_counter()
    if bench.fast is not None:
        fast = bench.fast
        best_fit_batch(
            fast.jobs, fast.kinds, fast.fits, fast.durations, fast.killed, fast.bits, fast.usage,
            fast.existing_kind_of, fast.first_type, counts, out,
        )  # fmt: skip
        seconds = time.perf_counter() - began
    else:
        seconds = 0.0
        for row, package in enumerate(counts):
            elapsed, reasons[row] = _simulate_one(bench, package, out[row])
            seconds += elapsed
    return _result_rows(bench, package_ids, out, reasons), seconds


def _simulate_one(bench: Bench, counts: np.ndarray, out: np.ndarray) -> tuple[float, str]:
    package = dict(zip(bench.quotes["name"], counts.tolist(), strict=True))
    try:
        run = simulate(
            bench.jobs,
            package_nodes(package, bench.quotes, bench.existing),
            bench.policy,
            kill_at_limit=bench.kill_at_limit,
            logged_speed=bench.logged_speed,
        )
    except Exception as error:  # a policy may raise anything; one run is not worth a sweep
        return 0.0, f"{type(error).__name__}: {error}"
    out[:] = [np.nan if run.metrics[name] is None else run.metrics[name] for name in METRIC_NAMES]
    return run.elapsed, ""


def failed_rows(bench: Bench, package_ids: list[str], reason: str) -> pa.Table:
    """Return result rows of runs that gave none, with the reason why."""
    out = np.full((len(package_ids), len(METRIC_NAMES)), np.nan)
    return _result_rows(bench, package_ids, out, [reason] * len(package_ids))


def _result_rows(bench: Bench, package_ids: list[str], out: np.ndarray, reasons: list[str]) -> pa.Table:
    n = len(package_ids)
    columns: dict[str, Any] = {
        "package_id": package_ids,
        "workload": [bench.workload] * n,
        "policy": [bench.policy] * n,
        "status": ["failed" if reason else "ok" for reason in reasons],
        "reason": reasons,
    }
    for name, values in zip(METRIC_NAMES, out.T, strict=True):
        columns[name] = pa.array(values, from_pandas=True).cast(SCHEMA.field(name).type)
    columns["n_jobs"] = np.full(n, len(bench.jobs))
    columns["schema_version"] = np.full(n, RESULT.version)
    return pa.table([pa.array(columns[name], SCHEMA.field(name).type) for name in SCHEMA.names], SCHEMA)
