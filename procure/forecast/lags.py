"""What comes of a pattern sooner than a period later: every burst prolonged by parts of the period, too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.forecast.confidence import Forecasts
from procure.forecast.known import NEVER, Known
from procure.forecast.periods import DAY, PERIODS, Patterns
from procure.workload.clock import from_local

_PARTS = 4


class Lagged(NamedTuple):
    """Every burst prolonged by each lag; an entry per lag and burst, the forecasts themselves last."""

    n_lags: int
    burst: np.ndarray  # int64[m]
    days: np.ndarray  # int64[m], the lag
    known: np.ndarray  # int64[m], s from which the outcome is known; NEVER = the log ends before
    came: np.ndarray  # bool[m], within the tolerance of the period


def lagged(patterns: Patterns, forecasts: Forecasts) -> Lagged:
    """Prolong every burst by quarters of the period, in whole days; a period of a day has one lag, itself.

    Quarters of no more than twice the tolerance are left out: a burst would be its own recurrence, or its neighbour's.
    """
    f, b = forecasts, patterns.bursts
    whole = list(PERIODS.values())[f.layer] // DAY
    tolerance = int(patterns.settings.tolerance[f.layer])
    parts = {-(-whole * part // _PARTS) for part in range(1, _PARTS)} - {whole}
    shorter = sorted(days for days in parts if days * DAY > 2 * tolerance)
    known, came = [], []
    by_clock = Known(b.key, b.local)
    for days in shorter:
        expected = b.local + days * DAY
        over = from_local(expected, patterns.settings.tz) + tolerance + 1
        known.append(np.where(over <= patterns.last, over, NEVER))
        came.append(by_clock.until(b.key, expected + tolerance, expected - tolerance)[0] > 0)
    lags = [*shorter, whole]
    return Lagged(
        len(lags),
        np.tile(f.burst, len(lags)),
        np.repeat(lags, len(f.burst)),
        np.concatenate([*known, f.known]),
        np.concatenate([*came, f.came]),
    )
