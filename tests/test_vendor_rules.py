"""Vendors' rules: packs, lots, mandatory types, several types, discounts; against brute force."""

import itertools
from dataclasses import replace
from pathlib import Path

import naive_packages
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_packages import charged_cents
from pydantic import ValidationError
from small_study import three_quotes

from procure.errors import TableError
from procure.packages import PackageRules, expand_packages
from procure.packages.constraints import build_constraints
from procure.packages.prices import TOO_DEAR, order_cents, price_list
from procure.packages.quotes import check_quotes
from procure.packages.rules import Discount
from procure.packages.space import make_space

LETTERS = "ABC"
ROOT = Path(__file__).resolve().parent.parent


def ids(quotes: pd.DataFrame, **rules: object) -> list[str]:
    return expand_packages(quotes, PackageRules(rules="published", **rules))["package_id"].tolist()


@pytest.mark.parametrize(
    "rules",
    [
        {"types_per_category": 1, "one_vendor_per_lot": False},
        {"types_per_category": 2},
        {"types_per_category": 2, "one_vendor_per_lot": False},
        {"types": {"a": {"min_count": 2, "max_count": 3}, "g": {"max_count": 0}}},
        {"types_per_category": "any", "max_power_w": 110},
    ],
)
def test_what_an_offer_allows_is_what_is_listed(rules: dict) -> None:
    """Of all counts, those allowed are the packages listed where none need be maximal."""
    quotes = three_quotes(lot=["1", "1", ""], power_w=[20, 30, 50])
    asked = PackageRules(rules="published", budget_usd=60, maximal=False, min_gpu_nodes=0, **rules)
    every = np.array(list(itertools.product(range(8), range(6), range(4))))[1:]
    listed = expand_packages(quotes, asked)[["a", "b", "g"]].to_numpy()
    assert {*map(tuple, every[make_space(quotes, asked).allows(every)].tolist())} == {*map(tuple, listed.tolist())}


PACKS = {"pack_size": [8, None, None], "mandatory": [True, False, False]}


@pytest.mark.parametrize(
    ("columns", "rules", "says"),
    [
        ({"mandatory": [True, True, False]}, {}, "a and b are both mandatory.*types_per_category = 1"),
        (
            {"mandatory": [True, True, False], "lot": "1"},
            {"types_per_category": 2},
            "a and b are both mandatory, but lot '1' goes to one vendor; one_vendor_per_lot = false",
        ),
        (PACKS | {"max_count": [7, None, None]}, {}, r"mandatory a .* max_count 7 .* \(pack_size 8"),
        (PACKS, {}, r"budget excludes every package: \$60.00 .* costs \$110.00"),
        ({"lot": ["1", "1", ""], "vendor": ["A", "", "B"]}, {}, "b is in lot '1', .* names no vendor"),
        (
            {"lot": ["1", "1", "1"], "max_count": [None, 0, None]},
            {"categories": {"compute": 1}},
            "min_gpu_nodes = 1 and categories.compute = 1 together exclude every package",
        ),
        (
            {"max_count": [2, 3, None]},
            {"categories": {"compute": 6}, "types_per_category": "any"},
            "categories.compute = 6 excludes every package; the other counts allow at most 5 such nodes",
        ),
        (
            {"price_usd": [10, 15, 40]},
            {"budget_usd": 35, "discounts": [{"type": "g", "percent": 5}]},
            r"budget excludes every package: \$35.00 .* costs \$38.00",
        ),
    ],
)
def test_rules_that_contradict_each_other_are_named(columns: dict, rules: dict, says: str) -> None:
    """Without any package one sentence says which rules exclude them all."""
    with pytest.raises(TableError, match=says):
        ids(three_quotes(**columns), **{"budget_usd": 60} | rules)


@st.composite
def quote_rows(draw: st.DrawFn) -> list[dict]:
    """Up to five types in up to three categories, $1.50 to $5, of three vendors in two lots or none."""
    rows: list[dict] = []
    for category in range(draw(st.integers(1, 3))):
        must = draw(st.integers(-19, 1))
        for i in range(draw(st.integers(1, 2 if category < 2 else 1))):
            low, high = draw(st.none() | st.integers(0, 2)), draw(st.none() | st.integers(1, 6))
            if low is not None and high is not None:
                low, high = min(low, high), max(low, high)
            rows.append(
                {
                    "name": f"t{category}{i}", "category": f"c{category}", "cpus": 1, "mem_gb": 1,
                    "gpus": draw(st.integers(0, 1)), "price_usd": draw(st.integers(150, 500)) / 100,
                    "power_w": draw(st.integers(0, 40)) / 10, "rack_units": draw(st.sampled_from([0.5, 1, 2])),
                    "min_count": low, "max_count": high, "mandatory": i == must,
                    "pack_size": draw(st.sampled_from([None, None, 1, 2, 3])),
                    "vendor": draw(st.sampled_from(LETTERS)), "lot": draw(st.sampled_from(["", "1", "1", "2"])),
                    "valid_until": draw(st.sampled_from(["", "", "", "2023-06-30", "2024-01-31"])),
                }
            )  # fmt: skip
    draw(st.randoms(use_true_random=False)).shuffle(rows)
    return rows


@st.composite
def tiers(draw: st.DrawFn, rows: list[dict]) -> dict:
    """A discount that makes some larger orders cheaper."""
    row = draw(st.sampled_from(rows))
    keys = draw(st.sampled_from([(), ("vendor",), ("lot",), ("category",), ("type",), ("vendor", "lot")]))
    scope = {key: row["name" if key == "type" else key] for key in keys}
    scope = {key: value for key, value in scope.items() if value}
    reached = draw(
        st.fixed_dictionaries({"from_count": st.integers(1, 5)})
        | st.fixed_dictionaries({"from_usd": st.integers(100, 1200).map(lambda n: n / 100)})
    )
    if "type" in scope and draw(st.booleans()):
        price = draw(st.integers(100, round(row["price_usd"] * 100) - 1)) / 100
        return scope | reached | {"price_usd": max(price, round(row["price_usd"] * 0.7, 2))}
    return scope | reached | {"percent": draw(st.integers(1, 1500)) / 100}


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[dict], dict]:
    rows = draw(quote_rows())
    categories = sorted({row["category"] for row in rows})
    bounds = st.builds(lambda n: {"max_count": n}, st.integers(3, 6))
    rules = {
        "budget_usd": draw(st.integers(500, 1200)) / 100,
        "fixed_cost_usd": draw(st.sampled_from([0, 1.25])),
        "min_gpu_nodes": draw(st.sampled_from([0, 0, 0, 1])),
        "categories": draw(st.dictionaries(st.sampled_from(categories), st.integers(0, 2), max_size=1)),
        "types": draw(st.dictionaries(st.sampled_from([row["name"] for row in rows]), bounds, max_size=1)),
        "max_power_w": draw(st.none() | st.integers(6, 20)),
        "max_rack_units": draw(st.none() | st.integers(3, 12)),
        "maximal": draw(st.sampled_from([True, True, False])),
        "types_per_category": draw(st.sampled_from([1, 2, "any"])),
        "one_vendor_per_lot": draw(st.sampled_from([True, True, False])),
        "discounts": draw(st.lists(tiers(rows), max_size=3) | st.lists(tiers(rows), min_size=1, max_size=3)),
    }
    return rows, rules


def agrees(rows: list[dict], rules: dict) -> None:
    """Rows and `distinct` are those of trying every count; nothing found is an error."""
    quotes = check_quotes(pd.DataFrame(rows))
    # Discounts take off 60 % at most, so no order holds more nodes of a type.
    least = min(row["price_usd"] for row in rows) * (0.4 if rules["discounts"] else 1)
    bound = int(rules["budget_usd"] / least) + 1
    expected = naive_packages.packages(rows, rules, bound)
    if not expected:
        with pytest.raises(TableError, match="packages"):
            expand_packages(quotes, PackageRules(rules="published", **rules))
        return
    asked = PackageRules(rules="published", **rules)
    table = expand_packages(quotes, asked)
    counts = table[quotes["name"].tolist()]
    found = list(map(tuple, counts.to_numpy().tolist()))
    lots = rules["one_vendor_per_lot"] and any(row["lot"] for row in rows)
    order = sorted if lots else list
    assert order(found) == order([vector for _, vector in expected])
    assert (table["distinct"] == ~counts.duplicated()).all()
    cents = naive_packages.charged_cents(counts.to_numpy(), rows, rules["discounts"])
    assert (table["price_usd"] == cents / 100).all()


@pytest.mark.parametrize("n", [25, pytest.param(500, marks=pytest.mark.slow)])
def test_equals_brute_force(n: int) -> None:
    """Under all rules at once the package table is what trying every count gives."""

    @settings(max_examples=n, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(cases())
    def check(case: tuple[list[dict], dict]) -> None:
        agrees(*case)

    check()


def priced(**columns: list) -> pd.DataFrame:
    """Three types of two vendors in two lots, at $10.01, $20.00 and $100.00."""
    lots = {"vendor": ["Acme", "Zeta", "Acme"], "lot": ["1", "1", "2"]}
    return three_quotes(**{"price_usd": [10.01, 20, 100]} | lots | columns)


@pytest.mark.parametrize("discounts", [(), ({"category": "compute", "percent": 99.99},)])
def test_an_order_that_64_bits_do_not_hold_is_too_dear(discounts: tuple) -> None:
    """Prices of 10^12 US$ times 10^8 nodes are no small or negative sum; those beside them stay exact."""
    quotes = priced(price_usd=[1e12, 1e9, 999_999_999_999.99])
    orders = np.array([[10**8, 0, 0], [0, 10**9, 0], [2, 0, 10**8], [0, 10, 1]])
    found = order_cents(orders, quotes, PackageRules(budget_usd=1, discounts=discounts)).tolist()
    compute = 10**12 if not discounts else 10**8
    assert found == [TOO_DEAR] * 3 + [compute + 99_999_999_999_999]


def test_the_cheapest_package_may_be_dearer_than_can_be_counted() -> None:
    """No smaller sum is named than the least that a package costs."""
    quotes = priced(price_usd=[1e12] * 3).assign(min_count=10**8, pack_size=10**8)
    with pytest.raises(TableError, match=r"the counts allow costs more than \$10,000,000,000,000,000\.00"):
        expand_packages(check_quotes(quotes), PackageRules(budget_usd=1e12))


@pytest.mark.parametrize(
    ("discount", "says"),
    [
        ({"vendor": "Acne", "percent": 5}, r"discounts\[1\].vendor: no quote has .* did you mean Acme"),
        ({"vendor": "Zeta", "lot": "2", "percent": 5}, "no quote has vendor 'Zeta', lot '2' together"),
        ({"type": "a", "price_usd": 10.01}, "must be below the quote's price_usd, 10.01"),
        ({"lot": "1", "percent": 50}, "those on a could add up to its whole price"),
        ({}, "exactly one of percent and price_usd"),
        ({"percent": 5, "type": "a", "price_usd": 3}, "exactly one of percent and price_usd"),
        ({"price_usd": 3}, "give type, or percent"),
        ({"percent": 5.001}, "two decimal places"),
        ({"percent": 5, "form_count": 3}, "did you mean from_count"),
    ],
)
def test_a_discount_without_sense_is_refused(discount: dict, says: str) -> None:
    """One that no quote can reach, that leaves no price beside another, or that is not one is named."""
    with pytest.raises((TableError, ValidationError), match=says):
        rules = PackageRules(budget_usd=1, discounts=[discount, {"type": "a", "percent": 50}])
        order_cents(np.array([[1, 1, 1]]), priced(), rules)


KEYS = {"vendor": ["Acme", "Zeta"], "lot": ["1", "2"], "category": ["compute", "gpu"], "type": ["a", "b", "g"]}
drawn_discounts = st.builds(
    lambda scope, **rest: Discount(**scope, **rest),
    scope=st.dictionaries(st.sampled_from(list(KEYS)), st.integers(0, 2), max_size=1).map(
        lambda d: {key: KEYS[key][i % len(KEYS[key])] for key, i in d.items()}
    ),
    from_count=st.integers(1, 6),
    from_usd=st.integers(0, 30_000).map(lambda n: n / 100),
    percent=st.integers(1, 2400).map(lambda n: n / 100),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(drawn_discounts, max_size=4), st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=5))
def test_equals_the_rule_as_it_is_written(tiers: list[Discount], orders: list[tuple[int, ...]]) -> None:
    """Any order costs what the written rule says to the cent, never less than the bound; its lines say what is off."""
    quotes, counts = priced(), np.array(orders)
    rules = PackageRules(budget_usd=1, discounts=tiers)
    found = order_cents(counts, quotes, rules)
    written = [tier.model_dump() for tier in tiers]
    assert found.tolist() == charged_cents(counts, quotes.to_dict(orient="records"), written).tolist()
    prices = price_list(quotes, rules)
    assert (counts @ prices.least_cents <= found).all()
    for order, cents in zip(counts, found.tolist(), strict=True):
        off = prices.line_discounts(order)
        assert (order * prices.list_cents).sum() - off.sum() == cents
        assert ((off >= 0) & (off <= order * prices.list_cents)).all()


def test_a_tier_of_a_milliard_nodes_is_no_search_without_an_end() -> None:
    """A price that no order reaches leaves what the budget buys at the list price."""
    tier = Discount(type="a", from_count=10**9, price_usd=0.01)
    offer = build_constraints(priced(), PackageRules(budget_usd=5_000_000, discounts=(tier,)))
    calls = []
    assert offer.prices is not None
    counted = type("Counted", (type(offer.prices),), {
        "order_cents": lambda self, counts: calls.append(len(counts)) or super(type(self), self).order_cents(counts),
    })  # fmt: skip
    prices = counted(offer.prices.list_cents, offer.prices.least_cents, offer.prices.scopes)
    found = replace(offer, prices=prices).most(np.zeros((1, 3), np.int64), np.array([0]))
    assert found.tolist() == [500_000_000 // 1001]
    assert len(calls) < 10
    lost = [{"lot": "1", "from_count": 5, "percent": 50}, {"type": "b", "from_count": 9, "percent": 40}]
    rules = PackageRules(budget_usd=25, min_gpu_nodes=0, one_vendor_per_lot=False, discounts=lost)
    assert build_constraints(priced(), rules).most(np.array([[4, 0, 0]]), np.array([1])).tolist() == [-1]
