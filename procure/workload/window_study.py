"""The study's workload: jobs made up as its program does, and its released instance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.files.read import read_bytes
from procure.schemas import JOB
from procure.tables import check

MOST_JOBS = 1_000_000
GAPS, RUN_TIMES, SIZES = (5, 30), (10, 1800), (1, 40)
"""Seconds between submissions, run times in seconds, nodes: uniform whole numbers, both ends included."""


def generate_jobs(n_jobs: int, seed: int) -> pd.DataFrame:
    """Make up jobs as the study's generator: gaps, then run times, then nodes, from one random stream.

    Run times are known: ``requested_time`` is ``run_time``.

    Raises
    ------
    ArgumentError
        No jobs, more than a million, or a negative seed.
    """
    if not 1 <= n_jobs <= MOST_JOBS:
        raise ArgumentError("jobs", f"{n_jobs} jobs; 1 to {MOST_JOBS:,} are made up")
    if seed < 0:
        raise ArgumentError("seed", f"the seed is {seed}; at least 0 is needed")
    rng = np.random.default_rng(seed)
    gaps, run_time, n_nodes = (rng.integers(low, high, n_jobs, endpoint=True) for low, high in (GAPS, RUN_TIMES, SIZES))
    return _job_table(np.arange(1, n_jobs + 1), np.cumsum(gaps), run_time, n_nodes)


def read_released(path: str | Path) -> pd.DataFrame:
    """Read the study's released instance: a line per job with id, submission (s), run time (s) and nodes.

    Raises
    ------
    TableError
        The file cannot be read, or a line is not four whole numbers.
    """
    rows = []
    for number, line in enumerate(read_bytes(path).decode("utf-8", "replace").splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        if len(words) != 4 or not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
            raise TableError(
                f"{path}, line {number}: {line[:60]!r} was given; a job is four whole numbers: "
                "id, submission (s), run time (s), nodes"
            )
        rows.append([int(word) for word in words])
    if not rows:
        raise TableError(f"{path}: holds no jobs")
    table = check(_job_table(*np.array(rows, np.int64).T), JOB, str(path))
    return table.sort_values("submit_time", kind="stable", ignore_index=True)


def _job_table(ids: np.ndarray, submit: np.ndarray, run_time: np.ndarray, n_nodes: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "job_id": ids.astype(str),
            "user": "user",
            "submit_time": submit,
            "requested_time": run_time,
            "run_time": run_time,
            "n_nodes": n_nodes,
            "cpus_per_node": 1,
        }
    )
