"""The published agent's training: MaskablePPO of sb3-contrib, its settings and its training sets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError, need
from procure.learn.days import mean_wait, runnable
from procure.learn.env import make_env
from procure.learn.policy import Fixed
from procure.learn.published import LAYERS
from procure.learn.store import TrainedPolicy, read_policy, write_policy
from procure.progress import silent
from procure.run import Prepared, prepare, run_prepared

N_LARGE, N_GPU, MORE_THAN = 2000, 40, 20
"""A published training set: jobs of more than 20 CPUs, and GPU jobs, all submitted at once."""
STEPS = 300_000
CHECKPOINT = 10_000
"""Steps from one checkpoint to the next, at the end of a rollout of 2,048."""
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
_ACTOR = ("policy_net.0", "policy_net.2")


def training_set(jobs: pd.DataFrame, nodes: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Draw a published training set from a log: `N_LARGE` jobs of more CPUs than `MORE_THAN`, `N_GPU` with GPUs.

    Only jobs that fit the nodes are drawn, each at most once; they are shuffled and submitted at once.

    Raises
    ------
    TableError
        The log has too few such jobs.
    """
    fitting = jobs[runnable(jobs, nodes)]
    rng = np.random.default_rng(seed)
    parts, left = [], np.ones(len(fitting), bool)
    gpus = fitting["gpus_per_node"].to_numpy() > 0
    large = fitting["cpus_per_node"].to_numpy() > MORE_THAN
    for what, wanted, n in (("CPUs", large & ~gpus, N_LARGE), ("GPUs", gpus, N_GPU)):
        able = np.flatnonzero(wanted & left)
        if len(able) < n:
            words = f"more than {MORE_THAN} CPUs" if what == "CPUs" else "GPUs"
            raise TableError(f"the published training set needs {n:,} jobs with {words} that fit; {len(able):,} do")
        parts.append(rng.choice(able, n, replace=False))
    chosen = fitting.iloc[rng.permutation(np.concatenate(parts))].reset_index(drop=True)
    return chosen.assign(submit_time=int(jobs["submit_time"].min()))


def train_ppo(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    path: str | Path,
    *,
    seed: int = 1,
    steps: int = STEPS,
    minutes: float = float("inf"),
    reward: str = "wait",
    progress: Callable[[int, float], None] = silent,
) -> TrainedPolicy:
    """Train the published agent; the file is written at each checkpoint, and what it holds is trained further.

    Parameters
    ----------
    jobs
        A log, from which the training set is drawn.
    path
        Where the policy is written. If it holds an agent trained with the same seed and reward on as many nodes,
        training goes on from there: weights and optimiser are kept, the random numbers begin anew.
    minutes
        Stop at the first checkpoint after so long.
    progress
        Called at each checkpoint with the steps done and the mean wait, s, on the training set.

    Returns
    -------
    TrainedPolicy
        ``trained["curve"]`` holds ``[steps, mean wait on the training set]``, the actions being the likeliest.

    Raises
    ------
    TableError
        The extra ``rl`` is missing, or the log has too few large or GPU jobs.
    """
    sb3, torch = need("sb3_contrib"), need("torch")
    torch.set_num_threads(1)
    ready = prepare(training_set(jobs, nodes, seed), nodes)
    before = _before(path, seed, reward, len(nodes))
    done = int(before.trained["steps"]) if before else 0
    model = sb3.MaskablePPO("MlpPolicy", make_env([ready], reward), seed=seed + done, device="cpu", **SETTINGS)
    curve: list[list[float]] = []
    if before:
        _restore(model, before.arrays)
        curve = [list(point) for point in before.trained["curve"]]
    model.num_timesteps = done
    began = time.monotonic()
    policy = before or _exported(model, curve, ready, seed, reward)
    while model.num_timesteps < steps and time.monotonic() - began < 60 * minutes:
        model.learn(min(CHECKPOINT, steps - model.num_timesteps), reset_num_timesteps=False)
        policy = _exported(model, curve, ready, seed, reward)
        write_policy(path, policy)
        progress(model.num_timesteps, curve[-1][1])
    return policy


def _before(path: str | Path, seed: int, reward: str, n_nodes: int) -> TrainedPolicy | None:
    if not Path(path).is_file():
        return None
    found = read_policy(path)
    same = {"seed": seed, "reward": reward, "nodes": n_nodes}
    if found.method != "ppo" or any(found.trained.get(key) != value for key, value in same.items()):
        raise TableError(f"{path} holds another policy (method {found.method}); write to another file")
    return found


def _exported(model: Any, curve: list[list[float]], ready: Prepared, seed: int, reward: str) -> TrainedPolicy:
    """Bring weights, and what is needed to train on, to arrays; add a point to the curve."""
    parts = {name: tensor.detach().numpy().copy() for name, tensor in model.policy.state_dict().items()}
    actor = [parts[f"mlp_extractor.{layer}.{kind}"] for layer in _ACTOR for kind in ("weight", "bias")]
    actor += [parts["action_net.weight"], parts["action_net.bias"]]
    arrays = dict(zip(LAYERS, (array.astype(np.float64) for array in actor), strict=True))
    arrays |= {f"torch.{name}": array for name, array in parts.items()}
    for i, values in model.policy.optimizer.state_dict()["state"].items():
        arrays |= {f"adam.{i}.{name}": np.asarray(value) for name, value in values.items()}
    policy = TrainedPolicy("ppo", arrays)
    wait = mean_wait(ready, run_prepared(ready, Fixed.model_validate({"trained": policy})))
    curve.append([int(model.num_timesteps), wait])
    trained = {
        "objective": wait,
        "n_simulations": int(model.num_timesteps) // len(ready.jobs.submit),
        "steps": int(model.num_timesteps),
        "seed": seed,
        "reward": reward,
        "nodes": len(ready.kind_of),
        "n_jobs": len(ready.jobs.submit),
        "curve": curve,
    }
    return replace(policy, trained=trained)


def _restore(model: Any, arrays: Any) -> None:
    torch = need("torch")
    held = {name.removeprefix("torch."): array for name, array in arrays.items() if name.startswith("torch.")}
    model.policy.load_state_dict({name: torch.tensor(array) for name, array in held.items()})
    optimizer = model.policy.optimizer.state_dict()
    for name, array in arrays.items():
        if name.startswith("adam."):
            _, i, key = name.split(".")
            optimizer["state"].setdefault(int(i), {})[key] = torch.tensor(array)
    model.policy.optimizer.load_state_dict(optimizer)
