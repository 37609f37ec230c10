"""What a scheduler sees of the queue as a job is submitted: the numbers from which its hold is predicted.

The same parts count a log's own events, for learning, and a simulation's, for the policy. What depends on capacity is
a share of it, so a purchase changes these features in one stated way: what runs and waits becomes a smaller share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.kernel import kernel, part

FEATURES = (
    *("log_requested_time", "log_cpus", "share_of_cpus", "log_cpu_seconds", "log_mem_mb_per_cpu"),
    *("user_running_share", "user_running_jobs", "user_waiting_share", "user_waiting_jobs"),
    *("running_share", "waiting_share", "waiting_jobs", "hour", "hour_of_week"),
    *("user_mean", "partition_mean", "account_mean", "user_last_wait", "log_since_users_start"),
    *("recent_wait", "users_oldest_waits", "log_since_users_submission"),
)
"""Means are of log(1 + wait) in the training part; recent_wait is of the last twenty starts or so."""
N_STATIC = 5
RECENT = 0.05
HOUR, WEEK, THURSDAY = 3600, 604_800, 259_200
"""s in an hour and a week, and from Monday to the first moment of Unix time, a Thursday."""
JOBS, CPUS = 0, 1
RUN_CPUS, RUN_JOBS, WAIT_CPUS, WAIT_JOBS, LATEST = range(5)


class Watch(NamedTuple):
    """Counts of what runs and waits; the last user is everybody."""

    user: np.ndarray  # int64[n_jobs]
    cpus: np.ndarray  # int64[n_jobs], on all nodes
    submit: np.ndarray  # int64[n_jobs], s
    static: np.ndarray  # float64[n_jobs, N_STATIC], the first features
    means: np.ndarray  # float64[n_jobs, 3], of the user, partition and account
    counts: np.ndarray  # int64[4, n_users + 1], CPUs and jobs that run, that wait
    last_wait: np.ndarray  # float64[n_users], log(1 + s)
    last_start: np.ndarray  # int64[n_users], s
    last_submit: np.ndarray  # int64[n_users], s
    recent: np.ndarray  # float64[1], log(1 + s)
    oldest: np.ndarray  # int64[n_users], the user's oldest waiting job; −1 = none
    following: np.ndarray  # int64[n_jobs], the user's next waiting job
    previous: np.ndarray  # int64[n_jobs]
    newest: np.ndarray  # int64[n_users]
    capacity: float  # CPUs
    monday: int  # s from Monday, UTC, to the first submission


@part
def come(watch, job, row):
    """Take note of a submission; ``row`` gets the features that were seen just before."""
    user, now = watch.user[job], watch.submit[job]
    everybody, counts = watch.counts.shape[1] - 1, watch.counts
    for i in range(N_STATIC):
        row[i] = watch.static[job, i]
    row[5] = counts[RUN_CPUS, user] / watch.capacity
    row[6] = counts[RUN_JOBS, user]
    row[7] = counts[WAIT_CPUS, user] / watch.capacity
    row[8] = counts[WAIT_JOBS, user]
    row[9] = counts[RUN_CPUS, everybody] / watch.capacity
    row[10] = counts[WAIT_CPUS, everybody] / watch.capacity
    row[11] = counts[WAIT_JOBS, everybody]
    at = (watch.monday + now) % WEEK
    row[12] = (at % 86_400) / HOUR
    row[13] = at / HOUR
    for i in range(3):
        row[14 + i] = watch.means[job, i]
    row[17] = watch.last_wait[user]
    row[18] = np.log1p(max(0, now - watch.last_start[user]))
    row[19] = watch.recent[0]
    oldest = watch.oldest[user]
    row[20] = 0.0 if oldest < 0 else np.log1p(now - watch.submit[oldest])
    row[21] = np.log1p(max(0, now - watch.last_submit[user]))
    watch.last_submit[user] = now
    for who in (user, everybody):
        counts[WAIT_CPUS, who] += watch.cpus[job]
        counts[WAIT_JOBS, who] += 1
    last = watch.newest[user]
    watch.previous[job], watch.following[job] = last, -1
    if last < 0:
        watch.oldest[user] = job
    else:
        watch.following[last] = job
    watch.newest[user] = job


@part
def begin(watch, job, now):
    """Take note of a start."""
    user, everybody, counts = watch.user[job], watch.counts.shape[1] - 1, watch.counts
    for who in (user, everybody):
        counts[WAIT_CPUS, who] -= watch.cpus[job]
        counts[WAIT_JOBS, who] -= 1
        counts[RUN_CPUS, who] += watch.cpus[job]
        counts[RUN_JOBS, who] += 1
    before, after = watch.previous[job], watch.following[job]
    if before < 0:
        watch.oldest[user] = after
    else:
        watch.following[before] = after
    if after < 0:
        watch.newest[user] = before
    else:
        watch.previous[after] = before
    waited = np.log1p(now - watch.submit[job])
    watch.last_wait[user], watch.last_start[user] = waited, now
    watch.recent[0] += RECENT * (waited - watch.recent[0])


@part
def finish(watch, job):
    """Take note of an end."""
    user, everybody, counts = watch.user[job], watch.counts.shape[1] - 1, watch.counts
    for who in (user, everybody):
        counts[RUN_CPUS, who] -= watch.cpus[job]
        counts[RUN_JOBS, who] -= 1


@kernel
def see(watch, at, kind, about, rows):
    """Run through a log's events (0 an end, 1 a start, 2 a submission); ``rows`` gets each job's features."""
    for i in range(at.size):
        if kind[i] == 0:
            finish(watch, about[i])
        elif kind[i] == 1:
            begin(watch, about[i], at[i])
        else:
            come(watch, about[i], rows[about[i]])
