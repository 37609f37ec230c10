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
    `fat_tree`, `check_isolation`, `count_hops`, `weigh_isolation`; `solve_window`.

Stable names keep their meaning until the next major version; experimental ones may change with a line in the
changelog. Everything loads when it is first used.
"""

from __future__ import annotations

from procure._version import __version__ as __version__

TYPE_CHECKING = False  # of `typing`, which takes as long to import as a question to a service takes in all
if TYPE_CHECKING:
    import typing


def _homes() -> dict[str, tuple[str, str]]:
    """Return by public name the module where it lives, and what it is called there."""
    import re
    from pathlib import Path

    text = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    found = re.findall(r"^from (\S+) import (\w+) as (\w+)$", text, re.MULTILINE)
    renamed = re.findall(r"^(\w+) = (\S+)\.(\w+)$", text, re.MULTILINE)
    return {name: (module, own) for module, own, name in [*found, *((one[1], one[2], one[0]) for one in renamed)]}


def __getattr__(name: str) -> typing.Any:
    if name == "_HOME":
        globals()["_HOME"] = homes = _homes()
        return homes
    homes = globals().get("_HOME") or __getattr__("_HOME")
    if name == "__all__":
        return sorted(homes)
    if name not in homes:
        raise AttributeError(f"module 'procure' has no attribute {name!r}")
    import importlib

    module, own = homes[name]
    return getattr(importlib.import_module(module), own)


def __dir__() -> list[str]:
    return __getattr__("__all__")  # type: ignore[no-any-return]
