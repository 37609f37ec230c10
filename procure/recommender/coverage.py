"""How often the ranges of predictions cover the truth, in a sentence."""

from __future__ import annotations

import numpy as np

from procure.models import Case, Predicted
from procure.models.intervals import Spread, coverage
from procure.sweep.results import workloads_of
from procure.text import counted


def coverage_notes(case: Case, predicted: Predicted | None, truth: np.ndarray | None = None) -> list[str]:
    """Say what share of the true waits the 90 % prediction intervals cover.

    With a truth, of the packages that were not simulated; else each half of the out-of-fold predictions is judged by
    intervals from the other.
    """
    if predicted is None:
        return []
    if truth is not None:
        unseen = case.runs_all & ~case.simulated & ~np.isnan(truth) & ~np.isnan(predicted.wait)
        if unseen.any():
            low, high = predicted.spread.interval(predicted.wait[unseen])
            return [
                f"{workloads_of(case)}: the 90 % prediction intervals cover "
                f"{coverage(low, high, truth[unseen]):.1%} of the true waits of the "
                f"{counted(int(unseen.sum()), 'package')} not simulated"
            ]
    at, errors = predicted.spread.at, predicted.spread.ratio
    if len(at) < 2:
        return []
    half = np.random.default_rng(0).permutation(len(at)) % 2 == 0
    covered = []
    for some in (half, ~half):
        low, high = Spread(at[~some], errors[~some]).interval(at[some])
        covered.append(coverage(low, high, (at[some] + 1) * errors[some] - 1))
    return [
        f"{workloads_of(case)}: the 90 % prediction intervals cover {np.mean(covered):.1%} of the simulated waits, "
        f"each half of the {len(half):,} out-of-fold predictions judged by the other"
    ]
