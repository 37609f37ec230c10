"""The enumeration behind `procure.packages`: which counts of each offered type the rules allow.

Packages come in blocks of rows, combination by combination, so that any number of them fits in memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from procure.errors import TableError
from procure.packages.constraints import NONE, SCALES, PackageConstraints

MOST_PACKAGES = 30_000_000
"""More are not enumerated unless that is asked for: it would take minutes, or years."""
MOST_COMBINATIONS = 1_000_000
"""Of types; more are not tried."""
MOST_TYPES = 25
"""Of as many types in one package, `MOST_PACKAGES` can be listed; of more types fewer, in the same time."""

_COMBINATION, _STEP, _REMEMBERED, _HELD = 5_000, 1_000, 100, 20
"""What a combination of types, a step in it, a remembered package, and a count held and sorted take, in counts."""

Types = tuple[int, ...]  # a choice of types, by their rows in the quote table
Filled = tuple[np.ndarray, np.ndarray]  # counts, and what they leave of each limit
Held = frozenset[tuple[int, int]]  # the nodes bought, as (row of the type, count) pairs


class TooManyPackages(TableError):
    """There are more packages than may be enumerated."""

    def __init__(self, found: str, more_may_be_allowed: bool = True) -> None:
        """Take what was found, and whether it is the limit on packages that was met."""
        super().__init__(
            f"{found}; a lower budget, fewer types or more rules make them fewer, and `procure search` needs no "
            "list of them"
        )
        self._more_may_be_allowed = more_may_be_allowed

    def hint(self, option: str) -> str:
        """Say that an option allows more packages, where that helps."""
        return f"; {option} allows more" if self._more_may_be_allowed else ""


class EnumerationLimit:
    """Counts what a list of packages takes, in counts of one type, and ends it above ``most`` packages' worth."""

    def __init__(self, most: int) -> None:
        """Allow so many packages of `MOST_TYPES` types each."""
        self.most, self.packages, self.left = most, 0, most * MOST_TYPES

    def add(self, n: int, packages: int = 0) -> None:
        """Add as much as n counts take, and so many packages found."""
        self.left, self.packages = self.left - n, self.packages + packages
        if self.packages > self.most:
            raise TooManyPackages(f"there are more than {self.most:,} packages")
        if self.left < 0:
            said = f"listing these packages would exceed the limit of {self.most:,} packages of {MOST_TYPES} types"
            raise TooManyPackages(said)


@dataclass(frozen=True)
class Block:
    """Some packages of one combination of types, which are rows of the quote table."""

    types: Types
    counts: np.ndarray  # int64[rows, types]
    rest: np.ndarray  # int64[rows, limits], what they leave of each limit, discounts included
    distinct: np.ndarray  # bool[rows]


def combinations(allowed: PackageConstraints, limit: EnumerationLimit) -> Iterator[Types]:
    """Yield every largest legal choice of types: so many of a category, one vendor of a lot, all mandatory ones.

    The first lot's vendor changes slowest, then the first category's types, in quote order.
    """
    categories = allowed.categories
    types = list(itertools.chain(*categories))
    award = list(zip(allowed.lot.tolist(), allowed.vendor.tolist(), strict=True))
    vendors: dict[int, dict[tuple[int, int], None]] = {}
    for j in types:
        if award[j][0] != NONE:
            vendors.setdefault(award[j][0], {})[award[j]] = None
    seen: set[tuple[int, ...]] = set()
    for awarded in itertools.product(*vendors.values()):
        parts = []
        for members in categories:
            open_ = [j for j in members if award[j][0] == NONE or award[j] in awarded]
            must = {j for j in members if allowed.mandatory[j]}
            m = len(open_) if allowed.types_per_category is None else allowed.types_per_category
            if (n := math.comb(len(open_), min(m, len(open_)))) > MOST_COMBINATIONS:
                raise TooManyPackages(
                    f"{len(open_):,} types of a category combine in more than {MOST_COMBINATIONS:,} ways; "
                    "types_per_category must be lower, or any",
                    more_may_be_allowed=False,
                )
            limit.add(10 * (len(members) + n))
            found = itertools.combinations(open_, min(m, len(open_)))
            parts.append([part for part in found if must.issubset(part)])
        for part in itertools.product(*parts):
            chosen = tuple(itertools.chain(*part))
            limit.add(_COMBINATION)
            if vendors:
                limit.add(len(types) * len(chosen))
                if chosen in seen or any(_may_join(allowed, award, j, chosen) for j in types):
                    continue
                seen.add(chosen)
            if chosen:
                yield chosen


def _may_join(allowed: PackageConstraints, award: list[tuple[int, int]], j: int, chosen: tuple[int, ...]) -> bool:
    held = sum(allowed.category[i] == allowed.category[j] for i in chosen)
    rivals = award[j][0] != NONE and any(award[i][0] == award[j][0] and award[i] != award[j] for i in chosen)
    return (
        j not in chosen
        and not rivals
        and (allowed.types_per_category is None or bool(held < allowed.types_per_category))
    )


def blocks(
    allowed: PackageConstraints, size: int = 1_000_000, limit: EnumerationLimit | None = None
) -> Iterator[Block]:
    """Yield all packages, at most about ``size`` rows at a time; more than the limit allows are an error.

    The order is by combination of types, then by the last type's count ascending, to the first type's, which changes
    fastest.
    """
    limit = limit or EnumerationLimit(MOST_PACKAGES)
    seen: set[Held] = set()
    # Lots and discounts tie types, so that a combination says nothing of others.
    tied = allowed.prices is not None or bool((allowed.lot != NONE).any())
    for types in combinations(allowed, limit):
        # A level holds its own rows; with many types there are many levels.
        rows = max(1, min(size, 10_000_000 // len(types)))
        if allowed.prices is None:
            found = _fill(allowed, types, rows, limit)
        else:
            found = _discounted(allowed, types, rows, limit)
        for counts, rest in found:
            if not len(counts):
                continue
            limit.add(_REMEMBERED * len(counts) if tied else 0, packages=len(counts))
            if tied:
                distinct = _unseen(types, counts, seen)
            else:
                distinct = _first_of_its_kind(allowed, types, counts, rest)
            yield Block(types, counts, rest, distinct)


@dataclass(frozen=True)
class _Rows:
    """Packages of which all types from ``level`` on have their count; ``above`` holds those of later types."""

    above: _Rows | None
    level: int
    row: np.ndarray  # of ``above``, that each continues
    count: np.ndarray  # of type ``level``
    rest: np.ndarray  # int64[rows, limits], what is left of each limit
    nodes: np.ndarray  # int64[rows, rules], what each least number has

    def those(self, keep: np.ndarray) -> _Rows:
        return _Rows(self.above, self.level, self.row[keep], self.count[keep], self.rest[keep], self.nodes[keep])

    def counts(self, n_types: int) -> np.ndarray:
        """Return all counts, int64 (rows, types)."""
        found = np.zeros((n_types, len(self.rest)), dtype=np.int64)
        one, row = self, np.arange(len(self.rest))
        while one.above is not None:
            found[one.level] = one.count[row]
            row, one = one.row[row], one.above
        return found.T


def _fill(
    allowed: PackageConstraints, types: Types, size: int, limit: EnumerationLimit, stop: int = 0
) -> Iterator[Filled]:
    """Yield the rows with every allowed count of the last type and all before it, to ``stop``."""
    limits = np.asarray(allowed.limits, dtype=np.int64)[np.newaxis]
    none = np.zeros(1, dtype=np.int64)
    first = _Rows(None, len(types), none, none, limits, np.zeros((1, len(allowed.least)), dtype=np.int64))
    must = np.where(allowed.zero, 0, allowed.first)[list(types), np.newaxis] * allowed.costs[list(types)]
    needed = np.cumsum(np.concatenate([np.zeros_like(limits), must]), axis=0)  # by all types before a level
    todo = [iter((first,))]  # not by recursion, since there may be thousands of types
    while todo:
        rows = next(todo[-1], None)
        if rows is None:
            todo.pop()
            continue
        rows = rows.those(_can_have_enough(allowed, types, rows, limit))
        if rows.level > stop:
            rows = rows.those((rows.rest >= needed[rows.level]).all(axis=1))
            todo.append(_grown(allowed, types, rows, size, limit, last=rows.level == stop + 1))
            continue
        counts, rest = rows.counts(len(types)), rows.rest
        if not stop:
            keep = np.asarray(counts.any(axis=1))
            if allowed.maximal:
                for column, one in zip(counts.T, types, strict=True):
                    keep &= ~allowed.can_grow(one, column, rest)
            counts, rest = counts[keep], rest[keep]
        yield counts, rest


def _grown(
    allowed: PackageConstraints, types: Types, rows: _Rows, size: int, limit: EnumerationLimit, last: bool
) -> Iterator[_Rows]:
    """Yield the rows with every allowed count of the next type, at most ``size`` at a time."""
    level = rows.level - 1
    j = types[level]
    n_allowed = allowed.n_allowed(j, allowed.affords(j, rows.rest))
    first = np.zeros_like(n_allowed)
    if level == 0 and allowed.maximal:
        # A smaller count of the last type to be filled could always grow.
        first = np.maximum(n_allowed - 1, 0)
    ends = np.cumsum(n_allowed - first)
    total = int(ends[-1]) if len(ends) else 0
    member = np.array([j in rule.rows for rule in allowed.least], dtype=np.int64)
    for start in range(0, total, size):
        place = np.arange(start, min(start + size, total))
        limit.add(len(place) * (1 + len(types) * last) + _STEP)
        row = np.searchsorted(ends, place, side="right")
        count = allowed.nth(j, place - ends[row] + n_allowed[row])
        rest = rows.rest[row] - count[:, np.newaxis] * allowed.costs[j]
        yield _Rows(rows, level, row, count, rest, rows.nodes[row] + count[:, np.newaxis] * member)


def _can_have_enough(allowed: PackageConstraints, types: Types, rows: _Rows, limit: EnumerationLimit) -> np.ndarray:
    """Tell which rows hold, or can still get, the least numbers of nodes that the rules ask for."""
    keep = np.ones(len(rows.rest), dtype=bool)
    for k, rule in enumerate(allowed.least):
        lacking = np.flatnonzero(keep & (rows.nodes[:, k] < rule.n))
        nodes = rows.nodes[lacking, k]
        for j in types[: rows.level] if lacking.size else ():
            if j in rule.rows:
                limit.add(len(lacking) + _STEP)
                nodes = nodes + allowed.affords(j, rows.rest[lacking])
                keep[lacking], still = nodes >= rule.n, nodes < rule.n
                lacking, nodes = lacking[still], nodes[still]
        keep[lacking] = False
    return keep


def _discounted(allowed: PackageConstraints, types: Types, size: int, limit: EnumerationLimit) -> Iterator[Filled]:
    """Yield the rows of a combination whose discounted price fits, of those that the least conceivable prices allow."""
    assert allowed.prices is not None
    prices, budget = allowed.prices.of_types(list(types)), allowed.limits[0]

    def with_rest(counts: np.ndarray) -> np.ndarray:
        rest = np.asarray(allowed.limits, dtype=np.int64) - counts @ allowed.costs[list(types)]
        rest[:, 0] = budget - prices.order_cents(counts)
        return np.asarray(rest)

    if not allowed.maximal:
        for counts, _ in _fill(allowed, types, size, limit):
            rest = with_rest(counts)
            fits = rest[:, 0] >= 0
            yield counts[fits], rest[fits]
        return
    # Rows that cannot hold enough nodes are missing; none of them lies between two that can.
    found = []
    for counts, left in _fill(allowed, types, size, limit, stop=1):
        limit.add(counts.size * max(len(types), _HELD))
        found.append((counts, left))
    if not found:
        return
    counts, left = (np.concatenate(parts) for parts in zip(*found, strict=True))
    index = allowed.n_allowed(types[0], allowed.affords(types[0], left)) - 1
    counts[:, 0] = allowed.nth(types[0], np.maximum(index, 0))
    over = np.flatnonzero((index < 0) | (prices.order_cents(counts) > budget))
    while over.size:
        limit.add(counts[over].size)
        index[over] -= 1
        over = over[index[over] >= 0]
        counts[over, 0] = allowed.nth(types[0], index[over])
        over = over[prices.order_cents(counts[over]) > budget]
    keep = (index >= 0) & ~_is_below(counts[:, 1:], index)
    keep &= allowed.enough(counts, types)
    counts = counts[keep]
    for start in range(0, len(counts), size):
        yield counts[start : start + size], with_rest(counts[start : start + size])


def _is_below(others: np.ndarray, height: np.ndarray) -> np.ndarray:
    """Tell which rows are below another one, with at least as many nodes of every type.

    ``others`` is int64 (rows, types), all different, and where two rows stand, so do those between them; ``height`` the
    most of the first type that a row can have, −1 for none. A running maximum along each type gives the greatest height
    at or beyond a row; it is below if one step along some type reaches its height.
    """
    n_rows, n_types = others.shape
    beyond = height.astype(np.int64)
    orders = []
    above = int(height.max(initial=0)) + 2
    for j in range(n_types):
        rest = np.delete(others, j, axis=1)
        order = np.lexsort((-others[:, j], *rest.T))
        line = np.zeros(n_rows, dtype=np.int64)
        line[1:] = np.cumsum((np.diff(rest[order], axis=0) != 0).any(axis=1))
        orders.append((order, line))
        # Lines are lifted above each other, so that the maximum starts anew in each.
        lift = line * above
        beyond[order] = np.maximum.accumulate(beyond[order] + lift) - lift
    below = np.zeros(n_rows, dtype=bool)
    for order, line in orders:
        further = np.full(n_rows, -1, dtype=np.int64)
        same = np.flatnonzero(line[1:] == line[:-1])
        further[order[same + 1]] = beyond[order[same]]
        below |= further >= height
    return below


def _first_of_its_kind(allowed: PackageConstraints, types: Types, counts: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Tell which rows no earlier combination of types holds, where neither lots nor discounts tie types.

    A zero count leaves open which type of the category was chosen: a row is the first if no type that may have zero,
    and cannot grow where packages are maximal, comes before a chosen one with zero.
    """
    distinct = np.ones(len(counts), dtype=bool)
    for place, j in enumerate(types):
        zeros = np.flatnonzero(counts[:, place] == 0)
        before = allowed.offered[:j] & (allowed.category[:j] == allowed.category[j])
        for earlier in set(np.flatnonzero(before).tolist()) - set(types) if zeros.size else ():
            none = np.zeros(zeros.size, dtype=np.int64)
            grows = allowed.maximal & allowed.can_grow(earlier, none, rest[zeros])
            distinct[zeros[~grows]] = False
    return distinct


def _unseen(types: Types, counts: np.ndarray, seen: set[Held]) -> np.ndarray:
    """Tell which rows no earlier combination held; ``seen`` has those with a zero count, which alone may return."""
    distinct = np.ones(len(counts), dtype=bool)
    rows = np.flatnonzero((counts == 0).any(axis=1))
    for row, bought in zip(rows.tolist(), counts[rows].tolist(), strict=True):
        held = frozenset(pair for pair in zip(types, bought, strict=True) if pair[1])
        distinct[row] = held not in seen
        seen.add(held)
    return distinct


_MOST = 2_000_000
"""The most packages that are gone through to answer."""
_COUNTED = 10**18
"""Larger costs are not told apart; sums of them would leave 64 bits."""


def explain_infeasible(allowed: PackageConstraints) -> str:
    """Say which rule excluded the last packages (counts, budget, power, rack units), and what it would have to be."""
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
