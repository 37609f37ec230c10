"""A log replayed as it is: what its beginning is not counted for, and what was running when it began."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.tables import with_clock_of
from procure.text import duration


def check_warm_up(jobs: pd.DataFrame, warm_up: int) -> None:
    """Refuse a warm-up, s, that is negative or leaves no job to be counted."""
    if warm_up < 0:
        raise ArgumentError("warm_up", f"{warm_up} s was given; it must be 0 or more")
    span = int(np.ptp(jobs["submit_time"])) if len(jobs) else 0
    if warm_up > span:
        raise ArgumentError(
            "warm_up",
            f"{duration(warm_up)} was given, and the last job is submitted {duration(span)} after the first; "
            "nothing would be left to count",
        )


def counted_jobs(jobs: pd.DataFrame, warm_up: int) -> pd.DataFrame:
    """Return the jobs that are submitted after the warm-up, s from the first submission; row order is kept."""
    submit = jobs["submit_time"]
    return jobs if not warm_up else jobs[submit >= submit.min() + warm_up].reset_index(drop=True)


def begin_as_logged(jobs: pd.DataFrame, moment: int) -> pd.DataFrame:
    """Return the workload from a moment, Unix s, on, beginning with what the log says was running or waiting then.

    Jobs that had ended are left out. A job that was running is submitted one second before, for what was left of its
    run time and of its limit; one that was waiting is submitted then, too, behind those: where it fits, it starts at
    once. A log without starts and ends, or nothing running or waiting, is a TableError.
    """
    known = {"start_time", "end_time"} <= set(jobs.columns)
    early = jobs["submit_time"].to_numpy() < moment
    if not known or jobs.loc[early, ["start_time", "end_time"]].isna().any(axis=None):
        raise TableError(
            "to begin with what was running, start_time and end_time of every job submitted before are needed"
        )
    start, end = (jobs[name].fillna(0).to_numpy(np.int64) for name in ("start_time", "end_time"))
    running, waiting = early & (start < moment) & (end > moment), early & (start >= moment)
    if not (running | waiting).any():
        raise TableError(f"nothing was running or waiting at {moment} s, so the system can only begin empty")
    first = jobs[running].copy()
    done = moment - 1 - start[running]
    first["run_time"] = np.maximum(first["run_time"] - done, 1)
    limit = first["requested_time"].to_numpy()
    first["requested_time"] = np.where(limit > 0, np.maximum(limit - done, 1), 0)
    found = pd.concat([first, jobs[waiting], jobs[~early]], ignore_index=True)
    found["submit_time"] = np.maximum(found["submit_time"], moment - 1)
    return with_clock_of(jobs, found)
