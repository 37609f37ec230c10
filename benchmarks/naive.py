"""FIFO, shortest job first and EASY in plain Python, one CPU per node: what `against_accasim.py` times."""

from __future__ import annotations

import numpy as np

from procure.simulator.state import WAIT, waiting


def naive_fifo(state):
    """Start the first job if it fits."""
    for job in waiting(state):
        idle = np.flatnonzero(state.free_cpus > 0)
        return (job, idle[: state.n_nodes[job]]) if len(idle) >= state.n_nodes[job] else (WAIT, [])
    return WAIT, []


def naive_sjf(state):
    """Start the shortest of the jobs that fit."""
    idle = np.flatnonzero(state.free_cpus > 0)
    fitting = [job for job in waiting(state) if state.n_nodes[job] <= len(idle)]
    if not fitting:
        return WAIT, []
    job = min(fitting, key=lambda job: (state.estimate[job], job))
    return job, idle[: state.n_nodes[job]]


def naive_easy(state):
    """Start the first job, or one that does not delay its reservation."""
    idle = np.flatnonzero(state.free_cpus > 0)
    queue = list(waiting(state))
    if not queue:
        return WAIT, []
    head = queue[0]
    if state.n_nodes[head] <= len(idle):
        return head, idle[: state.n_nodes[head]]
    free, shadow = len(idle), None
    for running in state.running[: state.n_running[0]]:
        if shadow is not None and state.expected_end[running] > shadow:
            break
        free += state.n_nodes[running]
        if free >= state.n_nodes[head]:
            shadow = state.expected_end[running]
    extra = free - state.n_nodes[head]
    for job in queue[1:]:
        if state.n_nodes[job] > len(idle):
            continue
        if state.now[0] + state.estimate[job] <= shadow or state.n_nodes[job] <= extra:
            return job, idle[: state.n_nodes[job]]
    return WAIT, []
