"""Many packages, one workload: the fast lane and the metrics for each, without leaving compiled code."""

from __future__ import annotations

import numpy as np

from procure.files.kernels import njit
from procure.simulator.class_waits import measure_groups
from procure.simulator.fast_lane import best_fit_schedule
from procure.simulator.metrics import measure


@njit(cache=True, nogil=True, error_model="numpy")
def best_fit_batch(
    jobs,
    kinds,
    fits_empty,
    durations,
    killed,
    bits,
    usage,
    groups,
    counts_from,
    existing_kind_of,
    type_kind_of,
    counts,
    out,
):
    """Fill ``out``, float64[n_packages, n_metrics], with the metrics of each package under best-fit bin packing.

    All as `fast_lane.best_fit_schedule`, `metrics.measure` and `class_waits.measure_groups` take it; ``killed``
    bool[n_speeds, n_jobs], the limit cuts the job at this speed. Before the nodes of a package, ``counts``
    int64[n_packages, n_types] of each type, whose kinds are ``type_kind_of``, stand those of the kinds
    ``existing_kind_of``.
    """
    n_jobs = jobs.submit.size
    n_existing = existing_kind_of.size
    start = np.empty(n_jobs, np.int64)
    end = np.empty(n_jobs, np.int64)
    node_of = np.empty(n_jobs, np.int32)
    was_killed = np.zeros(n_jobs, np.bool_)
    for p in range(counts.shape[0]):
        kind_of = np.empty(n_existing + counts[p].sum(), np.uint32)
        for n in range(n_existing):
            kind_of[n] = existing_kind_of[n]
        filled = n_existing
        for t in range(counts.shape[1]):
            for _ in range(counts[p, t]):
                kind_of[filled] = type_kind_of[t]
                filled += 1
        depth = best_fit_schedule(jobs, kinds, fits_empty, kind_of, durations, bits, start, end, node_of)
        capacity_cpu = capacity_mem = capacity_gpu = 0.0
        for n in range(kind_of.size):
            capacity_cpu += kinds.cpus[kind_of[n]]
            capacity_mem += kinds.mem[kind_of[n]]
            capacity_gpu += kinds.gpus[kind_of[n]]
        for j in range(n_jobs):
            if node_of[j] >= 0:
                was_killed[j] = killed[kinds.speed[kind_of[node_of[j]]], j]
        capacity = (capacity_cpu, capacity_mem, capacity_gpu)
        measure(jobs.submit, start, end, was_killed, usage, capacity, 0, depth, counts_from, out[p])
        measure_groups(jobs.submit, start, groups, counts_from, out[p])
