"""The published multi-criteria ranking of schedulers.

"Deep-learning-based scheduling of academic-purpose HPC systems", sections IV and V: weights from a
pairwise comparison of the criteria, relative estimates, a matrix of superiority ratios, and its principal
right eigenvector. Reproduced from the paper's Tables II to V. Two errors of these tables: Table II prints
the slowdown of conservative backfilling as 1493.1645 where only 493.1645 gives Table III, and in both big
tables the headers of columns 9 to 13 stand one column off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

CAP = 1e6
"""Stands for the infinite ratio where one policy is nowhere worse than another."""

PUBLISHED_WEIGHTS = {"makespan": 0.5, "slowdown": 1.5, "usage": 1.0}
"""The sums of Table I's rows: 1 for each criterion to which this one is preferred, 0.5 where neither is. Slowdown is
preferred to usage and usage to makespan; makespan and slowdown are alike."""


class Ranking(NamedTuple):
    """``score`` per policy, higher is better, of unit length; ``ratios`` the matrix; ``value`` its eigenvalue."""

    score: pd.Series
    ratios: pd.DataFrame
    value: float


def rank(criteria: pd.DataFrame, weights: Mapping[str, float], higher_is_better: set[str]) -> Ranking:
    """Rank policies, a row each, by several criteria, a column each, of which some are maximised.

    Only the policies compared may stand there: the relative estimates depend on the set. With r these estimates (1 =
    best of the set, 0 = worst; a criterion in which all are equal counts for nothing) and S_ij = Σ_c w_c max(0, r_ic −
    r_jc), the ratios are S_ij / S_ji, at most `CAP`, 1 where neither is better, and the score is their principal right
    eigenvector.
    """
    values = criteria.to_numpy(dtype=float)
    sign = np.array([1.0 if name in higher_is_better else -1.0 for name in criteria.columns])
    signed = values * sign
    span = np.ptp(signed, axis=0)
    relative = (signed - signed.min(axis=0)) / np.where(span > 0, span, 1.0)
    weight = np.array([weights[name] for name in criteria.columns])
    better = (np.maximum(0.0, relative[:, None, :] - relative[None, :, :]) * weight).sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = better / better.T
    ratios = np.clip(np.where(np.isnan(ratios), 1.0, ratios), 1.0 / CAP, CAP)
    eigenvalues, vectors = np.linalg.eig(ratios)
    principal = int(np.argmax(eigenvalues.real))
    score = np.abs(vectors[:, principal].real)
    return Ranking(
        pd.Series(score / np.linalg.norm(score), index=criteria.index, name="score"),
        pd.DataFrame(ratios, index=criteria.index, columns=criteria.index),
        float(eigenvalues[principal].real),
    )
