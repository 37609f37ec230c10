"""What the vendors charge for an order: list prices less the tiered discounts that it reaches."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.packages.rules import Discount, Order, PackageRules
from procure.text import nearest

_WHOLE = 10_000
"""Percentages go to two places, so a share is a whole number of ten-thousandths."""

TOO_DEAR = 4 * 10**18
"""Cents that no budget reaches; sums and products of orders below it fit 64 bits."""

_ROUNDING = 1e-9
"""More than sums of floats are off by, as a share."""

_SCOPES = {"vendor": "vendor", "lot": "lot", "category": "category", "type": "name"}
"""A discount's key and the quote column that it is compared with."""


@dataclass(frozen=True)
class Tier:
    """One discount on some types: from a number of nodes and cents on, a share off the price of all of them."""

    from_count: int
    from_cents: int
    share: int  # in ten-thousandths of the list price
    cents_off: int  # per node, instead of the share where it is not 0

    def reduction(self, n_nodes: np.ndarray, cents: np.ndarray) -> np.ndarray:
        """Return the amount taken off, in whole cents: a fraction of a cent stays with the vendor."""
        if self.cents_off:
            off = n_nodes * self.cents_off
        else:
            # cents * share // _WHOLE, in two parts that do not overflow.
            off = cents // _WHOLE * self.share + cents % _WHOLE * self.share // _WHOLE
        return np.where((n_nodes >= self.from_count) & (cents >= self.from_cents), off, 0)


@dataclass(frozen=True)
class PriceList:
    """List prices and discounts in cents; with an ``order``, what its whole budget does not pay is too dear."""

    list_cents: np.ndarray  # int64[types], one node of each type
    least_cents: np.ndarray  # int64[types]: no order costs less than counts × these
    scopes: tuple[tuple[np.ndarray, tuple[Tier, ...]], ...]  # the bool[types] that each is about, and its tiers
    order: Order | None = None  # what comes beside the servers
    budget_cents: int = 0
    fixed_cents: int = 0
    units: np.ndarray | None = None  # float64[types], rack units of one node

    def order_cents(self, counts: np.ndarray) -> np.ndarray:
        """Return the int64[n] cents of orders, int64[n, types]; `TOO_DEAR` of those that are above it or the budget."""
        counts = np.asarray(counts, dtype=np.int64)
        found = self._servers_cents(counts)
        if self.order is None:
            return found
        whole = self.order.total(found / 100, self.fixed_cents / 100, counts.sum(axis=1), counts @ self.units)
        return np.where(np.round(whole * 100) <= self.budget_cents, found, TOO_DEAR)

    def _servers_cents(self, counts: np.ndarray) -> np.ndarray:
        # Python's integers do not overflow.
        most = int(counts.max(initial=0)) * int(self.list_cents.max(initial=0)) * len(self.list_cents)
        if most > TOO_DEAR:
            dear = counts.astype(np.float64) @ self.list_cents > TOO_DEAR
            found = np.full(len(counts), TOO_DEAR)
            if not dear.all():
                found[~dear] = self._discounted(counts[~dear])
            return found
        return self._discounted(counts)

    def _discounted(self, counts: np.ndarray) -> np.ndarray:
        total = counts @ self.list_cents
        for members, tiers in self.scopes:
            n_nodes = counts[:, members].sum(axis=1)
            cents = counts[:, members] @ self.list_cents[members]
            total -= np.max([tier.reduction(n_nodes, cents) for tier in tiers], axis=0)
        return total

    def affords(self, budget: int, counts: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Return how many nodes of type ``j[row]`` a budget, cents, buys at most, int64[n].

        Of orders int64[n, types] with no more of that type: at the prices of the tiers that these reach. No order
        that costs up to the budget has more; some that have as many cost more.
        """
        floats = np.asarray(counts, dtype=np.float64)
        least = np.tile(self.list_cents.astype(np.float64), (len(floats), 1))
        for members, tiers in self.scopes:
            n_nodes, cents = floats[:, members].sum(axis=1), floats[:, members] @ self.list_cents[members]
            off = np.zeros_like(least)
            for tier in tiers:
                reached = (n_nodes >= tier.from_count) & (cents >= tier.from_cents * (1 - _ROUNDING))
                a_node = tier.cents_off or self.list_cents * (tier.share / _WHOLE)
                np.maximum(off, np.where(reached[:, None], a_node, 0.0), out=off)
            least -= np.where(members, off, 0.0)
        rows = np.arange(len(floats))
        others = (floats * least).sum(axis=1) - floats[rows, j] * least[rows, j]
        price = np.maximum(least[rows, j], 1e-12)
        most = np.maximum(budget - others * (1 - _ROUNDING), 0.0) / price
        return np.minimum(np.floor(most * (1 + _ROUNDING)) + 1, 2.0**60).astype(np.int64)

    def line_discounts(self, counts: np.ndarray) -> np.ndarray:
        """Return the int64[types] cents that discounts take off each line of one order, int64[types].

        What a scope takes off is shared among its lines by their list prices, rounded down; the cents that are then
        missing go one each to the lines with the largest remainders, of equals to the first quoted. The lines add
        up to `order_cents`.
        """
        counts = np.asarray(counts, dtype=np.int64)
        lines = counts * self.list_cents
        found = np.zeros(len(counts), dtype=np.int64)
        for members, tiers in self.scopes:
            cents = np.where(members, lines, 0)
            total = int(cents.sum())
            n_nodes = np.array([counts[members].sum()])
            off = int(max(tier.reduction(n_nodes, np.array([total]))[0] for tier in tiers))
            if not off:
                continue
            # Python's integers: cents times cents do not fit 64 bits.
            exact = [int(one) * off for one in cents]
            share = np.array([one // total for one in exact], dtype=np.int64)
            rest = np.array([one % total for one in exact], dtype=np.float64)
            share[np.argsort(-rest, kind="stable")[: off - int(share.sum())]] += 1
            found += share
        return found

    def of_types(self, rows: list[int]) -> PriceList:
        """Return the price list of orders of some types only, in the order of ``rows``."""
        scopes = tuple((members[rows], tiers) for members, tiers in self.scopes if members[rows].any())
        units = None if self.units is None else self.units[rows]
        return replace(
            self, list_cents=self.list_cents[rows], least_cents=self.least_cents[rows], scopes=scopes, units=units
        )


def order_cents(counts: np.ndarray, quotes: pd.DataFrame, rules: PackageRules) -> np.ndarray:
    """Return the int64[n] cents that vendors charge for orders, int64[n, types], after discounts.

    The list price of all nodes, less for each scope (see `Discount`) the largest reduction among its tiers that the
    order reaches: scopes are reckoned one beside the other, on list prices. A percentage is of the sum over the scope,
    rounded down to the cent; a tier counts for all nodes of its scope, so a larger order may cost less.
    """
    return price_list(quotes, rules).order_cents(counts)


def price_list(quotes: pd.DataFrame, rules: PackageRules) -> PriceList:
    """Prepare list prices and discounts; one that names what no quote has, or takes the whole price, is an error."""
    cents = np.rint(quotes["price_usd"].to_numpy() * 100).astype(np.int64)
    grouped: dict[tuple[str | None, ...], tuple[np.ndarray, list[Tier]]] = {}
    for i, discount in enumerate(rules.discounts):
        where = f"packages.discounts[{i + 1}]"
        members = _members(discount, quotes, where)
        scope = tuple(getattr(discount, key) for key in _SCOPES)
        grouped.setdefault(scope, (members, []))[1].append(_tier(discount, cents[members], where))
    scopes = tuple((members, tuple(tiers)) for members, tiers in grouped.values())
    return PriceList(cents, _least_cents(cents, scopes, quotes), scopes)


def _members(discount: Discount, quotes: pd.DataFrame, where: str) -> np.ndarray:
    """Tell which quotes a discount is about: those that match all that it names."""
    members = np.ones(len(quotes), dtype=bool)
    for key, column in _SCOPES.items():
        wanted = getattr(discount, key)
        if wanted is None:
            continue
        known = quotes[column]
        members &= (known == wanted).to_numpy()
        if not (known == wanted).any():
            legal = [name for name in known.unique() if name]
            raise TableError(f"{where}.{key}: no quote has the {key} {wanted!r}; {nearest(wanted, legal)}")
    if not members.any():
        named = ", ".join(f"{key} {getattr(discount, key)!r}" for key in _SCOPES if getattr(discount, key))
        raise TableError(f"{where}: no quote has {named} together")
    return members


def _tier(discount: Discount, cents: np.ndarray, where: str) -> Tier:
    share = cents_off = 0
    if discount.price_usd is None:
        assert discount.percent is not None
        share = round(discount.percent * 100)
    else:
        # price_usd needs a type, and names are unique: there is one member.
        cents_off = int(cents[0]) - round(discount.price_usd * 100)
        if cents_off <= 0:
            raise TableError(
                f"{where}.price_usd: {discount.price_usd:,.2f} was given; a discount must be below "
                f"the quote's price_usd, {cents[0] / 100:,.2f}"
            )
    return Tier(discount.from_count, round(discount.from_usd * 100), share, cents_off)


def _least_cents(
    cents: np.ndarray, scopes: tuple[tuple[np.ndarray, tuple[Tier, ...]], ...], quotes: pd.DataFrame
) -> np.ndarray:
    """Return what a node of each type costs at least, all its discounts reached, rounded down."""
    least = cents * _WHOLE
    for members, tiers in scopes:
        off = [np.full(len(cents), t.cents_off * _WHOLE) if t.cents_off else cents * t.share for t in tiers]
        least = np.where(members, least - np.max(off, axis=0), least)
    bad = np.flatnonzero((least <= 0) & (cents > 0))
    if bad.size:
        raise TableError(
            f"packages.discounts: those on {quotes['name'].iloc[bad[0]]} could add up to its whole price; "
            "they must stay below it together"
        )
    return np.asarray(least // _WHOLE, dtype=np.int64)
