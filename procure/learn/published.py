"""The published agent in the compiled loop: its network without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from procure.errors import TableError
from procure.learn.observe import N_SLOTS, n_seen, observe_published
from procure.simulator.drive import CompiledPolicy, compiled
from procure.simulator.kernel import kernel
from procure.simulator.state import WAIT, State


class Agent(NamedTuple):
    """What the agent has of its own in a run: two layers of hyperbolic tangents, then one score per action."""

    weight_1: np.ndarray  # float64[n_hidden, n_seen]
    bias_1: np.ndarray  # float64[n_hidden]
    weight_2: np.ndarray  # float64[n_hidden, n_hidden]
    bias_2: np.ndarray  # float64[n_hidden]
    weight_3: np.ndarray  # float64[n_actions, n_hidden]
    bias_3: np.ndarray  # float64[n_actions]
    slots: np.ndarray  # int64[N_SLOTS], room
    seen: np.ndarray  # float32[n_seen], room
    mask: np.ndarray  # bool[n_actions], room
    inner: np.ndarray  # float64[2, n_hidden], room


LAYERS = Agent._fields[:6]
"""The arrays of a trained agent."""


@kernel
def greatest(own):
    """Return the allowed action with the greatest score, the lowest of equals, for what stands in ``seen``."""
    first, second = own.inner[0], own.inner[1]
    for i in range(first.size):
        total = own.bias_1[i]
        for k in range(own.seen.size):
            total += own.weight_1[i, k] * own.seen[k]
        first[i] = math.tanh(total)
    for i in range(second.size):
        total = own.bias_2[i]
        for k in range(first.size):
            total += own.weight_2[i, k] * first[k]
        second[i] = math.tanh(total)
    best, most = -1, -np.inf
    for action in range(own.mask.size):
        if own.mask[action]:
            total = own.bias_3[action]
            for k in range(second.size):
                total += own.weight_3[action, k] * second[k]
            if total > most:
                best, most = action, total
    return best


@kernel
def published(state, own):
    """Of the first ten waiting jobs that fit, start the (job, node) to which the network gives most."""
    if observe_published(state, own.slots, own.seen, own.mask) == 0:
        return WAIT
    action = greatest(own)
    n_nodes = state.free_cpus.size
    state.chosen[0] = action % n_nodes
    return own.slots[action // n_nodes]


def shapes(n_nodes: int, n_hidden: int | None = None) -> dict[str, tuple[int | None, ...]]:
    """Return the shape of each layer for a system of ``n_nodes``."""
    n_actions = N_SLOTS * n_nodes
    sizes = (
        (n_hidden, n_seen(n_nodes)),
        (n_hidden,),
        (n_hidden, n_hidden),
        (n_hidden,),
        (n_actions, n_hidden),
    )
    return dict(zip(LAYERS, (*sizes, (n_actions,)), strict=True))


def make_agent(state: State, arrays: Mapping[str, np.ndarray]) -> CompiledPolicy:
    """Make the agent for one run.

    Raises
    ------
    TableError
        It was trained for another number of nodes, or a job asks for several nodes.
    """
    n_nodes, trained_for = len(state.free_cpus), len(arrays["bias_3"]) // N_SLOTS
    if n_nodes != trained_for:
        raise TableError(f"this agent was trained for {trained_for} nodes; these are {n_nodes}")
    if (state.n_nodes > 1).any():
        raise TableError("the published agent places jobs of one node; some of these ask for several")
    layers = [np.ascontiguousarray(arrays[name], np.float64) for name in LAYERS]
    room = (
        np.zeros(N_SLOTS, np.int64),
        np.zeros(n_seen(n_nodes), np.float32),
        np.zeros(N_SLOTS * n_nodes, np.bool_),
    )
    own = Agent(*layers, *room, np.zeros((2, len(layers[1]))))  # type: ignore[call-arg]
    return compiled(published, own)
