"""Which jobs will come? One call from a job table to the jobs expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from procure.errors import ArgumentError
from procure.forecast.forecaster import Forecaster
from procure.forecast.periods import PatternSettings
from procure.progress import silent
from procure.text import Shown, counted
from procure.workload.clock import utc_text

_OF_BURST = ["n_nodes", "cpus_per_node", "requested_time", "run_time", "every", "confidence"]


@dataclass(frozen=True)
class ExpectedJobs(Shown):
    """The jobs that a log's patterns let expect.

    Attributes
    ----------
    table
        A job table, see `procure.forecast.forecaster.Forecaster.predict`: a row per job, with ``confidence``.
    notes
        What the user should know of the log.
    """

    table: pd.DataFrame
    notes: list[str]

    @property
    def title(self) -> str:
        """How many jobs."""
        return counted(len(self.table), "expected job")

    def to_dict(self) -> list[dict[str, Any]]:
        """Return a record per job."""
        return self.table.to_dict(orient="records")

    def shown(self) -> pd.DataFrame:
        """Return a row per burst: when, whose, how many jobs, of what size, how surely."""
        bursts = self.table.groupby("burst", sort=False)
        shown = bursts.first().assign(n_jobs=bursts.size()).reset_index()
        shown["expected"] = shown["submit_time"].map(utc_text)
        return shown[["expected", "submit_spread", "user", "n_jobs", *_OF_BURST]]


def forecast_jobs(
    jobs: pd.DataFrame,
    days: float = 7.0,
    *,
    at: int | None = None,
    confidence: str = "boosted",
    least: float = 0.05,
    settings: PatternSettings | None = None,
    note: Callable[[str], None] = silent,
) -> ExpectedJobs:
    """Forecast which jobs will come, and how surely, from what recurs by day, week and month.

    Parameters
    ----------
    jobs
        A checked job table; only what was known at the moment is used.
    days
        Horizon.
    at
        Unix seconds; the last submission without.
    confidence
        One of `procure.forecast.confidence.MODES`.
    least
        Confidence below which a burst is left out.
    settings
        What counts as a pattern.
    note
        Called with how far the forecast is.

    Raises
    ------
    ArgumentError
        The horizon is not above 0, or an unknown mode.
    TableError
        Fewer than two days lie before the moment.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.generate(seed=1, n_jobs=300)
    >>> week = [jobs.assign(submit_time=jobs["submit_time"] + 86_400 * day) for day in range(7)]
    >>> procure.forecast_jobs(procure.merge(week), days=1, confidence="hazard").table["confidence"].between(0, 1).all()
    np.True_
    """
    if not 0 < days < float("inf"):
        raise ArgumentError("days", f"{days:g} was given; the horizon must be above 0 days")
    fitted = Forecaster(confidence, settings).fit(jobs, at, note)
    return ExpectedJobs(fitted.predict(days, least), list(fitted.notes))
