"""What the published agent is rewarded with at each step: shorter waits so far, or fuller nodes."""

from __future__ import annotations

from procure.simulator.kernel import kernel

REWARDS = ("wait", "utilization")
"""``wait``: minus the mean wait, s, of the jobs that have ended; ``utilization``: the mean over nodes of the mean
share in use of memory, CPUs and GPUs, where a node without GPUs counts 0 for them, as in the published program."""


@kernel
def mean_wait_so_far(state, world_end):
    """Return the mean wait of the jobs that have ended, s; 0 while none has."""
    total, n = 0, 0
    for job in range(state.n_submitted[0]):
        if state.start[job] >= 0 and world_end[job] <= state.now[0]:
            total += state.start[job] - state.submit[job]
            n += 1
    return total / n if n else 0.0


@kernel
def utilization_now(state):
    """Return the published program's utilization at this moment."""
    total = 0.0
    for node in range(state.free_cpus.size):
        if state.total_mem[node] > 0:
            total += 1.0 - state.free_mem[node] / state.total_mem[node]
        if state.total_cpus[node] > 0:
            total += 1.0 - state.free_cpus[node] / state.total_cpus[node]
        if state.total_gpus[node] > 0:
            total += 1.0 - state.free_gpus[node] / state.total_gpus[node]
    return total / (3.0 * state.free_cpus.size)
