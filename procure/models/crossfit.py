"""Predictions that no model could have looked up: out of fold for what it learnt from, honest elsewhere."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import root_mean_squared_error as rmse

from procure.errors import TableError
from procure.files import Archive, keep
from procure.models.case import WorkloadWaits
from procure.models.intervals import ConformalErrors
from procure.models.surrogate import SCHEMA, Surrogate, from_archive
from procure.progress import track

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
    dealt = np.arange(n) % folds
    return np.random.default_rng(seed).permutation(dealt)


def predict_packages(
    x: pd.DataFrame | np.ndarray,
    wait: np.ndarray,
    folds: int = 5,
    seed: int = 1,
) -> Predicted:
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
        raise TableError(
            f"{folds:,}-fold cross-validation needs at least {2 * folds:,} simulated packages that run every "
            f"job; there are {n}: simulate more (sweep.sample), or lower model.folds"
        )
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
    errors = (wait + 1) / (predicted + 1)
    ascending = np.argsort(errors, kind="stable")
    return Predicted(
        predicted,
        model,
        pd.DataFrame(rows, columns=["fold", "n_fitted", "n_held_out", "rmse_seconds"]),
        rmse(wait, predicted),
        rmse(wait, constant),
        ConformalErrors(predicted[ascending], errors[ascending]),
    )


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
    found = keep(
        folder,
        f"xgboost.{feature_set}.{name}",
        [settings, x[known], wait[known]],
        lambda: cross_validate(x[known], wait[known], folds, seed),
        _archive,
        _predicted,
        SCHEMA,
    )
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
