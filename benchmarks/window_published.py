"""FCFS and backfilling (BF) as the published program plays them, to reproduce its figures to the digit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from procure.simulator.state import WAIT, State, waiting


def published_queue(backfill: bool) -> Callable[[State], tuple[int, np.ndarray]]:
    """Make the published program's per-job policy: first idle nodes in table order.

    It differs from ``fcfs`` and ``easy-by-time`` on whole nodes in one thing only, and starts every job
    when they do. Nodes that are freed at this very second are not looked at while a job fits the
    others; if it does not, the jobs that ended now are released one by one, by number, until it fits.
    With ``backfill`` a later job may overtake if it ends strictly before the first one can start,
    which is found by counting nodes.
    """
    seen = [-1, 0]  # the moment, and how many of the jobs that ended at it are released

    def decide(state: State) -> tuple[int, np.ndarray]:
        now = int(state.now[0])
        if seen[0] != now:
            seen[:] = now, 0
        jobs = list(waiting(state))
        if not jobs:
            return WAIT, state.chosen[:0]
        head, idle = jobs[0], np.flatnonzero(state.free_cpus >= 0)
        if state.n_nodes[head] <= len(idle):
            return head, _released(state, idle, int(state.n_nodes[head]), seen)
        if backfill:
            earliest = _earliest(state, len(idle), int(state.n_nodes[head]))
            for job in jobs[1:]:
                if state.n_nodes[job] <= len(idle) and now + state.estimate[job] < earliest:
                    return job, _released(state, idle, int(state.n_nodes[job]), seen)
        return WAIT, state.chosen[:0]

    return decide


def _released(state: State, idle: np.ndarray, n: int, seen: list[int]) -> np.ndarray:
    """Return the first ``n`` idle nodes, releasing as few of the jobs that ended now as it takes."""
    while True:
        held = [
            state.node_list[state.node_first[job] : state.node_first[job + 1]]
            for job in state.ended[seen[1] : state.n_ended[0]]
        ]
        free = np.setdiff1d(idle, np.concatenate(held)) if held else idle
        if len(free) >= n:
            return free[:n]
        seen[1] += 1


def _earliest(state: State, free: int, n: int) -> int:
    for job in state.running[: state.n_running[0]]:
        free += int(state.n_nodes[job])
        if free >= n:
            return int(state.expected_end[job])
    return int(state.now[0])
