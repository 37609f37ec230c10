"""The published agent as a policy: what it sees, and its network without torch.

Hutchison (2024), chapter 4: the first ten jobs of the queue that fit some node, each as (memory, CPUs, GPUs,
requested time), padded with zeros, then (memory, CPUs, GPUs) free on each node, as raw numbers. Its program
counts memory in kB. An action is job × n_nodes + node; equation 4.1 as printed, machine × n_machines + job, is
not one-to-one and not what that program does.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from procure.errors import TableError
from procure.simulator.drive import Policy
from procure.simulator.kernel import kernel
from procure.simulator.state import WAIT, State
from procure.simulator.steps import holds

N_SLOTS = 10
"""Jobs that are seen."""
KB_PER_MB = 1000


LAYERS = ("weight_1", "bias_1", "weight_2", "bias_2", "weight_3", "bias_3")
"""The arrays of a trained agent: two layers of hyperbolic tangents, then one score per action."""


def n_seen(n_nodes: int) -> int:
    """Return the length of an observation."""
    return 4 * N_SLOTS + 3 * n_nodes


def shapes(n_nodes: int, n_hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each layer for a system of ``n_nodes``."""
    n_actions = N_SLOTS * n_nodes
    sizes = ((n_hidden, n_seen(n_nodes)), (n_hidden,), (n_hidden, n_hidden), (n_hidden,), (n_actions, n_hidden))
    return dict(zip(LAYERS, (*sizes, (n_actions,)), strict=True))


def make_view(n_nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what `observe` fills: the jobs in the slots, what the agent sees, and what it may do."""
    return np.zeros(N_SLOTS, np.int64), np.zeros(n_seen(n_nodes), np.float32), np.zeros(N_SLOTS * n_nodes, np.bool_)


@kernel
def observe(state, slots, seen, mask):
    """Fill in what the agent sees and may do, see `make_view`; returns how many jobs it sees."""
    n_jobs, n_nodes = state.submit.size, state.free_cpus.size
    seen[:] = 0.0
    mask[:] = False
    n = 0
    job = state.next_waiting[n_jobs]
    while job != n_jobs and n < slots.size:
        fitting = False
        for node in range(n_nodes):
            if holds(state, node, job):
                mask[n * n_nodes + node] = True
                fitting = True
        if fitting:
            slots[n] = job
            seen[4 * n] = np.float32(state.mem[job] * KB_PER_MB)
            seen[4 * n + 1] = np.float32(state.cpus[job])
            seen[4 * n + 2] = np.float32(state.gpus[job])
            seen[4 * n + 3] = np.float32(state.requested[job])
            n += 1
        job = state.next_waiting[job]
    for node in range(n_nodes):
        at = 4 * slots.size + 3 * node
        seen[at] = np.float32(state.free_mem[node] * KB_PER_MB)
        seen[at + 1] = np.float32(state.free_cpus[node])
        seen[at + 2] = np.float32(state.free_gpus[node])
    return n


def make_agent(state: State, arrays: Mapping[str, np.ndarray]) -> Policy:
    """Make the agent for one run: of the jobs seen, the (job, node) to which the network gives most."""
    n_nodes, trained_for = len(state.free_cpus), len(arrays["bias_3"]) // N_SLOTS
    if n_nodes != trained_for:
        raise TableError(f"this agent was trained for {trained_for} nodes; these are {n_nodes}")
    if (state.n_nodes > 1).any():
        raise TableError("the published agent places jobs of one node; some of these ask for several")
    weight_1, bias_1, weight_2, bias_2, weight_3, bias_3 = (arrays[name] for name in LAYERS)
    slots, seen, mask = make_view(n_nodes)

    def published(state: State) -> tuple[int, np.ndarray]:
        if observe(state, slots, seen, mask) == 0:
            return WAIT, slots[:0]
        inner = np.tanh(weight_1 @ seen.astype(np.float64) + bias_1)
        inner = np.tanh(weight_2 @ inner + bias_2)
        slot, node = divmod(int(np.where(mask, weight_3 @ inner + bias_3, -np.inf).argmax()), n_nodes)
        return int(slots[slot]), np.array([node])

    return published
