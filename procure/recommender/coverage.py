"""How often the ranges of predictions, and of days, cover the truth: a sentence each."""

from __future__ import annotations

import numpy as np

from procure.evaluation.bootstrap import left_out_days
from procure.models import Case, Predicted
from procure.models.fluid import backlog_waits
from procure.models.intervals import Spread, coverage
from procure.recommender.confidence import FEWEST_DAYS
from procure.sweep.results import StudyResults, workloads_of
from procure.text import counted

_MOST_PACKAGES = 300


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


def day_notes(results: StudyResults) -> list[str]:
    """Say how well the other days predict the waits of one that is left out; empty for fewer than five days."""
    plan, cases = results.plan, results.cases
    known = np.flatnonzero(np.all([case.simulated & case.runs_all for case in cases], axis=0))
    if len(cases) < FEWEST_DAYS or not len(known):
        return []
    rows = known[:: max(1, len(known) // _MOST_PACKAGES)]
    packages = cases[0].packages.iloc[rows]
    wait = np.stack([case.wait[rows] for case in cases])
    backlog = np.stack(
        [backlog_waits(packages, plan.quotes, plan.workloads[case.name], plan.existing) for case in cases]
    )
    parts = [
        f"{days['coverage'].mean():.0%} ({days['coverage'].min():.0%} on the worst day; the upper end is "
        f"{days['width'].median():,.0f} times the lower)"
        for days in (left_out_days(wait, scale) for scale in (np.zeros_like(wait), backlog))
    ]
    return [
        f"leaving out each of {len(cases)} days in turn, the interval of the others covers {parts[0]} of the waits of "
        f"{len(rows):,} packages; if the work that is submitted is known, {parts[1]}"
    ]
