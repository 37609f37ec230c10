"""What the search for links of a job's own works with: its room and bound, and masks of links."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.topology.fabric import inner
from procure.topology.fat_tree import Shape


class Search(NamedTuple):
    """Room for the backtracking search, and its bound."""

    candidates: np.ndarray  # int64[max(leaves, pods)], switches that may be chosen
    stack: np.ndarray  # int64[max(leaves, pods) + 1], positions in candidates that are chosen
    common: np.ndarray  # int64[leaves + 1], uplinks that all chosen leaves have free
    spines: np.ndarray  # int64[pods + 1, uplinks], spine links that all chosen pods have free
    whole: np.ndarray  # int64[pods], leaves of which everything is free
    bound: int  # switches that one call may try
    tried: np.ndarray  # int64[1], switches that this call has tried
    cut: np.ndarray  # int64[1], calls that found nothing and met the bound


def make_search(shape: Shape, bound: int) -> Search:
    """Lay out the room for a search that tries at most ``bound`` switches a call."""
    most = max(shape.leaves, shape.pods)
    return Search(
        np.zeros(most, np.int64),
        np.zeros(most + 1, np.int64),
        np.zeros(shape.leaves + 1, np.int64),
        np.zeros((shape.pods + 1, shape.uplinks), np.int64),
        np.zeros(shape.pods, np.int64),
        bound,
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
    )


@inner
def share(part, links, whole):
    """Return how many of a switch's links go with ``part`` of the ``whole`` below it, rounded up."""
    return (part * links + whole - 1) // whole


@inner
def lowest(mask, n):
    """Return the ``n`` lowest bits of a mask."""
    kept = 0
    for _ in range(n):
        bit = mask & -mask
        kept |= bit
        mask ^= bit
    return kept


@inner
def popcount(mask):
    """Count the bits of a mask of fewer than 63."""
    mask -= (mask >> 1) & 0x5555555555555555
    mask = (mask & 0x3333333333333333) + ((mask >> 2) & 0x3333333333333333)
    mask = (mask + (mask >> 4)) & 0x0F0F0F0F0F0F0F0F
    return (mask * 0x0101010101010101) >> 56
