"""How much of a workload recurs: shares of its CPU-hours in jobs that came again."""

from __future__ import annotations

import pandas as pd

from procure.forecast.evaluation import cpu_hours
from procure.forecast.periods import PERIODS, Patterns, PatternSettings


def recurring_shares(jobs: pd.DataFrame, settings: PatternSettings | None = None) -> dict[str, float]:
    """Return, per period of which the log holds two, the share of CPU-hours in bursts that recur.

    A burst recurs if a like one began one period before or after it, within the tolerance.

    Returns
    -------
    dict
        ``recurring_cpu_hours_day``, ``…_week``, ``…_month``; a share of all CPU-hours each.
    """
    patterns = Patterns(settings)
    patterns.extend(jobs)
    hours, b = cpu_hours(jobs, patterns), patterns.bursts
    total = hours.sum()
    found = {}
    for layer, name in enumerate(PERIODS):
        if name in patterns.layers() and total > 0:
            again = (b.before[layer] >= 0) | (b.again[layer] >= 0)
            found[f"recurring_cpu_hours_{name}"] = float(hours[again].sum() / total)
    return found
