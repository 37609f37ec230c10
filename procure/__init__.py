"""procure: which servers to buy with a budget, and when a job will start.

Every question is one function, which takes tables (or a study) and returns a table or a small result: its
``.title``, ``.table``, ``.notes`` and ``.summary()``, and a table in a notebook.

Which servers should we buy? (stable)
    `read_quotes`, `expand_packages` and `PackageRules`, `package_nodes`, `jobs_left_out`, `package_costs`;
    `load_study`, `run_sweep`, `read_results`, `load_results`, `load_plan`, `train`, `evaluate`, `forward`, `search`;
    `buy` with `Inputs` does all of it, `ask` ranks anew;
    `recommend`, `award`, `compare_rent` with `read_prices`, `what_if`, `explain`, `report`.
Which jobs are to be run? (stable)
    `import_log`, `read_log`, `generate`, `describe`, `slice_day`, `merge`, `choose_days` with `DayRule` and `Probe`,
    `scale_load`, `scale_run_time`.
What happens when they meet these nodes? (stable)
    `simulate`, `compare`; `check` tells whether a table is what it should be.
When will my job start? (stable)
    `train_queue`, `update_queue`, `predict_queue` with `QueueRequest`, `read_queue`, `evaluate_queue`;
    `save_queue`, `load_queue`.
Why did jobs wait? (experimental)
    `account_waits`; `fit_site`.
Which jobs will come? (experimental)
    `find_patterns`, `forecast_jobs`, `evaluate_forecasts`.
What has a policy learnt to start? (experimental)
    `learn_policy` with `DayFilter` and `LearnSettings`, `evaluate_policy`, `read_policy`,
    `write_policy`.
Where in the network, and which jobs of a window? (experimental)
    `fat_tree`, `check_isolation`, `count_hops`, `weigh_isolation`; `solve_window`, `read_window`, `compare_windows`.

Stable names keep their meaning until the next major version; experimental ones may change with a line in the
changelog. Everything loads when it is first used.
"""

from __future__ import annotations

from procure._version import __version__

TYPE_CHECKING = False  # of `typing`, which takes as long to import as a question to a service takes in all
if TYPE_CHECKING:
    import typing

    from procure.account.account import account_waits
    from procure.comparison import compare
    from procure.comparison.isolation import weigh_isolation
    from procure.errors import TableError
    from procure.explanation import explain
    from procure.explorer import search
    from procure.fitting.fit import fit_site
    from procure.forecast import evaluate as evaluate_forecasts
    from procure.forecast import find_patterns
    from procure.forecast.expected import forecast_jobs
    from procure.learn.judge import evaluate_policy
    from procure.learn.search import Settings as LearnSettings
    from procure.learn.search import learn_policy
    from procure.learn.store import read_policy, write_policy
    from procure.learn.weeks import DayFilter
    from procure.packages import PackageRules, expand_packages, package_nodes, read_quotes
    from procure.packages.cloud import read_prices
    from procure.packages.runnable import jobs_left_out
    from procure.queue_time.answer import predict_queue
    from procure.queue_time.evaluation import evaluate as evaluate_queue
    from procure.queue_time.predict import Request as QueueRequest
    from procure.queue_time.state import read_state as read_queue
    from procure.queue_time.store import load as load_queue
    from procure.queue_time.store import save as save_queue
    from procure.queue_time.training import continue_training as update_queue
    from procure.queue_time.training import train as train_queue
    from procure.recommender import recommend
    from procure.recommender.award import award
    from procure.recommender.evaluate import evaluate
    from procure.recommender.forward import forward
    from procure.recommender.rent import compare_rent
    from procure.recommender.training import train
    from procure.recommender.what_if import what_if
    from procure.reports import report
    from procure.reports.buying import Inputs, ask, buy
    from procure.run import simulate
    from procure.study import load_study
    from procure.study.costs import package_costs
    from procure.sweep import load_plan, read_results, run_sweep
    from procure.sweep.choose_days import DayRule, Probe, choose_days
    from procure.sweep.results import load_results
    from procure.tables import check
    from procure.topology.fat_tree import make_nodes as fat_tree
    from procure.topology.metrics import hops_of_jobs as count_hops
    from procure.topology.verify import verify as check_isolation
    from procure.window.compare import compare_methods as compare_windows
    from procure.window.problem import read_window
    from procure.window.solve import solve as solve_window
    from procure.workload import (
        describe,
        generate,
        import_log,
        merge,
        read_log,
        scale_load,
        scale_run_time,
        slice_day,
    )

_HOME = {
    "DayFilter": "procure.learn.weeks",
    "DayRule": "procure.sweep.choose_days",
    "LearnSettings": "procure.learn.search:Settings",
    "PackageRules": "procure.packages",
    "Inputs": "procure.reports.buying",
    "Probe": "procure.sweep.choose_days",
    "QueueRequest": "procure.queue_time.predict:Request",
    "account_waits": "procure.account.account",
    "ask": "procure.reports.buying",
    "award": "procure.recommender.award",
    "buy": "procure.reports.buying",
    "check": "procure.tables",
    "check_isolation": "procure.topology.verify:verify",
    "choose_days": "procure.sweep.choose_days",
    "compare": "procure.comparison",
    "compare_rent": "procure.recommender.rent",
    "compare_windows": "procure.window.compare:compare_methods",
    "count_hops": "procure.topology.metrics:hops_of_jobs",
    "describe": "procure.workload",
    "evaluate": "procure.recommender.evaluate",
    "evaluate_forecasts": "procure.forecast:evaluate",
    "evaluate_policy": "procure.learn.judge",
    "evaluate_queue": "procure.queue_time.evaluation:evaluate",
    "expand_packages": "procure.packages",
    "explain": "procure.explanation",
    "fat_tree": "procure.topology.fat_tree:make_nodes",
    "find_patterns": "procure.forecast",
    "fit_site": "procure.fitting.fit",
    "forecast_jobs": "procure.forecast.expected",
    "forward": "procure.recommender.forward",
    "generate": "procure.workload",
    "import_log": "procure.workload",
    "jobs_left_out": "procure.packages.runnable",
    "learn_policy": "procure.learn.search",
    "load_plan": "procure.sweep",
    "load_queue": "procure.queue_time.store:load",
    "load_results": "procure.sweep.results",
    "load_study": "procure.study",
    "merge": "procure.workload",
    "package_costs": "procure.study.costs",
    "package_nodes": "procure.packages",
    "predict_queue": "procure.queue_time.answer",
    "read_log": "procure.workload",
    "read_policy": "procure.learn.store",
    "read_prices": "procure.packages.cloud",
    "read_queue": "procure.queue_time.state:read_state",
    "read_quotes": "procure.packages",
    "read_results": "procure.sweep",
    "read_window": "procure.window.problem",
    "recommend": "procure.recommender",
    "report": "procure.reports",
    "run_sweep": "procure.sweep",
    "save_queue": "procure.queue_time.store:save",
    "scale_load": "procure.workload",
    "scale_run_time": "procure.workload",
    "search": "procure.explorer",
    "simulate": "procure.run",
    "slice_day": "procure.workload",
    "solve_window": "procure.window.solve:solve",
    "train": "procure.recommender.training",
    "train_queue": "procure.queue_time.training:train",
    "update_queue": "procure.queue_time.training:continue_training",
    "weigh_isolation": "procure.comparison.isolation",
    "what_if": "procure.recommender.what_if",
    "write_policy": "procure.learn.store",
}
"""Where each name lives, and what it is called there if not the same."""

__all__ = [
    "DayFilter",
    "DayRule",
    "Inputs",
    "LearnSettings",
    "PackageRules",
    "Probe",
    "QueueRequest",
    "TableError",
    "__version__",
    "account_waits",
    "ask",
    "award",
    "buy",
    "check",
    "check_isolation",
    "choose_days",
    "compare",
    "compare_rent",
    "compare_windows",
    "count_hops",
    "describe",
    "evaluate",
    "evaluate_forecasts",
    "evaluate_policy",
    "evaluate_queue",
    "expand_packages",
    "explain",
    "fat_tree",
    "find_patterns",
    "fit_site",
    "forecast_jobs",
    "forward",
    "generate",
    "import_log",
    "jobs_left_out",
    "learn_policy",
    "load_plan",
    "load_queue",
    "load_results",
    "load_study",
    "merge",
    "package_costs",
    "package_nodes",
    "predict_queue",
    "read_log",
    "read_policy",
    "read_prices",
    "read_queue",
    "read_quotes",
    "read_results",
    "read_window",
    "recommend",
    "report",
    "run_sweep",
    "save_queue",
    "scale_load",
    "scale_run_time",
    "search",
    "simulate",
    "slice_day",
    "solve_window",
    "train",
    "train_queue",
    "update_queue",
    "weigh_isolation",
    "what_if",
    "write_policy",
]


def __getattr__(name: str) -> typing.Any:
    if name == "TableError":
        from procure.errors import TableError

        return TableError
    if name not in _HOME:
        raise AttributeError(f"module 'procure' has no attribute {name!r}")
    import importlib

    module, _, own = _HOME[name].partition(":")
    return getattr(importlib.import_module(module), own or name)


def __dir__() -> list[str]:
    return sorted(__all__)
