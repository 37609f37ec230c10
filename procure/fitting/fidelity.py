"""How far a replay is from its log: mean error, rank correlation, and the distance between the distributions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import rankdata, wasserstein_distance


class Fidelity(NamedTuple):
    """Of all jobs with both waits."""

    mean_error: float  # s, mean of the absolute differences
    distance: float  # Wasserstein distance of log(1 + wait)
    rank_correlation: float
    level: float = 1.0  # mean wait of the schedule over the log's

    @property
    def off(self) -> float:
        """How far the mean wait is from the log's: the logarithm of their ratio, without its sign."""
        return abs(float(np.log(max(self.level, 1e-9))))

    def ratios(self, other: Fidelity) -> tuple[float, float, float]:
        """Return how far this is beside another in each of the three, 1 = as far."""
        pairs = (
            (self.mean_error, other.mean_error),
            (self.distance, other.distance),
            (1 - self.rank_correlation, 1 - other.rank_correlation),
        )
        error, distance, order = ((own + 1e-9) / (beside + 1e-9) for own, beside in pairs)
        return error, distance, order

    def against(self, other: Fidelity) -> float:
        """Return how far this is beside another, 1 = as far: the mean of the three ratios."""
        return float(np.mean(self.ratios(other)))

    def no_worse(self, other: Fidelity) -> bool:
        """Say whether it is no further in any of the three."""
        return (
            self.mean_error <= other.mean_error
            and self.distance <= other.distance
            and self.rank_correlation >= other.rank_correlation
        )


def fidelity(jobs: pd.DataFrame, schedule: pd.DataFrame) -> Fidelity:
    """Compare the starts of a schedule with those of its log, row by row."""
    since = jobs["submit_time"].astype("Int64")
    if "eligible_time" in jobs:
        since = jobs["eligible_time"].astype("Int64").fillna(since)
    waits = []
    for start in (jobs["start_time"], schedule["start_time"]):
        wait = (start.astype("Int64") - since).astype("Float64").to_numpy(np.float64, na_value=np.nan)
        waits.append(np.maximum(wait, 0))
    both = ~np.isnan(waits[0]) & ~np.isnan(waits[1])
    logged, simulated = (wait[both] for wait in waits)
    if len(logged) < 2:
        return Fidelity(0.0, 0.0, 0.0)
    ranks = [rankdata(one) for one in (logged, simulated)]
    varied = all(one.std() > 0 for one in ranks)
    return Fidelity(
        float(np.abs(logged - simulated).mean()),
        float(wasserstein_distance(np.log1p(logged), np.log1p(simulated))),
        float(np.corrcoef(*ranks)[0, 1]) if varied else 0.0,
        float((simulated.mean() + 1) / (logged.mean() + 1)),
    )
