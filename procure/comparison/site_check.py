"""How far the jobs of a log start from where the rules of their site would start them, class by class."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import wasserstein_distance

from procure.comparison.classes import size_class
from procure.errors import TableError
from procure.run import Run
from procure.schemas import CLASSES
from procure.text import duration, listed
from procure.workload.classes import class_of

WITHIN = 600
"""s; a simulated wait counts as right within ten minutes of the logged one."""
NEAR, NEAR_S = 0.25, 600.0
"""A level may be read as a forecast where mean, median and 90th percentile are each off by at most this share of the
logged one, or by so many seconds."""


def site_check(jobs: pd.DataFrame, run: Run, policy: str = "slurm") -> pd.DataFrame:
    """Compare simulated with logged waits by class, size, partition, QOS, and of all jobs.

    Parameters
    ----------
    jobs
        The job table with the logged ``start_time``. A wait begins at ``eligible_time`` where that is known.
    run
        Its simulation on the site's nodes.
    policy
        What to call the policy.

    Returns
    -------
    pandas.DataFrame
        One row per class: ``policy class n_jobs logged_mean simulated_mean logged_median simulated_median
        logged_p90 simulated_p90 mean_error rank_correlation share_within distance verdict``; waits in s,
        ``mean_error`` of absolute differences, ``distance`` the Wasserstein distance of log(1 + wait).

    Raises
    ------
    TableError
        The log holds no start times, or no job that started there starts in the simulation.
    """
    frame = pair_waits(jobs, run.schedule)
    if frame.dropna().empty:
        raise TableError(f"policy {policy}: no job of the log starts under these rules, so that nothing is compared")
    frame["kind"] = np.array([f"class {name}" for name in CLASSES])[class_of(jobs)]
    frame["size"] = size_class(jobs).astype(str) + " CPUs"
    for name in ("partition", "qos"):
        if name in jobs and len(jobs[name].unique()) > 1:
            frame[name] = name + " " + jobs[name].replace("", "(none)")
    frame = frame.dropna(subset=["logged", "simulated"])
    parts = [("all", frame)]
    for name in frame.columns.drop(["logged", "simulated"]):
        parts += [(str(value), part) for value, part in frame.groupby(name, observed=True)]
    found = pd.DataFrame([{"policy": policy, "class": name} | compare_pairs(part) for name, part in parts])
    return found.assign(verdict=np.where(is_near(found), "forecast", "no forecast"))


def is_near(found: pd.DataFrame) -> pd.Series:
    """Say of each row of `compare_pairs` whether its simulated waits may be read as a forecast, see `NEAR`."""
    near = pd.Series(True, index=found.index)
    for name in ("mean", "median", "p90"):
        logged = found[f"logged_{name}"]
        near &= (found[f"simulated_{name}"] - logged).abs() <= np.maximum(NEAR * logged, NEAR_S)
    return near


def verdict(found: pd.DataFrame) -> str:
    """Say in a sentence for which classes of jobs the waits of one policy's `site_check` may be read as a forecast."""
    near, policy = is_near(found), found["policy"].iloc[0]
    far = found.loc[~near, "class"].tolist()
    if near.iloc[0]:
        but = f", but for {listed(far)}" if far else ""
        return f"{policy}: these waits may be read as a forecast{but}"
    of = found.iloc[0]
    return (
        f"{policy}: these waits are no forecast, as all jobs waited {duration(of['logged_mean'])} on average and wait "
        f"{duration(of['simulated_mean'])} here; `procure site why` says what held them, and what the log does not tell"
    )


def pair_waits(jobs: pd.DataFrame, schedule: pd.DataFrame) -> pd.DataFrame:
    """Return ``logged`` and ``simulated`` waits of each job, s, NaN where it has none.

    A wait begins at ``eligible_time`` where that is known.

    Raises
    ------
    TableError
        The log holds no start times.
    """
    if "start_time" not in jobs or jobs["start_time"].notna().sum() == 0:
        raise TableError("the jobs have no start_time: their logged waits are not known, so there is nothing to check")
    since = jobs["submit_time"].astype("Int64")
    if "eligible_time" in jobs:
        since = jobs["eligible_time"].astype("Int64").fillna(since)
    times = {"logged": jobs["start_time"], "simulated": schedule["start_time"]}
    return pd.DataFrame(
        {
            name: (each.astype("Int64") - since).astype("Float64").to_numpy(np.float64, na_value=np.nan)
            for name, each in times.items()
        }
    ).clip(lower=0)


def compare_pairs(part: pd.DataFrame) -> dict[str, float]:
    """Return how far simulated waits are from logged ones, the figures of `site_check`; of jobs that have both."""
    logged, simulated = part["logged"], part["simulated"]
    varied = logged.std() > 0 and simulated.std() > 0
    return {
        "n_jobs": len(part),
        "logged_mean": logged.mean(),
        "simulated_mean": simulated.mean(),
        "logged_median": logged.median(),
        "simulated_median": simulated.median(),
        "logged_p90": logged.quantile(0.9),
        "simulated_p90": simulated.quantile(0.9),
        "mean_error": (logged - simulated).abs().mean(),
        "rank_correlation": logged.corr(simulated, method="spearman") if varied else np.nan,
        "share_within": ((logged - simulated).abs() <= WITHIN).mean(),
        "distance": float(wasserstein_distance(np.log1p(logged), np.log1p(simulated))) if len(part) else np.nan,
    }
