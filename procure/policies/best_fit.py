"""Best-fit bin packing: start the waiting job that leaves the fewest resources on some node."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from procure.policies.names import BEST
from procure.policies.parameters import Parameters
from procure.policies.place import keep_least
from procure.policies.spread import OF_NODE, lay_answer, margin, most_first
from procure.simulator.drive import CompiledPolicy, compiled
from procure.simulator.kernel import part
from procure.simulator.state import WAIT, State
from procure.simulator.steps import holds
from procure.simulator.tasks import n_answered, units_on
from procure.simulator.usable import lay_candidates


class BestFitOwn(NamedTuple):
    """What best fit has of its own in a run."""

    margins: np.ndarray  # float64[n_nodes]
    looked_at: np.ndarray  # int64[n_shapes], the decision in which the shape was looked at last
    n_decisions: np.ndarray  # int64[1]


@part
def _least_on(state, tasks, own, job, of_node):
    """Return the least mean margin of a job on its nodes, laid into ``chosen``; infinite if it does not fit."""
    found = 0
    least = np.inf
    single = state.n_nodes[job] == 1
    if tasks is not None and not single:
        return _least_of_tasks(state, tasks, own, job, of_node)
    rows = state.usable.rows
    for i in range(lay_candidates(state, tasks, state.shape[job], state.n_nodes[job])):
        node = rows[i]
        if holds(state, node, job):
            left = margin(state, job, node, of_node)
            if not single:
                state.chosen[found] = node
                own.margins[found] = left
                found += 1
            elif left < least:
                least = left
                state.chosen[0] = node
    if tasks is not None and least < np.inf:
        tasks.n_chosen[0], tasks.units[state.chosen[0]] = 1, 1
    if single or found < state.n_nodes[job]:
        return least
    return keep_least(state.chosen, own.margins, found, state.n_nodes[job])


@part
def _least_of_tasks(state, tasks, own, job, of_node):
    """Do the same with several units, by `most_first`."""
    shape, n_nodes, rows = state.shape[job], state.free_cpus.size, state.usable.rows
    found, left = 0, state.n_nodes[job]
    for i in range(lay_candidates(state, tasks, shape, left)):
        node = rows[i]
        n = units_on(state, tasks, shape, node)
        if n > 0:
            state.chosen[found], tasks.units[node] = node, n
            found += 1
            left -= n
    if left > 0:
        return np.inf
    rule = np.int64(OF_NODE if of_node else BEST)
    used, mean = most_first(state, tasks, job, (state.chosen, found, n_nodes), rule, own.margins)
    tasks.n_chosen[0] = used
    return mean


@part
def _best_pair(state, own, of_node):
    n_jobs, tasks = state.submit.size, state.tasks
    least = np.inf
    best = laid = n_jobs
    own.n_decisions[0] += 1
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        shape = state.shape[job]
        first = own.looked_at[shape] != own.n_decisions[0]  # who is queued behind it would leave as much
        own.looked_at[shape] = own.n_decisions[0]
        if first and (not state.pool or state.n_nodes[job] <= state.n_idle[0]):
            left, laid = _least_on(state, tasks, own, job, of_node), job
            if left < least:
                least, best = left, job
        job = state.next_waiting[job]
    if best == n_jobs:
        return WAIT
    if laid != best:
        _least_on(state, tasks, own, best, of_node)
    lay_answer(state, tasks, n_answered(state, tasks, best), own.margins)
    return best


@part
def best_fit(state, own):
    """Start the waiting job that leaves the least of what it asks for on the nodes that it gets.

    Ties go to the earlier queued job, then to the lower node row. Published as Algorithm 1 of
    Hutchison's procurement study (best fit bin packing, after Dósa and Sgall) for jobs of one node; a
    job of several takes the nodes with the least margins and counts with their mean. So does a job of tasks:
    again and again it takes the node that takes the most of the tasks that are left, of several that take as
    many the one with the least margin then (`procure.policies.spread.most_first`). One that a node holds whole is
    so placed as a job of one node that asks for the sum.
    """
    return _best_pair(state, own, False)


@part
def best_fit_of_node(state, own):
    """The same, averaging over the resources that the node has, asked for or not (a published variant)."""
    return _best_pair(state, own, True)


class BestFit(Parameters):
    """Parameters of `best_fit`."""

    rule: ClassVar = best_fit
    plans: ClassVar[bool] = False
    takes_tasks: ClassVar[bool] = True

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        own = BestFitOwn(
            np.zeros(len(state.free_cpus)), np.zeros(len(state.shapes.cpus), np.int64), np.zeros(1, np.int64)
        )
        return compiled(type(self).rule, own)


class BestFitOfNode(BestFit):
    """Parameters of `best_fit_of_node`."""

    rule: ClassVar = best_fit_of_node
    plans: ClassVar[bool] = False
