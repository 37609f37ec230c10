"""Our predictor: a whole distribution of the wait, from boosters, the work ahead and recent waits together.

One booster learns quantiles of the wait in seconds, another the chance of a start by a deadline, with the deadline as
a feature that may only raise it: its answer at zero is the hurdle of jobs that start at once. Their mean on a log scale
is the boosters' common curve. What is stated is the online mixture of it and of experts that need little or no training
(`mixture`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from procure.progress import step
from procure.queue_time.booster import MAX_BIN, Booster, fit_chances, fit_plain
from procure.queue_time.distribution import GRID, Distribution
from procure.queue_time.features import BACKLOG, picked
from procure.queue_time.log import UNKNOWN, Outcomes
from procure.queue_time.mixture import NAMES, Mixture, broad, last_looks, stack
from procure.queue_time.view import RECENT_PREFIX

AGAIN, LEAST_AGAIN = 5000, 100
"""The last waits from which a median is trained again, and the fewest."""
LEVELS = GRID[1:-1]
"""The quantiles that boosters learn."""
_BLOCK = 4096
N_DEADLINES = 24
DEPTHS, FAR = ("queue_depth", "partition_depth"), 3
"""Jobs that wait; from so many times the most seen in training on, a job is beyond what the boosters know."""


@dataclass(frozen=True)
class Settings:
    """How a model is fitted; one set of values serves every log.

    ``rounds`` and ``eta`` are the boosters'; ``max_rows`` keeps the latest; ``max_pairs`` bounds the pairs of a job and
    a deadline; ``holdout`` is the last share of the training rows on which the mixture first weighs the experts, fitted
    on the rest (0 = none).
    """

    rounds: int = 100
    eta: float = 0.1
    colsample: float = 0.4
    max_rows: int = 100_000
    max_pairs: int = 150_000
    holdout: float = 0.15
    seed: int = 0

    def judging(self) -> Settings:
        """Return what the experts are weighed with: half of the rounds in steps twice as long."""
        return replace(self, rounds=max(self.rounds // 2, 1), eta=2 * self.eta)


@dataclass
class QueueTimeModel:
    """A fitted predictor of waits; `learn`, then `distribution`, which `mixture` moves as outcomes come in.

    ``boosters`` by name are ``seconds`` of quantiles, ``chance`` of a start by a deadline, and ``again``, the median
    that is trained again as waits become known; ``again_until`` is the start of the last one that it has learnt from;
    ``usual`` the training waits' quantiles at `GRID`; ``most_waiting`` the most of each of `DEPTHS` before a
    training job.
    """

    settings: Settings = field(default_factory=Settings)
    names: list[str] = field(default_factory=list)
    deadlines: np.ndarray = field(default_factory=lambda: np.zeros(0))
    boosters: dict[str, Booster] = field(default_factory=dict)
    usual: np.ndarray = field(default_factory=lambda: np.zeros(len(GRID)))
    again_until: float = -UNKNOWN
    most_waiting: list[float] = field(default_factory=lambda: [np.inf] * len(DEPTHS))
    mixture: Mixture = field(default_factory=Mixture)

    def learn(self, features: pd.DataFrame, outcomes: Outcomes, train: np.ndarray, cut: float) -> QueueTimeModel:
        """Weigh the experts on the last of the training rows, then fit them on all of them.

        ``features`` and ``outcomes`` are of the whole log, in submission order; ``train`` the rows that had started by
        the ``cut``, which is now: what became of jobs later is not known.
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
                raw = judge.experts_in_time(features, outcomes, weighed)
                beyond = judge.beyond(features.iloc[weighed])
                self.mixture.roll(outcomes.take(weighed), raw, beyond, judge.top, cut)
        self.mixture.until = cut
        return self.fit(features.iloc[train], wait[train], submit[train])

    def fit(self, features: pd.DataFrame, wait: np.ndarray, submit: np.ndarray) -> QueueTimeModel:
        """Fit the boosters on jobs that have started; ``submit`` (n,) tells which rows came last.

        ``features`` (n, m) are NaN where unknown; the same columns are asked for when predicting.
        """
        varies = features.max() > features.min()
        own = [name for name in features.columns if not name.startswith(RECENT_PREFIX) and name != BACKLOG]
        self.names = [name for name in own if varies[name]] or own
        order = np.argsort(submit, kind="stable")[-self.settings.max_rows :]
        features, wait = features.iloc[order], wait[order]
        self.usual = broad(wait)
        self.again_until = float((submit[order] + wait).max())
        self.most_waiting = _depths(features).max(axis=0).tolist()
        chosen, matrix = self.settings, self.matrix(features)
        common: dict[str, object] = {"max_bin": MAX_BIN, "eta": chosen.eta, "colsample_bytree": chosen.colsample}
        self.boosters["again"] = self.fit_again(matrix, wait)
        self.boosters["seconds"] = fit_plain(matrix, wait, chosen.seed, LEVELS, chosen.rounds, **common)
        self.deadlines = _deadlines(wait)
        each = int(np.clip(chosen.max_pairs // max(len(wait), 1), 3, len(self.deadlines)))
        drawn = np.argsort(np.random.default_rng(chosen.seed).random((len(wait), len(self.deadlines))), axis=1)[
            :, :each
        ]
        rows, deadline = np.repeat(np.arange(len(wait)), each), self.deadlines[drawn.ravel()]
        pairs = np.column_stack([matrix[rows], np.log1p(deadline).astype(np.float32)])
        by_then = (wait[rows] <= deadline).astype(float)
        self.boosters["chance"] = fit_chances(pairs, by_then, chosen.rounds, chosen.seed, **common)
        return self

    def fit_again(self, matrix: np.ndarray, wait: np.ndarray) -> Booster:
        """Fit the median of the last `AGAIN` waits, quickly."""
        last = slice(max(0, len(wait) - AGAIN), None)
        settings: dict[str, object] = {"max_bin": MAX_BIN, "eta": 0.2, "colsample_bytree": self.settings.colsample}
        return fit_plain(matrix[last], wait[last], self.settings.seed, np.array([0.5]), 40, **settings)

    def experts_in_time(
        self,
        features: pd.DataFrame,
        outcomes: Outcomes,
        asked: np.ndarray,
        since: float = 0.0,
        every: float = 0.0,
    ) -> np.ndarray:
        """Return what each expert says of rows (m,) of a log in submission order, ``again`` trained as waits are known.

        Outcomes are looked at as `mixture.Mixture.roll` does: each as it comes, or ``every`` s from ``since`` on.
        ``features`` are those of the whole log.
        """
        rows, moments = features.iloc[asked], last_looks(outcomes.submit[asked], since, every)
        matrix, said, first = self.matrix(rows), np.empty(len(asked)), 0
        known, left = _starts_known(outcomes)
        n_known = np.searchsorted(left, moments)
        while first < len(asked):
            enough = self._train_again(features, outcomes, known, int(n_known[first]))
            last = max(int(np.searchsorted(n_known, enough)), first + 1)
            said[first:last] = self.boosters["again"].predict(matrix[first:last]).ravel()
            first = last
        return self.experts(rows, said)

    def train_again(self, features: pd.DataFrame, outcomes: Outcomes, moment: float) -> None:
        """Train ``again`` on what is known at a moment, Unix s, if that has grown enough; see `experts_in_time`."""
        known, left = _starts_known(outcomes)
        self._train_again(features, outcomes, known, int(np.searchsorted(left, moment)))

    def _train_again(self, features: pd.DataFrame, outcomes: Outcomes, known: np.ndarray, n: int) -> int:
        """Train ``again`` on the first ``n`` starts known, and return from how many on it is due the next time.

        It is due once their number has grown by a tenth of the rows that it learns from.
        """
        left = outcomes.left[known]
        grown, rows = int(np.searchsorted(left, self.again_until, side="right")), known[max(0, n - AGAIN) : n]
        more = max(len(rows) // 10, LEAST_AGAIN // 4)
        if len(rows) >= LEAST_AGAIN and n - grown >= more:
            wait = outcomes.left[rows] - outcomes.submit[rows]
            self.boosters["again"] = self.fit_again(self.matrix(features.iloc[rows]), wait)
            self.again_until, grown = float(left[n - 1]), n
        return max(grown + more, LEAST_AGAIN)

    def matrix(self, features: pd.DataFrame) -> np.ndarray:
        """Take the model's columns out of a feature table."""
        return picked(features, self.names).astype(np.float32)

    def curve(self, features: pd.DataFrame) -> np.ndarray:
        """Return each row's wait in seconds at the levels `distribution.GRID` as the boosters together state it."""
        matrix, n = self.matrix(features), len(features)
        chance = np.column_stack([self._chances(matrix), np.ones(n)])
        edges = np.append(np.log1p(self.deadlines), self.top)
        by_chance = [np.interp(LEVELS, row, edges, left=edges[0]) for row in np.maximum.accumulate(chance, axis=1)]
        seconds = np.log1p(np.maximum(np.sort(self.boosters["seconds"].predict(matrix), axis=1), 0))
        logs = (seconds + np.array(by_chance)) / 2
        whole = np.column_stack([np.zeros(n), logs, np.full(n, self.top)])
        return np.expm1(np.maximum.accumulate(whole, axis=1))

    def _chances(self, matrix: np.ndarray) -> np.ndarray:
        """Return the chance of each row of a start by each deadline, (n, deadlines); a block of rows at a time."""
        found = np.empty((len(matrix), len(self.deadlines)))
        by = np.log1p(self.deadlines).astype(np.float32)
        for first in range(0, len(matrix), _BLOCK):
            some = matrix[first : first + _BLOCK]
            pairs = np.column_stack([np.repeat(some, len(by), axis=0), np.tile(by, len(some))])
            found[first : first + _BLOCK] = self.boosters["chance"].predict(pairs).reshape(len(some), len(by))
        return found

    @property
    def top(self) -> float:
        """The longest log wait that an expert is moved to."""
        return float(np.log1p(self.usual[-1]))

    def experts(self, features: pd.DataFrame, again: np.ndarray | None = None) -> np.ndarray:
        """Return what each expert says of each row, (n, len(mixture.NAMES), len(GRID)), as log(1 + seconds).

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


def _depths(features: pd.DataFrame) -> np.ndarray:
    """Return `DEPTHS` of each row, (n, 2); 0 where ready features, as published ones, lack them."""
    if set(DEPTHS) <= set(features.columns):
        return picked(features, DEPTHS).astype(float)
    return features.reindex(columns=list(DEPTHS), fill_value=0).to_numpy(dtype=float)


def _deadlines(wait: np.ndarray) -> np.ndarray:
    """Choose deadlines from zero up, closer together in the upper tail, where seconds weigh most."""
    positive = wait[wait > 0]
    if len(positive) == 0:
        return np.array([0.0, 60.0])
    tail = [0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 1.0]
    at = np.concatenate([np.linspace(0.02, 0.9, N_DEADLINES - len(tail) - 1), tail])
    return np.unique(np.round(np.concatenate([[0.0], np.quantile(positive, at)])))
