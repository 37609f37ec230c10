"""Cache fitted models next to the results; reuse them while the inputs are unchanged."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from procure.files import Archive, keep
from procure.models.case import WorkloadWaits
from procure.models.crossfit import Predicted, predict_packages
from procure.models.features import feature_inputs, features
from procure.models.intervals import ConformalErrors
from procure.models.surrogate import SCHEMA, from_archive

_FIGURES = ("rmse_seconds", "constant_rmse_seconds")


def learn(
    case: WorkloadWaits,
    quotes: pd.DataFrame,
    feature_set: str = "composition",
    folds: int = 5,
    seed: int = 1,
    among: np.ndarray | None = None,
    folder: Path | None = None,
) -> Predicted:
    """Cross-validate and fit a surrogate on a case's simulated packages, or read it from the cache.

    Packages ``among`` (bool; default: those that run every job) are learnt from and predicted; NaN elsewhere. Model and
    predictions are kept in the ``folder``, and reused while packages, waits and settings are the same; None, or one
    that cannot be written, keeps nothing. Too few simulated packages are a `TableError`.
    """
    among = case.runs_all if among is None else among
    rows = np.flatnonzero(among)
    packages, wait = case.packages.iloc[rows], case.wait[rows]
    settings = f"{feature_set}.xgboost.{folds}.{seed}"
    what = case.name if case.column == "mean_wait_time" else f"{case.name} {case.column}"
    name = hashlib.sha256(f"{what} {settings} {among.all()}".encode()).hexdigest()[:8]
    found = keep(
        folder,
        f"xgboost.{feature_set}.{name}",
        [settings, *feature_inputs(packages, quotes), wait, rows],
        lambda: predict_packages(features(packages, quotes, feature_set), wait, folds, seed),
        _archive,
        _predicted,
        SCHEMA,
    )
    predicted = np.full(len(among), np.nan)
    predicted[rows] = found.wait
    return replace(found, wait=predicted)


def _archive(found: Predicted) -> Archive:
    model, errors = found.model.archive(), found.errors
    head = {**model.head, "folds": found.folds.to_dict(orient="list")}
    head |= {name: getattr(found, name) for name in _FIGURES}
    return Archive(head, {"wait": found.wait, "at": errors.at, "errors": errors.ratio}, model.trees)


def _predicted(kept: Archive) -> Predicted:
    model, folds = from_archive(kept, "what was kept"), pd.DataFrame(kept.head["folds"])
    rmse, constant = (float(kept.head[name]) for name in _FIGURES)
    return Predicted(
        kept.arrays["wait"], model, folds, rmse, constant, ConformalErrors(kept.arrays["at"], kept.arrays["errors"])
    )
