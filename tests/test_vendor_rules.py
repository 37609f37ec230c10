"""Vendors' rules: packs, lots, mandatory types, expired quotes, several types, discounts; against brute force."""

from __future__ import annotations

import naive_packages
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from procure.errors import TableError
from procure.packages import PackageRules, expand_packages
from procure.quotes import check_quotes

LETTERS = "ABC"


@st.composite
def quote_rows(draw: st.DrawFn) -> list[dict]:
    """Up to six types in up to three categories, $1 to $6, of three vendors in two lots or none."""
    rows: list[dict] = []
    for category in range(draw(st.integers(1, 3))):
        must = draw(st.integers(-9, 1))
        for i in range(draw(st.integers(1, 2 if category else 3))):
            low, high = draw(st.none() | st.integers(0, 3)), draw(st.none() | st.integers(0, 6))
            if low is not None and high is not None:
                low, high = min(low, high), max(low, high)
            rows.append(
                {
                    "name": f"t{category}{i}", "category": f"c{category}", "cpus": 1, "mem_gb": 1,
                    "gpus": draw(st.integers(0, 1)), "price_usd": draw(st.integers(100, 600)) / 100,
                    "power_w": draw(st.integers(0, 40)) / 10, "rack_units": draw(st.sampled_from([0.5, 1, 2])),
                    "min_count": low, "max_count": high, "mandatory": i == must,
                    "pack_size": draw(st.sampled_from([None, None, 1, 2, 3])),
                    "vendor": draw(st.sampled_from(LETTERS)), "lot": draw(st.sampled_from(["", "1", "1", "2"])),
                    "valid_until": draw(st.sampled_from(["", "", "2023-06-30", "2024-01-31"])),
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
        price = draw(st.integers(80, round(row["price_usd"] * 100) - 1)) / 100
        return scope | reached | {"price_usd": max(price, round(row["price_usd"] * 0.7, 2))}
    return scope | reached | {"percent": draw(st.integers(1, 1500)) / 100}


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[dict], dict]:
    rows = draw(quote_rows())
    categories = sorted({row["category"] for row in rows})
    bounds = st.builds(lambda n: {"max_count": n}, st.integers(3, 6))
    rules = {
        "budget_usd": draw(st.integers(200, 850)) / 100,
        "fixed_cost_usd": draw(st.sampled_from([0, 1.25])),
        "min_gpu_nodes": draw(st.sampled_from([0, 0, 1, 2])),
        "categories": draw(st.dictionaries(st.sampled_from(categories), st.integers(0, 3), max_size=2)),
        "types": draw(st.dictionaries(st.sampled_from([row["name"] for row in rows]), bounds, max_size=1)),
        "max_power_w": draw(st.none() | st.integers(4, 15)),
        "max_rack_units": draw(st.none() | st.integers(2, 9)),
        "maximal": draw(st.sampled_from([True, True, False])),
        "types_per_category": draw(st.sampled_from([1, 2, "any"])),
        "one_vendor_per_lot": draw(st.sampled_from([True, True, False])),
        "as_of": draw(st.sampled_from([None, "2023-06-30", "2023-07-01"])),
        "discounts": draw(st.lists(tiers(rows), max_size=3)),
    }
    return rows, rules


def agrees(rows: list[dict], rules: dict) -> None:
    """Rows and `distinct` are those of trying every count; nothing found is an error."""
    quotes = check_quotes(pd.DataFrame(rows))
    expected = naive_packages.packages(rows, rules, bound=9)
    if not expected:
        with pytest.raises(TableError, match="packages"):
            expand_packages(quotes, PackageRules(**rules))
        return
    table = expand_packages(quotes, PackageRules(**rules))
    counts = table[quotes["name"].tolist()]
    found = list(map(tuple, counts.to_numpy().tolist()))
    lots = rules["one_vendor_per_lot"] and any(row["lot"] for row in rows)
    order = sorted if lots else list
    assert order(found) == order([vector for _, vector in expected])
    assert (table["distinct"] == ~counts.duplicated()).all()
    cents = naive_packages.charged_cents(counts.to_numpy(), rows, rules["discounts"])
    assert (table["price_usd"] == cents / 100).all()


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_equals_brute_force(case: tuple[list[dict], dict]) -> None:
    """Under all rules at once the package table is what trying every count gives."""
    agrees(*case)


@pytest.mark.slow
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_equals_brute_force_often(case: tuple[list[dict], dict]) -> None:
    """The same for many more cases."""
    agrees(*case)
