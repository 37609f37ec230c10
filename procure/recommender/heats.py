"""Two heats: all packages on the past, then the best and a few others on futures."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from procure.objectives.aggregate import RANK_POWER, behind_on_past, class_shares

REFERENCES = 1 / 3
"""Share of the second heat that is drawn at random: whom the best are ranked against there."""


class Heats(NamedTuple):
    """What two heats gave.

    ``rows`` ran in the second heat, best first, with their ``figure``, the objective ``rank-by-class``;
    ``wait`` are their mean waits, s, float64[past and its parts and futures, rows].
    """

    rows: np.ndarray
    figure: np.ndarray
    wait: np.ndarray


def two_heats(
    past: np.ndarray,
    weights: np.ndarray,
    futures: Callable[[np.ndarray], np.ndarray],
    n_second: int,
) -> Heats:
    """Rank packages by class over the past and futures, with futures for the better ones only.

    Parameters
    ----------
    past
        Waits of all packages, s, float64[windows, 1 + classes, packages], see `class_shares`; first on the whole past.
    weights
        What each window of the past counts, float64[windows], and last what all futures count together.
    futures
        From rows of packages to their waits, s, float64[futures, 1 + classes, rows].
    n_second
        So many run on the futures: the first third in the order of ``past``, which is random, the others by the past.

    Notes
    -----
    On the past a package is ranked among all, on futures among those that run there; without the ones that are
    drawn at random, all that run there would be good, and a place lost among them would count as one among all.
    """
    on_past, behind = class_shares(past), behind_on_past(past[0, 0])
    first = np.average(on_past, axis=0, weights=weights[:-1]) + behind
    drawn = np.arange(int(n_second * REFERENCES))
    best = np.setdiff1d(np.argsort(first, kind="stable"), drawn, assume_unique=True)
    rows = np.concatenate([best[: n_second - len(drawn)], drawn])
    waits = futures(rows)
    score = weights[:-1] @ on_past[:, rows] + weights[-1] * class_shares(waits).mean(axis=0)
    figure = (score / weights.sum() + behind[rows]) ** (1 / RANK_POWER)
    order = np.argsort(figure, kind="stable")
    wait = np.concatenate([past[:, 0, rows], waits[:, 0]])
    return Heats(rows[order], figure[order], wait[:, order])
