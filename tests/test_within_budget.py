"""A budget for the whole order: with tax, percentages, racks and network, against every count of nodes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import write_study
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.packages import PackageRules, expand_packages
from procure.packages.costs import Costs, total_costs, whole_order
from procure.packages.quotes import check_quotes
from procure.packages.rules import with_whole_orders
from procure.packages.space import make_space
from procure.recommender.recommender import recommend
from procure.reports.bill import order_usd
from procure.schemas import JOB
from procure.study import load_study
from procure.sweep import load_plan, run_sweep
from procure.tables import check

JOBS = check(pd.DataFrame({"job_id": ["1"], "submit_time": 0, "run_time": 60, "cpus_per_node": 1}), JOB)
BY_COUNT = {
    "nodes_per_switch": 3, "switch_usd": 310.5, "switch_rack_units": 1, "cables_per_node": 1.1, "cable_usd": 17,
    "rack_height_units": 8,
}  # fmt: skip


def quotes_of(prices: list[int], units: list[int]) -> pd.DataFrame:
    """Two types of one category, and one of another."""
    return check_quotes(
        pd.DataFrame(
            {
                "name": ["a", "b", "c"], "category": ["x", "x", "y"], "cpus": 8, "mem_gb": 64, "gpus": 0, "vendor": "V",
                "price_usd": np.array(prices) / 100, "rack_units": units,
            }
        )
    )  # fmt: skip


def costs_of(tax: int, percents: list[int], rack: int, by_count: bool) -> Costs:
    """Return costs with lines in percent and, where it is asked for, what turns on the number of nodes."""
    lines: list[dict[str, object]] = [{"name": f"p{i}", "percent": p} for i, p in enumerate(percents)]
    if rack and by_count:
        lines.append({"name": "rack", "usd": rack, "per": "rack"})
    lines.append({"name": "insurance", "percent": 5, "when": "year"})
    more = BY_COUNT if by_count else {}
    return Costs.model_validate({"tax_percent": tax, "lines": lines, "within_budget": True, **more})


def orders(counts: np.ndarray, quotes: pd.DataFrame, costs: Costs, rules: PackageRules) -> np.ndarray:
    """Return what whole orders come to, as `recommend` and the report reckon it."""
    table = pd.DataFrame(counts, columns=quotes["name"]).assign(package_id="p", price_usd=0.0)
    return whole_order(total_costs(table, quotes, costs, {"day": JOBS}, rules), costs)


CASES = {
    "prices": st.lists(st.integers(40_000, 300_000), min_size=3, max_size=3),
    "units": st.lists(st.integers(1, 4), min_size=3, max_size=3),
    "budget": st.integers(3_000, 9_000),
    "fixed": st.integers(0, 1_500),
    "tax": st.integers(0, 30),
    "percents": st.lists(st.integers(1, 12), max_size=2),
    "rack": st.integers(0, 700),
    "by_count": st.booleans(),
}


@given(**CASES)
@settings(max_examples=10, deadline=None)
def test_packages_are_those_of_all_counts_whose_whole_order_is_within_the_budget(
    prices, units, budget, fixed, tax, percents, rack, by_count
) -> None:
    """Every count is tried: those that fit and to which no chosen type can be added, and none above the budget."""
    quotes, costs = quotes_of(prices, units), costs_of(tax, percents, rack, by_count)
    rules = PackageRules(rules="published", budget_usd=budget, fixed_cost_usd=fixed, min_gpu_nodes=0)
    rules = with_whole_orders(rules, costs)
    most = [int(budget * 100 / price) + 1 for price in prices]
    every = np.array(list(itertools.product(*(range(n + 1) for n in most))))[1:]
    fits = {tuple(one) for one in every[orders(every, quotes, costs, rules) <= budget + 1e-6].tolist()}
    wanted = set()
    for chosen in ((0, 2), (1, 2)):
        for one in fits:
            if any(one) and all(one[j] == 0 or j in chosen for j in range(3)):
                grown = [tuple(n + (i == j) for i, n in enumerate(one)) for j in chosen]
                if not any(more in fits for more in grown):
                    wanted.add(one)
    if not wanted:
        with pytest.raises(TableError, match="budget"):
            expand_packages(quotes, rules)
        return
    found = expand_packages(quotes, rules)
    assert set(found[["a", "b", "c"]].itertuples(index=False, name=None)) == wanted
    spent = found[["a", "b", "c"]].to_numpy() @ quotes["price_usd"].to_numpy()
    assert found["price_usd"].tolist() == pytest.approx(spent.tolist())


@pytest.mark.slow
@given(**CASES, off=st.integers(1, 20), from_count=st.integers(1, 6), maximal=st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_order_is_above_the_budget_under_discounts_either(
    prices, units, budget, fixed, tax, percents, rack, by_count, off, from_count, maximal
) -> None:
    quotes, costs = quotes_of(prices, units), costs_of(tax, percents, rack, by_count)
    discounts = [{"vendor": "V", "percent": off, "from_count": from_count}]
    rules = PackageRules(budget_usd=budget, fixed_cost_usd=fixed, min_gpu_nodes=0, discounts=discounts, maximal=maximal)
    rules = with_whole_orders(rules, costs)
    try:
        listed = expand_packages(quotes, rules)[["a", "b", "c"]].to_numpy()
    except TableError as error:
        assert "budget" in str(error)
        return
    drawn = make_space(quotes, rules).sample(20, np.random.default_rng(1))
    whole = orders(np.concatenate([listed, drawn]), quotes, costs, rules)
    assert whole.max() <= budget + 1e-6


def test_a_study_keeps_the_whole_order_within_its_budget(tmp_path: Path) -> None:
    """`packages` says so, no order of the list is above the budget, and the report's sum of the bill agrees."""
    costs = "[costs]\ntax_percent = 19\nwithin_budget = true\nnodes_per_switch = 4\nswitch_usd = 900\ncable_usd = 40\n"
    costs += '[[costs.lines]]\nname = "installation"\npercent = 2.5'
    path = write_study(tmp_path / "tax.toml", "generate = { seed = 1, n_jobs = 40 }", costs, budget=60_000)
    said = CliRunner().invoke(app, ["packages", str(path)])
    assert "the budget is for the whole order" in " ".join(said.stderr.split())
    run_sweep(load_plan(load_study(path)), "serial")
    done = recommend(path, k=3, resamples=0)
    costs = done.results.plan.study.costs
    assert whole_order(done.results.costs, costs).max() <= 60_000
    assert order_usd(done) <= 60_000 and not [one for one in done.notes if one.startswith("budget:")]
    path.write_text(path.read_text().replace("60000", "9000"))
    wrong = CliRunner().invoke(app, ["packages", str(path)])
    assert wrong.exit_code == 1 and "the budget excludes every package" in str(wrong.exception)


def test_lines_per_rack_need_heights() -> None:
    quotes = quotes_of([100, 100, 100], [1, 1, 1]).drop(columns="rack_units")
    beside = costs_of(0, [], 500, True)
    with pytest.raises(TableError, match=r"costs\.within_budget: lines per rack need the rack_units .* a has none"):
        rules = PackageRules(rules="published", budget_usd=1000, min_gpu_nodes=0)
        expand_packages(quotes, with_whole_orders(rules, beside))
