"""Why constraints leave no package at all: which rule excluded the last ones."""

from __future__ import annotations

from dataclasses import replace

from procure.packages.constraints import SCALES, PackageConstraints
from procure.packages.enumerate import EnumerationLimit, TooManyPackages, blocks, combinations

_MOST = 2_000_000
"""The most packages that are gone through to answer."""
_COUNTED = 10**18
"""Larger costs are not told apart; sums of them would leave 64 bits."""


def explain_infeasible(allowed: PackageConstraints) -> str:
    """Say which rule excluded the last packages where there is none, and what it would have to be.

    The rules are taken in this order: counts, with the lots, budget, power, rack units.
    """
    limit = EnumerationLimit(_MOST)
    try:
        return _too_few(allowed, limit) or _too_dear(allowed, limit)
    except TooManyPackages:
        return "packages: the rules together exclude every package; there are too many to say which rule does"


def _too_dear(allowed: PackageConstraints, limit: EnumerationLimit) -> str:
    """Say which limit is the first that no package keeps, and the least value under which one exists."""

    def feasible(*limits: int) -> bool:
        # Any package grows into a maximal one, and of those there are far fewer to go through; but under
        # discounts the maximal ones are known only when a whole combination is.
        some = replace(allowed.with_limits(limits), maximal=allowed.prices is None)
        return next(blocks(some, size=4096, limit=limit), None) is not None

    n = next((k for k in range(1, len(allowed.limits)) if not feasible(*allowed.limits[:k])), len(allowed.limits))
    *before, given = allowed.limits[:n]
    name = allowed.limit_names[n - 1]
    scale = SCALES[name]
    if name == "budget" and allowed.prices is not None and allowed.prices.order is not None:
        return (
            "packages: the budget excludes every package: the whole order (racks, network, percentages and tax) of "
            f"each is above it; before racks and network ${given / scale:,.2f} are left for servers"
        )
    low, high = given, max(1, given)
    while not feasible(*before, high) and high < _COUNTED:
        low, high = high, min(2 * high, _COUNTED)
    known = high < _COUNTED or feasible(*before, high)
    while known and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if feasible(*before, middle) else (middle, high)
    if name == "budget":
        return (
            f"packages: the budget excludes every package: ${given / scale:,.2f} after fixed costs, and the cheapest "
            f"package that the counts allow costs {'' if known else 'more than '}${high / scale:,.2f}"
        )
    return (
        f"packages: {name} = {given / scale:g} excludes every package that the budget allows; "
        f"{'at least' if known else 'more than'} {high / scale:g} is needed"
    )


def _too_few(allowed: PackageConstraints, limit: EnumerationLimit) -> str:
    """Say which least numbers of nodes no choice of types can reach, if there are such."""
    most, together = dict.fromkeys(allowed.least, 0), False
    for types in combinations(allowed, limit):
        found = {rule: sum(int(allowed.last[j]) for j in types if j in rule.rows) for rule in allowed.least}
        most = {rule: max(most[rule], n) for rule, n in found.items()}
        together |= all(n >= rule.n for rule, n in found.items())
    for rule, n in most.items():
        if n < rule.n:
            nodes = "nodes with GPUs" if rule.name == "min_gpu_nodes" else "such nodes"
            return (
                f"packages: {rule.name} = {rule.n} excludes every package; the other counts allow at most {n} {nodes}"
            )
    if together:
        return ""
    m = "any" if allowed.types_per_category is None else allowed.types_per_category
    return (
        f"packages: {' and '.join(f'{rule.name} = {rule.n}' for rule in allowed.least)} together exclude every "
        f"package: no choice of types allows all of them (types_per_category = {m}, one_vendor_per_lot, mandatory "
        "types)"
    )
