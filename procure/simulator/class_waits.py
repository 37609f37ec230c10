"""Who waits: a run's waits by class of job, by user, and over an hour, in one compiled pass per class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.files.kernels import njit
from procure.schemas import CLASSES
from procure.simulator.metrics import INDEX, METRIC_NAMES, quantile

LONG_WAIT = 3600
"""Seconds; a job that waits longer counts in the shares over an hour."""
_N_CLASSES = len(CLASSES)
_FIRST = METRIC_NAMES.index(f"{CLASSES[0]}_mean_wait_time")
"""Mean, 95th percentile and share over an hour of each class stand from here."""


class Groups(NamedTuple):
    """Which class each job is of, a place in `CLASSES`, and whose it is, from 0; int64[n_jobs] each, in queue order."""

    job_class: np.ndarray
    user: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def measure_groups(submit, start, groups, counts_from, out):
    """Fill in what ``out`` says of classes and users; a class of which no job ran stays as it is.

    Parameters
    ----------
    submit, start : numpy.ndarray
        int64[n_jobs], s, ordered by submission; start −1 for a job that did not run.
    groups : Groups
        Per job.
    counts_from : int
        s; jobs submitted before are not counted.
    out : numpy.ndarray
        float64[n_metrics], modified.
    """
    n_jobs, n_users = submit.size, 0
    for j in range(n_jobs):
        n_users = max(n_users, groups.user[j] + 1)
    waits = np.empty(n_jobs, np.int64)
    waited, ran = np.zeros(n_users), np.zeros(n_users)  # s and jobs of each user
    n_all = n_long = 0
    for c in range(_N_CLASSES):
        n_waited, n_ran, n_over, total = np.int64(0), 0, 0, 0.0
        for j in range(n_jobs):
            if groups.job_class[j] != c or start[j] < 0 or submit[j] < counts_from:
                continue
            wait = start[j] - submit[j]
            n_ran += 1
            waited[groups.user[j]] += wait
            ran[groups.user[j]] += 1
            if wait > 0:
                waits[n_waited] = wait
                n_waited += 1
                total += wait
                n_over += wait > LONG_WAIT
        n_all += n_ran
        n_long += n_over
        if n_ran > 0:
            out[_FIRST + 3 * c] = total / n_ran
            out[_FIRST + 3 * c + 1] = quantile(waits, n_waited, n_ran - n_waited, 0.95)
            out[_FIRST + 3 * c + 2] = n_over / n_ran
    if n_all == 0:
        return
    out[INDEX.share_over_1h] = n_long / n_all
    fair, n_known = 0.0, 0
    for user in range(n_users):
        if ran[user] > 0:
            fair += waited[user] / ran[user]
            n_known += 1
    out[INDEX.user_fair_wait_time] = fair / n_known
