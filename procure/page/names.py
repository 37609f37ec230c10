"""What columns are called where people read them, and in which unit they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from procure.schemas import COST_UNITS, SCHEMAS
from procure.text import format_value

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
    ", s": "s", " s": "s", "_s": "s", "_seconds": "s", ", US$": "US$", "_usd": "US$", "_gb": "GB", "_mb": "MB",
    "_kwh_per_year": "kWh/year", ", kWh/year": "kWh/year", ", share": "share",
}  # fmt: skip
"""What names end in, and the unit that it tells, so that it is left out of the heading."""
_SIGNS = {"share": "share", "wait": "s", "_time": "s"}
"""What names end in that stays in the heading."""
_BEGINNINGS = {"precision": "share", "recall": "share", "share_of": "share", "utilization_": "share", "ratio": "ratio"}
IN_HEADS = ("US$", "GB", "MB", "W", "kWh/year")
"""Units that stand in a heading; others are part of the values."""

_UNITS = {
    column.name: column.unit
    for schema in SCHEMAS.values()
    for column in schema.columns
    if column.unit in ("s", "share", "0 or 1")
}
_UNITS |= COST_UNITS | {"usd": "US$"}
_UNITS |= dict.fromkeys(
    "mean_wait mae rmse elapsed logged_mean simulated_mean logged_median simulated_median mean_error seconds "
    "span".split(),
    "s",
)
_UNITS |= dict.fromkeys(("coverage", "covered", "accuracy", "resource_usage", "share_within"), "share")


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


def unit_of(column: object) -> str:
    """Return the unit of a column's values: ``s``, ``share``, another that is known, or nothing."""
    name = str(column)
    if name in _UNITS:
        return _UNITS[name]
    for endings in (_ENDINGS, _SIGNS):
        if unit := next((unit for ending, unit in endings.items() if name.endswith(ending)), ""):
            return unit
    return next((unit for beginning, unit in _BEGINNINGS.items() if name.startswith(beginning)), "")


def head(name: str, unit: str | None = None) -> tuple[str, str]:
    """Return a column's name in words, and the unit of its cells, which ``unit`` tells where the name does not.

    A unit that is not part of the values stands behind the words: ``mem GB``.
    """
    ending = next((one for one in _ENDINGS if name.endswith(one) and name != one), "")
    text = heading(name if name in HEADINGS else name.removesuffix(ending))
    known = unit_of(name) if unit is None else unit
    return (f"{text} {known}" if known in IN_HEADS and known != text else text), known


def minus(number: str) -> str:
    """Write a number's sign as typography does; a zero, rounded or not, has none."""
    zero = "0" in number and not any(digit in number for digit in "123456789")
    return ("" if zero else "−") + number[1:] if number.startswith("-") else number


def share(value: Any) -> str:
    """Write a share in per cent: ``12 %``; a dash if it is unknown."""
    return "–" if value != value or value is None else f"{100 * value:.0f} %"


def shown(value: Any, unit: str = "") -> str:
    """Write a value of a page's table, see `procure.text.format_value`: with a true minus, and no digit of the tiny."""
    if not unit and isinstance(value, float) and 0 < abs(value) < 0.001:
        return "under 0.001" if value > 0 else "over −0.001"
    text = format_value(value, unit)
    return minus(text.replace("%", " %") if unit == "share" else text)
