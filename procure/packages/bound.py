"""How many packages the rules allow at least, counted without a list of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from procure.packages.offer import NONE, Offer

_BINS = 50_000
"""Into so many equal parts a limit is divided at most."""
_ADDED, _CELLS = 20_000, 20_000_000
"""How many types are added to tables of ways at most, and how many cells are filled thereby; some seconds."""
_MOST = 1e280
"""Numbers of ways end here: a sum of many is still finite."""
_ROUNDED = 1 - 1e-9
"""More than what the rounding of the sums can take off."""


def least_number(offer: Offer) -> float:
    """Return a number that the packages of an offer surely reach, as rows of the package table; 0 = none is known.

    A dynamic programme over the limits counts the ways to spend them. Costs are rounded up to a part of the limit, so
    that it counts too few; where they are multiples of a part, it misses nothing. Of maximal packages it takes those
    that are filled up with their cheapest type: what is left then buys no other. It takes each type in turn to fulfil
    a least number alone; where lots tie types, one choice of types; of thousands of types in a category, choices
    that share all but a few; nothing of maximal packages under discounts.
    """
    if offer.prices is not None and offer.maximal:
        return 0.0
    offer = _at_list_prices(offer)
    m = offer.types_per_category or 1
    chosen = max(1, _ADDED // offer.n_types)
    n_added = offer.n_types * min(m, chosen, max(map(len, offer.categories)))
    cases = list(itertools.islice(_cases(offer), max(1, _ADDED // n_added)))
    bins = max(100, min(_BINS, _CELLS // max(1, n_added * len(cases))))
    return min(_MOST, sum(_number(case, need, last, bins, chosen) for case, need, last in cases)) * _ROUNDED


def _at_list_prices(offer: Offer) -> Offer:
    """Return the offer without discounts, and with no count but the last of a type that costs nothing."""
    costs, zero, first = offer.costs.copy(), offer.zero.copy(), offer.first.copy()
    if offer.prices is not None:
        costs[:, 0] = offer.prices.list_cents
    if offer.maximal:
        free = offer.offered & ~costs.any(axis=1)
        zero[free], first[free] = False, offer.last[free]
    return replace(offer, costs=costs, zero=zero, first=first, prices=None)


def _cases(offer: Offer) -> Iterator[tuple[Offer, list[int], int | None]]:
    """Yield offers that have no package in common, the number of types of each category, and what fills them up."""
    for one in _with_least(offer):
        if (one.lot != NONE).any():
            if not _is_legal(one):
                continue
            chosen = one.complete(one.mandatory[np.newaxis], np.arange(one.n_types)[np.newaxis])[0]
            one = replace(one, offered=chosen, types_per_category=None)
        m = one.types_per_category or one.n_types
        need = [min(m, len(members)) for members in one.categories]
        if not one.maximal or not one.costs[one.offered].any():
            yield one, need, None
            continue
        step = one.costs * one.step[:, np.newaxis]
        paid = one.offered & one.costs.any(axis=1)
        for j in sorted(np.flatnonzero(paid).tolist(), key=lambda j: (step[j, 0], j)):
            dearer = (step[:, 0] > step[j, 0]) | ((step[:, 0] == step[j, 0]) & (np.arange(one.n_types) >= j))
            open_ = one.offered & (dearer | ~paid)
            rest = replace(one, offered=open_, mandatory=one.mandatory | (np.arange(one.n_types) == j))
            short = any(len(c) < n for c, n in zip(rest.categories, need, strict=True))
            if short or (one.mandatory & ~open_).any():
                break  # dearer types leave still fewer
            if (step[open_ & paid] >= step[j]).all():
                yield rest, need, j


def _with_least(offer: Offer) -> Iterator[Offer]:
    """Yield offers of which each package has the least numbers: for each, one type is the first to have it alone."""
    members = [
        sorted((j for j in rule.rows if offer.offered[j]), key=lambda j: (offer.costs[j, 0], j)) for rule in offer.least
    ]
    for alone in itertools.product(*members):
        zero, first, last, mandatory = (each.copy() for each in (offer.zero, offer.first, offer.last, offer.mandatory))
        for rule, candidates, j in zip(offer.least, members, alone, strict=True):
            for before in candidates[: candidates.index(j)]:
                last[before] = min(last[before], (rule.n - 1) // offer.step[before] * offer.step[before])
            first[j] = max(first[j], -(-rule.n // offer.step[j]) * offer.step[j])
            zero[j], mandatory[j] = False, True
        yield replace(offer, zero=zero, first=first, last=last, mandatory=mandatory, least=())


def _is_legal(offer: Offer) -> bool:
    """Tell whether the mandatory types may stand beside each other."""
    must = np.flatnonzero(offer.mandatory)
    m = offer.types_per_category or offer.n_types
    awards = {(offer.lot[j], offer.vendor[j]) for j in must if offer.lot[j] != NONE}
    return (
        bool(offer.offered[must].all())
        and len(awards) == len({lot for lot, _ in awards})
        and (not must.size or np.bincount(offer.category[must]).max() <= m)
    )


def _number(offer: Offer, need: list[int], last: int | None, bins: int, chosen: int) -> float:
    """Count the packages of one case; those that are filled up with type ``last``, where one is given.

    Of a category ``chosen`` types are chosen freely; the others are its first.
    """
    weights, top = _weights(offer, bins)
    ways = np.ones(top + 1)
    for category, n in enumerate(need):
        states: list[np.ndarray | None] = [ways] + [None] * n
        members = np.flatnonzero(offer.offered & (offer.category == category)).tolist()
        optional = [j for j in members if not offer.mandatory[j]]
        fixed = set(optional[: max(0, n - (len(members) - len(optional)) - chosen)])
        for j in members:
            must = len(members) == n or offer.mandatory[j] or j in fixed
            for k in range(n, -1, -1):
                # Type j is the k-th that is chosen, or it is not.
                before = states[k - 1] if k else None
                joined = before if before is None or j == last else _added(before, offer, j, weights[j])
                kept = None if must else states[k]
                found = [each for each in (joined, kept) if each is not None]
                states[k] = np.minimum(sum(found[1:], found[0]), _MOST) if found else None
        end = states[n]
        if end is None:
            return 0.0
        ways = end
    if last is None:
        return float(ways[top] - ways[0])  # a package without any node is none
    return _filled(offer, ways, weights, last)


def _weights(offer: Offer, bins: int) -> tuple[list[int], int]:
    """Return what a node of each type takes of the limits, in parts, rounded up, and how many parts there are.

    Of several limits, a type takes that part which is the largest: so much is enough for all.
    """
    costs, limits = offer.costs.tolist(), offer.limits
    part = math.gcd(*(costs[j][0] for j in np.flatnonzero(offer.offered)))
    if len(limits) == 1 and part and limits[0] // part <= bins:
        return [-(-cost[0] // part) for cost in costs], limits[0] // part
    return [
        max(
            -(-cost * bins // limit) if limit else (bins + 1) * bool(cost)
            for cost, limit in zip(each, limits, strict=True)
        )
        for each in costs
    ], bins


def _added(ways: np.ndarray, offer: Offer, j: int, weight: int) -> np.ndarray:
    """Return in how many ways at most so many parts are spent, float64 (parts + 1), with type j among the types."""
    first, step, last = (int(each[j]) for each in (offer.first, offer.step, offer.last))
    found = ways.copy() if offer.zero[j] else np.zeros_like(ways)
    n, base = (last - first) // step + 1, ways[: max(0, len(ways) - first * weight)]
    if n < 1 or not len(base):
        return found
    stride = step * weight
    if not stride:
        more = base * n
    elif stride >= len(base):
        more = base
    else:
        # Row i holds what i steps leave; a running sum down a column adds up the counts.
        rows = np.pad(base, (0, -len(base) % stride)).reshape(-1, stride).cumsum(axis=0)
        if n < len(rows):
            rows[n:] -= rows[:-n].copy()
        more = rows.ravel()[: len(base)]
    found[len(ways) - len(base) :] += more
    return np.minimum(found, _MOST)


def _filled(offer: Offer, ways: np.ndarray, weights: list[int], j: int) -> float:
    """Return how many of the ways to buy the other types leave a maximal package once type j takes the rest."""
    first, step, last = (int(each[j]) for each in (offer.first, offer.step, offer.last))
    top = len(ways) - 1 - first * weights[j]
    if last < first or top < 0:
        return 0.0
    if offer.zero[j] and first == step:
        top = len(ways) - 1  # nothing is left that buys it, or any other
    n = float(ways[top])
    spent = [limit - (last + step) * int(cost) for limit, cost in zip(offer.limits, offer.costs[j], strict=True)]
    if min(spent) >= 0:
        # Where type j ends before the money does, the others must have spent more than this.
        if len(spent) > 1:
            return 0.0
        others = [i for i in np.flatnonzero(offer.offered) if offer.costs[i, 0]]
        dearest = max((Fraction(weights[i], int(offer.costs[i, 0])) for i in others), default=Fraction(0))
        n -= float(ways[min(top, math.floor(dearest * spent[0]))])
    return n
