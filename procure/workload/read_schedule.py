"""Who ran where and when: schedules that procure wrote, and tables of anyone's, Slurm's accounting among them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.workload.clock import unix_seconds
from procure.workload.ledger import Ledger
from procure.workload.log_settings import How
from procure.workload.read_csv import csv_text
from procure.workload.slurm_text import expand_nodes, node_names

COLUMNS = {"job_id": "JobID", "start_time": "Start", "end_time": "End", "node_ids": "NodeList"}
"""What is needed, and what ``sacct`` calls it."""


def read_schedule(path: str | Path) -> pd.DataFrame:
    """Read where jobs ran: Parquet, CSV, or what ``sacct -X --parsable2`` prints; only `COLUMNS` are needed.

    Times are seconds or ISO dates; node lists may be host lists such as ``n[5-8],g1``. A job that has not ended
    is taken to run until the table's last moment; steps, and jobs without start or nodes, are left out.

    Returns
    -------
    pandas.DataFrame
        ``job_id start_time end_time node_ids``, and ``links`` where the file has it; names joined by commas.

    Raises
    ------
    TableError
        The file is none of these, lacks a column, or a time or a host list cannot be read.
    """
    text = csv_text(path, How())
    known = {slurm.lower(): ours for ours, slurm in COLUMNS.items()}
    text = text.rename(columns=lambda name: known.get(name.strip().lower(), name.strip()))
    for ours in COLUMNS:
        if ours not in text:
            raise TableError(
                f"{path}: column {ours} is missing; needed are {', '.join(COLUMNS)}, as `procure simulate --out` "
                f"writes them, or {', '.join(COLUMNS.values())}, as `sacct -X -P -o` does"
            )
    ledger = Ledger(str(path), np.arange(1, len(text) + 1), len(text))
    times = {name: unix_seconds(text[name], name, ledger, None) for name in ("start_time", "end_time")}
    names = node_names(text["node_ids"])
    ran = ~np.isnan(times["start_time"]) & (names != "") & ~text["job_id"].str.contains(".", regex=False).to_numpy()
    last = np.nanmax([0.0, *times["start_time"][ran], *times["end_time"][ran]])
    kept = {name: text[name] for name in ("job_id", "links") if name in text}
    whole = pd.DataFrame(kept | {name: np.where(np.isnan(values), last, values) for name, values in times.items()})
    return whole.assign(node_ids=names)[ran].astype(dict.fromkeys(times, np.int64)).reset_index(drop=True)


def names_of(node_ids: str) -> list[str]:
    """Return the names of a job's nodes, which may be written as a host list."""
    return expand_nodes(node_ids) if "[" in node_ids else [name for name in node_ids.split(",") if name]
