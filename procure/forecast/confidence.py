"""How sure is it that a pattern goes on? What was forecast, what came of it, and four answers.

A forecast is made when a burst begins: a like one will begin one period later, within the tolerance. The
confidence uses only what was known at that moment: of earlier forecasts those that had been fulfilled or
missed, and bursts that had begun.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import xgboost
from scipy.special import expit, logit, ndtr

from procure.errors import ArgumentError
from procure.forecast.periods import DAY, PERIODS, Patterns
from procure.text import nearest
from procure.workload.clock import from_local

NEVER = 1 << 41
"""A time, s, that never comes."""


class Known:
    """Events of groups, each known from a moment, s, on: their count and the sums of values as of any moment."""

    def __init__(self, group: np.ndarray, moment: np.ndarray, *values: np.ndarray) -> None:
        """Sort the events, by group and moment."""
        self._zero = int(min(moment.min(initial=0), 0))
        place = _place(group, moment - self._zero)
        order = np.argsort(place, kind="stable")
        self._place = place[order]
        ones = np.ones(len(group))
        self._sums = [np.concatenate([[0.0], np.cumsum(column[order])]) for column in (ones, *values)]

    def until(self, group: np.ndarray, moment: np.ndarray, since: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the count and the sums, float64[m] each, of what was known at ``moment``.

        With ``since``, of what had become known from then on.
        """
        high = np.searchsorted(self._place, _place(group, moment - self._zero), "right")
        start = np.zeros_like(moment) if since is None else since - self._zero
        low = np.searchsorted(self._place, _place(group, start), "left")
        return [sums[high] - sums[low] for sums in self._sums]


def _place(group: np.ndarray, moment: np.ndarray) -> np.ndarray:
    return (group.astype(np.int64) << 42) + np.clip(moment, 0, NEVER)


def since_last(group: np.ndarray, moment: np.ndarray, most: int) -> np.ndarray:
    """Return the seconds since the group's event before each of the events, which are in order; at most ``most``."""
    return pd.Series(moment).groupby(group).diff().fillna(most).clip(0, most).to_numpy(np.int64)


def since_first(group: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """Return the seconds since the group's first event, int64[n]."""
    return moment - pd.Series(moment).groupby(group).transform("min").to_numpy(np.int64)


MODES = ("pdf", "survival", "hazard", "boosted")
"""``pdf`` is the published rule."""
_LONGEST = 20
"""Lengths from here on count as one."""
_FEWEST_LENGTHS = 5
"""Of fewer ended patterns of a size, all sizes together say what lengths are usual."""


def check_mode(mode: str) -> None:
    """Raise an `ArgumentError` if a mode is not one of `MODES`."""
    if mode not in MODES:
        raise ArgumentError("confidence", f"{mode!r} is not known; {nearest(mode, MODES)}")


class Forecasts(NamedTuple):
    """The forecasts of one layer, in order of their issue; an entry each."""

    layer: int
    burst: np.ndarray  # int64[n], the burst that will come again
    issued: np.ndarray  # int64[n], s
    expected: np.ndarray  # int64[n], s
    known: np.ndarray  # int64[n], s from which it is known whether it came; NEVER = the log ends before
    came: np.ndarray  # bool[n]
    key: np.ndarray  # int64[n]
    user: np.ndarray  # int64[n]
    size: np.ndarray  # int64[n], log2 of the CPUs
    length: np.ndarray  # int64[n], bursts in a row, without the one forecast


def make_forecasts(patterns: Patterns, period: str) -> Forecasts:
    """Prolong every burst by one of `PERIODS`."""
    layer = list(PERIODS).index(period)
    b, settings = patterns.bursts, patterns.settings
    expected = from_local(b.local + PERIODS[period], settings.tz)
    known = expected + settings.tolerance[layer] + 1
    came = b.again[layer] >= 0
    keys = patterns.keys
    user = pd.factorize(keys.get("user", keys.index))[0].astype(np.int64)
    cpus = keys["cpus"].to_numpy(np.int64) if "cpus" in keys else np.ones(len(keys), np.int64)
    size = np.log2(np.maximum(cpus, 1)).astype(np.int64)
    return Forecasts(
        layer,
        np.arange(len(b.key)),
        b.start,
        expected,
        np.where(known <= patterns.last, known, NEVER),
        came,
        b.key,
        user[b.key],
        size[b.key],
        b.length[layer],
    )


def by_length(forecasts: Forecasts, survival: bool) -> np.ndarray:
    """Compare the pattern's length with the lengths of like patterns that have ended, taken as normal.

    With L the length, the forecast burst included, and μ, σ of the ended patterns of that size and
    period: exp(−(L − μ)² / 2σ²), the published factor; or P(length ≥ L), the ``survival``. Where nothing
    has ended, 0.5.
    """
    f = forecasts
    ended = np.where(f.came, NEVER, f.known)
    length = f.length.astype(np.float64)
    one = np.zeros(len(f.burst), np.int64)
    of_all = Known(one, ended, length, length**2).until(one, f.issued)
    of_size = Known(f.size, ended, length, length**2).until(f.size, f.issued)
    few = of_size[0] < _FEWEST_LENGTHS
    n, total, squares = (np.where(few, a, s) for a, s in zip(of_all, of_size, strict=True))
    counted = np.maximum(n, 1)
    mean = total / counted
    deviation = np.sqrt(np.maximum(squares / counted - mean**2, 0))
    deviation = np.where(deviation > 0, deviation, 1.0)
    if survival:
        found = ndtr(-(length + 0.5 - mean) / deviation)
    else:
        found = np.exp(-(((length + 1 - mean) / deviation) ** 2) / 2)
    return np.where(n > 0, found, 0.5)


class Rates(NamedTuple):
    """Shares of fulfilled forecasts as known at each issue, float64[n]; fewer counts, nearer to the wider group."""

    overall: np.ndarray
    of_length: np.ndarray
    of_user: np.ndarray
    of_key: np.ndarray
    n_user: np.ndarray
    n_key: np.ndarray


def rates(forecasts: Forecasts) -> Rates:
    """Count, as of each issue, how many earlier forecasts had come true."""
    f = forecasts
    came = f.came.astype(np.float64)

    def share(group: np.ndarray, prior: np.ndarray | float, weight: float) -> tuple[np.ndarray, np.ndarray]:
        n, hits = Known(group, f.known, came).until(group, f.issued)
        return (hits + weight * prior) / (n + weight), n

    overall, _ = share(np.zeros(len(f.burst), np.int64), 0.2, 5)
    of_length, _ = share(np.minimum(f.length, _LONGEST), overall, 2)
    of_user, n_user = share(f.user, overall, 4)
    of_key, n_key = share(f.key, of_user, 4)
    return Rates(overall, of_length, of_user, of_key, n_user, n_key)


def hazard(forecasts: Forecasts) -> np.ndarray:
    """Return the share of patterns of that length that went on, moved by how much the user's forecasts differ.

    logit p = logit(share of the length) + logit(share of the user) − logit(share of all).
    """
    found = rates(forecasts)
    return np.asarray(expit(logit(found.of_length) + logit(found.of_user) - logit(found.overall)))


FEWEST, FEWEST_CAME = 100, 10
"""Known outcomes, and among them fulfilled ones, that a model needs; before, the hazard stands."""
_GROWTH = 1.05
"""A model is fitted anew at the first midnight (after the log's beginning) with so many times the outcomes."""
_MOST = 20_000
"""Of the outcomes known at a fit the last ones."""
_ROUNDS = 150
_SETTINGS = {
    "objective": "binary:logistic",
    "max_depth": 3,
    "eta": 0.05,
    "min_child_weight": 10,
    "subsample": 0.7,
    "colsample_bytree": 0.5,
    "reg_lambda": 5.0,
    "nthread": 1,
    "verbosity": 0,
}
_LONG_AGO = 40 * DAY


def confidence_of(patterns: Patterns, forecasts: Forecasts, mode: str) -> np.ndarray:
    """Return the confidence of each forecast under one of `MODES`, float64[n] in [0, 1]."""
    check_mode(mode)
    if mode == "boosted":
        return boosted(patterns, forecasts)
    return hazard(forecasts) if mode == "hazard" else by_length(forecasts, survival=mode == "survival")


def boosted(patterns: Patterns, forecasts: Forecasts) -> np.ndarray:
    """Return the confidence of each forecast, float64[n], from a model of what was known at that day's beginning.

    Days are counted from the log's first submission.
    """
    f, came = forecasts, forecasts.came.astype(np.float64)
    table, found = features(patterns, f), hazard(f)
    by_known = np.argsort(f.known, kind="stable")
    known = f.known[by_known]
    day = (f.issued - patterns.first) // DAY
    model, n_fitted = None, 0
    for number in np.unique(day).tolist():
        low, high = np.searchsorted(day, [number, number + 1]).tolist()
        n_known = int(np.searchsorted(known, patterns.first + number * DAY, "right"))
        latest = by_known[max(0, n_known - _MOST) : n_known]
        if n_known >= max(FEWEST, _GROWTH * n_fitted) and FEWEST_CAME <= came[latest].sum() < len(latest):
            data = xgboost.QuantileDMatrix(table[latest], came[latest], nthread=1)
            how = _SETTINGS | {"seed": 0, "base_score": float(came[latest].mean())}
            model, n_fitted = xgboost.train(how, data, _ROUNDS), n_known
        if model is not None:
            found[low:high] = model.inplace_predict(table[low:high])
    return found


def features(patterns: Patterns, forecasts: Forecasts) -> np.ndarray:
    """Return a row per forecast, float32, of what is known when it is made.

    The confidences without a model and the shares that they are made of; the lengths of the patterns in every layer;
    bursts of the same key and user in the last 1, 7 and 28 days, and about the same time of 1 to 7 days and 1 to 4
    weeks before; gaps and ages; hour, weekday now and at the forecast; the request.
    """
    f, b = forecasts, patterns.bursts
    found = rates(f)
    columns = [by_length(f, survival=False), by_length(f, survival=True), logit(hazard(f))]
    columns += [found.of_length, found.of_user, found.of_key, found.n_user, found.n_key, found.overall, *b.length]
    columns += _counts(f.key, patterns) + _counts(f.user, patterns)
    then = b.local + list(PERIODS.values())[f.layer]
    columns += [b.local // 3600 % 24, *((moment // DAY + 4) % 7 for moment in (b.local, then))]
    names = [name for name in ("cpus", "limit", "mem", "gpus") if name in patterns.keys]
    columns += [patterns.keys[name].to_numpy(np.float64)[f.key] for name in names]
    return np.column_stack(columns).astype(np.float32)


def _counts(group: np.ndarray, patterns: Patterns) -> list[np.ndarray]:
    """Count a group's earlier bursts, lately and about the same time of earlier days and weeks."""
    start, local, settings = patterns.bursts.start, patterns.bursts.local, patterns.settings
    lately, by_clock = Known(group, start), Known(group, local)

    def about(before: int, tolerance: int) -> np.ndarray:
        return by_clock.until(group, local - before + tolerance, local - before - tolerance)[0]

    days = [about(n * DAY, settings.day_tolerance) > 0 for n in range(1, 8)]
    return [
        *(lately.until(group, start - 1, start - n * DAY)[0] for n in (1, 7, 28)),
        *(days[n - 1] for n in (1, 2, 3, 7)),
        np.sum(days, axis=0),
        *(about(7 * n * DAY, settings.week_tolerance) for n in range(1, 5)),
        since_last(group, start, _LONG_AGO),
        since_first(group, start),
    ]
