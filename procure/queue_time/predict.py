"""When will this job start? One request, a model, and the queue as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.queue_time.booster import contributions, mean_of
from procure.queue_time.calibrate import five
from procure.queue_time.drift import bounds, warnings
from procure.queue_time.evaluation import queue_jobs
from procure.queue_time.features import site_features
from procure.queue_time.log import wait_times
from procure.queue_time.model import QueueTimeModel, Settings
from procure.queue_time.published import Published
from procure.queue_time.store import HISTORY, SiteModel
from procure.queue_time.trend import fit_trend
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


def train(
    jobs: pd.DataFrame,
    method: str = "procure",
    k: int = 57,
    settings: Settings | None = None,
    replay: bool = False,
) -> SiteModel:
    """Train a model file's content on a log.

    Parameters
    ----------
    jobs
        A checked job table with start times.
    method
        ``procure``, ``kmeans-gbt`` or ``gbt``.
    k
        Groups of ``kmeans-gbt``.
    settings
        Of our model; the last 15 % of the rows first judge its intervals by default.
    replay
        Add the replay's answer to the features; every later question is replayed, too.
    """
    jobs = queue_jobs(jobs)
    features, wait = site_features(jobs, replay=replay), wait_times(jobs)
    rows = np.flatnonzero(~np.isnan(wait))
    if len(rows) < 100:
        raise TableError(f"{len(rows)} jobs with a start are too few to learn from; at least 100 are needed")
    submit = jobs["submit_time"].to_numpy()
    model: QueueTimeModel | Published
    if method == "procure":
        model = QueueTimeModel(settings or Settings(holdout=0.15))
        model.fit(features.iloc[rows], wait[rows], submit[rows])
    else:
        model = Published(k if method == "kmeans-gbt" else 0).fit(features.iloc[rows], wait[rows])
    about = _about(jobs, features, len(rows), method) | {"replay": replay}
    return SiteModel(
        method, model, about, jobs.tail(HISTORY).reset_index(drop=True), fit_trend(jobs, features)
    )


def _about(jobs: pd.DataFrame, features: pd.DataFrame, n_rows: int, method: str) -> dict[str, Any]:
    cpus = jobs["n_nodes"] * jobs["cpus_per_node"]
    most = {
        name: float(max(features[f"{name}_in_use"].max(), own.max()))
        for name, own in (
            ("cpus", cpus), ("mem", jobs["n_nodes"] * jobs["mem_mb_per_node"]),
            ("gpus", jobs["n_nodes"] * jobs["gpus_per_node"]),
        )
    }  # fmt: skip
    starts = jobs["start_time"].dropna()
    return {
        "method": method, "n_rows": n_rows, "first": int(jobs["submit_time"].min()),
        "last": int(jobs["submit_time"].max()), "end": int(max(jobs["submit_time"].max(), starts.max())),
        "partitions": sorted(set(jobs["partition"].astype(str))), "most": most, "bounds": bounds(features),
    }  # fmt: skip


def update(site: SiteModel, jobs: pd.DataFrame, refit: bool = False) -> tuple[SiteModel, list[str], int]:
    """Continue a model from a newer log.

    The jobs after the training window join the history, from which the next features are made; our model's
    intervals are judged anew on them; with ``refit`` the boosters are trained again on the whole log given.

    Returns
    -------
    tuple
        The new model, drift warnings against the old training window, and how many jobs were new.
    """
    jobs = queue_jobs(jobs)
    new = (jobs["submit_time"] > site.about["last"]).to_numpy()
    if not new.any():
        raise TableError(
            "the log holds no job submitted after the model's training window; nothing to continue with"
        )
    if refit:
        both = (
            pd.concat([site.history, jobs[new]], ignore_index=True)
            if jobs["submit_time"].min() > site.about["last"]
            else jobs
        )
        return train(both, site.method, replay=site.about.get("replay", False)), [], int(new.sum())
    joined = pd.concat([site.history, jobs[new]], ignore_index=True).sort_values("submit_time", kind="stable")
    joined = joined.reset_index(drop=True)
    features = site_features(joined, site.about["most"], site.about.get("replay", False))
    fresh = np.flatnonzero(
        (joined["submit_time"] > site.about["last"]).to_numpy() & ~np.isnan(wait_times(joined))
    )
    window = (site.about["first"], site.about["last"])
    said = warnings(site.about["bounds"], features, window, int(joined["submit_time"].iloc[-1]))
    if isinstance(site.model, QueueTimeModel) and len(fresh) >= 50:
        site.model.calibrator.fit(wait_times(joined)[fresh], site.model.curve(features.iloc[fresh]))
    about = _about(joined, features, site.about["n_rows"] + len(fresh), site.method)
    about |= {name: site.about[name] for name in ("first", "bounds", "replay") if name in site.about}
    about["most"] = {name: max(value, site.about["most"][name]) for name, value in about["most"].items()}
    about["partitions"] = sorted({*about["partitions"], *site.about["partitions"]})
    trend = fit_trend(joined, features) or site.trend
    return SiteModel(site.method, site.model, about, joined.tail(HISTORY), trend), said, int(new.sum())


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
        The queue now, of `state.read_state`; without it the end of the model's history is now.
    now
        Unix seconds; the newest moment of the state or the history by default.
    """
    history = site.history
    if state is not None:
        history = history[history["end_time"].notna()]
        if now is None:
            moments = [state["submit_time"], state["start_time"].dropna()]
            now = (
                int(
                    max([*(int(m.max()) for m in moments if len(m)), site.about["end"] if state.empty else 0])
                )
                + 1
            )
        history = pd.concat([history[~history["job_id"].isin(state["job_id"])], state], ignore_index=True)
    now = site.about["end"] + 1 if now is None else now
    history = history[history["submit_time"] <= now]
    job = {
        "job_id": "?", "user": request.user, "partition": request.partition or _usual_partition(site),
        "submit_time": now, "requested_time": request.requested_time, "run_time": 0, "n_nodes": request.nodes,
        "cpus_per_node": -(-request.cpus // request.nodes), "mem_mb_per_node": request.mem_mb,
        "gpus_per_node": -(-request.gpus // request.nodes),
    }  # fmt: skip
    table = pd.concat([history, pd.DataFrame([job])], ignore_index=True)
    return site_features(
        table, site.about["most"], site.about.get("replay", False), asked=np.array([len(table) - 1])
    )


def _usual_partition(site: SiteModel) -> str:
    counts = site.history["partition"].value_counts()
    return str(counts.index[0]) if len(counts) else ""


def forecast(
    site: SiteModel, features: pd.DataFrame, deadline: float | None = None
) -> dict[str, float | None]:
    """Say when a job starts: seconds from now.

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
    said = dict(zip(names, five(curve, reach)[0].tolist(), strict=True))
    chance = None if deadline is None else float(site.model.calibrator.chance(curve, deadline)[0])
    order = ("median", "lower_50", "upper_50", "lower_90", "upper_90")
    return {name: said[name] for name in order} | {"p_before_deadline": chance}


def drivers(site: SiteModel, features: pd.DataFrame, n: int = 5) -> list[dict[str, Any]]:
    """Say what moves this forecast most: features with their values, and whether they lengthen the wait."""
    if not isinstance(site.model, QueueTimeModel) or not site.model.members:
        return []
    median = forecast(site, features)["median"] or 0.0
    row = np.column_stack([site.model.matrix(features), [[np.log1p(median)]]]).astype(np.float32)
    moved = mean_of(site.model.members, lambda member: contributions(member.chance, row)[0][:-1])
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
        said = forecast(site, current_features(site, choice, state), deadline)
        asked = {"cpus": choice.cpus, "requested_time": choice.requested_time, "partition": choice.partition}
        rows.append(asked | said | {"as_asked": choice == request})
    return pd.DataFrame(rows).sort_values(["median", "upper_90"], kind="stable", ignore_index=True)


def drift(site: SiteModel, features: pd.DataFrame, now: int) -> list[str]:
    """Warn where the load now lies outside the training window's."""
    return warnings(site.about["bounds"], features, (site.about["first"], site.about["last"]), now)
