"""Drive a sweep: plan, compute what is missing, keep it, report on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from procure.progress import silent, step
from procure.study import Plan, Study, load_plan, load_study
from procure.sweep import store
from procure.sweep.connect import FarmOptions, Receipt, n_local_workers
from procure.sweep.farm import run_tasks
from procure.sweep.parts import batches, kernel_seconds, write_part
from procure.sweep.runner import Bench, SharedBench, SweepWork, opened, simulate_rows
from procure.text import counted


class SweepSummary(NamedTuple):
    """What a sweep did."""

    n_runs: int
    n_computed: int
    n_failed: int
    seconds: float
    kernel_seconds: float
    n_workers: int
    results: Path


def compute_part(bench: Bench, package_ids: list[str], counts: np.ndarray, path: Path, fingerprint: str) -> Receipt:
    """Simulate one batch and write its part: what a worker does."""
    rows, seconds = simulate_rows(bench, package_ids, counts)
    write_part(path, rows, fingerprint, seconds)
    return Receipt(len(rows), seconds)


def compute_missing(
    shared: SharedBench, package_ids: list[str], counts: np.ndarray, path: Path, fingerprint: str
) -> Receipt:
    """Do as `compute_part`, unless a worker that died before its receipt arrived has written the part."""
    if path.exists():
        return Receipt(len(package_ids), kernel_seconds(path))
    return compute_part(opened(shared), package_ids, counts, path, fingerprint)


def run_sweep(
    study: str | Path | Study | Plan,
    farm: str = "local",
    *,
    note: Callable[[str], None] = silent,
    options: FarmOptions | None = None,
    shard: tuple[int, int] | None = None,
) -> SweepSummary:
    """Compute the runs of a study that have no result yet; all of them are in one table afterwards.

    Parameters
    ----------
    study
        A study, the path of its file, or its plan.
    farm
        As `procure.sweep.farm.run_tasks` takes it; the table is the same whichever it is.
    note
        Called with what the user should know.
    options
        How to obtain the farm's workers.
    shard
        Number and count, as in 7 of 32: compute only these runs, and leave their parts for
        `procure.sweep.store.merge`.

    Raises
    ------
    TableError
        The folder holds results of other inputs, another driver holds it, the farm is not there, or
        the disk is full. Parts that were written stay and are not computed again.

    Examples
    --------
    >>> import procure
    >>> procure.run_sweep("study.toml", "serial").n_failed
    0
    """
    began = time.perf_counter()
    plan = study if isinstance(study, Plan) else load_plan(load_study(study))
    options = replace(options or FarmOptions(), folder=plan.study.folder)
    with store.locked(plan.study, shard):
        found, notes = store.open_folder(plan)
        for text in notes:
            note(text)
        work = SweepWork(plan, batches(plan, found.done(plan), shard), note)
        if farm == "local":
            options = replace(options, jobs=max(1, min(n_local_workers(), work.n_batches)))
        if work.n_batches:
            _compute(farm, work, options, note)
            found = store.stored(plan)
        path = plan.study.folder / store.PARTS
        if shard is None:
            path = store.compact(plan, found)
        if found.n_failed:
            runs = counted(len(found.table), "run")
            note(f"careful: {found.n_failed:,} of {runs} failed; the first: {found.first_failure()}")
    return SweepSummary(
        n_runs=len(found.table),
        n_computed=work.n_done,
        n_failed=found.n_failed,
        seconds=time.perf_counter() - began,
        kernel_seconds=work.kernel_seconds,
        n_workers=work.n_workers,
        results=path,
    )


def _compute(farm: str, work: SweepWork, options: FarmOptions, note: Callable[[str], None]) -> None:
    task = compute_part if farm == "serial" else compute_missing
    receipts = run_tasks(farm, task, work, options, note)
    with step("simulating", work.n_runs, "run") as one, closing(work), closing(receipts):
        for given in receipts:
            if given is not None:
                work.put(*given)
            one.done = work.n_done
