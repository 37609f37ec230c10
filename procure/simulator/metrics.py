"""What a run is measured by, in compiled passes over its start and end times: waits, use, backlog, classes of jobs."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from procure.files.kernels import njit
from procure.schemas import CLASS_FIGURES, CLASSES, METRICS
from procure.simulator.kernel import part

N_MOMENTS = 300


@njit(cache=True, nogil=True, error_model="numpy")
def shares_of(usage, capacity):
    """Return the largest share of the system's CPUs, memory or GPUs that each job keeps busy, float64[n_jobs].

    One resource after the other: asked for job by job, the shares took as long as all other metrics together.
    """
    shares = np.zeros(usage.cpus.size)
    if capacity[0] > 0:
        for j in range(shares.size):
            shares[j] = usage.cpus[j] / capacity[0]
    if capacity[1] > 0:
        for j in range(shares.size):
            share = usage.mem[j] / capacity[1]
            shares[j] = share if share > shares[j] else shares[j]
    if capacity[2] > 0:
        for j in range(shares.size):
            share = usage.gpus[j] / capacity[2]
            shares[j] = share if share > shares[j] else shares[j]
    return shares


@njit(cache=True, nogil=True, error_model="numpy")
def backlog(submit, start, end, usage, capacity, counts_from):
    """Return whether a run is saturated, and which share of the counted work was left at the last submission.

    As `measure`; the counted time begins at ``counts_from`` or at the first submission, if that is later. The *work* of
    a job is the share of the whole system that it keeps busy, of the resource of which it takes the largest share, by
    the seconds that it runs; the backlog at a moment is the work of the jobs that have been submitted and have not
    started. It is looked at at 300 moments, evenly spaced over the counted time, the last of them the last submission.

    A run is **saturated** if the low tides of the backlog rise, the least of the first third of these moments being
    below that of the second, and that below that of the third; and if in the last third the backlog never falls to its
    mean over all 300. A queue that empties now and then does not pass, however long it was; one that grows by so much a
    day does: its least in the last third is 2/3 of its last, its mean 1/2.
    """
    first, last = max(counts_from, submit[0]), submit[-1]
    span = last - first
    change = np.zeros(N_MOMENTS + 1)
    shares = shares_of(usage, capacity)
    total = left = 0.0
    for j in range(submit.size):
        if start[j] < 0:
            continue
        share = shares[j]
        if submit[j] >= counts_from:
            total += share * (end[j] - start[j])
            left += share * max(0, end[j] - max(last, start[j]))
        if start[j] > first and start[j] > submit[j] and span > 0:
            # Moment i is first + span × (i + 1) / N_MOMENTS; the job waits at those in [submit, start).
            begins = max(0, -(-(submit[j] - first) * N_MOMENTS // span) - 1)
            ends = min(N_MOMENTS, max(0, -(-(start[j] - first) * N_MOMENTS // span) - 1))
            change[begins] += share * (end[j] - start[j])
            change[ends] -= share * (end[j] - start[j])
    level = mean = 0.0
    low = np.zeros(3)
    for third in range(3):
        low[third] = np.inf
    for i in range(N_MOMENTS):
        level += change[i]
        mean += level / N_MOMENTS
        low[i * 3 // N_MOMENTS] = min(low[i * 3 // N_MOMENTS], level)
    tolerance = 1e-9 * (1.0 + abs(mean))  # of the running sum
    rises = low[0] + tolerance < low[1] and low[1] + tolerance < low[2]
    return rises and low[2] > mean + tolerance, left / total if total > 0 else 0.0


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


LONG_WAIT = 3600
"""Seconds; a job that waits longer counts in the shares over an hour."""
_N_CLASSES = len(CLASSES)
_FIRST = METRIC_NAMES.index(f"{CLASSES[0]}_mean_wait_time")
"""Mean, 95th percentile and share over an hour of each class stand from here."""
_OWN = len(METRIC_NAMES)
"""Those of the classes that a study defines follow all other metrics."""


NO_CLASSES = np.zeros((0, 0), np.int64)
"""Of a study that defines no class of its own."""


class Groups(NamedTuple):
    """Which class each job is of, a place in `CLASSES`, and whose it is, from 0; int64[n_jobs] each, in queue order.

    ``own`` has a row for each class that a study defines, with its number where a job is of it and −1 elsewhere,
    int64[n_classes, n_jobs]; a job may be of several, or of none.
    """

    job_class: np.ndarray
    user: np.ndarray
    own: np.ndarray = NO_CLASSES


def metric_names(own: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of all metrics of a run: `METRIC_NAMES`, then the figures of each class that a study defines."""
    return (*METRIC_NAMES, *(f"{name}_{figure}" for name in own for figure in CLASS_FIGURES))


@part
def _class_figures(runs, of, place, waits, out):
    """Put mean, 95th percentile and share over an hour of the jobs ``of`` one place into ``out``.

    ``runs`` are when jobs are submitted and start, and from when they count. A class of which no job ran leaves
    ``out`` as it is; ``waits`` is scratch.
    """
    submit, start, counts_from = runs
    n_waited, n_ran, n_over, total = np.int64(0), 0, 0, 0.0
    for j in range(submit.size):
        if of[j] != place or start[j] < 0 or submit[j] < counts_from:
            continue
        wait = start[j] - submit[j]
        n_ran += 1
        if wait > 0:
            waits[n_waited] = wait
            n_waited += 1
            total += wait
            n_over += wait > LONG_WAIT
    if n_ran > 0:
        out[0] = total / n_ran
        out[1] = quantile(waits, n_waited, n_ran - n_waited, 0.95)
        out[2] = n_over / n_ran


@njit(cache=True, nogil=True, error_model="numpy")
def measure_groups(submit, start, groups, counts_from, out):
    """Fill in what ``out`` says of classes and users (`measure`); a class of which no job ran stays so."""
    n_users, n_all, n_long = 0, 0, 0
    for j in range(submit.size):
        n_users = max(n_users, groups.user[j] + 1)
    waited, ran = np.zeros(n_users), np.zeros(n_users)  # s and jobs of each user
    for j in range(submit.size):
        if start[j] >= 0 and submit[j] >= counts_from:
            n_all += 1
            n_long += start[j] - submit[j] > LONG_WAIT
            ran[groups.user[j]] += 1
            waited[groups.user[j]] += start[j] - submit[j]
    if n_all == 0:
        return
    runs, room = (submit, start, counts_from), np.empty(submit.size, np.int64)
    for c in range(_N_CLASSES):
        _class_figures(runs, groups.job_class, c, room, out[_FIRST + 3 * c :])
    for c in range(groups.own.shape[0]):
        _class_figures(runs, groups.own[c], c, room, out[_OWN + 3 * c :])
    out[INDEX.share_over_1h] = n_long / n_all
    fair, n_known = 0.0, 0
    for user in range(n_users):
        if ran[user] > 0:
            fair += waited[user] / ran[user]
            n_known += 1
    out[INDEX.user_fair_wait_time] = fair / n_known
