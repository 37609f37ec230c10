"""The past as a workload of its own: as it was, and its quarters, each to be replayed as if it came."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

from procure.schemas import CLASSES
from procure.tables import with_clock_of

N_PARTS = 4
PAST_NAMES = ("past", *(f"past-{i}" for i in range(1, N_PARTS + 1)))
"""What `past_and_parts` names its tables."""


def part_bounds(submit: np.ndarray, warm_up: int) -> list[tuple[int, int]]:
    """Return from when and until when, s, jobs count in the whole of a log and in each part of it."""
    begin, end = int(submit.min()) + warm_up, int(submit.max()) + 1
    edges = [begin + (end - begin) * i // N_PARTS for i in range(N_PARTS + 1)]
    return [(begin, end), *pairwise(edges)]


def past_and_parts(jobs: pd.DataFrame, warm_up: int) -> dict[str, pd.DataFrame]:
    """Return a log, and four equal parts of its time, each with the jobs of the warm-up before it.

    What is good over the whole of a past may owe it to one burst; what is good in each part of it owes it to none.

    Parameters
    ----------
    jobs
        A job table in order of submission; it is not modified.
    warm_up
        s from the first submission that are simulated but not counted; so long is the warm-up of each part, too.
    """
    submit = jobs["submit_time"]
    found = {PAST_NAMES[0]: jobs}
    for name, (low, high) in zip(PAST_NAMES[1:], part_bounds(submit.to_numpy(), warm_up)[1:], strict=True):
        part = jobs[(submit >= low - warm_up) & (submit < high)].reset_index(drop=True)
        found[name] = with_clock_of(jobs, part)
    return found


def waits_by_part(
    submit: np.ndarray, wait: np.ndarray, job_class: np.ndarray, bounds: list[tuple[int, int]]
) -> np.ndarray:
    """Return mean waits over the whole and each part of one replay, of all jobs and of each class.

    Parameters
    ----------
    submit, wait, job_class
        s, s and places in `procure.schemas.CLASSES`, [n_jobs] each; a negative wait is of a job that never ran, which
        does not count.
    bounds
        From `part_bounds`, in the time of ``submit``.

    Returns
    -------
    numpy.ndarray
        s, float64[1 + `N_PARTS`, 1 + classes]; NaN where no job ran.
    """
    found = np.full((len(bounds), 1 + len(CLASSES)), np.nan)
    for i, (low, high) in enumerate(bounds):
        mine = (submit >= low) & (submit < high) & (wait >= 0)
        n = np.bincount(job_class[mine], minlength=len(CLASSES))
        total = np.bincount(job_class[mine], wait[mine], len(CLASSES))
        if n.any():
            found[i, 0] = total.sum() / n.sum()
            found[i, 1:] = np.divide(total, n, out=np.full(len(CLASSES), np.nan), where=n > 0)
    return found


def scenario_weights(n_futures: int) -> list[float]:
    """Return what the past, its parts and so many futures count: a third of all each, in this order."""
    return [1.0, *[1 / N_PARTS] * N_PARTS, *[1 / n_futures] * n_futures]
