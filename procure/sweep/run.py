"""Drive a sweep: plan, compute what is missing, keep it, report on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.sweep import store
from procure.sweep.bench import Bench, make_bench, simulate_batch
from procure.sweep.farm import Receipt, n_local_workers, run_tasks
from procure.sweep.plan import Plan


class SweepSummary(NamedTuple):
    """What a sweep did."""

    n_runs: int
    n_computed: int
    n_failed: int
    seconds: float
    kernel_seconds: float
    n_workers: int
    results: Path


def compute_part(
    bench: Bench, package_ids: list[str], counts: np.ndarray, path: Path, fingerprint: str
) -> Receipt:
    """Simulate one batch and write its part: what a worker does."""
    rows, seconds = simulate_batch(bench, package_ids, counts)
    store.write_part(path, rows, fingerprint, seconds)
    return Receipt(len(rows), seconds)


def run_sweep(
    plan: Plan,
    farm: str = "local",
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    note: Callable[[str], None] = lambda text: None,
) -> SweepSummary:
    """Compute the runs of a study that have no result yet; all of them are in one table afterwards.

    Parameters
    ----------
    farm
        ``serial``, ``local`` or a scheduler's address; the table is the same whichever it is.
    progress
        Called with the runs done and the runs to do, first with 0.
    note
        Called with what the user should know.

    Raises
    ------
    TableError
        The folder holds results of other inputs, another driver holds it, the farm is not there, or
        the disk is full. Parts that were written stay and are not computed again.
    """
    began = time.perf_counter()
    with store.locked(plan.study):
        for text in store.open_folder(plan):
            note(text)
        rows, _ = store.stored(plan)
        batches = plan.batches(store.done_rows(plan, rows))
        total = sum(len(batch.rows) for batch in batches)
        done, kernel_seconds = 0, 0.0
        if batches:
            progress(0, total)
            fingerprint = store.fingerprint_text(plan)
            benches = {
                pair: make_bench(plan, *pair)
                for pair in dict.fromkeys((b.workload, b.policy) for b in batches)
            }
            ids = plan.packages["package_id"].to_numpy()
            counts = plan.packages[plan.types].to_numpy(np.int64)
            arguments = [
                (
                    (batch.workload, batch.policy),
                    ids[batch.rows].tolist(),
                    counts[batch.rows],
                    store.part_path(plan.study, batch),
                    fingerprint,
                )
                for batch in batches
            ]
            for receipt in run_tasks(farm, compute_part, benches, arguments):
                done += receipt.n_runs
                kernel_seconds += receipt.kernel_seconds
                progress(done, total)
        path = store.compact(plan)
        rows, _ = store.stored(plan)
    return SweepSummary(
        n_runs=len(rows),
        n_computed=done,
        n_failed=int((rows["status"] != "ok").sum()),
        seconds=time.perf_counter() - began,
        kernel_seconds=kernel_seconds,
        n_workers=1 if farm == "serial" else n_local_workers(),
        results=path,
    )


def run_packages(plan: Plan, package_ids: Iterable[str], workload: str, policy: str) -> pd.DataFrame:
    """Simulate some packages here and now, without storing them: result rows in the order given."""
    ids = list(package_ids)
    counts = plan.packages.iloc[plan.row_of.loc[ids].to_numpy()][plan.types].to_numpy(np.int64)
    rows, _ = simulate_batch(make_bench(plan, workload, policy), ids, counts)
    return rows
