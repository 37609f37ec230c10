"""The published pipeline: groups of jobs by k-means, one gradient-boosted regressor per group.

Hutchison, dissertation, chapter 2: CPUs and memory in use scaled to 0…100, k-means over the features, a
regressor for each group with more than 100 rows, the regressor of all rows for the others. Its
five-fold cross-validation searched an empty grid, so that it never changed a model; it is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from procure.queue_time.booster import Booster, fit_published
from procure.queue_time.features import PUBLISHED, picked

LARGE_GROUP = 100
"""A group has a regressor of its own if it has more training rows than this."""


class Published:
    """The published model of ``k`` groups; with ``k`` = 0 its base model alone. The seed is of k-means."""

    def __init__(self, k: int = 57, seed: int = 1) -> None:
        """Keep the settings; `fit` does the work."""
        self.k, self.seed = k, seed
        self.low = self.high = np.zeros(2)
        self.centres = np.zeros((0, len(PUBLISHED)))
        self.base: Any = None
        self.boosters: dict[int, Booster] = {}

    def fit(self, features: pd.DataFrame, wait: np.ndarray) -> Published:
        """Fit on rows of features, of which `PUBLISHED` are used, and their waits in seconds."""
        in_use = features[PUBLISHED[:2]].to_numpy(dtype=float)
        self.low, self.high = in_use.min(axis=0), in_use.max(axis=0)
        matrix = self._scaled(features)
        self.base = fit_published(matrix, wait)
        self.boosters = {}
        if self.k:
            k = min(self.k, len(np.unique(matrix, axis=0)))
            from sklearn.cluster import KMeans
            from threadpoolctl import threadpool_limits

            with threadpool_limits(1):  # threads add up in the order in which they end, and groups follow from it
                groups = KMeans(k, n_init=1, random_state=self.seed).fit(matrix)
            self.centres = groups.cluster_centers_
            for value in range(len(self.centres)):
                member = groups.labels_ == value
                if member.sum() > LARGE_GROUP:
                    self.boosters[value] = fit_published(matrix[member], wait[member])
        return self

    def _scaled(self, features: pd.DataFrame) -> np.ndarray:
        matrix = picked(features, PUBLISHED).astype(float)
        span = np.where(self.high > self.low, self.high - self.low, 1.0)
        matrix[:, :2] = 100 * (matrix[:, :2] - self.low) / span
        return matrix

    def predict(self, features: pd.DataFrame) -> np.ndarray:
        """Predict waits in seconds; as published, a prediction may be negative."""
        matrix = self._scaled(features)
        if not self.boosters:
            return self.base.predict_in_doubles(matrix)
        distance = (self.centres**2).sum(axis=1) - 2 * matrix @ self.centres.T
        group, predicted = distance.argmin(axis=1), np.empty(len(matrix))
        for value in np.unique(group).tolist():
            member = group == value
            predicted[member] = self.boosters.get(value, self.base).predict_in_doubles(matrix[member])
        return predicted
