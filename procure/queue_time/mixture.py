"""An online mixture of experts: quantile curves averaged with weights that follow the recent loss of each.

Exponential weights with fixed share (Herbster and Warmuth 1998, "Tracking the best expert") over the pinball loss,
summed over the levels, at several learning rates, which are weighed likewise by what their weights lost (as in
van Erven and Koolen 2016, "MetaGrad"): nobody knows beforehand how fast a queue changes. Loss accrues while a job
waits, since a job that still waits after s seconds is known to wait longer: what is certain of it by then counts then,
and the rest when the job starts. While many forecasts are unresolved the weights move slowly, as learning from delayed
outcomes must (Joulani, György and Szepesvári 2013): jobs that wait together share one fate. For the same reason the
k-th job of a burst moves them by 1/√k as far. At each level the stated quantile is the mean, on a log scale, over the
middle third of the weight, so that an expert far off in either direction cannot move it until it has earned the weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import pairwise

import numpy as np

from procure.queue_time.calibrate import (
    DEADLINES,
    EVERY,
    GRID,
    HALF_LIFE_CHANCES,
    N_PLACES,
    N_WINDOW,
    SHARE,
    blended,
    by_now,
    chances_at,
    relevelled,
    scores,
    share_for,
    shifts,
    trust,
    with_interval,
)
from procure.queue_time.experts import IS_MOVED, IS_POINT, MIDDLE, MOST_WEIGHT, N_ERRORS, NAMES, PRIORS, RATES, SPREAD
from procure.queue_time.log import UNKNOWN, Outcomes

MOST_WAITING = 5000
"""A job that still waits after this number of later submissions is no longer followed."""
_AGES = np.concatenate([[0.0], 300 * 2.0 ** np.arange(16)])
"""Seconds at which a waiting job's loss so far is looked at."""


@dataclass(frozen=True)
class Stated:
    """What was said of jobs as they were submitted.

    ``curve`` (n, len(GRID)) corrected quantiles in seconds, ``mixed`` the same before the correction; ``weights``
    (n, len(NAMES)); ``experts`` (n, len(NAMES), len(GRID)) each expert's own quantiles as log(1 + seconds).
    """

    curve: np.ndarray
    mixed: np.ndarray
    weights: np.ndarray
    experts: np.ndarray


@dataclass
class Mixture:
    """The state of the mixture: what it has learnt, and the jobs whose outcomes it awaits or has just seen.

    ``prior`` (K,) the weights that it starts from and that a share returns to; ``copies`` (P, K) those learnt at each
    pace and ``paces`` (P,) how far each pace is trusted; ``errors`` (K, N_ERRORS) recent log errors of which
    ``n_errors`` have been seen; ``moved`` (K, G) their quantiles; ``scale`` (G,) and ``seen``: the discounted loss and
    number of outcomes; ``until`` the moment up to which outcomes are known; ``jobs``, ``curve`` (m, G) log quantiles,
    ``even`` the same by `calibrate.relevelled`, and ``experts`` (m, K, G): the last jobs and those that wait, as they
    were stated, which `roll` goes on from; ``full`` the same corrected in full; ``shift`` what is added to chances,
    ``share`` whose interval is given as that of `calibrate.SHARE`, and ``trust`` (G,) how far each level is corrected,
    until it does.
    """

    prior: np.ndarray = field(default_factory=PRIORS[0].copy)
    copies: np.ndarray = field(default_factory=lambda: np.zeros((0, len(NAMES))))
    paces: np.ndarray = field(default_factory=lambda: np.full(len(RATES), 1 / len(RATES)))
    errors: np.ndarray = field(default_factory=lambda: np.zeros((len(NAMES), N_ERRORS)))
    n_errors: int = 0
    moved: np.ndarray = field(default_factory=lambda: np.tile(SPREAD, (len(NAMES), 1)))
    scale: np.ndarray = field(default_factory=lambda: np.ones(len(GRID)))
    seen: float = 1.0
    until: float = -UNKNOWN
    jobs: Outcomes = field(default_factory=Outcomes.none)
    curve: np.ndarray = field(default_factory=lambda: np.zeros((0, len(GRID))))
    even: np.ndarray = field(default_factory=lambda: np.zeros((0, len(GRID))))
    full: np.ndarray = field(default_factory=lambda: np.zeros((0, len(GRID))))
    experts: np.ndarray = field(default_factory=lambda: np.zeros((0, len(NAMES), len(GRID)), np.float32))
    shift: np.ndarray = field(default_factory=lambda: np.zeros((len(DEADLINES), N_PLACES)))
    share: float = SHARE
    trust: np.ndarray = field(default_factory=lambda: np.ones(len(GRID)))

    def __post_init__(self) -> None:
        """Begin every pace at the prior."""
        if not len(self.copies):
            self.copies = np.tile(self.prior, (len(RATES), 1))

    @property
    def weights(self) -> np.ndarray:
        """The weights of the experts, (K,): those of each pace as far as it is trusted, none above `MOST_WEIGHT`."""
        weights, over = self.paces @ self.copies, np.zeros(len(self.prior), bool)
        while (weights > MOST_WEIGHT + 1e-9).any():
            over |= weights > MOST_WEIGHT
            left = (1 - MOST_WEIGHT * over.sum()) / max(weights[~over].sum(), 1e-12)
            weights = np.where(over, MOST_WEIGHT, weights * left)
        return weights

    def half_back(self) -> None:
        """Put half of the prior back: what was learnt on a few bursts may not hold of those to come."""
        self.copies = (self.copies + self.prior) / 2

    def say(self, raw: np.ndarray, top: float) -> np.ndarray:
        """Return the corrected curves (n, len(GRID)), seconds, that are stated now for the experts ``raw``."""
        said = np.expm1(combine(raw, self.weights, self.moved, top))
        return blended(said, with_interval(relevelled(said, self.shift), self.share), self.trust)

    def _shifts(self, end: int, now: float, curve: np.ndarray, chance: np.ndarray) -> np.ndarray:
        """Return what is to be added to the chances of ``curve`` (m, G), s, from what is known at ``now``.

        The outcomes of one burst share one fate: the k-th of its jobs counts 1/k.
        """
        window = slice(max(0, end - N_WINDOW), end)
        age, waits = self._ages(window, now)
        weight = 0.5 ** (np.arange(len(age))[::-1] / HALF_LIFE_CHANCES) / self.jobs.rank[window]
        known = by_now(chance[window], curve[window], age, waits, self.jobs.started[window])
        return shifts(chance[window], known, weight)

    def _trust(self, end: int, now: float) -> np.ndarray:
        """Return how far each level of `calibrate.GRID` is to be corrected, from what is known at ``now``."""
        window = slice(max(0, end - N_WINDOW), end)
        age, waits = self._ages(window, now)
        weight = 0.5 ** (np.arange(len(age))[::-1] / HALF_LIFE_CHANCES) / self.jobs.rank[window]
        ended = ~waits & self.jobs.started[window]
        return trust(np.expm1(self.curve[window]), np.expm1(self.full[window]), age, ended, weight)

    def _ages(self, window: slice, now: float) -> tuple[np.ndarray, np.ndarray]:
        """Return how long jobs waited until ``now``, s, and which still do."""
        submit, left = self.jobs.submit[window], self.jobs.left[window]
        return np.maximum(np.minimum(left, now) - submit, 0.0), left >= now

    def _share(self, end: int, now: float) -> float:
        """Return the share whose interval is to be stated as that of `SHARE`, from what is known at ``now``."""
        window = slice(max(0, end - N_WINDOW), end)
        age, waits = self._ages(window, now)
        curve, ended = np.expm1(self.even[window]), ~waits & self.jobs.started[window]
        return share_for(
            np.where(ended, scores(age, curve), scores(age, curve, at_least=True)),
            ended,
            1 / np.sqrt(self.jobs.rank[window]),
        )

    def roll(self, jobs: Outcomes, raw: np.ndarray, top: float, until: float = UNKNOWN, every: float = 0) -> Stated:
        """State the distribution of jobs as they come, and learn from each outcome when it is known.

        Parameters
        ----------
        jobs
            (n,) jobs submitted after those seen so far.
        raw
            (n, len(NAMES), len(GRID)) of `experts.stack`.
        top
            The longest log wait that an expert may be moved to.
        until
            What is known by then is learnt before it returns, unless ``every`` is infinity.
        every
            Seconds between updates, counted from ``self.until``; 0 learns at once, infinity never.
        """
        first, n = len(self.jobs), len(self.jobs) + len(jobs)
        both = self.jobs.then(jobs)
        news = _news(both, first, self.until, until, every)
        spread = np.concatenate([self.experts, np.empty_like(raw)])
        curve = np.concatenate([self.curve, np.empty((len(jobs), len(GRID)))])
        said = np.empty((n, len(NAMES)))
        waiting = int((self.jobs.left >= self.until).sum())
        from procure.queue_time import weighing  # Numba, which a mixture that only predicts does without

        learnt = weighing.Learnt(
            self.prior, self.copies, self.paces, self.errors, self.moved, self.scale, self.n_errors, self.seen, waiting
        )
        self.n_errors, self.seen = weighing.roll(
            weighing.Jobs(both.submit, both.rank, both.open_rank, raw, top, MOST_WEIGHT),
            weighing.News(*news),
            learnt,
            weighing.Told(spread, curve, said),
        )
        began, self.jobs, self.curve = self.until, both, curve
        self.even, self.full = (
            np.concatenate([one, np.empty((len(jobs), len(GRID)))]) for one in (self.even, self.full)
        )
        stated = np.empty((len(jobs), len(GRID)))
        plain = np.expm1(curve)
        chance = chances_at(plain)
        looks = last_looks(both.submit[first:], began, every)
        if every:  # what is stated is corrected at a look alone, as a model is that is used between two updates
            begins = first + np.flatnonzero(np.diff(looks, prepend=-np.inf) > 0)
        else:
            begins = np.arange(first, n, EVERY)
        for begin, end in zip(begins.tolist(), np.append(begins, n)[1:].tolist(), strict=True):
            rows, now = slice(begin, end), looks[begin - first]
            moved = relevelled(plain[rows], self._shifts(begin, now, plain, chance))
            self.even[rows] = np.log1p(moved)
            corrected = with_interval(moved, self._share(begin, now))
            self.full[rows] = np.log1p(corrected)
            stated[begin - first : rows.stop - first] = blended(plain[rows], corrected, self._trust(begin, now))
        if np.isfinite(every):
            self.until = until
        age = n - np.arange(n)
        keep = np.flatnonzero((age <= N_WINDOW) | ((both.left >= until) & (age <= MOST_WAITING)))
        self.jobs = both.take(keep)
        self.curve, self.even, self.full, self.experts = curve[keep], self.even[keep], self.full[keep], spread[keep]
        known = len(self.jobs)
        self.shift = self._shifts(known, self.until, plain[keep], chance[keep])
        self.share, self.trust = self._share(known, self.until), self._trust(known, self.until)
        return Stated(stated, plain[first:], said[first:], spread[first:])


@dataclass
class Mixtures:
    """Two mixtures: one of jobs as those of the training, one of jobs before which more wait than ever before.

    Where the boosters stand at the edge of what they have learnt, other experts are to be trusted, and what is learnt
    there of them says nothing of ordinary jobs.
    """

    usual: Mixture = field(default_factory=Mixture)
    beyond: Mixture = field(default_factory=lambda: Mixture(PRIORS[1].copy()))

    def __iter__(self) -> Iterator[Mixture]:
        """Go through the usual one and the one beyond."""
        return iter((self.usual, self.beyond))

    def set_until(self, moment: float) -> None:
        """Take it that outcomes are known up to a moment, Unix seconds."""
        for one in self:
            one.until = moment

    def half_back(self) -> None:
        """Put half of the prior back in both."""
        for one in self:
            one.half_back()

    def weights(self, beyond: np.ndarray) -> np.ndarray:
        """Return the weights (n, len(NAMES)) of jobs of which ``beyond`` (n,) tells the mixture."""
        return np.where(beyond[:, None], self.beyond.weights, self.usual.weights)

    def say(self, raw: np.ndarray, beyond: np.ndarray, top: float) -> np.ndarray:
        """Return what each job's mixture states, (n, len(GRID)) seconds; see `Mixture.say`."""
        found = np.empty((len(raw), len(GRID)))
        for one, rows in zip(self, (~beyond, beyond), strict=True):
            if rows.any():
                found[rows] = one.say(raw[rows], top)
        return found

    def roll(
        self,
        jobs: Outcomes,
        raw: np.ndarray,
        beyond: np.ndarray,
        top: float,
        until: float = UNKNOWN,
        every: float = 0,
    ) -> Stated:
        """State jobs as they come and learn, each with its mixture; see `Mixture.roll`."""
        n, k, g = raw.shape
        found = Stated(np.empty((n, g)), np.empty((n, g)), np.empty((n, k)), np.empty((n, k, g), np.float32))
        for one, rows in zip(self, (~beyond, beyond), strict=True):
            said = one.roll(jobs.take(np.flatnonzero(rows)), raw[rows], top, until, every)
            for part in fields(Stated):
                getattr(found, part.name)[rows] = getattr(said, part.name)
        return found


def combine(raw: np.ndarray, weights: np.ndarray, moved: np.ndarray, top: float) -> np.ndarray:
    """Return the log curves (n, G) of experts ``raw`` (n, K, G) with weights (K,), as `weighing.roll` makes them."""
    middle = moved[:, MIDDLE]
    off = moved - np.where(IS_MOVED, middle, 0.0)[:, None]
    off = np.where(np.arange(len(GRID)) < MIDDLE, np.minimum(off, 0), np.maximum(off, 0))
    off[:, MIDDLE] = 0.0
    spread = raw + np.where(IS_MOVED, middle, 0.0)[:, None] + np.where(IS_POINT[:, None], off, 0.0)
    spread = np.where((IS_POINT | IS_MOVED)[:, None], np.clip(spread, 0.0, top), raw)
    order = np.argsort(spread, axis=1, kind="stable")
    up_to = np.cumsum(weights[order], axis=1)
    inside = np.minimum(up_to, 2 / 3) - np.maximum(up_to - weights[order], 1 / 3)
    curve = 3 * (np.maximum(inside, 0.0) * np.take_along_axis(spread, order, axis=1)).sum(axis=1)
    curve[:, 0] = 0.0
    curve[:, -1] = np.maximum(curve[:, -1], top)
    return np.maximum.accumulate(curve, axis=1)


def last_looks(now: np.ndarray, began: float, every: float) -> np.ndarray:
    """Return when outcomes were last looked at by moments (n,): all the time, or every so often from ``began`` on."""
    if every == 0:
        return now
    last = np.full(len(now), began) if np.isinf(every) else began + (now - began) // every * every
    return np.where(now <= began, now, last)


def _news(
    jobs: Outcomes, first: int, since: float, until: float, every: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """List what becomes known by ``until``: when, of which row, between which ages, and how it ends.

    Of the jobs before row ``first`` what was known by ``since`` has been learnt; of later ones nothing has, even
    where a log that tells of starts long after its last submission has moved ``since`` beyond theirs. A job that
    waits is looked at again each time its age has doubled. The kind is 0 while it waits, 1 as it starts, 2 as it
    gives up.
    """
    age = jobs.left - jobs.submit
    parts = []
    for low, high in pairwise(_AGES):
        on = np.flatnonzero(age > high)
        parts.append((jobs.submit[on] + high, on, np.full(len(on), low), np.full(len(on), high), 0 * on))
        off = np.flatnonzero((age <= high) & ((age > low) | (low == 0)))
        kind = np.where(jobs.started[off], 1, 2)
        parts.append((jobs.left[off], off, np.full(len(off), low), age[off], kind))
    time, row, begin, end, kind = (np.concatenate(part) for part in zip(*parts, strict=True))
    if every and np.isfinite(since):
        late = np.full(len(time), UNKNOWN)
        if np.isfinite(every):  # a look at a moment tells of what happened before it, as `until` does
            late = since + ((time - since) // every + 1) * every
            # What happens before the pass ends is learnt at its end, not lost between two passes.
            late = np.where(time < until, np.minimum(late, np.nextafter(until, 0)), late)
        time = np.where(time >= since, late, time)
    order = np.lexsort((end, row, time))
    order = order[((time[order] >= since) | (row[order] >= first)) & (time[order] < until)]
    return time[order], row[order], begin[order], end[order], kind[order]
