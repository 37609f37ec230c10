"""Try a package out here and now: find it by its id, change it or its jobs, simulate it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
import pyarrow as pa

from procure.errors import ArgumentError, TableError
from procure.files import Archive, keep
from procure.objectives.aggregate import pooled_mean
from procure.packages.nodes import package_ids, package_nodes
from procure.policies import catalog
from procure.progress import step
from procure.run import Run, simulate
from procure.schemas import RESULT
from procure.study import Plan
from procure.sweep.connect import n_local_workers
from procure.sweep.results import StudyResults
from procure.sweep.runner import Bench, make_bench, simulate_rows
from procure.tables import check
from procure.text import be, counted, file_name, nearest

_BATCH = 50
"""Packages that the kernel simulates at once, between two looks at how far it is."""
_MOST_JOBS = 10_000_000
"""Jobs that runs at once hold together: some 2 GB."""
_BENCHES: WeakKeyDictionary[Plan, dict[tuple[str, str], Bench]] = WeakKeyDictionary()
"""What was laid out of a plan, by workload and policy, as long as the plan lives."""
_REPLAYS: WeakKeyDictionary[Plan, dict[tuple[bytes, str, str], tuple[Run, pd.DataFrame]]] = WeakKeyDictionary()
"""Its last schedules, by counts, workload and policy."""


def find_package(plan: Plan, package_id: str, named: str = "package_id") -> np.ndarray:
    """Return a package's counts, int64[n_types]; the error, of the argument ``named``, has the nearest package."""
    if package_id in plan.row_of.index:
        return plan.packages.iloc[int(plan.row_of.loc[package_id])][plan.types].to_numpy(np.int64)
    wanted = np.zeros(len(plan.types), dtype=np.int64)
    for part in package_id.split(","):
        name, _, count = part.partition("=")
        wrong = ""
        if name.strip() not in plan.types:
            wrong = f"no quote is named {name.strip()!r}; {nearest(name.strip(), plan.types)}"
        elif not count.strip().isdecimal() or len(count) > 9:
            wrong = f"{part!r} is not TYPE=COUNT, as in {plan.row_of.index[0]!r}"
        if wrong:
            raise ArgumentError(named, f"package {package_id!r}: {wrong}")
        wanted[plan.types.index(name.strip())] += int(count)
    counts = plan.packages.iloc[plan.row_of.to_numpy()][plan.types].to_numpy(np.int64)
    off = np.abs(counts - wanted).sum(axis=1)
    row = int(off.argmin())
    if off[row]:
        some = f"the study's {len(counts):,} packages (each uses up the budget)"
        said = f"package {package_id!r} is not among {some}; the nearest is {plan.row_of.index[row]!r}"
        raise ArgumentError(named, said)
    return counts[row]


def simulate_packages(
    plan: Plan,
    counts: np.ndarray,
    workload: str,
    policy: str,
    jobs: pd.DataFrame | None = None,
    failures: str = "keep",
) -> pd.DataFrame:
    """Simulate packages, any counts int64[n_packages, n_types], on one workload here and now, under any policy.

    ``jobs`` are others in the workload's place. Returns result rows; a run that failed is a row with its reason, or
    with ``failures="raise"`` an error.
    """
    if jobs is None:
        benches = _BENCHES.setdefault(plan, {})
        if (workload, policy) not in benches:
            benches[workload, policy] = make_bench(plan, workload, policy)
        bench = benches[workload, policy]
    else:
        bench = make_bench(replace(plan, workloads=plan.workloads | {workload: jobs}), workload, policy)
    ids = [name or "nothing" for name in package_ids(counts, plan.types)]
    counts = np.ascontiguousarray(counts, dtype=np.int64)
    found, n = [], len(counts)
    compiled = catalog.entry(catalog.split(policy)[0]).compiled  # its kernels run outside Python's lock
    cores = min(n_local_workers(), max(1, _MOST_JOBS // max(1, len(bench.ready.jobs.row)))) if compiled else 1
    size = min(_BATCH, max(1, -(-n // cores))) if bench.bits is not None else 1

    def simulated(at: int) -> pa.Table:
        return simulate_rows(bench, ids[at : at + size], counts[at : at + size])[0]

    with step(f"simulating packages on {workload}", n, "run") as one, ThreadPoolExecutor(cores) as pool:
        for part in (pool.map if cores > 1 else map)(simulated, range(0, max(1, n), size)):
            found.append(part)
            one.done += len(part)
    rows = check(pa.concat_tables(found).to_pandas(), RESULT)
    for first in rows[rows["status"] != "ok"].head(1).itertuples() if failures == "raise" else ():
        raise TableError(f"package {first.package_id} on {workload} under {policy}: {first.reason}")
    return rows


def try_everywhere(
    results: StudyResults,
    counts: np.ndarray,
    policy: str | None = None,
    jobs: Mapping[str, pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """Simulate some packages on every workload of a study's results; a run that fails is an error.

    ``policy`` is in place of the results' own, ``jobs`` by name in a workload's place. Returns a row per package:
    ``mean_wait_time p95_wait_time``, means over the jobs that ran on all workloads, s, and ``jobs_left_out`` of all.
    """
    plan, policy, jobs = results.plan, policy or results.policy, jobs or {}
    runs = [simulate_packages(plan, counts, case.name, policy, jobs.get(case.name), "raise") for case in results.cases]
    left_out = np.stack([rows["n_unrunnable"].to_numpy(dtype="int64") for rows in runs])
    ran = np.stack([rows["n_jobs"].to_numpy(dtype="int64") for rows in runs]) - left_out
    weights = np.array([case.weight for case in results.cases])
    waits = {
        name: pooled_mean(np.stack([rows[name].to_numpy(dtype="float64") for rows in runs]), ran, weights)
        for name in ("mean_wait_time", "p95_wait_time")
    }
    return pd.DataFrame(waits).assign(jobs_left_out=left_out.sum(axis=0))


def simulate_once(results: StudyResults, workload: str, rows: np.ndarray, failures: list[str]) -> np.ndarray:
    """Simulate distinct packages of a study on one workload; what succeeds is kept beside the models.

    Returns float64[n_packages, n_metrics] of the ``rows``, `Plan.metric_names`, NaN where a run failed (see
    ``failures``).
    """
    plan, policy = results.plan, results.policy
    known = np.empty((0, 1 + len(plan.metric_names)))  # a row of a package, its metrics

    def unpack(kept: Archive) -> np.ndarray:
        nonlocal known
        if kept.arrays["kept"].shape[1:] != known.shape[1:]:
            raise ValueError("not what is kept here")
        known = kept.arrays["kept"]
        if not np.isin(rows, known[:, 0]).all():
            raise ValueError("more packages are asked for")
        return known

    def more() -> np.ndarray:
        missing = rows[~np.isin(rows, known[:, 0])]
        runs = simulate_packages(plan, results.counts[missing], workload, policy)
        good = (runs["status"] == "ok").to_numpy()
        failures.extend(f"{run.package_id}: {run.reason}" for run in runs[~good].itertuples())
        values = runs.loc[good, list(plan.metric_names)].astype("float64").to_numpy()
        return np.concatenate([known, np.column_stack([missing[good], values])])

    runs = keep(
        results.kept if results.keep else None,
        f"confirmed.{file_name(f'{workload} {policy}')}",
        [plan.fingerprint, *([results.most_usd] if results.smaller.any() else []), workload, policy],
        more,
        lambda one: Archive({}, {"kept": one}),
        unpack,
    )
    return pd.DataFrame(runs[:, 1:], index=runs[:, 0].astype(np.int64)).reindex(rows).to_numpy()


def about_limits(
    plan: Plan, counts: np.ndarray, workloads: Iterable[str], policy: str, which: str = "this package"
) -> str:
    """Say whether jobs are cut at their limit, and how many on one package: int64[n_types], which the text calls so."""
    if not plan.study.simulate.kill_at_limit:
        return "jobs run on beyond their limit, none is cut (kill_at_limit = false)"
    names = list(workloads)
    runs = [simulate_packages(plan, counts[None, :], name, policy) for name in names]
    n_killed = sum(int(run["n_killed"].fillna(0).iloc[0]) for run in runs)
    n_jobs = sum(len(plan.workloads[name]) for name in names)
    return (
        f"jobs end at their limit (kill_at_limit = true), which flatters slow nodes: on {which} {n_killed:,} "
        f"of {counted(n_jobs, 'job')} {be(n_killed)} cut"
    )


def replayed(plan: Plan, counts: np.ndarray, workload: str, policy: str) -> tuple[Run, pd.DataFrame]:
    """Simulate one package, int64[n_types], on one workload under any policy; return the run and the node table."""
    asked = (counts.tobytes(), workload, policy)
    replays = _REPLAYS.setdefault(plan, {})
    if asked not in replays:
        while len(replays) > 1:  # schedules are large; a report looks at one package twice
            replays.pop(next(iter(replays)))
        nodes = package_nodes(dict(zip(plan.types, counts.tolist(), strict=True)), plan.quotes, plan.existing)
        kill, speed = plan.study.simulate.kill_at_limit, plan.logged_speed(workload)
        run = simulate(plan.workloads[workload], nodes, policy, kill_at_limit=kill, logged_speed=speed)
        replays[asked] = run, nodes
    return replays[asked]
