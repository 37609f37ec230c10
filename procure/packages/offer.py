"""What may be bought: the allowed counts of each quoted type and the limits on all, asked of many packages at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from procure.packages.prices import PriceList

UNBOUNDED = 2**40
"""More nodes than any package holds, and small enough that a sum of several stays in int64."""
NONE = -1


@dataclass(frozen=True)
class Least:
    """A rule that a package holds at least ``n`` nodes of the quotes in ``rows``; ``name`` is its key."""

    name: str
    rows: frozenset[int]
    n: int


@dataclass(frozen=True)
class Offer:
    """Which counts each type may have, which types may stand beside each other, and what limits the package.

    Arrays have an entry per quoted type, in quote order: ``offered``; the allowed counts, none where ``zero``, then
    ``first``, ``first + step`` … ``last``; ``costs``, one node's cents, mW and mU, as far as they are limited, int64
    (types, limits), where under discounts the cents are the least that a node can cost; ``category``; ``lot`` and
    ``vendor``, −1 where no award to one vendor binds the type; ``mandatory``: it is in every package.
    ``types_per_category`` is None where any number may be bought at once; ``prices`` is None where an order costs
    its list price.
    """

    offered: np.ndarray
    zero: np.ndarray
    first: np.ndarray
    step: np.ndarray
    last: np.ndarray
    costs: np.ndarray
    category: np.ndarray
    lot: np.ndarray
    vendor: np.ndarray
    mandatory: np.ndarray
    limits: tuple[int, ...]
    limit_names: tuple[str, ...]
    least: tuple[Least, ...]
    maximal: bool
    types_per_category: int | None = 1
    prices: PriceList | None = None

    @property
    def n_types(self) -> int:
        """How many types are quoted."""
        return len(self.offered)

    @property
    def categories(self) -> list[list[int]]:
        """The types of each category that may be bought, in quote order."""
        every = range(int(self.category.max()) + 1)
        return [np.flatnonzero(self.offered & (self.category == one)).tolist() for one in every]

    def with_limits(self, limits: tuple[int, ...]) -> Offer:
        """Return the offer under the first limits only, at other values."""
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
        """Add types in the order given until no further one may be chosen.

        Parameters
        ----------
        chosen
            bool (rows, types): legal choices.
        order
            int64 (rows, types).
        """
        chosen = chosen.copy()
        rows = np.arange(len(chosen))
        n_categories, n_lots = (int(ids.max(initial=0)) + 1 for ids in (self.category, self.lot))
        held = np.stack([chosen[:, self.category == c].sum(axis=1) for c in range(n_categories)], 1)
        award = np.full((len(chosen), n_lots), NONE)
        for bound in np.flatnonzero(self.lot != NONE):
            award[chosen[:, bound], self.lot[bound]] = self.vendor[bound]
        most = self.types_per_category or self.n_types
        for place in range(order.shape[1]):
            j = order[:, place]
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
        """Tell which chosen types must go before type ``j[row]`` can join, bool (rows, types).

        Rivals for its lot must; and where its category is full, all types of it that are not mandatory.
        """
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
        """Tell which packages hold allowed counts of types that may stand beside each other, whatever they cost.

        Caps on power and rack units count, the budget and the least numbers do not.
        """
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
        if self.prices is None:
            return top
        left = np.flatnonzero(top >= 0)
        while left.size:
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
        """Raise every type as far as the rest of the budget affords, in the order given; −1 is skipped.

        Under discounts a larger order can cost less, so the types are gone through until none grows.
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
