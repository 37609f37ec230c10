"""One batch: the runs of some packages on one workload under one policy, as result rows; and which batches remain.

Workers of one node share a workload: its arrays stand in a file that each maps, not in every process. A batch over
which workers died is cut into single runs. `warm` compiles the kernels beforehand, as `procure doctor --warm` does."""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import pickle
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
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
from procure.progress import step
from procure.run import Prepared, measured, prepare, prepare_checked, run_prepared, simulate
from procure.schemas import NODE, RESULT
from procure.simulator.fast_lane import FastLaneError, best_fit_batch, check_fast_lane
from procure.simulator.metrics import metric_names
from procure.study import Plan
from procure.sweep.connect import n_local_workers
from procure.sweep.parts import Batch, Receipt, kernel_seconds, schema_of, write_part
from procure.sweep.store import PARTS, fingerprint_text, part_path
from procure.tables import check

_ALIGNED = 64


@dataclass(frozen=True)
class Bench:
    """A workload, a policy and the quoted types, ready to simulate any package, see `share`.

    ``ready`` has the existing nodes, then one node of each type; ``bits`` is None where each package is a run of its
    own.
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
    kill = plan.study.simulate.kill_at_limit
    ready = prepare_checked(jobs, nodes, kill, plan.logged_speed(workload), plan.warm_up(workload))
    if own := plan.study.job_classes:  # which jobs are of the classes that the study defines
        assert ready.table is not None
        members = np.array([one.members(ready.table) for one in own])
        ready = replace(
            ready, own_classes=tuple(one.name for one in own), own=np.where(members, np.arange(len(own))[:, None], -1)
        )
    bits = None
    if catalog.is_batched(policy):
        with contextlib.suppress(FastLaneError):
            bits = check_fast_lane(ready.jobs, ready.kinds, ready.durations.took)
    return Bench(workload, policy, ready, len(existing), bits)


def simulate_rows(bench: Bench, package_ids: list[str], counts: np.ndarray) -> tuple[pa.Table, float]:
    """Simulate packages, counts int64[n_packages, n_types] in quote order: result rows, and the kernel's seconds.

    A run that failed is a row with its reason.
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
            try:
                one = ready_of_package(bench, package)
                found = run_prepared(one, bench.policy)
            except Exception as error:  # a policy may raise anything; one run is not worth a sweep
                reasons[row] = f"{type(error).__name__}: {error}"
                continue
            out[row] = measured(one, found)
            seconds += found.elapsed
    return _result_rows(bench, package_ids, out, reasons), seconds


def ready_of_package(bench: Bench, counts: np.ndarray) -> Prepared:
    """Return what a run of one package needs: the existing nodes, then as many of each type as it holds."""
    ready, n = bench.ready, bench.n_existing
    rows = np.concatenate([np.arange(n), np.repeat(np.arange(n, len(ready.kind_of)), counts)])
    table = None if ready.nodes is None else ready.nodes.iloc[rows].reset_index(drop=True)
    return replace(ready, kind_of=ready.kind_of[rows], leaf=ready.leaf[rows], pod=ready.pod[rows], nodes=table)


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


MOST_POISON = 20
"""Runs, or batches of which none comes back in between, that kill their workers: then the workers are to blame."""


class SweepWork:
    """The batches of a sweep, their arguments made when they are given out.

    A batch over which workers died is cut into single runs. These are given out last, each alone on the whole farm, so
    that a worker's death has one cause; a run that kills its workers even so is recorded as failed.
    """

    def __init__(self, plan: Plan, batches: list[Batch], note: Callable[[str], None]) -> None:
        """Take up batches of a plan."""
        self.n_batches, self.n_runs = len(batches), sum(len(batch.rows) for batch in batches)
        self.n_done = self.n_workers = 0
        self.kernel_seconds = 0.0
        self._plan, self._note = plan, note
        self._ids = plan.packages["package_id"].to_numpy()
        self._counts = plan.packages[plan.types].to_numpy(np.int64)
        self._waiting, self._suspects = deque(batches), deque[Batch]()
        self._alone: set[str] = set()
        self._bench: Bench | None = None
        self._sent: dict[tuple[str, str], SharedBench] = {}
        self._n_killed = self._n_poison = 0
        self._fingerprint = fingerprint_text(plan)

    def take(self, alone: bool = True) -> Batch | None:
        """Return the next batch, or None; what killed workers before only if nothing else is being computed."""
        if self._waiting:
            return self._waiting.popleft()
        return self._suspects.popleft() if alone and self._suspects else None

    def bench(self, batch: Batch) -> Bench:
        """Lay out a batch's workload and policy here, unless that of the batch before is the same."""
        if self._bench is None or (self._bench.workload, self._bench.policy) != batch.pair:
            self._bench = make_bench(self._plan, *batch.pair)
        return self._bench

    def sent(self, pair: tuple[str, str]) -> SharedBench:
        """Lay out a workload and policy for workers elsewhere, once, in a file of a name that none of them has met."""
        if pair not in self._sent:
            path = self._plan.study.folder / PARTS / f".{secrets.token_hex(8)}.arrays"
            self._sent[pair] = share(make_bench(self._plan, *pair), path)
        return self._sent[pair]

    def forget(self, pair: tuple[str, str]) -> None:
        """Remove the file of a workload and policy of which no batch is under way."""
        self._sent.pop(pair).path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all such files."""
        for pair in list(self._sent):
            self.forget(pair)

    def arguments(self, batch: Batch) -> tuple[list[str], np.ndarray, Path, str]:
        """Return the arguments of `procure.sweep.farm.compute_part` behind the bench."""
        ids, counts = self._ids[batch.rows].tolist(), self._counts[batch.rows]
        return ids, counts, part_path(self._plan.study, batch), self._fingerprint

    def put(self, batch: Batch, receipt: Receipt) -> None:
        """Take a batch back with its receipt: count it, or look for the run that kills its workers."""
        path = part_path(self._plan.study, batch)
        if receipt.died and path.exists():  # the worker died behind its part, before the receipt arrived
            receipt = Receipt(len(batch.rows), kernel_seconds(path))
        if not receipt.died:
            self._n_killed = 0
            self.n_done += receipt.n_runs
            self.kernel_seconds += receipt.kernel_seconds
        elif batch.key in self._alone:
            self._give_up(batch)
        else:
            self._n_killed += 1
            self._refuse_more(self._n_killed, "batches in a row")
            alone = [Batch(*batch.pair, batch.rows[i : i + 1]) for i in range(len(batch.rows))]
            self._alone |= {one.key for one in alone}
            self._suspects.extend(alone)

    def _give_up(self, batch: Batch) -> None:
        """Record a run as failed; the sweep goes on without it."""
        package_id, reason = self._ids[batch.rows[0]], "killed every worker that tried it"
        self._n_poison += 1
        self._refuse_more(self._n_poison, f"runs, the last {package_id} on {batch.workload},")
        bench = self.bench(batch)
        nothing = np.full((1, len(metric_names(bench.ready.own_classes))), np.nan)
        rows = _result_rows(bench, [package_id], nothing, [reason])
        write_part(part_path(self._plan.study, batch), rows, self._fingerprint, 0.0)
        self.n_done += 1
        self._note(f"package {package_id} on {batch.workload} under {batch.policy} {reason}; recorded as failed")

    @staticmethod
    def _refuse_more(n: int, what: str) -> None:
        if n > MOST_POISON:
            raise TableError(
                f"{MOST_POISON} {what} killed every worker that tried them: is there enough memory for a worker? "
                "What was computed is kept"
            )


BEHIND = "easy:depth=2"
"""EASY with several reservations is another kernel than EASY with one."""


def compiled_policies() -> list[str]:
    """Return one name for each kernel; policies that need what no default gives, such as a file, are left out."""
    names, targets = [], set()
    for name in catalog.names():
        entry = catalog.entry(name)
        target = (entry.target, entry.preset.get("hold"), entry.preset.get("place"))
        if target not in targets:
            with contextlib.suppress(TableError):
                catalog.spec(name)
                names.append(name)
                targets.add(target)
    return [*names, BEHIND]


def warm(policies: Sequence[str] | None = None, processes: int | None = None) -> pd.DataFrame:
    """Compile the kernels of policies, in parallel, into the cache on the disk.

    ``policies`` as `procure.simulate` takes them, default: one of each kernel; ``processes`` at once, default: one on
    each core that this process may use. Returns ``policy``, ``seconds`` (until it could run, loading included) and
    ``error``, empty if there was none.
    """
    names = list(policies or compiled_policies())
    for name in names:
        catalog.spec(name)
    rows = []
    with (
        ProcessPoolExecutor(processes or n_local_workers(), multiprocessing.get_context("spawn")) as pool,
        step("compiling", len(names), "kernel") as one,
    ):
        began = {pool.submit(_compile, name): name for name in names}
        for done in as_completed(began):
            rows.append((began[done], *done.result()))
            one.done += 1
    rows.sort(key=lambda row: names.index(row[0]))
    return pd.DataFrame(rows, columns=["policy", "seconds", "error"])


def _compile(policy: str) -> tuple[float, str]:
    """Run two jobs, and for best fit a package, too; returns the seconds, and what went wrong."""
    jobs = pd.DataFrame({"job_id": ["a", "b"], "submit_time": 0, "run_time": 9, "cpus_per_node": 2})
    nodes = pd.DataFrame({"node_id": ["n1", "n2"], "cpus": 2, "mem_mb": 1000, "leaf": 0, "pod": 0})
    began = time.perf_counter()
    try:
        simulate(jobs, nodes, policy)
        if catalog.is_batched(policy):
            simulate(jobs, nodes, policy, fast_lane=False)
            ready = prepare(jobs, nodes)
            bits = check_fast_lane(ready.jobs, ready.kinds, ready.durations.took)
            bench = Bench("", policy, ready, 0, bits)
            simulate_rows(bench, ["a"], np.ones((1, len(ready.kind_of)), np.int64))
    except TableError as error:
        return time.perf_counter() - began, str(error)
    return time.perf_counter() - began, ""
