"""Does the queue grow to the end? The backlog of one run over time, and the test that is put to it.

The *work* of a job is the share of the whole system that it keeps busy, of the resource of which it takes the
largest share, times the seconds that it runs: so a backlog is in seconds of the whole system. The backlog at a
moment is the work of the jobs that have been submitted and have not started. It is looked at at 300 moments,
evenly spaced over the counted time, the last of them the last submission.

A run is **saturated** if the low tides of the backlog rise, the least of the first third of these moments being
below that of the second, and that below that of the third; and if in the last third the backlog never falls to its
mean over all 300. A queue that empties now and then does not pass, however long it was; one that grows by so much a
day does: its least in the last third is 2/3 of its last, its mean 1/2.
"""

from __future__ import annotations

import numpy as np

from procure.files.kernels import njit

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

    As `metrics.measure`; the counted time begins at ``counts_from`` or at the first submission, if that is later.
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
