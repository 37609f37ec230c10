"""Is today like the time in which the model was trained?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.queue_time.features import picked
from procure.text import roughly

WATCHED = {
    "queue_depth": "jobs in the queue",
    "cpus_in_use": "CPUs in use",
    "queued_cpu_seconds": "CPU-hours in the queue",
    "submitted_24h": "submissions in 24 hours",
    "log_wait_mean_24h": "typical wait of the last 24 hours' starts",
}


SLACK = 0.25
"""A load is unlike those of the training from so far beyond their range, as a share of it."""


def _written(name: str, value: float) -> str:
    if name == "log_wait_mean_24h":
        return roughly(float(np.expm1(value)))
    return f"{value / 3600 if name == 'queued_cpu_seconds' else value:,.0f}"


def bounds(features: pd.DataFrame) -> dict[str, list[float]]:
    """Keep the 0.5th and 99.5th percentile of each watched load in the training window."""
    return {
        name: [float(v) for v in np.nanquantile(features[name].to_numpy(dtype=float), [0.005, 0.995])]
        for name in WATCHED
        if features[name].notna().any()
    }


def warnings(known: dict[str, list[float]], now: pd.DataFrame, window: tuple[int, int], moment: int) -> list[str]:
    """Return which loads of a moment lie outside the training window's, a sentence each.

    Parameters
    ----------
    known
        Of `bounds`.
    now
        Features of the job asked about; the last row counts.
    window
        First and last submission of the training rows, Unix seconds.
    moment
        Now, Unix seconds.
    """
    lines = []
    last = picked(now, tuple(known))[-1:].ravel().tolist()
    for (name, (low, high)), value in zip(known.items(), last, strict=False):
        slack = SLACK * (high - low)
        if value < low - slack or value > high + slack:
            given, least, most = (_written(name, one) for one in (value, low, high))
            lines.append(f"{WATCHED[name]} {given} now, {least} to {most} in training")
    old = (moment - window[1]) / 86400
    if old > 60:
        lines.append(
            f"the model's log ended {old:,.0f} days before this one does; `procure queue train --update MODEL --refit` "
            "trains again"
        )
    return lines
