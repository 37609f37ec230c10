"""Cache fitted models next to the results; reuse them while the inputs are unchanged."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure._version import __version__
from procure.errors import TableError
from procure.files import Archive, read_archive, write_archive
from procure.models.case import Case
from procure.models.crossfit import Predicted, predict_packages
from procure.models.features import features
from procure.models.surrogate import SCHEMA, from_archive

_ARRAYS = ("wait", "errors", "at")
_FIGURES = ("rmse_seconds", "constant_rmse_seconds")


def learn(
    case: Case,
    quotes: pd.DataFrame,
    feature_set: str = "composition",
    kind: str = "xgboost",
    folds: int = 5,
    seed: int = 1,
    among: np.ndarray | None = None,
    folder: Path | None = None,
) -> Predicted:
    """Cross-validate and fit a surrogate on a case's simulated packages, or read it from the cache.

    Parameters
    ----------
    case
        From `make_case`.
    quotes
        The quote table.
    feature_set, kind, folds, seed
        See `features` and `predict_packages`.
    among
        Which packages to learn from and predict, bool; default: those that run every job.
    folder
        Where to cache model and predictions: they are reused while packages, waits and settings are
        the same. None caches nothing, nor does a folder that cannot be written.

    Returns
    -------
    Predicted
        ``wait`` has a value for each package of ``among``, NaN elsewhere.

    Raises
    ------
    TableError
        Too few simulated packages.
    """
    among = case.runs_all if among is None else among
    rows = np.flatnonzero(among)
    x, wait = features(case.packages.iloc[rows], quotes, feature_set), case.wait[rows]
    settings = f"{feature_set}.{kind}.{folds}.{seed}"
    digest = hashlib.sha256(f"{__version__} {settings}".encode())
    for array in (x.to_numpy(), wait, rows):
        digest.update(np.ascontiguousarray(array).tobytes())
    what = case.name if case.column == "mean_wait_time" else f"{case.name} {case.column}"
    name = hashlib.sha256(f"{what} {settings} {among.all()}".encode()).hexdigest()[:8]
    path = folder / f"{kind}.{feature_set}.{name}.zip" if folder else None
    found = _read(path, digest.hexdigest()) if path else None
    if found is None:
        found = predict_packages(x, wait, kind, folds, seed)
        # Results may be another user's, in a folder that only they can write to: then nothing is cached.
        with contextlib.suppress(TableError, OSError):
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
                model = found.model.archive()
                head = {"digest": digest.hexdigest(), "folds": found.folds.to_dict(orient="list")}
                head |= {name: getattr(found, name) for name in _FIGURES}
                arrays = {name: getattr(found, name) for name in _ARRAYS}
                write_archive(path, Archive({**model.head, **head}, {**model.arrays, **arrays}, model.trees))
    predicted = np.full(len(among), np.nan)
    predicted[rows] = found.wait
    return Predicted(**(vars(found) | {"wait": predicted}))


def _read(path: Path, digest: str) -> Predicted | None:
    """Return the cached model and predictions; None where they are absent, damaged or of other inputs."""
    try:
        cached = read_archive(path, SCHEMA)
        if cached.head["digest"] != digest:
            return None
        values: dict[str, Any] = {name: float(cached.head[name]) for name in _FIGURES}
        values |= {name: cached.arrays[name] for name in _ARRAYS}
        return Predicted(
            model=from_archive(cached, str(path)), folds=pd.DataFrame(cached.head["folds"]), **values
        )
    except (TableError, KeyError, ValueError, TypeError):
        return None
