"""How long the memory of a log is: the Hurst exponent by rescaled ranges."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.errors import TableError

_FEWEST = 8
"""Values in the shortest window, and windows' worth of values in a series."""


def hurst(values: np.ndarray) -> float:
    """Return the R/S Hurst exponent: 0.5 without memory, towards 1 with a long one.

    For window lengths that double from 8 to half of the series: the range of the summed deviations from the
    window's mean, divided by its standard deviation, averaged over the windows that do not overlap; the
    exponent is the slope of its logarithm on that of the length (Mandelbrot and Wallis, 1969). Windows in
    which nothing varies are left out.

    Raises
    ------
    TableError
        Fewer than 64 values.
    """
    values = np.asarray(values, np.float64)
    if len(values) < _FEWEST**2:
        raise TableError(f"a Hurst exponent needs {_FEWEST**2} values; {len(values)} were given")
    lengths, ratios = [], []
    length = _FEWEST
    while length <= len(values) // 2:
        windows = values[: len(values) // length * length].reshape(-1, length)
        walk = np.cumsum(windows - windows.mean(axis=1, keepdims=True), axis=1)
        spread = windows.std(axis=1)
        varies = spread > 0
        if varies.any():
            lengths.append(length)
            ratios.append(np.mean(np.ptp(walk, axis=1)[varies] / spread[varies]))
        length *= 2
    return float(np.polyfit(np.log(lengths), np.log(ratios), 1)[0])


def series_of(jobs: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the series of a log whose memory can be measured, by name.

    ``job_*`` have a value per job in order of submission, ``hour_*`` a value per hour.
    """
    jobs = jobs.sort_values("submit_time", kind="stable")
    cpus = (jobs["cpus_per_node"].clip(lower=1) * jobs["n_nodes"]).to_numpy(np.float64)
    run, submit = jobs["run_time"].to_numpy(np.float64), jobs["submit_time"].to_numpy(np.int64)
    hour = (submit - submit.min()) // 3600
    return {
        "job_cpu_seconds": cpus * run,
        "job_cpus": cpus,
        "job_run_time": run,
        "job_gap": np.diff(submit).astype(np.float64),
        "hour_jobs": np.bincount(hour).astype(np.float64),
        "hour_cpu_seconds": np.bincount(hour, cpus * run),
    }
