"""What is allowed in a job table and yet seldom meant: counted, so that it is not accepted in silence."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.schemas import as_logged
from procure.text import be, counted, duration, short

_YEAR = 365 * 86_400


def oddities(jobs: pd.DataFrame) -> list[str]:
    """Say in a sentence each what looks wrong in a checked job table: repeated ids, limits of 0, years of run time."""
    found = []
    again = jobs["job_id"].duplicated().to_numpy()
    if n := int(again.sum()):
        row = int(np.flatnonzero(again)[0])
        name = jobs["job_id"].iloc[row]
        found.append(
            f"{counted(n, 'row')} {'repeats' if n == 1 else 'repeat'} the job_id of an earlier row, the first is "
            f"row {row + 1} ({short(name)}); each counts as a job of its own"
        )
    unlimited = (jobs["requested_time"] == 0).to_numpy()
    if 0 < (n := int(unlimited.sum())) < len(jobs):
        found.append(
            f"{counted(n, 'job')} of {len(jobs):,} {'has' if n == 1 else 'have'} a requested_time of 0: no limit"
        )
    early = (jobs["submit_time"] < 0).to_numpy()
    if n := int(early.sum()):
        row = int(np.flatnonzero(early)[0])
        found.append(
            f"{counted(n, 'job')} {be(n)} submitted before second 0 of the clock, the first in row {row + 1} "
            f"({jobs['submit_time'].iloc[row]:,} s)"
        )
    long = (jobs["run_time"] > _YEAR).to_numpy()
    if n := int(long.sum()):
        row = int(np.flatnonzero(long)[0])
        found.append(
            f"{counted(n, 'job')} of {len(jobs):,} ran for more than a year, the first in row {row + 1} "
            f"({duration(int(jobs['run_time'].iloc[row]))}): is its run_time an end time, or in another unit?"
        )
    if len(jobs) and not as_logged(jobs)["mem_mb_per_node"].any():
        found.append(
            "no job asks for memory, so memory keeps no job waiting and nodes with little of it look as good as "
            "others; if the log has a column of memory, name it when importing"
        )
    return found
