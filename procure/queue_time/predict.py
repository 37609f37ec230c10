"""When will this job start? Predict from one request, a model, and the queue as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.queue_time.booster import mean_of
from procure.queue_time.calibrate import five
from procure.queue_time.drift import warnings
from procure.queue_time.features import site_features
from procure.queue_time.model import QueueTimeModel
from procure.queue_time.store import SiteModel
from procure.text import nearest


@dataclass(frozen=True)
class Request:
    """What a job asks for; memory in MB per node, time in seconds."""

    cpus: int
    requested_time: int
    mem_mb: int = 0
    gpus: int = 0
    nodes: int = 1
    partition: str = ""
    user: str = ""

    @classmethod
    def of(cls, job: Any) -> Request:
        """Return what a row of a job table asks for."""
        return cls(
            int(job.n_nodes * job.cpus_per_node), int(job.requested_time), int(job.mem_mb_per_node),
            int(job.n_nodes * job.gpus_per_node), int(job.n_nodes), str(job.partition), str(job.user),
        )  # fmt: skip


def check_request(site: SiteModel, request: Request) -> None:
    """Refuse a request that this site cannot run or does not know.

    Raises
    ------
    TableError
        A job larger than anything seen on the site, a negative amount, or an unknown partition.
    """
    for name, value, unit in (
        ("cpus", request.cpus, "CPUs"), ("mem", request.mem_mb * request.nodes, "MB"), ("gpus", request.gpus, "GPUs"),
    ):  # fmt: skip
        most = site.about["most"][name]
        if value < 0:
            raise TableError(f"{value} {unit} was asked for; an amount cannot be negative")
        if value > most and (name != "mem" or most > 0):
            raise TableError(f"the job asks for {value:,} {unit}; the most seen on this site is {most:,.0f}")
    if request.cpus < 1 or request.nodes < 1 or request.requested_time <= 0:
        raise TableError("a job needs at least 1 CPU, 1 node and a positive time")
    known = site.about["partitions"]
    if request.partition and request.partition not in known:
        raise TableError(f"unknown partition {request.partition!r}; {nearest(request.partition, known)}")


def moment_of(site: SiteModel, state: pd.DataFrame | None = None) -> int:
    """Return the Unix second just after what is known last: of the queue, else of the model's history."""
    if state is None or state.empty:
        return int(site.about["end"]) + 1
    known = (state["submit_time"], state["start_time"].dropna())
    return max(int(times.max()) for times in known if len(times)) + 1


def current_features(
    site: SiteModel, request: Request, state: pd.DataFrame | None = None, now: int | None = None
) -> pd.DataFrame:
    """Compute the features of a job that is submitted now; one row.

    Parameters
    ----------
    site
        The model, whose history stands for the recent past.
    request
        The job.
    state
        The queue now, from `state.read_state`; without it the end of the model's history is now.
    now
        Unix seconds; by default `moment_of`.
    """
    history = site.history
    now = moment_of(site, state) if now is None else now
    if state is not None:
        history = history[history["end_time"].notna() & ~history["job_id"].isin(state["job_id"])]
        history = pd.concat([history, state], ignore_index=True)
    history = history[history["submit_time"] <= now]
    usual = next(iter(site.history["partition"].value_counts().index), "")
    job = {
        "job_id": "?", "user": request.user, "partition": request.partition or str(usual),
        "submit_time": now, "requested_time": request.requested_time, "run_time": 0, "n_nodes": request.nodes,
        "cpus_per_node": -(-request.cpus // request.nodes), "mem_mb_per_node": request.mem_mb,
        "gpus_per_node": -(-request.gpus // request.nodes),
    }  # fmt: skip
    table = pd.concat([history, pd.DataFrame([job])], ignore_index=True)
    return site_features(
        table, site.about["most"], site.about.get("replay", False), asked=np.array([len(table) - 1])
    )


def forecast(
    site: SiteModel, features: pd.DataFrame, deadline: float | None = None
) -> dict[str, float | None]:
    """Predict when a job starts: seconds from now.

    Returns
    -------
    dict
        ``median, lower_50, upper_50, lower_90, upper_90, p_before_deadline``; a point method knows only the
        first.
    """
    names = ("lower_90", "lower_50", "median", "upper_50", "upper_90")
    if not isinstance(site.model, QueueTimeModel):
        point = max(float(site.model.predict(features)[0]), 0.0)
        empty: dict[str, float | None] = dict.fromkeys(("lower_50", "upper_50", "lower_90", "upper_90"))
        return {"median": point} | empty | {"p_before_deadline": None}
    curve = site.model.curve(features)
    nothing = np.zeros(0)
    reach = site.model.calibrator.reach(nothing, nothing.astype(bool))
    values = dict(zip(names, five(curve, reach)[0].tolist(), strict=True))
    chance = None if deadline is None else float(site.model.calibrator.chance(curve, deadline)[0])
    order = ("median", "lower_50", "upper_50", "lower_90", "upper_90")
    return {name: values[name] for name in order} | {"p_before_deadline": chance}


def drivers(site: SiteModel, features: pd.DataFrame, n: int = 5) -> list[dict[str, Any]]:
    """Return the features that move this forecast most, and whether they lengthen the wait."""
    if not isinstance(site.model, QueueTimeModel) or not site.model.members:
        return []
    median = forecast(site, features)["median"] or 0.0
    row = np.column_stack([site.model.matrix(features), [[np.log1p(median)]]]).astype(np.float32)
    moved = mean_of(site.model.members, lambda member: member.chance.contributions(row)[0][:-1])
    top = np.argsort(-np.abs(moved), kind="stable")[:n]
    return [
        {
            "feature": site.model.names[i], "value": float(row[0, i]),
            "effect": "lengthens" if moved[i] < 0 else "shortens",
        }
        for i in top
    ]  # fmt: skip


def what_if(
    site: SiteModel, request: Request, state: pd.DataFrame | None = None, deadline: float | None = None
) -> pd.DataFrame:
    """Rank the same work in other sizes, times and partitions by its expected start.

    Sizes keep CPUs × time; the soonest median is first.
    """
    choices = [request]
    for factor in (0.25, 0.5, 2, 4):
        cpus = max(1, round(request.cpus * factor))
        time = max(60, round(request.requested_time * request.cpus / cpus))
        choices.append(replace(request, cpus=cpus, nodes=min(request.nodes, cpus), requested_time=time))
    choices += [replace(request, requested_time=max(60, request.requested_time // d)) for d in (2, 4)]
    counts = site.history["partition"].value_counts()
    choices += [
        replace(request, partition=str(name))
        for name in counts.index[:6]
        if name and name != request.partition
    ]
    rows = []
    for choice in dict.fromkeys(choices):
        try:
            check_request(site, choice)
        except TableError:
            continue
        expected = forecast(site, current_features(site, choice, state), deadline)
        asked = {"cpus": choice.cpus, "requested_time": choice.requested_time, "partition": choice.partition}
        rows.append(asked | expected | {"as_asked": choice == request})
    return pd.DataFrame(rows).sort_values(["median", "upper_90"], kind="stable", ignore_index=True)


def drift(site: SiteModel, features: pd.DataFrame, now: int) -> list[str]:
    """Warn where the load now lies outside the training window's."""
    return warnings(site.about["bounds"], features, (site.about["first"], site.about["last"]), now)


def pending_waits(
    site: SiteModel, state: pd.DataFrame, user: str, now: int | None = None, most: int = 30
) -> pd.DataFrame:
    """Predict when a user's pending jobs start: the first ``most`` of them.

    Returns
    -------
    pandas.DataFrame
        ``job_id cpus requested_time partition`` and what `forecast` returns, s; a row per job.
    """
    mine = state[(state["user"] == user) & state["start_time"].isna()]
    rows = []
    for job in mine.head(most).itertuples():
        request = Request.of(job)
        others = state[state["job_id"] != job.job_id]
        row = {
            "job_id": str(job.job_id), "cpus": request.cpus, "requested_time": request.requested_time,
            "partition": request.partition,
        }  # fmt: skip
        rows.append(row | forecast(site, current_features(site, request, others, now)))
    return pd.DataFrame(rows)
