"""Run times on another processor."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from procure.errors import TableError
from procure.workload import scale_run_time
from procure.workload.speed import logged_processor_speed

SPEEDS = st.decimals(min_value="0.001", max_value="5000", places=3)


@given(st.lists(st.integers(0, 10**7), max_size=20), SPEEDS, SPEEDS)
def test_a_scaled_run_time_is_the_exact_ratio_rounded_up(run, logged, node):
    scaled = scale_run_time(np.array(run, dtype=np.int64), logged, str(node))
    assert scaled.tolist() == [math.ceil(value * Fraction(logged) / Fraction(node)) for value in run]


def test_speeds_are_read_as_the_decimals_they_are_written_as():
    assert math.ceil(1 * 2.1 / 0.3) == 8
    assert scale_run_time(np.array([1]), 2.1, 0.3).tolist() == [7]
    assert scale_run_time(np.array([1]), "2.1", Decimal("0.3")).tolist() == [7]
    assert scale_run_time(np.array([1]), np.float64(2.1), 0.3).tolist() == [7]


@pytest.mark.parametrize("unknown", [None, "", float("nan"), pd.NA])
def test_an_unknown_speed_is_ratio_one(unknown):
    run = np.array([3, 5])
    assert scale_run_time(run, unknown, 2).tolist() == [3, 5]
    assert scale_run_time(run, 2, unknown).tolist() == [3, 5]


def test_the_argument_is_not_modified_or_shared():
    run = np.array([3, 5])
    same = scale_run_time(run, None, None)
    same[0] = 9
    assert run.tolist() == [3, 5]


def test_products_beyond_64_bits_stay_exact_and_results_beyond_are_refused():
    run = np.array([2**52 + 1, 3])
    assert scale_run_time(run, "1.000000001", "1.000000003").tolist() == [
        math.ceil((2**52 + 1) * Fraction(1000000001, 1000000003)),
        3,
    ]
    with pytest.raises(TableError, match="too large"):
        scale_run_time(run, 10**6, 1)


@pytest.mark.parametrize("speed", [0, -1, "fast", float("inf"), "-0.5"])
def test_a_speed_must_be_a_number_above_zero(speed):
    with pytest.raises(TableError, match=r"node speed: .*(above 0|not a number)"):
        scale_run_time(np.array([1]), 1, speed)


def test_a_negative_run_time_is_refused():
    with pytest.raises(TableError, match="negative"):
        scale_run_time(np.array([-1]), 1, 2)


def test_a_processor_is_found_by_name_and_a_mistyped_one_gets_the_nearest():
    table = pd.DataFrame(
        {
            "processor": ["AMD EPYC 7542", "AMD EPYC 7542", "Intel Xeon Gold 6338", "none"],
            "spec_rate": [6.5, 6.5, 6.453, np.nan],
        }
    )
    assert logged_processor_speed("amd  epyc 7542", table) == (6.5, False)
    with pytest.raises(TableError, match="did you mean none"):
        logged_processor_speed("none", table)
    table.loc[0, "spec_rate"] = 7.0
    with pytest.raises(TableError, match="several values"):
        logged_processor_speed("AMD EPYC 7542", table)
