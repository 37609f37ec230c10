"""What is said to somebody who asks when a job would start: the forecast, why, and with what caution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from procure.queue_time.cautions import cautions, doubt_of
from procure.queue_time.predict import Request, Situation, forecast, situation
from procure.queue_time.store import SiteModel
from procure.queue_time.why import because, changed_median, neighbours


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
    here = situation(site, request, state, now)
    near = neighbours(here)
    careful = cautions(site, request, here, near, state is not None)
    said: dict[str, Any] = dict(forecast(site, here.features, deadline, doubt=doubt_of(careful)))
    said["because"] = because(site, here, near, said["median"], changed_median(site, state, here))
    said["caution"] = [one.text for one in careful]
    return said


def doubt_in(site: SiteModel, with_state: bool) -> Callable[[Request, Situation], float]:
    """Return a function that tells how much wider `answer` makes the forecast of a request in a queue."""
    return lambda asked, here: doubt_of(cautions(site, asked, here, neighbours(here), with_state))
