"""How far a simulation of the log's own system is from what the log says."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.comparison.classes import size_class
from procure.comparison.site_check import pair_waits
from procure.run import Run


def replay(jobs: pd.DataFrame, run: Run) -> pd.DataFrame:
    """Compare simulated with logged waits, per size class and for all jobs.

    Parameters
    ----------
    jobs
        The job table, with the logged ``start_time``; ``eligible_time`` is used where it is known.
    run
        Its simulation, on nodes like those of the log.

    Returns
    -------
    pandas.DataFrame
        Per class: jobs with both waits, mean and median of both (s), the mean absolute error (s), the
        share of jobs whose simulated wait is within 10 minutes of the logged one, and the rank
        correlation of the two.

    Raises
    ------
    TableError
        The log holds no start times.
    """
    waits = pair_waits(jobs, run.schedule)
    frame = waits.assign(**{"class": np.asarray(size_class(jobs))}).dropna()
    parts = [(str(name), part) for name, part in frame.groupby("class", observed=True)]
    return pd.DataFrame([_fidelity(name, part) for name, part in [*parts, ("all", frame)]])


def _fidelity(name: str, part: pd.DataFrame) -> dict[str, object]:
    error = (part["simulated"] - part["logged"]).abs()
    varied = part["logged"].std() > 0 and part["simulated"].std() > 0
    return {
        "cpus": name,
        "n_jobs": len(part),
        "logged_mean": part["logged"].mean(),
        "simulated_mean": part["simulated"].mean(),
        "logged_median": part["logged"].median(),
        "simulated_median": part["simulated"].median(),
        "mean_absolute_error": error.mean(),
        "within_10_min": (error <= 600).mean(),
        "rank_correlation": part["logged"].corr(part["simulated"], method="spearman") if varied else np.nan,
    }
