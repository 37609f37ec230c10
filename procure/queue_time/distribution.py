"""The one distribution of a wait: median, intervals and chances are read off it, so that they cannot disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from procure.queue_time.calibrate import GRID, SHARE, at_once, chance_by, interval_levels, quantiles_at

USUAL = 0.2
"""The weight of all waits known in what remains for a job that waits already."""
LEAST = 0.005
"""Where a smaller chance than this is left, the stated tail is a guess, and the time waited says more."""


@dataclass(frozen=True)
class Distribution:
    """Distributions of waits, one per row.

    ``curve`` is (n, len(calibrate.GRID)) seconds, ascending: the quantiles at those levels, straight between
    them on the scale log(1 + seconds). The first is the least wait, the last the longest.
    """

    curve: np.ndarray

    def quantile(self, level: float | np.ndarray) -> np.ndarray:
        """Return each row's quantiles in seconds: (n,) at one level, (n, q) at levels (q,)."""
        levels = np.atleast_1d(np.asarray(level, dtype=float))
        found = quantiles_at(self.curve, levels)
        return found[:, 0] if np.ndim(level) == 0 else found

    def interval(self, share: float = SHARE) -> np.ndarray:
        """Return the ends of each row's interval of a share, (n, 2) seconds; see `calibrate.interval_levels`."""
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

    def after(self, waited: float, usual: np.ndarray | None = None) -> Distribution:
        """Return what remains for jobs that have waited a number of seconds already.

        Beyond all but `LEAST` of a curve only the time waited is left to go by: the chance to wait t times as
        long is then 1/t, so that the median of what remains is what has been waited.
        ``usual`` (len(calibrate.GRID),) are the quantiles of all waits known. Of a job that has outwaited most of its
        own distribution they know more than that distribution's end: what remains follows both, `USUAL` to them.
        """
        if usual is not None:
            return Distribution(np.array([_pooled(curve, usual, waited) for curve in self.curve]))
        gone = chance_by(self.curve, waited)
        left = quantiles_at(self.curve, gone[:, None] + (1 - gone[:, None]) * GRID) - waited
        return Distribution(np.where((gone > 1 - LEAST)[:, None], _as_long_again(waited), np.maximum(left, 0.0)))


def _as_long_again(waited: float) -> np.ndarray:
    return waited / np.maximum(1 - GRID, LEAST) - waited


def _pooled(curve: np.ndarray, usual: np.ndarray, waited: float) -> np.ndarray:
    """Return the quantiles at `calibrate.GRID` of what remains after a wait by two curves together."""
    ends = np.concatenate([curve, usual])
    knots = np.concatenate([[waited], np.unique(ends[ends > waited])])
    own, other = (np.interp(np.log1p(knots), np.log1p(one), GRID, left=0.0, right=1.0) for one in (curve, usual))
    gone = (1 - USUAL) * own + USUAL * other
    if len(knots) == 1 or gone[0] > 1 - LEAST * USUAL:
        return _as_long_again(waited)
    return np.asarray(np.expm1(np.interp(gone[0] + (1 - gone[0]) * GRID, gone, np.log1p(knots))) - waited)
