"""Periods drawn about what the past and the futures say, and the chances counted on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.recommender.chances import (
    DRAWS,
    FEWEST_LEADERS,
    NEAR,
    OWN,
    PAST_SHARE,
    STATED,
    Drift,
    draw_periods,
    learn_drift,
)


def waits_of(seed: int, n_futures: int = 8, n: int = 40, scale: float = 2000.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    level, each = rng.normal(0, 1, (n_futures, 1)), rng.normal(0, 0.4, n)
    return scale * np.exp(level + each + rng.normal(0, 0.3, (n_futures, n)))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 999), st.floats(1, 50_000), st.integers(1, 12), st.booleans())
def test_near_is_never_less_than_best_and_a_range_holds_its_mean(seed, scale, n_futures, with_past):
    """Whatever the futures: some package is the best of each period, and chances are shares."""
    futures = waits_of(seed, n_futures, 15, scale)
    rows, past = np.arange(15), waits_of(seed + 1, 1, 15, scale)[0] if with_past else None
    look = draw_periods(futures, past, rows)
    best, near = look.best_and_near(rows)
    assert (best <= near).all() and (near <= 1).all() and (best >= 0).all()
    assert best.sum() >= 1 - 1e-9
    low, high = look.ranges(rows, futures.mean(axis=0))
    assert (low <= futures.mean(axis=0)).all() and (futures.mean(axis=0) <= high).all()


def test_chances_are_counted_draw_by_draw():
    """By loops over the drawn periods; waits up to a minute are level."""
    look = draw_periods(waits_of(3, scale=90.0), waits_of(4, 1, scale=90.0)[0], np.arange(40))
    best, near = look.best_and_near(np.arange(40))
    for i in (0, 7, 39):
        wins = close = 0
        for period in look.figures:
            level = [max(one, 60.0) for one in period]
            wins += level[i] <= min(level) * (1 + 1e-9)
            close += level[i] <= min(level) * (1 + NEAR)
        assert (best[i], near[i]) == (wins / DRAWS, close / DRAWS)


def test_packages_that_never_wait_a_minute_are_all_the_best():
    futures = np.full((6, 12), 2.0)
    futures[:, 8:] = 9000.0
    best, near = draw_periods(futures, futures[0], np.arange(12)).best_and_near(np.arange(12))
    assert best[:8].tolist() == near[:8].tolist() == [1.0] * 8 and not near[8:].any()


def test_periods_lie_about_the_past_and_the_futures_as_far_as_drift_says():
    """The mean of the logarithms is the expected one; its variance adds up of level, difference and own."""
    futures, past = waits_of(5, 20, 60), waits_of(6, 1, 60)[0]
    drift = Drift(0.5, 1.2)
    figures = np.log(draw_periods(futures, past, np.arange(60), drift).figures)
    middle = np.median(np.log(futures), axis=0)
    expected = PAST_SHARE * np.log(past) + (1 - PAST_SHARE) * middle
    assert figures.mean(axis=0) == pytest.approx(expected, abs=0.12)
    off = np.log(futures) - middle
    leaders = np.argsort(expected)[:FEWEST_LEADERS]
    level = off[:, leaders].mean(axis=1)
    apart = off - level[:, None]
    variance = 0.25 * (level**2).mean() + 1.44 * (apart**2).mean(axis=0) + OWN**2
    assert figures.var(axis=0) == pytest.approx(variance, rel=0.2)


def test_a_package_that_is_not_known_is_never_the_best():
    futures = waits_of(1)
    futures[3, 5] = np.nan
    look = draw_periods(futures, None, np.arange(40))
    best, near = look.best_and_near(np.array([5, 6]))
    assert best[0] == near[0] == 0 and np.isnan(look.ranges(np.array([5]), np.array([1.0]))[0][0])
    nothing = draw_periods(np.full((3, 4), np.nan), None, np.arange(4))
    assert nothing.best_and_near(np.arange(4))[1].tolist() == [0.0] * 4


def test_how_far_packages_come_apart_is_learnt_from_the_parts_of_the_past():
    """A log whose order stays needs less than the stated share, one whose order changes wholly more."""
    futures = waits_of(9, 12, 50)
    rng = np.random.default_rng(2)
    same = np.tile(futures.mean(axis=0), (4, 1)) * np.array([[1.0], [5.0], [0.5], [2.0]])
    mixed = np.exp(np.log(same) + rng.normal(0, 1.5, same.shape))
    still, moving = learn_drift(same, futures), learn_drift(mixed, futures)
    assert still.apart < STATED.apart < moving.apart and still.level == moving.level == STATED.level
    assert learn_drift(same[:, :5], futures[:, :5]) == STATED
