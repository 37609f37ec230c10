"""A mixture of experts whose weights follow their loss of late, and an interval that follows what it has held.

An expert weighs as much as its mean pinball loss over the last jobs to the minus eighth, times its prior. A job that
still waits counts by the loss that is certain by then: to look only at those that started would favour short waits. The
k-th job of a burst counts 1/√k, since jobs that wait together share one fate. At each level the stated quantile is the
mean, on a log scale, over the middle third of the weight, so that an expert far off in either direction cannot move it
until it has earned the weight. The interval of nine in ten is that of a share which rises with each wait that it misses
and falls with each that it holds (Gibbs and Candès 2021, "Adaptive conformal inference under distribution shift").
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
import pandas as pd

from procure.queue_time.distribution import FURTHEST, GRID, LEAST, SHARE, Distribution, with_interval
from procure.queue_time.features import BACKLOG, picked
from procure.queue_time.log import UNKNOWN, Outcomes
from procure.queue_time.view import RECENT_LEVELS, WEEK_MEDIAN, recent_columns

NAMES = ("together", "again", "backlog", "week")
"""The experts: the boosters' common curve, a median that is trained again, the time that the work ahead takes, and the
waits of the jobs that started in the partition within the last week."""
POINTS = np.array([False, True, True, False])
"""Which give one number, to which the spread of their recent errors is added."""
PRIORS = np.array([[0.74, 0.11, 0.05, 0.1], [0.15, 0.05, 0.75, 0.05]])
"""Their weights at equal losses, and those where more jobs wait than the boosters have ever seen: they cannot go on
beyond what they learnt from, the arithmetic of the work ahead can."""
MIDDLE = int(np.searchsorted(GRID, 0.5))
_WEEK_LEVELS = np.concatenate([[0.0], RECENT_LEVELS, [1.0]])
_FALLBACKS = {
    "last_like": ("like_log_wait_1", "user_log_wait_1"),
    "partition_5": ("partition_wait_5",),
    "week": (WEEK_MEDIAN,),
}


def broad(wait: np.ndarray) -> np.ndarray:
    """Return the quantiles of all waits at `distribution.GRID`, with room beyond the longest; (len(GRID),) seconds."""
    curve = np.quantile(wait, GRID)
    curve[-1] = 2 * curve[-1] + 3600
    return curve


def guess(features: pd.DataFrame, name: str, otherwise: float) -> np.ndarray:
    """Return a naive guess that the features hold, in seconds: of `_FALLBACKS`."""
    found = np.full(len(features), np.nan)
    for column in _FALLBACKS[name]:
        if column in features.columns:
            values = picked(features, (column,))[:, 0].astype(float)
            found = np.where(np.isnan(found), values if "_wait_5" in column else np.expm1(values), found)
    return np.where(np.isnan(found), otherwise, found)


def stack(together: np.ndarray, again: np.ndarray, features: pd.DataFrame, usual: np.ndarray) -> np.ndarray:
    """Return every expert's quantiles of every row: (n, len(NAMES), len(GRID)) float32, the logarithm of 1 + seconds.

    ``together`` (n, len(GRID)) are quantiles and ``again`` (n,) medians of boosters, s; ``usual`` is of `broad`. A
    point expert's quantiles are all its point. What is not a finite number is the training part's, so that nothing else
    is ever weighed.
    """
    points = (again, picked(features, (BACKLOG,))[:, 0].astype(float))
    logs = [np.log1p(together), *(np.log1p(np.maximum(one, 0.0))[:, None] for one in points), _week(features, usual)]
    found = np.stack([np.broadcast_to(one, (len(features), len(GRID))) for one in logs], axis=1).astype(np.float32)
    return np.where(np.isfinite(found), found, np.log1p(usual).astype(np.float32))


def _week(features: pd.DataFrame, usual: np.ndarray) -> np.ndarray:
    """Return the quantiles of the last week at `GRID`; of an empty week the last month's, else all waits'."""
    week, month = (picked(features, recent_columns(name)).astype(float) for name in ("week", "month"))
    known = np.where(np.isnan(week), month, week)
    known = np.where(np.isnan(known), np.interp(RECENT_LEVELS, GRID, np.log1p(usual)), known)
    last = np.maximum(known[:, -1] + 0.5, np.log1p(usual[-1]))
    whole = np.column_stack([np.zeros(len(features)), known, last])
    at = np.clip(np.searchsorted(_WEEK_LEVELS, GRID), 1, len(_WEEK_LEVELS) - 1)
    part = (GRID - _WEEK_LEVELS[at - 1]) / (_WEEK_LEVELS[at] - _WEEK_LEVELS[at - 1])
    return np.asarray(whole[:, at - 1] * (1 - part) + whole[:, at] * part)


EVERY = 10
"""Submissions after which weights and share are renewed where outcomes are learnt as they come."""
N_WINDOW, HALF_LIFE, N_PRIOR = 1000, 100.0, 10.0
"""The last submissions that are looked at; how many later ones halve their weight; the weight of the usual loss."""
POWER = 8.0
RATE = 0.01
"""How far a wait moves the share."""
N_ERRORS = 200
"""The recent errors, in log seconds, that spread a point expert."""
SPREAD = np.log(2) * np.interp(GRID, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1], [-4, -2, -0.7, 0, 0.7, 2, 3])
"""Their quantiles at `distribution.GRID` before there are 20."""
_LEVELS = np.clip(GRID, 0.005, 0.995)


@dataclass(frozen=True)
class Stated:
    """What was said of jobs as they were submitted.

    ``curve`` (n, len(GRID)) corrected quantiles in seconds; ``weights`` (n, len(NAMES)); ``experts``
    (n, len(NAMES), len(GRID)) each expert's own quantiles as log(1 + seconds).
    """

    curve: np.ndarray
    weights: np.ndarray
    experts: np.ndarray


@dataclass
class Mixture:
    """The last jobs as they were stated, from which all is learnt.

    ``jobs`` (m,) and what became of them, ``experts`` of `Stated` and ``ends`` (m, 2) of their intervals, s;
    ``counted`` (m,) which of them have moved the ``share`` whose interval is given as that of `distribution.SHARE`;
    ``until`` the moment up to which outcomes are known.
    """

    jobs: Outcomes = field(default_factory=Outcomes.none)
    experts: np.ndarray = field(default_factory=lambda: np.zeros((0, len(NAMES), len(GRID)), np.float32))
    ends: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    counted: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    share: float = SHARE
    until: float = -UNKNOWN

    def say(self, raw: np.ndarray, beyond: np.ndarray, top: float) -> np.ndarray:
        """Return the curves (n, len(GRID)), s, that are stated now for experts ``raw``; see `roll`."""
        return self._state(raw, beyond, top, self.until).curve

    def roll(
        self,
        jobs: Outcomes,
        raw: np.ndarray,
        beyond: np.ndarray,
        top: float,
        until: float = UNKNOWN,
        every: float = 0,
    ) -> Stated:
        """State the distribution of jobs, submitted after those seen so far, and learn from outcomes as they are known.

        ``raw`` (n, len(NAMES), len(GRID)) is of `stack`; ``beyond`` (n,) says before which far more jobs wait
        than the boosters know; ``top`` is the longest log wait that an expert is spread to. There are ``every`` s
        between updates, counted from ``self.until``: 0 learns at once, infinity never. What is known by ``until`` is
        learnt before it returns, unless that is never.
        """
        looks = last_looks(jobs.submit, self.until, every)
        starts = np.arange(0, len(jobs), EVERY)
        if every:
            starts = np.flatnonzero(np.diff(looks, prepend=-np.inf) > 0)
        parts = [self._state(raw[:0], beyond[:0], top, self.until)]
        for first, last in zip(starts, np.append(starts, len(jobs))[1:], strict=True):
            self._count(looks[first])
            rows = slice(first, last)
            said = self._state(raw[rows], beyond[rows], top, looks[first])
            self._follow(jobs.take(np.arange(first, last)), said)
            parts.append(said)
        if np.isfinite(every):
            self.until = until
            self._count(until)
        return Stated(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Stated)))

    def _follow(self, jobs: Outcomes, said: Stated) -> None:
        interval = Distribution(said.curve).interval()
        ends = np.column_stack([np.floor(interval[:, 0]), np.ceil(interval[:, 1])])
        last = slice(-N_WINDOW, None)
        self.jobs = self.jobs.then(jobs).take(np.arange(len(self.jobs) + len(jobs))[last])
        self.experts = np.concatenate([self.experts, said.experts])[last]
        self.ends = np.concatenate([self.ends, ends])[last]
        self.counted = np.concatenate([self.counted, np.zeros(len(ends), bool)])[last]

    def _count(self, now: float) -> None:
        """Move the share by the waits of which it has become known whether their intervals held them."""
        jobs, (low, high) = self.jobs, self.ends.T
        wait = jobs.left - jobs.submit
        over = wait > high
        known = np.where(over, jobs.submit + high + 1, np.where(jobs.started, jobs.left, UNKNOWN))
        new = (known < now) & ~self.counted
        missed = (over | (wait < low)) - (1 - SHARE)
        self.share = float(np.clip(self.share + RATE * (missed / np.sqrt(jobs.rank))[new].sum(), LEAST, FURTHEST))
        self.counted |= new

    def _state(self, raw: np.ndarray, beyond: np.ndarray, top: float, now: float) -> Stated:
        """Return what is stated of jobs from what is known at a moment."""
        spread, weights = raw.astype(np.float64), self.weights(beyond, now)
        spread[:, POINTS] = np.clip(spread[:, POINTS] + self._offsets(now), 0.0, top)
        curve = combine(spread, weights)
        curve[:, 0] = 0.0
        curve[:, -1] = np.maximum(curve[:, -1], top)
        curve = np.expm1(np.maximum.accumulate(curve, axis=1))
        return Stated(with_interval(curve, self.share), weights, spread.astype(np.float32))

    def _offsets(self, now: float) -> np.ndarray:
        """Return the quantiles at `GRID` of the point experts' recent log errors, (points, G), that of the median 0."""
        jobs = self.jobs
        last = np.flatnonzero(jobs.started & (jobs.left < now))
        last = last[np.argsort(jobs.left[last], kind="stable")][-N_ERRORS:]
        found = np.tile(SPREAD, (int(POINTS.sum()), 1))
        if len(last) >= 20:
            wait = np.log1p(jobs.left[last] - jobs.submit[last])
            found = np.quantile(wait[:, None] - self.experts[last][:, POINTS, MIDDLE], _LEVELS, axis=0).T
        below = np.arange(len(GRID)) < MIDDLE
        found = np.where(below, np.minimum(found, 0), np.maximum(found, 0))
        found[:, MIDDLE] = 0.0
        return found

    def weights(self, beyond: np.ndarray, now: float) -> np.ndarray:
        """Return the weights (n, len(NAMES)) at a moment for jobs that are ``beyond`` what the boosters know or not."""
        jobs = self.jobs
        worth = np.ones(len(NAMES))
        if len(jobs):
            age = np.maximum(np.minimum(jobs.left, now) - jobs.submit, 0.0)[:, None, None]
            over, level = age - np.expm1(self.experts[:, :, 1:-1].astype(float)), GRID[1:-1]
            started = (jobs.started & (jobs.left < now))[:, None, None]
            losses = np.where(over > 0, level * over, np.where(started, (level - 1) * over, 0.0)).mean(axis=2)
            counts = 0.5 ** (np.arange(len(jobs))[::-1] / HALF_LIFE) / np.sqrt(jobs.rank)
            usual = PRIORS[0] @ (counts @ losses) / counts.sum()
            loss = (counts @ losses + N_PRIOR * usual) / (counts.sum() + N_PRIOR)
            worth = (np.maximum(loss, 1e-9) / max(loss.min(), 1e-9)) ** -POWER
        weights = PRIORS[beyond.astype(int)] * worth
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def combine(spread: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the log curves (n, G) in the middle of experts (n, K, G) with weights (n, K)."""
    order = np.argsort(spread, axis=1, kind="stable")
    weight = np.take_along_axis(np.broadcast_to(weights[:, :, None], spread.shape), order, axis=1)
    up_to = np.cumsum(weight, axis=1)
    inside = np.maximum(np.minimum(up_to, 2 / 3) - np.maximum(up_to - weight, 1 / 3), 0.0)
    return np.asarray(3 * (inside * np.take_along_axis(spread, order, axis=1)).sum(axis=1))


def last_looks(now: np.ndarray, began: float, every: float) -> np.ndarray:
    """Return when outcomes were last looked at by moments (n,): all the time, or every so often from ``began`` on."""
    if every == 0:
        return now
    last = np.full(len(now), began) if np.isinf(every) else began + (now - began) // every * every
    return np.where(now <= began, now, last)
