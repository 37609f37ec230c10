"""What an allocation costs: the hops between a job's nodes, as printed in the paper and as its program counts them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.errors import ArgumentError
from procure.files.kernels import njit
from procure.text import nearest


class Hops(NamedTuple):
    """Hops between two nodes on one leaf, in one pod, and of different pods."""

    leaf: int
    pod: int
    far: int


PROFILES = {"code": Hops(1, 3, 5), "paper": Hops(2, 4, 6)}
"""The profiles by name. Each unordered pair counts once in ``code`` and twice in ``paper``."""


@njit(cache=True, nogil=True)
def code_cost(n, saved):
    """Return the cost of ``n`` nodes in the program's profile: max(⌊1000 · hops / n⌋, 1).

    Parameters
    ----------
    saved
        Pairs of nodes on one leaf plus pairs in one pod; each saves 2 of the 5 hops of a pair.
    """
    return max(1000 * (5 * (n * (n - 1) // 2) - 2 * saved) // n, 1)


def hop_cost(leaf: np.ndarray, pod: np.ndarray, profile: str = "code") -> float:
    """Return the communication-hop cost of one job by the leaf and the pod of each of its nodes.

    ``paper``: 1000/n times the hops over ordered pairs, 0 for a single node (Lan et al., eq. 1).
    ``code``: the whole number max(⌊1000 · hops / n⌋, 1) over unordered pairs, as the published program
    counts. As hops differ by one and C(n, 2) is fixed by the job's size, ``paper`` is twice the unrounded
    ``code`` plus 1000 (n − 1): an allocation that is best in one is best in the other, but for rounding.

    Raises
    ------
    ArgumentError
        The profile is not known.
    """
    if profile not in PROFILES:
        raise ArgumentError("profile", f"profile {profile!r} is not known; {nearest(profile, PROFILES)}")
    hops = PROFILES[profile]
    n = len(leaf)
    pairs = n * (n - 1) // 2
    one_leaf, one_pod = (
        int((count * (count - 1) // 2).sum())
        for count in (np.unique(where, return_counts=True)[1].astype(np.int64) for where in (leaf, pod))
    )
    total = hops.far * pairs - (hops.far - hops.pod) * one_pod - (hops.pod - hops.leaf) * one_leaf
    if profile == "paper":
        return 2000 * total / n
    return max(1000 * total // n, 1)
