"""What a sweep keeps: a manifest, one Parquet part per batch, and at the end one result table.

A part appears under its name only when it is complete. The manifest says what the results depend on;
a folder whose manifest says otherwise is refused. Nothing here can execute code when it is loaded.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from procure._version import __version__
from procure.errors import TableError
from procure.study import Study
from procure.sweep.plan import Batch, Plan
from procure.tables import RESULT, check

RESULTS, MANIFEST, PARTS, LOCK = "results.parquet", "manifest.json", "parts", "lock"
_FINGERPRINT, _SECONDS = b"procure.fingerprint", b"procure.kernel_seconds"


def part_path(study: Study, batch: Batch) -> Path:
    """Where a batch's part stands."""
    return study.folder / PARTS / f"{batch.key}.parquet"


def fingerprint_text(plan: Plan) -> str:
    """The plan's fingerprint as the one line that every file of the folder carries."""
    return json.dumps(plan.fingerprint, sort_keys=True)


def write_part(path: Path, rows: pd.DataFrame, fingerprint: str, seconds: float) -> None:
    """Write result rows under a temporary name, then rename.

    Parameters
    ----------
    fingerprint
        From `fingerprint_text`; kept in the file's metadata.
    seconds
        Kernel seconds behind these rows; kept in the file's metadata, as they are no result.

    Raises
    ------
    TableError
        The disk is full or the folder cannot be written.
    """
    table = pa.Table.from_pandas(rows, preserve_index=False)
    extra = {_FINGERPRINT: fingerprint.encode(), _SECONDS: repr(seconds).encode()}
    table = table.replace_schema_metadata((table.schema.metadata or {}) | extra)
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}")
    try:
        with temporary.open("wb") as stream:
            pq.write_table(table, stream)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise TableError(f"{path}: cannot be written: {error.strerror or error}") from None


def read_part(path: Path, plan: Plan) -> tuple[pd.DataFrame, float] | None:
    """Read a part with its kernel seconds; None where it is damaged or belongs to other inputs."""
    now = plan.fingerprint
    try:
        table = pq.read_table(path, partitioning=None)
        metadata = table.schema.metadata or {}
        before = json.loads(metadata.get(_FINGERPRINT, b"{}"))
        if not before or any(now.get(name, value) != value for name, value in before.items()):
            return None
        return check(table.to_pandas(), RESULT, str(path)), float(metadata.get(_SECONDS, b"0"))
    except (OSError, pa.ArrowException, ValueError):
        return None


def open_folder(plan: Plan) -> list[str]:
    """Make the study's folder or take up an old one, and leave a manifest in it.

    Returns
    -------
    list of str
        What the user should know: parts that were set aside because they are damaged or foreign.

    Raises
    ------
    TableError
        The folder holds the results of other inputs: says which input changed.
    """
    folder = plan.study.folder
    try:
        (folder / PARTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TableError(f"{folder}: cannot be made: {error.strerror}") from None
    refuse_other_inputs(plan)
    _write_manifest(plan)
    notes = []
    for path in sorted((folder / PARTS).glob("*.parquet")):
        if read_part(path, plan) is None:
            aside = path.with_suffix(".refused")
            path.replace(aside)
            notes.append(
                f"{path} is damaged or of another study; set aside as {aside.name}, its runs are repeated"
            )
    return notes


def refuse_other_inputs(plan: Plan) -> None:
    """Raise if the study's folder holds results of other inputs."""
    path = plan.study.folder / MANIFEST
    if not path.exists():
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        raise TableError(
            f"{path}: is no manifest of a sweep; move it or name another results folder"
        ) from None
    now = plan.fingerprint
    changed = [name for name in now if name in before and before[name] != now[name]]
    gone = [name for name in before if name not in now]
    if changed or gone:
        what = "; ".join(
            [f"{name} changed (was {before[name]}, is {now[name]})" for name in changed]
            + [f"{name} is not in the study any more" for name in gone]
        )
        raise TableError(
            f"{plan.study.folder}: holds results of other inputs: {what}. "
            "Give the study another name, or move the folder away"
        )


def _write_manifest(plan: Plan) -> None:
    path = plan.study.folder / MANIFEST
    manifest = {
        "study": plan.study.document(),
        "fingerprint": plan.fingerprint,
        "versions": {
            name: version(name)
            for name in ("numpy", "pandas", "numba", "pyarrow", "dask", "xgboost", "scikit-learn")
        }
        | {"procure": __version__, "python": platform.python_version()},
        "seeds": {
            workload.name: workload.generate.seed
            for workload in plan.study.workloads
            if workload.generate is not None
        }
        | {"model": plan.study.model.seed},
        "n_packages": len(plan.packages),
        "n_distinct": int(plan.packages["distinct"].sum()),
        "n_runs": plan.n_runs,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    temporary = path.with_name(f".{MANIFEST}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(manifest, indent=2, default=str) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise TableError(f"{path}: cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def locked(study: Study) -> Iterator[IO[str]]:
    """Hold the study's folder for one driver; another one is refused and told who holds it.

    The lock goes with the process, however it ends.
    """
    study.folder.mkdir(parents=True, exist_ok=True)
    path = study.folder / LOCK
    stream = path.open("a+", encoding="utf-8")
    try:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.seek(0)
            holder = stream.read().strip() or "another process"
            raise TableError(f"{study.folder}: another sweep of this study is running: {holder}") from None
        stream.seek(0)
        stream.truncate()
        started = datetime.now(UTC).isoformat(timespec="seconds")
        stream.write(f"process {os.getpid()} on {socket.gethostname()} since {started}\n")
        stream.flush()
        yield stream
    finally:
        stream.close()


def stored(plan: Plan) -> tuple[pd.DataFrame, float]:
    """Return all result rows of the folder, in plan order and once each, and the kernel seconds behind them."""
    folder = plan.study.folder
    paths = [folder / RESULTS, *sorted((folder / PARTS).glob("*.parquet"))]
    found = [part for path in paths if path.exists() and (part := read_part(path, plan)) is not None]
    if not found:
        return check(pd.DataFrame(columns=RESULT.names), RESULT), 0.0
    rows = pd.concat([part for part, _ in found], ignore_index=True)
    return _in_plan_order(plan, rows), sum(seconds for _, seconds in found)


def _in_plan_order(plan: Plan, rows: pd.DataFrame) -> pd.DataFrame:
    pair_of = {pair: place for place, pair in enumerate(plan.pairs)}
    pair = [pair_of.get(key, -1) for key in zip(rows["workload"], rows["policy"], strict=True)]
    row = plan.row_of.reindex(rows["package_id"]).to_numpy()
    keys = pd.DataFrame({"pair": pair, "row": row})
    keys = keys[(keys["pair"] >= 0) & keys["row"].notna()].drop_duplicates()
    return rows.loc[keys.sort_values(["pair", "row"]).index].reset_index(drop=True)


def done_rows(plan: Plan, rows: pd.DataFrame) -> dict[tuple[str, str], np.ndarray]:
    """Rows of the package table that have a result, by (workload, policy)."""
    return {
        (str(pair[0]), str(pair[1])): plan.row_of.loc[part["package_id"]].to_numpy()
        for pair, part in rows.groupby(["workload", "policy"], sort=False)
    }


def compact(plan: Plan) -> Path:
    """Bring all parts into one result table, then remove them."""
    rows, seconds = stored(plan)
    path = plan.study.folder / RESULTS
    parts = sorted((plan.study.folder / PARTS).glob("*.parquet"))
    if parts or not path.exists():
        write_part(path, rows, fingerprint_text(plan), seconds)
    for part in parts:
        part.unlink(missing_ok=True)
    return path


def read_results(study: Study, plan: Plan | None = None) -> pd.DataFrame:
    """Read a study's results: the result table, in plan order.

    Raises
    ------
    TableError
        There are none yet, or they belong to other inputs.
    """
    from procure.sweep.plan import load_plan

    plan = plan or load_plan(study)
    refuse_other_inputs(plan)
    rows, _ = stored(plan)
    if rows.empty:
        raise TableError(f"{study.folder}: holds no results yet; run: procure sweep {study.path}")
    return rows


def study_status(plan: Plan) -> dict[str, Any]:
    """Count a study's runs: planned, done, failed, missing; and the kernel seconds that they took."""
    refuse_other_inputs(plan)
    rows, seconds = stored(plan)
    missing = sum(len(batch.rows) for batch in plan.batches(done_rows(plan, rows)))
    return {
        "study": plan.study.name,
        "folder": str(plan.study.folder),
        "n_runs_planned": plan.n_runs,
        "n_done": plan.n_runs - missing,
        "n_missing": missing,
        "n_failed": int((rows["status"] != "ok").sum()),
        "n_beyond_plan": len(rows) - (plan.n_runs - missing),
        "kernel_seconds": round(seconds, 3),
    }
