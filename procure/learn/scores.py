"""The kernels of a learnt policy: the score of a class, the best node for a job, and the decision."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from procure.learn.features import Kin, count_start, follow_classes, observe
from procure.policies.lines import DECIDED, N_FILLED, Lines, follow_queue
from procure.policies.place import FREE, Nodes, margin
from procure.simulator.kernel import kernel
from procure.simulator.state import WAIT
from procure.simulator.steps import holds

PLACES = ("margin", "gpus_not_asked", "imbalance", "empty")
"""What a node costs a job: the mean share of what it asks for that stays free, whether the node has GPUs that
it does not ask for, |free share of CPUs − of memory| afterwards, and whether the node is empty."""


class Scored(NamedTuple):
    """What a learnt policy has of its own in a run."""

    lines: Lines  # a class each, in queue order
    kin: Kin
    nodes: Nodes
    weights: np.ndarray  # float64[n_features], of the linear part
    hidden: np.ndarray  # float64[n_hidden, n_features + 2]: bias, weights, and the weight of the output
    places: np.ndarray  # float64[len(PLACES)], what a node costs
    margins: bool  # whether the score looks at the margin
    row: np.ndarray  # float64[n_features], room


@kernel
def score(weights, hidden, row):
    """Return the score of a class: linear, plus a layer of hyperbolic tangents. The lowest is served first."""
    total = 0.0
    for i in range(weights.size):
        total += weights[i] * row[i]
    for h in range(hidden.shape[0]):
        inner = hidden[h, 0]
        for i in range(weights.size):
            inner += hidden[h, i + 1] * row[i]
        total += hidden[h, weights.size + 1] * math.tanh(inner)
    return total


@kernel
def node_cost(state, job, node, places):
    """Return what it costs to put one node's share of a job on a node."""
    cost = places[0] * margin(state, job, node, False)
    if state.total_gpus[node] > 0 and state.gpus[job] == 0:
        cost += places[1]
    cpus = (state.free_cpus[node] - state.cpus[job]) / max(state.total_cpus[node], 1)
    mem = (state.free_mem[node] - state.mem[job]) / max(state.total_mem[node], 1)
    if state.free_cpus[node] == state.total_cpus[node] and state.free_mem[node] == state.total_mem[node]:
        cost += places[3]
    return cost + places[2] * abs(cpus - mem)


@kernel
def cheapest_node(state, job, places):
    """Return the node that costs least among those that hold a job of one node; −1 if none does."""
    best, least = -1, np.inf
    for node in range(state.free_cpus.size):
        if holds(state, node, job):
            cost = node_cost(state, job, node, places)
            if cost < least:
                best, least = node, cost
    return best


@kernel
def free_share(state):
    """Return the mean free share of CPUs and of memory."""
    cpus = mem = total_cpus = total_mem = 0
    for node in range(state.free_cpus.size):
        cpus += max(state.free_cpus[node], 0)
        mem += max(state.free_mem[node], 0)
        total_cpus += state.total_cpus[node]
        total_mem += state.total_mem[node]
    return (cpus / max(total_cpus, 1) + mem / max(total_mem, 1)) / 2.0


@kernel
def scored(state, own):
    """Start the waiting job with the lowest score that fits, on the node that costs least; others are skipped."""
    lines, kin = own.lines, own.kin
    n_jobs = state.submit.size
    follow_classes(state, lines, kin)
    follow_queue(state, lines)
    best, least = n_jobs, np.inf
    queue = free = -1.0
    for i in range(lines.counters[N_FILLED]):
        line = lines.filled[i]
        if not own.nodes.fits(state, lines, line):
            continue
        if queue < 0.0:
            queue = math.log10(1.0 + state.n_waiting[0]) / 3.0
            free = free_share(state)
        job = lines.first[line]
        left = 0.0
        if own.margins and state.n_nodes[job] == 1:
            left = margin(state, job, cheapest_node(state, job, own.places), False)
        observe(state, kin, line, job, left, queue, free, own.row)
        value = score(own.weights, own.hidden, own.row)
        if value < least or (value == least and job < best):
            best, least = job, value
    if best == n_jobs:
        return WAIT
    return start_job(state, own, best)


@kernel
def start_job(state, own, job):
    """Choose the nodes of a job that starts now, take note of its start, and return it."""
    if state.n_nodes[job] == 1:
        state.chosen[0] = cheapest_node(state, job, own.places)
    else:
        own.nodes.choose(state, job, FREE)
    count_start(state, own.lines, own.kin, job)
    own.lines.counters[DECIDED] = job
    return job
