"""What a workload is like: statistics, classes of jobs, and what is allowed in a job table and yet seldom meant."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from procure.schemas import REQUEST, as_logged
from procure.tables import clock_of
from procure.text import counted, duration, short

MEMORY_MB_PER_CPU = 8_000


def class_of(jobs: pd.DataFrame) -> np.ndarray:
    """Return the class of each job, a place in `procure.schemas.CLASSES`, int64[n_jobs].

    The first that holds: with a GPU; more than 8 GB per CPU; several nodes; others.
    """
    jobs = as_logged(jobs)
    per_cpu = jobs["mem_mb_per_node"] / np.maximum(jobs["cpus_per_node"], 1)
    rules = [jobs["gpus_per_node"] > 0, per_cpu > MEMORY_MB_PER_CPU, jobs["n_nodes"] > 1]
    return np.select([rule.to_numpy() for rule in rules], [0, 1, 2], 3)


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

    ``n_jobs n_users n_shapes`` (different requests), ``single_node_share``, ``gpu_job_share``, ``zero_run_share``,
    ``same_second_share`` (jobs submitted in the same second as another), ``first_submit last_submit`` (seconds),
    ``span`` (s), ``offered_cpu_hours offered_gpu_hours`` (amount × run time), ``clock``.
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


_YEAR = 365 * 86_400
_LATE, _LATEST = 60, 2**33
_MOST = {"cpus_per_node": (2_048, "CPUs"), "gpus_per_node": (16, "GPUs"), "mem_mb_per_node": (32_000_000, "MB")}
"""No common server has more."""


def oddities(jobs: pd.DataFrame) -> list[str]:
    """Say in a sentence each what looks wrong in a checked job table: repeated ids, limits of 0, years of run time."""
    found, logged, submit = list[str](), as_logged(jobs), jobs["submit_time"]

    def say(
        rows: pd.Series, one: str, many: str, what: str, of_all: str = f" of {len(jobs):,}", noun: str = "job"
    ) -> None:
        if n := int(rows.sum()):
            row = int(np.argmax(rows.to_numpy()))
            ran = duration(int(jobs["run_time"].iloc[row]))
            what = what.format(row=row + 1, id=short(jobs["job_id"].iloc[row]), at=f"{submit.iloc[row]:,}", ran=ran)
            found.append(f"{counted(n, noun)}{of_all} {one if n == 1 else many} {what}")

    again = "the job_id of an earlier row, the first is row {row} ({id}); each counts as a job of its own"
    say(jobs["job_id"].duplicated(), "repeats", "repeat", again, "", "row")
    unlimited = jobs["requested_time"] == 0
    say(unlimited & (not unlimited.all()), "has", "have", "a requested_time of 0: no limit")
    say(logged["cpus_per_node"] == 0, "asks", "ask", "for no CPU, first in row {row}")
    for name, (most, what) in _MOST.items():
        on_one = jobs[name].where(jobs["n_tasks"] == 0, 0) if "n_tasks" in jobs else jobs[name]
        whole = f"are these of the whole job (--column {name}=COLUMN::job, --set asks=tasks) or in another unit?"
        more = f"for more than {most:,} {what} on one node (up to {on_one.max():,}): {whole}"
        say(on_one > most, "asks", "ask", more)
    say(submit < 0, "is", "are", "submitted before second 0 of the clock, the first in row {row} ({at} s)", "")
    late = "submitted after the year 2240, the first in row {row} ({at}): are times in milliseconds?"
    say(submit > _LATEST, "is", "are", late)
    long = "for more than a year, the first in row {row} ({ran}): is its run_time an end time, or in another unit?"
    say(jobs["run_time"] > _YEAR, "ran", "ran", long)
    found += waiting_for_others(jobs)
    if len(jobs) and not logged["mem_mb_per_node"].any():
        found.append(
            "no job asks for memory, so memory keeps no job waiting and nodes with little of it look as good as "
            "others; if the log has a column of memory, name it when importing"
        )
    return found


def waiting_for_others(jobs: pd.DataFrame, held: bool = False) -> list[str]:
    """Say how many jobs wait for other jobs, or could start late and nothing tells why; ``held``: under slurm."""
    nothing = pd.Series(False, index=jobs.index)
    waiting = jobs["dependency"].fillna("").ne("") if "dependency" in jobs else nothing
    waiting = waiting | (jobs["array_limit"].fillna(0).gt(0) if "array_limit" in jobs else nothing)
    since = jobs["eligible_time"].fillna(jobs["submit_time"]) if "eligible_time" in jobs else jobs["submit_time"]
    late, found, of_all = (since - jobs["submit_time"]).gt(_LATE) & ~waiting, [], f"of {len(jobs):,}"
    if (n := int(waiting.sum())) and not held:
        found.append(
            f"{counted(n, 'job')} {of_all} {'waits' if n == 1 else 'wait'} for others (dependency, or % of an array): "
            "policy slurm simulates it, every other lets them start as soon as they are submitted"
        )
    if n := int(late.sum()):
        found.append(
            f"{counted(n, 'job')} {of_all} could start only more than a minute after submission (eligible_time), and "
            "nothing tells why: policy slurm holds them until then on any hardware, every other does not hold them"
        )
    return found
