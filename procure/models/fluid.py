"""What can be said of a wait before any simulation: how far the work that was submitted is behind the nodes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.packages.runnable import count_matrix, fits, node_types, request_shapes, shape_of
from procure.schemas import as_logged

STEP = 600
"""Seconds; work and jobs are counted per so long an interval."""
_RESOURCES = {"cpus": "cpus_per_node", "mem_mb": "mem_mb_per_node", "gpus": "gpus_per_node"}
_CHUNK = 1 << 14


def backlog_waits(
    packages: pd.DataFrame, quotes: pd.DataFrame, jobs: pd.DataFrame, existing: pd.DataFrame | None = None
) -> np.ndarray:
    """Estimate each package's mean wait, s, float64[packages], as if work were a fluid.

    Jobs are grouped by the node types that can hold them. For each group and each resource (CPUs, memory, GPUs), the
    work of all jobs that fit nowhere else (resource × run time, as logged) flows in as it is submitted and is drained
    by the nodes that can hold the group, ``existing`` ones among them; the backlog, the work just submitted included,
    divided by the rate at which it drains, is the delay. A job's delay is the largest of the three; the result is their
    mean. No simulated wait: jobs that share nodes or overtake each other wait otherwise. It follows them in order and,
    roughly, in scale from day to day.
    """
    shapes = request_shapes(jobs)
    types = node_types(quotes)
    if existing is not None and len(existing):
        types = pd.concat([types, existing[types.columns]], ignore_index=True)
    able = fits(types, shapes)
    groups, group_of = np.unique(able.T, axis=0, return_inverse=True)
    of_job = group_of.ravel()[shape_of(jobs, shapes)]
    submit = jobs["submit_time"].to_numpy()
    slot = (submit - submit.min()) // STEP
    n_slots = int(slot.max()) + 1
    inflow = [
        _inflow(jobs, np.array([not (other & ~group).any() for other in groups])[of_job], slot, n_slots)
        for group in groups
    ]
    n_jobs = np.stack([np.bincount(slot[of_job == g], minlength=n_slots) for g in range(len(groups))])
    counts = count_matrix(packages, quotes)
    counts = np.hstack([counts, np.ones((len(counts), len(types) - len(quotes)), dtype=np.int64)])
    found = np.empty(len(counts))
    for first in range(0, len(counts), _CHUNK):
        rows = slice(first, first + _CHUNK)
        found[rows] = _waited(counts[rows], types, groups, inflow, n_jobs) / len(jobs)
    return found


def _inflow(jobs: pd.DataFrame, chosen: np.ndarray, slot: np.ndarray, n_slots: int) -> dict[str, np.ndarray]:
    """Return the work of the chosen jobs by slot, resource × seconds."""
    jobs = as_logged(jobs)
    seconds = (jobs["run_time"] * jobs["n_nodes"]).to_numpy(dtype="float64")[chosen]
    return {
        name: np.bincount(slot[chosen], jobs[asked].to_numpy(dtype="float64")[chosen] * seconds, n_slots)
        for name, asked in _RESOURCES.items()
    }


def _waited(
    counts: np.ndarray,
    types: pd.DataFrame,
    groups: np.ndarray,
    inflow: list[dict[str, np.ndarray]],
    n_jobs: np.ndarray,
) -> np.ndarray:
    total = np.zeros(len(counts))
    for group, flows, jobs_at in zip(groups, inflow, n_jobs, strict=True):
        wanted = {name: work for name, work in flows.items() if work.any()}
        rate = {name: counts @ (types[name].to_numpy(dtype="float64") * group) for name in wanted}
        left = {name: np.zeros(len(counts)) for name in wanted}
        for t in range(len(jobs_at)):
            delay = np.zeros(len(counts))
            for name, work in wanted.items():
                left[name] += work[t]
                # A package without any such node cannot run these jobs at all; they are not waited for.
                np.maximum(delay, left[name] / np.where(rate[name] > 0, rate[name], np.inf), out=delay)
                left[name] = np.maximum(left[name] - rate[name] * STEP, 0.0)
            total += jobs_at[t] * delay
    return total
