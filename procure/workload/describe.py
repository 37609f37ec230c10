"""What a workload is like: the statistics that studies print, and what else an administrator asks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from procure.schemas import REQUEST, as_logged
from procure.tables import clock_of


def describe(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return mean, standard deviation, minimum and maximum of what jobs ask for and take.

    Parameters
    ----------
    jobs
        A job table.

    Returns
    -------
    pandas.DataFrame
        One row per quantity, amounts of the whole job, in the layout of the procurement study's
        Table 3.3: ``quantity unit mean std min max``. The standard deviation has n − 1 in the
        denominator; it is NaN for one job. A requested time of 0 (no limit) counts as 0.

    Examples
    --------
    >>> import procure
    >>> print(type(procure.describe(procure.generate(seed=1, n_jobs=100))).__name__)
    DataFrame
    """
    jobs = as_logged(jobs)
    nodes = jobs["n_nodes"]
    quantities = {
        ("requested_mem", "GB"): jobs["mem_mb_per_node"] * nodes / 1000,
        ("requested_cpus", "CPUs"): jobs["cpus_per_node"] * nodes,
        ("requested_gpus", "GPUs"): jobs["gpus_per_node"] * nodes,
        ("requested_time", "h"): jobs["requested_time"] / 3600,
        ("run_time", "h"): jobs["run_time"] / 3600,
        ("nodes", "nodes"): nodes,
    }
    return pd.DataFrame(
        {"quantity": name, "unit": unit} | {how: float(values.agg(how)) for how in ("mean", "std", "min", "max")}
        for (name, unit), values in quantities.items()
    )


def overview(jobs: pd.DataFrame) -> dict[str, object]:
    """Return a workload's counts and totals.

    Returns
    -------
    dict
        ``n_jobs n_users n_shapes`` (different requests), ``single_node_share``, ``gpu_job_share``,
        ``zero_run_share``, ``same_second_share`` (jobs submitted in the same second as another),
        ``first_submit last_submit`` (seconds), ``span`` (s), ``offered_cpu_hours
        offered_gpu_hours`` (amount × run time), ``clock``.
    """
    jobs = as_logged(jobs)
    first, last = int(jobs["submit_time"].min()), int(jobs["submit_time"].max())
    hours = jobs["run_time"].to_numpy(dtype=np.float64) * jobs["n_nodes"].to_numpy() / 3600
    users = jobs["user"] if "user" in jobs.columns else pd.Series(dtype=object)
    return {
        "n_jobs": len(jobs),
        "n_users": int(users[users != ""].nunique()),
        "n_shapes": len(jobs[REQUEST].drop_duplicates()),
        "single_node_share": float((jobs["n_nodes"] == 1).mean()),
        "gpu_job_share": float((jobs["gpus_per_node"] > 0).mean()),
        "zero_run_share": float((jobs["run_time"] == 0).mean()),
        "same_second_share": float(jobs["submit_time"].duplicated(keep=False).mean()),
        "first_submit": first,
        "last_submit": last,
        "span": last - first,
        "offered_cpu_hours": float((hours * jobs["cpus_per_node"].to_numpy()).sum()),
        "offered_gpu_hours": float((hours * jobs["gpus_per_node"].to_numpy()).sum()),
        "clock": clock_of(jobs) or "unix",
    }


def multi_node_notes(workloads: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say which share of the jobs asks for several nodes, whose number stays whatever a node holds."""
    notes = []
    for name, jobs in workloads.items():
        several = (jobs["n_nodes"] > 1) & (jobs["n_tasks"] == 0 if "n_tasks" in jobs else True)
        if several.any():
            work = (jobs["n_nodes"] * jobs["cpus_per_node"] * jobs["run_time"]).astype("float64")
            share, most = work[several].sum() / max(work.sum(), 1), jobs["n_nodes"][several].max()
            notes.append(
                f"workload {name}: {several.mean():.1%} of the jobs, with {share:.0%} of the CPU-hours, ask for "
                f"several nodes (up to {most:,}); they take as many nodes whatever a node holds"
            )
    return notes
