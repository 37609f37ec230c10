"""Prediction intervals: split-conformal, by groups of the predicted wait."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

BORDERS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Quantiles of the predicted wait that separate the groups of errors: finer where a purchase is decided."""
FEWEST_PER_GROUP = 40
"""Fewest errors per group, so that a 90 % range does not hang on one of them."""
SHARE = 0.9
"""Share of the truths that a range is to hold."""


def places(n: int) -> tuple[int, int]:
    """Return which of n sorted errors bound the next one with the probability `SHARE`, counted from 0.

    The next of n + 1 exchangeable values lies between the ⌊(n + 1)(1 − SHARE)/2⌋-th and the ⌈(n + 1)(1 + SHARE)/2⌉-th
    of the others with at least this probability; of too few they are the smallest and the largest (Vovk, Gammerman and
    Shafer 2005, chapter 2).
    """
    low = math.floor(round((n + 1) * (1 - SHARE) / 2, 9)) - 1
    high = math.ceil(round((n + 1) * (1 + SHARE) / 2, 9)) - 1
    return max(low, 0), min(high, n - 1)


@dataclass(frozen=True)
class ConformalErrors:
    """How far off predictions were, kept apart by how long a wait was predicted.

    ``at`` are predicted waits, s, of packages whose truth is known and that the model had not seen; ``ratio`` is (truth
    + 1 s) / (prediction + 1 s) of each.
    """

    at: np.ndarray
    ratio: np.ndarray

    @cached_property
    def groups(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Inner borders between groups of predicted wait, s, and the sorted ratios of each group."""
        ranked, last, cuts = np.sort(self.at), 0, []
        for share in BORDERS:
            cut = int(share * len(ranked))
            if min(cut - last, len(ranked) - cut) >= FEWEST_PER_GROUP:
                last = cut
                cuts.append(cut)
        # Equal predictions stay together, so groups may become fewer.
        borders = np.unique(ranked[cuts])
        borders = borders[borders > ranked[0]]
        of = np.searchsorted(borders, self.at, side="right")
        return borders, [np.sort(self.ratio[of == g]) for g in range(len(borders) + 1)]

    def interval(self, wait: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the range, s, that holds the true wait of 90 % of the packages predicted alike; NaN gives NaN.

        It holds in each group of predicted waits (Mondrian conformal prediction) as far as the packages asked about
        are like those that were simulated.
        """
        borders, groups = self.groups
        bounds = np.array([ratios[list(places(len(ratios)))] for ratios in groups])
        of = np.searchsorted(borders, np.nan_to_num(wait), side="right")
        low, high = (np.maximum((wait + 1) * bounds[of, end] - 1, 0.0) for end in (0, 1))
        return low, high
