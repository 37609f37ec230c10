"""The one door to XGBoost, which fits boosters for quantiles, and the published pipeline of boosters."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from procure.files import load_booster
from procure.progress import step
from procure.queue_time.features import PUBLISHED, picked

PLAIN_ROUNDS = 100
LEAFWISE: dict[str, object] = {"max_depth": 0, "max_leaves": 31, "grow_policy": "lossguide"}
MAX_BIN = 64
"""Steps into which a feature's values are sorted: as good as XGBoost's 256 on the logs tried, in half of the time."""


class Booster:
    """What XGBoost has fitted, kept as it writes it."""

    def __init__(self, content: bytes) -> None:
        """Keep UBJSON, which XGBoost reads when it is first needed."""
        self.content = content

    @classmethod
    def from_bytes(cls, content: bytes, source: str) -> Booster:
        """Take bytes out of a file; that XGBoost cannot read them is a `TableError`."""
        load_booster(content, source)
        return cls(content)

    @cached_property
    def _fitted(self) -> Any:
        return load_booster(self.content, "a booster")

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Predict rows (n, m) of float32 features, NaN where unknown: (n,), or (n, outputs)."""
        if len(features) == 0:
            return np.zeros(0)
        return np.asarray(self._fitted.inplace_predict(np.ascontiguousarray(features, dtype=np.float32)))

    def predict_in_doubles(self, features: np.ndarray) -> np.ndarray:
        """Do as `predict`, with one sum of double precision: XGBoost's own differ from it in the eighth digit."""
        import xgboost

        rows = xgboost.DMatrix(np.ascontiguousarray(features, dtype=np.float32), nthread=1)
        leaves = self._fitted.predict(rows, pred_leaf=True).astype(np.int64).reshape(len(features), -1)
        learner = json.loads(bytes(self._fitted.save_raw(raw_format="json")))["learner"]
        trees = learner["gradient_booster"]["model"]["trees"]
        base = np.ravel(json.loads(learner["learner_model_param"]["base_score"]))
        values = (np.array(tree["split_conditions"], np.float32) for tree in trees)
        said = [value[at].astype(float) for value, at in zip(values, leaves.T, strict=True)]
        return np.asarray(base + np.sum(said, axis=0), np.float32)


def fit_chances(features: np.ndarray, happened: np.ndarray, n_rounds: int, seed: int, **settings: object) -> Booster:
    """Boost the chance of an event; the last column, a deadline, may only raise it."""
    monotone = tuple([0] * (features.shape[1] - 1) + [1])
    how: dict[str, object] = {"objective": "binary:logistic", "monotone_constraints": monotone, "min_child_weight": 40}
    if (share := float(np.mean(happened))) in (0.0, 1.0):  # XGBoost's own start is 0.5, or an infinite logit
        how |= {"base_score": float(np.clip(share, 1e-6, 1 - 1e-6))}
    return fit_booster(features, happened, n_rounds, seed, **(LEAFWISE | settings | how))


def fit_plain(
    features: np.ndarray,
    target: np.ndarray,
    seed: int,
    levels: np.ndarray | None = None,
    n_rounds: int = PLAIN_ROUNDS,
    **settings: object,
) -> Booster:
    """Boost quantiles of a target, or without ``levels`` its mean, as libraries do: rounds of 31 leaves, step 0.1."""
    objective: dict[str, object] = {"objective": "reg:squarederror"}
    if levels is not None:
        objective = {"objective": "reg:quantileerror", "quantile_alpha": levels}
    common: dict[str, object] = {"eta": 0.1, "subsample": 1.0, "colsample_bytree": 1.0, "reg_lambda": 0.0}
    return fit_booster(features, target, n_rounds, seed, **(LEAFWISE | common | objective | settings))


def fit_booster(features: np.ndarray, target: np.ndarray, n_rounds: int, seed: int, **settings: object) -> Booster:
    """Boost a target (n,) from features (n, m), float32; ``settings`` are XGBoost's, with an ``objective``."""
    import xgboost

    parameters = {
        "max_bin": 256,
        "max_depth": 5,
        "eta": 0.06,
        "min_child_weight": 20,
        "subsample": 0.7,
        "colsample_bytree": 0.5,
        "reg_lambda": 5.0,
        "tree_method": "hist",
        "nthread": 1,
        "verbosity": 0,
        "seed": seed,
    }
    parameters |= settings
    data = xgboost.QuantileDMatrix(features, target, nthread=1, max_bin=parameters["max_bin"])
    with step(f"boosting on {len(target):,} rows"):
        return _taken(xgboost.train(parameters, data, n_rounds))


def _taken(fitted: Any) -> Booster:
    return Booster(bytes(fitted.save_raw(raw_format="ubj")))


def fit_published(features: np.ndarray, target: np.ndarray, n_trees: int = 150) -> Booster:
    """Boost as Spark's MLlib does with depth 5 and step 0.1.

    The first tree has weight 1; each later one fits twice the residual (the gradient of the squared error)
    with weight 0.1, which is a step of 0.2. Thirty-two bins, no regularisation, one row to a leaf.
    """
    import xgboost

    parameters = {
        "max_depth": 5,
        "tree_method": "hist",
        "max_bin": 32,
        "reg_lambda": 0.0,
        "min_child_weight": 1,
        "nthread": 1,
        "verbosity": 0,
        "base_score": float(np.mean(target)),
    }
    data = xgboost.DMatrix(features, target, nthread=1)
    first = xgboost.train(parameters | {"eta": 1.0}, data, 1)
    return _taken(xgboost.train(parameters | {"eta": 0.2}, data, n_trees - 1, xgb_model=first))


LARGE_GROUP = 100
"""A group has a regressor of its own if it has more training rows than this."""


class Published:
    """The published pipeline of ``k`` groups by k-means; with ``k`` = 0 its base model alone. The seed is of k-means.

    Hutchison, dissertation, chapter 2: CPUs and memory in use scaled to 0…100, k-means over the features, a regressor
    for each group with more than 100 rows, the regressor of all rows for the others. Its five-fold cross-validation
    searched an empty grid, so that it never changed a model; it is left out.
    """

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
