"""Why an offer has no package at all: which rule excluded the last ones."""

from __future__ import annotations

from dataclasses import replace

from procure.packages.enumerate import TooManyPackages, Work, blocks, combinations
from procure.packages.offer import Least, Offer
from procure.packages.prices import WholeOrders
from procure.packages.terms import SCALES

_MOST = 2_000_000
"""The most packages that are gone through to answer."""
_COUNTED = 10**18
"""Larger costs are not told apart; sums of them would leave 64 bits."""


def explain_infeasible(offer: Offer) -> str:
    """Say which rule excluded the last packages of an offer that has none, and what it would have to be.

    The rules are taken in this order: counts, with the lots, budget, power, rack units.
    """
    try:
        return _explain(offer, Work(_MOST))
    except TooManyPackages:
        return "packages: the rules together exclude every package; there are too many to say which rule does"


def _explain(offer: Offer, work: Work) -> str:
    counts = _too_few(offer, work)
    if counts:
        return counts
    for k in range(len(offer.limits)):
        if not _feasible(offer.with_limits(offer.limits[: k + 1]), work):
            break
    name = offer.limit_names[k]
    if name == "budget" and isinstance(offer.prices, WholeOrders):
        return (
            "packages: the budget excludes every package: the whole order (racks, network, percentages and tax) of "
            f"each is above it; before racks and network ${offer.limits[k] / SCALES[name]:,.2f} are left for servers"
        )
    least = _least_limit(offer, k, work)
    needed, given = (least or _COUNTED) / SCALES[name], offer.limits[k] / SCALES[name]
    if name == "budget":
        return (
            f"packages: the budget excludes every package: ${given:,.2f} after fixed costs, "
            f"and the cheapest package that the counts allow costs {'' if least else 'more than '}${needed:,.2f}"
        )
    return (
        f"packages: {name} = {given:g} excludes every package that the budget allows; "
        f"{'at least' if least else 'more than'} {needed:g} is needed"
    )


def _too_few(offer: Offer, work: Work) -> str:
    """Say which least numbers of nodes no choice of types can reach, if there are such."""
    most = dict.fromkeys(offer.least, 0)
    together = False
    for types in combinations(offer, work):
        found = {rule: sum(int(offer.last[j]) for j in types if j in rule.rows) for rule in offer.least}
        most = {rule: max(most[rule], n) for rule, n in found.items()}
        together |= all(n >= rule.n for rule, n in found.items())
    for rule, n in most.items():
        if n < rule.n:
            nodes = "nodes with GPUs" if rule.name == "min_gpu_nodes" else "such nodes"
            return f"packages: {_spelled(rule)} excludes every package; the other counts allow at most {n} {nodes}"
    if together:
        return ""
    m = "any" if offer.types_per_category is None else offer.types_per_category
    return (
        f"packages: {' and '.join(map(_spelled, offer.least))} together exclude every package: "
        f"no choice of types allows all of them (types_per_category = {m}, one_vendor_per_lot, mandatory types)"
    )


def _spelled(rule: Least) -> str:
    return f"{rule.name} = {rule.n}"


def _feasible(offer: Offer, work: Work) -> bool:
    # Any package grows into a maximal one, and of those there are far fewer to go through; but under
    # discounts the maximal ones are known only when a whole combination is.
    return next(blocks(replace(offer, maximal=offer.prices is None), size=4096, work=work), None) is not None


def _least_limit(offer: Offer, k: int, work: Work) -> int | None:
    """Return the least value of limit ``k`` under which, with the limits before it, a package exists.

    None if it is beyond `_COUNTED`.
    """

    def feasible(value: int) -> bool:
        return _feasible(offer.with_limits((*offer.limits[:k], value)), work)

    low, high = offer.limits[k], max(1, offer.limits[k])
    while not feasible(high):
        if high == _COUNTED:
            return None
        low, high = high, min(2 * high, _COUNTED)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if feasible(middle) else (middle, high)
    return high
