"""The past as a workload of its own: as it was, and its quarters, each to be replayed as if it came."""

from __future__ import annotations

import pandas as pd

N_PARTS = 4
PAST_NAMES = ("past", *(f"past-{i}" for i in range(1, N_PARTS + 1)))
"""What `past_and_parts` names its tables."""


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
    begin, end = int(submit.min()) + warm_up, int(submit.max()) + 1
    found = {PAST_NAMES[0]: jobs}
    for i, name in enumerate(PAST_NAMES[1:]):
        low, high = (begin + (end - begin) * k // N_PARTS for k in (i, i + 1))
        part = jobs[(submit >= low - warm_up) & (submit < high)].reset_index(drop=True)
        part.attrs = dict(jobs.attrs)
        found[name] = part
    return found


def scenario_weights(n_futures: int) -> list[float]:
    """Return what the past, its parts and so many futures count: a third of all each, in this order."""
    return [1.0, *[1 / N_PARTS] * N_PARTS, *[1 / n_futures] * n_futures]
