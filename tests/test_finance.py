"""Costs of an offer whole: lines, tax, interest, price change and what is left, to the cent."""

import itertools
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import QUOTES, quote_table, write_study
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.offers import Line
from procure.packages import PackageRules, expand_packages
from procure.packages.costs import Costs, total_costs, whole_order, years_factor
from procure.packages.quotes import check_quotes, read_quotes
from procure.packages.rules import OrderLines, study_lines, with_whole_orders
from procure.packages.space import make_space
from procure.recommender.recommender import recommend
from procure.reports import report
from procure.reports.bill import beside, order_usd, write_bill
from procure.schemas import JOB
from procure.settings import validated
from procure.study import load_study
from procure.study.costs import package_costs
from procure.sweep import load_plan, run_sweep
from procure.tables import check

LINES = [
    {"name": "storage", "kind": "storage", "usd": 20000},
    {"name": "delivery", "kind": "delivery", "usd": 100, "per": "node"},
    {"name": "rack", "kind": "rack", "usd": 1500, "per": "rack"},
    {"name": "warranty", "kind": "warranty", "percent": 3, "when": "year"},
]
PAPER = {
    "years": 5, "usd_per_kwh": 0.2, "interest_percent": 3, "price_change_percent": {"energy": 4}, "tax_percent": 20,
    "residual_percent": 10, "rack_height_units": 12, "lines": LINES,
}  # fmt: skip


def of_ten_nodes(**more: object) -> pd.Series:
    """Return the costs of the ten nodes of docs/claims/offers.md."""
    costs = Costs.model_validate(PAPER | more)
    watts = {"power_w": 400, "idle_power_w": 400, "rack_units": 2}
    quotes = check_quotes(quote_table(name=["a"], price_usd=10000, vendor="V", **watts))
    lines = OrderLines(study_lines(costs.lines))
    quotes = lines.with_services(quotes)
    rules = lines.rules(PackageRules(budget_usd=200_000, discounts=[{"vendor": "V", "percent": 5}]))
    jobs = check(pd.DataFrame({"job_id": ["1"], "submit_time": 0, "run_time": 60, "cpus_per_node": 1}), JOB)
    package = pd.DataFrame({"package_id": ["p"], "price_usd": 1.0, "a": [10]})
    return total_costs(package, quotes, costs, {"day": jobs}, rules).iloc[0]


def test_the_case_on_paper() -> None:
    bought = of_ten_nodes().drop("package_id").astype("float64").round(2)
    paper = {
        "purchase_usd": 95950.00, "fixed_usd": 20000.00, "tax_usd": 23790.00, "lines_usd": 3000 + 13182.69,
        "energy_usd": 34686.43, "residual_usd": -8276.73, "tco_usd": 182332.39,
    }  # fmt: skip
    assert bought[list(paper)].to_dict() == paper


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.integers(0, 20), st.integers(-20, 20))
def test_amounts_of_years_one_by_one(tenths: int, interest: int, change: int) -> None:
    """US$ 1 a year at a price that changes, brought back to the first day, added year by year in exact fractions."""
    years, total, begin, price = Decimal(tenths) / 10, Decimal(0), Decimal(0), Decimal(1)
    while begin < years:
        end = min(begin + 1, years)
        total += (end - begin) * price / (1 + Decimal(interest) / 100) ** end
        begin, price = end, price * (1 + Decimal(change) / 100)
    assert years_factor(float(years), interest, change) == pytest.approx(float(total), rel=1e-9)


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"lease": {"months": 36}}, "costs: lease: unknown key; it was removed: a purchase is reckoned"),
        ({"energy_prices": "p.csv"}, "usd_per_kwh"),
        ({"depreciation_years": 7}, "residual_percent = 100"),
        ({"lines": [{"name": "x"}]}, "costs: lines[1]: give exactly one of usd and percent"),
        ({"lines": [{"name": "x", "kind": "discount", "usd": 5000}]}, "what is taken off is a [[packages.discounts]]"),
        ({"lines": [{"name": "x", "percent": 3, "per": "node"}]}, "lines[1]: percent is of the whole order"),
        ({"lines": [{"name": "x", "usd": 3, "per": "node", "quantity": 2}]}, "lines[1]: quantity belongs to"),
        ({"lines": [{"name": "x", "usd": 3, "vendor": "V"}]}, "lines[1]: vendor belongs to"),
        ({"price_change_percent": {"power": 3}}, "price_change_percent.power"),
    ],
)
def test_bad_costs_are_named_by_key(given_: dict, says: str) -> None:
    with pytest.raises(TableError) as error:
        validated(Costs, given_, "costs")
    assert says in str(error.value)


COSTS = """[costs]
tax_percent = 19
[[costs.lines]]
name = "=storage"
usd = 12_000.50
[[costs.lines]]
name = "delivery"
usd = 99.25
per = "node"
[[costs.lines]]
name = "insurance"
percent = 1.5
when = "year"
"""


def whole(folder: Path, costs: str = COSTS, quotes: object = QUOTES) -> Path:
    """Write a study with these costs."""
    return write_study(folder / "whole.toml", "generate = { seed = 1, n_jobs = 100 }", costs, quotes=quotes)


@pytest.mark.slow
def test_every_line_stands_on_the_bill(tmp_path: Path) -> None:
    """Fixed lines reduce the budget for nodes; the bill, as spreadsheet and table, adds up to the whole order."""
    from openpyxl import load_workbook

    study = whole(tmp_path)
    loaded = load_study(study)
    assert loaded.packages.fixed_cost_usd == 12000.5
    costs = package_costs(study).packages
    assert costs["purchase_usd"].max() <= 70_000 - 12_000.5
    run_sweep(load_plan(loaded), "serial")
    out, table, page = tmp_path / "bill.xlsx", tmp_path / "bill.csv", tmp_path / "r.html"
    done = report(study, page, k=2, verify=False, bill=out).recommendation
    write_bill(done, table)
    sheet = load_workbook(out)["Bill"]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows(min_row=3)]
    by_name = {row[0]: row for row in rows if row[0]}
    kinds = {cell.data_type for row in sheet.iter_rows() for cell in row if cell.value is not None}
    assert kinds <= {"s", "n", "inlineStr"} and by_name["=storage"][12] == 12000.5
    servers, tax = by_name["servers"][12], by_name["tax, 19 %"][12]
    assert tax == pytest.approx(round((servers + 12000.5) * 0.19, 2))
    assert by_name["total"][12] == pytest.approx(servers + 12000.5 + tax)
    n_nodes = sum(row[9] for row in rows[: rows.index(by_name["servers"])])
    assert by_name["delivery"][9:13:3] == [n_nodes, pytest.approx(n_nodes * 99.25)]
    assert by_name["insurance"][12] == pytest.approx(round(servers * 0.015, 2))
    lines = pd.read_csv(table)
    assert lines["line_total_usd"].iloc[-1] == pytest.approx(by_name["total"][12])
    assert lines["line_total_usd"].iloc[:-1].sum() == pytest.approx(by_name["total"][12])
    text = page.read_text(encoding="utf-8")
    assert "57,999.50 of the budget are left for servers" in text
    assert "insurance" in text
    order = by_name["total"][12]
    assert f"US$ {order:,.2f} of a budget of US$ 70,000.00" in text and f"the order is US$ {order:,.2f}" in text
    costs = done.results.costs.iloc[done.first]
    parts = "purchase fixed energy space network licence support staff lines tax residual".split()
    summed = np.nansum([float(costs.get(f"{part}_usd", 0)) for part in parts])
    assert round(summed, 2) == round(costs["tco_usd"], 2)


@pytest.mark.slow
def test_what_quotes_charge_each_year_is_on_the_bill(tmp_path: Path) -> None:
    """Licences and support of nodes, each with its nodes and sum, and not in the order's total."""
    quotes = pd.read_csv(QUOTES)
    quotes.assign(support_usd_per_year=120.25, licence_usd_per_year=0).to_csv(tmp_path / "q.csv", index=False)
    study = whole(tmp_path, quotes="q.csv")
    run_sweep(load_plan(load_study(study)), "serial")
    done = recommend(study, k=1, verify=False, resamples=0)
    lines = beside(done).set_index("type")
    n_nodes = int(done.results.counts[int(done.ranking["row"].iloc[0])].sum())
    assert lines.loc["support of nodes", ["count", "when"]].tolist() == [n_nodes, "each year"]
    assert lines.loc["support of nodes", "line_total_usd"] == pytest.approx(n_nodes * 120.25)
    assert "licences of nodes" not in lines.index


def test_a_line_of_a_file_per_node_of_a_vendor_that_quotes_nothing_is_named_by_cell() -> None:
    line = Line("installation", "rail kit", "Nobody", 1, Decimal(150), "node", None, None, "Lines", "B4")
    with pytest.raises(TableError, match=r"sheet Lines, B4: 'rail kit' is charged for each node: no quote has the v"):
        OrderLines((line,)).with_services(read_quotes(QUOTES).assign(vendor="Alder"))


def test_the_whole_order_on_paper() -> None:
    """142,740.00 of docs/claims/offers.md."""
    found = pd.DataFrame([of_ten_nodes()])
    assert whole_order(found, Costs.model_validate(PAPER)).tolist() == [142_740.0]


JOBS = check(pd.DataFrame({"job_id": ["1"], "submit_time": 0, "run_time": 60, "cpus_per_node": 1}), JOB)
BY_COUNT = {
    "nodes_per_switch": 3, "switch_usd": 310.5, "switch_rack_units": 1, "cables_per_node": 1.1, "cable_usd": 17,
    "rack_height_units": 8,
}  # fmt: skip


def quotes_of(prices: list[int], units: list[int]) -> pd.DataFrame:
    """Two types of one category, and one of another."""
    kinds = {"name": ["a", "b", "c"], "category": ["x", "x", "y"], "vendor": "V", "rack_units": units}
    return check_quotes(quote_table(**kinds, price_usd=np.array(prices) / 100))


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


def test_recommend_says_what_tax_adds_to_the_budget(tmp_path: Path) -> None:
    made = "generate = { seed = 1, n_jobs = 40 }"
    path = write_study(tmp_path / "tax.toml", made, "[costs]\ntax_percent = 60", budget=40_000)
    run_sweep(load_plan(load_study(path)), "serial")
    done = recommend(path, k=3, resamples=0)
    [note] = [one for one in done.notes if one.startswith("budget:")]
    whole = order_usd(done)
    assert f"US$ {whole:,.2f}, US$ {whole - 40_000:,.2f} more" in note and "of 3 packages" in note


def test_lines_per_rack_need_heights() -> None:
    quotes = quotes_of([100, 100, 100], [1, 1, 1]).drop(columns="rack_units")
    beside = costs_of(0, [], 500, True)
    with pytest.raises(TableError, match=r"costs\.within_budget: lines per rack need the rack_units .* a has none"):
        rules = PackageRules(rules="published", budget_usd=1000, min_gpu_nodes=0)
        expand_packages(quotes, with_whole_orders(rules, beside))
