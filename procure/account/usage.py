"""How many CPUs users had of late: a mean over time in which what is a day old counts a third."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.kernel import kernel

FADES = 86_400.0
"""s after which use counts 1/e of what it did."""


class Usage(NamedTuple):
    """The mean of each user up to its last change."""

    mean: np.ndarray  # float64[n_users], CPUs
    running: np.ndarray  # int64[n_users], CPUs since then
    since: np.ndarray  # int64[n_users], s
    capacity: float  # CPUs of the centre


def make_usage(n_users: int, capacity: float) -> Usage:
    """Return the use of users that have run nothing."""
    return Usage(np.zeros(n_users), np.zeros(n_users, np.int64), np.zeros(n_users, np.int64), float(capacity))


@kernel
def share_of(usage, user, now):
    """Return a user's recent use as a share of all CPUs."""
    faded = np.exp(-(now - usage.since[user]) / FADES)
    return (usage.running[user] + (usage.mean[user] - usage.running[user]) * faded) / usage.capacity


@kernel
def use(usage, user, now, cpus):
    """Let a user have so many CPUs more, or fewer (negative), from now on."""
    usage.mean[user] = share_of(usage, user, now) * usage.capacity
    usage.since[user] = now
    usage.running[user] += cpus
