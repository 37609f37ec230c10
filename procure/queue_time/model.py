"""Our predictor: a whole distribution of the wait, from boosters, the work ahead and recent waits together.

One booster learns quantiles of the square root of the wait, so that long waits weigh more than on a log scale and
less than in seconds. Another learns the chance of a start by a deadline, with the deadline as a feature
that may only raise it: its answer at zero is the hurdle of jobs that start at once, and the rest of it is
the distribution's shape. A plain booster of quantiles stands beside them. What is stated is the online mixture of
their mean and of experts that need no training (`experts`, `mixture`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from procure.progress import step
from procure.queue_time.booster import (
    LEAFWISE,
    MAX_BIN,
    Booster,
    fit_chances,
    fit_plain,
    fit_quantiles,
)
from procure.queue_time.calibrate import GRID, quantiles_at
from procure.queue_time.distribution import Distribution
from procure.queue_time.experts import NAMES, broad, stack
from procure.queue_time.features import BACKLOG, picked
from procure.queue_time.log import UNKNOWN, Outcomes
from procure.queue_time.metrics import LEVELS
from procure.queue_time.mixture import Mixture, last_looks
from procure.queue_time.recent import PREFIX

AGAIN, LEAST_AGAIN = 5000, 100
"""The last waits from which a median is trained again, and the fewest."""
DEPTHS, FAR = ("queue_depth", "partition_depth"), 3
"""Jobs that wait; from so many times the most seen in training on, a job is beyond what the boosters know."""


@dataclass(frozen=True)
class Settings:
    """How a model is fitted; one set of values serves every log.

    ``power`` is the exponent of the wait that the quantile booster learns (0 = log); ``rounds`` and ``eta`` are all
    boosters', ``leaves`` those of a tree of the pairs; ``least_weight`` the fewest rows in
    a leaf, twice that for pairs; ``max_rows`` keeps the latest rows;
    ``max_pairs`` bounds the pairs of a job and a deadline;
    ``holdout`` is the last share of the training rows on which the mixture first weighs the experts, fitted on the rest
    (0 = none).
    """

    power: float = 0.5
    rounds: int = 100
    leaves: int = 31
    eta: float = 0.1
    colsample: float = 0.4
    least_weight: float = 20.0
    subsample: float = 0.7
    reg_lambda: float = 5.0
    max_rows: int = 100_000
    max_pairs: int = 150_000
    n_deadlines: int = 24
    holdout: float = 0.15
    seed: int = 0

    def judging(self) -> Settings:
        """Return what the experts are weighed with: half of the rounds in steps twice as long."""
        return replace(self, rounds=max(self.rounds // 2, 1), eta=2 * self.eta)


@dataclass
class QueueTimeModel:
    """A fitted predictor of waits; `learn`, then `distribution`, which `mixture` moves as outcomes come in.

    ``boosters`` by name are ``quantile``, ``chance`` of a start by a deadline, ``hgb`` of plain quantiles, and
    ``again``, the median that is trained again as waits become known; ``again_until`` is the start of the last one that
    it has learnt from; ``usual`` the training waits' quantiles at `calibrate.GRID`; ``most_waiting`` the most of each
    of `DEPTHS` before a training job.
    """

    settings: Settings = field(default_factory=Settings)
    names: list[str] = field(default_factory=list)
    deadlines: np.ndarray = field(default_factory=lambda: np.zeros(0))
    longest: float = 0.0
    boosters: dict[str, Booster] = field(default_factory=dict)
    usual: np.ndarray = field(default_factory=lambda: np.zeros(len(GRID)))
    again_until: float = -UNKNOWN
    most_waiting: list[float] = field(default_factory=lambda: [np.inf] * len(DEPTHS))
    mixture: Mixture = field(default_factory=Mixture)

    def learn(self, features: pd.DataFrame, outcomes: Outcomes, train: np.ndarray, cut: float) -> QueueTimeModel:
        """Weigh the experts on the last of the training rows, then fit them on all of them.

        Parameters
        ----------
        features, outcomes
            Of the whole log, in submission order.
        train
            Rows that had started by the cut.
        cut
            Now: what became of jobs later is not known.
        """
        wait, submit = outcomes.left - outcomes.submit, outcomes.submit
        train = train[np.argsort(submit[train], kind="stable")]
        first = submit[train[int(len(train) * (1 - self.settings.holdout))]] if self.settings.holdout else cut
        early = train[outcomes.left[train] < first]
        self.mixture.until = min(first, cut)
        if self.settings.holdout and len(early) >= 100:
            weighed = np.flatnonzero((submit >= first) & (submit < cut))
            with step(f"weighing the experts on the last {len(weighed):,} jobs"):
                judge = type(self)(self.settings.judging())
                judge.fit(features.iloc[early], wait[early], submit[early])
                raw = judge.experts_in_time(lambda rows: features.iloc[rows], outcomes, weighed)
                beyond = judge.beyond(features.iloc[weighed])
                self.mixture.roll(outcomes.take(weighed), raw, beyond, judge.top, cut)
        self.mixture.until = cut
        return self.fit(features.iloc[train], wait[train], submit[train])

    def work(self, n_rows: int) -> float:
        """Return how many rows all trees together go through when ``n_rows`` are learnt: what `learn` takes."""
        chosen = self.settings

        def rows(n: float) -> float:
            pairs = n * np.clip(chosen.max_pairs / max(n, 1), 3, chosen.n_deadlines)
            return (2 * n * len(LEVELS) + pairs) * chosen.rounds

        n = float(min(n_rows, chosen.max_rows))
        return rows(n) + (rows(n * (1 - chosen.holdout)) / 2 if chosen.holdout else 0.0)

    def fit(self, features: pd.DataFrame, wait: np.ndarray, submit: np.ndarray) -> QueueTimeModel:
        """Fit the boosters on jobs that have started.

        Parameters
        ----------
        features
            (n, m), numeric, NaN where unknown; the same columns are asked for when predicting.
        wait
            (n,) seconds.
        submit
            (n,) seconds; tells which rows came last.
        """
        varies = features.max() > features.min()
        own = [name for name in features.columns if not name.startswith(PREFIX) and name != BACKLOG]
        self.names = [name for name in own if varies[name]] or own
        order = np.argsort(submit, kind="stable")[-self.settings.max_rows :]
        features, wait = features.iloc[order], wait[order]
        self.usual = broad(wait)
        self.again_until = float((submit[order] + wait).max())
        self.most_waiting = _depths(features).max(axis=0).tolist()
        self.boost(features, wait)
        return self

    def boost(self, features: pd.DataFrame, wait: np.ndarray) -> None:
        """Fit every booster on rows of features and their waits (n,) in seconds."""
        chosen, matrix = self.settings, self.matrix(features)
        common: dict[str, object] = {"max_bin": MAX_BIN, "eta": chosen.eta, "colsample_bytree": chosen.colsample}
        self.boosters["hgb"] = fit_plain(matrix, wait, chosen.seed, LEVELS, chosen.rounds, **common)
        self.boosters["again"] = self.fit_again(matrix, wait)
        common |= {"subsample": chosen.subsample, "reg_lambda": chosen.reg_lambda}
        common |= LEAFWISE | {"max_leaves": chosen.leaves, "min_child_weight": chosen.least_weight}
        self.longest = float(wait.max())
        self.deadlines = _deadlines(wait, chosen.n_deadlines)
        target = wait**chosen.power if chosen.power else np.log1p(wait)
        self.boosters["quantile"] = fit_quantiles(matrix, target, LEVELS, chosen.rounds, chosen.seed, **common)
        rows, deadline = _pairs(len(wait), self.deadlines, chosen.max_pairs, chosen.seed)
        pairs = np.column_stack([matrix[rows], np.log1p(deadline).astype(np.float32)])
        common |= {"min_child_weight": 2 * chosen.least_weight}
        by_then = (wait[rows] <= deadline).astype(float)
        self.boosters["chance"] = fit_chances(pairs, by_then, chosen.rounds, chosen.seed, **common)

    def fit_again(self, matrix: np.ndarray, wait: np.ndarray) -> Booster:
        """Fit the median of the last `AGAIN` waits, quickly."""
        last = slice(max(0, len(wait) - AGAIN), None)
        settings: dict[str, object] = {"max_bin": MAX_BIN, "eta": 0.2, "colsample_bytree": self.settings.colsample}
        return fit_plain(matrix[last], wait[last], self.settings.seed, np.array([0.5]), 40, **settings)

    def experts_in_time(
        self,
        features_at: Callable[[np.ndarray], pd.DataFrame],
        outcomes: Outcomes,
        asked: np.ndarray,
        since: float = 0.0,
        every: float = 0.0,
    ) -> np.ndarray:
        """Return what each expert says of rows (m,) of a log in submission order, ``again`` trained as waits are known.

        Outcomes are looked at as `mixture.Mixture.roll` does: each as it comes, or ``every`` s from ``since`` on.
        ``features_at`` returns the features of rows of the log.
        """
        features, moments = features_at(asked), last_looks(outcomes.submit[asked], since, every)
        matrix, said, first = self.matrix(features), np.empty(len(asked)), 0
        known, left = _starts_known(outcomes)
        n_known = np.searchsorted(left, moments)
        while first < len(asked):
            enough = self._train_again(features_at, outcomes, known, int(n_known[first]))
            last = max(int(np.searchsorted(n_known, enough)), first + 1)
            said[first:last] = self.boosters["again"].predict(matrix[first:last]).ravel()
            first = last
        return self.experts(features, said)

    def train_again(self, features_at: Callable[[np.ndarray], pd.DataFrame], outcomes: Outcomes, moment: float) -> None:
        """Train ``again`` on what is known at a moment, Unix s, if that has grown enough; see `experts_in_time`."""
        known, left = _starts_known(outcomes)
        self._train_again(features_at, outcomes, known, int(np.searchsorted(left, moment)))

    def _train_again(
        self, features_at: Callable[[np.ndarray], pd.DataFrame], outcomes: Outcomes, known: np.ndarray, n: int
    ) -> int:
        """Train ``again`` on the first ``n`` starts known, and return from how many on it is due the next time.

        It is due once their number has grown by a tenth of the rows that it learns from.
        """
        left = outcomes.left[known]
        grown, rows = int(np.searchsorted(left, self.again_until, side="right")), known[max(0, n - AGAIN) : n]
        more = max(len(rows) // 10, LEAST_AGAIN // 4)
        if len(rows) >= LEAST_AGAIN and n - grown >= more:
            wait = outcomes.left[rows] - outcomes.submit[rows]
            self.boosters["again"] = self.fit_again(self.matrix(features_at(rows)), wait)
            self.again_until, grown = float(left[n - 1]), n
        return max(grown + more, LEAST_AGAIN)

    def _chance_curve(self, matrix: np.ndarray) -> np.ndarray:
        n, count = len(matrix), len(self.deadlines)
        chance = np.empty((n, count))
        pairs = np.column_stack([matrix, np.zeros(n, np.float32)])
        for position, deadline in enumerate(self.deadlines):
            pairs[:, -1] = np.log1p(deadline)
            chance[:, position] = self.boosters["chance"].predict(pairs)
        chance = np.maximum.accumulate(chance, axis=1)
        levels = np.column_stack([chance, np.ones(n)])
        edges = np.log1p(np.append(self.deadlines, 2 * self.longest + 3600))
        curve = np.empty((n, len(GRID)))
        for row in range(n):
            curve[row] = np.interp(GRID, levels[row], edges, left=edges[0])
        curve[:, -1] = edges[-1]
        return np.expm1(curve)

    def matrix(self, features: pd.DataFrame) -> np.ndarray:
        """Take the model's columns out of a feature table."""
        return picked(features, self.names).astype(np.float32)

    def curve(self, features: pd.DataFrame) -> np.ndarray:
        """Return each row's wait in seconds at the levels `calibrate.GRID` as the boosters together state it.

        That is the mean of the quantile, the chance and the plain booster on a log scale.
        """
        matrix, power = self.matrix(features), self.settings.power
        chance, scaled = self._chance_curve(matrix), self.boosters["quantile"].predict(matrix)
        stated = np.maximum(scaled, 0) ** (1 / power) if power else np.expm1(np.clip(scaled, 0, 50))
        curves = (_through(stated, chance), chance, _through(self.boosters["hgb"].predict(matrix), chance))
        return np.expm1(sum(part * np.log1p(curve) for part, curve in zip((0.4, 0.3, 0.3), curves, strict=True)))

    @property
    def top(self) -> float:
        """The longest log wait that an expert is moved to."""
        return float(np.log1p(self.usual[-1]))

    def experts(self, features: pd.DataFrame, again: np.ndarray | None = None) -> np.ndarray:
        """Return what each expert says of each row, (n, len(experts.NAMES), len(GRID)), as log(1 + seconds).

        ``again`` (n,) is what `again` said in its time, s.
        """
        if features.empty:
            return np.zeros((0, len(NAMES), len(GRID)), np.float32)
        again = self.boosters["again"].predict(self.matrix(features)).ravel() if again is None else again
        return stack(self.curve(features), again, features, self.usual)

    def distribution(self, features: pd.DataFrame) -> Distribution:
        """Return each row's distribution of the wait: the mixture's, corrected by what came of recent jobs."""
        return Distribution(self.mixture.say(self.experts(features), self.beyond(features), self.top))

    def beyond(self, features: pd.DataFrame) -> np.ndarray:
        """Return before which jobs far more wait than before any that was learnt from, (n,) bool."""
        return np.asarray((_depths(features) > FAR * np.array(self.most_waiting) + 10).any(axis=1))


def _starts_known(outcomes: Outcomes) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the jobs that have started, in the order in which they did, and when each did."""
    known = np.flatnonzero(outcomes.started & (outcomes.left < UNKNOWN))
    known = known[np.argsort(outcomes.left[known], kind="stable")]
    return known, outcomes.left[known]


def _through(five: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Return curves (n, len(GRID)) through quantiles (n, 5) at `LEVELS`, elsewhere shaped as others, s.

    Between two levels a curve stays between their quantiles, and above the last within the others' longest wait: where
    the others start at once up to some level, the step behind it would be added to what the quantiles say there.
    """
    known, longest = np.log1p(np.maximum(np.sort(five, axis=1), 0)), np.log1p(shape[:, -1:])
    shift = known - np.log1p(quantiles_at(shape, LEVELS))
    after, since = (np.searchsorted(LEVELS, GRID, side=side) for side in ("left", "right"))
    at = np.clip(after, 1, len(LEVELS) - 1)
    part = np.clip((GRID - LEVELS[at - 1]) / (LEVELS[at] - LEVELS[at - 1]), 0, 1)
    moved = np.log1p(shape) + shift[:, at - 1] * (1 - part) + shift[:, at] * part
    ends = np.column_stack([np.zeros(len(known)), known, np.maximum(known[:, -1:], longest)])
    moved = np.clip(moved, ends[:, since], ends[:, after + 1])
    moved[:, 0], moved[:, -1] = 0.0, np.maximum(moved[:, -1], longest[:, 0])
    return np.expm1(np.maximum.accumulate(np.maximum(moved, 0), axis=1))


def _depths(features: pd.DataFrame) -> np.ndarray:
    """Return `DEPTHS` of each row, (n, 2); 0 where ready features, as published ones, lack them."""
    if set(DEPTHS) <= set(features.columns):
        return picked(features, DEPTHS).astype(float)
    return features.reindex(columns=list(DEPTHS), fill_value=0).to_numpy(dtype=float)


def _deadlines(wait: np.ndarray, count: int) -> np.ndarray:
    """Choose deadlines from zero up, closer together in the upper tail, where seconds weigh most."""
    positive = wait[wait > 0]
    if len(positive) == 0:
        return np.array([0.0, 60.0])
    tail = [0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 1.0]
    at = np.concatenate([np.linspace(0.02, 0.9, count - len(tail) - 1), tail])
    return np.unique(np.round(np.concatenate([[0.0], np.quantile(positive, at)])))


def _pairs(n: int, deadlines: np.ndarray, limit: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pair each row with deadlines: all of them, or a random few so that the pairs stay within the limit."""
    rng = np.random.default_rng(seed)
    each = int(np.clip(limit // max(n, 1), 3, len(deadlines)))
    picked = np.argsort(rng.random((n, len(deadlines))), axis=1)[:, :each]
    return np.repeat(np.arange(n), each), deadlines[picked.ravel()]
