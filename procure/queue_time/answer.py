"""What is said to somebody who asks when a job would start: the forecast, why, and with what caution."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from procure.queue_time.explain import because, cautions, doubt_of, like_counts
from procure.queue_time.predict import Request, Situation, check_request, read_off, situations, stated
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
        ``median``, ``lower_50``, ``upper_50``, ``lower_90``, ``upper_90``, seconds from now, the ends None where the
        method predicts a number only; ``p_before_deadline``; and lists of sentences: ``because``, what moved the
        prediction, and ``caution``.

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
    >>> found["median"] >= 0
    True
    """
    site = model if isinstance(model, SiteModel) else load(Path(model))
    check_request(site, request, queue)
    [here], features = situations(site, [request], queue, now)
    careful = cautions(site, request, here, like_counts(here), queue)
    said = read_off(stated(site, features), 0, deadline, doubt_of(careful))
    return said | {"because": because(site, here), "caution": [one.text for one in careful]}


def doubt_in(site: SiteModel, state: pd.DataFrame | None) -> Callable[[Request, Situation], float]:
    """Return a function that tells how much wider `predict_queue` makes the forecast of a request in a queue."""
    return lambda asked, here: doubt_of(cautions(site, asked, here, like_counts(here), state))
