"""Constraints: how they are read, which are refused, and what is said where nothing satisfies them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.errors import TableError
from procure.objectives.aggregate import kept_by
from procure.objectives.constraints import UNITS, explain, parse, parse_all, quantities

KNOWN = quantities(["Small node", "Gpu-2"])


@pytest.mark.parametrize(
    ("text", "column", "op", "value"),
    [
        ("p95_wait<=4h", "p95_wait_time", "<=", 14_400),
        ("p95_wait_time < 90 m", "p95_wait_time", "<", 5400),
        ("mean-wait<=1.5d", "mean_wait_time", "<=", 129_600),
        ("max_wait >= 600", "max_wait_time", ">=", 600),
        ("price_usd<=$900,000", "price_usd", "<=", 900_000),
        ("price_usd <= US$ 900_000.50", "price_usd", "<=", 900_000.5),
        ("tco_usd<1.2M", "tco_usd", "<", 1_200_000),
        ("usd_per_job<=$0.25", "usd_per_job", "<=", 0.25),
        ("energy_kwh_per_year<=200MWh", "energy_kwh_per_year", "<=", 200_000),
        ("energy<=1e5", "energy_kwh_per_year", "<=", 100_000),
        ("utilization_cpu>50%", "utilization_cpu", ">", 0.5),
        ("regret_max<=10%", "mean_wait_time", "<=", 0.1),
        ("total_gpus>=40", "total_gpus", ">=", 40),
        ("total_mem_gb>=2TB", "total_mem_gb", ">=", 2000),
        ("power_w<=30kW", "power_w", "<=", 30_000),
        ("rack_units<=42U", "rack_units", "<=", 42),
        ("jobs_left_out==0", "jobs_left_out", "==", 0),
        ("Small node>=3", "Small node", ">=", 3),
        ("Gpu-2==0", "Gpu-2", "==", 0),
    ],
)
def test_expressions_are_read(text, column, op, value):
    """Into a column, a comparison, and a value in the column's unit."""
    found = parse(text, KNOWN)
    assert (found.of.column, found.op, found.value) == (column, op, value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "cannot be read; write NAME OP VALUE"),
        ("p95_wait", "cannot be read"),
        ("p95_wait=4h", "cannot be read"),
        ("p95_wait<=", "'' is not a number"),
        ("p95_wait<=four", "'four' is not a number"),
        ("1h<=p95_wait<=4h", "cannot be read"),
        ("p95_wait<=4,5h", "'4,5h' is not a number"),
        ("p95_wait<=-4h", "'-4h' is not a number"),
        ("p95_wait<=4kWh", "'kWh' is not a unit of p95_wait_time; allowed: s, m, min, h, d"),
        ("p95_wait<=$4", r"'\$' is not a unit of p95_wait_time"),
        ("total_gpus>=4h", "'h' is not a unit of total_gpus; allowed: a plain number"),
        ("p59_wait<=4h", "'p59_wait' is unknown; did you mean p95_wait"),
        ("__import__('os').system('true')<=1", "is unknown"),
        ("price_usd<=(1).__class__", "is not a number"),
    ],
)
def test_what_cannot_be_read_is_refused(text, complaint):
    with pytest.raises(TableError, match=complaint):
        parse(text, KNOWN)


@settings(max_examples=80, deadline=None)
@given(st.text(alphabet="p95_wait<=>4h%$., kWM-", max_size=20))
def test_any_text_is_read_or_refused(text):
    try:
        found = parse(text, KNOWN)
    except TableError as error:
        assert repr(text) in str(error) or "unknown" in str(error)
    else:
        assert found.value >= 0 and found.text == text


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([(u, k) for u in UNITS for k in UNITS[u]]))
def test_units_multiply_exactly(number, unit):
    dimension, suffix = unit
    names = {
        "s": "mean_wait", "US$": "price_usd", "kWh": "energy_kwh_per_year", "share": "busy_share",
        "GB": "total_mem_gb", "U": "rack_units", "W": "power_w", "t": "carbon_t_per_year",
    }  # fmt: skip
    found = parse(f"{names[dimension]} >= {number:,}{suffix}", KNOWN)
    assert found.value == pytest.approx(number * float(UNITS[dimension][suffix]), rel=1e-15)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["mean_wait<=1h", "mean_wait_time>=2h"], "'mean_wait<=1h' and 'mean_wait_time>=2h' contradict each other"),
        (["price_usd<5", "price_usd>=5"], "'price_usd<5' and 'price_usd>=5' contradict"),
        (["price_usd==5", "total_gpus>1", "price_usd==6"], "'price_usd==5' and 'price_usd==6' contradict"),
        (["price_usd==5", "price_usd>5"], "contradict"),
        (["price_usd<0"], "'price_usd<0' asks for less than 0"),
    ],
)
def test_contradictions_are_named_before_anything_is_computed(texts, said):
    """Two bounds on one figure that leave nothing, or one below 0."""
    with pytest.raises(TableError, match="cannot be satisfied by any package") as raised:
        parse_all(texts, KNOWN)
    assert said in str(raised.value)


@settings(deadline=None)
@given(
    st.sampled_from(["mean_wait", "price_usd", "utilization_cpu", "total_mem_gb", "mean_bounded_slowdown"]),
    st.sampled_from(["<=", "<", ">=", ">"]),
    st.floats(0.01, 1e7),
)
def test_a_bound_at_the_best_that_is_named_holds(name, op, best):
    """What is said to be the least or largest is rounded so that a bound there can be satisfied."""
    one = parse(f"{name}{op}1", KNOWN)
    said = explain([one], [np.array([best])], [1])[0].rpartition(" is ")[2]
    number = re.search(r"\(([0-9.,]+) s\)", said) or re.search(r"([0-9.,]+(?: %)?)", said)
    assert number is not None
    assert parse(f"{name}{op}{number[1]}", KNOWN).holds(np.array([best])).all(), said


def test_a_value_kept_in_9_of_10_is_the_ninth_least():
    """By hand; a workload of which no job ran does not count, and may be unknown."""
    values = np.array([[float(i)] for i in (3, 1, 2, 9, 5, 4, 6, 8, 7, 10)] + [[np.nan]])
    counts = np.array([[True]] * 10 + [[False]])
    assert [kept_by(values, counts, share)[0] for share in (0.05, 0.1, 0.9, 0.91, 1.0)] == [1, 1, 9, 10, 10]
    assert np.isnan(kept_by(values, np.ones_like(counts), 0.9)).all() and np.isnan(kept_by(values, ~counts, 0.9)).all()


def test_what_is_promised_may_hold_in_a_share_of_the_workloads():
    one = parse("gpu_p95_wait <= 4h in 9 of 10 workloads", KNOWN)
    assert (one.of.column, one.of.name, one.value, one.of.share) == (
        "gpu_p95_wait_time", "gpu_p95_wait_time in 9 of 10", 14_400, 0.9,
    )  # fmt: skip
    for wrong in (
        "mean_wait<=1h in 11 of 10",
        "mean_wait<=1h in 0 of 3",
        "mean_wait>=1h in 1 of 2",
        "power_w<=1 in 1 of 2",
    ):
        with pytest.raises(TableError, match="'in N of M' follows an upper bound"):
            parse(wrong, KNOWN)
