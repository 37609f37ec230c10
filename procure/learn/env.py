"""The one loop turned inside out: a Gymnasium environment in which an agent decides which job starts where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from procure.errors import ArgumentError, TableError, need
from procure.files.kernels import njit
from procure.learn.observe import N_SLOTS, n_seen, observe_published
from procure.learn.reward import REWARDS, mean_wait_so_far, utilization_now
from procure.run import Prepared
from procure.simulator import state as simulator_state
from procure.simulator.steps import advance, place


@njit(cache=True, nogil=True)
def _go_on(world, state, view):
    """Go to the next moment at which something can be decided; returns how many jobs are seen, 0 at the end.

    ``view`` is what is filled: which job stands in which slot, what the agent sees, and what it may do.
    """
    slots, seen, mask = view
    n = observe_published(state, slots, seen, mask)
    while n == 0 and advance(world, state):
        n = observe_published(state, slots, seen, mask)
    return n


@njit(cache=True, nogil=True)
def _act(world, state, job, node, by_wait, view):
    """Start a job, go on, and return (jobs seen, reward)."""
    state.chosen[0] = node
    place(world, state, job, state.chosen[:1])
    reward = -mean_wait_so_far(state, world.end) if by_wait else utilization_now(state)
    return _go_on(world, state, view), reward


def make_env(workloads: Sequence[Prepared], reward: str = "wait") -> Any:
    """Make the environment; it has ``action_masks()`` as sb3-contrib asks for.

    Parameters
    ----------
    workloads
        Jobs of one node each, all on equally many nodes; an episode is one of them, in turn.
    reward
        One of `procure.learn.reward.REWARDS`.

    Returns
    -------
    gymnasium.Env
        Observation float32[n_seen(n_nodes)], action ``job × n_nodes + node`` of the jobs seen; an action that
        the mask forbids changes nothing, and ``info["invalid"]`` says so. An episode ends when every job that
        can run has started; ``info["mean_wait"]`` is then its mean wait, s.

    Raises
    ------
    ArgumentError
        An unknown reward.
    TableError
        The extra ``rl`` is missing, there is no workload, or one has a job of several nodes.
    """
    gymnasium: Any = need("gymnasium")
    if reward not in REWARDS:
        raise ArgumentError("reward", f"reward: {reward!r} was given; {', '.join(REWARDS)} are known")
    if not workloads:
        raise TableError("an environment needs at least one workload")
    if any((ready.jobs.n_nodes > 1).any() for ready in workloads):
        raise TableError("the published agent places jobs of one node; some of these ask for several")
    n_nodes = len(workloads[0].kind_of)

    class Scheduling(gymnasium.Env):  # type: ignore[name-defined]
        """A scheduler's decisions one by one."""

        metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it
        observation_space = gymnasium.spaces.Box(0.0, np.inf, (n_seen(n_nodes),), np.float32)
        action_space = gymnasium.spaces.Discrete(N_SLOTS * n_nodes)

        def __init__(self) -> None:
            self._next = 0
            self._slots = np.zeros(N_SLOTS, np.int64)
            self._seen = np.zeros(n_seen(n_nodes), np.float32)
            self._mask = np.zeros(N_SLOTS * n_nodes, np.bool_)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            super().reset(seed=seed)
            if seed is not None:
                self._next = 0
            ready = workloads[self._next % len(workloads)]
            self._next += 1
            took = ready.durations
            self.world, self.state = simulator_state.build(
                ready.jobs,
                ready.kinds,
                ready.fits,
                ready.kind_of,
                took.took,
                user=ready.user,
                full=took.full,
                limit=took.limit,
            )
            advance(self.world, self.state)
            self._n = _go_on(self.world, self.state, (self._slots, self._seen, self._mask))
            return self._seen.copy(), {}

        def action_masks(self) -> np.ndarray:
            """Return which actions are allowed now: bool[N_SLOTS × n_nodes]."""
            return self._mask.copy()

        def step(self, action: int) -> Any:
            action = int(action)
            slot, node = divmod(action, n_nodes)
            if not 0 <= action < len(self._mask) or not self._mask[action]:
                return self._seen.copy(), self._last_reward(), self._n == 0, False, {"invalid": True}
            job = int(self._slots[slot])
            view = (self._slots, self._seen, self._mask)
            self._n, value = _act(self.world, self.state, job, node, reward == "wait", view)
            info: dict[str, Any] = {"job": job, "node": node}
            if self._n == 0:
                ran = self.state.start >= 0
                info["mean_wait"] = float((self.state.start - self.state.submit)[ran].mean())
            return self._seen.copy(), float(value), self._n == 0, False, info

        def _last_reward(self) -> float:
            if reward == "wait":
                return -float(mean_wait_so_far(self.state, self.world.end))
            return float(utilization_now(self.state))

    return Scheduling()
