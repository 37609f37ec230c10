"""How much a log's load changes in four weeks beyond what it changes in one: by class, by user, and in all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.schemas import CLASSES

LAG = 4
"""Weeks: futures of four weeks stand as far from the past on average."""
FEWEST_PAIRS = 2
"""From so many pairs of weeks `LAG` apart on, spreads are learnt."""
DOUBT = 4
"""The stated spreads count as so many pairs beside those of the log."""
_FEW = 0.01
"""A class with less than this share of the load says nothing of how classes change."""


class Spreads(NamedTuple):
    """Standard deviations of the logarithm of the load, of each class's part of it, and of each user's."""

    load: float
    by_class: float
    by_user: float


STATED = Spreads(0.2, 0.6, 1.5)
"""What holds where a log is too short to learn from (how they were fixed: docs/claims/forward.md)."""
_MOST = Spreads(1.0, 2.0, 2.0)


def learn_spreads(week: np.ndarray, job_class: np.ndarray, owner: np.ndarray, load: np.ndarray) -> tuple[Spreads, int]:
    """Learn spreads from how a week's load differs from that of four weeks before.

    Parameters
    ----------
    week, job_class, owner, load
        Of each burst: its week, from 0 (negative: of none), place in `CLASSES`, whose it is, from 0, and CPU-seconds.

    Returns
    -------
    Spreads
        `STATED` where there are fewer than `FEWEST_PAIRS` pairs of weeks.
    int
        How many pairs they were learnt from; 0 = from none.

    Notes
    -----
    Futures are drawn from whole weeks, so they hold what differs from one week to the next; a spread is the rest. With
    x the logarithm of the load, or of a class's share of it, it is E(x[t + 4] − x[t])² − E(x[t + 1] − x[t])², of
    classes the median: a class of few jobs changes in weeks by more than any class does in months. Users
    come and go, so theirs is found by moments: with factors of mean 1 and spread s, the squared distance of the users'
    shares of two weeks is e^(s²) − 1 times the squares of the earlier ones, beside what each burst's own coming or not
    adds. Variances are averaged with the stated ones, which count as `DOUBT` pairs.
    """
    there = (week >= 0) & (load > 0)
    week, job_class, owner, load = week[there], job_class[there], owner[there], load[there]
    n = int(week.max(initial=-1)) + 1
    pairs = n - LAG
    total = np.bincount(week, load, n)
    if pairs < FEWEST_PAIRS or not (total > 0).all():
        return STATED, 0
    by_class = np.bincount(week * len(CLASSES) + job_class, load, n * len(CLASSES)).reshape(n, -1)
    some = by_class[:, by_class.sum(axis=0) >= _FEW * total.sum()]
    # A class without a job in a week had less than the least that it had in any: its least, not nothing.
    least = np.where(some > 0, some, np.inf).min(axis=0)
    shares = np.log(np.maximum(some, least) / total[:, None])
    found = Spreads(
        _beyond_a_week(np.log(total)[:, None]),
        _beyond_a_week(shares) if shares.shape[1] > 1 else STATED.by_class**2,
        _by_user(week, owner, load / total[week], n),
    )
    weight = pairs / (pairs + DOUBT)
    variances = [weight * mine + (1 - weight) * stated**2 for mine, stated in zip(found, STATED, strict=True)]
    return Spreads(*(min(float(np.sqrt(v)), most) for v, most in zip(variances, _MOST, strict=True))), pairs


def _beyond_a_week(x: np.ndarray) -> float:
    far, near = (np.mean((x[lag:] - x[:-lag]) ** 2, axis=0) for lag in (LAG, 1))
    return max(0.0, float(np.median(far - near)))


def _by_user(week: np.ndarray, owner: np.ndarray, share: np.ndarray, n: int) -> float:
    """Return the variance s² of the logarithm of users' factors."""
    place = np.unique(owner, return_inverse=True)[1]
    key, at = np.unique(place.astype(np.int64) * n + week, return_inverse=True)
    held = np.bincount(at, share)  # by owner and week, where there is any
    squares = np.bincount(key % n, held**2, n)
    later = np.searchsorted(key, key + LAG)
    later = np.minimum(later, len(key) - 1)
    same = (key[later] == key + LAG) & (key % n + LAG < n)
    product = np.bincount(key[same] % n, held[same] * held[later[same]], n)
    own = np.bincount(week, share**2, n)  # what the bursts' own coming or not adds
    apart = squares[LAG:] + squares[:-LAG] - 2 * product[:-LAG] - own[:-LAG]
    return float(np.log1p(max(0.0, apart.sum() / squares[:-LAG].sum())))
