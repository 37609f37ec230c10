"""The windows that arise when one method drives the system: to compare methods on, and to train a network on."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from procure.errors import TableError
from procure.run import Run, simulate
from procure.simulator.drive import Policy
from procure.simulator.state import State
from procure.window.policies import Windows
from procure.window.problem import Window
from procure.window.solve import make_solver


class Collected(NamedTuple):
    """The windows of a run that have jobs of several nodes."""

    windows: list[Window]
    closed_at: list[int]  # s after the first submission
    run: Run


def collect_windows(jobs: pd.DataFrame, nodes: pd.DataFrame, parameters: Windows) -> Collected:
    """Simulate the policy `window`; keep its windows that have jobs of several nodes."""
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
    return Collected(windows, closed_at, run)
