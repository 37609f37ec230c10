"""The number of packages that is told without a list of them is never more than there are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings

from procure.errors import TableError
from procure.packages import PackageRules, expand_packages, read_quotes
from procure.packages.constraints import build_constraints
from procure.packages.enumerate import EnumerationLimit, TooManyPackages, blocks, least_number
from procure.packages.quotes import check_quotes
from tests.test_packages import cases as published_cases
from tests.test_vendor_rules import cases as vendor_cases

EXAMPLE = Path(__file__).parents[1] / "quotes" / "example-2023.csv"
THIRTEEN = "name,category,cpus,mem_gb,gpus,price_usd\n" + "".join(
    f"C{i},compute,16,64,0,{usd}\n"
    for i, usd in enumerate([437, 882, 364, 561, 420, 807, 760, 783, 688, 514, 396, 799, 329, 699])
)
THIRTEEN += "G,gpu,16,64,1,1000\n"


def check_bound(quotes: pd.DataFrame, rules: PackageRules) -> None:
    """The bound is at most the number of rows."""
    try:
        offer = build_constraints(quotes, rules)
    except TableError:
        return
    n = sum(len(each.counts) for each in blocks(offer))
    assert 0 <= least_number(offer) <= max(n, 1)


@settings(max_examples=80, deadline=None)
@given(published_cases())
def test_there_are_never_fewer_packages_than_the_bound(case: tuple[list[dict], PackageRules]) -> None:
    """Under counts, packs, least numbers, caps and mandatory types."""
    check_bound(check_quotes(pd.DataFrame(case[0])), case[1])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(vendor_cases())
def test_nor_with_lots_discounts_and_several_types_of_a_category(case: tuple[list[dict], dict]) -> None:
    """Under the vendors' rules too."""
    check_bound(check_quotes(pd.DataFrame(case[0])), PackageRules(**case[1]))


def test_a_package_of_nothing_is_none() -> None:
    """A budget for one server of one type: one package, where the simplex holds two points."""
    row = {"name": "a", "category": "c", "cpus": 1, "mem_gb": 1, "gpus": 0, "price_usd": 1.01, "mandatory": False}
    check_bound(
        check_quotes(pd.DataFrame([row])), PackageRules(rules="published", budget_usd=2, min_gpu_nodes=0, maximal=False)
    )


def test_a_space_of_too_many_is_refused_before_it_is_listed() -> None:
    """A trillion packages and more: the bound alone is above every limit."""
    for rules in ({"types_per_category": "any"}, {"types_per_category": 3, "min_gpu_nodes": 1}):
        offer = build_constraints(read_quotes(EXAMPLE), PackageRules(budget_usd=1e7, **rules))
        assert least_number(offer) > 1e12


def test_a_short_list_under_a_least_number_is_given(tmp_path: Path, procure) -> None:
    """Of 14 other types any number may be bought, but 38 GPU nodes leave money for 648 packages."""
    (tmp_path / "q.csv").write_text(THIRTEEN)
    rules = ("--budget", 40000, "--set", "packages.types_per_category=any", "--set", "packages.min_gpu_nodes=38")
    code, out, said = procure("packages", tmp_path / "q.csv", *rules, "--format", "json")
    assert code == 0, said
    assert json.loads(out)["n_packages"] == 648


def test_packages_are_counted_not_what_was_tried() -> None:
    """A dear type first makes many tries that are no maximal package; a limit of as many packages allows the list."""
    quotes = pd.DataFrame({"name": ["A", "B"], "category": ["a", "b"], "cpus": 1, "mem_gb": 1.0, "gpus": 0})
    quotes["price_usd"] = [20_000.0, 300.0]
    rules = PackageRules(budget_usd=1_000_000, min_gpu_nodes=0)
    assert len(expand_packages(quotes, rules, most=1_000)) == 51
    with pytest.raises(TooManyPackages, match="more than 50 packages") as refused:
        EnumerationLimit(50).add(0, packages=51)
    assert refused.value.more_than == 50


def test_nothing_is_told_of_maximal_packages_under_discounts() -> None:
    """Such a list is begun, and ends where it takes too long."""
    quotes = read_quotes(EXAMPLE)
    tier = {"category": quotes["category"].iloc[0], "from_count": 5, "percent": 10}
    rules = PackageRules(budget_usd=200_000, discounts=[tier])
    assert least_number(build_constraints(quotes, rules)) == 0
    assert np.isfinite(least_number(build_constraints(quotes, PackageRules(budget_usd=1e12, types_per_category="any"))))
