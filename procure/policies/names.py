"""The names of the orders and fits, and what each means; `order` and `fit` hold the rules."""

from __future__ import annotations

ORDERS = (
    *("fcfs", "lcfs", "sjf", "smallest", "largest", "edf", "wfp3", "unicef"),
    *("f1", "f2", "f3", "f4", "priority"),
)
FCFS, LCFS, SJF, SMALLEST, LARGEST, EDF, WFP3, UNICEF, F1, F2, F3, F4, PRIORITY = range(len(ORDERS))

ORDER_SUMMARIES = {
    "fcfs": "first come, first served",
    "lcfs": "last come, first served",
    "sjf": "shortest estimated run time first",
    "smallest": "fewest CPUs first",
    "largest": "most CPUs first",
    "edf": "earliest due date first (column due_time of the jobs; without it, first come)",
    "wfp3": "largest (wait / run time)³ × CPUs first (Tang, Lan, Desai and Buettner, Cluster 2009)",
    "unicef": "largest wait / (log₂ CPUs × run time) first (the same source)",
    "f1": "lowest log₁₀(r) n + 870 log₁₀(s) first (Carastan-Santos and de Camargo, SC 2017)",
    "f2": "lowest √r n + 25,600 log₁₀(s) first (the same source)",
    "f3": "lowest r n + 6,860,000 log₁₀(s) first (the same source)",
    "f4": "lowest r √n + 530,000 log₁₀(s) first (the same source)",
    "priority": "highest weighted sum of age, fair share and size first (Slurm's multifactor plugin)",
}

FITS = ("first", "best", "worst")
FIRST, BEST, WORST = range(len(FITS))

FIT_SUMMARIES = {
    "first": "the lowest rows of the node table",
    "best": "the nodes on which it leaves the smallest mean share of the resources that it asks for",
    "worst": "the nodes on which it leaves the largest",
}

HALF_LIFE = 604_800.0
"""Seconds in which past use counts half under the priority order: Slurm's default of seven days."""
