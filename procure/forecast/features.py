"""What the boosted confidence looks at, all of it known when the forecast is made."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import logit

from procure.forecast.confidence import Forecasts, by_length, codes_of, hazard, rates
from procure.forecast.known import Known, since_first, since_last
from procure.forecast.periods import DAY, PERIODS, Patterns

_LONG_AGO = 40 * DAY


def features(patterns: Patterns, forecasts: Forecasts) -> pd.DataFrame:
    """Return a row per forecast, float32.

    Columns: the confidences without a model and the shares that they are made of; the lengths of the
    patterns in every layer; bursts of the same key and user in the last 1, 7 and 28 days, and about the same
    time of 1 to 7 days and 1 to 4 weeks before; gaps and ages; hour, weekday now and at the forecast; the
    request.
    """
    f, b = forecasts, patterns.bursts
    found = rates(f)
    user, _ = codes_of(patterns)
    key_of, user_of = b.key, user[b.key]
    columns: dict[str, np.ndarray] = {
        "pdf": by_length(f, survival=False), "survival": by_length(f, survival=True),
        "hazard": logit(hazard(f)), "of_length": found.of_length, "of_user": found.of_user,
        "of_key": found.of_key, "n_user": found.n_user, "n_key": found.n_key, "overall": found.overall,
    }  # fmt: skip
    columns |= {f"length_{name}": b.length[layer] for layer, name in enumerate(PERIODS)}
    columns |= _counts("key", key_of, b.start, b.local, patterns)
    columns |= _counts("user", user_of, b.start, b.local, patterns)
    expected = b.local + list(PERIODS.values())[f.layer]
    columns |= {
        "hour": b.local // 3600 % 24, "weekday": _weekday(b.local), "weekday_then": _weekday(expected),
    }  # fmt: skip
    names = [name for name in ("cpus", "limit", "mem", "gpus") if name in patterns.keys]
    columns |= {name: patterns.keys[name].to_numpy(np.float64)[key_of] for name in names}
    return pd.DataFrame({name: np.asarray(values, np.float32) for name, values in columns.items()})


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
