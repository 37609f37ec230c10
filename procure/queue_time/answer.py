"""What is said to somebody who asks when a job would start: the forecast, why, and with what caution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from procure.queue_time.cautions import cautions, doubt_of
from procure.queue_time.distribution import Distribution
from procure.queue_time.predict import (
    Request,
    Situation,
    can_run,
    check_request,
    no_sooner,
    read_off,
    situations,
    stated,
)
from procure.queue_time.store import SiteModel, load
from procure.queue_time.why import because, neighbours, smaller_requests
from procure.text import Shown, duration, roughly


@dataclass(frozen=True)
class Prediction(Shown):
    """When a job would start.

    Attributes
    ----------
    request
        What was asked.
    median, lower_50, upper_50, lower_90, upper_90
        Seconds from now; the ends of intervals are None where the method predicts a number only.
    p_before_deadline
        Probability of a start before the deadline; None where none was given.
    because, caution
        Sentences: what moved the prediction, and what the model does not know.
    """

    request: Request
    median: float
    lower_50: float | None
    upper_50: float | None
    lower_90: float | None
    upper_90: float | None
    p_before_deadline: float | None
    because: tuple[str, ...]
    caution: tuple[str, ...]

    @property
    def title(self) -> str:
        """The median, as people say it."""
        return "starts at once" if self.median < 2.5 else f"starts in about {roughly(self.median)}"

    @property
    def table(self) -> pd.DataFrame:
        """One row: median and intervals, s, and the probability of a start before the deadline."""
        names = ("median", "lower_50", "upper_50", "lower_90", "upper_90", "p_before_deadline")
        return pd.DataFrame([{name: getattr(self, name) for name in names}])

    @property
    def notes(self) -> list[str]:
        """The sentences."""
        return [*self.because, *(f"Careful: {one}" for one in self.caution)]

    def shown(self) -> pd.DataFrame:
        """Return the table for people, lengths of time with their units."""
        return self.table.drop(columns="p_before_deadline").map(duration)


def predict_queue(
    model: SiteModel | str | Path,
    request: Request,
    queue: pd.DataFrame | None = None,
    *,
    now: int | None = None,
    deadline: float | None = None,
) -> Prediction:
    """Predict when a job that is submitted now starts, and say why.

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

    Raises
    ------
    TableError
        No such model file; a job larger than any seen on this site, or an unknown partition.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.generate(seed=1, n_jobs=400)
    >>> ran = procure.simulate(jobs, procure.fat_tree(1, 1, 4, cpus=64, mem_mb=512_000), "fcfs").schedule
    >>> model = procure.train_queue(ran, method="gbt")
    >>> found = procure.predict_queue(model, procure.QueueRequest(cpus=4, requested_time=3600))
    >>> found.median >= 0
    True
    """
    site = model if isinstance(model, SiteModel) else load(Path(model))
    check_request(site, request, queue)
    values = answer(site, request, queue, now, deadline)
    because, caution = tuple(values.pop("because")), tuple(values.pop("caution"))
    return Prediction(request, **values, because=because, caution=caution)


def answer(
    site: SiteModel,
    request: Request,
    state: pd.DataFrame | None = None,
    now: int | None = None,
    deadline: float | None = None,
) -> dict[str, Any]:
    """Predict when a job that is submitted now starts, say why, and what the model does not know.

    Parameters
    ----------
    site
        The model.
    request
        The job, of `predict.check_request`.
    state
        The queue as it is, of `state.read_state`; without it the end of the model's log is now.
    now
        Unix seconds; by default `predict.moment_of`.
    deadline
        Seconds from now.

    Returns
    -------
    dict
        What `predict.forecast` returns, then ``because`` and ``caution``, lists of sentences.
    """
    others = [(text, other) for text, other in smaller_requests(request) if can_run(site, other, state)]
    [here, *_], features = situations(site, [request, *(other for _, other in others)], state, now)
    near = neighbours(here)
    careful = cautions(site, request, here, near, state)
    found = stated(site, features)
    least, *later = no_sooner(site, state, [request, *(other for _, other in others)], here.now)
    said: dict[str, Any] = dict(read_off(found, 0, deadline, doubt_of(careful), least))
    smaller = {
        text: float(read_off(found, place, least=one)["median"] or 0.0)
        for place, ((text, _), one) in enumerate(zip(others, later, strict=True), 1)
    }
    said["because"] = because(site, here, near, said["median"], smaller)
    if state is None and isinstance(found, Distribution):
        late = roughly(max(float(found.quantile(0.9)[0]), said["median"]))
        if late != roughly(said["median"]):
            usual = "at once" if said["median"] < 2.5 else f"in {roughly(said['median'])}"
            said["because"].insert(0, f"Usually such a job starts {usual}, but 1 in 10 may take {late} or longer.")
    said["caution"] = [one.text for one in careful]
    return said


def doubt_in(site: SiteModel, state: pd.DataFrame | None) -> Callable[[Request, Situation], float]:
    """Return a function that tells how much wider `answer` makes the forecast of a request in a queue."""
    return lambda asked, here: doubt_of(cautions(site, asked, here, neighbours(here), state))
