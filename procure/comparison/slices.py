"""Parts of a workload to repeat a comparison on: calendar slices, and shaken copies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.text import nearest

SLICES = {"day": 86_400, "week": 604_800, "month": 2_592_000}
"""Length of a slice, s; a month is 30 days. Slices begin with the first submission."""
FEWEST_JOBS = 10
"""A slice with fewer jobs says nothing and is left out."""
SHAKE = 300
"""Seconds by which a shaken copy moves a submission at most, either way."""


def check_length(length: str) -> None:
    """Raise if the length is not one of `SLICES`."""
    if length not in SLICES:
        raise TableError(f"slices of {length!r} are not known; {nearest(length, SLICES)}")


def slices(jobs: pd.DataFrame, length: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Cut a workload by submission time into one of `SLICES`; each slice will start from an empty system."""
    check_length(length)
    number = (jobs["submit_time"] - jobs["submit_time"].min()) // SLICES[length]
    for place, part in jobs.groupby(number, sort=True):
        if len(part) >= FEWEST_JOBS:
            yield f"{length} {int(place) + 1}", part.reset_index(drop=True)


def shaken(jobs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Move every submission by up to `SHAKE` seconds, drawn evenly, not before the first one.

    After Tsafrir, Ouaknine and Feitelson, "Reducing performance evaluation sensitivity and variability
    by input shaking" (MASCOTS 2007): what survives such noise is not an accident of the log.
    """
    noise = np.random.default_rng(seed).integers(-SHAKE, SHAKE + 1, len(jobs))
    submit = jobs["submit_time"].to_numpy(np.int64)
    return jobs.assign(submit_time=np.maximum(submit + noise, submit.min()))


def oracle(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the workload whose requests are its run times: what a scheduler with perfect estimates sees."""
    return jobs.assign(requested_time=jobs["run_time"].clip(lower=1))
