"""The futures of a study, drawn from the jobs of its workloads."""

from __future__ import annotations

import hashlib
from typing import ClassVar

import pandas as pd

from procure.workload.load import Futures, draw_futures

PAST = "past"
"""What packages are compared on in a study with futures: its workloads as one log, as it was."""


class StudyFutures(Futures):
    """Drawn weeks that the first packages of a study are tried on, once they are found on the past as it was."""

    REMOVED: ClassVar[dict[str, str]] = Futures.REMOVED | {
        "past": "packages are compared on the past as it was, drawn weeks are tried beside; leave it out"
    }


def future_names(n: int) -> list[str]:
    """Name futures: ``future-01``, ``future-02`` …"""
    return [f"future-{i:0{max(2, len(str(n)))}d}" for i in range(1, n + 1)]


def table_digest(table: pd.DataFrame) -> str:
    """Return a digest of a table's columns and values."""
    rows = pd.util.hash_pandas_object(table, index=False).to_numpy().astype("<u8")
    names = ",".join(map(str, table.columns)).encode()
    return hashlib.sha256(names + rows.tobytes()).hexdigest()[:16]


def read_futures(jobs: pd.DataFrame, settings: StudyFutures) -> dict[str, pd.DataFrame]:
    """Draw a study's futures from the jobs of its workloads; a log that is too short is an error."""
    return dict(zip(future_names(settings.draws), draw_futures(jobs, settings), strict=True))
