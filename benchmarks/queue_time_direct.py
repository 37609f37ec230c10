"""Boosters for one point and for the chances of a start by deadlines known beforehand; see queue_time_published.py.

A whole distribution has to be good everywhere; where only its centre and a few deadlines are asked for, a
booster that learns just that is better at it, and faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.queue_time.booster import fit_booster, fit_members, mean_of, predict
from procure.queue_time.metrics import LEVELS, Forecast
from procure.queue_time.splits import Split

HALF = np.array([0.5])


@dataclass(frozen=True)
class Direct:
    """How the boosters of the point and of the chances are fitted.

    ``power`` is the exponent of the wait whose mean gives the point (0 = log10); ``moves`` says whether a
    chance that contradicts the point moves it across the deadline; ``members`` of successive seeds are
    averaged; ``boosting`` is XGBoost's.
    """

    power: float
    moves: bool
    rounds: int
    members: int
    boosting: dict[str, object]

    def forecast(
        self,
        features: pd.DataFrame,
        wait: np.ndarray,
        split: Split,
        deadlines: Sequence[float],
        quantiles: np.ndarray,
        seed: int,
    ) -> Forecast:
        """Learn from the training rows and answer for the test rows.

        Parameters
        ----------
        features, wait
            (n, m) and (n,) seconds, of all rows.
        split
            Which of them train and test.
        deadlines
            Seconds, ascending.
        quantiles
            (n_test, 5) at `metrics.LEVELS`, from a model of the distribution; moved where a chance
            contradicts them.
        seed
            Of the first member.
        """
        matrix = features.to_numpy(dtype=np.float32)
        train, test, waited = matrix[split.train], matrix[split.test], wait[split.train]

        def averaged(objective: str, target: np.ndarray) -> np.ndarray:
            settings = self.boosting | {"objective": objective}
            members = fit_members(
                lambda one: fit_booster(train, target, self.rounds, one, **settings), seed, self.members
            )
            return mean_of(members, lambda member: predict(member, test))

        if self.power:
            point = np.maximum(averaged("reg:squarederror", waited**self.power), 0) ** (1 / self.power)
        else:
            point = 10.0 ** averaged("reg:squarederror", np.log10(np.maximum(waited, 1)))
        stated = np.array([averaged("binary:logistic", (waited <= one).astype(float)) for one in deadlines])
        chances = dict(zip(deadlines, np.maximum.accumulate(stated), strict=True))
        if self.moves:
            point = agree(point[:, None], HALF, chances)[:, 0]
        quantiles = agree(quantiles, LEVELS, chances)
        return Forecast(point, quantiles, quantiles[:, [0, -1]], chances)


def agree(quantiles: np.ndarray, levels: np.ndarray, chances: dict[float, np.ndarray]) -> np.ndarray:
    """Move quantiles across deadlines until each lies on the side that the chance of a start by it says.

    Parameters
    ----------
    quantiles
        (n, q) seconds at ``levels`` (q,).
    chances
        (n,) by deadline in seconds, deadlines ascending and chances never falling with them.
    """
    for deadline, chance in chances.items():
        after = np.maximum(quantiles, np.nextafter(deadline, np.inf))
        quantiles = np.where(levels <= chance[:, None], np.minimum(quantiles, deadline), after)
    return quantiles
