"""Who waits: metrics per size class of job and per class of user, and the published resource usage."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

from procure.run import Run
from procure.schemas import as_logged
from procure.simulator.metrics import METRIC_NAMES, Groups, Usage, as_record, measure, measure_groups
from procure.workload.classes import class_of

SIZE_EDGES = (1, 4, 16, 64, 256)
"""Upper bounds, CPUs of all nodes, of the size classes; the last class is open."""


def size_class(jobs: pd.DataFrame) -> pd.Series:
    """Name each job's size class by the CPUs that it asks for on all nodes: ``1``, ``2-4``, …, ``>256``."""
    cpus = jobs["cpus_per_node"].clip(lower=1) * jobs["n_nodes"]
    names = [str(SIZE_EDGES[0])]
    names += [f"{low + 1}-{high}" for low, high in pairwise(SIZE_EDGES)]
    names.append(f">{SIZE_EDGES[-1]}")
    return pd.cut(cpus, [0, *SIZE_EDGES, np.inf], labels=names)


def user_class(jobs: pd.DataFrame) -> pd.Series:
    """Name each job's user class by what the user's jobs take: ``heavy``, ``medium`` or ``light``.

    Users stand in descending CPU-seconds; the users of the first half are heavy, those up
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


def widest_wait(schedule: pd.DataFrame) -> float:
    """Return the mean wait, s, of the jobs that ran with at least the 95th percentile of CPUs; NaN if none ran."""
    ran = schedule[schedule["start_time"].notna()]
    if ran.empty:
        return float("nan")
    cpus = ran["cpus_per_node"].clip(lower=1) * ran["n_nodes"]
    wide = ran[cpus >= cpus.quantile(0.95)]
    return float((wide["start_time"].astype("int64") - wide["submit_time"]).mean())


def metrics_by(run: Run, nodes: pd.DataFrame, classes: pd.Series) -> pd.DataFrame:
    """Return every metric of a run on nodes for each class of jobs; ``classes`` has one per job of the table.

    A row per class that has a job: ``class``, then `procure.tables.METRICS` over its jobs alone. A class keeps its
    share of all nodes busy over the makespan of the whole run, so that the classes' utilizations add up to the run's;
    ``max_queue_depth`` is the most of its jobs that waited at once.
    """
    order = np.argsort(run.schedule["submit_time"].to_numpy(), kind="stable")
    schedule, killed = run.schedule.iloc[order], run.killed[order]
    submit = schedule["submit_time"].to_numpy(np.int64)
    first = submit[0]
    start, end = ((schedule[name] - first).fillna(-1).to_numpy(np.int64) for name in ("start_time", "end_time"))
    submit = submit - first
    asked = as_logged(schedule)[["cpus_per_node", "mem_mb_per_node", "gpus_per_node"]].to_numpy(np.float64)
    usage = asked * schedule[["n_nodes"]].to_numpy(np.float64)
    capacity = tuple(float(nodes[name].astype(float).sum()) for name in ("cpus", "mem_mb", "gpus"))
    span = int(run.metrics["makespan"] or 0)
    class_name = classes.to_numpy()[order]
    groups = np.array([class_of(schedule), pd.factorize(schedule["user"])[0]], np.int64)
    rows = []
    for name in classes.cat.categories:
        among = class_name == name
        if among.any():
            ran = among & (start >= 0)
            depth = _depth(submit[ran], start[ran]) if ran.any() else 0
            out = np.empty(len(METRIC_NAMES))
            columns = (submit[among], start[among], end[among], killed[among])
            measure(*columns, Usage(*np.ascontiguousarray(usage[among].T)), capacity, span, depth, 0, out)
            measure_groups(submit[among], start[among], Groups(*groups[:, among]), 0, out)
            rows.append({"class": name} | as_record(out))
    return pd.DataFrame(rows, columns=["class", *METRIC_NAMES])


def _depth(submit: np.ndarray, start: np.ndarray) -> int:
    """Return how many wait at most, after what happens at a moment has happened."""
    moments, place = np.unique(np.concatenate([submit, start]), return_inverse=True)
    change = np.bincount(place[: len(submit)], minlength=len(moments))
    change = change - np.bincount(place[len(submit) :], minlength=len(moments))
    return int(np.cumsum(change).max())


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
