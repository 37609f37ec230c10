"""The surrogate, boosted trees that stand in for a simulation, and its predictions that it could not have looked up."""

from __future__ import annotations

import hashlib
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import mean_tweedie_deviance
from sklearn.metrics import root_mean_squared_error as rmse
from xgboost import DMatrix, XGBRegressor

from procure.errors import TableError
from procure.files import Archive, keep, load_booster
from procure.models.case import WorkloadWaits
from procure.progress import track

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
        fixed = {"objective": "reg:tweedie", "tweedie_variance_power": _TWEEDIE_POWER, "tree_method": "hist"}
        return XGBRegressor(random_state=self.seed, n_jobs=1, **fixed, **_SETTINGS[profile], **start).fit(x, scaled)

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


BORDERS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Quantiles of the predicted wait that separate the groups of errors: finer where a purchase is decided."""
FEWEST_PER_GROUP = 40
"""Fewest errors per group, so that a 90 % range does not hang on one of them."""
SHARE = 0.9
"""Share of the truths that a range is to hold."""


def places(n: int) -> tuple[int, int]:
    """Return which of n sorted errors bound the next one with the probability `SHARE`, counted from 0.

    The next of n + 1 exchangeable values lies between the ⌊(n + 1)(1 − SHARE)/2⌋-th and the ⌈(n + 1)(1 + SHARE)/2⌉-th
    of the others with at least this probability; of too few they are the smallest and the largest (Vovk, Gammerman and
    Shafer 2005, chapter 2).
    """
    low = math.floor(round((n + 1) * (1 - SHARE) / 2, 9)) - 1
    high = math.ceil(round((n + 1) * (1 + SHARE) / 2, 9)) - 1
    return max(low, 0), min(high, n - 1)


@dataclass(frozen=True)
class ConformalErrors:
    """How far off predictions were, kept apart by how long a wait was predicted.

    ``at`` are predicted waits, s, of packages whose truth is known and that the model had not seen; ``ratio`` is (truth
    + 1 s) / (prediction + 1 s) of each.
    """

    at: np.ndarray
    ratio: np.ndarray

    @cached_property
    def groups(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Inner borders between groups of predicted wait, s, and the sorted ratios of each group."""
        ranked, last, cuts = np.sort(self.at), 0, []
        for cut in (int(share * len(ranked)) for share in BORDERS):
            if min(cut - last, len(ranked) - cut) >= FEWEST_PER_GROUP:
                last = cut
                cuts.append(cut)
        # Equal predictions stay together, so groups may become fewer.
        borders = np.unique(ranked[cuts])
        borders = borders[borders > ranked[0]]
        of = np.searchsorted(borders, self.at, side="right")
        return borders, [np.sort(self.ratio[of == g]) for g in range(len(borders) + 1)]

    def interval(self, wait: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the range, s, that holds the true wait of 90 % of the packages predicted alike; NaN gives NaN.

        It holds in each group of predicted waits (Mondrian conformal prediction) as far as the packages asked about
        are like those that were simulated.
        """
        borders, groups = self.groups
        bounds = np.array([ratios[list(places(len(ratios)))] for ratios in groups])
        of = np.searchsorted(borders, np.nan_to_num(wait), side="right")
        low, high = (np.maximum((wait + 1) * bounds[of, end] - 1, 0.0) for end in (0, 1))
        return low, high


WORTH = 0.95
"""A model's error must be below this share of a constant's: nearer to it, the difference may be luck of the folds."""


@dataclass(frozen=True)
class Predicted:
    """Predicted mean waits and how far off they were where that is known.

    ``wait``, s, is out of fold where a package was simulated, elsewhere by the ``model`` fitted on the whole sample.
    ``folds``: ``fold n_fitted n_held_out rmse_seconds``; ``rmse_seconds`` and ``constant_rmse_seconds`` are of all
    out-of-fold predictions, and of the mean of the other folds, to be beaten; ``errors`` the out-of-fold errors by
    predicted wait, ascending.
    """

    wait: np.ndarray
    model: Surrogate
    folds: pd.DataFrame
    rmse_seconds: float
    constant_rmse_seconds: float
    errors: ConformalErrors

    @property
    def beats_constant(self) -> bool:
        """Whether the model knows more than the mean does; where all waits are equal there is nothing to know."""
        return self.rmse_seconds <= WORTH * self.constant_rmse_seconds

    @property
    def relative_rmse(self) -> float:
        """RMSE as a share of a constant's; below 1 is better than the mean."""
        return self.rmse_seconds / self.constant_rmse_seconds if self.constant_rmse_seconds else float("nan")


def fold_of(n: int, folds: int, seed: int) -> np.ndarray:
    """Assign n rows to folds of equal size (±1) at random."""
    return np.random.default_rng(seed).permutation(np.arange(n) % folds)


def predict_packages(x: pd.DataFrame | np.ndarray, wait: np.ndarray, folds: int = 5, seed: int = 1) -> Predicted:
    """Cross-validate a surrogate on the simulated packages and predict all.

    ``x`` are the `features` of all packages, ``wait`` simulated mean waits, s, NaN elsewhere; errors, folds and seed as
    `cross_validate`.
    """
    x, wait = np.asarray(x, dtype="float64"), np.asarray(wait, dtype="float64")
    known = ~np.isnan(wait)
    return _of_all(cross_validate(x[known], wait[known], folds, seed), x, known)


def cross_validate(x: np.ndarray, wait: np.ndarray, folds: int = 5, seed: int = 1) -> Predicted:
    """Fit a surrogate on simulated packages; what it predicts of these is out of fold.

    ``x`` and ``wait`` are of the simulated packages alone; the ``seed`` also deals the folds, which are fitted side by
    side with the settings that the model of all has chosen. Fewer packages than two per fold are an error.
    """
    n = len(wait)
    if n < 2 * folds:
        needs = f"{folds:,}-fold cross-validation needs at least {2 * folds:,} simulated packages that run every job"
        raise TableError(f"{needs}; there are {n}: simulate more (sweep.sample), or lower model.folds")
    dealt = fold_of(n, folds, seed)
    predicted, constant = np.empty(n), np.empty(n)
    profile = Surrogate(seed).choose(x, wait)

    def fitted(fold: int) -> Surrogate:  # fold `folds` holds nothing out; XGBoost works outside Python's lock
        return Surrogate(seed, profile).fit(x[dealt != fold], wait[dealt != fold])

    with ThreadPoolExecutor(folds + 1) as pool:
        models = pool.map(fitted, range(folds + 1))
        rows = []
        for fold in track(range(folds), f"learning from {n:,} simulated packages", "fold"):
            held = dealt == fold
            predicted[held], constant[held] = next(models).predict(x[held]), wait[~held].mean()
            rows.append((fold + 1, int((~held).sum()), int(held.sum()), rmse(wait[held], predicted[held])))
        model = next(models)
    ratio = (wait + 1) / (predicted + 1)
    ascending = np.argsort(ratio, kind="stable")
    errors = ConformalErrors(predicted[ascending], ratio[ascending])
    table = pd.DataFrame(rows, columns=["fold", "n_fitted", "n_held_out", "rmse_seconds"])
    return Predicted(predicted, model, table, rmse(wait, predicted), rmse(wait, constant), errors)


def _of_all(found: Predicted, x: np.ndarray, known: np.ndarray) -> Predicted:
    """Predict packages that were not simulated, too; ``found`` is of those that are ``known``, bool."""
    wait = np.empty(len(x))
    wait[known] = found.wait
    if not known.all():
        wait[~known] = found.model.predict(x[~known])
    return replace(found, wait=wait)


def correlations(packages: pd.DataFrame, wait: np.ndarray) -> pd.DataFrame:
    """Return Pearson's correlation between a package's totals, and with the mean wait (Hutchison 2024, table 3.4).

    4 × 4: ``total_mem_gb total_cpus total_gpus mean_wait_time``, over packages with a wait; NaN where one is constant.
    """
    table = packages[["total_mem_gb", "total_cpus", "total_gpus"]].assign(mean_wait_time=wait)
    return table[~np.isnan(wait)].corr()


_FIGURES = ("rmse_seconds", "constant_rmse_seconds")


def learn(
    case: WorkloadWaits,
    x: np.ndarray,
    feature_set: str = "composition",
    folds: int = 5,
    seed: int = 1,
    among: np.ndarray | None = None,
    folder: Path | None = None,
) -> Predicted:
    """Cross-validate and fit a surrogate on a case's simulated packages, or read it from the cache.

    ``x`` are the `features` of its packages. Those ``among`` (bool; default: those that run every job) are learnt from
    and predicted; NaN elsewhere. The model is kept in the ``folder``, and reused while what was simulated and the
    settings are the same; None, or one that cannot be written, keeps nothing. Too few simulated packages are a
    `TableError`.
    """
    among = case.runs_all if among is None else among
    x, wait = x[among], case.wait[among]
    known = ~np.isnan(wait)
    settings = f"{feature_set}.xgboost.{folds}.{seed}"
    what = case.name if case.column == "mean_wait_time" else f"{case.name} {case.column}"
    name = hashlib.sha256(f"{what} {settings} {among.all()}".encode()).hexdigest()[:8]
    name, inputs = f"xgboost.{feature_set}.{name}", [settings, x[known], wait[known]]
    made = partial(cross_validate, x[known], wait[known], folds, seed)
    found = keep(folder, name, inputs, made, _archive, _predicted, SCHEMA)
    predicted = np.full(len(among), np.nan)
    predicted[among] = _of_all(found, x, known).wait
    return replace(found, wait=predicted)


def _archive(found: Predicted) -> Archive:
    model, errors = found.model.archive(), found.errors
    head = {**model.head, "folds": found.folds.to_dict(orient="list")}
    head |= {name: getattr(found, name) for name in _FIGURES}
    return Archive(head, {"wait": found.wait, "at": errors.at, "errors": errors.ratio}, model.trees)


def _predicted(kept: Archive) -> Predicted:
    model, folds = from_archive(kept, "what was kept"), pd.DataFrame(kept.head["folds"])
    error, constant = (float(kept.head[name]) for name in _FIGURES)
    return Predicted(
        kept.arrays["wait"], model, folds, error, constant, ConformalErrors(kept.arrays["at"], kept.arrays["errors"])
    )
