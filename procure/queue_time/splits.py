"""Which rows train a model and which judge it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.workload import load

BURST_GAP = 3600
"""Submissions no more than this many seconds apart are one burst."""


@dataclass(frozen=True)
class Split:
    """Rows by position: ``train`` and ``test``; ``cut`` is the moment of training, None for a random split."""

    name: str
    train: np.ndarray
    test: np.ndarray
    cut: int | None = None


def bursts(jobs: pd.DataFrame) -> np.ndarray:
    """Number the bursts: runs of submissions no more than `BURST_GAP` apart by one user, or where the log names none,
    of jobs with the same request and limit; see `procure.workload.load.bursts`.
    """
    return load.bursts(jobs, BURST_GAP + 1)


def random_split(n: int, seed: int, group: np.ndarray | None = None) -> Split:
    """Draw a fifth as test part at random; rows of one group stay together."""
    rng = np.random.default_rng(seed)
    if group is None:
        test = np.zeros(n, bool)
        test[rng.permutation(n)[: round(0.2 * n)]] = True
        return Split("random", np.flatnonzero(~test), np.flatnonzero(test))
    names, code, counts = np.unique(group, return_inverse=True, return_counts=True)
    order = rng.permutation(len(names))
    chosen = np.zeros(len(names), bool)
    chosen[order[np.cumsum(counts[order]) <= 0.2 * n]] = True
    test = chosen[code]
    return Split("random-bursts", np.flatnonzero(~test), np.flatnonzero(test))


def chronological(submit: np.ndarray, wait: np.ndarray, cut: int | None = None) -> Split:
    """Test the last fifth by submission, or all from ``cut`` on; train on jobs that had started before that."""
    order = np.argsort(submit, kind="stable")
    if cut is None:
        first = int(len(order) * 0.8)
        test, cut = order[first:], int(submit[order[min(first, len(order) - 1)]])
        before = order[:first]
    else:
        test, before = order[submit[order] >= cut], order[submit[order] < cut]
    train = before[submit[before] + wait[before] < cut]
    if len(train) < 20 or len(test) == 0:
        raise TableError(
            f"the split leaves {len(train)} jobs that had started by its cut to train on and {len(test)} to "
            "test; at least 20 and 1 are needed: give a longer log or another cut"
        )
    return Split("chronological", train, test, cut)
