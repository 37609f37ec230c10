"""The published agent trained: a Gymnasium environment, the loop turned inside out, and MaskablePPO of sb3-contrib."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError, need
from procure.files.kernels import njit
from procure.learn.order import AtHand
from procure.learn.published import LAYERS, N_SLOTS, make_view, n_seen, observe
from procure.learn.store import PUBLISHED, TrainedPolicy
from procure.learn.weeks import DayFilter, fitting
from procure.progress import silent
from procure.run import Prepared, prepare, run_prepared
from procure.simulator.kernel import kernel
from procure.simulator.state import build
from procure.simulator.steps import advance, place
from procure.workload.parts import local_days

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


N_LARGE, N_GPU, MORE_THAN = 2000, 40, 20
"""A published training set: jobs of more than 20 CPUs, and GPU jobs, all submitted at once."""
STEPS = 300_000
CHECKPOINT = 10_000
"""Steps from one point of the curve to the next, at the end of a rollout of 2,048."""
SETTINGS: dict[str, Any] = {
    "learning_rate": 3e-4,
    "n_steps": 2048,
    "batch_size": 64,
    "n_epochs": 10,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "clip_range_vf": 1.0,
    "ent_coef": 0.0,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
}
"""As published; that program gives clip_range_vf as True, which is 1.0. Networks: 64 × 64, tanh."""
_ACTOR = ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2", "action_net")


def training_set(jobs: pd.DataFrame, nodes: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Draw a published training set from a log: `N_LARGE` jobs of more CPUs than `MORE_THAN`, `N_GPU` with GPUs.

    Only jobs that fit the nodes are drawn, each at most once; they are shuffled and submitted at once.
    """
    able, _ = fitting(jobs, nodes)
    rng = np.random.default_rng(seed)
    gpus = able["gpus_per_node"].to_numpy() > 0
    large = able["cpus_per_node"].to_numpy() > MORE_THAN
    parts = []
    for words, wanted, n in ((f"more than {MORE_THAN} CPUs", large & ~gpus, N_LARGE), ("GPUs", gpus, N_GPU)):
        if wanted.sum() < n:
            raise TableError(f"the published training set needs {n:,} jobs with {words} that fit; {wanted.sum():,} do")
        parts.append(rng.choice(np.flatnonzero(wanted), n, replace=False))
    chosen = able.iloc[rng.permutation(np.concatenate(parts))].reset_index(drop=True)
    return chosen.assign(submit_time=int(jobs["submit_time"].min()))


def train_published(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    days: DayFilter | None = None,
    *,
    seed: int = 1,
    steps: int = STEPS,
    minutes: float = float("inf"),
    reward: str = "wait",
    progress: Callable[[int, float], None] = silent,
) -> TrainedPolicy:
    """Train the published agent on a set that is drawn of some of a log's days.

    It stops at the first checkpoint after so many minutes. At each ``progress`` is called with the steps done and the
    mean wait, s, on the training set, the actions being the likeliest; ``trained["curve"]`` holds these.
    """
    sb3, torch = need("sb3_contrib"), need("torch")
    torch.set_num_threads(1)
    days = days or DayFilter()
    names, (first, last) = local_days(jobs, days.tz), days.span
    ready = prepare(training_set(jobs[(names >= first) & (names <= last)], nodes, seed), nodes)
    model = sb3.MaskablePPO("MlpPolicy", make_env(ready, reward), seed=seed, device="cpu", **SETTINGS)
    began, arrays = time.monotonic(), _arrays(model)
    curve = [[0, _wait(arrays, ready)]]
    while model.num_timesteps < steps and time.monotonic() - began < 60 * minutes:
        model.learn(min(CHECKPOINT, steps - model.num_timesteps), reset_num_timesteps=False)
        arrays = _arrays(model)
        curve.append([int(model.num_timesteps), _wait(arrays, ready)])
        progress(int(model.num_timesteps), curve[-1][1])
    about = {
        "objective": curve[-1][1],
        "n_simulations": curve[-1][0] // len(ready.jobs.submit),
        "steps": curve[-1][0],
        "seed": seed,
        "reward": reward,
        "nodes": len(ready.kind_of),
        "n_jobs": len(ready.jobs.submit),
        "curve": curve,
    }
    return TrainedPolicy(PUBLISHED, arrays, None, about)


def _arrays(model: Any) -> dict[str, np.ndarray]:
    parts = model.policy.state_dict()
    layers = [parts[f"{layer}.{kind}"] for layer in _ACTOR for kind in ("weight", "bias")]
    return {name: tensor.detach().numpy().astype(np.float64) for name, tensor in zip(LAYERS, layers, strict=True)}


def _wait(arrays: dict[str, np.ndarray], ready: Prepared) -> float:
    """Return the mean wait of a training set, s."""
    agent = AtHand.model_validate({"trained": TrainedPolicy(PUBLISHED, arrays), "prior": np.zeros(0)})
    run = run_prepared(ready, agent)
    return float((run.start - ready.jobs.submit)[run.start >= 0].mean())
