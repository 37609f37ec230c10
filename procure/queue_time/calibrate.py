"""Rolling calibration: correct predicted quantiles by their recent coverage, as jobs start.

A forecast's quantiles are right if a wait falls below its quantile of level p with chance p. At a later
moment some of the jobs judged before have started (their level is known) and some still wait (their level
exceeds that of their wait so far). To look only at those that started would favour short waits; the
product-limit estimate of Kaplan and Meier takes both. It is kept over the last submissions and mixed with
the levels of the training's own hold-out.
"""

from __future__ import annotations

import numpy as np

EVERY = 10
"""After so many submissions corrections are renewed."""
GRID = np.array([0.0, 0.01, 0.05, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.95, 0.99, 1.0])
"""Levels at which a forecast's quantile function is kept; straight between them on the log scale."""
FURTHEST = 0.97
"""The widest interval that is given has the levels 0.015 and 0.985; beyond, a curve is a guess."""


def quantiles_at(curve: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Read quantile curves at levels; both (n, q), or levels (q,) for all rows."""
    levels = np.broadcast_to(levels, (len(curve), levels.shape[-1]))
    z = np.log1p(curve)
    right = np.clip(np.searchsorted(GRID, levels, side="left"), 1, len(GRID) - 1)
    rows = np.arange(len(curve))[:, None]
    part = (levels - GRID[right - 1]) / (GRID[right] - GRID[right - 1])
    return np.expm1(z[rows, right - 1] + part * (z[rows, right] - z[rows, right - 1]))


def product_limit(level: np.ndarray, ended: np.ndarray, weight: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Estimate the share of levels at or below each of ``at``, with unfinished ones censored.

    Parameters
    ----------
    level
        (n,) levels reached.
    ended
        (n,) whether the job started there; otherwise its level is at least that.
    weight
        (n,) how much each counts.
    at
        (q,) ascending.
    """
    order = np.lexsort((~ended, level))
    level, ended, weight = level[order], ended[order], weight[order]
    at_risk = np.cumsum(weight[::-1])[::-1]
    stay = np.cumprod(np.where(ended, 1 - weight / np.maximum(at_risk, 1e-12), 1.0))
    position = np.searchsorted(level, at, side="right")
    return 1 - np.concatenate([[1.0], stay])[position]


DEADLINES = np.array([900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 48 * 3600.0])
"""The deadlines at which stated chances are compared with what came of them, in seconds."""


class Calibrator:
    """Rescale the 90 % interval to its recent coverage.

    A wait's score is the least s for which the interval between the levels (1 − s)/2 and (1 + s)/2 holds
    it; the interval of a corrected forecast is the one whose score nine in ten recent jobs kept. The
    median stays as stated: to move it too was worse on the logs tried. Chances are corrected apart, since
    what came of a deadline is known once it has passed.

    The last `N_WINDOW` submissions count; the scores known before weigh as much as `N_PRIOR`.
    """

    N_WINDOW, N_PRIOR = 1000, 100.0

    def __init__(self) -> None:
        """Start without a correction."""
        self.prior = (np.arange(200) + 0.5) / 200
        self.shifts, self.slopes = np.zeros(len(DEADLINES)), np.ones(len(DEADLINES))
        self.gaps = np.zeros((len(DEADLINES), len(Gaps.AT)))

    def fit(self, wait: np.ndarray, curve: np.ndarray) -> Calibrator:
        """Fit on jobs that the model was not trained on: 200 quantiles of their scores, and their chances."""
        self.prior = np.quantile(scores(wait, curve), (np.arange(200) + 0.5) / 200)
        for position, deadline in enumerate(DEADLINES):
            stated, happened, left = chance_by(curve, deadline), wait <= deadline, Gaps()
            shift, slope = fit_correction(stated, happened)
            left.add(correct_chance(stated, shift, slope), happened)
            self.shifts[position], self.slopes[position], self.gaps[position] = shift, slope, left.usual()
        return self

    def reach(self, score: np.ndarray, ended: np.ndarray) -> float:
        """Return the score that nine in ten of the recent jobs kept; ``ended`` is False for a job that still waits."""
        kept = product_limit(
            np.concatenate([score, self.prior]),
            np.concatenate([ended, np.ones(len(self.prior), bool)]),
            np.concatenate([np.ones(len(score)), np.full(len(self.prior), self.N_PRIOR / len(self.prior))]),
            _KNOTS,
        )
        return float(min(_KNOTS[min(int(np.searchsorted(kept, 0.9)), len(_KNOTS) - 1)], FURTHEST))

    def roll(self, submit: np.ndarray, wait: np.ndarray, curve: np.ndarray) -> np.ndarray:
        """Correct the intervals of rows in submission order, each from what was known when it came.

        Parameters
        ----------
        submit, wait
            (n,) seconds; a NaN wait has not ended. A wait is used only by rows submitted after the start.
        curve
            (n, len(GRID)) stated quantiles; the correction is updated every `EVERY` submissions.

        Returns
        -------
        numpy.ndarray
            (n,) the score that each row's 90 % interval reaches to.
        """
        start = np.where(np.isnan(wait), np.inf, submit + np.nan_to_num(wait))
        final = scores(np.nan_to_num(wait, nan=0.0), curve)
        reach = np.empty(len(submit))
        for begin in range(0, len(submit), EVERY):
            now = submit[begin]
            window = slice(max(0, begin - self.N_WINDOW), begin)
            ended = start[window] < now
            least = scores(np.maximum(now - submit[window], 0.0), curve[window], at_least=True)
            reach[begin : begin + EVERY] = self.reach(np.where(ended, final[window], least), ended)
        return reach

    def chance(self, curve: np.ndarray, deadline: float) -> np.ndarray:
        """Return corrected chances of a start by a deadline; between `DEADLINES` corrections are interpolated."""
        at, knots = np.log1p(deadline), np.log1p(DEADLINES)
        shift = float(np.interp(at, knots, self.shifts))
        slope = float(np.interp(at, knots, self.slopes))
        usual = np.array([np.interp(at, knots, gap) for gap in self.gaps.T])
        return close_gap(correct_chance(chance_by(curve, deadline), shift, slope), usual)


_KNOTS = np.linspace(0.0, 1.0, 201)


def correct_chance(chance: np.ndarray, shift: float, slope: float) -> np.ndarray:
    """Move chances on the logit scale: shift + slope × logit."""
    logit = _logit(chance)
    return 1 / (1 + np.exp(-(shift + slope * logit)))


def fit_correction(chance: np.ndarray, happened: np.ndarray) -> tuple[float, float]:
    """Fit shift and slope of `correct_chance` by ridge logistic regression, shrunk towards no correction.

    The prior (shift 0, slope 1) counts for 20 observations.
    """
    shift, slope, ridge = 0.0, 1.0, 20.0
    if len(chance) == 0:
        return shift, slope
    logit = _logit(chance)
    for _ in range(6):
        p = 1 / (1 + np.exp(-(shift + slope * logit)))
        spread = p * (1 - p)
        gradient = np.array(
            [np.sum(p - happened) + ridge / 4 * shift, np.sum((p - happened) * logit) + ridge * (slope - 1)]
        )
        cross = np.sum(spread * logit)
        hessian = np.array([[np.sum(spread) + ridge / 4, cross], [cross, np.sum(spread * logit**2) + ridge]])
        step = np.linalg.solve(hessian, gradient)
        shift, slope = shift - float(np.clip(step[0], -1, 1)), slope - float(np.clip(step[1], -0.5, 0.5))
    return float(np.clip(shift, -3, 3)), float(np.clip(slope, 0.2, 3))


def roll_chance(submit: np.ndarray, wait: np.ndarray, chance: np.ndarray, deadline: float) -> np.ndarray:
    """Correct the chances of a start by one deadline, rows in submission order.

    What came of a job is known once it has started or the deadline has passed; only rows submitted after
    that moment use it. Shift and slope follow the last 1,500 outcomes; what then still is off
    near a chance, over all outcomes so far, is added to it. Both are renewed after `EVERY` submissions.
    """
    wait = np.where(np.isnan(wait), np.inf, wait)
    known_at = submit + np.minimum(wait, deadline)
    happened = wait <= deadline
    order = np.argsort(known_at, kind="stable")
    moved, corrected, gaps, used = np.empty(len(chance)), np.empty(len(chance)), Gaps(), 0
    ascending = known_at[order]
    for begin in range(0, len(submit), EVERY):
        known = int(np.searchsorted(ascending, submit[begin]))
        window = order[max(0, known - 1500) : known]
        shift, slope = fit_correction(chance[window], happened[window])
        gaps.add(moved[order[used:known]], happened[order[used:known]])
        used = known
        rows = slice(begin, begin + EVERY)
        moved[rows] = correct_chance(chance[rows], shift, slope)
        corrected[rows] = close_gap(moved[rows], gaps.usual())
    return corrected


class Gaps:
    """Mean calibration error near each predicted probability, shrunk towards 0.

    Parameters
    ----------
    reach
        Outcomes predicted within this distance of a probability count, the nearer the more; the prior counts
        for 100 outcomes without an error.
    """

    AT = np.linspace(0.0, 1.0, 41)

    def __init__(self, reach: float = 0.1) -> None:
        """Start without an error."""
        self.reach = reach
        self.gap, self.weight = np.zeros(len(self.AT)), np.zeros(len(self.AT))

    def add(self, stated: np.ndarray, happened: np.ndarray) -> None:
        """Add predicted probabilities and their outcomes."""
        near = np.maximum(0.0, 1 - np.abs(self.AT[:, None] - stated) / self.reach)
        self.gap += near @ (happened - stated)
        self.weight += near.sum(axis=1)

    def usual(self) -> np.ndarray:
        """Return the mean error near each of the probabilities `AT`, at most 0.2."""
        return np.clip(self.gap / (self.weight + 100.0), -0.2, 0.2)


def close_gap(stated: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Add the mean error near each of the probabilities `Gaps.AT` to predicted ones."""
    return np.clip(stated + np.interp(stated, Gaps.AT, usual), 0.001, 0.999)


def _logit(chance: np.ndarray) -> np.ndarray:
    clipped = np.clip(chance, 0.002, 0.998)
    return np.log(clipped / (1 - clipped))


def scores(wait: np.ndarray, curve: np.ndarray, at_least: bool = False) -> np.ndarray:
    """Return the least s whose interval holds the wait, ends rounded outward to whole seconds.

    With ``at_least`` the wait is one so far: below the median it tells nothing yet.
    """
    low = _level(np.minimum(np.floor(curve), curve), wait, "right")
    high = _level(np.maximum(np.ceil(curve), curve), wait, "left")
    below, above = 1 - 2 * low, 2 * high - 1
    return np.clip(above if at_least else np.maximum(below, above), 0.0, 1.0)


def _level(edges: np.ndarray, wait: np.ndarray, side: str) -> np.ndarray:
    """Return the highest (right) or lowest (left) level whose edge does not exceed, or reaches, the wait."""
    rows = np.arange(len(wait))
    value, z = np.log1p(edges), np.log1p(wait)
    below = value <= z[:, None] if side == "right" else value < z[:, None]
    left = np.clip(below.sum(axis=1) - 1, 0, len(GRID) - 2)
    gap = value[rows, left + 1] - value[rows, left]
    part = np.where(gap > 1e-12, (z - value[rows, left]) / np.maximum(gap, 1e-12), float(side == "right"))
    return GRID[left] + np.clip(part, 0, 1) * (GRID[left + 1] - GRID[left])


def five(curve: np.ndarray, reach: np.ndarray | float = 0.9) -> np.ndarray:
    """Read the quantiles 0.05, 0.25, 0.5, 0.75, 0.95 off curves, the outer two moved to ``reach``."""
    reach = np.broadcast_to(np.asarray(reach, dtype=float), len(curve))
    inner = np.minimum(0.5, reach)
    levels = np.column_stack(
        [(1 - reach) / 2, (1 - inner) / 2, np.full(len(curve), 0.5), (1 + inner) / 2, (1 + reach) / 2]
    )
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
