"""The one distribution of a wait: quantiles, chances and what remains agree."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.queue_time.calibrate import BELOW, GRID, with_interval
from procure.queue_time.distribution import Distribution

YEAR_9999 = 8000 * 365.0 * 86400


def distributions(seed: int, n: int = 8) -> Distribution:
    """Curves with hurdles, steps and long tails."""
    rng = np.random.default_rng(seed)
    curve = np.sort(np.expm1(rng.uniform(0, 14, (n, len(GRID)))), axis=1)
    curve[rng.random(curve.shape) < 0.2] = 0.0
    return Distribution(np.maximum.accumulate(curve, axis=1))


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10_000), waited=st.sampled_from([0.0, 60.0, 5000.0, 1e6, 1e8]))
def test_median_intervals_and_chances_never_contradict(seed: int, waited: float) -> None:
    """Quantiles ascend, chances ascend, the chance at a quantile is at least its level, and all start some day."""
    said = distributions(seed).after(waited)
    levels = np.linspace(0.0, 1.0, 41)
    quantiles = said.quantile(levels)
    assert (np.diff(quantiles, axis=1) >= -1e-6).all()
    for level, quantile in zip(levels, quantiles.T, strict=True):
        assert (said.chance(quantile * (1 + 1e-9) + 1e-6) >= level - 1e-4).all()
        earlier = quantile * (1 - 1e-6) - 1e-3
        assert (np.where(earlier > 0, said.chance(np.maximum(earlier, 0)), 0.0) <= level + 1e-3).all()
    deadlines = np.geomspace(1, YEAR_9999, 60)
    chances = np.array([said.chance(deadline) for deadline in deadlines])
    assert (np.diff(chances, axis=0) >= -1e-12).all()
    assert chances[-1] == pytest.approx(1.0)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.5, 0.97))
def test_the_interval_holds_what_it_says_of_the_stated_distribution(seed: int, share: float) -> None:
    """It holds its share, and more only where that many start at once or would at its other end; the median lies in it,
    and its ends are quantiles of the levels that it leaves out, so that no chance contradicts it."""
    said = distributions(seed, 40)
    low, high = said.interval(share).T
    once = said.chance(0.99)
    assert (low <= said.quantile(0.5) + 1e-9).all() and (said.quantile(0.5) <= high + 1e-9).all()
    below = np.where(low < 1, 0.0, said.chance(np.maximum(low * (1 - 1e-9) - 1e-6, 0)))
    holds = said.chance(high * (1 + 1e-9) + 1e-6) - below
    assert (holds >= share - 1e-4).all()
    left_out = (1 - share) * (BELOW if share > 0.5 else 0.5)
    whole = (once >= left_out) & (said.quantile(share) > 0)
    np.testing.assert_allclose(high[whole], said.quantile(share)[whole])
    usual = once == 0
    np.testing.assert_allclose(low[usual], said.quantile(left_out)[usual])
    np.testing.assert_allclose(high[usual], said.quantile(left_out + share)[usual])
    assert (high <= said.quantile(left_out + share) + 1e-9).all() and (high >= said.quantile(share) - 1e-9).all()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.8, 0.96))
def test_a_corrected_interval_is_the_one_of_another_share(seed: int, share: float) -> None:
    """Where nobody or more than 15 in 100 start at once, the interval of nine in ten of a corrected curve is that of
    the given share of the curve before; the middle half stays."""
    said = distributions(seed, 40)
    moved = Distribution(with_interval(said.curve, share))
    assert (np.diff(moved.curve, axis=1) >= -1e-6).all()
    middle = np.array([0.25, 0.4, 0.5, 0.6, 0.75])
    np.testing.assert_allclose(moved.quantile(middle), said.quantile(middle))
    once = said.chance(0.99)
    clear = (once == 0) | ((once > 0.15) & (once < 0.75))
    np.testing.assert_allclose(moved.interval()[clear], said.interval(share)[clear], rtol=1e-6, atol=1.0)


@pytest.mark.parametrize("share", [0.8, 0.85, 0.88, 0.93, 0.96])
def test_a_corrected_interval_is_about_that_one_where_few_start_at_once(share: float) -> None:
    """Where up to 15 in 100 start at once, it holds what that of the given share holds but for 0.06."""
    rng = np.random.default_rng(0)
    middle, spread = rng.uniform(2, 12, (4000, 1)), rng.uniform(0.1, 4, (4000, 1))
    normal = np.array([NormalDist().inv_cdf(level) for level in GRID.clip(0.001, 0.999)])
    said = Distribution(np.expm1(np.maximum(middle + spread * normal, 0)))
    moved = Distribution(with_interval(said.curve, share))
    few = (said.chance(0.99) > 0) & (said.chance(0.99) <= 0.15)
    assert few.sum() > 500
    held, asked = (
        said.chance(ends[:, 1]) - np.where(ends[:, 0] < 1, 0, said.chance(ends[:, 0]))
        for ends in (moved.interval(), said.interval(share))
    )
    np.testing.assert_allclose(held[few], asked[few], atol=0.06)
    assert np.abs(held - asked)[few].max() > 0.01


def test_what_remains_is_what_the_stated_chances_leave() -> None:
    """P(start by s + t | waiting at s) is the stated one; far beyond the curve as long again is as likely as not."""
    said = distributions(3)
    waited, more = 3000.0, 20_000.0
    gone = said.chance(waited)
    kept = gone < 0.9
    expected = (said.chance(waited + more) - gone) / (1 - gone)
    assert kept.any()
    np.testing.assert_allclose(said.after(waited).chance(more)[kept], expected[kept], atol=0.12)
    np.testing.assert_allclose(said.after(1e9).quantile(0.5), 1e9, rtol=1e-6)
