"""What a sweep keeps: a manifest, one Parquet part per batch, and at the end one result table.

A folder whose manifest names other inputs is refused. Parts are `procure.sweep.parts`; who may write
here is `procure.sweep.lock`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from procure.errors import TableError
from procure.progress import silent
from procure.schemas import RESULT
from procure.study import Plan, Study, load_plan
from procure.sweep.batches import Batch
from procure.sweep.lock import locked
from procure.sweep.manifest import refuse_other_inputs, write_manifest
from procure.sweep.parts import Part, PartError, read_part, schema_for, write_part
from procure.tables import check

RESULTS, PARTS = "results.parquet", "parts"


class Stored(NamedTuple):
    """The result rows of a folder, in plan order and once each.

    ``pair`` and ``row`` say of each which of the plan's pairs and which row of its package table it
    is. ``files`` are those that were read, ``n_repeated`` rows stood in more than one place,
    ``n_conflicting`` of them with other values, ``n_foreign`` are of no package of the plan.
    """

    table: pa.Table
    pair: np.ndarray
    row: np.ndarray
    seconds: float
    files: list[Path]
    n_repeated: int
    n_conflicting: int
    n_foreign: int

    @property
    def n_failed(self) -> int:
        """How many runs failed."""
        return pc.sum(pc.not_equal(self.table["status"], "ok")).as_py() or 0

    def first_failure(self) -> str:
        """Say which run failed first, and why; empty where none did."""
        failed = self.table.filter(pc.not_equal(self.table["status"], "ok")).slice(0, 1).to_pylist()
        return "".join(
            f"{one['package_id']} on {one['workload']} under {one['policy']}: {one['reason']}" for one in failed
        )

    def done(self, plan: Plan) -> dict[tuple[str, str], np.ndarray]:
        """Rows of the package table that have a result, by (workload, policy)."""
        return {pair: self.row[self.pair == place] for place, pair in enumerate(plan.pairs)}

    def frame(self) -> pd.DataFrame:
        """Return the rows as a checked result table."""
        return check(self.table.to_pandas(), RESULT)


def part_path(study: Study, batch: Batch) -> Path:
    """Where a batch's part stands."""
    return study.folder / PARTS / f"{batch.key}.parquet"


def part_files(folder: Path) -> list[Path]:
    """List the parts of a folder, without those that are being written: these begin with a dot."""
    return sorted(path for path in (folder / PARTS).glob("*.parquet") if not path.name.startswith("."))


def fingerprint_text(plan: Plan) -> str:
    """The plan's fingerprint as the one line that every file of the folder carries."""
    return json.dumps(plan.fingerprint, sort_keys=True)


def open_folder(plan: Plan) -> tuple[Stored, list[str]]:
    """Make the study's folder or take up an old one, and leave a manifest in it; other inputs are an error.

    Returns what is there already, and what the user should know: files that were set aside because they are damaged or
    foreign.
    """
    folder = plan.study.folder
    try:
        (folder / PARTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TableError(f"{folder}: cannot be made: {error.strerror}") from None
    refuse_other_inputs(plan)
    write_manifest(plan)
    notes = list[str]()

    def set_aside(path: Path, why: PartError) -> None:
        aside = path.with_suffix(".refused")
        # Another shard's driver may have been quicker.
        with contextlib.suppress(FileNotFoundError):
            path.replace(aside)
        notes.append(f"{path} is {why}; set aside as {aside.name}, its runs are repeated")

    return stored(plan, set_aside), notes


def stored(plan: Plan, refused: Callable[[Path, PartError], None] = silent) -> Stored:
    """Read all result rows of the folder; ``refused`` is called with each file that cannot be used, and why."""
    parts = read_parts(plan.study.folder, plan.fingerprint, refused)
    table = pa.concat_tables([schema_for(plan.fingerprint).empty_table(), *(part.table for part in parts.values())])
    return _in_plan_order(plan, table, sum(part.seconds for part in parts.values()), list(parts))


def read_parts(
    folder: Path, fingerprint: Mapping[str, Any], refused: Callable[[Path, PartError], None]
) -> dict[Path, Part]:
    """Read the result table and the parts of a folder, by file, see `stored` and `procure.sweep.parts.read_part`."""
    parts = {}
    for path in (folder / RESULTS, *part_files(folder)):
        try:
            if path.exists():
                parts[path] = read_part(path, fingerprint)
        except PartError as why:
            refused(path, why)
    return parts


def _in_plan_order(plan: Plan, table: pa.Table, seconds: float, files: list[Path]) -> Stored:
    ids = table["package_id"].combine_chunks().dictionary_encode()
    row_of_id = plan.row_of.reindex(ids.dictionary.to_pandas()).fillna(-1).to_numpy(np.int64)
    row = row_of_id[ids.indices.to_numpy()]
    pair = np.full(len(table), -1, np.int64)
    for place, (workload, policy) in enumerate(plan.pairs):
        same = pc.and_(pc.equal(table["workload"], workload), pc.equal(table["policy"], policy))
        pair[same.to_numpy()] = place
    known = np.flatnonzero((row >= 0) & (pair >= 0))
    order = known[np.lexsort((known, row[known], pair[known]))]
    again = np.zeros(len(order), bool)
    again[1:] = (np.diff(row[order]) == 0) & (np.diff(pair[order]) == 0)
    once = order[~again]
    conflicting = 0
    if again.any():
        first = table.take(order[np.flatnonzero(again) - 1]).to_pandas()
        second = table.take(order[again]).to_pandas()
        conflicting = int((~((first == second) | (first.isna() & second.isna())).all(axis=1)).sum())
    in_order = len(once) == len(table) and (np.diff(once) > 0).all()
    return Stored(
        table if in_order else table.take(once),
        pair[once],
        row[once],
        seconds,
        files,
        int(again.sum()),
        conflicting,
        len(table) - len(known),
    )


def compact(plan: Plan, found: Stored) -> Path:
    """Bring all parts that were found into one result table, then remove them, and what killed workers left."""
    path = plan.study.folder / RESULTS
    if found.files != [path]:
        write_part(path, found.table, fingerprint_text(plan), found.seconds, durable=True)
    parts = plan.study.folder / PARTS
    for old in (*(file for file in found.files if file != path), *parts.glob(".*")):
        old.unlink(missing_ok=True)
    return path


def merge(plan: Plan, note: Callable[[str], None] = silent) -> dict[str, Any]:
    """Bring the parts of all shards into the one result table, and count as `study_status` does.

    A driver or shard that is at work, and results of other inputs, are errors.
    """
    with locked(plan.study):
        found, notes = open_folder(plan)
        for text in notes:
            note(text)
        compact(plan, found)
        return _count(plan, found)


def read_results(study: Study, plan: Plan | None = None) -> pd.DataFrame:
    """Read a study's results: the result table, in plan order.

    Raises
    ------
    TableError
        There are none yet, they belong to other inputs, or the result table cannot be read.

    Examples
    --------
    >>> import procure
    >>> results = procure.read_results(procure.load_study("study.toml"))
    >>> set(results["status"])
    {'ok'}
    """

    plan = plan or load_plan(study)
    refuse_other_inputs(plan)
    bad: dict[Path, PartError] = {}
    found = stored(plan, bad.__setitem__)
    for path, why in bad.items():
        # A part may still be under way; what it lacks is counted as missing.
        if path.name == RESULTS or not len(found.table):
            raise TableError(
                f"{path}: cannot be read, {why}. Put a whole copy in its place, or run: procure sweep {study.path} "
                "(sets it aside and repeats its runs)"
            )
    if not len(found.table):
        raise TableError(f"{study.folder}: holds no results yet; run: procure sweep {study.path}")
    return found.frame()


def study_status(plan: Plan, note: Callable[[str], None] = silent) -> dict[str, Any]:
    """Count a study's runs: planned, done, failed, missing; and the kernel seconds that they took.

    ``note`` is called with what `verify` finds wrong.
    """
    counts, problems = verify(plan)
    for text in problems:
        note(f"careful: {text}")
    return counts


def _count(plan: Plan, found: Stored) -> dict[str, Any]:
    n_done = int(np.isin(found.row, plan.sampled_rows).sum())
    return {
        "study": plan.study.name,
        "folder": str(plan.study.folder),
        "n_runs_planned": plan.n_runs,
        "n_done": n_done,
        "n_missing": plan.n_runs - n_done,
        "n_failed": found.n_failed,
        "n_beyond_plan": len(found.table) - n_done,
        "kernel_seconds": round(found.seconds, 3),
    }


def verify(plan: Plan) -> tuple[dict[str, Any], list[str]]:
    """Check a study's folder: every planned run there exactly once, every file whole and of these inputs.

    Returns counts, as `study_status` with ``n_files`` and ``n_repeated``, and what is wrong, a sentence each.
    """
    refuse_other_inputs(plan)
    problems = list[str]()

    def refused(path: Path, why: PartError) -> None:
        problems.append(f"{path}: {why}")

    found = stored(plan, refused)
    counts = _count(plan, found) | {"n_files": len(found.files), "n_repeated": found.n_repeated}
    wrong = {
        "planned runs have no result": counts["n_missing"],
        "runs have two results that differ": found.n_conflicting,
        "rows are of no package, workload or policy of the study": found.n_foreign,
    }
    return counts, problems + [f"{n:,} {what}" for what, n in wrong.items() if n]
