"""The rules of an offer as arrays over all types, asked of many packages at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from procure.packages.offer import UNBOUNDED, Offer

NONE = -1


@dataclass(frozen=True)
class Legal:
    """Which counts each type may have, and which types may stand beside each other.

    Every array has an entry per quoted type, in quote order: ``offered``; the allowed counts, none
    where ``zero``, then ``first``, ``first + step`` … ``last``; ``costs``, int64 (types, limits), as in
    `procure.packages.offer.Choice`; ``category``; ``lot`` and ``vendor``, −1 where no award binds the type;
    ``mandatory``.
    """

    offer: Offer
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

    @property
    def n_types(self) -> int:
        """How many types are quoted."""
        return len(self.offered)

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
        held = np.stack([chosen[:, self.category == c].sum(axis=1) for c in range(self._n(self.category))], 1)
        award = np.full((len(chosen), self._n(self.lot)), NONE)
        for bound in np.flatnonzero(self.lot != NONE):
            award[chosen[:, bound], self.lot[bound]] = self.vendor[bound]
        most = self.offer.types_per_category or self.n_types
        for place in range(order.shape[1]):
            j = order[:, place]
            lot = np.maximum(self.lot[j], 0)
            free = (
                (self.lot[j] == NONE)
                | np.isin(award[rows, lot], (NONE,))
                | (award[rows, lot] == self.vendor[j])
            )
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
        if self.offer.types_per_category is not None:
            same = (self.category == self.category[j][:, None]) & chosen
            same[np.arange(len(j)), j] = False
            rivals |= same & ~self.mandatory & (same.sum(axis=1) >= self.offer.types_per_category)[:, None]
        return rivals & chosen

    def rest(self, counts: np.ndarray) -> np.ndarray:
        """Return what packages leave of each limit, at the least conceivable prices."""
        return np.asarray(self.offer.limits, dtype=np.int64) - counts @ self.costs

    def affordable(self, counts: np.ndarray) -> np.ndarray:
        """Tell which packages are within all limits, discounts reckoned."""
        within = (self.rest(counts) >= 0).all(axis=1)
        if self.offer.prices is not None:
            within &= self.offer.prices.order_cents(counts) <= self.offer.limits[0]
        return np.asarray(within)

    def enough(self, counts: np.ndarray) -> np.ndarray:
        """Tell which packages hold a node at all, and the least numbers that the rules ask for."""
        keep = counts.any(axis=1)
        for rule in self.offer.least:
            keep &= counts[:, sorted(rule.rows)].sum(axis=1) >= rule.n
        return np.asarray(keep)

    def most(self, counts: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Return the largest allowed count of type ``j[row]`` beside the other counts; −1 for none."""
        rows = np.arange(len(counts))
        others = counts.copy()
        others[rows, j] = 0
        rest = self.rest(others)
        top = self.last[j].copy()
        for k in range(rest.shape[1]):
            cost = self.costs[j, k]
            np.minimum(top, np.where(cost > 0, rest[:, k] // np.maximum(cost, 1), UNBOUNDED), out=top)
        top = self.at_most(j, top)
        if self.offer.prices is not None:
            self._lower_to_price(others, rows, j, top)
        return top

    def at_most(self, j: np.ndarray, n: np.ndarray) -> np.ndarray:
        """Return the largest allowed count of type ``j[row]`` up to ``n``; −1 where there is none."""
        bought = self.first[j] + (n - self.first[j]) // self.step[j] * self.step[j]
        none = np.where(self.zero[j] & (n >= 0), 0, -1)
        return np.where(n >= self.first[j], bought, none)

    def _lower_to_price(self, others: np.ndarray, rows: np.ndarray, j: np.ndarray, top: np.ndarray) -> None:
        """Lower ``top`` in place until the discounted order is within budget."""
        assert self.offer.prices is not None
        over = np.flatnonzero(top >= 0)
        while over.size:
            others[over, j[over]] = top[over]
            over = over[self.offer.prices.order_cents(others[over]) > self.offer.limits[0]]
            top[over] = self.at_most(j[over], top[over] - 1)
            over = over[top[over] >= 0]

    def fill(self, counts: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Raise every type as far as the rest of the budget affords, in the order given; −1 is skipped.

        Under discounts a larger order can cost less, so the types are gone through until none grows.
        """
        counts = counts.copy()
        rows = np.arange(len(counts))
        while True:
            before = counts.copy()
            for place in range(order.shape[1]):
                j = np.maximum(order[:, place], 0)
                ask = np.flatnonzero(order[:, place] >= 0)
                if ask.size:
                    top = self.most(counts[ask], j[ask])
                    counts[rows[ask], j[ask]] = np.maximum(counts[rows[ask], j[ask]], top)
            if self.offer.prices is None or (counts == before).all():
                return counts

    def _n(self, ids: np.ndarray) -> int:
        return int(ids.max(initial=0)) + 1


def make_legal(offer: Offer, n_types: int) -> Legal:
    """Lay an offer out as arrays."""
    choices = [choice for choices in offer.categories for choice in choices]
    ids = {name: np.full(n_types, NONE, dtype=np.int64) for name in ("category", "lot", "vendor")}
    whole = {name: np.zeros(n_types, dtype=np.int64) for name in ("first", "last")} | {
        "step": np.ones(n_types, dtype=np.int64)
    }
    flags = {name: np.zeros(n_types, dtype=bool) for name in ("offered", "zero", "mandatory")}
    costs = np.zeros((n_types, len(offer.limits)), dtype=np.int64)
    flags["zero"][:] = True
    ids["category"][:] = len(offer.categories)
    awards: dict[object, int] = {}
    for c, members in enumerate(offer.categories):
        ids["category"][[choice.row for choice in members]] = c
    for choice in choices:
        j = choice.row
        flags["offered"][j], flags["zero"][j], flags["mandatory"][j] = True, choice.zero, choice.mandatory
        whole["first"][j], whole["step"][j], whole["last"][j] = choice.first, choice.step, choice.last
        costs[j] = choice.costs
        if choice.award is not None:
            ids["lot"][j] = awards.setdefault(("lot", choice.award[0]), len(awards))
            ids["vendor"][j] = awards.setdefault(("vendor", choice.award[1]), len(awards))
    return Legal(offer, **flags, **whole, costs=costs, **ids)
