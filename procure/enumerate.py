"""The enumeration behind `procure.packages`: which counts of each offered type the rules allow.

Packages come in blocks of rows, combination by combination, so that any number of them fits in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.tables import nearest

if TYPE_CHECKING:
    from procure.package_rules import PackageRules

UNBOUNDED = 2**40
"""More nodes than any package holds, and small enough that a sum of several stays in int64."""

SCALES = {"budget": 100, "max_power_w": 1000, "max_rack_units": 1000}
"""Limits are compared as whole cents, milliwatts and thousandths of a rack unit."""


@dataclass(frozen=True)
class Choice:
    """The counts allowed for one type: none (where ``zero``), then ``first``, ``first + step`` … ``last``.

    ``row`` is the type's row in the quote table; ``costs`` are one node's cents, mW and mU, as far as
    they are limited.
    """

    row: int
    zero: bool
    first: int
    step: int
    last: int
    has_gpu: bool
    costs: tuple[int, ...]

    def most(self, rest: np.ndarray) -> np.ndarray:
        """Return how many nodes what is left affords; ``rest`` is (rows, limits)."""
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
        # Not last - counts, for what is left may afford more than last.
        return (further <= self.last) & (further - counts <= self.most(rest))


@dataclass(frozen=True)
class Offer:
    """What may be bought: per category the types to choose one of, and what limits the package."""

    categories: tuple[tuple[Choice, ...], ...]
    limits: tuple[int, ...]
    limit_names: tuple[str, ...]
    min_gpu_nodes: int
    maximal: bool

    def with_limits(self, limits: tuple[int, ...]) -> Offer:
        """Return the offer under the first so many limits, at other values."""
        n = len(limits)
        categories = tuple(
            tuple(replace(choice, costs=choice.costs[:n]) for choice in choices)
            for choices in self.categories
        )
        return replace(self, categories=categories, limits=limits, limit_names=self.limit_names[:n])


@dataclass(frozen=True)
class Block:
    """Some packages of one combination of types.

    ``counts`` is int64 (rows, categories); ``rest`` is what they leave of each limit, int64
    (rows, limits); ``distinct`` is bool (rows).
    """

    choices: tuple[Choice, ...]
    counts: np.ndarray
    rest: np.ndarray
    distinct: np.ndarray


def make_offer(quotes: pd.DataFrame, rules: PackageRules) -> Offer:
    """Turn checked quotes and rules into an offer.

    Raises
    ------
    TableError
        A rule names an unknown category or type, a cap needs figures that the quotes lack, a category
        has no type that its rules allow, or nothing bounds the count of a free type.
    """
    _check_names("categories", rules.categories, quotes["category"])
    _check_names("types", rules.types, quotes["name"])
    if rules.min_gpu_nodes > 0 and not (quotes["gpus"] > 0).any():
        raise TableError(
            f"packages: no quoted type has a GPU, and min_gpu_nodes = {rules.min_gpu_nodes} asks for nodes "
            "with one; min_gpu_nodes = 0 lifts the rule"
        )
    limits = _limits(rules)
    costs = _costs(quotes, limits)
    categories = []
    for category in quotes["category"].unique():
        rows = np.flatnonzero((quotes["category"] == category).to_numpy())
        choices = _choices(quotes, rules, category, rows, costs)
        if choices:
            categories.append(choices)
    if not categories:
        raise TableError("packages: max_count leaves no type to buy")
    return Offer(tuple(categories), tuple(limits.values()), tuple(limits), rules.min_gpu_nodes, rules.maximal)


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


def _costs(quotes: pd.DataFrame, limits: dict[str, int]) -> np.ndarray:
    """Return the int64 (types, limits) costs of one node."""
    columns = {"budget": "price_usd", "max_power_w": "power_w", "max_rack_units": "rack_units"}
    costs = np.zeros((len(quotes), len(limits)), dtype=np.int64)
    for k, name in enumerate(limits):
        column = columns[name]
        values = quotes[column] if column in quotes else pd.Series(np.nan, index=quotes.index)
        if values.isna().any():
            row = int(np.flatnonzero(values.isna())[0])
            raise TableError(
                f"packages.{name}: needs the {column} of every quote; {quotes['name'].iloc[row]} has none"
            )
        costs[:, k] = np.rint(values.to_numpy() * SCALES[name]).astype(np.int64)
    return costs


def _choices(
    quotes: pd.DataFrame, rules: PackageRules, category: str, rows: np.ndarray, costs: np.ndarray
) -> tuple[Choice, ...]:
    """Return the types of one category that may be bought, in quote order."""
    must = [row for row in rows if "mandatory" in quotes and quotes["mandatory"].iloc[row]]
    if len(must) > 1:
        names = " and ".join(quotes["name"].iloc[must[:2]])
        raise TableError(f"packages: {names} are both mandatory, but a package takes one type of {category}")
    least = rules.categories.get(category, 0)
    choices = []
    for row in must or rows:
        low, high, step = _bounds(quotes, rules, row)
        first = -(-max(low, least, 1) // step) * step
        last = high // step * step if high < UNBOUNDED else high
        free = not costs[row].any()
        if free and last == UNBOUNDED:
            raise TableError(f"packages: {quotes['name'].iloc[row]} costs nothing, so it needs a max_count")
        if first <= last:
            zero = least == 0 and not must
            gpu = bool(quotes["gpus"].iloc[row] > 0)
            choices.append(Choice(int(row), zero, first, step, last, gpu, tuple(map(int, costs[row]))))
    if not choices and (least or must):
        rule = f"categories.{category} = {least}" if least else f"mandatory {quotes['name'].iloc[must[0]]}"
        raise TableError(f"packages: {rule} excludes every package: max_count allows no type of {category}")
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


def blocks(offer: Offer, size: int = 1_000_000) -> Iterator[Block]:
    """Yield all packages of an offer in order, at most about ``size`` rows at a time.

    The order is by combination of types (the first category's type changes slowest), then the last
    category's count ascending, and so on to the first category's, which changes fastest.
    """
    limits = np.asarray(offer.limits, dtype=np.int64)[np.newaxis]
    for choices in itertools.product(*offer.categories):
        empty = np.zeros((1, len(choices)), dtype=np.int64)
        for counts, rest in _fill(offer, choices, len(choices) - 1, empty, limits, size):
            if len(counts):
                yield Block(choices, counts, rest, _first_of_its_kind(offer, choices, counts, rest))


def _fill(
    offer: Offer,
    choices: tuple[Choice, ...],
    level: int,
    counts: np.ndarray,
    rest: np.ndarray,
    size: int,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows with every allowed count of category ``level`` and all before it."""
    keep = _enough_gpus(offer, choices, level, counts, rest)
    counts, rest = counts[keep], rest[keep]
    if level < 0:
        drop = (counts == 0).all(axis=1)
        if offer.maximal:
            for j, choice in enumerate(choices):
                drop = drop | choice.can_grow(counts[:, j], rest)
        yield counts[~drop], rest[~drop]
        return
    choice = choices[level]
    n_allowed = choice.n_allowed(choice.most(rest))
    first = np.zeros_like(n_allowed)
    if level == 0 and offer.maximal:
        # A smaller count of the last type to be filled could always grow.
        first = np.maximum(n_allowed - 1, 0)
    ends = np.cumsum(n_allowed - first)
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, size):
        place = np.arange(start, min(start + size, total))
        row = np.searchsorted(ends, place, side="right")
        index = place - ends[row] + n_allowed[row]
        filled, left = counts[row], rest[row]
        filled[:, level] = choice.nth(index)
        left -= filled[:, level, np.newaxis] * np.asarray(choice.costs, dtype=np.int64)
        yield from _fill(offer, choices, level - 1, filled, left, size)


def _enough_gpus(
    offer: Offer, choices: tuple[Choice, ...], level: int, counts: np.ndarray, rest: np.ndarray
) -> np.ndarray:
    """Tell which rows hold, or can still get, the least number of nodes with GPUs."""
    nodes = np.zeros(len(counts), dtype=np.int64)
    for j, choice in enumerate(choices):
        if choice.has_gpu:
            nodes += counts[:, j] if j > level else choice.most(rest)
    return np.greater_equal(nodes, offer.min_gpu_nodes)


def _first_of_its_kind(
    offer: Offer, choices: tuple[Choice, ...], counts: np.ndarray, rest: np.ndarray
) -> np.ndarray:
    """Tell which rows no earlier combination of types holds.

    A zero count leaves open which type of the category was chosen. The same counts are a row of
    another combination if each type that stands there with zero may have zero, and, where packages
    are maximal, cannot grow. That is a question to each category alone, so the first combination
    takes the first such type of each, and a row is the first if none of its zeros has an earlier one.
    """
    distinct = np.ones(len(counts), dtype=bool)
    for j, choice in enumerate(choices):
        zeros = np.flatnonzero(counts[:, j] == 0)
        for earlier in offer.categories[j]:
            if earlier.row == choice.row or not zeros.size:
                break
            if offer.maximal:
                holds = ~earlier.can_grow(np.zeros(zeros.size, dtype=np.int64), rest[zeros])
            else:
                holds = np.ones(zeros.size, dtype=bool)
            distinct[zeros[holds]] = False
    return distinct
