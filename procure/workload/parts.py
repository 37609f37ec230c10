"""Parts of a workload: slices, days, days chosen for a study, a log from a moment on; several workloads as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from procure.errors import ArgumentError, TableError
from procure.tables import clock_of, with_clock, with_clock_of
from procure.text import duration, nearest
from procure.workload.clock import YEAR_10000, day_bounds, has_dates, utc_text, zone


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


Rule = Literal["calendar", "clustering", "hardest"]
"""How days are chosen: evenly, one of each group of like days, or those with the longest waits."""

QUIET = 60.0
"""Seconds; a day whose median mean wait over the probed packages is below this says nothing about packages."""

FEATURES = ("n_jobs", "cpu_hours", "mem_gb_hours", "gpu_hours", "mean_cpus", "mean_mem_gb", "busiest_hour_share")
"""What days are grouped by, each as log(1 + x), standardised."""


def local_days(jobs: pd.DataFrame, tz: str) -> np.ndarray:
    """Return the local day of submission of each job, ``YYYY-MM-DD``; times must be Unix seconds."""
    refuse_log_clock(jobs)
    first, last = jobs["submit_time"].min(), jobs["submit_time"].max()
    if first < 0 or last >= YEAR_10000 - 2 * 86_400:
        raise TableError(
            f"jobs were submitted from {first:,} to {last:,} s, which are not days from 1970 to 9999; Unix seconds?"
        )
    seconds, row = np.unique(jobs["submit_time"].to_numpy(), return_inverse=True)
    local = pd.to_datetime(seconds, unit="s", utc=True).tz_convert(zone(tz))
    return local.strftime("%Y-%m-%d").to_numpy(dtype=object)[row]


def split_days(jobs: pd.DataFrame, tz: str) -> dict[str, pd.DataFrame]:
    """Cut a log into its local days, ascending; row order is kept, days without jobs do not appear."""
    parts = jobs.groupby(local_days(jobs, tz), sort=True)
    return {str(day): with_clock_of(jobs, part.reset_index(drop=True)) for day, part in parts}


def day_table(days: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Describe days, job tables from `split_days`, by what their jobs ask for and take.

    ``day weekday n_jobs n_users`` (0 where the log names none), ``cpu_hours mem_gb_hours gpu_hours`` (amount × run
    time of the jobs submitted that day), ``gpu_jobs``, ``mean_cpus mean_mem_gb`` (of the whole job), and
    ``busiest_hour_share`` (of the CPU-hours, in the hour that submits most).
    """
    return pd.DataFrame([_figures(day, jobs) for day, jobs in days.items()])


def _figures(day: str, jobs: pd.DataFrame) -> dict[str, object]:
    nodes, hours = (jobs[name].to_numpy(dtype="float64") for name in ("n_nodes", "run_time"))
    hours = hours / 3600
    cpus, mem, gpus = (
        jobs[name].to_numpy(dtype="float64") * nodes for name in ("cpus_per_node", "mem_mb_per_node", "gpus_per_node")
    )
    submit, users = jobs["submit_time"].to_numpy(), jobs["user"]
    by_hour = np.bincount((submit - submit.min()) // 3600, weights=cpus * hours)
    cpu_hours = float(by_hour.sum())
    return {
        "day": day,
        "weekday": pd.Timestamp(day).day_name()[:3],
        "n_jobs": len(jobs),
        "n_users": int(users[users != ""].nunique()),
        "cpu_hours": cpu_hours,
        "mem_gb_hours": float((mem * hours).sum()) / 1000,
        "gpu_jobs": int((gpus > 0).sum()),
        "gpu_hours": float((gpus * hours).sum()),
        "mean_cpus": float(cpus.mean()),
        "mean_mem_gb": float(mem.mean()) / 1000,
        "busiest_hour_share": float(by_hour.max()) / cpu_hours if cpu_hours else 0.0,
    }


def choose(
    table: pd.DataFrame,
    by: str | None = None,
    named: Sequence[str] = (),
    n: int = 25,
    per_month: int | None = None,
    seed: int = 1,
) -> pd.DataFrame:
    """Choose days of a `day_table` by a rule; without one, the days ``named``, YYYY-MM-DD. Returns ``day weight``.

    ``calendar`` takes them evenly: of m days, n at places ⌊(i + ½) m / n⌋, or ``per_month`` in each month.
    ``clustering`` makes k-means groups of days alike in `FEATURES` (first centres by ``seed``) and takes of each the
    day nearest its centre, whose weight is the days of its group. ``hardest`` takes those with the largest
    ``median_wait``, equal ones by the earlier day. All others weigh 1. No day, or none of a name, is a TableError.
    """
    if (by or named) and table.empty:
        raise TableError("jobs wait on none of these days, so there is no day to choose")
    days = table["day"].to_numpy(dtype=object) if len(table) else np.empty(0, object)
    weight: object = 1
    if by == "calendar":
        months = pd.Series(days).str.slice(0, 7).to_numpy() if per_month is not None else np.zeros(len(days))
        found = [day for month in np.unique(months) for day in _evenly(days[months == month], per_month or n)]
    elif by == "clustering":
        found, weight = _by_group(table, n, seed)
    elif by == "hardest":
        found = table.sort_values("median_wait", ascending=False, kind="stable")["day"].tolist()[:n]
    else:
        found = sorted(set(named))
        for day in named:
            if day not in days:
                raise TableError(f"no job was submitted on {day!r}; {nearest(day, days)}")
    return pd.DataFrame({"day": found, "weight": weight}).sort_values("day", ignore_index=True)


def _by_group(table: pd.DataFrame, n: int, seed: int) -> tuple[list[str], np.ndarray]:
    from sklearn.cluster import KMeans  # takes seconds to import, and every command imports this package

    values = np.log1p(table[list(FEATURES)].to_numpy(dtype="float64"))
    spread = values.std(axis=0)
    values = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    n = min(n, len(np.unique(values, axis=0)))
    with threadpool_limits(1):
        groups = KMeans(n, n_init=10, random_state=seed).fit(values)
    away = ((values - groups.cluster_centers_[groups.labels_]) ** 2).sum(axis=1)
    found = table[["day"]].assign(group=groups.labels_, away=away).sort_values(["group", "away", "day"])
    first = found.drop_duplicates("group")
    return first["day"].tolist(), found.groupby("group").size().reindex(first["group"]).to_numpy()


def without_quiet(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the days on which jobs wait, and the names of those below `QUIET`.

    A table without the column ``median_wait`` (s) was not probed: nothing is known to be quiet.
    """
    if "median_wait" not in table:
        return table, []
    waits = table["median_wait"].to_numpy(dtype="float64") >= QUIET
    return table[waits].reset_index(drop=True), table["day"][~waits].tolist()


def _evenly(days: np.ndarray, n: int) -> list[str]:
    n = min(n, len(days))
    return [str(days[(2 * i + 1) * len(days) // (2 * n)]) for i in range(n)]


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
