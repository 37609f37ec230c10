"""procure: which servers to buy with a budget, and when a job will start.

The stages, in the order of the flow; each takes tables and returns a table:

=====================  =======================================================================
`read_quotes`          vendor offers → quote table
`expand_packages`      quotes × rules → package table;  `package_nodes` → node table
`import_log`           a log → job table;  `generate`, `slice_day`, `describe`
`simulate`             jobs × nodes × policy → schedule and metrics
`load_study`           a study file;  `load_plan`, `run_sweep`, `read_results` → result table
`recommend`            a swept study → packages worth buying;  `evaluate`, `explain`, `report`
=====================  =======================================================================

Beside the flow, `compare` compares schedulers, and `procure.queue_time` predicts when a job starts. Everything loads
when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from procure._version import __version__
from procure.errors import TableError

_HOME = {
    "PackageRules": "procure.packages",
    "check": "procure.tables",
    "compare": "procure.comparison",
    "describe": "procure.workload",
    "evaluate": "procure.recommender.backtest",
    "expand_packages": "procure.packages",
    "explain": "procure.explanation",
    "generate": "procure.workload",
    "import_log": "procure.workload",
    "jobs_left_out": "procure.packages.runnable",
    "load_plan": "procure.sweep",
    "load_study": "procure.study",
    "forward": "procure.recommender.forward",
    "package_nodes": "procure.packages",
    "plan_purchases": "procure.recommender.parts",
    "read_quotes": "procure.packages",
    "read_results": "procure.sweep",
    "recommend": "procure.recommender",
    "report": "procure.reports",
    "run_sweep": "procure.sweep",
    "scale_run_time": "procure.workload",
    "search": "procure.explorer",
    "simulate": "procure.run",
    "slice_day": "procure.workload",
    "train": "procure.recommender.training",
    "what_if": "procure.recommender.what_if",
}

__all__ = ["TableError", "__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'procure' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
