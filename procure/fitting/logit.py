"""The conditional logit: which of the jobs that could have started did, by weights of what they are.

McFadden, "Conditional logit analysis of qualitative choice behavior" (1974). The likelihood is concave; Newton's
steps find its highest point. Choices of one day are not independent, so intervals are those of days, not of choices
(a sandwich of the scores summed by day).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import norm

PRIOR = 1.0
"""A weak prior, of variance 1 by weight: a log in which one quantity decides alone has no finite weights otherwise."""
MOST_STEPS = 50


class Weights(NamedTuple):
    """Weights of a conditional logit, a row per feature."""

    value: np.ndarray
    low: np.ndarray  # 95 % interval
    high: np.ndarray
    chance: np.ndarray  # of a weight as far from 0, were it 0
    log_likelihood: float


def fit_logit(rows: np.ndarray, first: np.ndarray, day: np.ndarray) -> Weights:
    """Fit the weights.

    Parameters
    ----------
    rows
        float64[n_rows, n_features], the chosen one first in its set.
    first
        int64[n_sets + 1], rows of set s: ``first[s]`` to ``first[s + 1]``.
    day
        int64[n_sets], choices of one day are taken together.
    """
    weights = np.zeros(rows.shape[1])
    best = log_likelihood(weights, rows, first)
    for _ in range(MOST_STEPS):
        scores, curve = _slopes(weights, rows, first)
        gradient = scores.sum(0) - PRIOR * weights
        step = np.linalg.solve(curve, gradient)
        if gradient @ step < 1e-10:
            break
        found = log_likelihood(weights + step, rows, first)
        while found < best and np.abs(step).max() > 1e-12:
            step /= 2
            found = log_likelihood(weights + step, rows, first)
        weights, best = weights + step, found
    scores, curve = _slopes(weights, rows, first)
    _, number = np.unique(day, return_inverse=True)
    by_day = np.zeros((number.max(initial=0) + 1, rows.shape[1]))
    np.add.at(by_day, number, scores)
    inverse = np.linalg.inv(curve)
    n = len(by_day)
    spread = np.sqrt(np.diag(inverse @ (by_day.T @ by_day) @ inverse) * n / max(n - 1, 1))
    width = float(norm.ppf(0.975)) * spread
    chance = 2 * norm.sf(np.abs(weights) / np.maximum(spread, 1e-300))
    return Weights(weights, weights - width, weights + width, chance, best)


def log_likelihood(weights: np.ndarray, rows: np.ndarray, first: np.ndarray) -> float:
    """Return the logarithm of the likelihood of the choices, and of the prior."""
    utility = rows @ weights
    most = np.maximum.reduceat(utility, first[:-1])
    total = np.add.reduceat(np.exp(utility - np.repeat(most, np.diff(first))), first[:-1])
    return float((utility[first[:-1]] - most - np.log(total)).sum() - PRIOR * weights @ weights / 2)


def _slopes(weights: np.ndarray, rows: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the score of each choice, and the curvature of the whole."""
    begin, sizes = first[:-1], np.diff(first)
    utility = rows @ weights
    likely = np.exp(utility - np.repeat(np.maximum.reduceat(utility, begin), sizes))
    likely /= np.repeat(np.add.reduceat(likely, begin), sizes)
    weighted = rows * likely[:, None]
    mean = np.add.reduceat(weighted, begin)
    curve = weighted.T @ rows - mean.T @ mean + PRIOR * np.eye(rows.shape[1])
    return rows[begin] - mean, curve
