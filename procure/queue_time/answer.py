"""What is said to somebody who asks when a job would start: the forecast, why, and with what caution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.queue_time.distribution import Distribution
from procure.queue_time.explain import Caution, because, cautions, doubt_of
from procure.queue_time.log import Log
from procure.queue_time.predict import (
    Request,
    Situation,
    can_run,
    check_request,
    partition_of,
    situation,
    usual_partition,
    widened,
)
from procure.queue_time.store import SiteModel, load


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
