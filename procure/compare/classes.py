"""Who waits: metrics per size class of job and per class of user, and the published resource usage."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

SIZE_EDGES = (1, 4, 16, 64, 256)
"""Upper bounds, CPUs of all nodes, of the size classes; the last class is open."""
SLOWDOWN_FLOOR = 10
"""Seconds, as in the metrics of a run."""


def size_class(jobs: pd.DataFrame) -> pd.Series:
    """Name each job's size class by the CPUs that it asks for on all nodes: ``1``, ``2-4``, …, ``>256``."""
    cpus = (jobs["cpus_per_node"].clip(lower=1) * jobs["n_nodes"]).to_numpy(np.int64)
    names = [str(SIZE_EDGES[0])]
    names += [f"{low + 1}-{high}" for low, high in pairwise(SIZE_EDGES)]
    names.append(f">{SIZE_EDGES[-1]}")
    place = np.searchsorted(SIZE_EDGES, cpus, side="left")
    return pd.Series(pd.Categorical.from_codes(place, names, ordered=True), index=jobs.index)


def user_class(jobs: pd.DataFrame) -> pd.Series:
    """Name each job's user class by what the user's jobs take: ``heavy``, ``medium`` or ``light``.

    Users stand in descending CPU-seconds; those who together take the first half are heavy, those up
    to 90 % medium, the others light. Jobs without a user are one user.
    """
    work = jobs["run_time"] * jobs["cpus_per_node"].clip(lower=1) * jobs["n_nodes"]
    per_user = work.groupby(jobs["user"]).sum().sort_values(ascending=False, kind="stable")
    before = (per_user.cumsum() - per_user) / max(float(per_user.sum()), 1.0)
    names = ["heavy", "medium", "light"]
    of_user = pd.Series(np.searchsorted([0.5, 0.9], before, side="right"), index=per_user.index)
    return pd.Series(
        pd.Categorical.from_codes(jobs["user"].map(of_user).to_numpy(np.int64), names, ordered=True),
        index=jobs.index,
    )


def waits_by(schedule: pd.DataFrame, classes: pd.Series) -> pd.DataFrame:
    """Return jobs, mean and median wait (s) and mean bounded slowdown of each class that ran."""
    ran = schedule["start_time"].notna().to_numpy()
    part = schedule.loc[ran]
    wait = (part["start_time"] - part["submit_time"]).astype(np.int64)
    run = (part["end_time"] - part["start_time"]).astype(np.int64)
    slowdown = ((wait + run) / run.clip(lower=SLOWDOWN_FLOOR)).clip(lower=1.0)
    frame = pd.DataFrame(
        {"class": classes.to_numpy()[ran], "wait": wait.to_numpy(), "slow": slowdown.to_numpy()}
    )
    grouped = frame.groupby("class", observed=True)
    return grouped.agg(
        n_jobs=("wait", "size"),
        mean_wait_time=("wait", "mean"),
        median_wait_time=("wait", "median"),
        mean_bounded_slowdown=("slow", "mean"),
    ).reset_index()


def resource_usage(schedule: pd.DataFrame, total_cpus: int) -> float:
    """Return Σ active / Σ min(available, requested) CPUs over time: idle CPUs that nobody wants don't count.

    The usage of the published ranking, as a share; requested are those of queued and running jobs.
    """
    part = schedule.loc[schedule["start_time"].notna()]
    cpus = (part["cpus_per_node"] * part["n_nodes"]).to_numpy(np.int64)
    submit, start, end = (part[name].to_numpy(np.int64) for name in ("submit_time", "start_time", "end_time"))
    moments = np.concatenate([submit, start, end])
    wanted = np.concatenate([cpus, np.zeros_like(cpus), -cpus])
    active = np.concatenate([np.zeros_like(cpus), cpus, -cpus])
    order = np.argsort(moments, kind="stable")
    length = np.diff(moments[order])
    busy = float((np.cumsum(active[order])[:-1] * length).sum())
    possible = float((np.minimum(np.cumsum(wanted[order])[:-1], total_cpus) * length).sum())
    return busy / possible if possible > 0 else float("nan")
