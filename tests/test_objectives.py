"""Objectives by name, and how several workloads' waits become one figure."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from procure.errors import TableError
from procure.objectives import OBJECTIVES
from procure.objectives.aggregate import HOW, aggregate, best_first, front, kept_by, knee, pooled_mean, regrets
from procure.objectives.constraints import UNITS, explain, parse, parse_all, quantities
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
    with pytest.raises(TableError, match="shape"):
        front(np.zeros(dimensions))


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


def test_it_is_explained_why_nothing_satisfies_them():
    """For each how many satisfy it alone and the best there is; and which two exclude each other."""
    price, wait = np.array([1.0, 2.0, 3.0]), np.array([30.0, 20.0, 10.0])
    bounds = [parse("price_usd<=1", KNOWN), parse("mean_wait<=20", KNOWN), parse("p95_wait<=5", KNOWN)]
    assert explain(bounds, [price, wait, wait], [3, 2, 3]) == [
        "price_usd<=1: satisfied by 1 of 3 packages on its own; the least is US$ 1",
        "mean_wait<=20: satisfied by 2 of 3 packages (2 simulated, the others predicted) on its own; the least is 10 s",
        "p95_wait<=5: satisfied by 0 of 3 packages on its own; the least is 10 s",
        "price_usd<=1 and mean_wait<=20 contradict each other among these packages: with the first, the least "
        "mean_wait_time is 30 s; with the second, the least price_usd is US$ 2",
    ]


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
