"""How sure is it that a pattern goes on? What was forecast, what came of it, and four answers.

A forecast is made when a burst begins: a like one will begin one period later, within the tolerance. The
confidence uses only what was known at that moment: of earlier forecasts those that had been fulfilled or
missed, and bursts that had begun.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, logit, ndtr

from procure.errors import ArgumentError
from procure.forecast.known import NEVER, Known
from procure.forecast.periods import PERIODS, Patterns
from procure.text import nearest
from procure.workload.clock import from_local

MODES = ("pdf", "survival", "hazard", "boosted")
"""``pdf`` is the published rule; ``boosted`` stands in `procure.forecast.boosted`."""
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
