"""A space that is not enumerated holds exactly the packages that the enumeration lists."""

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.packages import PackageRules, expand_packages
from procure.packages.nodes import counts_of_ids, package_ids
from procure.packages.prices import order_cents
from procure.packages.quotes import check_quotes
from procure.packages.space import Space, distinct_rows, make_space, package_table, rows_in

QUOTES = """name,category,cpus,mem_gb,gpus,price_usd,power_w,rack_units,vendor,lot
A1,compute,8,32,0,5000,300,1,Ada,one
A2,compute,16,64,0,7000,400,1,Ada,one
A3,compute,32,64,0,9500,500,2,Bert,one
B1,bigmem,16,512,0,9000,500,1,Bert,two
B2,bigmem,32,1024,0,13000,600,2,Ada,two
G1,gpu,16,64,2,15000,900,2,Bert,
G2,gpu,16,128,4,22000,1500,4,Carl,
"""


def quotes(**columns: object) -> pd.DataFrame:
    table = pd.read_csv(io.StringIO(QUOTES)).fillna({"lot": ""}).assign(**columns)
    return check_quotes(table)


def space(table: pd.DataFrame, **rules: object) -> Space:
    return make_space(table, PackageRules(rules="published", **{"budget_usd": 60_000} | rules))


CASES = {
    "published": ({}, {}),
    "no GPU asked": ({}, {"min_gpu_nodes": 0}),
    "two types": ({}, {"types_per_category": 2, "budget_usd": 45_000}),
    "any types": ({}, {"types_per_category": "any", "budget_usd": 40_000}),
    "one vendor a lot off": ({}, {"types_per_category": "any", "budget_usd": 40_000, "one_vendor_per_lot": False}),
    "least numbers": ({}, {"categories": {"compute": 3, "gpu": 1}, "budget_usd": 70_000}),
    "least numbers of several types": (
        {}, {"categories": {"compute": 3}, "types_per_category": 2, "budget_usd": 50_000},
    ),
    "bounds": ({}, {"types": {"A1": {"min_count": 2, "max_count": 4}, "G1": {"max_count": 1}}}),
    "packs": ({"pack_size": [2, 1, 1, 1, 1, 1, 1]}, {"budget_usd": 80_000}),
    "mandatory": ({"mandatory": [False, False, True, False, False, False, False]}, {"types_per_category": 2}),
    "caps": ({}, {"max_power_w": 3000, "max_rack_units": 9, "budget_usd": 90_000}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_random_packages_and_exchanges_are_those_of_the_enumeration_and_all_can_come_up(name: str) -> None:
    columns, rules = CASES[name]
    here = space(quotes(**columns), **rules)
    listed = here.listed()
    assert listed is not None
    table = expand_packages(here.quotes, here.rules)
    assert (table.loc[table["distinct"], here.quotes["name"].tolist()].to_numpy() == listed).all()
    found = np.concatenate([here.sample(len(listed), np.random.default_rng(seed)) for seed in range(6)])
    assert rows_in(found, listed).all()
    assert rows_in(listed, found).all()
    near = here.neighbours(listed[:5], 60, np.random.default_rng(1))
    assert len(near) and rows_in(near, listed).all()
    assert not rows_in(near, listed[:5]).any()
    assert len(distinct_rows(near)) == len(near)


@pytest.mark.parametrize("name", ["published", "two types", "caps"])
def test_exchanges_lead_from_any_package_to_every_other(name: str) -> None:
    columns, rules = CASES[name]
    here = space(quotes(**columns), **rules)
    listed = here.listed()
    assert listed is not None
    reached = listed[:1]
    for seed in range(30):
        reached = distinct_rows(np.concatenate([reached, here.neighbours(reached, 80, np.random.default_rng(seed))]))
        if len(reached) == len(listed):
            break
    assert rows_in(listed, reached).all()


@settings(max_examples=10, deadline=None)
@given(
    st.integers(30_000, 90_000),
    st.sampled_from([1, 2, "any"]),
    st.integers(1, 6),
    st.floats(1, 30),
    st.sampled_from(["compute", "gpu"]),
)
def test_discounted_packages_are_within_the_budget(
    budget: int, types: int | str, from_count: int, percent: float, category: str
) -> None:
    discount = {"category": category, "from_count": from_count, "percent": round(percent, 2)}
    here = space(quotes(), budget_usd=budget, types_per_category=types, discounts=[discount])
    found = here.sample(60, np.random.default_rng(1))
    found = np.concatenate([found, here.neighbours(found[:3], 30, np.random.default_rng(2))])
    assert (order_cents(found, here.quotes, here.rules) <= budget * 100).all()
    assert (found[:, 5:].sum(axis=1) >= 1).all()
    # Nothing more fits, whatever the type: at least not the very next node.
    for j in range(found.shape[1]):
        more = found.copy()
        more[:, j] += 1
        alone = found[:, j] > 0
        assert (order_cents(more[alone], here.quotes, here.rules) > budget * 100).all()


def test_a_space_beyond_the_limit_is_not_listed() -> None:
    here = space(quotes(), budget_usd=400_000, one_vendor_per_lot=False)
    listed = here.listed()
    assert listed is not None
    assert here.listed(most=len(listed) - 1) is None


def test_package_names_are_those_of_the_package_table_and_can_be_read_back() -> None:
    here = space(quotes())
    table = expand_packages(here.quotes, here.rules)
    table = table[table["distinct"]].reset_index(drop=True)
    names = here.quotes["name"].tolist()
    made = package_table(table[names].to_numpy(np.int64), here)
    pd.testing.assert_frame_equal(made, table[made.columns], check_dtype=False)
    assert (counts_of_ids(package_ids(table[names].to_numpy(np.int64), names), names) == table[names]).all(axis=None)
