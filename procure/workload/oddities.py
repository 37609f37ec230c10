"""What is allowed in a job table and yet seldom meant: counted, so that it is not accepted in silence."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.text import be, counted, short


def oddities(jobs: pd.DataFrame) -> list[str]:
    """Say in a sentence each what looks wrong in a checked job table: ids that repeat, limits of 0, negative times."""
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
    return found
