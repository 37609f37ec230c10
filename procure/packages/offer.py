"""What may be bought: quotes and rules turned into the allowed counts of each type and the limits on all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.packages.expiry import check_validity
from procure.packages.prices import PriceList, price_list
from procure.packages.rules import PackageRules
from procure.text import nearest

UNBOUNDED = 2**40
"""More nodes than any package holds, and small enough that a sum of several stays in int64."""

SCALES = {"budget": 100, "max_power_w": 1000, "max_rack_units": 1000}
"""Limits are compared as whole cents, milliwatts and thousandths of a rack unit."""


@dataclass(frozen=True)
class Choice:
    """The counts allowed for one type: none (where ``zero``), then ``first``, ``first + step`` … ``last``.

    ``row`` is the type's row in the quote table; ``costs`` are one node's cents, mW and mU, as far as
    they are limited; under discounts the cents are the least that a node can cost. ``award`` is the
    type's lot and vendor, where a lot goes to one vendor; a ``mandatory`` type is in every package.
    """

    row: int
    zero: bool
    first: int
    step: int
    last: int
    has_gpu: bool
    costs: tuple[int, ...]
    award: tuple[str, str] | None = None
    mandatory: bool = False

    def most(self, rest: np.ndarray) -> np.ndarray:
        """Return how many nodes the rest of the budget affords; ``rest`` is (rows, limits)."""
        most = np.full(len(rest), self.last, dtype=np.int64)
        for k, cost in enumerate(self.costs):
            if cost > 0:
                np.minimum(most, rest[:, k] // cost, out=most)
        return most

    def n_allowed(self, most: np.ndarray) -> np.ndarray:
        """Return how many of the allowed counts are at most ``most``."""
        return self.zero + np.maximum((most - self.first) // self.step + 1, 0)

    def nth(self, index: np.ndarray) -> np.ndarray:
        """Return the allowed counts by their index, ascending."""
        counts = self.first + (index - self.zero) * self.step
        return np.where(index == 0, 0, counts) if self.zero else counts

    def can_grow(self, counts: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Tell where the next allowed count is still affordable."""
        further = np.where(counts == 0, self.first, counts + self.step)
        # Not last - counts, since the rest may afford more than last.
        return (further <= self.last) & (further - counts <= self.most(rest))


@dataclass(frozen=True)
class Least:
    """A rule that a package holds at least ``n`` nodes of the quotes in ``rows``; ``name`` is its key."""

    name: str
    rows: frozenset[int]
    n: int


@dataclass(frozen=True)
class Offer:
    """What may be bought: the types of each category, how they combine, and what limits the package.

    ``types_per_category`` is None where any number may be bought at once; ``prices`` is None where
    an order costs its list price.
    """

    categories: tuple[tuple[Choice, ...], ...]
    limits: tuple[int, ...]
    limit_names: tuple[str, ...]
    least: tuple[Least, ...]
    maximal: bool
    types_per_category: int | None = 1
    prices: PriceList | None = None

    def with_limits(self, limits: tuple[int, ...]) -> Offer:
        """Return the offer under the first limits only, at other values."""
        n = len(limits)
        categories = tuple(
            tuple(replace(choice, costs=choice.costs[:n]) for choice in choices)
            for choices in self.categories
        )
        return replace(self, categories=categories, limits=limits, limit_names=self.limit_names[:n])


def make_offer(quotes: pd.DataFrame, rules: PackageRules) -> Offer:
    """Turn checked quotes and rules into an offer.

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
    prices = price_list(quotes, rules)
    limits = _limits(rules)
    costs = _costs(quotes, prices, limits)
    awards = _awards(quotes, rules)
    categories = []
    for category in quotes["category"].unique():
        rows = np.flatnonzero((quotes["category"] == category).to_numpy() & ~expired)
        choices = _choices(quotes, rules, category, rows, costs, awards)
        if choices:
            categories.append(choices)
    if not categories:
        raise TableError("packages: max_count leaves no type to buy")
    _check_mandatory_lots(quotes, [choice for choices in categories for choice in choices])
    m = None if rules.types_per_category == "any" else rules.types_per_category
    least = _least(quotes, rules, all_of_one=m == 1 and not any(awards))
    return Offer(
        tuple(categories), tuple(limits.values()), tuple(limits), least, rules.maximal, m,
        prices if prices.scopes else None,
    )  # fmt: skip


def _check_names(rule: str, given: Iterable[str], known: pd.Series) -> None:
    names = known.unique()
    for name in given:
        if name not in names:
            raise TableError(
                f"packages.{rule}.{name}: the quotes have no such {known.name}; {nearest(name, names)}"
            )


def _limits(rules: PackageRules) -> dict[str, int]:
    cents = round(rules.budget_usd * 100) - round(rules.fixed_cost_usd * 100)
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
            raise TableError(
                f"packages.{name}: needs the {column} of every quote; {quotes['name'].iloc[row]} has none"
            )
        costs[:, k] = np.rint(values.to_numpy() * SCALES[name]).astype(np.int64)
    return costs


def _awards(quotes: pd.DataFrame, rules: PackageRules) -> list[tuple[str, str] | None]:
    """Return each quote's lot and vendor; None where that excludes no other quote."""
    if not rules.one_vendor_per_lot or "lot" not in quotes or "vendor" not in quotes:
        return [None] * len(quotes)
    awards: list[tuple[str, str] | None] = []
    n_vendors = quotes.groupby("lot")["vendor"].nunique()
    for name, lot, vendor in zip(quotes["name"], quotes["lot"], quotes["vendor"], strict=True):
        rivals = bool(lot) and n_vendors[lot] > 1
        if rivals and not vendor:
            raise TableError(
                f"packages: the quote {name} is in lot {lot!r}, which goes to one vendor, and names no vendor; "
                "one_vendor_per_lot = false lifts the rule"
            )
        awards.append((lot, vendor) if rivals else None)
    return awards


def _check_mandatory_lots(quotes: pd.DataFrame, choices: list[Choice]) -> None:
    held: dict[str, Choice] = {}
    for choice in choices:
        if choice.award is None or not choice.mandatory:
            continue
        other = held.setdefault(choice.award[0], choice)
        if other.award != choice.award:
            names = quotes["name"].iloc[[other.row, choice.row]].tolist()
            raise TableError(
                f"packages: {names[0]} and {names[1]} are both mandatory, but lot {choice.award[0]!r} goes to "
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


def _choices(
    quotes: pd.DataFrame,
    rules: PackageRules,
    category: str,
    rows: np.ndarray,
    costs: np.ndarray,
    awards: list[tuple[str, str] | None],
) -> tuple[Choice, ...]:
    """Return the types of one category that may be bought, in quote order."""
    must = [row for row in rows if "mandatory" in quotes and quotes["mandatory"].iloc[row]]
    m = len(quotes) if rules.types_per_category == "any" else rules.types_per_category
    if len(must) > m:
        names = " and ".join(quotes["name"].iloc[must[: m + 1]])
        raise TableError(
            f"packages: {names} are {'both' if m == 1 else 'all'} mandatory, but a package takes "
            f"{'one type' if m == 1 else f'{m} types'} of {category} (types_per_category = {m})"
        )
    least = rules.categories.get(category, 0)
    choices = []
    for row in must if len(must) == m else rows:
        low, high, step = _bounds(quotes, rules, row)
        # The one type of a category is all that its least number can come from.
        first = -(-max(low, least if m == 1 else 0, 1) // step) * step
        last = high // step * step if high < UNBOUNDED else high
        if not costs[row].any() and last == UNBOUNDED:
            raise TableError(f"packages: {quotes['name'].iloc[row]} costs nothing, so it needs a max_count")
        if first <= last:
            zero = row not in must and (m > 1 or least == 0)
            gpu = bool(quotes["gpus"].iloc[row] > 0)
            price = tuple(map(int, costs[row]))
            choices.append(Choice(int(row), zero, first, step, last, gpu, price, awards[row], row in must))
        elif row in must:
            raise TableError(
                f"packages: mandatory {quotes['name'].iloc[row]} excludes every package: "
                f"max_count {high} allows no type of {category}"
                + (f" (pack_size {step}, at least {max(low, 1)})" if step > 1 else "")
            )
    if not choices and least:
        raise TableError(
            f"packages: categories.{category} = {least} excludes every package: "
            + (f"max_count allows no type of {category}" if len(rows) else "all its quotes have expired")
        )
    return tuple(choices)


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
