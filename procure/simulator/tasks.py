"""Jobs of tasks: units of which a node may hold several.

A job asks for ``n`` equal units: its nodes, at most one on each, or its tasks. What a node must have for a unit
(`State.cpus` and so on) and what it must have beside, however many it holds (`Tasks.node_mem`, `Tasks.node_gpus`), say
how many units it holds. The functions here take ``tasks`` apart from the state: None, where no job asks for tasks, is
a type to the compiler, which then leaves out what stands under ``tasks is not None``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from procure.files.kernels import njit
from procure.simulator.kernel import kernel, part

POOL_BITS = 16
"""Bits of a packed word of GPUs for one pool of a node: 15 for its number, and a guard."""
GUARDS = -(1 << 63) | 1 << 47 | 1 << 31 | 1 << 15
"""The guards of packed words: a number that lacks something borrows its own, so free − asked fits if none is set."""


def enough(free, asked, guards):
    """Say whether free GPUs hold what is asked; ``guards`` is None where words are plain numbers.

    None is a type to the compiler, which so compiles the plain comparison alone where no node has two models.
    """
    if guards is None:
        return free >= asked
    return ((free - asked) & guards) == 0


enough_gpus = part(enough)


class Tasks(NamedTuple):
    """What a run keeps where jobs ask for tasks, or take their nodes whole; int64[n_shapes] each, to begin with."""

    most: np.ndarray  # units on one node at most; 1 for jobs of nodes
    min_nodes: np.ndarray
    max_nodes: np.ndarray
    node_mem: np.ndarray  # MB on each node that is used, beside those of its units
    node_gpus: np.ndarray  # likewise, packed as `State.gpus`
    whole: np.ndarray  # 1 = the nodes are taken whole
    least: np.ndarray  # the fewest empty nodes that hold the shape
    binds: np.ndarray  # 1 = enough units on all nodes are not enough: the number of nodes is limited
    units: np.ndarray  # int64[n_nodes]: of an answer, the units on each node in ``chosen``; before, what it may hold
    n_chosen: np.ndarray  # int64[1]: of an answer, the nodes in ``chosen``; 0 if there is no room
    n_used: np.ndarray  # int64[n_jobs], nodes that a job which started has; of one that waits, that it is planned on
    node_units: np.ndarray  # int32[], units on each node of `State.node_list`; of one that waits, likewise
    n_listed: np.ndarray  # int64[1], entries of `State.node_list` taken; −1 = each job has its place from the start
    rows: np.ndarray  # int64[n_nodes], room for nodes
    keys: np.ndarray  # float64[n_nodes], room
    enters: np.ndarray  # int64[n_nodes], room


@part
def units_in(state, tasks, shape, node, cpus, mem, gpus):
    """Say how many units of a shape a node holds, had it so much free."""
    shapes, guards = state.shapes, state.guards
    if cpus < shapes.cpus[shape] or mem < shapes.mem[shape] or not enough_gpus(gpus, shapes.gpus[shape], guards):
        return np.int64(0)
    if (state.node_types[node] & shapes.types[shape]) == 0:
        return np.int64(0)
    if tasks is None:
        return np.int64(1)
    if tasks.whole[shape] and (
        cpus != state.total_cpus[node] or mem != state.total_mem[node] or gpus != state.total_gpus[node]
    ):
        return np.int64(0)
    n, left = tasks.most[shape], mem - tasks.node_mem[shape]
    if left < 0 or not enough_gpus(gpus, tasks.node_gpus[shape], guards):
        return np.int64(0)
    if shapes.cpus[shape] > 0:
        n = min(n, cpus // shapes.cpus[shape])
    if shapes.mem[shape] > 0:
        n = min(n, left // shapes.mem[shape])
    asked = shapes.gpus[shape]
    if asked > 0:
        if guards is not None:
            while asked >= 1 << POOL_BITS:
                asked, gpus = asked >> POOL_BITS, gpus >> POOL_BITS
            gpus &= (1 << POOL_BITS) - 1
        n = min(n, gpus // asked)
    return np.int64(n)


@part
def holds_any(state, tasks, node, job):
    """Say whether a node holds one unit of a job now."""
    if tasks is None:  # which best fit asks so often that it takes half of its time
        return (
            state.free_cpus[node] >= state.cpus[job]
            and state.free_mem[node] >= state.mem[job]
            and enough_gpus(state.free_gpus[node], state.gpus[job], state.guards)
            and (state.node_types[node] & state.types[job]) != 0
        )
    return units_on(state, tasks, state.shape[job], node) > 0


@part
def units_on(state, tasks, shape, node):
    """Say how many units of a shape a node holds now."""
    return units_in(state, tasks, shape, node, state.free_cpus[node], state.free_mem[node], state.free_gpus[node])


@part
def has_tasks(tasks):
    """Say whether jobs ask for tasks."""
    return tasks is not None


@part
def n_held(state, tasks, job):
    """Return on how many nodes a job runs."""
    return state.n_nodes[job] if tasks is None else tasks.n_used[job]


@part
def may_be_on(state, tasks, job, n):
    """Say whether a job may stand on so many nodes."""
    if tasks is None:
        return n == state.n_nodes[job]
    shape = state.shape[job]
    return max(1, tasks.min_nodes[shape]) <= n <= tasks.max_nodes[shape]


@part
def hold_nodes(state, tasks, job, nodes):
    """Take note of what an answer puts on each of its nodes; returns which number the first has in the list."""
    first = state.node_first[job]
    if tasks is not None:
        if tasks.n_listed[0] >= 0:
            first = state.node_first[job] = tasks.n_listed[0]
            tasks.n_listed[0] += nodes.size
        tasks.n_used[job] = nodes.size
        for i in range(nodes.size):
            tasks.node_units[first + i] = tasks.units[nodes[i]]
    return first


@part
def keep_planned(state, tasks, job, start):
    """Keep the units that an answer puts on each of its nodes as a job's plan; none if it is not planned."""
    if tasks is not None:
        tasks.n_used[job] = tasks.n_chosen[0] if start >= 0 else 0
        for i in range(tasks.n_used[job]):
            tasks.node_units[state.node_first[job] + i] = tasks.units[state.chosen[i]]


@part
def answer_units(tasks, node, units):
    """Put units on a node of an answer."""
    if tasks is not None:
        tasks.units[node] = units


@part
def answer_nodes(tasks, n):
    """Say how many nodes of an answer stand in ``chosen``."""
    if tasks is not None:
        tasks.n_chosen[0] = n


@kernel
def n_answered(state, tasks, job):
    """Return how many nodes of an answer stand in ``chosen``."""
    return state.n_nodes[job] if tasks is None else tasks.n_chosen[0]


@part
def units_at(tasks, i):
    """Return the units on node ``i`` of `State.node_list`."""
    return 1 if tasks is None else tasks.node_units[i]


@part
def units_to(tasks, node):
    """Return the units that an answer puts on a node."""
    return 1 if tasks is None else tasks.units[node]


@part
def amounts(state, tasks, job, units):
    """Return the CPUs, memory (MB) and GPUs of so many units of a job on one node."""
    if tasks is None:
        return state.cpus[job], state.mem[job], state.gpus[job]
    shape = state.shape[job]
    return (
        units * state.cpus[job],
        units * state.mem[job] + tasks.node_mem[shape],
        units * state.gpus[job] + tasks.node_gpus[shape],
    )


@part
def takes_whole(state, tasks, job):
    """Say whether a job takes its nodes whole."""
    if tasks is None:
        return state.options.exclusive != 0
    return tasks.whole[state.shape[job]] != 0


@part
def shift(state, tasks, job, node, units, sign, free):
    """Take so many units of a job from the CPUs, memory and GPUs ``free`` on a node (−1), or give them back (1)."""
    free_cpus, free_mem, free_gpus = free
    if takes_whole(state, tasks, job):
        free_cpus[node] = state.total_cpus[node] if sign > 0 else -1
        free_mem[node] = state.total_mem[node] if sign > 0 else -1
        free_gpus[node] = state.total_gpus[node] if sign > 0 else -1
    else:
        cpus, mem, gpus = amounts(state, tasks, job, units)
        free_cpus[node] += sign * cpus
        free_mem[node] += sign * mem
        free_gpus[node] += sign * gpus


@part
def size_in_nodes(state, tasks, job):
    """Return how many nodes a job counts for: those of a job of nodes, the fewest that hold a job of tasks."""
    return state.n_nodes[job] if tasks is None else tasks.least[state.shape[job]]


@part
def binds(tasks, shape):
    """Say whether enough units on all nodes may not be enough, as the number of nodes is limited."""
    if tasks is None:
        return False
    return tasks.binds[shape] != 0


@part
def may_spread(state, tasks, shape, free_cpus, free_mem, free_gpus):
    """Say whether so many units as a shape asks for, which all nodes hold, stand on as many nodes as they may."""
    if not binds(tasks, shape):
        return True
    found = 0
    for node in range(free_cpus.size):
        n = units_in(state, tasks, shape, node, free_cpus[node], free_mem[node], free_gpus[node])
        if n > 0:
            found = lay_units(tasks, found, n)
    return spreads(tasks, shape, found, state.shapes.n_nodes[shape])


@part
def lay_units(tasks, found, n):
    """Put the units of one node more behind those of ``found``; returns how many nodes these are."""
    if tasks is not None:
        tasks.rows[found] = n
    return found + 1


@part
def spreads(tasks, shape, found, wanted):
    """Say whether as many nodes as may be hold so many units, of those whose units `lay_units` has laid."""
    if tasks is None:
        return False
    if found < tasks.min_nodes[shape]:
        return False
    rows = tasks.rows
    for i in range(min(found, tasks.max_nodes[shape])):
        most = i
        for k in range(i + 1, found if found > tasks.max_nodes[shape] else 0):
            if rows[k] > rows[most]:
                most = k
        wanted -= rows[most]
        if wanted <= 0:
            return True
        rows[most] = rows[i]
    return False


@part
def fill(tasks, shape, rows, found, wanted):
    """Fill nodes in the order in which they stand in ``rows``, each of which holds ``tasks.units`` of it.

    A node takes at most what leaves one unit for each node that is still needed. Those that are used are left in
    front, with what they take; returns how many, or 0, with nothing changed, if they are more than may be.
    """
    units = tasks.units
    if tasks.binds[shape]:
        left, needed, used = wanted, tasks.min_nodes[shape] - 1, 0
        while left > 0:
            if used == found or used == tasks.max_nodes[shape]:
                return 0
            left -= min(units[rows[used]], left - needed)
            needed = max(needed - 1, 0)
            used += 1
    left, needed, used = wanted, tasks.min_nodes[shape] - 1, 0
    while left > 0:
        node = rows[used]
        units[node] = min(units[node], left - needed)
        left -= units[node]
        needed = max(needed - 1, 0)
        used += 1
    return used


def placed(state: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the nodes of all jobs, where each job's begin, and the units on each, None where jobs ask for nodes."""
    tasks = state.tasks
    if tasks is None:
        return state.node_list, state.node_first, None
    used = np.where(state.start >= 0, tasks.n_used, 0)
    first = np.concatenate([[0], np.cumsum(used)])
    nodes, units = (_packed(each, state.node_first, first) for each in (state.node_list, tasks.node_units))
    return nodes, first, units


@njit(cache=True, nogil=True)
def _packed(values, begin, first):
    """Return the first values of each job, which begin at ``begin[job]``, without what stands between."""
    packed = np.empty(first[-1], values.dtype)
    for job in range(first.size - 1):
        for i in range(first[job], first[job + 1]):
            packed[i] = values[begin[job] + i - first[job]]
    return packed
