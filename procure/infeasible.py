"""Why an offer has no package at all: which rule excluded the last ones."""

from __future__ import annotations

import itertools
from dataclasses import replace

from procure.enumerate import SCALES, UNBOUNDED, Offer, blocks


def explain_infeasible(offer: Offer) -> str:
    """Say which rule excluded the last packages of an offer that has none, and what it would have to be.

    The rules are taken in this order: counts, budget, power, rack units.
    """
    most = max(
        sum(min(choice.last, UNBOUNDED) for choice in choices if choice.has_gpu)
        for choices in itertools.product(*offer.categories)
    )
    if most < offer.min_gpu_nodes:
        return (
            f"packages: min_gpu_nodes = {offer.min_gpu_nodes} excludes every package; "
            f"the other counts allow at most {most} nodes with GPUs"
        )
    for k in range(len(offer.limits)):
        if not _feasible(offer.with_limits(offer.limits[: k + 1])):
            break
    name = offer.limit_names[k]
    needed = _least_limit(offer, k) / SCALES[name]
    given = offer.limits[k] / SCALES[name]
    if name == "budget":
        return (
            f"packages: the budget excludes every package: ${given:,.2f} after fixed costs, "
            f"and the cheapest package that the counts allow costs ${needed:,.2f}"
        )
    return (
        f"packages: {name} = {given:g} excludes every package that the budget allows; "
        f"at least {needed:g} is needed"
    )


def _feasible(offer: Offer) -> bool:
    # Any package grows into a maximal one, and of those there are far fewer to go through.
    return next(blocks(replace(offer, maximal=True), size=4096), None) is not None


def _least_limit(offer: Offer, k: int) -> int:
    """Return the least value of limit ``k`` under which, with the limits before it, a package exists."""

    def feasible(value: int) -> bool:
        return _feasible(offer.with_limits((*offer.limits[:k], value)))

    low, high = offer.limits[k], max(1, offer.limits[k])
    while high < 2**61 and not feasible(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if feasible(middle) else (middle, high)
    return high
