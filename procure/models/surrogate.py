"""The surrogate: boosted trees that stand in for a simulation, with scikit-learn's fit and predict."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from sklearn.metrics import mean_tweedie_deviance
from xgboost import DMatrix, XGBRegressor

from procure.errors import TableError
from procure.files import Archive, load_booster

SCHEMA = "procure-model/2"

_TWEEDIE_POWER = 1.3
_SETTINGS: dict[str, dict[str, Any]] = {
    "fine": {"n_estimators": 500, "max_depth": 6, "learning_rate": 0.05, "min_child_weight": 2,
             "subsample": 0.8, "colsample_bytree": 0.6},
    "smooth": {"n_estimators": 400, "max_depth": 5, "learning_rate": 0.03, "min_child_weight": 20,
               "subsample": 0.7, "colsample_bytree": 0.5, "reg_lambda": 10},
    "quick": {"n_estimators": 150, "max_depth": 6, "learning_rate": 0.1, "min_child_weight": 2,
              "subsample": 0.8, "colsample_bytree": 0.6},
}  # fmt: skip
_TRIED = ("fine", "smooth")
_SMALLEST = 1e-6
_TRIAL_ROWS = 20_000
_FEW_ROWS = 250
"""``smooth`` asks for leaves of 20 rows: of fewer rows in all it makes hardly any, and predicts nearly a constant."""


class Surrogate:
    """Predict a mean wait, s, from features by boosted trees.

    The trees minimise Tweedie deviance under a log link: waits are zero or positive and spread the more the longer they
    are, and a purchase turns on the short ones. `fit` tries two settings on (some of) its rows, a fifth of them held
    out: ``fine`` for a simulator's exact labels, ``smooth`` for noisy ones; below 250 rows it is ``fine``. ``profile``
    says which instead, or ``quick``: a third of the trees. ``seed`` is of all random choices;
    ``profile_`` is what `fit` chose.
    """

    kind = "xgboost"

    def __init__(self, seed: int = 1, profile: str | None = None) -> None:
        """Choose the seed; nothing is computed."""
        self.seed, self.profile = seed, profile

    def fit(self, x: Any, wait: Any) -> Surrogate:
        """Learn from simulated packages: features, shape (packages, features), and mean waits, s ≥ 0."""
        x, scaled, self.scale_ = _checked(x, wait)
        self.profile_ = self.profile or self._choose(x, scaled)
        self.model_ = self._fit_one(self.profile_, x, scaled)
        self.n_features_ = x.shape[1]
        return self

    def choose(self, x: Any, wait: Any) -> str:
        """Return the profile that `fit` would choose."""
        return self._choose(*_checked(x, wait)[:2])

    def predict(self, x: Any) -> np.ndarray:
        """Predict mean waits, s, float64, shape (packages,)."""
        found = self.model_.predict(np.asarray(x, dtype="float64"))
        return np.asarray(found, dtype="float64") * self.scale_

    def contributions(self, x: Any) -> tuple[float, np.ndarray]:
        """Return the factors by which each feature multiplies a prediction (SHAP values of the log link).

        Under the log link the parts add up in logarithms, so each is a factor on the wait: ``typical``, s, the
        prediction without any features known, × the product of a row of factors, float64[packages, features], is
        `predict`. (Lundberg, Erion and Lee 2018, Consistent individualized feature attribution for tree ensembles.)
        """
        rows = DMatrix(np.asarray(x, dtype="float64"), nthread=1)
        parts = np.asarray(self.model_.get_booster().predict(rows, pred_contribs=True), dtype="float64")
        return float(np.exp(parts[0, -1]) * self.scale_), np.exp(parts[:, :-1])

    def _choose(self, x: np.ndarray, scaled: np.ndarray) -> str:
        if len(x) < _FEW_ROWS:
            return "fine"
        shuffled = np.random.default_rng(self.seed).permutation(len(x))[:_TRIAL_ROWS]
        held, rest = shuffled[: len(shuffled) // 5], shuffled[len(shuffled) // 5 :]

        def loss(profile: str) -> float:
            found = np.maximum(self._fit_one(profile, x[rest], scaled[rest]).predict(x[held]), _SMALLEST)
            return float(mean_tweedie_deviance(scaled[held], found, power=_TWEEDIE_POWER))

        with ThreadPoolExecutor(len(_TRIED)) as pool:  # XGBoost works outside Python's lock
            return min(zip(pool.map(loss, _TRIED), _TRIED, strict=True), key=lambda one: one[0])[1]

    def _fit_one(self, profile: str, x: np.ndarray, scaled: np.ndarray) -> XGBRegressor:
        # Of equal targets XGBoost before 3 begins far away.
        start = {"base_score": float(scaled[0])} if (scaled == scaled[0]).all() else {}
        return XGBRegressor(
            objective="reg:tweedie",
            tweedie_variance_power=_TWEEDIE_POWER,
            tree_method="hist",
            random_state=self.seed,
            n_jobs=1,
            **_SETTINGS[profile],
            **start,
        ).fit(x, scaled)

    def archive(self) -> Archive:
        """Return the fitted model as plain data, in XGBoost's format that cannot execute code."""
        head = {"schema": SCHEMA, "kind": self.kind, "seed": self.seed, "profile": self.profile_}
        head |= {"scale": self.scale_, "n_features": self.n_features_}
        return Archive(head, trees={"trees": bytes(self.model_.get_booster().save_raw("ubj"))})


def _checked(x: Any, wait: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Return features, waits as shares of their mean, and that mean; what no model learns from is an error."""
    x, wait = np.asarray(x, dtype="float64"), np.asarray(wait, dtype="float64")
    if not len(x) or len(x) != len(wait):
        raise TableError(f"a model needs as many waits as packages: {len(wait)} and {len(x)} were given")
    if np.isnan(wait).any() or (wait < 0).any():
        raise TableError("a model learns from mean waits of 0 s or more; some are missing or negative")
    scale = float(wait.mean()) or 1.0
    return x, np.maximum(wait / scale, _SMALLEST), scale


def from_archive(archive: Archive, source: str) -> Surrogate:
    """Return the model whose plain data `Surrogate.archive` gave; ``source`` is its name in an error."""
    head = archive.head
    try:
        model = Surrogate(int(head["seed"]), profile=head["profile"])
        load_booster(archive.trees["trees"], source)
        model.model_ = XGBRegressor(n_jobs=1)
        model.model_.load_model(bytearray(archive.trees["trees"]))
        model.scale_, model.profile_ = float(head["scale"]), head["profile"]
        model.n_features_ = int(head["n_features"])
    except TableError:
        raise
    except (KeyError, ValueError, TypeError, OverflowError):  # XGBoost's own error is a ValueError
        raise TableError(f"{source}: not a whole model file, a part of it is missing; train it again") from None
    return model
