"""What columns are called where people read them, in which unit they are, and how a page writes their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from procure.schemas import COST_UNITS, METRICS
from procure.text import duration

HEADINGS = {
    "mean_wait_time": "mean wait", "mean_wait": "mean wait", "median_wait_time": "median wait",
    "p95_wait_time": "95 % wait", "max_wait_time": "longest wait", "widest_wait_time": "wait of the widest 5 %",
    "mean_bounded_slowdown": "bounded slowdown", "mean_turnaround_time": "mean turnaround",
    "utilization_cpu": "CPUs used", "utilization_mem": "memory used", "utilization_gpu": "GPUs used",
    "n_jobs": "jobs", "n_completed": "ran", "n_unrunnable": "fit nowhere", "n_killed": "cut at limit",
    "max_queue_depth": "longest queue", "elapsed": "kernel time", "mae": "mean error", "rmse": "RMSE",
    "brier": "Brier score", "tp": "TP", "fp": "FP", "fn": "FN", "tn": "TN", "f1": "F1", "auc": "AUC",
    "p_value": "p", "n": "number", "n_bursts": "bursts", "p_wilcoxon": "p (Wilcoxon)", "p_t": "p (t-test)",
    "seconds": "time", "kernel_seconds": "kernel time", "wait_s": "mean wait", "requested_time": "limit",
    "usd": "US$", "tco_usd": "total cost of ownership", "usd_per_job": "cost per job",
    "usd_per_core_hour": "cost per core-hour",
}  # fmt: skip
"""Where a name with its underscores as spaces would not do; a room adds those of its own tables."""
_WORDS = {"cpu": "CPU", "cpus": "CPUs", "gpu": "GPU", "gpus": "GPUs", "rmse": "RMSE", "usd": "US$"}

_ENDINGS = {
    ", s": "s",
    " s": "s",
    "_s": "s",
    "_seconds": "s",
    ", US$": "US$",
    "_usd": "US$",
    "_gb": "GB",
    "_mb": "MB",
    "_kwh_per_year": "kWh/year",
    ", kWh/year": "kWh/year",
    ", share": "share",
}
"""What names end in, and the unit that it tells."""
_KEPT_ENDINGS = {"share": "share", "wait": "s"}

_UNITS = {one.name: one.unit for one in METRICS if one.unit in ("s", "share", "0 or 1")} | COST_UNITS | {"usd": "US$"}
_UNITS |= dict.fromkeys(
    "mean_wait mae rmse elapsed logged_mean simulated_mean logged_median simulated_median mean_absolute_error seconds "
    "span requested_time run_time".split(),
    "s",
)
_UNITS |= dict.fromkeys(("coverage", "covered", "accuracy", "resource_usage", "within_10_min"), "share")


def add_names(headings: Mapping[str, str], seconds: Iterable[str] = (), shares: Iterable[str] = ()) -> None:
    """Take on what a room calls the columns of its own tables, and which of them are seconds or shares."""
    HEADINGS.update(headings)
    _UNITS.update(dict.fromkeys(seconds, "s") | dict.fromkeys(shares, "share"))


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
