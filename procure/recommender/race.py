"""A race of packages over futures: those that are out get no more runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import stdtrit

from procure.objectives.aggregate import RANK_POWER, REGRET_FLOOR, behind_on_past, class_shares, rank_shares
from procure.progress import silent

Simulate = Callable[[int, np.ndarray], np.ndarray]
"""From a future and rows of packages to their mean waits on it, s; or to float64[1 + classes, rows], all jobs first."""

Score = Callable[[np.ndarray], np.ndarray]
"""From waits on some futures, float64[futures, packages] or float64[futures, 1 + classes, packages], to scores,
float64[futures, packages]; the least mean wins."""

OUT = 0.95
"""A package is out if it is worse than the leader by a one-sided paired t-test at this level."""
FEWEST_KEPT = 10
"""So many run on every future at least, if the budget allows."""
FEWEST_FUTURES = 5
"""From so many futures on a package may be out."""
PILOT, BATCH, ROUNDS, MOST_ROUNDS = 40, 20, 5, 20
"""Pilot size (at most a third of the affordable packages) and batch size, adjusted to give 5 to 20 rounds."""
NEAR_BATCH = 10
"""So many neighbours of the leader run before the model looks again."""
MOST_LEARNT = 500
"""The model learns from so many packages at most: the first ones, which were drawn at random, and the best others."""
_PREDICTED_AT_ONCE = 4096
REACH, NOISE = 3.0, 0.03
"""Of the Gaussian process: its length, in standard deviations of a feature, and its noise against the variance."""


def as_it_is(wait: np.ndarray) -> np.ndarray:
    """Score packages by their waits."""
    return wait


def by_rank(wait: np.ndarray) -> np.ndarray:
    """Score packages as the objective ``rank`` does: by the squares of the shares that are better."""
    return rank_shares(wait) ** RANK_POWER


def by_class_rank(wait: np.ndarray) -> np.ndarray:
    """Score packages as the objective ``rank-by-class`` does, by the waits of all jobs and of each class."""
    return class_shares(wait)


@dataclass(frozen=True)
class Race:
    """What a race gave.

    Attributes
    ----------
    wait
        Mean wait of each package on each future, s, float64[futures, packages]; NaN where it did not run.
    filled
        The same with predictions where it did not run.
    order
        Rows, best first: those that ran on every future by their mean score, then the others as predicted; a score
        that compares packages compares all of them, by predictions where they did not run.
    n_runs
        How many runs it took.
    figure
        What the packages are ordered by: their mean scores, float64[packages].
    """

    wait: np.ndarray
    filled: np.ndarray
    order: np.ndarray
    n_runs: int
    figure: np.ndarray

    @property
    def finished(self) -> np.ndarray:
        """Rows of the packages that ran on every future, best first."""
        return self.order[~np.isnan(self.wait[:, self.order]).any(axis=0)]


def features_of(counts: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return what the model knows packages by: the logarithms of their nodes and totals, standardised.

    Parameters
    ----------
    counts
        int64[packages, types].
    totals
        CPUs, memory and GPUs, float64[packages, 3].
    """
    found = np.log1p(np.column_stack([counts.sum(axis=1), totals]).astype("float64"))
    return (found - found.mean(axis=0)) / np.maximum(found.std(axis=0), 1e-9)


class Exchanges(NamedTuple):
    """What ends a race: packages that are one exchange away from the leader (one node more of this, one less of that).

    ``near`` takes the leader's row and returns the features of the whole field, packages that are new at its end, and
    the rows of the leader's neighbours; ``runs`` of the budget are kept for them.
    """

    near: Callable[[int], tuple[np.ndarray, np.ndarray]]
    runs: int


def race(
    simulate: Simulate,
    features: np.ndarray,
    futures: np.ndarray,
    runs: int,
    kept: int = FEWEST_KEPT,
    score: Score = as_it_is,
    note: Callable[[int, int], None] = silent,
    *,
    weights: np.ndarray | None = None,
    exchanges: Exchanges | None = None,
    past: int | None = None,
) -> Race:
    """Race packages over futures, the same futures for all of them.

    Parameters
    ----------
    simulate
        Simulates some packages on a future.
    features
        From `features_of`, the packages in random order: the first of them run first.
    futures
        The futures in the order in which they are run.
    runs
        The budget, package × future. If it does not let two packages run on all futures, two do.
    kept
        So many run on every future, if the budget allows.
    score
        What packages are compared by; finite or infinite, never NaN.
    note
        Called with the runs done and the budget.
    weights
        What each future counts, float64[futures]; default: all alike.
    exchanges
        How the race ends; default: with the packages given.
    past
        Which of the futures is the whole past, where packages that wait too long on it stand behind all others, see
        `behind_on_past`.

    Notes
    -----
    The first packages run on all futures. From these a Gaussian process of the totals learns the logarithm of the
    wait on each future; those that it expects to score best run next, and so on. A package that is worse than the
    leader by a one-sided paired t-test at 95 % gets no more runs. What is chosen has run on every future. A run that
    failed has an infinite wait: the model does not learn from its package. With ``exchanges``, the leader's neighbours
    run last, those first that the model expects to score best, then those of the new leader, until none of a leader's
    is better or the budget is used up. (Jones,
    Schonlau and Welch 1998, Efficient global optimization of expensive black-box functions, Journal of Global
    Optimization 13; Birattari et al. 2002, A racing algorithm for configuring metaheuristics, GECCO.)
    """
    n, n_futures = len(features), len(futures)
    last = 0 if exchanges is None else min(exchanges.runs, runs)
    affordable = min(n, max(2, (runs - last) // n_futures))
    pilot = np.arange(min(affordable, PILOT, max(2, affordable // 3)))
    share = np.ones(n_futures) if weights is None else weights * n_futures / weights.sum()
    field = _Field(simulate, features, futures, score, share, pilot, past)
    batch = min(max(BATCH, affordable // MOST_ROUNDS), max(1, (affordable - len(pilot)) // ROUNDS))
    while True:
        note(field.n_runs, runs)
        field.look()
        untried, left = np.flatnonzero(~field.ran.any(axis=0)), (runs - last - field.n_runs) // n_futures
        new = field.best_first(untried)[: min(batch, max(left, 0))]
        if not len(new):
            break
        field.run(new, all_stay=len(field.whole) + min(left, len(untried)) - len(new) < kept)
    while exchanges is not None and (runs - field.n_runs) // n_futures > 0:
        leader = field.leader
        more, near = exchanges.near(leader)
        field.grow(more)
        near = near[~field.ran[:, near].any(axis=0)]
        while len(near) and field.leader == leader and (left := (runs - field.n_runs) // n_futures) > 0:
            near = field.best_first(near)
            field.run(near[: min(NEAR_BATCH, left)], all_stay=False)
            near = near[NEAR_BATCH:]
            note(field.n_runs, runs)
            field.look()
        if field.leader == leader:
            break
    return field.result()


class _Field:
    """The packages of a race, and what is known of them."""

    def __init__(
        self,
        simulate: Simulate,
        features: np.ndarray,
        futures: np.ndarray,
        score: Score,
        share: np.ndarray,
        pilot: np.ndarray,
        past: int | None,
    ) -> None:
        """Let the pilot run on all futures."""
        self._past = past
        self._simulate, self._features, self._futures, self._share = simulate, features, futures, share
        self._score, self._n_pilot = score, len(pilot)
        first = [simulate(int(future), pilot) for future in futures]
        self._wait = np.full((len(futures), *first[0].shape[:-1], len(features)), np.nan)
        self.ran = np.zeros((len(futures), len(features)), dtype=bool)
        for future, found in zip(futures, first, strict=True):
            self._wait[future][..., pilot], self.ran[future, pilot] = found, True
        self.look()

    @property
    def n_runs(self) -> int:
        """How many runs were made."""
        return int(self.ran.sum())

    def look(self) -> None:
        """Predict what did not run, and compare all packages."""
        wait, ran = self._wait, self.ran
        self.whole = np.flatnonzero(ran.all(axis=0))
        own = self._mean(self._score(wait[..., self.whole]))
        known = _learnt_from(self.whole, own, ~np.isinf(_rows(wait)[:, self.whole]).any(axis=0), self._n_pilot)
        self._filled = np.where(ran if wait.ndim == 2 else ran[:, None], wait, _predicted(self._features, known, wait))
        self._figure = self._mean(self._score(self._filled))
        if self._past is not None:
            on_past = self._filled[self._past]
            self._figure = self._figure + behind_on_past(on_past if on_past.ndim == 1 else on_past[0])
        self.leader = int(self.whole[self._figure[self.whole].argmin()])

    def _mean(self, scores: np.ndarray) -> np.ndarray:
        return (self._share[:, None] * scores).mean(axis=0)

    def best_first(self, rows: np.ndarray) -> np.ndarray:
        """Return rows in the order of what they score or are expected to."""
        return rows[np.argsort(self._figure[rows], kind="stable")]

    def run(self, new: np.ndarray, all_stay: bool) -> None:
        """Let packages run on one future after the other; those that are out, unless all stay, get no more runs."""
        all_stay = all_stay or bool(np.isinf(self._figure[self.leader]))
        for k, future in enumerate(self._futures):
            if k >= FEWEST_FUTURES and not all_stay:
                some = self._futures[:k]
                new = _still_in(self._share[some, None] * self._score(self._filled[some]), self.leader, new)
            self._wait[future][..., new] = self._filled[future][..., new] = self._simulate(int(future), new)
            self.ran[future, new] = True

    def grow(self, features: np.ndarray) -> None:
        """Take in packages that follow those that are there."""
        more = len(features) - self.ran.shape[1]
        self._features = features
        self.ran = np.pad(self.ran, ((0, 0), (0, more)))
        self._wait = np.pad(self._wait, [(0, 0)] * (self._wait.ndim - 1) + [(0, more)], constant_values=np.nan)
        self.look()

    def result(self) -> Race:
        """Return what the race gave."""
        whole, figure, wait, filled = self.whole, self._figure, self._wait, self._filled
        others = np.setdiff1d(np.argsort(figure, kind="stable"), whole, assume_unique=True)
        # By the figure among all packages: a place among those that ran, which are the best, says less.
        order = np.concatenate([whole[np.argsort(figure[whole], kind="stable")], others])
        if wait.ndim == 3:
            wait, filled = wait[:, 0], filled[:, 0]
        return Race(wait, filled, order, self.n_runs, figure)


def _rows(wait: np.ndarray) -> np.ndarray:
    """Return waits with a row for each future and class."""
    return wait.reshape(-1, wait.shape[-1])


def _predicted(features: np.ndarray, known: np.ndarray, wait: np.ndarray) -> np.ndarray:
    """Predict the waits of all packages from those of some; a class that is unknown in a future stays so."""
    learnt = _rows(wait)[:, known]
    found = np.full((len(learnt), wait.shape[-1]), np.nan)
    some = ~np.isnan(learnt).any(axis=1)
    found[some] = predict_waits(features, known, learnt[some])
    return found.reshape(wait.shape)


def predict_waits(features: np.ndarray, known: np.ndarray, wait: np.ndarray) -> np.ndarray:
    """Predict the waits of all packages by a Gaussian process, float64[futures, packages], s.

    Parameters
    ----------
    features
        Of all packages, from `features_of`.
    known
        Rows that it learns from; if there are none, all predictions are infinite.
    wait
        Their waits, float64[futures, known], s.
    """
    if not len(known):
        return np.full((len(wait), len(features)), np.inf)
    log = np.log(np.maximum(wait, REGRET_FLOOR)).T
    mean, learnt = log.mean(axis=0), features[known]
    weights = np.linalg.solve(_kernel(learnt, learnt) + NOISE * np.eye(len(known)), log - mean)
    found = np.empty((len(wait), len(features)))
    for at in range(0, len(features), _PREDICTED_AT_ONCE):
        some = slice(at, at + _PREDICTED_AT_ONCE)
        found[:, some] = np.exp(mean + _kernel(features[some], learnt) @ weights).T
    return found


def _kernel(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.exp(-cdist(some, others, "sqeuclidean") / (2 * REACH**2))


def _learnt_from(whole: np.ndarray, own: np.ndarray, finite: np.ndarray, n_pilot: int) -> np.ndarray:
    """Return the rows that the model learns from, of those that ran on every future and their mean scores."""
    order = np.lexsort((own, whole >= n_pilot))
    return np.sort(whole[order[finite[order]][:MOST_LEARNT]])


def _still_in(scores: np.ndarray, leader: int, alive: np.ndarray) -> np.ndarray:
    """Return the rows that go on."""
    gap = scores[:, alive] - scores[:, [leader]]
    failed = np.isinf(gap).any(axis=0)
    gap = np.where(failed, 0.0, gap)
    error = gap.std(axis=0, ddof=1) / np.sqrt(len(gap))
    return alive[~failed & (gap.mean(axis=0) <= stdtrit(len(gap) - 1, OUT) * error)]


def running_order(loads: np.ndarray) -> np.ndarray:
    """Return the order in which futures are run: by load the middle one, those at 3/4, 1/4, 9/10, then the others."""
    by_load = np.argsort(loads, kind="stable")
    last = len(loads) - 1
    first = [by_load[len(loads) // 2], *(by_load[int(share * last)] for share in (0.75, 0.25, 0.9))]
    return np.array(list(dict.fromkeys([*first, *by_load])))
