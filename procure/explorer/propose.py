"""Which package to simulate next: where a search looks, and what it proposes, by model or by the published rule."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import pandas as pd
from sklearn.feature_selection import VarianceThreshold
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from procure.errors import TableError
from procure.explorer.observations import Observations
from procure.models import Surrogate, features
from procure.packages.space import Space, rows_in

LeftOut = Callable[[np.ndarray], np.ndarray]
"""From counts, int64 (packages, types), to the jobs that each package cannot run, int64."""

_PROBE = 4096


class Candidates:
    """The packages of a space that leave out as few jobs as can be: those that run every job, if any does.

    ``listed`` are all packages of the ``space``, int64 (packages, types), in table order, None where they are too many;
    ``level`` is how many jobs the candidates leave out.
    """

    def __init__(self, space: Space, left_out: LeftOut, seed: int, listed: np.ndarray | None) -> None:
        """Look over the whole space, or over a few thousand packages drawn from it."""
        self.space, self.listed, self.left_out = space, listed, left_out
        probe = space.sample(_PROBE, np.random.default_rng([seed, 0])) if listed is None else listed
        self._n_left_out = left_out(probe)
        self.level = int(self._n_left_out.min())

    @cached_property
    def all(self) -> np.ndarray | None:
        """Every candidate, or None where they are too many."""
        return None if self.listed is None else self.listed[self._n_left_out == self.level]

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw candidates; fewer than n where most of the space is outside."""
        if self.all is not None:
            return self.all[rng.permutation(len(self.all))[:n]]
        return self.inside(self.space.sample(n, rng))

    def near(self, centres: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return candidates that are one exchange away, about n tries for each."""
        found = self.inside(self.space.neighbours(centres, n, rng))
        if self.all is not None and self.space.constraints.prices is not None:
            # Under discounts, what cannot grow type by type may still lie below another package.
            found = found[rows_in(found, self.all)]
        return found

    def inside(self, counts: np.ndarray) -> np.ndarray:
        """Keep the packages that leave out no more jobs than the best do."""
        return counts[self.left_out(counts) <= self.level] if len(counts) else counts

    def describe(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return features for the trees and for the Gaussian process, shape (packages, features).

        The trees see `procure.models.features`; the process the same without means, as logarithms, and the square root
        of the budget's share of each type.
        """
        quotes = self.space.quotes
        table = features(pd.DataFrame(counts, columns=quotes["name"].tolist()), quotes)
        begins = ("total_", "nodes_", "category:")
        amounts = [name for name in table if name.startswith(begins) and not name.endswith("_per_node")]
        share = counts * quotes["price_usd"].to_numpy() / self.space.rules.budget_usd
        return table.to_numpy(), np.hstack([np.log1p(table[amounts].to_numpy()), np.sqrt(share)])


def spread(counts: np.ndarray, known: Observations, rng: np.random.Generator) -> np.ndarray:
    """Bring packages into an order in which the combinations of types take turns.

    The combinations that are least known come first; within one, and among equals, chance decides.
    """
    mixed = counts[rng.permutation(len(counts))]
    bought = np.concatenate([known.counts, mixed]) > 0
    _, combination = np.unique(np.packbits(bought, axis=1), axis=0, return_inverse=True)
    combination = combination.ravel()
    # How many rows of its combination stand before each row, known ones included.
    by = np.argsort(combination, kind="stable")
    begins = np.flatnonzero(np.diff(combination[by], prepend=-1))
    turn = np.empty(len(by), dtype=np.int64)
    turn[by] = np.arange(len(by)) - np.repeat(begins, np.diff(np.append(begins, len(by))))
    luck = rng.random(int(combination.max(initial=0)) + 1)
    rows = np.arange(len(known), len(by))
    return mixed[np.lexsort((luck[combination[rows]], turn[rows]))]


_LENGTHS = (0.35, 0.7, 1.4)
_NOISES = (1e-3, 1e-2)
_JITTER = 1e-6


class GaussianProcess:
    """Interpolate values by a Matérn 5/2 kernel over standardised features.

    Length scale and noise are those of a small grid under which the values are likeliest, whatever their variance
    (Rasmussen and Williams 2006, algorithm 2.1); features that do not vary among the rows learnt from are left out.
    """

    def fit(self, x: np.ndarray, y: np.ndarray) -> GaussianProcess:
        """Learn from x, shape (rows, features), and y, shape (rows,)."""
        scaled, likeliest = make_pipeline(VarianceThreshold(1e-18), StandardScaler()).fit(x), -np.inf
        self._scale = float(y.std()) or 1.0
        values = (y - y.mean()) / self._scale
        for length, noise in itertools.product(np.sqrt(max(1, x.shape[1])) * np.asarray(_LENGTHS), _NOISES):
            process = GaussianProcessRegressor(Matern(length, nu=2.5), alpha=noise, optimizer=None, normalize_y=True)
            process.fit(scaled.transform(x), y)
            variance = max(float(values @ process.alpha_) / len(y), 1e-12)
            log_likelihood = -0.5 * len(y) * np.log(variance) - np.log(np.diag(process.L_)).sum()
            if log_likelihood > likeliest:
                likeliest, self._variance, self._model = log_likelihood, variance, make_pipeline(scaled, process)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the expected values, float64, shape (rows,)."""
        return np.asarray(self._model.predict(x)) if len(x) else np.empty(0)

    def draw(self, x: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n functions that agree with what was learnt, at x: float64, shape (rows, n)."""
        mean, covariance = self._model.predict(x, return_cov=True)
        root = _root(covariance + _JITTER * self._scale**2 * np.eye(len(x)))
        return np.asarray(mean[:, None] + np.sqrt(self._variance) * (root @ rng.standard_normal((len(x), n))))


def _root(matrix: np.ndarray) -> np.ndarray:
    """Return R with R Rᵀ = matrix, rounding errors aside."""
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


Method = Literal["model", "every-tenth"]
METHODS = get_args(Method)
"""Names that `make_proposer` knows."""

FIRST = 64
"""The first round is so large, if no more is known; it spreads over the combinations of types."""

_SHARES = (0.3, 0.6, 0.9)
"""Shares of a round, cumulated: drawn from the Gaussian process, lowest by trees, neighbours; the rest explores."""
_SCREEN_EVERY = 6
_SCREENED = 3_000
_DRAWN = 20_000
_CANDIDATES = 20_000
_CENTRES, _EXCHANGES = 10, 60
_LOCAL, _ELSEWHERE = 400, 150
_PROMISING = 800
_SHIFT = 30.0
"""Seconds added before logarithms are taken, so that differences far below a minute count for little."""


class Proposer:
    """A way to search: what `propose` returns is simulated, round by round."""

    def __init__(self, candidates: Candidates, seed: int) -> None:
        """Choose the packages that may be proposed, and the source of chance."""
        self.candidates, self._seed = candidates, seed

    def propose(self, known: Observations, number: int, n: int) -> np.ndarray:
        """Return up to n packages that are not known, int64 (packages, types); none to end the search."""
        raise NotImplementedError


def make_proposer(method: str, candidates: Candidates, seed: int, n_packages: int) -> Proposer:
    """Return one of `METHODS`; ``n_packages`` is the whole budget, which only the published rule must know."""
    if method == "model":
        return ByModel(candidates, seed)
    if candidates.listed is None:
        needs = "method every-tenth takes every n-th package of the whole list, and this space is too large to list"
        raise TableError(f"{needs}; method model needs no list")
    return EveryTenth(candidates, n_packages)


def _new(counts: np.ndarray, known: Observations) -> np.ndarray:
    return counts[~known.has(counts)]


class EveryTenth(Proposer):
    """The published rule: every n-th package, a model of their totals, then its best (Hutchison 2024, 3.4)."""

    def __init__(self, candidates: Candidates, n_packages: int) -> None:
        """Share the budget out: what is not used to confirm the list is the sample."""
        super().__init__(candidates, 0)
        n_sample = max(1, n_packages - min(50, n_packages // 5))
        assert candidates.listed is not None
        self._step = max(1, -(-len(candidates.listed) // n_sample))

    def propose(self, known: Observations, number: int, n: int) -> np.ndarray:
        """Return the sample, whatever it leaves out; then the packages that are predicted to be best."""
        every = self.candidates.listed
        assert every is not None
        sample = _new(every[:: self._step], known)
        if len(sample):
            return sample[:n]
        learnt = np.flatnonzero((known.left_out <= self.candidates.level) & ~np.isnan(known.value))
        rest = _new(self.candidates.inside(every), known)
        if len(learnt) < 2 or not len(rest):
            return rest[:n]
        quotes = self.candidates.space.quotes
        x, z = (
            features(pd.DataFrame(counts, columns=quotes["name"].tolist()), quotes, "totals")
            for counts in (known.counts[learnt], rest)
        )
        predicted = Surrogate().fit(x, known.target[learnt]).predict(z)
        return rest[np.argsort(predicted, kind="stable")[:n]]


class ByModel(Proposer):
    """Boosted trees over everything known and a Gaussian process around the best propose together.

    The first round spreads over the combinations of types. In each later one the trees learn from all that is known,
    the process from the best 400 and 150 others; every sixth round they screen the candidates, and each keeps its 3,000
    lowest. From these and the exchange neighbours of the ten best, a round takes three tenths that are best in
    functions drawn from the process (Thompson sampling), three that the trees predict lowest, three neighbours by both
    models' ranks, and one tenth from the least known combinations of types.
    """

    _pool: tuple[int, np.ndarray] | None = None

    def propose(self, known: Observations, number: int, n: int) -> np.ndarray:
        """Return the next round."""
        rng = np.random.default_rng([self._seed, 1 + number])
        best = known.order()
        best = best[known.left_out[best] <= self.candidates.level]
        others = self.candidates.draw(_DRAWN if self.candidates.all is not None else _DRAWN // 5, rng)
        others = spread(_new(others, known), known, np.random.default_rng([self._seed, 1 + number, 1]))
        if len(best) < FIRST // 2:
            return others[:n]
        self._learn(known, best, number, rng)
        if self._pool is None or number >= self._pool[0] + _SCREEN_EVERY:
            self._pool = number, self._screened(known, best, rng)
        near = self.candidates.near(known.counts[best[:_CENTRES]], _EXCHANGES, rng)
        pool = _new(np.unique(np.concatenate([self._pool[1], near]), axis=0), known)
        return self._mix(pool, near, others, n, rng) if len(pool) else others[:n]

    def _learn(self, known: Observations, best: np.ndarray, number: int, rng: np.random.Generator) -> None:
        x, z = self.candidates.describe(known.counts[best])
        wait = known.target[best]
        self._trees = Surrogate(seed=self._seed * 1000 + number, profile="quick").fit(x, wait)
        rows = np.concatenate([np.arange(len(best))[:_LOCAL], _LOCAL + rng.permutation(max(0, len(best) - _LOCAL))])
        rows = rows[: _LOCAL + _ELSEWHERE]
        self._process = GaussianProcess().fit(z[rows], np.log(wait[rows] + _SHIFT))

    def _screened(self, known: Observations, best: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the packages that the models find promising: the process looks at those that the trees predict low."""
        every = self.candidates.all
        if every is None:
            near = self.candidates.near(known.counts[best[:50]], 100, rng)
            every = np.unique(np.concatenate([self.candidates.draw(_DRAWN, rng), near]), axis=0)
        every = _new(every, known)
        parts = [every[at : at + (1 << 16)] for at in range(0, len(every), 1 << 16)]
        by_trees = [self._trees.predict(self.candidates.describe(part)[0]) for part in parts]
        every = every[np.sort(np.argsort(np.concatenate([np.empty(0), *by_trees]), kind="stable")[:_CANDIDATES])]
        lowest = [np.argsort(one, kind="stable")[:_SCREENED] for one in self._predicted(every)]
        return every[np.union1d(*lowest)]

    def _predicted(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, z = self.candidates.describe(counts)
        return self._trees.predict(x), self._process.predict(z)

    def _mix(
        self, pool: np.ndarray, near: np.ndarray, others: np.ndarray, n: int, rng: np.random.Generator
    ) -> np.ndarray:
        by_trees, by_process = self._predicted(pool)
        rank_trees, rank_process = _ranks(by_trees), _ranks(by_process)
        promising = np.argsort(np.minimum(rank_trees, rank_process), kind="stable")[:_PROMISING]
        _, z = self.candidates.describe(pool[promising])
        drawn = self._process.draw(z, 2 * max(1, round(n * _SHARES[0])), rng)
        both = rank_trees + rank_process
        orders = (
            promising[np.argmin(drawn, axis=0)],
            np.argsort(by_trees, kind="stable"),
            np.argsort(np.where(rows_in(pool, near), both, both.max() + 1 + both), kind="stable"),
        )
        chosen: dict[int, None] = {}
        for share, rows in zip(_SHARES, orders, strict=True):
            for row in rows.tolist():
                if len(chosen) >= round(n * share):
                    break
                chosen.setdefault(row)
        picked = pool[list(chosen)]
        others = others[~rows_in(others, picked)]
        return np.concatenate([picked, others[: n - len(picked)]])


def _ranks(values: np.ndarray) -> np.ndarray:
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks
