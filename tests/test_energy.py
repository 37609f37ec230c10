"""Energy by the hour: prices and carbon by the local clock, measured power curves; on paper and against slow twins."""

from __future__ import annotations

import datetime
import zoneinfo
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.errors import TableError
from procure.packages.costs import Costs, cost_notes, costs_side_by_side, total_costs
from procure.packages.energy import HOURS, Curve, busy_by_hour, demand_by_hour, watts_by_hour, week_hours
from procure.packages.quotes import check_quotes
from procure.schemas import JOB
from procure.settings import validated
from procure.tables import check

NODE = {"name": ["a"], "category": "c", "cpus": 64, "mem_gb": 512, "gpus": 0, "price_usd": 10000}
QUOTES = check_quotes(pd.DataFrame(NODE | {"power_w": 400, "idle_power_w": 100}))
MONDAY = 4 * 86_400  # 5 January 1970


def job_table(rows: list[tuple[int, int, int]], clock: str | None = None) -> pd.DataFrame:
    """Return jobs of (submission, run time, CPUs)."""
    submit, run, cpus = zip(*rows, strict=True)
    ids = [str(i) for i in range(len(rows))]
    jobs = check(pd.DataFrame({"job_id": ids, "submit_time": submit, "run_time": run, "cpus_per_node": cpus}), JOB)
    if clock:
        jobs.attrs["clock"] = clock
    return jobs


def days(begin: int = MONDAY) -> pd.DataFrame:
    """Return a week in which 320 CPUs are busy from 8 to 20 each day; its first and last job take no time."""
    at_eight = [(begin + day * 86_400 + 8 * 3600, 12 * 3600, 320) for day in range(7)]
    jobs = job_table([(begin, 0, 1), *at_eight, (begin + 7 * 86_400, 0, 1)])
    jobs.loc[jobs["cpus_per_node"] == 320, ["n_nodes", "cpus_per_node"]] = [5, 64]
    return jobs


def files(folder: Path, **texts: str) -> dict[str, str]:
    """Write files and return their paths by key."""
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return {name: str(folder / f"{name}.csv") for name in texts}


PRICES = "hour,usd_per_kwh\n" + "".join(f"{h},{0.30 if 8 <= h < 20 else 0.10}\n" for h in range(24))
CARBON = "hour,carbon_g_per_kwh\n" + "".join(f"{h},{300 if 8 <= h < 20 else 500}\n" for h in range(24))
CURVE = "name,load_pct,power_w\na,0,100\na,50,340\na,100,400\n"


def of(counts: list[int], costs: Costs, jobs: pd.DataFrame, existing: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the costs of packages of so many nodes."""
    table = pd.DataFrame({"package_id": [f"p{n}" for n in counts], "price_usd": 1.0, "a": counts})
    return total_costs(table, QUOTES, costs, {"week": jobs}, existing=existing)


def test_the_case_on_paper(tmp_path: Path) -> None:
    """Ten nodes, half busy by day: every figure by hand, to the cent and the kilogram."""
    given_ = files(tmp_path, energy_prices=PRICES, carbon=CARBON, power_curves=CURVE)
    more = {"interest_percent": 3, "price_change_percent": {"energy": 4}}
    found = of([10], Costs.model_validate(given_ | more), days()).iloc[0]
    # By day 10 × 340 W, by night 10 × 100 W, 4,380 hours each.
    assert found["energy_kwh_per_year"] == pytest.approx(14_892 + 4_380)
    factor = sum(1.04 ** (t - 1) / 1.03**t for t in range(1, 6))
    assert round(found["energy_usd"], 2) == round((4_467.60 + 438.00) * factor, 2) == 24_280.50
    assert found["carbon_t_per_year"] == pytest.approx(14_892 * 0.3e-3 + 4_380 * 0.5e-3) == pytest.approx(6.6576)
    linear = of([10], Costs.model_validate({"energy_prices": given_["energy_prices"]}), days()).iloc[0]
    assert linear["energy_kwh_per_year"] == pytest.approx(10 * 175 * 8.76)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["Europe/Berlin", "Asia/Kolkata", "America/New_York", "UTC"]))
def test_hours_of_the_week_against_the_standard_library(second: int, tz: str) -> None:
    """Monday after midnight is 0."""
    local = datetime.datetime.fromtimestamp(second, zoneinfo.ZoneInfo(tz))
    assert week_hours(np.array([second]), tz).tolist() == [local.weekday() * 24 + local.hour]


ROWS = st.lists(
    st.tuples(st.integers(0, 60 * 3600), st.integers(0, 30 * 3600), st.integers(1, 40)), min_size=1, max_size=8
)


def slow_busy(n_cpus: int, rows: list[tuple[int, int, int]]) -> tuple[list[Fraction], Fraction]:
    """Return the busy share of each hour of the log, hour by hour in exact fractions, and the share over all."""
    begin = min(submit for submit, _, _ in rows) // 3600 * 3600
    span = max(s for s, _, _ in rows) - min(s for s, _, _ in rows) or max(1, *(run for _, run, _ in rows), 1)
    n_hours = -(-span // 3600)
    asked = [Fraction(0)] * n_hours
    for submit, run, cpus in rows:
        at, end = submit - begin, submit - begin + run
        while at < end:
            until = min(end, (at // 3600 + 1) * 3600)
            asked[at // 3600 % n_hours] += (until - at) * cpus
            at = until
    asked = [one * Fraction(n_hours * 3600, span) for one in asked]
    left, busy = Fraction(0), [Fraction(0)] * n_hours
    for _ in range(2):
        for hour, more in enumerate(asked):
            done = min(n_cpus * Fraction(3600), left + more)
            left, busy[hour] = left + more - done, done / (n_cpus * 3600)
    return busy, min(Fraction(1), sum(asked) / (n_hours * n_cpus * 3600))


@settings(max_examples=80, deadline=None)
@given(ROWS, st.integers(1, 90))
def test_how_busy_hours_are_against_a_slow_twin(rows: list[tuple[int, int, int]], n_cpus: int) -> None:
    """Hour by hour in fractions; the mean is that of the costs without hours, and no work is lost in a cycle."""
    busy, mean = slow_busy(n_cpus, rows)
    assert mean == 1 or sum(busy) / len(busy) == mean
    jobs = job_table([(MONDAY + s, run, cpus) for s, run, cpus in rows])
    labels, asked = demand_by_hour(jobs, jobs[["run_time"]].to_numpy().T, np.zeros(len(jobs), dtype="int64"))
    found = busy_by_hour(np.array([n_cpus]), labels, asked.T)[0]
    assert found.mean() == pytest.approx(float(mean)) and found.min() > -1e-9 and found.max() < 1 + 1e-9
    if mean < 1 and len(busy) % HOURS == 0:
        assert found == pytest.approx([float(one) for one in busy])
    # Hours that the log has keep their order, whatever their mean is scaled by.
    first = min(s for s, _, _ in rows) // 3600
    if mean < 1 and len(busy) <= HOURS:
        there = found[[(first + hour) % HOURS for hour in range(len(busy))]]
        order = np.argsort([float(one) for one in busy], kind="stable")
        assert (np.diff(there[order]) > -1e-9).all()


@settings(max_examples=8, deadline=None)
@given(ROWS, st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 400))
def test_one_price_and_two_points_are_the_costs_without_hours(tmp_path_factory, rows, counts, idle) -> None:
    """A flat price file and a curve of two points, in any words, cost what idle and busy watts do."""
    folder = tmp_path_factory.mktemp("flat")
    flat = "hour,usd_per_kwh\n" + "".join(f"{h},0.2\n" for h in range(24))
    curve = f"name,load_pct,power_w\na,100,400\na,25,{idle + (400 - idle) / 4}\na,0,{idle}\n"
    given_ = files(folder, energy_prices=flat, power_curves=curve)
    jobs = job_table(rows)
    quotes = QUOTES.assign(idle_power_w=float(idle))
    table = pd.DataFrame({"package_id": "p", "price_usd": 1.0, "a": counts})
    existing = pd.DataFrame({"node_id": ["x", "y"], "kind": ["a", "old"], "cpus": 8, "mem_mb": 1, "gpus": 0})
    existing["power_w"], existing["idle_power_w"] = [np.nan, 300.0], [np.nan, 60.0]
    more = {"pue": 1.3, "nodes_per_switch": 3, "switch_power_w": 50, "years": 3}
    now = total_costs(table, quotes, Costs.model_validate(more | {"usd_per_kwh": 0.2}), {"d": jobs}, None, existing)
    by_hour = total_costs(table, quotes, Costs.model_validate(more | given_), {"d": jobs}, None, existing)
    for column in ("energy_kwh_per_year", "energy_usd", "tco_usd"):
        assert by_hour[column].tolist() == pytest.approx(now[column].tolist())


RUNS = st.lists(
    st.tuples(st.integers(0, 9_000), st.integers(0, 9_000), st.integers(1, 3), st.integers(0, 6)), max_size=9
)


@settings(max_examples=40, deadline=None)
@given(RUNS, st.integers(0, 5_000), st.integers(1, 9_000), st.lists(st.integers(0, 50), min_size=3, max_size=3))
def test_a_schedule_against_each_second(runs, begin: int, length: int, bends: list[int]) -> None:
    """Watts of three nodes of 8 CPUs, second by second; a load above the node's CPUs is a full node."""
    curves = [Curve(np.array([0, 0.5, 1]), np.array([100.0, 200 + bend, 300])) for bend in bends]
    nodes = pd.DataFrame({"node_id": ["x", "y", "z"], "cpus": 8})
    rows = [(MONDAY + s, run, cpus) for s, run, cpus, _ in runs]
    names = [",".join(name for bit, name in enumerate("xyz") if where >> bit & 1) for *_, where in runs]
    jobs = (job_table(rows) if rows else days()[:0]).assign(node_ids=pd.Series(names, dtype=object))
    jobs = jobs.assign(start_time=jobs["submit_time"].astype("Int64"), end_time=jobs["submit_time"] + jobs["run_time"])
    load = np.zeros((3, 20_000))
    for (s, run, cpus, _), one in zip(runs, names, strict=True):
        for name in one.split(",") if one else ():
            load["xyz".index(name), s : s + run] += cpus / 8
    power = sum(curve.at(np.minimum(each, 1)) for curve, each in zip(curves, load, strict=True))
    window = (MONDAY + begin, MONDAY + begin + length)
    found = watts_by_hour(jobs, nodes, curves, window)
    for hour in range(24):
        first, last = max(begin, hour * 3600), min(begin + length, (hour + 1) * 3600)
        if first < last:
            assert found[hour] == pytest.approx(power[first:last].mean())


def test_watts_that_nobody_states_are_missing_and_not_nothing(tmp_path: Path) -> None:
    """Energy that has no price may be unknown; carbon asks for watts, and a curve gives them."""
    given_ = files(tmp_path, power_curves=CURVE.replace("a,", "b,"), carbon="country,carbon_g_per_kwh\nDE,380\nFR,56\n")
    both = {key: [*value, *value] if isinstance(value, list) else value for key, value in NODE.items()}
    quotes = check_quotes(pd.DataFrame(both | {"name": ["a", "b"]}))
    table = pd.DataFrame({"package_id": ["p", "q"], "price_usd": 1.0, "a": [1, 0], "b": [0, 2]})
    curves = Costs.model_validate({"power_curves": given_["power_curves"]})
    found = total_costs(table, quotes, curves, {"week": days()})
    assert found["energy_kwh_per_year"].isna().tolist() == [True, False]
    assert (found["energy_usd"] == 0).all()
    both = curves.model_copy(update={"energy_prices": Path("p.csv"), "usd_per_kwh": 0.2})
    assert "costs: usd_per_kwh is not used, since energy_prices is given" in cost_notes(quotes, both)
    carbon = Costs.model_validate(given_ | {"country": "FR"})
    with pytest.raises(TableError, match=r"costs\.carbon: needs the power_w of every quote that is bought; a has none"):
        total_costs(table, quotes, carbon, {"week": days()})
    only = total_costs(table.iloc[1:], quotes, carbon, {"week": days()})
    assert only["carbon_t_per_year"].iloc[0] == pytest.approx(only["energy_kwh_per_year"].iloc[0] * 56e-6)
    assert "carbon_t_per_year" not in set(costs_side_by_side(found)["cost"])


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"country": "DE"}, "country chooses a row of the file that carbon names; carbon is not given"),
        ({"tz": "Europe/Berln"}, "tz: unknown time zone 'Europe/Berln'; did you mean Europe/Berlin"),
    ],
)
def test_bad_keys_are_named(given_: dict, says: str) -> None:
    """As every other key of a study is."""
    with pytest.raises(TableError) as error:
        validated(Costs, given_, "costs")
    assert says in str(error.value)
