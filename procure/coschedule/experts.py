"""Decision-tree experts: each looks at one metric and at the donor's happiness, and advises a quota.

A reconstruction of Souza, Pelckmans and Tordsson, "A HPC co-scheduler with reinforcement learning"
(2021, section 3), whose trees are drawn but not listed. A leaf is a distribution over the quotas.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.errors import ArgumentError
from procure.simulator.kernel import kernel

N_BINS, N_MOODS = 4, 3
IN_DANGER, NEAR, ABOVE = range(N_MOODS)
"""Happiness below 1, from 1 to `COMFORT`, and above."""
COMFORT = 1.1
FLOOR = 0.02
"""The share of every leaf that is spread evenly, so that each quota keeps a chance."""
WIDTH = 0.125
"""How fast a leaf's chances fall with the distance from the quota that it prefers."""

METRICS = ("cpu", "mem", "guest_cpu", "guest_mem", "both_cpu", "elapsed")
"""The donor's CPU and memory share, the guest's, the CPU shares together, and the elapsed part of the limit."""
N_METRICS = len(METRICS)
EDGES = np.array(
    [
        [0.25, 0.5, 0.75],
        [0.25, 0.5, 0.75],
        [0.25, 0.5, 0.75],
        [0.25, 0.5, 0.75],
        [0.75, 1.0, 1.25],
        [0.25, 0.5, 0.75],
    ]
)
"""float64[n_metrics, 3], the borders between a metric's bins; a value on a border is in the lower bin."""
_PREFERRED = {
    "cpu": (0.75, 0.5, 0.25, 0.0),
    "mem": (0.5, 0.5, 0.25, 0.0),
    "guest_cpu": (0.25, 0.5, 0.75, 0.75),
    "guest_mem": (0.5, 0.5, 0.25, 0.0),
    "both_cpu": (0.5, 0.5, 0.25, 0.0),
    "elapsed": (0.25, 0.25, 0.5, 0.5),
}
"""The quota that each expert prefers per bin when the donor is above; near, half of it; in danger, 0."""


class Experts(NamedTuple):
    """What a learner mixes."""

    quotas: np.ndarray  # float64[n_quotas], ascending from 0: the guest's share of the CPUs
    metric: np.ndarray  # int64[n_experts], which metric an expert looks at
    leaves: np.ndarray  # float64[n_experts, N_BINS, N_MOODS, n_quotas], each leaf sums to 1


def quotas_of(step: float) -> np.ndarray:
    """Return the quotas 0, step, 2 step … below 1: float64[n].

    Raises
    ------
    ArgumentError
        ``step`` is not above 0 and at most 0.5.
    """
    if not 0.01 <= step <= 0.5:
        raise ArgumentError("step", f"the step between quotas is {step}; from 0.01 to 0.5 is allowed")
    return np.arange(0.0, 1.0 - 1e-9, step)


def make_experts(step: float = 0.25) -> Experts:
    """Return one expert per metric; quotas 0, 0.25, 0.5 and 0.75 as published, or in another step."""
    quotas = quotas_of(step)
    leaves = np.zeros((N_METRICS, N_BINS, N_MOODS, len(quotas)))
    for i, name in enumerate(METRICS):
        for part, preferred in enumerate(_PREFERRED[name]):
            for mood, share in ((IN_DANGER, 0.0), (NEAR, 0.5), (ABOVE, 1.0)):
                chances = np.exp(-np.abs(quotas - share * preferred) / WIDTH)
                leaves[i, part, mood] = (1 - FLOOR) * chances / chances.sum() + FLOOR / len(quotas)
    return Experts(quotas, np.arange(N_METRICS, dtype=np.int64), leaves)


@kernel
def bin_of(metric, value):
    """Return how many of a metric's borders a value exceeds."""
    n = 0
    for k in range(N_BINS - 1):
        if value > EDGES[metric, k]:
            n += 1
    return n


@kernel
def mood_of(happiness):
    """Return IN_DANGER, NEAR or ABOVE."""
    if happiness < 1.0:
        return IN_DANGER
    return NEAR if happiness <= COMFORT else ABOVE
