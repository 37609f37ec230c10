"""What the published agent sees: the first jobs that fit, and what each node has free.

Hutchison (2024), chapter 4: the first ten jobs of the queue that fit some node, each as (memory, CPUs, GPUs,
requested time), padded with zeros, then (memory, CPUs, GPUs) free on each node, as raw numbers. Its program
counts memory in kB. An action is job × n_nodes + node; equation 4.1 as printed, machine × n_machines + job, is
not one-to-one and not what that program does.
"""

from __future__ import annotations

import numpy as np

from procure.simulator.kernel import kernel
from procure.simulator.steps import holds

N_SLOTS = 10
"""Jobs that are seen."""
KB_PER_MB = 1000


def n_seen(n_nodes: int) -> int:
    """Return the length of an observation."""
    return 4 * N_SLOTS + 3 * n_nodes


@kernel
def observe_published(state, slots, seen, mask):
    """Fill in what the agent sees and may do; returns how many jobs it sees.

    Parameters
    ----------
    slots : numpy.ndarray
        int64[N_SLOTS], modified: the jobs.
    seen : numpy.ndarray
        float32[n_seen(n_nodes)], modified.
    mask : numpy.ndarray
        bool[N_SLOTS × n_nodes], modified: the actions that are allowed.
    """
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
