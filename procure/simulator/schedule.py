"""A run as a table: the jobs with their starts, ends and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from procure.simulator.arrays import Jobs, task_columns

_STEP = 1 << 18
"""Jobs whose nodes are written out at a time."""


class Outcome(NamedTuple):
    """What one run gave, jobs in queue order."""

    start: np.ndarray  # int64[n_jobs], s after the first submission; −1 = never
    end: np.ndarray  # int64[n_jobs], likewise
    killed: np.ndarray  # bool[n_jobs], ended at the limit
    node_list: np.ndarray  # nodes of job j: node_list[node_first[j]:node_first[j + 1]]
    node_first: np.ndarray  # int64[n_jobs + 1]
    max_queue_depth: int
    elapsed: float  # s, of the simulation itself
    columns: Mapping[str, list] = MappingProxyType({})  # what the policy has to say of each job
    node_units: np.ndarray | None = None  # tasks on each entry of node_list, 1 of a job of nodes; None = no job has any


def schedule_of(jobs: pd.DataFrame, nodes: pd.DataFrame, arrays: Jobs, found: Outcome) -> pd.DataFrame:
    """Return the job table in its own row order with starts, ends and nodes; see `procure.run.Run.schedule`."""
    ran, flat, bounds = found.start >= 0, found.node_list, found.node_first
    first, back = int(jobs["submit_time"].to_numpy()[arrays.row[0]]), np.argsort(arrays.row, kind="stable")
    schedule = jobs.reset_index(drop=True).copy()
    for name, values in (("start_time", found.start), ("end_time", found.end)):
        schedule[name] = pd.arrays.IntegerArray(np.where(ran, values + first, 0)[back], ~ran[back])
    names = pa.array(nodes["node_id"], pa.string())
    more: dict[str, Any] = {"node_ids": _joined(names, np.maximum(flat, 0), bounds, ran), **found.columns}
    if found.node_units is not None:  # a job of tasks that stand evenly runs as a job of nodes
        n, units = (
            task_columns(jobs)["n_tasks"][arrays.row],
            np.add.reduceat(np.append(found.node_units, 0), bounds[:-1]),
        )
        each = np.repeat(np.where(ran, n // np.maximum(units, 1), 0), np.diff(bounds))
        numbers = pa.array(range(int((found.node_units * each).max(initial=0)) + 1)).cast(pa.string())
        more["node_tasks"] = _joined(numbers, found.node_units * each, bounds, ran & (n > 0))
    for name, said in more.items():
        schedule[name] = np.array(said, dtype=object)[back]
    return schedule


def _joined(texts: pa.Array, which: np.ndarray, bounds: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Join each job's texts, those of ``which[bounds[job]:bounds[job + 1]]``, by commas; empty unless ``shown``."""
    parts = []
    for at in range(0, len(shown), _STEP):  # an array of Arrow's holds 2 GB of text
        some = bounds[at : at + _STEP + 1]
        lists = pa.ListArray.from_arrays(pa.array(some - some[0], pa.int32()), texts.take(which[some[0] : some[-1]]))
        parts.append(pc.binary_join(lists, ",").to_numpy(zero_copy_only=False))
    return np.where(shown, np.concatenate(parts), "")
