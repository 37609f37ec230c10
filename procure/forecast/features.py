"""What the boosted confidence looks at, all of it known when the forecast is made."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import logit

from procure.forecast.confidence import Forecasts, by_length, codes_of, hazard, make_forecasts, rates
from procure.forecast.known import Known, since_first, since_last
from procure.forecast.lags import Lagged
from procure.forecast.periods import DAY, PERIODS, Patterns

_LONG_AGO = 40 * DAY
_EVER = 10_000
"""Days, more than any log has."""
_USUAL = 0.2
"""The share of forecasts that come true, before any is known."""


def features(patterns: Patterns, forecasts: Forecasts) -> pd.DataFrame:
    """Return a row per forecast, float32.

    Columns: the confidences without a model and the shares that they are made of; the lengths of the
    patterns in every layer; bursts of the same key and user in the last 1, 7 and 28 days, and about the same
    time of 1 to 7 days and 1 to 4 weeks before; gaps and ages; hour, weekday now and at the forecast; the
    request. For months, of which it is known late what came of them, those of `_lately`, too.
    """
    f, b = forecasts, patterns.bursts
    found = rates(f)
    user, _ = codes_of(patterns)
    key_of, user_of = b.key, user[b.key]
    columns: dict[str, np.ndarray] = {
        "pdf": by_length(f, survival=False),
        "survival": by_length(f, survival=True),
        "hazard": logit(hazard(f)),
        "of_length": found.of_length,
        "of_user": found.of_user,
        "of_key": found.of_key,
        "n_user": found.n_user,
        "n_key": found.n_key,
        "overall": found.overall,
    }
    columns |= {f"length_{name}": b.length[layer] for layer, name in enumerate(PERIODS)}
    columns |= _counts("key", key_of, b.start, b.local, patterns)
    columns |= _counts("user", user_of, b.start, b.local, patterns)
    expected = b.local + list(PERIODS.values())[f.layer]
    columns |= {
        "hour": b.local // 3600 % 24,
        "weekday": _weekday(b.local),
        "weekday_then": _weekday(expected),
    }
    names = [name for name in ("cpus", "limit", "mem", "gpus") if name in patterns.keys]
    columns |= {name: patterns.keys[name].to_numpy(np.float64)[key_of] for name in names}
    if f.layer == len(PERIODS) - 1:
        columns |= _lately(patterns, f)
    return pd.DataFrame({name: np.asarray(values, np.float32) for name, values in columns.items()})


class Rows:
    """The features of every burst, for any of the lags by which it is prolonged."""

    def __init__(self, patterns: Patterns, forecasts: Forecasts, lagged: Lagged) -> None:
        """Make the features that do not depend on the lag."""
        frame = features(patterns, forecasts)
        self._then = list(frame).index("weekday_then")
        self._table, self._local, self._lagged = frame.to_numpy(), patterns.bursts.local, lagged

    def of(self, entries: np.ndarray) -> np.ndarray:
        """Return the rows of some of the lagged, float32; with the lag, where there are several."""
        burst, days = self._lagged.burst[entries], self._lagged.days[entries]
        rows = self._table[burst]
        if self._lagged.n_lags == 1:
            return rows
        rows[:, self._then] = _weekday(self._local[burst] + days * DAY)
        return np.column_stack([rows, days.astype(np.float32)])


def _lately(patterns: Patterns, forecasts: Forecasts) -> dict[str, np.ndarray]:
    """Count what came lately of the forecasts of this layer and the shorter ones, and what bursts covered.

    Shares in the last 28 days (of all users in the last 7, too), of shorter layers also since the beginning; the
    share of the last 7, 30 and 90 days within the tolerance of a burst, before or after, and bursts one and two periods
    before.
    """
    f, b = forecasts, patterns.bursts
    found: dict[str, np.ndarray] = {}
    one = np.zeros(len(f.burst), np.int64)
    for layer, name in enumerate(list(PERIODS)[: f.layer + 1]):
        g = make_forecasts(patterns, name)
        every, users, keys = (Known(group, g.known, g.came.astype(float)) for group in (one, f.user, f.key))
        overall = _share(every, one, f.issued, 28, _USUAL)
        of_user = _share(users, f.user, f.issued, 28, overall)
        found |= {
            f"{name}_overall_28d": overall,
            f"{name}_overall_7d": _share(every, one, f.issued, 7, _USUAL),
            f"{name}_of_user_28d": of_user,
            f"{name}_of_key_28d": _share(keys, f.key, f.issued, 28, of_user),
        }
        if layer < f.layer:
            of_user = _share(users, f.user, f.issued, _EVER, overall)
            found[f"{name}_of_user"] = of_user
            found[f"{name}_of_key"] = _share(keys, f.key, f.issued, _EVER, of_user)
    tolerance, period = int(patterns.settings.tolerance[f.layer]), list(PERIODS.values())[f.layer]
    for name, group in (("key", f.key), ("user", f.user)):
        covered = Known(group, b.start, since_last(group, b.start, 2 * tolerance).astype(float))
        for days in (7, 30, 90):
            _, seconds = covered.until(group, b.start - 1, b.start - days * DAY)
            found[f"{name}_covered_{days}d"] = seconds / (days * DAY)
        by_clock = Known(group, b.local)
        for n in (1, 2):
            then = b.local - n * period
            found[f"{name}_before_{n}"] = by_clock.until(group, then + tolerance, then - tolerance)[0]
    return found


def _share(known: Known, group: np.ndarray, moment: np.ndarray, days: int, prior: np.ndarray | float) -> np.ndarray:
    """Return the share of fulfilled forecasts that became known in the last days; the prior counts four."""
    n, hits = known.until(group, moment, moment - days * DAY)
    return np.asarray((hits + 4 * prior) / (n + 4))


def _counts(
    name: str, group: np.ndarray, start: np.ndarray, local: np.ndarray, patterns: Patterns
) -> dict[str, np.ndarray]:
    """Count a group's earlier bursts, lately and about the same time of earlier days and weeks."""
    lately, by_clock = Known(group, start), Known(group, local)
    found = {f"{name}_{days}d": lately.until(group, start - 1, start - days * DAY)[0] for days in (1, 7, 28)}
    day, week = patterns.settings.day_tolerance, patterns.settings.week_tolerance

    def about(before: int, tolerance: int) -> np.ndarray:
        return by_clock.until(group, local - before + tolerance, local - before - tolerance)[0]

    days = [about(n * DAY, day) > 0 for n in range(1, 8)]
    found |= {f"{name}_day_{n}": days[n - 1] for n in (1, 2, 3, 7)}
    found[f"{name}_days"] = np.sum(days, axis=0)
    found |= {f"{name}_week_{n}": about(7 * n * DAY, week) for n in range(1, 5)}
    found[f"{name}_gap"] = since_last(group, start, _LONG_AGO)
    found[f"{name}_age"] = since_first(group, start)
    return found


def _weekday(local: np.ndarray) -> np.ndarray:
    return (local // DAY + 4) % 7  # 1970 began on a Thursday; 0 = Sunday
