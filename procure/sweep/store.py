"""What a sweep keeps: a manifest, one Parquet part per batch, and at the end one result table; who may write there.

A folder whose manifest names other inputs is refused. Parts are `procure.sweep.parts`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import platform
import socket
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.compute as pc

from procure._version import __version__
from procure.errors import TableError
from procure.files import from_json, installed_xgboost, whole_file
from procure.progress import silent
from procure.schemas import RESULT
from procure.study import Plan, Study, load_plan
from procure.study.plan import OF_CLASS, OF_POLICY
from procure.sweep.parts import Batch, Part, PartError, read_part, schema_for, write_part
from procure.tables import check

RESULTS, PARTS, MANIFEST, LOCK = "results.parquet", "parts", "manifest.json", "lock"
_PACKAGES = ("numpy", "pandas", "numba", "pyarrow", "dask", "scikit-learn")


class OtherInputs(TableError):
    """A folder holds results of other inputs."""


def refuse_other_inputs(plan: Plan) -> None:
    """Raise `OtherInputs` if the study's folder holds results of other inputs: say which input changed."""
    path = plan.study.folder / MANIFEST
    if not path.exists():
        return
    try:
        manifest = from_json(path.read_text(encoding="utf-8"))
        before, writer = manifest["fingerprint"], manifest.get("versions", {}).get("procure", __version__)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise TableError(f"{path}: is no manifest of a sweep; move it or name another results folder") from None
    now = plan.fingerprint
    changed = [name for name in now if name in before and before[name] != now[name]]
    # Policies and classes may come and go, with what they read; every part of the results names its own.
    gone = [name for name in before if name not in now and not name.startswith((OF_POLICY, OF_CLASS))]
    if changed or gone:
        what = "; ".join(
            [f"{name} changed (was {before[name]}, is {now[name]})" for name in changed]
            + [f"{name} is not in the study any more" for name in gone]
        )
        raise OtherInputs(
            f"{plan.study.folder}: holds results of other inputs: {what}. "
            f"procure buy {plan.study.path} moves them aside and simulates again; or give the study another name"
            + (f"; procure {writer} wrote them, and reads them" if writer != __version__ else "")
        )


def write_manifest(plan: Plan) -> None:
    """Write the manifest, whole or not at all."""
    path = plan.study.folder / MANIFEST
    manifest = {
        "study": plan.study.document(),
        "fingerprint": plan.fingerprint,
        "versions": {name: version(name) for name in _PACKAGES}
        | {"xgboost": installed_xgboost(), "procure": __version__, "python": platform.python_version()},
        "seeds": {
            workload.name: workload.generate.seed for workload in plan.study.workloads if workload.generate is not None
        }
        | ({} if plan.study.futures is None else {"futures": plan.study.futures.seed})
        | {"model": plan.study.model.seed},
        "n_packages": len(plan.packages),
        "n_distinct": int(plan.packages["distinct"].sum()),
        "n_runs": plan.n_runs,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(manifest, indent=2, default=str) + "\n", encoding="utf-8")


@contextlib.contextmanager
def locked(study: Study, shard: tuple[int, int] | None = None) -> Iterator[None]:
    """Hold the study's folder, or one shard of it, 7 of 32; another driver is refused and told who holds it.

    The lock goes with the process, however it ends. Linux gives NFS the same lock on all nodes.
    """
    if shard is None:
        with _held(study.folder, LOCK):
            yield
    else:
        with _held(study.folder, LOCK, fcntl.LOCK_SH), _held(study.folder, f"{LOCK}.{shard[0]}-of-{shard[1]}"):
            yield


@contextlib.contextmanager
def locked_workers(folder: Path) -> Iterator[None]:
    """Hold the right to start and cancel the queued workers of a folder, see `locked`."""
    with _held(folder, f"{LOCK}.workers"):
        yield


@contextlib.contextmanager
def _held(folder: Path, name: str, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a lock file; who holds it writes its name into it."""
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o660)
    except OSError as error:
        reason = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise TableError(f"{path}: cannot be written: {reason}") from None
    with os.fdopen(handle, "r+", encoding="utf-8", errors="replace") as stream:
        if stream.read(8) not in ("", "process "):
            raise TableError(f"{path}: is no lock of procure; move it away or name another results folder")
        stream.seek(0)
        try:
            fcntl.flock(stream, how | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise TableError(
                    f"{folder}: this file system has no locks ({error.strerror}); "
                    "let `results` in the study file name a folder on one that has"
                ) from None
            raise TableError(f"{folder}: another sweep of this study is running: {_holder(path)}") from None
        stream.truncate()
        stream.write(f"process {os.getpid()} on {socket.gethostname()} since {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}\n")
        stream.flush()
        yield


def _holder(path: Path) -> str:
    """Say who wrote into a lock that they hold it, as far as that may still be so."""
    words = path.read_text(encoding="utf-8", errors="replace").split()
    ended = len(words) > 3 and words[3] == socket.gethostname() and not psutil.pid_exists(int(words[1]))
    return " ".join(words) if words and not ended else "a process that left no name; `lslocks` names it on its node"


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
    def failed(self) -> pa.Table:
        """The rows of the runs that failed."""
        return self.table.filter(pc.not_equal(self.table["status"], "ok"))

    def done(self, plan: Plan) -> dict[tuple[str, str], np.ndarray]:
        """Rows of the package table that have a result, by (workload, policy)."""
        return {pair: self.row[self.pair == place] for place, pair in enumerate(plan.pairs)}


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
    """Make the study's folder or take up an old one; return what is there, and which files were set aside."""
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


def merge(plan: Plan, note: Callable[[str], None] = silent) -> None:
    """Bring the parts of all shards into the one result table; a driver or shard at work is an error."""
    with locked(plan.study):
        found, notes = open_folder(plan)
        for text in notes:
            note(text)
        compact(plan, found)


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
    return check(found.table.to_pandas(), RESULT)


def verify(plan: Plan) -> tuple[dict[str, Any], list[str]]:
    """Check that every planned run is there once and every file whole: counts, and what is wrong, a sentence each."""
    refuse_other_inputs(plan)
    problems = list[str]()
    found = stored(plan, lambda path, why: problems.append(f"{path}: {why}"))
    n_done = int(np.isin(found.row, plan.sampled_rows).sum())
    counts = {
        "study": plan.study.name,
        "folder": str(plan.study.folder),
        "n_runs_planned": plan.n_runs,
        "n_done": n_done,
        "n_missing": plan.n_runs - n_done,
        "n_failed": len(found.failed),
        "n_beyond_plan": len(found.table) - n_done,
        "kernel_seconds": round(found.seconds, 3),
        "n_files": len(found.files),
        "n_repeated": found.n_repeated,
    }
    wrong = {
        "planned runs have no result": counts["n_missing"],
        "runs have two results that differ": found.n_conflicting,
        "rows are of no package, workload or policy of the study": found.n_foreign,
    }
    return counts, problems + [f"{n:,} {what}" for what, n in wrong.items() if n]
