"""Our predictor: a whole distribution of the wait, from two boosters that err differently.

One boosts quantiles of the square root of the wait, so that long waits weigh more than on a log scale and
less than in seconds. The other boosts the chance of a start by a deadline, with the deadline as a feature
that may only raise it: its answer at zero is the hurdle of jobs that start at once, and the rest of it is
the distribution's shape. Both are turned into one quantile curve per job and averaged with a weight
that is the same for every log. On a small log the seed matters; there several such
pairs of boosters, a seed each, are averaged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from procure.progress import step
from procure.queue_time.booster import Booster, fit_chances, fit_members, fit_quantiles, mean_of, predict
from procure.queue_time.calibrate import GRID, Calibrator, quantiles_at
from procure.queue_time.distribution import Distribution
from procure.queue_time.metrics import LEVELS


@dataclass(frozen=True)
class Settings:
    """How a model is fitted; one set of values serves every log.

    ``power`` is the exponent of the wait that the quantile booster learns (0 = log); ``least_weight`` the
    fewest rows in a leaf, twice that for pairs; ``max_rows`` keeps the latest rows; ``max_pairs`` bounds the
    pairs of a job and a deadline; ``holdout`` is the last share of the training rows that first judges the
    intervals of a model fitted on the rest (0 = none); ``weight`` is the quantile booster's in the average.
    ``members`` is the most pairs of boosters, of seeds from ``seed`` up, whose curves are averaged.
    """

    power: float = 0.5
    quantile_rounds: int = 160
    chance_rounds: int = 180
    depth: int = 6
    eta: float = 0.08
    colsample: float = 0.4
    least_weight: float = 20.0
    subsample: float = 0.7
    reg_lambda: float = 5.0
    max_rows: int = 100_000
    max_pairs: int = 400_000
    n_deadlines: int = 24
    holdout: float = 0.0
    weight: float = 0.6
    members: int = 5
    seed: int = 0

    def n_members(self, n_rows: int) -> int:
        """Return the number of members for ``n_rows`` rows: together they see at most `max_rows`."""
        return max(1, min(self.members, self.max_rows // max(n_rows, 1)))


@dataclass(frozen=True)
class Member:
    """One pair of boosters: the wait's quantiles, and the chance of a start by a deadline."""

    quantile: Booster
    chance: Booster


@dataclass
class QueueTimeModel:
    """A fitted predictor of waits; `fit`, then `curve`, `quantiles`, `chances`."""

    settings: Settings = field(default_factory=Settings)
    names: list[str] = field(default_factory=list)
    deadlines: np.ndarray = field(default_factory=lambda: np.zeros(0))
    longest: float = 0.0
    members: list[Member] = field(default_factory=list)
    calibrator: Calibrator = field(default_factory=Calibrator)

    def fit(self, features: pd.DataFrame, wait: np.ndarray, submit: np.ndarray) -> QueueTimeModel:
        """Fit on jobs that have started.

        Parameters
        ----------
        features
            (n, m), numeric, NaN where unknown; the same columns are asked for when predicting.
        wait
            (n,) seconds.
        submit
            (n,) seconds; tells which rows came last.
        """
        spread = features.max() > features.min()
        self.names = [name for name in features.columns if spread[name]] or list(features.columns)
        order = np.argsort(submit, kind="stable")[-self.settings.max_rows :]
        matrix = features[self.names].to_numpy(dtype=np.float32)[order]
        wait, submit = wait[order], submit[order]
        count = self.settings.n_members(len(order))
        first = int(len(order) * (1 - self.settings.holdout))
        early = np.arange(first)[submit[:first] + wait[:first] < submit[min(first, len(order) - 1)]]
        if self.settings.holdout and len(early) >= 100:
            self._boost(matrix[early], wait[early], count)
            with step(f"judging the intervals on the last {len(order) - first:,} jobs"):
                self.calibrator.fit(wait[first:], self._curve(matrix[first:]))
        self._boost(matrix, wait, count)
        return self

    def _boost(self, matrix: np.ndarray, wait: np.ndarray, count: int) -> None:
        chosen = self.settings
        common: dict[str, object] = {
            "max_depth": chosen.depth,
            "eta": chosen.eta,
            "colsample_bytree": chosen.colsample,
        }
        common |= {"subsample": chosen.subsample, "reg_lambda": chosen.reg_lambda}
        common["min_child_weight"] = chosen.least_weight
        self.longest = float(wait.max())
        self.deadlines = _deadlines(wait, chosen.n_deadlines)
        self.members = fit_members(lambda seed: self._member(matrix, wait, seed, common), chosen.seed, count)

    def _member(self, matrix: np.ndarray, wait: np.ndarray, seed: int, common: dict[str, object]) -> Member:
        chosen = self.settings
        target = wait**chosen.power if chosen.power else np.log1p(wait)
        quantile = fit_quantiles(matrix, target, LEVELS, chosen.quantile_rounds, seed, **common)
        rows, deadline = _pairs(len(wait), self.deadlines, chosen.max_pairs, seed)
        pairs = np.column_stack([matrix[rows], np.log1p(deadline).astype(np.float32)])
        chance = fit_chances(
            pairs, (wait[rows] <= deadline).astype(float), chosen.chance_rounds, seed,
            **(common | {"min_child_weight": 2 * chosen.least_weight}),
        )  # fmt: skip
        return Member(quantile, chance)

    def _curve(self, matrix: np.ndarray) -> np.ndarray:
        def one_curve(member: Member) -> np.ndarray:
            one, other = self._curves(member, matrix)
            return self.settings.weight * one + (1 - self.settings.weight) * other

        return mean_of(self.members, one_curve)

    def _curves(self, member: Member, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_chance = self._chance_curve(member, matrix)
        scaled = np.sort(predict(member.quantile, matrix).reshape(len(matrix), -1), axis=1)
        power = self.settings.power
        stated = np.maximum(scaled, 0) ** (1 / power) if power else np.expm1(np.clip(scaled, 0, 50))
        shift = np.log1p(stated) - np.log1p(quantiles_at(by_chance, LEVELS))
        at = np.clip(np.searchsorted(LEVELS, GRID, side="left"), 1, len(LEVELS) - 1)
        part = np.clip((GRID - LEVELS[at - 1]) / (LEVELS[at] - LEVELS[at - 1]), 0, 1)
        moved = np.log1p(by_chance) + shift[:, at - 1] * (1 - part) + shift[:, at] * part
        moved[:, 0], moved[:, -1] = 0.0, np.maximum(moved[:, -1], np.log1p(by_chance[:, -1]))
        return np.expm1(np.maximum.accumulate(np.maximum(moved, 0), axis=1)), by_chance

    def _chance_curve(self, member: Member, matrix: np.ndarray) -> np.ndarray:
        n, count = len(matrix), len(self.deadlines)
        chance = np.empty((n, count))
        pairs = np.column_stack([matrix, np.zeros(n, np.float32)])
        if n * count <= 5000:
            tall = np.repeat(pairs, count, axis=0)
            tall[:, -1] = np.tile(np.log1p(self.deadlines), n)
            chance = predict(member.chance, tall).reshape(n, count)
        else:
            for position, deadline in enumerate(self.deadlines):
                pairs[:, -1] = np.log1p(deadline)
                chance[:, position] = predict(member.chance, pairs)
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
        return features[self.names].to_numpy(dtype=np.float32)

    def curve(self, features: pd.DataFrame) -> np.ndarray:
        """Return each row's wait in seconds at the levels `calibrate.GRID`, uncorrected."""
        return self._curve(self.matrix(features))

    def distribution(self, features: pd.DataFrame) -> Distribution:
        """Return each row's distribution of the wait, corrected by what came of recent jobs."""
        nothing = np.zeros(0)
        reach = self.calibrator.reach(nothing, nothing.astype(bool))
        levels = 0.5 + (GRID - 0.5) * np.where(np.abs(GRID - 0.5) < 0.5, min(reach / 0.9, 1.0), 1.0)
        return Distribution(quantiles_at(self.curve(features), levels))


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
