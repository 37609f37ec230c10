"""Parts of a workload to repeat a comparison on: calendar slices."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from procure.errors import TableError
from procure.text import nearest

SLICES = {"day": 86_400, "week": 604_800, "month": 2_592_000}
"""Length of a slice, s; a month is 30 days. Slices begin with the first submission."""
FEWEST_JOBS = 10
"""A slice with fewer jobs says nothing and is left out."""


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
