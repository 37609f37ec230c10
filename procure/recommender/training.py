"""Fit a study's model to its simulated packages, and say how far off it is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import ArgumentError
from procure.models.crossfit import correlations
from procure.models.features import FEATURE_SETS
from procure.progress import silent
from procure.recommender.learning import Note
from procure.study import Study
from procure.sweep.results import StudyResults, few_simulated, load_results
from procure.text import Shown, counted, nearest


@dataclass(frozen=True)
class Training(Shown):
    """How far off a study's model is, out of fold.

    ``table`` has a row per workload: ``workload policy model feature_set n_simulated n_packages folds rmse_seconds
    constant_rmse_seconds relative_rmse fold_rmse_seconds trees``; RMSE is in seconds, and relative to that of always
    answering the mean. ``correlations`` by workload are from `procure.models.crossfit.correlations`; ``notes`` name
    workloads without a model, and where models are kept.
    """

    study: str
    table: pd.DataFrame
    correlations: dict[str, pd.DataFrame]
    notes: list[str]

    def records(self) -> list[dict[str, object]]:
        """Return the rows with their correlations, as ``procure train --format json`` prints them."""
        return [
            {str(name): value for name, value in row.items()}
            | {"correlations": self.correlations[row["workload"]].to_dict()}
            for row in self.table.to_dict(orient="records")
        ]

    @property
    def title(self) -> str:
        """What the table is of."""
        return f"{self.study}: out-of-fold error"


def train(
    study: str | Path | Study | StudyResults,
    *,
    feature_set: str | None = None,
    policy: str | None = None,
    note: Note = silent,
) -> Training:
    """Cross-validate the study's model on the packages that were simulated, and keep it with the results.

    Parameters
    ----------
    study
        The path of a study that was swept, the study, or its results.
    feature_set, policy
        One of `procure.models.features.FEATURE_SETS`, default the study's; of its policies, default the first.
    note
        Called with a line on each step that takes long.

    Raises
    ------
    TableError
        The study has no results, or an argument is wrong (`ArgumentError`).

    Examples
    --------
    >>> import procure
    >>> print(procure.train("study.toml").summary().splitlines()[0])
    small: out-of-fold error
    """
    if feature_set is not None and feature_set not in FEATURE_SETS:
        raise ArgumentError("feature_set", f"{feature_set!r} is unknown; {nearest(feature_set, FEATURE_SETS)}")
    results = load_results(study, policy)
    settings, rows, notes = results.plan.study.model, [], []
    for case in results.cases:
        note(f"{case.name}: learning from {counted(int(case.simulated.sum()), 'simulated package')}")
        found = results.learn_if_possible(case, feature_set)
        if found is None:
            notes.append(few_simulated(case, settings.folds))
            continue
        learnt = ~np.isnan(found.wait)
        rows.append(
            {
                "workload": case.name, "policy": results.policy, "model": found.model.kind,
                "feature_set": feature_set or settings.feature_set,
                "n_simulated": int((case.simulated & learnt).sum()), "n_packages": int(learnt.sum()),
                "folds": len(found.folds), "rmse_seconds": found.rmse_seconds,
                "constant_rmse_seconds": found.constant_rmse_seconds, "relative_rmse": found.relative_rmse,
                "fold_rmse_seconds": found.folds["rmse_seconds"].round(3).tolist(), "trees": found.model.profile_,
            }
        )  # fmt: skip
    if rows and results.kept and os.access(results.kept, os.W_OK):
        notes.append(f"models are kept in {results.kept}")
    tables = {case.name: correlations(case.packages, case.wait) for case in results.cases}
    return Training(results.plan.study.name, pd.DataFrame(rows), tables, notes)
