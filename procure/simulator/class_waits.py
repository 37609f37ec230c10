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
    """Fill in what ``out`` says of classes and users (`metrics.measure`); a class of which no job ran stays so."""
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
