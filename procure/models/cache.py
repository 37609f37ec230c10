"""Keep what was learnt beside a study's results, and take it up again only if nothing has changed since."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from procure._version import __version__
from procure.errors import TableError
from procure.models.case import Case
from procure.models.crossfit import Predicted, predict_packages
from procure.models.features import features
from procure.models.surrogate import load
from procure.tables import whole_file

_ARRAYS = ("wait", "errors", "at")


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
    """Cross-validate and fit a surrogate on a case's simulated packages, or read what was kept.

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
        Where to keep model and predictions: they are used again while packages, waits and settings
        are the same. None keeps nothing.

    Returns
    -------
    Predicted
        ``wait`` has a value for each package of ``among``, NaN elsewhere.

    Raises
    ------
    TableError
        Too few simulated packages, or the folder cannot be written.
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
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(found, path, digest.hexdigest())
    predicted = np.full(len(among), np.nan)
    predicted[rows] = found.wait
    return Predicted(**(vars(found) | {"wait": predicted}))


def _write(found: Predicted, path: Path, digest: str) -> None:
    found.model.save(path)
    figures = {
        "digest": digest,
        "folds": found.folds.to_dict(orient="list"),
        "rmse_seconds": found.rmse_seconds,
        "constant_rmse_seconds": found.constant_rmse_seconds,
    }
    beside = path.with_suffix(".json")
    with whole_file(beside) as temporary:
        temporary.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    with whole_file(path.with_suffix(".npz")) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **{name: getattr(found, name) for name in _ARRAYS})


def _read(path: Path, digest: str) -> Predicted | None:
    """Return what was kept, or None where it is absent, damaged or of other inputs."""
    try:
        figures = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        if figures["digest"] != digest:
            return None
        with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
            wait, errors, at = (arrays[name] for name in _ARRAYS)
        return Predicted(
            wait,
            load(path),
            pd.DataFrame(figures["folds"]),
            float(figures["rmse_seconds"]),
            float(figures["constant_rmse_seconds"]),
            errors,
            at,
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile, TableError):
        return None
