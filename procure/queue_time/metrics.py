"""Metrics of predicted waits: errors in seconds and orders of magnitude, probabilities, intervals."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
"""The quantiles over which the pinball loss is averaged."""
HOURS = (1, 4, 8, 12)
"""The deadlines that are shown beside the mean wait, in hours."""


@dataclass(frozen=True)
class Forecast:
    """The predictions of a method for some jobs.

    ``point`` is (n,) seconds; ``quantiles`` (n, 5) at `LEVELS`, ``interval`` (n, 2) the ends of the one of nine in ten
    and ``chances`` by deadline in seconds, (n,) probabilities of a start by then, all None for a point method;
    ``about`` is added to its rows.
    """

    point: np.ndarray
    quantiles: np.ndarray | None = None
    interval: np.ndarray | None = None
    chances: dict[float, np.ndarray] | None = None
    about: dict[str, int] = field(default_factory=dict)


def pinball(wait: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Average the pinball loss over `LEVELS`, (n,) seconds."""
    over = wait[:, None] - quantiles
    return np.asarray(np.maximum(LEVELS * over, (LEVELS - 1) * over).mean(axis=1))


def by_burst(value: np.ndarray, burst: np.ndarray) -> np.ndarray:
    """Return the mean of values (n,) over the rows of each burst, in the order of their numbers."""
    _, number, size = np.unique(burst, return_inverse=True, return_counts=True)
    return np.asarray(np.bincount(number, value) / size)


def within_2x(wait: np.ndarray, point: np.ndarray) -> float:
    """Return the share with max(predicted, 1 s) / max(wait, 1 s) in [1/2, 2]."""
    ratio = np.maximum(point, 1) / np.maximum(wait, 1)
    return float(((ratio >= 0.5) & (ratio <= 2)).mean())


def covered(wait: np.ndarray, interval: np.ndarray) -> np.ndarray:
    """Return which waits lie in the 90 % interval (n, 2), whose ends are rounded outward to whole seconds."""
    return (wait >= np.floor(interval[:, 0])) & (wait <= np.ceil(interval[:, 1]))


def confusion(wait: np.ndarray, point: np.ndarray, deadline: float) -> dict[str, float]:
    """Judge a deadline: positive = starts by it. Recall is TP/(TP+FN); a ratio over nothing is NaN."""
    predicted, happened = point <= deadline, wait <= deadline
    tp, fp = int((predicted & happened).sum()), int((predicted & ~happened).sum())
    fn, tn = int((~predicted & happened).sum()), int((~predicted & ~happened).sum())

    def ratio(part: float, whole: float) -> float:
        return part / whole if whole else float("nan")

    return {"tp": tp, "fp": fp, "fn": fn, "tn": tn} | {
        "accuracy": ratio(tp + tn, len(wait)),
        "precision": ratio(tp, tp + fp),
        "recall": ratio(tp, tp + fn),
        "f1": ratio(2 * tp, 2 * tp + fp + fn),
    }


def brier(chance: np.ndarray, happened: np.ndarray) -> float:
    """Return the mean squared difference of chance and outcome."""
    return float(np.mean((chance - happened) ** 2))


def _quantiles(forecast: Forecast) -> np.ndarray:
    """Return a forecast's quantiles at `LEVELS`; a number without known errors is stated at each."""
    return np.repeat(forecast.point[:, None], len(LEVELS), 1) if forecast.quantiles is None else forecast.quantiles


def beats(wait: np.ndarray, one: Forecast, other: Forecast, burst: np.ndarray) -> float:
    """Return in which share of 500 draws of as many bursts, with replacement, a forecast has less pinball loss."""
    loss = pinball(wait, _quantiles(one)) - pinball(wait, _quantiles(other))
    sums = np.bincount(np.unique(burst, return_inverse=True)[1], loss)
    rng = np.random.default_rng(0)
    return float(np.mean([rng.choice(sums, len(sums)).sum() < 0 for _ in range(500)]))


def judge(
    wait: np.ndarray, forecast: Forecast, deadlines: dict[str, float], base: np.ndarray, burst: np.ndarray | None = None
) -> list[dict]:
    """Measure a forecast of waits (n,): one row per deadline, s by label.

    ``base`` are the training rows' waits, whose share by each deadline is the base rate's chance; ``burst`` (n,) is the
    number of each job's burst, without which each job is one.
    """
    point = forecast.point
    quantiles, interval = _quantiles(forecast), forecast.interval
    error = np.abs(point - wait)
    inside = None if interval is None else covered(wait, interval)
    burst = np.arange(len(wait)) if burst is None else burst
    common = {
        "mae": float(error.mean()),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "within_2x": within_2x(wait, point),
        "pinball": float(pinball(wait, quantiles).mean()),
        "coverage_90": None if inside is None else float(inside.mean()),
        "coverage_90_by_burst": None if inside is None else float(by_burst(inside, burst).mean()),
        "median_width_90": None if interval is None else float(np.median(interval[:, 1] - interval[:, 0])),
    }
    rows = []
    for label, deadline in deadlines.items():
        did = wait <= deadline
        matrix = confusion(wait, point, deadline)
        chance = (forecast.chances or {}).get(deadline)
        rows.append(
            {"deadline_label": label, "deadline": deadline}
            | common
            | {
                "deadline_accuracy": matrix.pop("accuracy"),
                "majority_accuracy": float(max(did.mean(), 1 - did.mean())),
                "brier": None if chance is None else brier(chance, did),
                "brier_base": brier(np.full(len(wait), (base <= deadline).mean()), did),
            }
            | matrix
        )
    return rows
