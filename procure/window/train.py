"""Train the network of ``neural``: MaskablePPO of sb3-contrib in a Gymnasium room of windows that one method met."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError, need
from procure.progress import silent
from procure.run import Run, simulate
from procure.simulator.drive import Policy
from procure.simulator.state import State
from procure.topology.fat_tree import FatTree
from procure.window.policies import Windows
from procure.window.problem import Window, lift, line_up, make_board, put
from procure.window.solve import FEATURES, POSITIONS, Network, make_solver, observe


class Collected(NamedTuple):
    """The windows of a run that have jobs of several nodes."""

    windows: list[Window]
    closed_at: list[int]  # s after the first submission
    run: Run


def collect_windows(jobs: pd.DataFrame, nodes: pd.DataFrame, parameters: Windows) -> Collected:
    """Simulate the policy `window`; keep its windows that have jobs of several nodes."""
    windows: list[Window] = []
    closed_at: list[int] = []
    solver = make_solver(parameters.method)

    class Watched(Windows):
        def make(self, state: State) -> Policy:
            return self.follow(state, solver, keep)

    def keep(window: Window, now: int) -> None:
        windows.append(window)
        closed_at.append(now)

    run = simulate(jobs, nodes, Watched(**dict(parameters)))
    if not windows:
        raise TableError("no job of several nodes ever waits for a window")
    return Collected(windows, closed_at, run)


REPAIRS = 20
"""Destroyed solutions that are made of one window before the next is drawn."""
UNIT = 10_000.0
"""Cost that counts as a reward of −1."""


def make_room(windows: Sequence[Window], network: Network, seed: int) -> Any:
    """Make the Gymnasium environment of the repair: an action is the start of the largest job that is not placed.

    An episode begins with a window, solved at random or as the last episode left it, from which one or
    two jobs are removed. The reward is 0 until the last of them is placed, and then minus their cost.
    Of ``network`` only the tree and the scale are used.
    """
    gymnasium = need("gymnasium")
    env: Any = gymnasium.Env
    random = np.random.default_rng(seed)

    class Repair(env):
        observation_space = gymnasium.spaces.Box(0.0, np.inf, (POSITIONS * FEATURES,), np.float32)
        action_space = gymnasium.spaces.Discrete(POSITIONS)

        def __init__(self) -> None:
            self.left = 0

        def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
            super().reset(seed=seed)
            if self.left == 0:
                self.left = REPAIRS
                window = windows[int(random.integers(len(windows)))]
                self.board = make_board(window.tree.shape, window.idle, window.sizes, 0)
                for job in range(len(window.sizes)):
                    n_line = line_up(self.board)
                    put(self.board, job, n_line, int(random.integers(n_line)))
            self.left -= 1
            n_jobs = len(self.board.sizes)
            removed = random.choice(n_jobs, min(int(random.integers(1, 3)), n_jobs), replace=False)
            self.removed = removed[np.argsort(-self.board.sizes[removed], kind="stable")]
            for job in self.removed:
                lift(self.board, job)
            self.at = 0
            return self._see(), {}

        def _see(self) -> np.ndarray:
            self.n_line = line_up(self.board)
            if self.at == len(self.removed):
                return np.zeros(POSITIONS * FEATURES, np.float32)
            return observe(self.board, self.n_line, self.board.sizes[self.removed[self.at :]], network)

        def action_masks(self) -> np.ndarray:
            return np.arange(POSITIONS) < self.n_line

        def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
            put(self.board, self.removed[self.at], self.n_line, int(action))
            self.at += 1
            done = self.at == len(self.removed)
            reward = -float(self.board.costs[self.removed].sum()) / UNIT if done else 0.0
            return self._see(), reward, done, False, {}

    return Repair()


def train_network(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    *,
    minutes: float = 60,
    steps: int | None = None,
    length: int = 60,
    seed: int = 0,
    progress: Callable[[str], None] = silent,
) -> Network:
    """Train a network on the windows that these jobs make on these nodes.

    MaskablePPO with the published clip, discount and learning rate of the actor (0.2, 0.99, 3e-4), and
    otherwise sb3-contrib's defaults; two hidden layers of 64 with tanh (the paper's FCN-1). Windows close every
    ``length`` s. Training ends after ``minutes`` of wall time, or after so many placements, ``steps``: with the same
    seed and a number of steps that is reached in time, the network is the same.
    """
    if not minutes > 0:
        raise ArgumentError("minutes", f"{minutes} minutes; training needs some")
    if steps is not None and steps < 1:
        raise ArgumentError("steps", f"{steps} steps; at least 1 is needed")
    ppo, torch = need("sb3_contrib").MaskablePPO, need("torch")
    parameters = Windows.model_validate({"length": length, "method": "greedy", "seed": seed})
    windows = collect_windows(jobs, nodes, parameters).windows
    tree = FatTree.from_nodes(nodes)
    about = Network((tree.pods, tree.leaves, tree.nodes), int(jobs["n_nodes"].max()), (), {})
    torch.set_num_threads(1)
    model = ppo("MlpPolicy", make_room(windows, about, seed), seed=seed, verbose=0)
    began = last = time.monotonic()
    rewards: list[float] = []

    def go_on(local: dict, _: dict) -> bool:
        nonlocal last
        rewards.extend(info["episode"]["r"] for info in local["infos"] if "episode" in info)
        if time.monotonic() - last > 10:
            last = time.monotonic()
            mean = UNIT * np.mean(rewards[-5000:]) if rewards else float("nan")
            progress(f"{model.num_timesteps:,} placements, mean reward {mean:,.0f}")
        return bool(time.monotonic() - began < 60 * minutes)

    model.learn(steps or 10**9, callback=go_on)
    layers = [*model.policy.mlp_extractor.policy_net[::2], model.policy.action_net]
    weights = tuple((layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy().copy()) for layer in layers)
    training = {
        "placements": int(model.num_timesteps),
        "windows": len(windows),
        "jobs": len(jobs),
        "length": length,
        "seed": seed,
        "mean_cost_last": -UNIT * float(np.mean(rewards[-5000:] or [np.nan])),
    }
    return Network(about.tree, about.most_nodes, weights, training)
