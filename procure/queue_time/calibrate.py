"""Rolling calibration: correct predicted quantiles by their recent coverage, as jobs start.

A forecast's quantiles are right if a wait falls below its quantile of level p with chance p. At a later
moment some of the jobs judged before have started (their level is known) and some still wait (their level
exceeds that of their wait so far). To look only at those that started would favour short waits; the
product-limit estimate of Kaplan and Meier takes both. It is kept over the last submissions and mixed with
evenly spread levels.
"""

from __future__ import annotations

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


EVERY = 10
"""Submissions after which the correction of the levels is renewed."""
N_WINDOW, HALF_LIFE, N_PRIOR = 1000, 200.0, 50.0
"""The last submissions that correct the outer levels; how many later ones halve their weight; the weight of the levels
as they are beside them."""
SHARE, KEPT, LEAST = 0.9, 0.5, 0.8
"""The share of waits that a stated interval is to hold; the interval that is never corrected, and the narrowest that is
given as the one of nine in ten."""
HELD = (0.88, 0.92)
"""The coverages below which that one is widened, and beyond which it is narrowed."""
BELOW = 0.75
"""The part of what an interval leaves out that lies below it."""
_KNOTS = np.linspace(0.0, 1.0, 201)
_PRIOR = (np.arange(200) + 0.5) / 200


def interval_levels(share: float, once: np.ndarray) -> np.ndarray:
    """Return the levels between which the interval of a share lies, (n, 2): the one rule for intervals.

    As much is left out below as above; of an interval wider than `KEPT`, `BELOW` of it below: a wait longer than was
    said does more harm than a shorter one, and long ones are missed most. But nobody starts sooner than at once: what
    would be left out below, as far as it starts at once, is left out above in its place. Where that is all of it, the
    interval reaches from 0 to the quantile of the share, since one to a higher quantile would hold more than it says.

    Parameters
    ----------
    share
        What the interval is to hold, 0 to 1.
    once
        (n,) of `at_once`.
    """
    low = np.maximum((1 - share) * (BELOW if share > KEPT else 0.5) - once, 0.0)
    return np.column_stack([low, low + share])


def at_once(curve: np.ndarray) -> np.ndarray:
    """Return each row's chance of a start within the first second, (n,)."""
    return chance_by(curve, 0.99)


def with_interval(curve: np.ndarray, share: float) -> np.ndarray:
    """Move curves (n, len(GRID)) so that their interval of `SHARE` is about the one of another share; see `share_for`.

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


def share_for(score: np.ndarray, ended: np.ndarray, counts: np.ndarray) -> float:
    """Return the share whose interval is to be given as that of `SHARE`.

    Where fewer recent jobs than the first of `HELD` were within their intervals, it is the score that so many kept;
    where more than the second were, the score that those kept. Between them nothing is corrected: few bursts tell no
    better, waits that are equal make too wide an interval look too good, and a wider one costs more pinball loss.
    Within the interval `KEPT` nothing moves: to correct that as well made forecasts worse on every log tried.

    Parameters
    ----------
    score, ended
        (n,) of recent jobs in submission order, by `scores`; ``ended`` is False for a job that still waits.
    counts
        (n,) how much each counts.
    """
    weight = counts * 0.5 ** (np.arange(len(score))[::-1] / HALF_LIFE)
    kept = product_limit(
        np.concatenate([score, _PRIOR]),
        np.concatenate([ended, np.ones(len(_PRIOR), bool)]),
        np.concatenate([weight, np.full(len(_PRIOR), N_PRIOR / len(_PRIOR))]),
        _KNOTS,
    )
    wide, narrow = (_KNOTS[min(int(np.searchsorted(kept, c - 1e-9)), len(_KNOTS) - 1)] for c in HELD)
    return float(np.clip(wide if wide > SHARE else min(narrow, SHARE), LEAST, FURTHEST))


MOST_COST = 0.03
"""The share of its pinball loss that a level's correction may have cost of late."""
DEADLINES = 3600.0 * np.array([1.0, 4.0, 12.0])
"""Seconds at which stated chances are held against what came of them."""
N_PLACES = 11
_PLACES = np.linspace(0.0, 1.0, N_PLACES)
N_SHRINK, HALF_LIFE_CHANCES = 60.0, 400.0
"""The outcomes, spread over the chances, that speak for a stated chance as it is; how many later submissions halve the
weight of one that is known."""


def chances_at(curve: np.ndarray) -> np.ndarray:
    """Return the chances of a start by each of `DEADLINES`, (n, 3)."""
    beyond = curve[:, -1:] <= DEADLINES
    return np.where(beyond, 1.0, np.column_stack([chance_by(curve, one) for one in DEADLINES]))


def shifts(stated: np.ndarray, happened: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return by how much stated chances were too low of late, (3, 11), at the chances 0, 0.1, ..., 1.

    Each outcome counts for the two places next to its stated chance; the means are shrunk towards no shift.

    Parameters
    ----------
    stated, happened
        (n, 3) the chances stated of jobs at `DEADLINES`, and of `by_now`.
    weight
        (n,) how much each counts.
    """
    found = np.empty((len(DEADLINES), len(_PLACES)))
    for one in range(len(DEADLINES)):
        near = np.maximum(1 - np.abs(stated[:, one, None] - _PLACES) * (len(_PLACES) - 1), 0) * weight[:, None]
        off = near * (happened[:, one] - stated[:, one])[:, None]
        found[one] = off.sum(axis=0) / (near.sum(axis=0) + N_SHRINK / len(_PLACES))
    return found


def by_now(
    stated: np.ndarray, curve: np.ndarray, age: np.ndarray, waits: np.ndarray, started: np.ndarray
) -> np.ndarray:
    """Return what is known of whether jobs start by each of `DEADLINES`, (n, 3): 1 or 0 or a chance between them.

    A job that started within the deadline is 1, one that waited beyond it 0. One that is not known to have waited
    so long counts as the chance stated of it, given that it has waited as long as it has: were it left out until then,
    the early starts among the last jobs, which are known at once, would make every chance look too low.

    Parameters
    ----------
    stated
        (n, 3) of `chances_at`.
    curve
        (n, len(GRID)) seconds, as stated.
    age
        (n,) seconds until each left the queue, or that it waits so far.
    waits, started
        (n,) whether it still waits, or else started rather than gave up.
    """
    by = np.where((~waits & started)[:, None], age[:, None] <= DEADLINES, 0.0)
    open_ = np.flatnonzero(waits | ~started)
    gone = np.where(age[open_] > 0, chance_by(curve[open_], age[open_]), 0.0)[:, None]
    left = np.clip((stated[open_] - gone) / np.maximum(1 - gone, 1e-9), 0.0, 1.0)
    by[open_] = np.where(age[open_, None] > DEADLINES, 0.0, left)
    return by


def relevelled(curve: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Move curves (n, len(GRID)) so that their chances at `DEADLINES` are shifted; order and ends stay."""
    stated = chances_at(curve)
    moved = np.column_stack(
        [np.clip(own + np.interp(own, _PLACES, by), 0.0, 1.0) for own, by in zip(stated.T, shift, strict=True)]
    )
    moved = np.maximum.accumulate(np.where((stated <= 0) | (stated >= 1), stated, moved), axis=1)
    levels = np.tile(GRID, (len(curve), 1))
    for row, (old, new) in enumerate(zip(stated, moved, strict=True)):
        known = (new > 0) & (new < 1) & (np.diff(new, prepend=0.0) > 1e-9)
        levels[row] = np.interp(GRID, [0.0, *new[known], 1.0], [0.0, *old[known], 1.0])
    return quantiles_at(curve, levels)


def blended(plain: np.ndarray, corrected: np.ndarray, how_far: np.ndarray) -> np.ndarray:
    """Return curves (n, len(GRID)) that lie so far, (len(GRID),) 0 to 1, from the plain towards the corrected ones."""
    low, high = np.log1p(plain), np.log1p(corrected)
    return np.expm1(np.maximum.accumulate(low + how_far * (high - low), axis=1))


def trust(
    plain: np.ndarray, corrected: np.ndarray, age: np.ndarray, ended: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return how far each level may be corrected, (len(GRID),): 1 where that has cost no pinball loss of late.

    Where it has cost `MOST_COST` of the loss or more it is 0. A job that still waits counts by what is certain of its
    loss. `N_SHRINK` outcomes of the usual loss speak for the correction.

    Parameters
    ----------
    plain, corrected
        (n, len(GRID)) seconds, of recent jobs.
    age, ended
        (n,) seconds until each left the queue or that it waits so far, and whether it started there.
    weight
        (n,) how much each counts.
    """
    total = weight.sum()
    if not total:
        return np.ones(len(GRID))

    def loss(curve: np.ndarray) -> np.ndarray:
        over = age[:, None] - curve
        each = np.where(over > 0, GRID * over, np.where(ended[:, None], (GRID - 1) * over, 0.0))
        return np.asarray(weight @ each / total)

    before, after = loss(plain), loss(corrected)
    cost = (after - before) / np.maximum(before, 1e-9) * total / (total + N_SHRINK)
    return np.clip(1 - cost / MOST_COST, 0.0, 1.0)


def scores(wait: np.ndarray, curve: np.ndarray, at_least: bool = False) -> np.ndarray:
    """Return the least share whose interval, of `interval_levels`, holds the wait, ends rounded outward to seconds.

    With ``at_least`` the wait is one so far, which tells only what the upper end must reach: nothing yet below the
    median, or where many start at once below the level 0.5 less their share.
    """
    once = at_once(curve)
    low = _level(np.minimum(np.floor(curve), curve), wait, "right")
    high = _level(np.maximum(np.ceil(curve), curve), wait, "left")
    below, above = 1 - (low + once) / BELOW, np.minimum(high, (high + once - BELOW) / (1 - BELOW))
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


def five(curve: np.ndarray) -> np.ndarray:
    """Read the quantiles 0.05, 0.25, 0.5, 0.75, 0.95 off curves."""
    return quantiles_at(curve, np.array([0.05, 0.25, 0.5, 0.75, 0.95]))


def chance_by(curve: np.ndarray, deadline: np.ndarray | float) -> np.ndarray:
    """Return each row's chance of a start by a deadline in seconds, read off its quantile curve."""
    deadline = np.broadcast_to(np.asarray(deadline, dtype=float), len(curve))
    z, edges = np.log1p(np.maximum(deadline, 0)), np.log1p(curve)
    right = np.clip((edges <= z[:, None]).sum(axis=1), 1, len(GRID) - 1)
    rows = np.arange(len(curve))
    gap = np.maximum(edges[rows, right] - edges[rows, right - 1], 1e-12)
    part = np.clip((z - edges[rows, right - 1]) / gap, 0, 1)
    return GRID[right - 1] + part * (GRID[right] - GRID[right - 1])
