"""How often the ranges of predictions and of days hold the truth, in sentences."""

from __future__ import annotations

import numpy as np

from procure.evaluation.bootstrap import left_out_days
from procure.models import Case, Predicted
from procure.models.fluid import backlog_waits
from procure.models.intervals import Spread, coverage
from procure.recommender.results import StudyResults, workloads_of
from procure.text import counted

_FEWEST_DAYS = 5
_MOST_PACKAGES = 300


def coverage_lines(case: Case, predicted: Predicted | None, truth: np.ndarray | None = None) -> list[str]:
    """Say how many truths the 90 % ranges hold: of packages not simulated, or by halves of those that were."""
    if predicted is None:
        return []
    if truth is not None:
        unseen = case.runs_all & ~case.simulated & ~np.isnan(truth) & ~np.isnan(predicted.wait)
        if unseen.any():
            low, high = predicted.interval(predicted.wait[unseen])
            return [
                f"{workloads_of(case)}: the 90 % range of a prediction holds "
                f"{coverage(low, high, truth[unseen]):.1%} of the true waits of "
                f"the {counted(int(unseen.sum()), 'package')} not simulated"
            ]
    if predicted.at is None or len(predicted.at) < 2:
        return []
    at, errors = predicted.at, predicted.errors
    held = np.random.default_rng(0).permutation(len(at)) % 2 == 0
    inside = []
    for some in (held, ~held):
        low, high = Spread(at[~some], errors[~some]).interval(at[some])
        inside.append(coverage(low, high, (at[some] + 1) * errors[some] - 1))
    return [
        f"{workloads_of(case)}: the 90 % range of a prediction holds {np.mean(inside):.1%} of the simulated waits, "
        f"each half of the {len(held):,} out-of-fold predictions judged by the other"
    ]


def day_lines(loaded: StudyResults) -> list[str]:
    """Say how well the other days foretell the waits of one, without and with the work that it submits known."""
    plan, found = loaded.plan, loaded.cases
    known = np.flatnonzero(np.all([case.simulated & case.runs_all for case in found], axis=0))
    if len(found) < _FEWEST_DAYS or not len(known):
        return []
    rows = known[:: max(1, len(known) // _MOST_PACKAGES)]
    packages = found[0].packages.iloc[rows]
    wait = np.stack([case.wait[rows] for case in found])
    scale = np.stack(
        [backlog_waits(packages, plan.quotes, plan.workloads[case.name], plan.existing) for case in found]
    )
    told = [left_out_days(wait, one) for one in (np.zeros_like(wait), scale)]
    parts = [
        f"{one['coverage'].mean():.0%} (least day {one['coverage'].min():.0%}, "
        f"highest end {one['width'].median():,.0f} times the lowest)"
        for one in told
    ]
    return [
        f"an unseen day: of {len(found)} days, each left out in turn, the range of the others holds {parts[0]} of the "
        f"waits of {len(rows):,} packages; with the work that is submitted known, {parts[1]}"
    ]
