"""Quantile curves of waits, and the one distribution that all is read off, so that answers cannot disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

GRID = np.array([0.0, 0.01, 0.05, 0.075, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.95, 0.975, 0.99, 1.0])
"""Levels at which a forecast's quantile function is kept; straight between them on the log scale."""
FURTHEST = 0.96
"""The widest interval that is given has the levels 0.03 and 0.99; beyond, a curve is a guess."""


def quantiles_at(curve: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Read quantile curves at levels; both (n, q), or levels (q,) for all rows."""
    levels = np.broadcast_to(levels, (len(curve), levels.shape[-1]))
    z = np.log1p(curve)
    right = np.clip(np.searchsorted(GRID, levels, side="left"), 1, len(GRID) - 1)
    rows = np.arange(len(curve))[:, None]
    part = (levels - GRID[right - 1]) / (GRID[right] - GRID[right - 1])
    return np.expm1(z[rows, right - 1] + part * (z[rows, right] - z[rows, right - 1]))


SHARE, KEPT, LEAST = 0.9, 0.5, 0.8
"""The share of waits that a stated interval is to hold; the interval that is never corrected, and the narrowest that is
given as the one of nine in ten."""
BELOW = 0.75
"""The part of what an interval leaves out that lies below it."""


def interval_levels(share: float, once: np.ndarray) -> np.ndarray:
    """Return the levels between which the interval of a share lies, (n, 2): the one rule for intervals.

    As much is left out below as above; of an interval wider than `KEPT`, `BELOW` of it below: a wait longer than was
    said does more harm than a shorter one, and long ones are missed most. But nobody starts sooner than at once: what
    would be left out below, as far as it starts at once, is left out above in its place. Where that is all of it, the
    interval reaches from 0 to the quantile of the share, since one to a higher quantile would hold more than it says.
    ``once`` is of `at_once`.
    """
    low = np.maximum((1 - share) * (BELOW if share > KEPT else 0.5) - once, 0.0)
    return np.column_stack([low, low + share])


def at_once(curve: np.ndarray) -> np.ndarray:
    """Return each row's chance of a start within the first second, (n,)."""
    return chance_by(curve, 0.99)


def with_interval(curve: np.ndarray, share: float) -> np.ndarray:
    """Move curves (n, len(GRID)) so that their interval of `SHARE` is about the one of another share.

    Exact where the probability of a start at once is 0 or above 0.15. In between, moving the curve changes that
    probability, so that the coverage is off by up to 0.04, and up to half of a widening is lost.
    """
    once = at_once(curve)
    kept = 0.5 - KEPT / 2, 0.5 + KEPT / 2
    levels = np.empty((len(curve), len(GRID)))
    for row, (old, new) in enumerate(zip(interval_levels(SHARE, once), interval_levels(share, once), strict=True)):
        low = new[0] if old[0] else 0.0
        levels[row] = np.interp(GRID, [0.0, old[0], *kept, old[1], 1.0], [0.0, low, *kept, new[1], 1.0])
    return quantiles_at(curve, levels)


def chance_by(curve: np.ndarray, deadline: np.ndarray | float) -> np.ndarray:
    """Return each row's chance of a start by a deadline in seconds, read off its quantile curve."""
    deadline = np.broadcast_to(np.asarray(deadline, dtype=float), len(curve))
    z, edges = np.log1p(np.maximum(deadline, 0)), np.log1p(curve)
    right = np.clip((edges <= z[:, None]).sum(axis=1), 1, len(GRID) - 1)
    rows = np.arange(len(curve))
    gap = np.maximum(edges[rows, right] - edges[rows, right - 1], 1e-12)
    part = np.clip((z - edges[rows, right - 1]) / gap, 0, 1)
    return GRID[right - 1] + part * (GRID[right] - GRID[right - 1])


USUAL = 0.2
"""The weight of all waits known in what remains for a job that waits already."""
LEAST_LEFT = 0.005
"""Where a smaller chance than this is left, the stated tail is a guess, and the time waited says more."""


@dataclass(frozen=True)
class Distribution:
    """Distributions of waits, one per row.

    ``curve`` is (n, len(GRID)) seconds, ascending: the quantiles at those levels, straight between
    them on the scale log(1 + seconds). The first is the least wait, the last the longest.
    """

    curve: np.ndarray

    def quantile(self, level: float | np.ndarray) -> np.ndarray:
        """Return each row's quantiles in seconds: (n,) at one level, (n, q) at levels (q,)."""
        levels = np.atleast_1d(np.asarray(level, dtype=float))
        found = quantiles_at(self.curve, levels)
        return found[:, 0] if np.ndim(level) == 0 else found

    def interval(self, share: float = SHARE) -> np.ndarray:
        """Return the ends of each row's interval of a share, (n, 2) seconds; see `interval_levels`."""
        return quantiles_at(self.curve, interval_levels(share, at_once(self.curve)))

    def chance(self, deadline: float | np.ndarray) -> np.ndarray:
        """Return each row's chance of a start within a number of seconds, (n,); 1 from the longest wait on."""
        beyond = np.asarray(deadline, dtype=float) >= self.curve[:, -1]
        return np.where(beyond, 1.0, chance_by(self.curve, deadline))

    def summary(self, deadline: float | None = None) -> dict[str, Any]:
        """Return what is said of a wait: ``median lower_50 upper_50 lower_90 upper_90 p_before_deadline``, (n,) each.

        In seconds; the chance of a start by a deadline is None if none is asked for.
        """
        found: dict[str, Any] = {"median": self.quantile(0.5)}
        for share in (50, 90):
            found[f"lower_{share}"], found[f"upper_{share}"] = self.interval(share / 100).T
        return found | {"p_before_deadline": None if deadline is None else self.chance(deadline)}

    def after(self, waited: float, usual: np.ndarray) -> Distribution:
        """Return what remains for jobs that have waited a number of seconds already.

        ``usual`` (len(GRID),) are the quantiles of all waits known. Of a job that has outwaited most of its
        own distribution they know more than that distribution's end: what remains follows both, `USUAL` to them.
        Beyond all but `LEAST_LEFT` of both only the time waited is left to go by: the chance to wait t times as
        long is then 1/t, so that the median of what remains is what has been waited.
        """
        return Distribution(np.array([_pooled(curve, usual, waited) for curve in self.curve]))


def _pooled(curve: np.ndarray, usual: np.ndarray, waited: float) -> np.ndarray:
    """Return the quantiles at `GRID` of what remains after a wait by two curves together."""
    ends = np.concatenate([curve, usual])
    knots = np.concatenate([[waited], np.unique(ends[ends > waited])])
    own, other = (np.interp(np.log1p(knots), np.log1p(one), GRID, left=0.0, right=1.0) for one in (curve, usual))
    gone = (1 - USUAL) * own + USUAL * other
    if len(knots) == 1 or gone[0] > 1 - LEAST_LEFT * USUAL:
        return waited / np.maximum(1 - GRID, LEAST_LEFT) - waited
    return np.asarray(np.expm1(np.interp(gone[0] + (1 - gone[0]) * GRID, gone, np.log1p(knots))) - waited)
