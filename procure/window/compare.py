"""Compare methods on the same windows: those that arise when one of them drives the system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.progress import silent
from procure.run import Run, simulate
from procure.simulator.drive import Policy
from procure.simulator.state import State
from procure.window.policies import Windows
from procure.window.problem import Window
from procure.window.solve import check_method, make_solver, solve


class Collected(NamedTuple):
    """The windows of a run that have jobs of several nodes."""

    windows: list[Window]
    closed_at: list[int]  # s after the first submission
    run: Run


def collect_windows(jobs: pd.DataFrame, nodes: pd.DataFrame, parameters: Windows, most: int | None = None) -> Collected:
    """Simulate the policy `window`; keep its windows that have jobs of several nodes, or ``most``, evenly spread.

    Raises
    ------
    TableError
        A bad table, no tree, or no window with such jobs.
    """
    windows: list[Window] = []
    closed_at: list[int] = []
    solver = make_solver(parameters.method)

    class Watched(Windows):
        def make(self, state: State) -> Policy:
            return self.follow(state, solver, keep)

    def keep(window: Window, now: int) -> None:
        windows.append(window)
        closed_at.append(now)

    run = simulate(jobs, nodes, Watched(**dict(parameters)))
    if not windows:
        raise TableError("no job of several nodes ever waits for a window")
    if most is not None and most < len(windows):
        chosen = np.linspace(0, len(windows) - 1, most).round().astype(int).tolist()
        windows, closed_at = [windows[i] for i in chosen], [closed_at[i] for i in chosen]
    return Collected(windows, closed_at, run)


def compare_methods(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    methods: Sequence[str],
    *,
    parameters: Windows | None = None,
    steps: int = 0,
    most: int | None = None,
    progress: Callable[[str], None] = silent,
) -> pd.DataFrame:
    """Solve the same windows by each method.

    Parameters
    ----------
    parameters
        Of the policy that makes the windows; the defaults of `Windows` without.
    steps
        Of every method that takes steps; 0 = as many as is usual.
    most
        Number of windows to compare on, evenly spread over the run.
    progress
        Called with a line for each method.

    Returns
    -------
    pandas.DataFrame
        A row per method: ``method``, ``mean_cost_code`` and ``mean_cost_paper`` (sum of the costs of a
        window's jobs, mean over windows), ``mean_wait`` (s, over all jobs; of the driving run, and the
        same for every method, because a window's jobs start whoever places them), ``p95_seconds``,
        ``mean_seconds`` (of the solver).

    Raises
    ------
    ArgumentError
        No method, one twice, or one that is not known.
    TableError
        As `collect_windows`.

    Examples
    --------
    >>> import procure
    >>> jobs, nodes = procure.read_log("wide.parquet").jobs, procure.fat_tree(2, 2, 4)
    >>> procure.compare_windows(jobs, nodes, ["seq", "greedy"], most=2)["method"].to_list()
    ['seq', 'greedy']
    """
    if len(set(methods)) < len(methods) or not methods:
        raise ArgumentError("methods", "name at least one method, and each only once")
    for name in methods:
        check_method(name)
    parameters = parameters or Windows.model_validate({})
    progress(f"{parameters.method} drives the system, a window every {parameters.length} s")
    windows, _, run = collect_windows(jobs, nodes, parameters, most)
    rows = []
    for name in methods:
        progress(f"{name} on {len(windows):,} windows")
        solve(windows[0], name, seed=parameters.seed, steps=1)  # compiling is not measured
        found = [solve(one, name, seed=parameters.seed + i, steps=steps) for i, one in enumerate(windows, 1)]
        of = pd.DataFrame([(each.cost_code, each.cost_paper, each.seconds) for each in found], columns=[*"cps"])
        rows.append(
            {
                "method": name,
                "mean_cost_code": of["c"].mean(),
                "mean_cost_paper": of["p"].mean(),
                "mean_wait": run.metrics["mean_wait_time"],
                "p95_seconds": of["s"].quantile(0.95),
                "mean_seconds": of["s"].mean(),
            }
        )
    return pd.DataFrame(rows)
