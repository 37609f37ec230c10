"""What a run is measured by: one compiled pass over its start and end times."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from procure.files.kernels import njit
from procure.schemas import METRICS
from procure.simulator.backlog import backlog

SLOWDOWN_FLOOR = 10
"""Seconds below which a run time does not make a slowdown look worse (the usual bound of 10 s)."""

METRIC_NAMES = tuple(column.name for column in METRICS)
INDEX = namedtuple("Index", METRIC_NAMES)(*range(len(METRIC_NAMES)))  # type: ignore[misc]
"""Where each metric stands in an array of all of them: ``out[INDEX.mean_wait_time]``."""
_COUNTS = frozenset(column.name for column in METRICS if column.dtype == "int")


class Usage(NamedTuple):
    """What each job keeps busy over all its nodes, in queue order; float64[n_jobs] each."""

    cpus: np.ndarray
    mem: np.ndarray  # MB
    gpus: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def nth(values, n, place):
    """Return what would stand at a place of the first ``n`` values if they were sorted; they are moved about.

    Hoare's selection. The pivot is drawn, always alike, so that no usual order of waits makes it slow.
    """
    low, high, drawn = 0, n - 1, 1
    while low < high:
        drawn = (drawn * 16807) % 2147483647  # Park and Miller (1988)
        pivot = values[low + drawn % (high - low + 1)]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return values[place]


@njit(cache=True, nogil=True, error_model="numpy")
def quantile(values, n, n_zeros, share):
    """Return a quantile by linear interpolation (NumPy's default rule) of the first ``n`` values and some zeros.

    The values are whole numbers of at least 0, and are moved about.
    """
    place = (n + n_zeros - 1) * share
    low = np.int64(place)
    high = low if low == n + n_zeros - 1 else low + 1
    part = place - low
    below = nth(values, n, low - n_zeros) if low >= n_zeros else 0
    above = nth(values, n, high - n_zeros) if high >= n_zeros else 0
    step = above - below
    return above - step * (1.0 - part) if part >= 0.5 else below + step * part


@njit(cache=True, nogil=True, error_model="numpy")
def measure(submit, start, end, killed, usage, capacity, span, max_queue_depth, counts_from, out):
    """Fill ``out``, float64[n_metrics], with the metrics of a run, in the order of `METRIC_NAMES`; NaN where undefined.

    ``submit``, ``start`` and ``end`` are int64[n_jobs], s, ordered by submission, ``start`` −1 for a job that did not
    run; ``killed`` bool[n_jobs], ended at its limit; ``capacity`` CPUs, MB and GPUs of all nodes; ``span`` s that
    utilization is a share of, 0 = the makespan of these jobs. Jobs submitted before ``counts_from``, s, are not
    counted, but for the depth of the queue and the backlog.
    """
    first = 0
    while first < submit.size and submit[first] < counts_from:  # np.searchsorted takes a second to compile
        first += 1
    n_jobs = submit.size - first
    waits = np.empty(n_jobs, np.int64)
    n_waited, n_killed, n_ran = 0, 0, 0
    last_end = np.int64(0)
    first_submit = np.int64(0)
    total_wait = total_turnaround = longest_wait = np.int64(0)
    total_slowdown = busy_cpu = busy_mem = busy_gpu = 0.0
    for j in range(first, submit.size):
        if start[j] < 0:
            continue
        if n_ran == 0:
            first_submit = submit[j]
        n_ran += 1
        run = end[j] - start[j]
        wait = start[j] - submit[j]
        slowdown = 1.0
        if wait > 0:
            waits[n_waited] = wait
            n_waited += 1
            total_wait += wait
            longest_wait = max(longest_wait, wait)
            slowdown = max(1.0, (end[j] - submit[j]) / max(run, SLOWDOWN_FLOOR))
        total_slowdown += slowdown
        total_turnaround += end[j] - submit[j]
        last_end = max(last_end, end[j])
        busy_cpu += usage.cpus[j] * run
        busy_mem += usage.mem[j] * run
        busy_gpu += usage.gpus[j] * run
        n_killed += killed[j]
    for i in range(out.size):  # to assign to a slice takes a second to compile
        out[i] = np.nan
    out[INDEX.n_jobs] = n_jobs
    out[INDEX.n_completed] = n_ran
    out[INDEX.n_unrunnable] = n_jobs - n_ran
    out[INDEX.n_killed] = n_killed
    out[INDEX.max_queue_depth] = max_queue_depth
    if n_ran == 0:
        return
    saturated, work_left = backlog(submit, start, end, usage, capacity, counts_from)
    out[INDEX.work_left] = work_left
    out[INDEX.saturated] = saturated
    makespan = last_end - first_submit
    out[INDEX.mean_wait_time] = total_wait / n_ran
    out[INDEX.median_wait_time] = quantile(waits, n_waited, n_ran - n_waited, 0.5)
    out[INDEX.p95_wait_time] = quantile(waits, n_waited, n_ran - n_waited, 0.95)
    out[INDEX.max_wait_time] = longest_wait
    out[INDEX.mean_bounded_slowdown] = total_slowdown / n_ran
    out[INDEX.mean_turnaround_time] = total_turnaround / n_ran
    out[INDEX.makespan] = makespan
    span = makespan if span == 0 else span
    if span > 0:
        if capacity[0] > 0:
            out[INDEX.utilization_cpu] = busy_cpu / (capacity[0] * span)
        if capacity[1] > 0:
            out[INDEX.utilization_mem] = busy_mem / (capacity[1] * span)
        if capacity[2] > 0:
            out[INDEX.utilization_gpu] = busy_gpu / (capacity[2] * span)


def as_record(values: np.ndarray) -> dict[str, Any]:
    """Name the metrics of one run; whole numbers for counts, None where undefined."""
    return {
        name: None if math.isnan(value) else int(value) if name in _COUNTS else float(value)
        for name, value in zip(METRIC_NAMES, values, strict=True)
    }


def utilization_nodes(
    start: np.ndarray, end: np.ndarray, node_list: np.ndarray, node_first: np.ndarray, n_nodes: int
) -> float | None:
    """Return busy node-seconds / (nodes × makespan), None where that is 0; a node is busy while a job runs on it.

    ``start`` and ``end`` are s after the first submission, int64[n_jobs], −1 = never; the nodes of job j
    ``node_list[node_first[j]:node_first[j + 1]]``.
    """
    makespan = int(end[start >= 0].max(initial=0))
    if makespan <= 0:
        return None
    order = np.argsort(start, kind="stable")
    return float(_busy(order, start, end, node_list, node_first, np.zeros(n_nodes, np.int64)) / (n_nodes * makespan))


@njit(cache=True, nogil=True)
def _busy(order, start, end, node_list, node_first, latest):
    """Sum the seconds in which each node runs a job; ``latest`` is room for the latest end on each so far."""
    total = 0
    for job in order:
        if start[job] >= 0:
            for i in range(node_first[job], node_first[job + 1]):
                node = node_list[i]
                total += max(end[job] - max(start[job], latest[node]), 0)
                latest[node] = max(latest[node], end[job])
    return total
