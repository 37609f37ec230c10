"""How far a replay is from its log: mean error, rank correlation, and the distance between the distributions."""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd

from procure.comparison.waits import compare_pairs, pair_waits


class Fidelity(NamedTuple):
    """Of all jobs with both waits."""

    mean_error: float  # s, mean of the absolute differences
    distance: float  # Wasserstein distance of log(1 + wait)
    rank_correlation: float
    level: float = 1.0  # mean wait of the schedule over the log's

    def ratios(self, other: Fidelity) -> tuple[float, float, float]:
        """Return how far this is beside another in each of the three, 1 = as far."""
        pairs = (
            (self.mean_error, other.mean_error),
            (self.distance, other.distance),
            (1 - self.rank_correlation, 1 - other.rank_correlation),
        )
        error, distance, order = ((own + 1e-9) / (beside + 1e-9) for own, beside in pairs)
        return error, distance, order


def fidelity(jobs: pd.DataFrame, schedule: pd.DataFrame) -> Fidelity:
    """Compare the starts of a schedule with those of its log, row by row; waits as `procure.comparison.waits`."""
    waits = pair_waits(jobs, schedule).dropna()
    if len(waits) < 2:
        return Fidelity(0.0, 0.0, 0.0)
    found = compare_pairs(waits)
    order = found["rank_correlation"]
    level = (found["simulated_mean"] + 1) / (found["logged_mean"] + 1)
    return Fidelity(found["mean_error"], found["distance"], 0.0 if math.isnan(order) else order, level)
