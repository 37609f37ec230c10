"""The windows that arise when one method drives the system: to compare methods on, and to train a network on."""

from __future__ import annotations

import pandas as pd

from procure.errors import TableError
from procure.run import simulate
from procure.simulator.drive import Policy
from procure.simulator.state import State
from procure.window.policies import Windows
from procure.window.problem import Window
from procure.window.solve import make_solver


def collect_windows(jobs: pd.DataFrame, nodes: pd.DataFrame, parameters: Windows) -> dict[int, Window]:
    """Simulate the policy `window`; return its windows that have jobs of several nodes, by when each closed.

    That is in s after the first submission.

    Raises
    ------
    TableError
        A bad table, no tree, or no window with such jobs.
    """
    windows: dict[int, Window] = {}
    solver = make_solver(parameters.method)

    class Watched(Windows):
        def make(self, state: State) -> Policy:
            return self.follow(state, solver, keep)

    def keep(window: Window, now: int) -> None:
        windows[now] = window

    simulate(jobs, nodes, Watched(**dict(parameters)))
    if not windows:
        raise TableError("no job of several nodes ever waits for a window")
    return windows
