"""Quotes and rules turned into an offer: the counts that each type may have, and what a package may cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.packages.expiry import check_validity
from procure.packages.offer import NONE, UNBOUNDED, Least, Offer
from procure.packages.prices import PriceList, WholeOrders, price_list
from procure.packages.rules import PackageRules, WholeOrderRules
from procure.text import nearest

SCALES = {"budget": 100, "max_power_w": 1000, "max_rack_units": 1000}
"""Limits are compared as whole cents, milliwatts and thousandths of a rack unit."""


def make_offer(quotes: pd.DataFrame, rules: PackageRules) -> Offer:
    """Turn quotes, as `procure.packages.quotes.check_quotes` returns them, and rules into an offer.

    Raises
    ------
    TableError
        A rule names an unknown category or type, a cap needs figures that the quotes lack, a category
        has no type that its rules allow, nothing bounds the count of a free type, mandatory types
        exclude each other, or quotes have expired that are needed.
    """
    _check_names("categories", rules.categories, quotes["category"])
    _check_names("types", rules.types, quotes["name"])
    expired = check_validity(quotes, rules)
    offered = quotes[~expired]
    if rules.min_gpu_nodes > 0 and not (offered["gpus"] > 0).any():
        raise TableError(
            f"packages: no quoted type has a GPU, and min_gpu_nodes = {rules.min_gpu_nodes} asks for nodes "
            "with one; min_gpu_nodes = 0 lifts the rule"
        )
    prices, limits = _prices(quotes, rules), _limits(rules)
    costs, mandatory = _costs(quotes, prices, limits), quotes["mandatory"].to_numpy()
    lot, vendor = _awards(quotes, rules)
    found = {
        row: counts
        for category in quotes["category"].unique()
        for row, *counts in _allowed(quotes, rules, category, ~expired, costs, mandatory)
    }
    if not found:
        raise TableError("packages: max_count leaves no type to buy")
    zero, first, step, last = np.array([found.get(row, (1, 0, 1, 0)) for row in range(len(quotes))]).T
    offered = np.isin(np.arange(len(quotes)), list(found))
    _check_mandatory_lots(quotes, np.flatnonzero(offered & mandatory & (lot != NONE)), lot, vendor)
    m = None if rules.types_per_category == "any" else rules.types_per_category
    least = _least(quotes, rules, all_of_one=m == 1 and (lot == NONE).all())
    return Offer(
        offered, zero.astype(bool), first, step, last, costs, pd.factorize(quotes["category"])[0],
        np.where(offered, lot, NONE), np.where(offered, vendor, NONE), offered & mandatory,
        tuple(limits.values()), tuple(limits), least, rules.maximal, m,
        prices if prices.scopes or isinstance(prices, WholeOrders) else None,
    )  # fmt: skip


def _check_names(rule: str, given: Iterable[str], known: pd.Series) -> None:
    names = known.unique()
    for name in given:
        if name not in names:
            raise TableError(f"packages.{rule}.{name}: the quotes have no such {known.name}; {nearest(name, names)}")


def _prices(quotes: pd.DataFrame, rules: PackageRules) -> PriceList:
    """Return the price list; where the whole order counts, and turns on how many nodes it has, one that knows it."""
    prices, beside = price_list(quotes, rules), rules.order
    if beside is None or not beside.by_count:
        return prices
    units = quotes["rack_units"] if "rack_units" in quotes else pd.Series(np.nan, index=quotes.index)
    if beside.rack_usd and units.isna().any():
        name = quotes["name"].iloc[int(np.flatnonzero(units.isna())[0])]
        raise TableError(f"costs.within_budget: lines per rack need the rack_units of every quote; {name} has none")
    budget, fixed = round(rules.budget_usd * 100), round(rules.fixed_cost_usd * 100)
    known = units.fillna(0.0).to_numpy(dtype="float64")
    return WholeOrders(prices.list_cents, prices.least_cents, prices.scopes, beside, budget, fixed, known)


def _limits(rules: PackageRules) -> dict[str, int]:
    budget, fixed = round(rules.budget_usd * 100), round(rules.fixed_cost_usd * 100)
    cents = budget - fixed if rules.order is None else rules.order.most_cents(budget, fixed)
    if isinstance(rules, WholeOrderRules) and rules.servers_usd is not None:
        cents = min(cents, round(rules.servers_usd * 100))
    if cents <= 0:
        raise TableError(
            f"packages: with tax and percentages nothing of budget_usd {rules.budget_usd:,.2f} is left for servers; "
            "costs.within_budget = false leaves them out of it"
        )
    limits = {"budget": cents}
    for name in ("max_power_w", "max_rack_units"):
        cap = getattr(rules, name)
        if cap is not None:
            limits[name] = round(cap * SCALES[name])
    return limits


def _costs(quotes: pd.DataFrame, prices: PriceList, limits: dict[str, int]) -> np.ndarray:
    """Return the int64 (types, limits) costs of one node."""
    columns = {"max_power_w": "power_w", "max_rack_units": "rack_units"}
    costs = np.zeros((len(quotes), len(limits)), dtype=np.int64)
    for k, name in enumerate(limits):
        if name == "budget":
            costs[:, k] = prices.least_cents
            continue
        column = columns[name]
        values = quotes[column] if column in quotes else pd.Series(np.nan, index=quotes.index)
        if values.isna().any():
            row = int(np.flatnonzero(values.isna())[0])
            raise TableError(f"packages.{name}: needs the {column} of every quote; {quotes['name'].iloc[row]} has none")
        costs[:, k] = np.rint(values.to_numpy() * SCALES[name]).astype(np.int64)
    return costs


def _awards(quotes: pd.DataFrame, rules: PackageRules) -> tuple[np.ndarray, np.ndarray]:
    """Return each quote's lot and vendor, int64[types]; −1 where that excludes no other quote."""
    none = np.full(len(quotes), NONE)
    if not rules.one_vendor_per_lot:
        return none, none
    n_vendors = quotes.groupby("lot")["vendor"].transform("nunique")
    rivals = ((quotes["lot"] != "") & (n_vendors > 1)).to_numpy()
    for row in np.flatnonzero(rivals & (quotes["vendor"] == "").to_numpy())[:1]:
        raise TableError(
            f"packages: the quote {quotes['name'].iloc[row]} is in lot {quotes['lot'].iloc[row]!r}, which goes to one "
            "vendor, and names no vendor; one_vendor_per_lot = false lifts the rule"
        )
    lot, vendor = (np.where(rivals, pd.factorize(quotes[name])[0], NONE) for name in ("lot", "vendor"))
    return lot, vendor


def _check_mandatory_lots(quotes: pd.DataFrame, bound: np.ndarray, lot: np.ndarray, vendor: np.ndarray) -> None:
    """Refuse mandatory types of different vendors of one lot; ``bound`` are the mandatory types of lots."""
    held: dict[int, int] = {}
    for row in bound:
        other = held.setdefault(lot[row], row)
        if vendor[other] != vendor[row]:
            names = quotes["name"].iloc[[other, row]].tolist()
            raise TableError(
                f"packages: {names[0]} and {names[1]} are both mandatory, but lot {quotes['lot'].iloc[row]!r} goes to "
                "one vendor; one_vendor_per_lot = false lifts the rule"
            )


def _least(quotes: pd.DataFrame, rules: PackageRules, all_of_one: bool) -> tuple[Least, ...]:
    """Return the least numbers that the counts of single types do not express already."""
    gpu_rows = frozenset(np.flatnonzero((quotes["gpus"] > 0).to_numpy()).tolist())
    least = [Least("min_gpu_nodes", gpu_rows, rules.min_gpu_nodes)] if rules.min_gpu_nodes else []
    for category, n in rules.categories.items():
        if n > 0 and not all_of_one:
            rows = np.flatnonzero((quotes["category"] == category).to_numpy()).tolist()
            least.append(Least(f"categories.{category}", frozenset(rows), n))
    return tuple(least)


def _allowed(
    quotes: pd.DataFrame,
    rules: PackageRules,
    category: str,
    valid: np.ndarray,
    costs: np.ndarray,
    mandatory: np.ndarray,
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the types of one category that may be bought: row, whether none is allowed, first, step and last count."""
    rows = np.flatnonzero((quotes["category"] == category).to_numpy() & valid)
    must = rows[mandatory[rows]]
    m = len(quotes) if rules.types_per_category == "any" else rules.types_per_category
    if len(must) > m:
        names = " and ".join(quotes["name"].iloc[must[: m + 1]])
        raise TableError(
            f"packages: {names} are {'both' if m == 1 else 'all'} mandatory, but a package takes "
            f"{'one type' if m == 1 else f'{m} types'} of {category} (types_per_category = {m})"
        )
    least, none = rules.categories.get(category, 0), True
    for row in (must if len(must) == m else rows).tolist():
        name, needed = quotes["name"].iloc[row], bool(mandatory[row])
        low, high, step = _bounds(quotes, rules, row)
        # The one type of a category is all that its least number can come from.
        first = -(-max(low, least if m == 1 else 0, 1) // step) * step
        last = high // step * step if high < UNBOUNDED else high
        if not costs[row].any() and last == UNBOUNDED:
            raise TableError(f"packages: {name} costs nothing, so it needs a max_count")
        if first <= last:
            none = False
            yield row, int(not needed and (m > 1 or least == 0)), first, step, last
        elif needed:
            raise TableError(
                f"packages: mandatory {name} excludes every package: max_count {high} allows no type of {category}"
                + (f" (pack_size {step}, at least {max(low, 1)})" if step > 1 else "")
            )
    if none and least:
        raise TableError(
            f"packages: categories.{category} = {least} excludes every package: "
            + (f"max_count allows no type of {category}" if len(rows) else "all its quotes have expired")
        )


def _bounds(quotes: pd.DataFrame, rules: PackageRules, row: int) -> tuple[int, int, int]:
    """Return the least count of a type that is bought, the most, and the pack size."""
    name = quotes["name"].iloc[row]
    rule = rules.types.get(name)

    def bound(key: str, default: int) -> int:
        own = getattr(rule, key, None)
        if own is not None:
            return int(own)
        quoted = quotes[key].iloc[row] if key in quotes else pd.NA
        return default if pd.isna(quoted) else int(quoted)

    low, high = bound("min_count", 0), min(bound("max_count", UNBOUNDED), UNBOUNDED)
    if low > high:
        raise TableError(f"packages.types.{name}: min_count {low} is above max_count {high}")
    return low, high, bound("pack_size", 1)
