"""How sure a ranking is: bootstrap intervals of ranks.

Everything works on arrays of waits, simulated or predicted, of any origin. A share of 0.9 is a nominal 90 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pandas as pd

from procure.models.intervals import SHARE

TOP_SHARE = 0.05
"""A package is among the best if it is among the best 5 %."""
_TAILS = ((1 - SHARE) / 2, (1 + SHARE) / 2)


def resample_rows(n: int, draws: int, seed: int) -> np.ndarray:
    """Draw n of n units with replacement; int64, shape (draws, n)."""
    return np.random.default_rng(seed).integers(0, n, (draws, n))


def top_edge(figures: np.ndarray) -> np.ndarray:
    """Return the figure up to which a package is among the best; shape (draws,) of (draws, packages).

    It is the ⌊share × packages⌋-th smallest, at least the first, as for the hits of `procure.evaluate`.
    """
    place = max(1, math.floor(round(TOP_SHARE * figures.shape[-1], 9))) - 1
    return np.partition(figures, place, axis=-1)[..., place]


def bootstrap(
    waits: np.ndarray,
    total: Callable[[np.ndarray, np.ndarray], np.ndarray],
    draws: int = 1000,
    seed: int = 1,
) -> np.ndarray:
    """Resample the days of waits, [days, packages], and pool each resample; shape (draws, packages).

    ``total`` takes the drawn rows and which days they are, and returns a figure per package.
    """
    return np.stack([total(waits[days], days) for days in resample_rows(len(waits), draws, seed)])


def rank_confidence(drawn: np.ndarray, edges: np.ndarray | None = None) -> pd.DataFrame:
    """Say how ranks vary over resampled workloads, and which packages cannot be told apart from the first.

    ``drawn`` are mean waits, or other figures of which less is better, float64[draws, packages], the first being the
    one that is to be bought; ``edges`` are by draw the figure up to which a package is among the best `TOP_SHARE` of
    all, None = not known. Returns a row per package: ``rank_low`` and ``rank_high`` (90 % of the draws lie within),
    ``share_first`` of the draws in which it was best (ties counted for each), ``chance_top`` of being among the best 5
    %, and ``alike``.

    A package is **alike** if the 90 % range of its difference from the first over the draws reaches below 0, or if both
    are equal in every draw: what makes all packages wait longer cancels. So one that is hardly ever better is told
    apart, though it may be as good where no job waits. The first was chosen because it came out first, so the rule
    leans a little toward telling packages apart.
    """
    ranks, low, high = _ranks(drawn)
    gap = drawn - drawn[:, [0]]
    return pd.DataFrame(
        {
            "rank_low": low,
            "rank_high": high,
            "share_first": (ranks == 1).mean(axis=0),
            "chance_top": np.nan if edges is None else (drawn <= edges[:, None]).mean(axis=0),
            "alike": (np.quantile(gap, _TAILS[0], axis=0) < 0) | (gap == 0).all(axis=0),
        }
    )


def _ranks(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rank of each package in each draw, and the range that holds 90 % of its ranks."""
    ascending = np.sort(drawn, axis=1)
    ranks = np.stack([np.searchsorted(row, one) + 1 for row, one in zip(ascending, drawn, strict=True)])
    low, high = np.quantile(ranks, _TAILS, axis=0, method="inverted_cdf").astype(np.int64)
    return ranks, low, high


def rank_ranges(drawn: np.ndarray, figures: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of each package's rank, int64, shape (packages,) each; every package's place lies in its own.

    ``drawn`` is as for `rank_confidence`, packages in the order of the list: the range holds 90 % of the resamples'
    ranks, widened to the place, for the list's head was chosen as what came out best in one of them. Resamples of few
    days vary less than days do: with ``figures``, what the list is in the order of, the rank is also at least 1 + the
    number of packages that are told apart as better, and at most the number that is not told apart as worse, the
    difference being beyond 90 % of a normal distribution of its own standard deviation over the resamples.
    """
    _, low, high = _ranks(drawn)
    place = np.arange(1, drawn.shape[1] + 1)
    if figures is not None:
        z = NormalDist().inv_cdf(_TAILS[1])
        for one in range(len(place)):
            reach = z * (drawn[:, [one]] - drawn).std(axis=0, ddof=1)
            gap = figures[one] - figures
            low[one] = min(low[one], 1 + int((gap > reach).sum()))
            high[one] = max(high[one], len(place) - int((gap < -reach).sum()))
    return np.minimum(low, place), np.maximum(high, place)
