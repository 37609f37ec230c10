"""Objectives by name, and how several workloads' waits become one figure."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.objectives import OBJECTIVES, available, objective
from procure.objectives.aggregate import HOW, aggregate, best_first, pooled_mean, regrets
from procure.schemas import COST_UNITS, PACKAGE, RESULT
from procure.text import with_unit

NAN = np.nan
WAITS = np.array([[10.0, 40.0, 0.0], [100.0, 40.0, 200.0], [60.0, 40.0, 10.0], [0.0, 40.0, 10.0]])


def test_every_objective_stands_on_a_column_that_exists():
    """Of the results, the costs or the packages, with the unit that the table states."""
    units = {c.name: c.unit for schema in (RESULT, PACKAGE) for c in schema.columns} | COST_UNITS
    for one in OBJECTIVES.values():
        assert one.column in units
        if one.how != "regret-max":
            assert units[one.column].split(" over")[0] == one.unit, one.name


def test_the_help_names_every_objective():
    """And none that does not exist."""
    shown = CliRunner().invoke(app, ["recommend", "--help"], env={"COLUMNS": "400"}).stdout
    text = " ".join(re.findall(r"[\w./'-]+", shown[shown.index("Objective to minimise") :].split("--constraint")[0]))
    for name in OBJECTIVES:
        assert f" {name}" in text, name


def test_an_unknown_objective_lists_the_known_ones_nearest_first():
    """The mistyped one leads."""
    with pytest.raises(TableError, match=r"'p59-wait' is unknown; available here: p95-wait, .*energy"):
        objective("p59-wait")
    with pytest.raises(TableError, match=r"removed.*mean-wait"):
        objective("rank-by-class")


def test_an_objective_that_is_not_in_the_results_lists_those_that_are():
    """With the column that it would need."""
    with pytest.raises(TableError) as raised:
        objective("p95-wait", ["mean_wait_time", "price_usd"])
    assert str(raised.value) == (
        "objective 'p95-wait' needs column p95_wait_time, which these results do not hold; "
        "available here: mean-wait, price, worst-day, regret-max, cvar"
    )
    assert available(["price_usd"]) == ["price"]


def test_aggregates_by_hand():
    """Four workloads; half of them is two."""
    assert aggregate(WAITS).tolist() == [42.5, 40, 55]
    assert aggregate(WAITS, "worst").tolist() == [100, 40, 200]
    assert aggregate(WAITS, "cvar", share=0.5).tolist() == [80, 40, 105]
    assert aggregate(WAITS, "cvar", share=0.375).tolist() == pytest.approx([(100 + 30) / 1.5, 40, 205 / 1.5])
    # Bests 0, 40, 10, 0, each taken as at least 60 s below the line.
    assert aggregate(WAITS, "regret-max").tolist() == pytest.approx([1.0, 40 / 60, 160 / 60])
    assert aggregate(WAITS, "regret-max", best=np.array([10, 100, 60, 0])).tolist() == pytest.approx([0, 40 / 60, 1])
    assert regrets(np.array([[120.0, 180.0]])).tolist() == [[0, 0.5]]


def test_weights_count_workloads_and_weight_zero_lifts_one():
    """Also where it is unknown there, and package by package."""
    waits = np.array([[10.0, NAN], [40.0, 4.0]])
    for how in HOW:
        assert np.isnan(aggregate(waits, how)).tolist() == [False, True]
        assert aggregate(waits, how, np.array([0, 1.0])).tolist() == aggregate(waits[1:], how).tolist()
    assert aggregate(waits, "mean", np.array([1, 3])).tolist()[0] == 32.5
    assert aggregate(waits, "mean", np.array([[1, 0], [3, 3]])).tolist() == [32.5, 4]
    assert aggregate(waits, "cvar", np.array([1, 3]), 0.875).tolist()[0] == pytest.approx((3 * 40 + 0.5 * 10) / 3.5)
    assert all(np.isnan(aggregate(waits, how, np.zeros(2))).all() for how in HOW)


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays("float64", st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.integers(0, 99)),
    st.floats(0.01, 1),
)
def test_cvar_lies_between_the_mean_and_the_worst(waits, share):
    """It is the mean at share 1, the worst at a small share, and falls as the share grows."""
    found = aggregate(waits, "cvar", share=share)
    assert (found >= aggregate(waits) - 1e-9).all() and (found <= aggregate(waits, "worst") + 1e-9).all()
    assert (aggregate(waits, "cvar", share=1) == pytest.approx(aggregate(waits))) and (
        aggregate(waits, "cvar", share=1 / 6) == pytest.approx(aggregate(waits, "worst"))
    )
    assert (aggregate(waits, "cvar", share=min(1, 2 * share)) <= found + 1e-9).all()


def test_unknown_ways_and_shares_are_refused():
    """With what is legal."""
    with pytest.raises(TableError, match="did you mean mean"):
        aggregate(WAITS, "meen")
    for share in (0.0, 1.1):
        with pytest.raises(TableError, match="above 0 and at most 1"):
            aggregate(WAITS, "cvar", share=share)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (14_400.4, "s", "4 h"),
        (0.1234567, "", "0.1235"),
        (900_000.0, "US$", "US$ 900,000"),
        (0.5, "US$/job", "US$ 0.50/job"),
        (0.25, "share", "25.0%"),
        (float("nan"), "s", "unknown"),
    ],
)
def test_values_are_written_with_their_unit(value, unit, text):
    """Thousands separated."""
    assert with_unit(value, unit) == text


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
