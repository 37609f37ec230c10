"""Stated ranges of ranks hold: against a truth that is known, and for every package's own place in the list."""

from __future__ import annotations

import numpy as np
import pytest

from procure.evaluation.ranking import rank_ranges, resample_rows


def ranks(figures: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(figures), figures) + 1


@pytest.mark.parametrize(("n_days", "spread"), [(5, 0.1), (10, 0.4), (25, 0.4)])
def test_ranges_from_few_days_hold_the_true_rank_in_nine_of_ten_cases(n_days, spread):
    """Waits of 300 packages on n days, their level and each package's own noise lognormal: the true order is known."""
    rng = np.random.default_rng(n_days)
    held, alone, placed = [], [], []
    for _ in range(12):
        true = 1000 * np.exp(rng.normal(0, spread, 300))
        level = np.exp(rng.normal(0, 0.8, (n_days, 1)))
        waits = true * level * np.exp(rng.normal(0, 0.1, (n_days, 300)))
        head = np.argsort(waits.mean(axis=0))[:40]
        waits, rank = waits[:, head], ranks(true[head])
        drawn = waits[resample_rows(n_days, 300, 1)].mean(axis=1)
        low, high = rank_ranges(drawn, waits.mean(axis=0))
        least, most = rank_ranges(drawn)
        held.append((low <= rank) & (rank <= high))
        alone.append((least <= rank) & (rank <= most))
        place = np.arange(1, 41)
        placed.append((low <= place) & (place <= high))
    assert np.mean(held) >= 0.9
    assert np.mean(held) > np.mean(alone)
    assert np.all(placed)


def test_ranges_by_hand():
    """The third place of three that is always best in the resamples has the range 1 to 3."""
    drawn = np.array([[2.0, 3.0, 1.0]] * 10)
    low, high = rank_ranges(drawn)
    assert low.tolist() == [1, 2, 1] and high.tolist() == [2, 3, 3]
    # Differences of 1 with a standard deviation of 0 tell all apart: only the places and the resamples remain.
    low, high = rank_ranges(drawn, np.array([1.0, 2.0, 3.0]))
    assert low.tolist() == [1, 2, 1] and high.tolist() == [2, 3, 3]
    wide = np.array([[1.0, 2.0], [1.0, 9.0]] * 5)
    low, high = rank_ranges(wide, np.array([1.0, 5.0]))
    assert low.tolist() == [1, 1] and high.tolist() == [2, 2]
