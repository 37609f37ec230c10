"""Compile every kernel now, so that no first use has to wait for it: what `procure doctor --warm` does."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.policies import catalog
from procure.progress import step
from procure.run import prepare, simulate
from procure.simulator.fast_lane import check_fast_lane
from procure.sweep.protocol import n_local_workers
from procure.sweep.runner import Bench, simulate_rows

BEHIND = "easy:depth=2"
"""EASY with several reservations is another kernel than EASY with one."""


def compiled_policies() -> list[str]:
    """Return one name for each kernel: policies that differ in an order or in numbers alone share theirs.

    Those that need something that no default gives, such as a file that was learnt, are left out.
    """
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
