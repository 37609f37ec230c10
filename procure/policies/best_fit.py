"""Best-fit bin packing: start the waiting job that leaves the fewest resources on some node."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from procure.policies.parameters import Parameters
from procure.policies.place import keep_least, margin
from procure.simulator.drive import CompiledPolicy, compiled
from procure.simulator.kernel import part
from procure.simulator.state import WAIT, State
from procure.simulator.steps import holds


class BestFitOwn(NamedTuple):
    """What best fit has of its own in a run."""

    margins: np.ndarray  # float64[n_nodes]


@part
def _least_on(state, own, job, of_node):
    """Return the least mean margin of a job on its nodes, laid into ``chosen``; infinite if it does not fit."""
    found = 0
    least = np.inf
    single = state.n_nodes[job] == 1
    for node in range(state.free_cpus.size):
        if holds(state, node, job):
            left = margin(state, job, node, of_node)
            if not single:
                state.chosen[found] = node
                own.margins[found] = left
                found += 1
            elif left < least:
                least = left
                state.chosen[0] = node
    if single or found < state.n_nodes[job]:
        return least
    return keep_least(state.chosen, own.margins, found, state.n_nodes[job])


@part
def _best_pair(state, own, of_node):
    n_jobs = state.submit.size
    least = np.inf
    best = n_jobs
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        if not state.pool or state.n_nodes[job] <= state.n_idle[0]:
            left = _least_on(state, own, job, of_node)
            if left < least:
                least, best = left, job
        job = state.next_waiting[job]
    if best == n_jobs:
        return WAIT
    _least_on(state, own, best, of_node)
    return best


@part
def best_fit(state, own):
    """Start the waiting job that leaves the least of what it asks for on the nodes that it gets.

    Ties go to the earlier queued job, then to the lower node row. Published as Algorithm 1 of
    Hutchison's procurement study (best fit bin packing, after Dósa and Sgall) for jobs of one node; a
    job of several takes the nodes with the least margins and counts with their mean.
    """
    return _best_pair(state, own, False)


@part
def best_fit_of_node(state, own):
    """The same, averaging over the resources that the node has, asked for or not (a published variant)."""
    return _best_pair(state, own, True)


class BestFit(Parameters):
    """Parameters of `best_fit`."""

    rule: ClassVar = best_fit

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        return compiled(best_fit, BestFitOwn(np.zeros(state.free_cpus.size)))


class BestFitOfNode(Parameters):
    """Parameters of `best_fit_of_node`."""

    rule: ClassVar = best_fit_of_node

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        return compiled(best_fit_of_node, BestFitOwn(np.zeros(state.free_cpus.size)))
