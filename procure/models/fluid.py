"""What can be said of a wait before any simulation: how far the work that was submitted is behind the nodes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.files.kernels import njit
from procure.packages.nodes import count_matrix, fits, node_types, request_shapes, shape_of
from procure.schemas import as_logged

STEP = 600
"""Seconds; work and jobs are counted per so long an interval."""
_RESOURCES = {"cpus": "cpus_per_node", "mem_mb": "mem_mb_per_node", "gpus": "gpus_per_node"}


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
    counts = count_matrix(packages, quotes)
    counts = np.hstack([counts, np.ones((len(counts), len(types) - len(quotes)), dtype=np.int64)])
    holds = types[list(_RESOURCES)].to_numpy(dtype="float64")
    found = np.zeros(len(counts))
    for number, group in enumerate(groups):
        nowhere_else = np.array([not (other & ~group).any() for other in groups])[of_job]
        n_jobs = np.bincount(slot[of_job == number], minlength=n_slots)
        found += _waited(counts @ (holds * group[:, None]), _inflow(jobs, nowhere_else, slot, n_slots), n_jobs)
    return found / len(jobs)


def _inflow(jobs: pd.DataFrame, chosen: np.ndarray, slot: np.ndarray, n_slots: int) -> np.ndarray:
    """Return the work of the chosen jobs, resource × seconds, float64[resources, slots]."""
    jobs = as_logged(jobs)
    seconds = (jobs["run_time"] * jobs["n_nodes"]).to_numpy(dtype="float64")[chosen]
    return np.array(
        [
            np.bincount(slot[chosen], jobs[asked].to_numpy(dtype="float64")[chosen] * seconds, n_slots)
            for asked in _RESOURCES.values()
        ]
    )


@njit(cache=True, error_model="numpy")
def _waited(rates, work, n_jobs):
    """Add up delays of jobs, s, float64[packages], of a group that arrive by slot, as work flows in and is drained.

    ``rates`` are float64[packages, resources], ``work`` float64[resources, slots], ``n_jobs`` int64[slots].
    """
    total = np.zeros(len(rates))
    left = np.zeros(len(work))
    for package in range(len(rates)):
        left[:] = 0.0
        for slot in range(len(n_jobs)):
            delay = 0.0
            for i in range(len(work)):
                rate, behind = rates[package, i], left[i] + work[i, slot]
                # A package without any such node cannot run these jobs at all; they are not waited for.
                if rate > 0:
                    delay = max(delay, behind / rate)
                left[i] = max(behind - rate * STEP, 0.0)
            total[package] += n_jobs[slot] * delay
    return total
