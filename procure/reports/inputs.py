"""What a purchase report was made from: files, programs, digests, and the jobs of each workload."""

from __future__ import annotations

import re
from datetime import date, datetime
from importlib.metadata import version
from zoneinfo import ZoneInfo

import pandas as pd

from procure._version import __version__
from procure.files import installed_xgboost
from procure.reports import charts
from procure.schemas import as_logged
from procure.study import Plan
from procure.tables import as_csv
from procure.text import duration
from procure.workload.clock import has_dates
from procure.workload.replay import counted_jobs

PROGRAMS = ("numpy", "pandas", "numba", "scikit-learn")
_MOST_NODES = 200


def files(plan: Plan) -> dict[str, str]:
    """Return the tables that the study reads, as CSV: its quotes, and the existing nodes where they are few."""
    found = {"The quotes": as_csv(plan.quotes) or ""}
    if plan.existing is not None and 0 < len(plan.existing) <= _MOST_NODES:
        found["The existing nodes"] = as_csv(plan.existing) or ""
    return found


def programs() -> dict[str, str]:
    """Return the versions of the programs on which figures depend."""
    return {"procure": __version__, "xgboost": installed_xgboost()} | {name: version(name) for name in PROGRAMS}


def digests(plan: Plan) -> dict[str, str]:
    """Return the digests of what results depend on, the warm-up as people read it."""
    warm_up = re.compile(r"(?<= after )(\d+) s$")
    return {
        name: warm_up.sub(lambda found: duration(int(found[1])), str(value)) for name, value in plan.fingerprint.items()
    }


def period(plan: Plan, names: list[str], zones: dict[str, str | None]) -> str:
    """Say from which day to which the jobs that count were submitted; empty where a log has no dates."""
    ends: list[date] = []
    for name in names:
        jobs = counted_jobs(plan.workloads[name], plan.warm_up(name))
        if not has_dates(jobs):
            return ""
        submit, zone = jobs["submit_time"], ZoneInfo(zones[name] or "UTC")
        ends += [datetime.fromtimestamp(int(one), zone).date() for one in (submit.min(), submit.max())]
    return " to ".join(dict.fromkeys(f"{one:%Y-%m-%d}" for one in (min(ends), max(ends)))) if ends else ""


def workload(name: str, jobs: pd.DataFrame, tz: str | None) -> dict[str, object]:
    """Return what is shown of the jobs of one workload: their numbers, figures, and when they came."""
    jobs = as_logged(jobs)
    columns = {
        "memory per node, GB": jobs["mem_mb_per_node"] / 1000,
        "CPUs per node": jobs["cpus_per_node"],
        "GPUs per node": jobs["gpus_per_node"],
        "requested time": jobs["requested_time"],
        "run time": jobs["run_time"],
    }
    figures = [
        {"what": what, "unit": "s" if "time" in what else "", "mean": v.mean(), "std": v.std(ddof=1), "low": v.min(),
         "high": v.max()}
        for what, v in columns.items()
    ]  # fmt: skip
    log_clock = not has_dates(jobs)
    return {
        "name": name,
        "log_clock": log_clock,
        "n_jobs": len(jobs),
        "n_gpu_jobs": int((jobs["gpus_per_node"] > 0).sum()),
        "chart": charts.jobs_over_time(jobs, name, tz, log_clock),
        "figures": figures,
    }
