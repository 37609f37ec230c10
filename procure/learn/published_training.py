"""The published agent's training: MaskablePPO of sb3-contrib, its settings and its training sets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError, need
from procure.learn.order import AtHand
from procure.learn.published import LAYERS
from procure.learn.published_env import make_env
from procure.learn.store import PUBLISHED, TrainedPolicy
from procure.learn.weeks import DayFilter, fitting
from procure.progress import silent
from procure.run import Prepared, prepare, run_prepared
from procure.workload.parts import local_days

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
