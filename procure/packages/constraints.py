"""Quotes and rules as constraints on many packages at once: the counts that each type may have, and limits on all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.packages.prices import PriceList, price_list
from procure.packages.rules import PackageRules
from procure.text import nearest

UNBOUNDED = 2**40
"""More nodes than any package holds, and small enough that a sum of several stays in int64."""
NONE = -1
SCALES = {"budget": 100, "max_power_w": 1000, "max_rack_units": 1000}
"""Limits are compared as whole cents, milliwatts and thousandths of a rack unit."""


@dataclass(frozen=True)
class MinimumCount:
    """A rule that a package holds at least ``n`` nodes of the quotes in ``rows``; ``name`` is its key."""

    name: str
    rows: frozenset[int]
    n: int


@dataclass(frozen=True)
class PackageConstraints:
    """Which counts each type may have, which types may stand beside each other, and what limits the package.

    Arrays have an entry per quoted type, in quote order. Allowed counts are none where ``zero``, then ``first``,
    ``first + step`` … ``last``.
    """

    offered: np.ndarray
    zero: np.ndarray
    first: np.ndarray
    step: np.ndarray
    last: np.ndarray
    costs: np.ndarray  # int64[types, limits], a node's cents (the least that it can cost), mW and mU, where limited
    category: np.ndarray
    lot: np.ndarray  # −1 where no award to one vendor binds the type, as vendor
    vendor: np.ndarray
    mandatory: np.ndarray  # in every package
    limits: tuple[int, ...]
    limit_names: tuple[str, ...]
    least: tuple[MinimumCount, ...]
    maximal: bool
    types_per_category: int | None = 1  # None: any number
    prices: PriceList | None = None  # None: an order costs its list price

    @property
    def n_types(self) -> int:
        """How many types are quoted."""
        return len(self.offered)

    @property
    def categories(self) -> list[list[int]]:
        """The types of each category that may be bought, in quote order."""
        every = range(int(self.category.max()) + 1)
        return [np.flatnonzero(self.offered & (self.category == one)).tolist() for one in every]

    def with_limits(self, limits: tuple[int, ...]) -> PackageConstraints:
        """Return the same under the first limits only, at other values."""
        n = len(limits)
        return replace(self, costs=self.costs[:, :n], limits=limits, limit_names=self.limit_names[:n])

    # Below, ``j`` is one type for all rows, or one for each row.

    def affords(self, j: int | np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Return how many nodes of a type the rest of the limits, (rows, limits), affords: ``last`` at most."""
        top = np.broadcast_to(self.last[j], len(rest)).copy()
        for k in range(rest.shape[1]):
            cost = self.costs[j, k]
            np.minimum(top, np.where(cost > 0, rest[:, k] // np.maximum(cost, 1), UNBOUNDED), out=top)
        return top

    def n_allowed(self, j: int | np.ndarray, most: np.ndarray) -> np.ndarray:
        """Return how many of a type's allowed counts are at most ``most``."""
        return np.asarray(self.zero[j] + np.maximum((most - self.first[j]) // self.step[j] + 1, 0))

    def nth(self, j: int | np.ndarray, index: np.ndarray) -> np.ndarray:
        """Return a type's allowed counts by their index, ascending."""
        return np.where(self.zero[j] & (index == 0), 0, self.first[j] + (index - self.zero[j]) * self.step[j])

    def at_most(self, j: int | np.ndarray, n: np.ndarray) -> np.ndarray:
        """Return a type's largest allowed count up to ``n``; −1 where there is none."""
        place = self.n_allowed(j, n) - 1
        return np.where((n >= 0) & (place >= 0), self.nth(j, place), NONE)

    def can_grow(self, j: int | np.ndarray, counts: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Tell where a type's next allowed count is still affordable."""
        further = np.where(counts == 0, self.first[j], counts + self.step[j])
        # Not last - counts, since the rest may afford more than last.
        return (further <= self.last[j]) & (further - counts <= self.affords(j, rest))

    def shuffled(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n random orders of the types, int64 (n, types)."""
        return np.argsort(rng.random((n, self.n_types)), axis=1)

    def complete(self, chosen: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Add types to legal choices, bool (rows, types), in the order given, int64 (rows, types), until none can."""
        chosen = chosen.copy()
        rows = np.arange(len(chosen))
        n_categories, n_lots = (int(ids.max(initial=0)) + 1 for ids in (self.category, self.lot))
        held = np.stack([chosen[:, self.category == c].sum(axis=1) for c in range(n_categories)], 1)
        award = np.full((len(chosen), n_lots), NONE)
        for bound in np.flatnonzero(self.lot != NONE):
            award[chosen[:, bound], self.lot[bound]] = self.vendor[bound]
        most = self.types_per_category or self.n_types
        for j in order.T:
            lot = np.maximum(self.lot[j], 0)
            won = award[rows, lot]
            free = (self.lot[j] == NONE) | (won == NONE) | (won == self.vendor[j])
            join = self.offered[j] & ~chosen[rows, j] & (held[rows, self.category[j]] < most) & free
            chosen[rows[join], j[join]] = True
            held[rows[join], self.category[j[join]]] += 1
            tied = join & (self.lot[j] != NONE)
            award[rows[tied], lot[tied]] = self.vendor[j[tied]]
        return chosen

    def excluded_by(self, j: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Tell which chosen types, rivals or of a full category, type ``j[row]`` drives out, bool (rows, types)."""
        rivals = (self.lot == self.lot[j][:, None]) & (self.lot[j] != NONE)[:, None]
        rivals &= self.vendor != self.vendor[j][:, None]
        if self.types_per_category is not None:
            same = (self.category == self.category[j][:, None]) & chosen
            same[np.arange(len(j)), j] = False
            rivals |= same & ~self.mandatory & (same.sum(axis=1) >= self.types_per_category)[:, None]
        return rivals & chosen

    def rest(self, counts: np.ndarray) -> np.ndarray:
        """Return what packages leave of each limit, at the least conceivable prices."""
        return np.asarray(self.limits, dtype=np.int64) - counts @ self.costs

    def affordable(self, counts: np.ndarray) -> np.ndarray:
        """Tell which packages are within all limits, discounts reckoned."""
        within = (self.rest(counts) >= 0).all(axis=1)
        if self.prices is not None:
            within &= self.prices.order_cents(counts) <= self.limits[0]
        return np.asarray(within)

    def admits(self, counts: np.ndarray) -> np.ndarray:
        """Tell which packages hold allowed counts of types that may stand together, within the caps."""
        bought = counts > 0
        legal = (~bought | self.offered).all(axis=1) & (self.rest(counts)[:, 1:] >= 0).all(axis=1)
        for j in range(self.n_types):
            held = counts[:, j]
            legal &= (held == 0) | ((held <= self.last[j]) & (self.at_most(j, held) == held))
        for one in np.unique(self.category) if self.types_per_category else ():
            legal &= bought[:, self.category == one].sum(axis=1) <= self.types_per_category
        for lot in np.unique(self.lot[self.lot != NONE]):
            of = self.vendor[self.lot == lot]
            here = bought[:, self.lot == lot]
            legal &= np.array([len(np.unique(of[row])) <= 1 for row in here], dtype=bool)
        return np.asarray(legal)

    def enough(self, counts: np.ndarray, types: Sequence[int] | None = None) -> np.ndarray:
        """Tell which packages, of some types or all, hold a node, and the least numbers that the rules ask for."""
        keep, held = counts.any(axis=1), range(self.n_types) if types is None else types
        for rule in self.least:
            keep &= counts[:, [place for place, j in enumerate(held) if j in rule.rows]].sum(axis=1) >= rule.n
        return np.asarray(keep)

    def most(self, counts: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Return the largest allowed count of type ``j[row]`` beside the other counts; −1 for none."""
        others = counts.copy()
        others[np.arange(len(counts)), j] = 0
        top = self.at_most(j, self.affords(j, self.rest(others)))
        left = np.flatnonzero(top >= 0) if self.prices is not None else np.zeros(0, np.int64)
        while self.prices is not None and left.size:
            others[left, j[left]] = top[left]
            # Not one node after the other: an order that misses a tier can be millions of nodes too large.
            bought = self.prices.affords(self.limits[0], others[left], j[left])
            fits = bought >= top[left]
            fits[fits] = self.prices.order_cents(others[left[fits]]) <= self.limits[0]
            left, bought = left[~fits], bought[~fits]
            top[left] = self.at_most(j[left], np.minimum(bought, top[left] - 1))
            left = left[top[left] >= 0]
        return top

    def fill(self, counts: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Raise every type as far as the budget affords, in the order given (−1 is skipped), until none grows.

        Under discounts a larger order can cost less.
        """
        counts = counts.copy()
        while True:
            before = counts.copy()
            for place in range(order.shape[1]):
                ask = np.flatnonzero(order[:, place] >= 0)
                if ask.size:
                    j = order[ask, place]
                    counts[ask, j] = np.maximum(counts[ask, j], self.most(counts[ask], j))
            if self.prices is None or (counts == before).all():
                return counts


def build_constraints(quotes: pd.DataFrame, rules: PackageRules) -> PackageConstraints:
    """Turn quotes, as `procure.packages.quotes.check_quotes` returns them, and rules into constraints.

    Rules that name what is not quoted, need figures that quotes lack, or leave no type or no bound are a `TableError`.
    """
    for rule, names, known in (("categories", rules.categories, "category"), ("types", rules.types, "name")):
        legal = quotes[known].unique()
        for name in names:
            if name not in legal:
                raise TableError(f"packages.{rule}.{name}: the quotes have no such {known}; {nearest(name, legal)}")
    if rules.min_gpu_nodes > 0 and not (quotes["gpus"] > 0).any():
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
        for row, *counts in _allowed(quotes, rules, category, costs)
    }
    if not found:
        raise TableError("packages: max_count leaves no type to buy")
    zero, first, step, last = np.array([found.get(row, (1, 0, 1, 0)) for row in range(len(quotes))]).T
    offered = np.isin(np.arange(len(quotes)), list(found))
    _check_mandatory_lots(quotes, np.flatnonzero(offered & mandatory & (lot != NONE)), lot, vendor)
    m = None if rules.types_per_category == "any" else rules.types_per_category
    least = _least(quotes, rules, all_of_one=m == 1 and bool((lot == NONE).all()))
    return PackageConstraints(
        offered, zero.astype(bool), first, step, last, costs, pd.factorize(quotes["category"])[0],
        np.where(offered, lot, NONE), np.where(offered, vendor, NONE), offered & mandatory,
        tuple(limits.values()), tuple(limits), least, rules.maximal, m,
        prices if prices.scopes or prices.order is not None else None,
    )  # fmt: skip


def _needed(quotes: pd.DataFrame, column: str, key: str) -> np.ndarray:
    """Return a column that every quote must state, float64."""
    values = quotes.get(column, pd.Series(np.nan, index=quotes.index))
    if values.isna().any():
        raise TableError(f"{key} the {column} of every quote; {quotes['name'][values.isna()].iloc[0]} has none")
    return values.to_numpy(dtype="float64")


def _prices(quotes: pd.DataFrame, rules: PackageRules) -> PriceList:
    """Return the price list; where the whole order counts, and turns on how many nodes it has, one that knows it."""
    prices, order = price_list(quotes, rules), rules.order
    if order is None or not order.by_count:
        return prices
    units = np.zeros(len(quotes))
    if order.rack_usd:
        units = _needed(quotes, "rack_units", "costs.within_budget: lines per rack need")
    budget, fixed = round(rules.budget_usd * 100), round(rules.fixed_cost_usd * 100)
    return replace(prices, order=order, budget_cents=budget, fixed_cents=fixed, units=units)


def _limits(rules: PackageRules) -> dict[str, int]:
    budget, fixed = round(rules.budget_usd * 100), round(rules.fixed_cost_usd * 100)
    cents = budget - fixed if rules.order is None else rules.order.most_cents(budget, fixed)
    if rules.servers_usd is not None:
        cents = min(cents, round(rules.servers_usd * 100))
    if cents <= 0:
        raise TableError(
            f"packages: with tax and percentages nothing of budget_usd {rules.budget_usd:,.2f} is left for servers; "
            "costs.within_budget = false leaves them out of it"
        )
    caps = {name: getattr(rules, name) for name in ("max_power_w", "max_rack_units")}
    return {"budget": cents} | {name: round(cap * SCALES[name]) for name, cap in caps.items() if cap is not None}


def _costs(quotes: pd.DataFrame, prices: PriceList, limits: dict[str, int]) -> np.ndarray:
    """Return the int64 (types, limits) costs of one node."""
    columns = [prices.least_cents]
    for name in list(limits)[1:]:
        values = _needed(quotes, name.removeprefix("max_"), f"packages.{name}: needs")
        columns.append(np.rint(values * SCALES[name]).astype(np.int64))
    return np.stack(columns, axis=1)


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


def _least(quotes: pd.DataFrame, rules: PackageRules, all_of_one: bool) -> tuple[MinimumCount, ...]:
    """Return the least numbers that the counts of single types do not express already."""

    def rule(name: str, rows: pd.Series, n: int) -> MinimumCount:
        return MinimumCount(name, frozenset(np.flatnonzero(rows).tolist()), n)

    least = [rule("min_gpu_nodes", quotes["gpus"] > 0, rules.min_gpu_nodes)] if rules.min_gpu_nodes else []
    if not all_of_one:
        of = quotes["category"]
        least += [rule(f"categories.{name}", of == name, n) for name, n in rules.categories.items() if n > 0]
    return tuple(least)


def _allowed(
    quotes: pd.DataFrame, rules: PackageRules, category: str, costs: np.ndarray
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the types of one category that may be bought: row, whether none is allowed, first, step and last count."""
    rows = np.flatnonzero((quotes["category"] == category).to_numpy())
    must = rows[quotes["mandatory"].to_numpy()[rows]]
    m = len(quotes) if rules.types_per_category == "any" else rules.types_per_category
    if len(must) > m:
        names = " and ".join(quotes["name"].iloc[must[: m + 1]])
        raise TableError(
            f"packages: {names} are {'both' if m == 1 else 'all'} mandatory, but a package takes "
            f"{'one type' if m == 1 else f'{m} types'} of {category} (types_per_category = {m})"
        )
    least, none = rules.categories.get(category, 0), True
    for row in (must if len(must) == m else rows).tolist():
        name, needed = quotes["name"].iloc[row], bool(quotes["mandatory"].iloc[row])
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
            f"packages: categories.{category} = {least} excludes every package: max_count allows no type of {category}"
        )


def _bounds(quotes: pd.DataFrame, rules: PackageRules, row: int) -> tuple[int, int, int]:
    """Return the least count of a type that is bought, the most, and the pack size."""
    name, defaults = quotes["name"].iloc[row], {"min_count": 0, "max_count": UNBOUNDED, "pack_size": 1}
    found = []
    for key, default in defaults.items():
        own = getattr(rules.types.get(name), key, None)
        quoted = quotes[key].iloc[row] if own is None and key in quotes else own
        found.append(default if quoted is None or pd.isna(quoted) else int(quoted))
    low, high, step = found[0], min(found[1], UNBOUNDED), found[2]
    if low > high:
        raise TableError(f"packages.types.{name}: min_count {low} is above max_count {high}")
    return low, high, step
