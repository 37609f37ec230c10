"""The Pareto front equals brute force, and its knee is where the docs say."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from procure.errors import TableError
from procure.objectives.aggregate import front, knee
from procure.recommender.rank import eligible
from procure.recommender.values import Criteria

VALUES = st.one_of(st.integers(-3, 3).map(float), st.sampled_from([np.inf, -np.inf, np.nan, 1e-300, -0.0]))


def brute_force(points: np.ndarray) -> list[bool]:
    """Compare every point with every other, by the definition."""
    known = ~np.isnan(points).any(axis=1)

    def dominated(x: np.ndarray) -> bool:
        return any((q <= x).all() and (q < x).any() for q in points[known])

    return [bool(ok) and not dominated(x) for ok, x in zip(known, points, strict=True)]


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4, 5])
def test_the_front_equals_brute_force(dimensions):
    """Whatever the points: ties, duplicates, infinities, missing values, few or many."""

    @settings(max_examples=60, deadline=None)
    @given(hnp.arrays("float64", st.tuples(st.integers(0, 25), st.just(dimensions)), elements=VALUES))
    def compare(points: np.ndarray) -> None:
        assert front(points).tolist() == brute_force(points)

    compare()


@pytest.mark.parametrize(("dimensions", "n"), [(2, 700), (3, 700), (4, 1300), (5, 1300)])
def test_large_fronts_equal_brute_force(dimensions, n):
    """Most points are on the front, and there are more than one chunk of them."""
    rng = np.random.default_rng(dimensions)
    points = np.abs(rng.normal(size=(n, dimensions)))
    points = 1 - np.round(points / np.linalg.norm(points, axis=1)[:, None], 2)
    beaten = (points[None] <= points[:, None]).all(axis=2) & (points[None] < points[:, None]).any(axis=2)
    found = front(points)
    assert found.tolist() == (~beaten.any(axis=1)).tolist()
    assert found.sum() > n // 10


@pytest.mark.parametrize("points", [np.zeros(3), np.zeros((2, 2, 2))])
def test_points_of_another_shape_are_refused(points):
    with pytest.raises(TableError, match=r"shape \(points, dimensions\)"):
        front(points)


def test_the_knee_lies_farthest_below_the_chord():
    """By hand: scaled points (0, 1) (0.1, 0.5) (0.35, 0.35) (1, 0); 0.6 is the least sum."""
    points = np.array([[0.0, 100.0], [0.4, 50.0], [1.4, 35.0], [4.0, 0.0]])
    assert knee(points) == 1
    assert knee(points * [1, 7] + [3, -900]) == 1


def test_where_no_package_runs_every_job_the_front_is_of_those_that_leave_the_fewest_out():
    """The mean wait of another package is over other jobs: it would beat them by leaving out the long ones."""
    for left_out, may in (([7, 8, 7], [True, False, True]), ([0, 8, 7], [True, False, False])):
        whole = SimpleNamespace(left_out=np.array(left_out), runs_all=np.array(left_out) == 0)
        values = SimpleNamespace(whole=whole, violation=lambda constraints: np.zeros(3))
        assert eligible(values, Criteria()).tolist() == may
