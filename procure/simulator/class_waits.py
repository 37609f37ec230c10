"""Who waits: a run's waits by class of job, by user, and over an hour, in one compiled pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from procure.files.kernels import njit
from procure.schemas import CLASS_FIGURES, CLASSES
from procure.simulator.kernel import part
from procure.simulator.metrics import INDEX, METRIC_NAMES, quantile

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
        float64[n_metrics], modified; in the order of `metric_names` of the own classes.
    """
    n_jobs, n_users = submit.size, 0
    for j in range(n_jobs):
        n_users = max(n_users, groups.user[j] + 1)
    waits, runs = np.empty((_N_CLASSES, n_jobs), np.int64), (submit, start, counts_from)
    n_waited, n_over = np.zeros(_N_CLASSES, np.int64), np.zeros(_N_CLASSES, np.int64)
    n_ran, total = np.zeros(_N_CLASSES, np.int64), np.zeros(_N_CLASSES)
    n_all = n_long = 0
    waited, ran = np.zeros(n_users), np.zeros(n_users)  # s and jobs of each user
    for j in range(n_jobs):
        if start[j] < 0 or submit[j] < counts_from:
            continue
        of, user, wait = groups.job_class[j], groups.user[j], start[j] - submit[j]
        n_ran[of] += 1
        ran[user] += 1
        if wait > 0:
            waits[of, n_waited[of]] = wait
            n_waited[of] += 1
            total[of] += wait
            n_over[of] += wait > LONG_WAIT
            waited[user] += wait
    for c in range(_N_CLASSES):
        n_all += n_ran[c]
        n_long += n_over[c]
        if n_ran[c] > 0:
            out[_FIRST + 3 * c] = total[c] / n_ran[c]
            out[_FIRST + 3 * c + 1] = quantile(waits[c], n_waited[c], n_ran[c] - n_waited[c], 0.95)
            out[_FIRST + 3 * c + 2] = n_over[c] / n_ran[c]
    if n_all == 0:
        return
    for c in range(groups.own.shape[0]):
        _class_figures(runs, groups.own[c], c, waits[0], out[_OWN + 3 * c :])
    out[INDEX.share_over_1h] = n_long / n_all
    fair, n_known = 0.0, 0
    for user in range(n_users):
        if ran[user] > 0:
            fair += waited[user] / ran[user]
            n_known += 1
    out[INDEX.user_fair_wait_time] = fair / n_known
