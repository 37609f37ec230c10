"""Objectives by name, and how several workloads' waits become one figure."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from procure.errors import TableError
from procure.objectives import OBJECTIVES, objective
from procure.objectives.aggregate import HOW, aggregate, best_first, front, knee, pooled_mean, regrets
from procure.recommender.rank import eligible
from procure.recommender.values import Criteria
from procure.schemas import COST_UNITS, PACKAGE, RESULT

NAN = np.nan
WAITS = np.array([[10.0, 40.0, 0.0], [100.0, 40.0, 200.0], [60.0, 40.0, 10.0], [0.0, 40.0, 10.0]])


def test_every_objective_stands_on_a_column_that_exists():
    """Of the results, the costs or the packages, with the unit that the table states."""
    units = {c.name: c.unit for schema in (RESULT, PACKAGE) for c in schema.columns} | COST_UNITS
    for one in OBJECTIVES.values():
        assert one.column in units
        if one.how != "regret-max":
            assert units[one.column].split(" over")[0] == one.unit, one.name


def test_an_objective_that_is_not_in_the_results_lists_those_that_are():
    with pytest.raises(TableError) as raised:
        objective("p95-wait", ["mean_wait_time", "price_usd"])
    assert str(raised.value) == (
        "objective 'p95-wait' needs column p95_wait_time, which these results do not hold; "
        "available here: mean-wait, price, worst-day, regret-max, cvar"
    )


def test_aggregates_by_hand():
    assert aggregate(WAITS).tolist() == [42.5, 40, 55]
    assert aggregate(WAITS, "worst").tolist() == [100, 40, 200]
    assert aggregate(WAITS, "cvar", share=0.5).tolist() == [80, 40, 105]
    assert aggregate(WAITS, "cvar", share=0.375).tolist() == pytest.approx([(100 + 30) / 1.5, 40, 205 / 1.5])
    # Bests 0, 40, 10, 0, each taken as at least 60 s below the line.
    assert aggregate(WAITS, "regret-max").tolist() == pytest.approx([1.0, 40 / 60, 160 / 60])
    assert aggregate(WAITS, "regret-max", best=np.array([10, 100, 60, 0])).tolist() == pytest.approx([0, 40 / 60, 1])
    assert regrets(np.array([[120.0, 180.0]])).tolist() == [[0, 0.5]]


def test_weights_count_workloads_and_weight_zero_lifts_one():
    waits = np.array([[10.0, NAN], [40.0, 4.0]])
    for how in HOW:
        assert np.isnan(aggregate(waits, how)).tolist() == [False, True]
        assert aggregate(waits, how, np.array([0, 1.0])).tolist() == aggregate(waits[1:], how).tolist()
    assert aggregate(waits, "mean", np.array([1, 3])).tolist()[0] == 32.5
    assert aggregate(waits, "mean", np.array([[1, 0], [3, 3]])).tolist() == [32.5, 4]
    assert aggregate(waits, "cvar", np.array([1, 3]), 0.875).tolist()[0] == pytest.approx((3 * 40 + 0.5 * 10) / 3.5)
    assert all(np.isnan(aggregate(waits, how, np.zeros(2))).all() for how in HOW)


FIGURES = st.one_of(st.integers(0, 3).map(float), st.just(NAN))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(FIGURES, *[st.integers(0, 2)] * 2, st.sampled_from([0, 0, 0.5, 1]), FIGURES), max_size=12))
def test_the_one_order_equals_a_sort_by_its_written_rule(packages):
    """Bounds met, jobs left out, violation, value, price, tie, row; a NaN last; and jobs left out first if hopeful."""
    value, price, left_out, violation, tie = (np.array([p[i] for p in packages], dtype=float) for i in range(5))

    def known(x: float) -> tuple[bool, float]:
        return (True, 0.0) if np.isnan(x) else (False, x)

    def rule(row: int, hopeful: bool) -> tuple:
        bounds = (violation[row] > 0, left_out[row], violation[row])
        rest = (known(value[row]), price[row], known(tie[row]), row)
        return (*(bounds[1:] if hopeful else bounds), *rest)

    for hopeful in (False, True):
        slow = sorted(range(len(packages)), key=lambda row: rule(row, hopeful))
        assert best_first(value, price, left_out, violation, tie, hopeful).tolist() == slow
    plain = sorted(range(len(packages)), key=lambda row: (known(value[row]), price[row], row))
    assert best_first(value, price).tolist() == plain


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_pooled_mean_is_the_mean_over_single_jobs(n_workloads, seed):
    """Every job that ran counts once, times its workload's weight; unknown where a workload of which jobs ran is."""
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((n_workloads, 6)) < 0.15, NAN, rng.integers(0, 1000, (n_workloads, 6)) / 8)
    ran, weight = rng.integers(0, 4, (n_workloads, 6)), rng.integers(1, 4, n_workloads)
    found = pooled_mean(values, ran, weight)
    for package in range(6):
        jobs = [
            value
            for value, n, times in zip(values[:, package], ran[:, package], weight, strict=True)
            for _ in range(n * times)
        ]
        slow = sum(jobs) / len(jobs) if jobs else NAN
        assert found[package] == pytest.approx(slow, nan_ok=True)
        if n_workloads == 1 and jobs:
            assert found[package] == values[0, package] or np.isnan(values[0, package])


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
