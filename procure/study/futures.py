"""The futures of a study: drawn from the jobs of its workloads, or taken from a folder where they were drawn before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from procure.errors import TableError
from procure.files import existing_file, from_json, whole_file
from procure.schemas import JOB
from procure.settings import Folder
from procure.tables import read, write
from procure.workload.futures import Futures, draw_futures, with_spreads

MANIFEST = "futures.json"
PAST = "past"
"""What packages are compared on in a study with futures: its workloads as one log, as it was."""


class StudyFutures(Futures):
    """Drawn weeks that the first packages of a study are tried on, once they are found on the past as it was.

    With ``folder``, those that ``procure workload futures`` has written there: of these, all other settings are those
    that they were drawn with.
    """

    REMOVED: ClassVar[dict[str, str]] = {
        "past": "packages are compared on the past as it was, drawn weeks are tried beside; leave it out"
    }

    folder: Folder | None = None


def future_names(n: int) -> list[str]:
    """Name futures: ``future-01``, ``future-02`` …"""
    return [f"future-{i:0{max(2, len(str(n)))}d}" for i in range(1, n + 1)]


def table_digest(table: pd.DataFrame) -> str:
    """Return a digest of a table's columns and values."""
    rows = pd.util.hash_pandas_object(table, index=False).to_numpy().astype("<u8")
    names = ",".join(map(str, table.columns)).encode()
    return hashlib.sha256(names + rows.tobytes()).hexdigest()[:16]


def write_futures(jobs: pd.DataFrame, settings: Futures, tables: Iterable[pd.DataFrame], folder: Path) -> Path:
    """Write futures as job tables, and of which jobs and how they were drawn; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in zip(future_names(settings.draws), tables, strict=True):
        write(table, folder / f"{name}.parquet")
    manifest = {
        "jobs": table_digest(jobs),
        "settings": with_spreads(jobs, settings).model_dump(mode="json", exclude={"folder"}),
    }
    with whole_file(folder / MANIFEST) as temporary:
        temporary.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return folder


def read_settings(folder: Path) -> dict[str, Any]:
    """Read how a folder's futures were drawn, as plain values; that there are none is an error."""
    return dict(_manifest(folder)["settings"])


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        existing_file(path)
        found = from_json(path.read_text(encoding="utf-8"))
        if {"jobs", "settings"} <= set(found):
            return dict(found)
    except (TableError, ValueError, TypeError):
        pass
    raise TableError(f"{folder}: no futures here; `procure workload futures JOBS --out {folder}` draws some")


def read_futures(jobs: pd.DataFrame, settings: StudyFutures) -> dict[str, pd.DataFrame]:
    """Draw a study's futures from the jobs of its workloads, or read those of its folder.

    A log that is too short, and a folder whose futures were drawn from other jobs, are errors.
    """
    names = future_names(settings.draws)
    if settings.folder is None:
        return dict(zip(names, draw_futures(jobs, settings), strict=True))
    if _manifest(settings.folder)["jobs"] != table_digest(jobs):
        raise TableError(
            f"{settings.folder}: these futures were drawn from other jobs than the study's; draw them from its own, "
            "or leave [futures] folder out"
        )
    return {name: read(settings.folder / f"{name}.parquet", JOB) for name in names}
