"""PPO that learns: one score shared by all waiting jobs, trained day by day with an additive, normalised reward."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from procure.errors import need
from procure.learn.days import Day, on_day, quick_wait
from procure.learn.features import FEATURES
from procure.learn.ppo import CHECKPOINT, STEPS
from procure.learn.scorer_env import N_CLASSES, make_scorer_env
from procure.learn.search import Settings, free_numbers, objective_of
from procure.learn.store import TrainedPolicy
from procure.progress import silent

N_HIDDEN = 16
"""Hyperbolic tangents beside the linear part of the score."""
SETTINGS: dict[str, Any] = {
    "learning_rate": 3e-4,
    "n_steps": 4096,
    "batch_size": 512,
    "n_epochs": 4,
    "gamma": 0.995,
    "gae_lambda": 0.95,
    "ent_coef": 0.0,
    "max_grad_norm": 0.5,
}
"""What a choice does to waits shows within some hundred choices. In a trial with the undiscounted rewards of a day
and a random network, 86,000 choices brought the log ratio to sjf from 0.59 to 0.57."""
SHARPNESS = 10.0
"""The score begins at so many times that of the search's start, so that nearly always its first is chosen."""


def train_scorer(
    days: Sequence[Day],
    *,
    seed: int = 1,
    steps: int = STEPS,
    minutes: float = float("inf"),
    progress: Callable[[int, float], None] = silent,
) -> TrainedPolicy:
    """Train a score by MaskablePPO; the file that it becomes is that of a search, and runs like it, without torch.

    Parameters
    ----------
    days
        From `procure.learn.days.lay_out_days`; an episode each, in turn.
    steps
        Choices to train on.
    minutes
        Stop at the first checkpoint after so long.
    progress
        Called at each checkpoint with the steps done and the objective on all days (`objective_of`).

    Returns
    -------
    TrainedPolicy
        ``trained["curve"]`` holds ``[steps, objective]``, the likeliest class started each time.

    Raises
    ------
    TableError
        The extra ``rl`` is missing.
    """
    sb3, torch = need("sb3_contrib"), need("torch")
    torch.set_num_threads(1)
    begin, arrays_of = free_numbers(Settings(inside="skip"))
    start = arrays_of(begin)
    env = make_scorer_env(days, start)
    model = sb3.MaskablePPO(_policy_class(torch, start["weights"]), env, seed=seed, device="cpu", **SETTINGS)
    references = np.array([day.reference for day in days])
    curve: list[list[float]] = []
    best: dict[str, np.ndarray] = {}
    began = time.monotonic()

    def judge() -> None:
        arrays = _arrays(model, start)
        trained = TrainedPolicy("search", arrays)
        value = objective_of(np.array([quick_wait(day, on_day(day, trained)) for day in days]), references)
        curve.append([int(model.num_timesteps), value])
        if value <= min(point[1] for point in curve):
            best.update(arrays)

    judge()
    while model.num_timesteps < steps and time.monotonic() - began < 60 * minutes:
        model.learn(min(CHECKPOINT, steps - model.num_timesteps), reset_num_timesteps=False)
        judge()
        progress(model.num_timesteps, curve[-1][1])
    least = min(point[1] for point in curve)
    told = {"by": "ppo", "inside": "skip", "objective": least, "untrained": least == curve[0][1], "seed": seed}
    told |= {"steps": int(model.num_timesteps), "curve": curve, "days": [day.name for day in days]}
    told |= {"n_simulations": int(model.num_timesteps) // max(sum(day.n_jobs for day in days) // len(days), 1)}
    return TrainedPolicy("search", best, None, told)


def _policy_class(torch: Any, weights: np.ndarray) -> Any:
    """Return sb3's policy: the shared score, which begins at ``weights``, and a critic of the mean of what is seen."""
    from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

    n = len(FEATURES)

    class Score(torch.nn.Module):  # type: ignore[name-defined,misc]
        latent_dim_pi, latent_dim_vf = N_CLASSES, 64

        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(n, 1, bias=False)
            self.units = torch.nn.Linear(n, N_HIDDEN)
            self.out = torch.nn.Linear(N_HIDDEN, 1, bias=False)
            self.critic = torch.nn.Sequential(torch.nn.Linear(2 * n + 1, 64), torch.nn.Tanh())

        def forward(self, seen: Any) -> Any:
            return self.forward_actor(seen), self.forward_critic(seen)

        def forward_actor(self, seen: Any) -> Any:
            rows = seen.view(-1, N_CLASSES, n)
            return -(self.linear(rows) + self.out(torch.tanh(self.units(rows)))).squeeze(-1)

        def forward_critic(self, seen: Any) -> Any:
            rows = seen.view(-1, N_CLASSES, n)
            there = (rows != 0).any(dim=2, keepdim=True).float()
            number = there.sum(dim=1).clamp(min=1.0)
            mean = (rows * there).sum(dim=1) / number
            spread = ((rows - mean.unsqueeze(1)) ** 2 * there).sum(dim=1) / number
            return self.critic(torch.cat([mean, spread, torch.log(number) / 5.0], dim=1))

    class Policy(MaskableActorCriticPolicy):
        def _build_mlp_extractor(self) -> None:
            self.mlp_extractor = Score()

        def _build(self, lr_schedule: Any) -> None:
            super()._build(lr_schedule)
            self.action_net = torch.nn.Identity()
            with torch.no_grad():
                score: Any = self.mlp_extractor
                score.linear.weight[:] = torch.tensor(SHARPNESS * weights, dtype=torch.float32)
                score.out.weight.zero_()
            self.optimizer = torch.optim.Adam(self.parameters(), lr=lr_schedule(1), eps=1e-5)

    return Policy


def _arrays(model: Any, start: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the score as a policy's arrays; where a job goes, and how far its history counts, is as at the start."""
    score = model.policy.mlp_extractor
    parts = {
        name: tensor.detach().numpy().astype(np.float64)
        for name, tensor in (
            ("weights", score.linear.weight[0]),
            ("bias", score.units.bias),
            ("inner", score.units.weight),
            ("out", score.out.weight[0]),
        )
    }
    hidden = np.column_stack([parts["bias"], parts["inner"], parts["out"]])
    return start | {"weights": parts["weights"].copy(), "hidden": hidden}
