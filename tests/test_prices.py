"""Prices: what the vendors charge for an order, to the cent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_packages import charged_cents
from pydantic import ValidationError

from procure.errors import TableError
from procure.packages import expand_packages
from procure.packages.constraints import build_constraints
from procure.packages.prices import TOO_DEAR, order_cents, price_list
from procure.packages.quotes import check_quotes
from procure.packages.rules import Discount, PackageRules


def offers(**columns: list) -> pd.DataFrame:
    """Three types of two vendors in two lots, at $10.01, $20.00 and $100.00."""
    rows = {
        "name": ["a", "b", "g"], "category": ["compute", "compute", "gpu"], "cpus": 24, "mem_gb": 256,
        "gpus": [0, 0, 2], "price_usd": [10.01, 20, 100], "vendor": ["Acme", "Zeta", "Acme"],
        "lot": ["1", "1", "2"],
    }  # fmt: skip
    return check_quotes(pd.DataFrame(rows | columns))


def cents(counts: list[list[int]], *discounts: dict) -> list[int]:
    rules = PackageRules(budget_usd=1, discounts=discounts)
    return order_cents(np.array(counts), offers(), rules).tolist()


@pytest.mark.parametrize("discounts", [(), ({"category": "compute", "percent": 99.99},)])
def test_an_order_that_64_bits_do_not_hold_is_too_dear(discounts: tuple) -> None:
    """Prices of 10^12 US$ times 10^8 nodes are no small or negative sum; those beside them stay exact."""
    quotes = offers(price_usd=[1e12, 1e9, 999_999_999_999.99])
    orders = np.array([[10**8, 0, 0], [0, 10**9, 0], [2, 0, 10**8], [0, 10, 1]])
    found = order_cents(orders, quotes, PackageRules(budget_usd=1, discounts=discounts)).tolist()
    compute = 10**12 if not discounts else 10**8
    assert found == [TOO_DEAR] * 3 + [compute + 99_999_999_999_999]


def test_the_cheapest_package_may_be_dearer_than_can_be_counted() -> None:
    """No smaller sum is named than the least that a package costs."""
    quotes = offers(price_usd=[1e12] * 3).assign(min_count=10**8, pack_size=10**8)
    with pytest.raises(TableError, match=r"the counts allow costs more than \$10,000,000,000,000,000\.00"):
        expand_packages(check_quotes(quotes), PackageRules(budget_usd=1e12))


@pytest.mark.parametrize(
    ("discount", "says"),
    [
        ({"vendor": "Acne", "percent": 5}, r"discounts\[1\].vendor: no quote has .* did you mean Acme"),
        ({"vendor": "Zeta", "lot": "2", "percent": 5}, "no quote has vendor 'Zeta', lot '2' together"),
        ({"type": "a", "price_usd": 10.01}, "must be below the quote's price_usd, 10.01"),
    ],
)
def test_a_discount_on_nothing_is_refused(discount: dict, says: str) -> None:
    """A discount that no quote can reach is named, with what is legal."""
    with pytest.raises(TableError, match=says):
        cents([[1, 1, 1]], discount)


def test_discounts_may_not_add_up_to_everything() -> None:
    """Two discounts of 50 % on one type are refused with its name."""
    with pytest.raises(TableError, match="those on a could add up to its whole price"):
        cents([[1, 1, 1]], {"type": "a", "percent": 50}, {"lot": "1", "percent": 50})


@pytest.mark.parametrize(
    ("discount", "says"),
    [
        ({}, "exactly one of percent and price_usd"),
        ({"percent": 5, "type": "a", "price_usd": 3}, "exactly one of percent and price_usd"),
        ({"price_usd": 3}, "give type, or percent"),
        ({"percent": 5.001}, "two decimal places"),
        ({"percent": 5, "form_count": 3}, "did you mean from_count"),
    ],
)
def test_a_discount_is_checked(discount: dict, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Discount(**discount)


KEYS = {"vendor": ["Acme", "Zeta"], "lot": ["1", "2"], "category": ["compute", "gpu"], "type": ["a", "b", "g"]}
discounts = st.builds(
    lambda scope, **rest: Discount(**scope, **rest),
    scope=st.dictionaries(st.sampled_from(list(KEYS)), st.integers(0, 2), max_size=1).map(
        lambda d: {key: KEYS[key][i % len(KEYS[key])] for key, i in d.items()}
    ),
    from_count=st.integers(1, 6),
    from_usd=st.integers(0, 30_000).map(lambda n: n / 100),
    percent=st.integers(1, 2400).map(lambda n: n / 100),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(discounts, max_size=4), st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=5))
def test_equals_the_rule_as_it_is_written(tiers: list[Discount], orders: list[tuple[int, ...]]) -> None:
    """Any order costs what the written rule says to the cent, and never less than the bound."""
    quotes, counts = offers(), np.array(orders)
    rules = PackageRules(budget_usd=1, discounts=tiers)
    found = order_cents(counts, quotes, rules)
    written = [tier.model_dump() for tier in tiers]
    assert found.tolist() == charged_cents(counts, quotes.to_dict(orient="records"), written).tolist()
    assert (counts @ price_list(quotes, rules).least_cents <= found).all()


@settings(max_examples=30, deadline=None)
@given(st.lists(discounts, max_size=4), st.tuples(*[st.integers(0, 9)] * 3))
def test_the_discounts_of_the_lines_add_up_to_that_of_the_order(tiers: list[Discount], order: tuple[int, ...]) -> None:
    """Every cent that an order saves stands on a line, and no line saves more than it costs."""
    prices = price_list(offers(), PackageRules(budget_usd=1, discounts=tiers))
    counts = np.array(order)
    off = prices.line_discounts(counts)
    assert (counts * prices.list_cents).sum() - off.sum() == prices.order_cents(counts[None, :])[0]
    assert ((off >= 0) & (off <= counts * prices.list_cents)).all()


def most_one_by_one(counts: np.ndarray, j: int, budget_cents: int, quotes: pd.DataFrame, rules: PackageRules) -> int:
    """Step down node by node from more than the budget buys at half the list price."""
    order = counts.copy()
    for n in range(2 * budget_cents // int(quotes["price_usd"].min() * 100), -1, -1):
        order[j] = n
        if order_cents(order[None], quotes, rules)[0] <= budget_cents:
            return n
    return -1


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(discounts, max_size=4), st.tuples(*[st.integers(0, 4)] * 3), st.integers(0, 2), st.integers(1_000, 60_000)
)
def test_the_most_of_a_type_is_that_of_a_search_node_by_node(
    tiers: list[Discount], counts: tuple[int, ...], j: int, budget_cents: int
) -> None:
    """Whatever tiers an order reaches, the jumps end where single steps do."""
    quotes = offers()
    rules = PackageRules(budget_usd=budget_cents / 100, discounts=tiers, one_vendor_per_lot=False)
    try:
        offer = build_constraints(quotes, rules)
    except TableError:  # nothing is affordable
        return
    found = offer.most(np.array([counts], np.int64), np.array([j]))
    if offer.offered[j]:
        assert found[0] == most_one_by_one(np.array(counts), j, budget_cents, quotes, rules)


def test_a_tier_of_a_milliard_nodes_is_no_search_without_an_end() -> None:
    """A price that no order reaches leaves what the budget buys at the list price."""
    tier = Discount(type="a", from_count=10**9, price_usd=0.01)
    offer = build_constraints(offers(), PackageRules(budget_usd=5_000_000, discounts=(tier,)))
    calls = []
    assert offer.prices is not None
    counted = type("Counted", (type(offer.prices),), {
        "order_cents": lambda self, counts: calls.append(len(counts)) or super(type(self), self).order_cents(counts),
    })  # fmt: skip
    prices = counted(offer.prices.list_cents, offer.prices.least_cents, offer.prices.scopes)
    found = replace(offer, prices=prices).most(np.zeros((1, 3), np.int64), np.array([0]))
    assert found.tolist() == [500_000_000 // 1001]
    assert len(calls) < 10
