"""Ways to recalibrate `boosted`, tried against the version before: shrunk by groups, forgetting, with the hazard.

Forgetting by 8 periods is in use (`procure.forecast.calibration`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, logit

from procure.forecast.boosted import _days
from procure.forecast.calibration import BLOCK, WINDOW, pooled
from procure.forecast.confidence import Forecasts, hazard
from procure.forecast.evaluation import judge
from procure.forecast.periods import DAY, PERIODS, Patterns

GROUPS = (5, 20, 80)
"""User-days of the overall share that are added to each block."""
HALF_LIVES = (2, 4, 8)
"""Periods after which an outcome counts half."""


def variants(patterns: Patterns, forecasts: Forecasts, period: str, raw: np.ndarray) -> dict[str, np.ndarray]:
    """Return the chances of every forecast under the rule before and under each other one."""
    f = forecasts
    came = f.came.astype(float)
    user_day = np.unique(f.user * 100_000 + (f.issued - patterns.first) // DAY, return_inverse=True)[1]

    def as_known(chance: np.ndarray, rule: Callable[..., np.ndarray]) -> np.ndarray:
        found = chance.copy()
        for today, known in _days(patterns, f):
            known = known[-WINDOW:]
            age = (f.known[known].max(initial=0) - f.known[known]) / PERIODS[period]
            found[today] = rule(chance[today], chance[known], came[known], user_day[known], age)
        return found

    both = expit((_odds(raw) + _odds(hazard(f))) / 2)
    rules = {f"shrunk, {n} user-days": _rule(groups=n) for n in GROUPS}
    rules |= {f"forgetting, {n} periods": _rule(half_life=n) for n in HALF_LIVES}
    found = {"none": raw, "before": as_known(raw, _rule())}
    found |= {name: as_known(raw, rule) for name, rule in rules.items()}
    found["with the hazard"] = as_known(both, _rule())
    return found


def compare(
    patterns: Patterns, forecasts: Forecasts, period: str, raw: np.ndarray, judged: np.ndarray
) -> dict[str, Any]:
    """Judge each rule on the forecasts of the first and the second half of the log's time: Brier gain, worst tenth."""
    first = forecasts.issued < (patterns.first + patterns.last) / 2
    found: dict[str, Any] = {}
    for name, sure in variants(patterns, forecasts, period, raw).items():
        found[name] = {}
        for half, rows in (("first", judged & first), ("second", judged & ~first)):
            if 0 < forecasts.came[rows].sum() < rows.sum():
                values = judge(sure[rows], forecasts.came[rows])
                found[name][half] = [values["brier_gain"], values["worst_tenth"]]
    return found


def gains(cells: dict[str, dict[str, Any]], half: str) -> dict[str, Any]:
    """Count, per rule, the cells in which it betters the one before by Brier gain and by worst tenth; and the means."""
    cells = {name: cell for name, cell in cells.items() if half in cell["before"]}
    found: dict[str, Any] = {"n_cells": len(cells)}
    for rule in next(iter(cells.values())):
        ours, used = (np.array([cell[name][half] for cell in cells.values()]) for name in (rule, "before"))
        found[rule] = {
            "better_brier": int((ours[:, 0] > used[:, 0]).sum()), "better_tenth": int((ours[:, 1] < used[:, 1]).sum()),
            "mean_brier_gain": float(ours[:, 0].mean()), "mean_worst_tenth": float(ours[:, 1].mean()),
        }  # fmt: skip
    return found


def _rule(groups: float = 0, half_life: float = np.inf) -> Callable[..., np.ndarray]:
    """Make the rule before; with groups, blocks are shrunk to the overall share; by half-life, the old counts less."""

    def rule(
        chance: np.ndarray, earlier: np.ndarray, came: np.ndarray, group: np.ndarray, age: np.ndarray
    ) -> np.ndarray:
        if len(earlier) < 200:
            return chance
        weight = 0.5 ** (age / half_life)
        order = np.argsort(earlier, kind="stable")
        first = np.linspace(0, len(order), max(1, len(order) // BLOCK) + 1).astype(np.int64)
        sums = [np.add.reduceat((weight * v)[order], first[:-1]) for v in (earlier, came, np.ones(len(came)))]
        n_groups = [len(np.unique(part)) for part in np.split(group[order], first[1:-1])]
        stated, seen, n, n_own = pooled(np.column_stack([*sums, n_groups])).T
        overall = np.average(came, weights=weight)
        line = np.interp(chance, stated / n, _shrunk(stated, seen, n, n_own, overall, groups))
        return np.asarray(expit((_odds(chance) + _odds(line)) / 2))

    return rule


def _shrunk(
    stated: np.ndarray, seen: np.ndarray, n: np.ndarray, n_own: np.ndarray, overall: float, groups: float
) -> np.ndarray:
    if not groups:
        return (seen + 30 * stated / n) / (n + 30)
    return (seen / n * n_own + groups * overall) / (n_own + groups)


def _odds(chance: np.ndarray) -> np.ndarray:
    return np.asarray(logit(np.clip(chance, 1e-3, 1 - 1e-3)))
