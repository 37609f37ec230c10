"""What is said to somebody who asks when a job would start: the forecast, why, and on how little it rests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.queue_time.distribution import Distribution
from procure.queue_time.features import picked
from procure.queue_time.log import Log
from procure.queue_time.predict import (
    Request,
    Situation,
    can_run,
    check_request,
    knows_partitions,
    partition_of,
    situation,
    usual_partition,
    widened,
)
from procure.queue_time.store import GROWN, SiteModel, drifts, load
from procure.queue_time.view import WEEK_MEDIAN
from procure.text import be, counted, roughly

DAY = 86_400
FEW = 20
"""Fewer starts of like jobs, or in a partition, are few."""
SEEN = ("partition_depth", "user_depth", "partition_drain_n_7d", WEEK_MEDIAN, "user_log_wait_5")
"""The features of which `because` speaks."""


class Caution(NamedTuple):
    """A reason to believe a forecast less."""

    text: str
    doubt: float  # how much wider it makes the distribution, see `predict.widened`


def cautions(site: SiteModel, asked: Request, here: Situation, place: int, state: pd.DataFrame | None) -> list[Caution]:
    """Return what the model does not know of one of the jobs submitted now; ``asked`` is what its user gave."""
    about, log, ask, placed = site.about, here.log, here.ask, here.requests[place]
    begun = log.start < ask.submit[place]
    shape, user, partition = (
        getattr(log, name) == getattr(ask, name)[place] for name in ("shape", "user", "partition")
    )
    n_like, n_user, n_there = int((begun & shape).sum()), int(user.sum()), int((begun & partition).sum())
    known = "No job like this one is" if n_like == 0 else f"Only {counted(n_like, 'job')} like this one {be(n_like)}"
    more, unlike = site.grown, drifts(about["bounds"], here.features.iloc[[place]])
    there = set() if state is None else set(state["partition"])
    strange = bool(there) and not there & set(about["partitions"])
    one_queue = not knows_partitions(site)
    rows = [
        (n_like < FEW, 0.3, f"{known} known ({asked_for(placed)}); the interval is wider."),
        (asked.user and n_user == 0, 0.1, f"No job of {asked.user} is known to the model."),
        (
            not asked.partition and len(about["partitions"]) > 1, 0.0,
            f"Partition {placed.partition} is assumed, the most used one; --partition names yours.",
        ),
        (
            asked.partition and n_there < FEW, 0.3,
            f"Partition {asked.partition} is new to the model: {counted(n_there, 'start')} known there.",
        ),
        (
            asked.mem_mb and not about["most"]["mem"], 0.0,
            "The model's log says nothing of memory: --mem changes nothing.",
        ),
        (
            strange and one_queue, 0.0,
            "The model's log names no partitions: the jobs of all of them count as ahead of yours or as running.",
        ),
        (
            strange and not one_queue, 0.3,
            "The model knows no partition of the state of the queue: one of them may be another cluster's.",
        ),
        (
            more >= GROWN, 0.1,
            f"{more:.0%} more waits are known than the boosters have learnt from; train anew on the whole log "
            "with `procure queue train LOG --out MODEL`.",
        ),
        (unlike, 0.2, f"The load is not what the model was trained on: {'; '.join(unlike)}."),
    ]  # fmt: skip
    found = [Caution(text, doubt) for holds, doubt, text in rows if holds]
    return found if state is None else [*found, *age_of(site, here.now)]


def age_of(site: SiteModel, now: int) -> list[Caution]:
    """Return a caution where the state of the queue and the end of the model's log lie more than a day apart."""
    behind = now - int(site.about["end"])
    if behind < -60:
        return [Caution(f"The state of the queue is {roughly(-behind)} older than the end of the model's log.", 0.2)]
    if behind > DAY:
        text = f"The model's log ends {roughly(behind)} before now, so that recent waits are not known; continue it"
        return [Caution(f"{text} with `procure queue train --update MODEL`.", 0.2)]
    return []


def doubt_of(found: list[Caution]) -> float:
    """Return how much wider these cautions make a distribution together."""
    return min(sum(one.doubt for one in found), 0.6)


def asked_for(request: Request) -> str:
    """Say what a job asks for: ``16 CPUs, 8 h``; GPUs too where it asks for some."""
    gpus = f", {counted(request.gpus, 'GPU')}" if request.gpus else ""
    limit = roughly(request.requested_time) if request.requested_time else "no limit"
    return f"{counted(request.cpus, 'CPU')}{gpus}, {limit}"


def because(site: SiteModel, here: Situation) -> list[list[str]]:
    """Say in sentences what stands behind each forecast: who is ahead, how long jobs there and one's own waited."""
    found = []
    for (ahead, own, lasts, week, mine), request in zip(
        picked(here.features, SEEN).tolist(), here.requests, strict=True
    ):
        where = f"in {request.partition}" if request.partition else "in the queue"
        yours = f", {'all' if own >= ahead else f'{own:,.0f}'} of your own" if request.user and own and ahead else ""
        pace = f"; the last week's pace clears that within {roughly(lasts)}" if 60 <= lasts < 7 * DAY else ""
        first = f"{counted(int(ahead), 'job')} {be(int(ahead))} ahead of you {where}{yours}{pace}."
        usual = np.log1p(site.model.usual[len(site.model.usual) // 2]) if np.isnan(week) else week
        said = [
            first if ahead else f"Nobody is ahead of you {where}.",
            f"This week's jobs there {_waited(usual)}.",
            *([f"Your last jobs to start {_waited(mine)}."] if request.user and not np.isnan(mine) else []),
        ]
        found.append(said)
    return found


def _waited(log_wait: float) -> str:
    """Say a typical wait, ln(1 + s)."""
    about = roughly(float(np.expm1(log_wait)))
    return "mostly started at once" if about == "at once" else f"typically waited {about}"


def predict_queue(
    model: SiteModel | str | Path,
    request: Request,
    queue: pd.DataFrame | None = None,
    *,
    now: int | None = None,
    deadline: float | None = None,
) -> dict[str, Any]:
    """Predict when a job that is submitted now starts, say why, and what the model does not know.

    Parameters
    ----------
    model
        Of `procure.train_queue`, or its file.
    request
        The job.
    queue
        The queue as it is, of `procure.read_queue`; without it the end of the model's log is now.
    now
        Unix seconds; by default the moment after the last that the queue or the log tells of.
    deadline
        Seconds from now; None asks for no probability.

    Returns
    -------
    dict
        ``median``, ``lower_50``, ``upper_50``, ``lower_90``, ``upper_90``, seconds from now; ``p_before_deadline``; and
        lists of sentences: ``because``, what stands behind it, and ``caution``.

    Raises
    ------
    TableError
        No such model file; a job larger than any seen on this site, or an unknown partition.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.generate(seed=1, n_jobs=400)
    >>> ran = procure.simulate(jobs, procure.fat_tree(1, 1, 4, cpus=64, mem_mb=512_000), "fcfs").schedule
    >>> model = procure.train_queue(ran)
    >>> found = procure.predict_queue(model, procure.QueueRequest(cpus=4, requested_time=3600))
    >>> found["median"] >= 0
    True
    """
    site = model if isinstance(model, SiteModel) else load(Path(model))
    check_request(site, request, queue)
    here, [careful], said = forecasts(site, [request], queue, now)
    [why] = because(site, here)
    when = {name: None if values is None else float(values[0]) for name, values in said.summary(deadline).items()}
    return when | {"because": why, "caution": [one.text for one in careful]}


def forecasts(
    site: SiteModel,
    requests: Sequence[Request],
    state: pd.DataFrame | None = None,
    now: int | None = None,
    log: Log | None = None,
) -> tuple[Situation, list[list[Caution]], Distribution]:
    """Forecast jobs that are submitted now, each without the others, see `predict.situation`.

    Beside them stand what the model does not know of each, and the distributions, as much wider as that asks.
    """
    here = situation(site, requests, state, now, log)
    careful = [cautions(site, asked, here, place, state) for place, asked in enumerate(requests)]
    doubts = np.array([doubt_of(one) for one in careful])
    return here, careful, widened(site.model.distribution(here.features), doubts)


def what_if(
    site: SiteModel,
    request: Request,
    state: pd.DataFrame | None = None,
    deadline: float | None = None,
    now: int | None = None,
) -> pd.DataFrame:
    """Rank the same work in other sizes, times and partitions by its expected start.

    Sizes keep CPUs × time; the soonest median is first. No way has a longer limit than any job of the partition asked
    for in the history that the model keeps, unless the job as asked has.
    """
    choices = [request]
    for factor in (0.25, 0.5, 2, 4):
        cpus = max(1, round(request.cpus * factor))
        time = max(60, round(request.requested_time * request.cpus / cpus)) if request.requested_time else 0
        choices.append(replace(request, cpus=cpus, nodes=min(request.nodes, cpus), requested_time=time))
    if request.requested_time:
        choices += [replace(request, requested_time=max(60, request.requested_time // d)) for d in (2, 4)]
    choices += [
        replace(request, partition=name)
        for name in site.partitions[:6]
        if name and name != (request.partition or usual_partition(site))
    ]
    longest = site.history.groupby("partition")["requested_time"].max()
    choices = [
        one
        for one in dict.fromkeys(choices)
        if one == request
        or (can_run(site, one, state) and one.requested_time <= longest.get(partition_of(site, one.partition), 0))
    ]
    _, _, said = forecasts(site, choices, state, now)
    asked = {name: [getattr(one, name) for one in choices] for name in ("cpus", "requested_time", "partition")}
    rows = pd.DataFrame(asked).assign(**said.summary(deadline), as_asked=[one == request for one in choices])
    return rows.sort_values(["median", "upper_90"], kind="stable", ignore_index=True)
