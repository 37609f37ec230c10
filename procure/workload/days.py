"""Choose days of a log for a purchase study: by hand, by calendar, by groups of similar days, the hardest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from procure.errors import TableError
from procure.tables import with_clock_of
from procure.text import nearest
from procure.workload.clock import YEAR_10000, zone
from procure.workload.slice import refuse_log_clock

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
