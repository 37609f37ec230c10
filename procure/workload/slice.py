"""Parts of a workload by submission, and several workloads as one."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from procure.errors import TableError
from procure.tables import clock_of, with_clock, with_clock_of
from procure.workload.clock import day_bounds, has_dates, utc_text


def slice_day(jobs: pd.DataFrame, day: str, tz: str = "UTC") -> pd.DataFrame:
    """Return the jobs submitted on one local day, midnight included, the next midnight not.

    Parameters
    ----------
    jobs
        A job table; row order is kept, and with it the queue's order.
    day
        ``YYYY-MM-DD``.
    tz
        Time zone, e.g. ``America/Chicago``; a day on which clocks change has 23 or 25 hours.

    Raises
    ------
    TableError
        The table's times are not Unix seconds, the day or zone is not one, or no job falls on it.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.read_log("jobs.parquet").jobs
    >>> day = procure.choose_days(jobs).table["day"].iloc[0]
    >>> len(procure.slice_day(jobs, day)) == len(jobs)
    True
    """
    refuse_log_clock(jobs)
    return _between(jobs, *day_bounds(day, tz), f"on {day} ({tz})")


def refuse_log_clock(jobs: pd.DataFrame) -> None:
    """Refuse a table whose times are not Unix seconds: it has no days."""
    if not has_dates(jobs):
        raise TableError(
            "a day needs Unix times, and this workload's times are seconds of its log's own clock "
            "(an SWF header without UnixStartTime): slice by seconds, --from and --to, instead"
        )


def slice_times(jobs: pd.DataFrame, start: int | None = None, end: int | None = None) -> pd.DataFrame:
    """Return the jobs submitted from ``start`` until before ``end``, in seconds of the table's clock."""
    low = int(jobs["submit_time"].min()) if start is None else start
    high = int(jobs["submit_time"].max()) + 1 if end is None else end
    if start is not None and end is not None and end <= start:
        raise TableError(f"the end, {end}, is not after the start, {start}")
    return _between(jobs, low, high, f"from {low} until {high} s")


def _between(jobs: pd.DataFrame, low: int, high: int, when: str) -> pd.DataFrame:
    submit = jobs["submit_time"]
    part = jobs.loc[(submit >= low) & (submit < high)].reset_index(drop=True)
    if part.empty:
        first, last = int(submit.min()), int(submit.max())
        span = f"{first} to {last} s" if clock_of(jobs) == "log" else f"{utc_text(first)} to {utc_text(last)}"
        raise TableError(f"no job was submitted {when}; the workload spans {span}")
    return with_clock_of(jobs, part)


def merge(workloads: Sequence[pd.DataFrame], *, drop_repeated: bool = False) -> pd.DataFrame:
    """Return several workloads as one, rows in the order given.

    Parameters
    ----------
    workloads
        Job tables on one clock.
    drop_repeated
        Leave out a job that an earlier table holds already (same ``job_id`` and ``submit_time``), as
        when the windows of two `sacct` calls overlap.

    Raises
    ------
    TableError
        No table, or tables on different clocks.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.generate(seed=1, n_jobs=10)
    >>> later = jobs.assign(submit_time=jobs["submit_time"] + 86_400)
    >>> len(procure.merge([jobs, later]))
    20
    """
    clocks = {clock_of(table) or "unix" for table in workloads}
    if not workloads:
        raise TableError("nothing to merge; at least one workload is needed")
    if len(clocks) > 1:
        raise TableError("some of these workloads have Unix times and others their log's own clock")
    merged = pd.concat([table.assign(_part=i) for i, table in enumerate(workloads)], ignore_index=True)
    if drop_repeated:
        # Repetitions inside one part are the log's own.
        first = merged.groupby(["job_id", "submit_time"], sort=False)["_part"].transform("min")
        merged = merged[merged["_part"] == first]
    return with_clock(merged.drop(columns="_part").reset_index(drop=True), clocks.pop())
