"""The one loop turned inside out: a Gymnasium environment in which the published agent starts the jobs."""

from __future__ import annotations

from typing import Any

import numpy as np

from procure.errors import ArgumentError, TableError, need
from procure.files.kernels import njit
from procure.learn.published import N_SLOTS, make_view, n_seen, observe
from procure.run import Prepared
from procure.simulator.kernel import kernel
from procure.simulator.state import build
from procure.simulator.steps import advance, place

REWARDS = ("wait", "utilization")
"""``wait``: minus the mean wait, s, of the jobs that have ended; ``utilization``: the mean over nodes of the mean
share in use of memory, CPUs and GPUs, where a node without GPUs counts 0 for them, as in the published program."""


@kernel
def reward_now(world, state, by_wait):
    """Return the reward of this moment; by wait, 0 while no job has ended."""
    total, n = 0.0, 0
    if by_wait:
        for job in range(state.n_submitted[0]):
            if state.start[job] >= 0 and world.end[job] <= state.now[0]:
                total -= state.start[job] - state.submit[job]
                n += 1
        return total / max(n, 1)
    for node in range(state.free_cpus.size):
        if state.total_mem[node] > 0:
            total += 1.0 - state.free_mem[node] / state.total_mem[node]
        if state.total_cpus[node] > 0:
            total += 1.0 - state.free_cpus[node] / state.total_cpus[node]
        if state.total_gpus[node] > 0:
            total += 1.0 - state.free_gpus[node] / state.total_gpus[node]
    return total / (3.0 * state.free_cpus.size)


@njit(cache=True, nogil=True)
def _go_on(world, state, view):
    """Go to the next moment at which something can be decided; returns how many jobs are seen, 0 at the end."""
    slots, seen, mask = view
    n = observe(state, slots, seen, mask)
    while n == 0 and advance(world, state):
        n = observe(state, slots, seen, mask)
    return n


@njit(cache=True, nogil=True)
def _act(world, state, job, node, by_wait, view):
    """Start a job, go on, and return (jobs seen, reward)."""
    state.chosen[0] = node
    place(world, state, job, state.chosen[:1])
    reward = reward_now(world, state, by_wait)
    return _go_on(world, state, view), reward


def make_env(ready: Prepared, reward: str = "wait") -> Any:
    """Make the Gymnasium environment of jobs of one node each; it has ``action_masks()`` as sb3-contrib asks for.

    Observation float32[n_seen(n_nodes)], action ``job × n_nodes + node`` of the jobs seen; an action that the mask
    forbids changes nothing, earns 0, and ``info["invalid"]`` says so. An episode ends when every job that can run has
    started; ``info["mean_wait"]`` is then its mean wait, s.
    """
    gymnasium: Any = need("gymnasium")
    if reward not in REWARDS:
        raise ArgumentError("reward", f"reward: {reward!r} was given; {', '.join(REWARDS)} are known")
    if (ready.jobs.n_nodes > 1).any():
        raise TableError("the published agent places jobs of one node; some of these ask for several")
    n_nodes = len(ready.kind_of)

    class Scheduling(gymnasium.Env):  # type: ignore[name-defined]
        """A scheduler's decisions one by one."""

        metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it
        observation_space = gymnasium.spaces.Box(0.0, np.inf, (n_seen(n_nodes),), np.float32)
        action_space = gymnasium.spaces.Discrete(N_SLOTS * n_nodes)

        def __init__(self) -> None:
            self._view = make_view(n_nodes)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            super().reset(seed=seed)
            self.world, self.state = build(ready.jobs, ready.system, ready.durations, user=ready.user)
            advance(self.world, self.state)
            self._n = _go_on(self.world, self.state, self._view)
            return self._view[1].copy(), {}

        def action_masks(self) -> np.ndarray:
            """Return which actions are allowed now: bool[N_SLOTS × n_nodes]."""
            return self._view[2].copy()

        def step(self, action: int) -> Any:
            slots, seen, mask = self._view
            action = int(action)
            slot, node = divmod(action, n_nodes)
            if not 0 <= action < len(mask) or not mask[action]:
                return seen.copy(), 0.0, self._n == 0, False, {"invalid": True}
            info: dict[str, Any] = {"job": int(slots[slot]), "node": node}
            self._n, value = _act(self.world, self.state, info["job"], node, reward == "wait", self._view)
            if self._n == 0:
                ran = self.state.start >= 0
                info["mean_wait"] = float((self.state.start - self.state.submit)[ran].mean())
            return seen.copy(), float(value), self._n == 0, False, info

    return Scheduling()
