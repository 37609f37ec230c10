"""The names of the orders and fits, as options of a policy; `order` and `fit` hold the rules."""

from __future__ import annotations

ORDERS = (
    *("fcfs", "lcfs", "sjf", "smallest", "largest", "edf", "wfp3", "unicef"),
    *("f1", "f2", "f3", "f4", "priority"),
)
FCFS, LCFS, SJF, SMALLEST, LARGEST, EDF, WFP3, UNICEF, F1, F2, F3, F4, PRIORITY = range(len(ORDERS))
BY_ESTIMATE = (SJF, WFP3, UNICEF, F1, F2, F3, F4)
"""Orders in which the estimate of a job's run time counts."""

FITS = ("first", "best", "worst")
FIRST, BEST, WORST = range(len(FITS))

NOBODY = "nobody"
"""Who is held back where nothing else is chosen."""

HALF_LIFE = 604_800.0
"""Seconds in which past use counts half under the priority order: Slurm's default of seven days."""

RIVALS = (
    "fcfs",
    "sjf",
    "best-fit",
    "easy",
    "easy:place=best",
    *(f"easy:order={order},place=best" for order in ("sjf", "unicef", "f1")),
    *(f"easy:order={order},queue_order={order},place=best" for order in ("sjf", "unicef", "f1")),
    "conservative:place=best",
)
"""What a scheduler is held against where nothing else is named: rules that are hard to beat, none of them trained."""
