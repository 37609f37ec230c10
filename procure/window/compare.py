"""Compare methods on the same windows: those that arise when one of them drives the system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.progress import silent
from procure.run import Run, simulate
from procure.simulator.drive import Policy
from procure.simulator.state import State
from procure.text import Shown, counted
from procure.window.policies import Windows
from procure.window.problem import Window
from procure.window.solve import make_solver, solve


@dataclass(frozen=True)
class Comparison(Shown):
    """What a comparison gave.

    Attributes
    ----------
    table
        A row per method: ``method``, ``mean_cost_code`` and ``mean_cost_paper`` (sum of the costs of a
        window's jobs, mean over windows), ``mean_wait`` (s, over all jobs; of the driving run, and the
        same for every method, because a window's jobs start whoever places them), ``p95_seconds``,
        ``mean_seconds`` (of the solver).
    costs
        A row per window and a column per method: cost in the profile ``code``.
    n_jobs
        Jobs of several nodes in all windows.
    """

    table: pd.DataFrame
    costs: pd.DataFrame
    n_jobs: int

    notes = ()

    @property
    def title(self) -> str:
        """How many windows and jobs."""
        return f"{counted(len(self.costs), 'window')} with {counted(self.n_jobs, 'job')} of several nodes"

    def shown(self) -> pd.DataFrame:
        """Return the table as people read it: the solver's time in milliseconds."""
        names = {"p95_seconds": "p95_ms", "mean_seconds": "mean_ms"}
        return self.table.assign(**{name: 1000 * self.table[name] for name in names}).rename(columns=names)


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
    time_limit: float | None = None,
    progress: Callable[[str], None] = silent,
) -> Comparison:
    """Solve the same windows by each method.

    Parameters
    ----------
    parameters
        Of the policy that makes the windows; the defaults of `Windows` without.
    steps
        Of every method that takes steps; 0 = as many as is usual.
    most
        Number of windows to compare on, evenly spread over the run.
    time_limit
        Seconds for a MIP on one window.
    progress
        Called with a line for each method.

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
    >>> procure.compare_windows(jobs, nodes, ["seq", "greedy"], most=2).table["method"].to_list()
    ['seq', 'greedy']
    """
    if len(set(methods)) < len(methods) or not methods:
        raise ArgumentError("methods", "name at least one method, and each only once")
    solvers = {name: make_solver(name) for name in methods}
    parameters = parameters or Windows.model_validate({})
    progress(f"{parameters.method} drives the system, a window every {parameters.length} s")
    windows, _, run = collect_windows(jobs, nodes, parameters, most)
    wait = run.metrics["mean_wait_time"]
    rows, costs = [], {}
    for name, solver in solvers.items():
        progress(f"{name} on {len(windows):,} windows")
        solve(windows[0], solver, seed=parameters.seed, steps=1, time_limit=time_limit)  # compiling is not measured
        found = [
            solve(window, solver, seed=parameters.seed + i, steps=steps, time_limit=time_limit)
            for i, window in enumerate(windows, 1)
        ]
        costs[name] = [each.cost_code for each in found]
        seconds = np.array([each.seconds for each in found])
        rows.append(
            {
                "method": name,
                "mean_cost_code": float(np.mean(costs[name])),
                "mean_cost_paper": float(np.mean([each.cost_paper for each in found])),
                "mean_wait": wait,
                "p95_seconds": float(np.quantile(seconds, 0.95)),
                "mean_seconds": float(seconds.mean()),
            }
        )
    n_jobs = sum(len(window.ids) for window in windows)
    return Comparison(pd.DataFrame(rows), pd.DataFrame(costs), n_jobs)
