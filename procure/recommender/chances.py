"""Chances of packages in a period that comes, drawn about what the past and the futures say of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.models.intervals import SHARE
from procure.objectives.aggregate import REGRET_FLOOR

NEAR = 0.05
"""A package is near the best of a period if it waits at most 5 % longer; waits up to `REGRET_FLOOR` are level."""
DRAWS = 1000
MOST_COMPARED = 2000
"""Among so many packages, the best by what is expected of them, the best of a drawn period is looked for."""
FEWEST_LEADERS, LEADING = 10, 10
"""The level of a period is that of the best tenth of the packages, of ten at least."""
DOUBT = 12
"""What was measured on other logs counts as so many cuts beside those of this log."""
_LEAST = 1 / 6
"""Of the floor: below so much, waits are not told apart at all, so that none is infinitely far from 0."""
_BOUNDS = 0.4, 1.6


class Drift(NamedTuple):
    """How far periods that come differ, as shares of how far the futures do.

    ``level``: of all packages together. ``apart``: of packages against each other.
    """

    level: float
    apart: float


STATED = Drift(0.45, 0.85)
PAST_SHARE = 3 / 4
"""What the past counts, in logarithms, in what is expected of a package; the futures' median the rest."""
OWN = 0.3
"""Standard deviation of the logarithm of what only one package meets, and no future shows. These three were chosen by
the logarithmic score of the first ten packages' chances on cuts before 5 May (docs/claims/forward.md)."""


class Outlook(NamedTuple):
    """Drawn periods: figures of some packages, float64[draws, packages]; ``rows``, which of all packages they are."""

    figures: np.ndarray
    rows: np.ndarray
    floor: float

    def best_and_near(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return in which share of the periods each of some packages is the best, alone or tied, and near it.

        A package that was not drawn is never either.
        """
        if not len(self.rows):
            return np.zeros(len(rows)), np.zeros(len(rows))
        level = np.maximum(self.figures, self.floor)
        least = level.min(axis=1, keepdims=True)
        shares = [(level <= least * by).mean(axis=0) for by in (1 + 1e-9, 1 + NEAR)]
        found = np.zeros((2, len(rows)))
        place = {int(row): i for i, row in enumerate(self.rows)}
        for i, row in enumerate(rows):
            if int(row) in place:
                found[:, i] = [one[place[int(row)]] for one in shares]
        return found[0], found[1]

    def ranges(self, rows: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the 90 % range of each of some packages, widened to hold its own mean; NaN where not drawn."""
        low, high = (np.full(len(rows), np.nan) for _ in range(2))
        place = {int(row): i for i, row in enumerate(self.rows)}
        ends = np.quantile(self.figures, ((1 - SHARE) / 2, (1 + SHARE) / 2), axis=0) if place else None
        for i, row in enumerate(rows):
            if ends is not None and int(row) in place:
                low[i], high[i] = ends[:, place[int(row)]]
        return np.fmin(low, np.where(np.isnan(low), np.nan, means)), np.fmax(
            high, np.where(np.isnan(high), np.nan, means)
        )


def draw_periods(
    futures: np.ndarray,
    past: np.ndarray | None,
    asked: np.ndarray,
    drift: Drift = STATED,
    floor: float = REGRET_FLOOR,
    seed: int = 1,
) -> Outlook:
    """Draw periods that may come.

    Parameters
    ----------
    futures
        A figure of all packages on each future, float64[futures, packages]; NaN where unknown.
    past
        The same on the past, float64[packages]; None = it was not simulated.
    asked
        Rows of packages that are drawn whatever is expected of them, if they are known.
    drift
        How far periods differ.
    floor
        Figures up to it are level.
    seed
        Of the draws.

    Notes
    -----
    What is expected of a package is its wait on the past, moved (in logarithms) by a quarter of the way to its median
    over the futures. A period is that, and a random sum of how far the futures are from their median, with the futures'
    own covariance: the level of all packages by `Drift.level`, what tells packages apart by `Drift.apart`; and `OWN`.
    """
    futures = futures[~np.isnan(futures).all(axis=1)]
    known = ~np.isnan(futures).any(axis=0) if len(futures) else np.zeros(futures.shape[1], dtype=bool)
    if past is not None:
        known &= ~np.isnan(past)
    every = np.flatnonzero(known)
    if not len(every):
        return Outlook(np.empty((DRAWS, 0)), every, floor)
    log = _log(futures[:, every], floor)
    middle = np.median(log, axis=0)
    expected = middle
    if past is not None:
        expected = PAST_SHARE * _log(past[every], floor) + (1 - PAST_SHARE) * middle
    order = np.argsort(expected, kind="stable")
    chosen = np.union1d(order[:MOST_COMPARED], np.flatnonzero(np.isin(every, asked)))
    level, apart = _level_and_apart(log - middle, order)
    rng, n = np.random.default_rng(seed), len(log)
    draws = [rng.normal(size=(DRAWS, n)) / np.sqrt(n) for _ in range(2)]
    figures = (
        expected[chosen]
        + drift.level * (draws[0] @ level)[:, None]
        + drift.apart * draws[1] @ apart[:, chosen]
        + OWN * rng.normal(size=(DRAWS, len(chosen)))
    )
    return Outlook(np.exp(figures), every[chosen], floor)


def learn_drift(parts: np.ndarray, futures: np.ndarray, floor: float = REGRET_FLOOR) -> Drift:
    """Learn how far packages come apart from one time of the log to the next, as a share of how far futures do.

    Parameters
    ----------
    parts
        A figure of packages on each part of the past, one after the other, float64[parts, packages].
    futures
        The same on the futures, float64[futures, packages].
    floor
        Figures up to it are level.

    Notes
    -----
    At each cut between two parts, how much the best tenth before it came apart after it: the standard deviation of the
    logarithm of their change. Its mean square over the cuts, against that of the futures about their median, is
    averaged with the stated share, which counts as `DOUBT` cuts: three cuts of one log say little. The level is the
    stated one: a log that begins with an empty system would say that levels differ by orders of magnitude.
    """
    known = ~np.isnan(parts).any(axis=0) & ~np.isnan(futures).any(axis=0)
    if known.sum() < FEWEST_LEADERS or len(futures) < 2:
        return STATED
    parts, log = parts[:, known], _log(futures[:, known], floor)
    order = np.argsort(parts.mean(axis=0), kind="stable")
    _, apart = _level_and_apart(log - np.median(log, axis=0), order)
    drawn = float((apart[:, _leaders(order)] ** 2).mean())
    if drawn <= 0:
        return STATED
    came = []
    for cut in range(1, len(parts)):
        before, after = (_log(some.mean(axis=0), floor) for some in (parts[:cut], parts[cut:]))
        best = _leaders(np.argsort(before, kind="stable"))
        came.append(float((after - before)[best].var()))
    shown = sum(max(0.0, one - OWN**2) for one in came) / drawn
    share = (DOUBT * STATED.apart**2 + shown) / (DOUBT + len(came))
    return Drift(STATED.level, float(np.clip(np.sqrt(share), *_BOUNDS)))


def _log(figures: np.ndarray, floor: float) -> np.ndarray:
    return np.log(np.maximum(figures, _LEAST * floor))


def _leaders(order: np.ndarray) -> np.ndarray:
    return order[: max(FEWEST_LEADERS, len(order) // LEADING)]


def _level_and_apart(off: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Take apart how far futures are off their median: the leaders' level in each, and the rest."""
    level = off[:, _leaders(order)].mean(axis=1)
    return level, off - level[:, None]
