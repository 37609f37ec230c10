"""What columns are called where people read them, in which unit they are, and how a page writes their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from procure.schemas import COST_UNITS, METRICS
from procure.text import duration

HEADINGS = {
    "mean_wait_time": "mean wait", "mean_wait": "mean wait", "median_wait_time": "median wait",
    "p95_wait_time": "95 % wait", "max_wait_time": "longest wait", "mean_bounded_slowdown": "bounded slowdown",
    "mean_turnaround_time": "mean turnaround", "utilization_cpu": "CPUs used", "utilization_mem": "memory used",
    "utilization_gpu": "GPUs used", "n_jobs": "jobs", "n_completed": "ran", "n_unrunnable": "fit nowhere",
    "n_killed": "cut at limit", "max_queue_depth": "longest queue", "elapsed": "kernel time",
    "mae": "mean error", "rmse": "RMSE", "mse_log10": "mean squared error of log10", "within_2x": "within factor 2",
    "within_3x": "within factor 3", "pinball": "pinball loss", "deadline_label": "deadline",
    "deadline_accuracy": "accuracy", "majority_accuracy": "accuracy of always the same",
    "coverage_90": "inside 90 % interval", "brier": "Brier score", "brier_base": "Brier score of the base rate",
    "worst_gap": "worst tenth's gap, points", "worst_gap_by_burst": "worst tenth's gap by burst, points",
    "worst_gap_luck": "worst tenth's gap by luck alone, points",
    "worst_gap_by_burst_luck": "the same by luck alone, points",
    "brier_constant": "Brier score of the base rate", "tp": "TP", "fp": "FP", "fn": "FN", "tn": "TN", "f1": "F1",
    "auc": "AUC", "auc_days_shuffled": "AUC, days shuffled", "auc_outcomes_shuffled": "AUC, outcomes shuffled",
    "n_forecasts": "forecasts", "n_test": "judged",
    "p_value": "p", "accuracy_as_published": "share of calls “falls”", "n": "number",
    "mean_cost_code": "mean cost (code)", "mean_cost_paper": "mean cost (paper)", "p95_ms": "95 % solved within, ms",
    "mean_ms": "mean solving time, ms", "n_bursts": "bursts", "n_within": "patterns within",
    "jobs_per_burst": "jobs per burst", "seasonal_naive": "same hour a week before",
    "no_change": "no change", "aph": "hops", "mean_aph": "mean hops", "median_aph": "median hops",
    "max_aph": "most hops", "ideal_aph": "ideal hops", "p_wilcoxon": "p (Wilcoxon)", "p_t": "p (t-test)",
    "seconds": "time", "kernel_seconds": "kernel time", "wait_s": "mean wait", "requested_time": "limit", "usd": "US$",
    "tco_usd": "total cost of ownership", "usd_per_job": "cost per job", "usd_per_core_hour": "cost per core-hour",
}  # fmt: skip
"""Where a name with its underscores as spaces would not do."""
_WORDS = {"cpu": "CPU", "cpus": "CPUs", "gpu": "GPU", "gpus": "GPUs", "rmse": "RMSE", "usd": "US$"}

_ENDINGS = {
    ", s": "s", " s": "s", "_s": "s", "_seconds": "s", ", US$": "US$", "_usd": "US$", "_gb": "GB", "_mb": "MB",
    "_kwh_per_year": "kWh/year", ", kWh/year": "kWh/year", ", share": "share",
}  # fmt: skip
"""What names end in, and the unit that it tells."""
_KEPT_ENDINGS = {"share": "share", "wait": "s"}

_UNITS = (
    {one.name: one.unit for one in METRICS if one.unit in ("s", "share", "0 or 1")}
    | COST_UNITS
    | {"usd": "US$"}
)
_UNITS |= dict.fromkeys(
    ("mean_wait", "mae", "rmse", "pinball", "elapsed", "logged_mean", "simulated_mean", "logged_median",
     "simulated_median", "mean_absolute_error", "seconds", "span", "requested_time", "run_time"),
    "s",
)  # fmt: skip
_UNITS |= dict.fromkeys(
    ("within_2x", "within_3x", "deadline_accuracy", "majority_accuracy", "coverage_90", "coverage", "covered",
     "accuracy", "accuracy_as_published", "balanced_accuracy", "base_rate", "resource_usage", "within_10_min",
     "worst_tenth"),
    "share",
)  # fmt: skip


def servers(package_id: str) -> str:
    """Write ``A=2,B=1`` as ``2 × A, 1 × B``."""
    parts = (part.rpartition("=") for part in package_id.split(","))
    return ", ".join(f"{count} × {name}" for name, _, count in parts)


def heading(column: object) -> str:
    """Return what a column is called: ``mean_wait_time`` is the mean wait, ``n_cpus`` are CPUs."""
    name = str(column)
    words = name.removeprefix("n_").replace("_", " ").split(" ")
    return HEADINGS.get(name) or " ".join(_WORDS.get(word, word) for word in words)


def told(name: str) -> tuple[str, str]:
    """Return what a column is called without its unit, and the unit that its name tells; ``""`` where it does not."""
    for ending, unit in _ENDINGS.items():
        if name.endswith(ending) and name != ending:
            return heading(name if name in HEADINGS else name[: -len(ending)]), unit
    for ending, unit in _KEPT_ENDINGS.items():
        if name == ending or name.endswith(("_" + ending, " " + ending)):
            return heading(name), unit
    return heading(name), _UNITS.get(name, "share" if name.startswith("utilization_") else "")


def unit_of(column: object) -> str:
    """Return the unit of a column's values: ``s``, ``share``, another that is known, or nothing."""
    name = str(column)
    if name.startswith(("precision", "recall", "share_of")):
        return "share"
    if name.startswith("ratio"):
        return "ratio"
    return _UNITS.get(name) or ("s" if name.endswith(("_time", "_seconds")) else "")


def minus(number: str) -> str:
    """Write a number's sign as typography does; a zero, rounded or not, has none."""
    zero = "0" in number and not any(digit in number for digit in "123456789")
    return ("" if zero else "−") + number[1:] if number.startswith("-") else number


def share(value: Any) -> str:
    """Write a share in per cent: ``12 %``; a dash if it is unknown."""
    return "–" if pd.isna(value) else f"{100 * value:.0f} %"


def shown(value: Any, unit: str = "") -> str:
    """Write a value of a table: lengths of time in two units, shares in per cent, else at most three digits.

    From 100 on, all digits before the point are written.
    """
    if pd.isna(value):
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if not isinstance(value, int | float | np.number):
        return str(value)
    if unit == "s":
        return minus(duration(float(value)))
    if unit == "share":
        return minus(f"{100 * value:.1f} %")
    if unit == "0 or 1":
        return "yes" if value else "no"
    size = abs(float(value))
    if size >= 100 or float(value).is_integer():
        return minus(f"{value:,.0f}")
    if size < 0.001:
        return "under 0.001" if value > 0 else "over −0.001"
    return minus(f"{value:.3g}")
