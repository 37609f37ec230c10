"""A space of packages that need not be enumerated: drawn at random, filled up, exchanged.

Everything works on count tables, int64 (packages, types) in quote order, many packages at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.packages.constraints import PackageConstraints, build_constraints
from procure.packages.enumerate import MOST_TYPES, EnumerationLimit, TooManyPackages, blocks, explain_infeasible
from procure.packages.nodes import package_ids
from procure.packages.prices import order_cents
from procure.packages.quotes import check_quotes
from procure.packages.rules import PackageRules

MOST_LISTED = 2_000_000
"""A space of at most this many distinct packages is enumerated, so that the search ranks all of it."""

_MOST_WORK = 20_000_000
_TRIES = 40


@dataclass(frozen=True)
class Space:
    """All packages that the rules allow, without a list of them."""

    quotes: pd.DataFrame
    rules: PackageRules
    constraints: PackageConstraints

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw different packages at random.

        Compatible types are drawn first; then each, in a random order, gets any allowed, affordable
        count, and the rest of the budget is spent as far as it goes. Half of the draws keep
        to one to four types as long as these take up the money; half begin with the least numbers
        that the rules ask for. Every package can come up; how often is not uniform.
        Fewer than n are returned where the space seems to hold no more; all are different.
        """
        found = np.empty((0, self.constraints.n_types), dtype=np.int64)
        for _ in range(_TRIES):
            before = len(found)
            found = distinct_rows(np.concatenate([found, self._draw(max(256, 2 * (n - before)), rng)]))
            if len(found) >= n or (before and len(found) - before <= before // 200):
                break
        return found[:n]

    def _draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        allowed = self.constraints
        chosen = allowed.complete(np.tile(allowed.mandatory, (n, 1)), allowed.shuffled(n, rng))
        counts = np.where(chosen & ~allowed.zero, allowed.first, 0)
        for rule in self.constraints.least:
            counts = self._seed(counts, chosen, sorted(rule.rows), rule.n, rng)
        keep = allowed.affordable(counts)
        counts, chosen = counts[keep], chosen[keep]
        return self._spend(counts, chosen, rng)

    def _seed(
        self, counts: np.ndarray, chosen: np.ndarray, members: list[int], n: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Give half of the rows the least number of a rule, in one type that may be bought for it."""
        counts, rows = counts.copy(), np.arange(len(counts))
        liked = np.where(chosen[:, members], rng.random((len(counts), len(members))), -1.0)
        j = np.asarray(members)[np.argmax(liked, axis=1)]
        wanted = n - counts[:, members].sum(axis=1) + counts[rows, j]
        enough = np.maximum(
            self.constraints.first[j], -(-wanted // self.constraints.step[j]) * self.constraints.step[j]
        )
        use = (liked.max(axis=1, initial=-1.0) >= 0) & (wanted > counts[rows, j]) & (rng.random(len(rows)) < 0.5)
        counts[rows[use], j[use]] = np.minimum(enough, self.constraints.last[j])[use]
        return counts

    def _spend(self, counts: np.ndarray, chosen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Give the chosen types random counts, then spend the rest; drop packages that the rules forbid."""
        allowed, rows = self.constraints, np.arange(len(counts))
        order = np.where(_take(chosen, shuffled := allowed.shuffled(len(counts), rng)), shuffled, -1)
        order = _take(order, np.argsort(order < 0, axis=1, kind="stable"))  # the −1 of each row at its end
        few = np.where(rng.random(len(counts)) < 0.5, rng.integers(1, 5, len(counts)), allowed.n_types)
        for place in range(order.shape[1]):
            ask = np.flatnonzero((order[:, place] >= 0) & (place < few))
            if ask.size:
                j = order[ask, place]
                now, top = counts[ask, j], allowed.most(counts[ask], j)
                drawn = now + np.floor(rng.random(ask.size) * (np.maximum(top, now) - now + 1)).astype(np.int64)
                counts[rows[ask], j] = np.maximum(allowed.at_most(j, drawn), now)
        spend = np.ones(len(counts), dtype=bool) if self.constraints.maximal else rng.random(len(counts)) < 0.5
        last_first = np.where((np.arange(order.shape[1]) < few[:, None]) & (order >= 0), order, -1)
        counts[spend] = allowed.fill(allowed.fill(counts[spend], last_first[spend, ::-1]), order[spend])
        return distinct_rows(counts[allowed.affordable(counts) & allowed.enough(counts)])

    def neighbours(self, counts: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw packages that differ from the given ones by one exchange and are again filled up.

        An exchange gives up some nodes of one type (one step to all of them), buys one step or as
        many as possible of another, which may be a type that was not bought, and spends what is left
        on any types. A type for which there is no place drives out those that are in its way.
        Of each legal package n exchanges are tried; those returned are all different, without those given.
        """
        if not len(counts) or n < 1:
            return counts[:0]
        allowed = self.constraints
        new = np.repeat(counts, n, axis=0)
        rows = np.arange(len(new))
        given = np.argmax(np.where(new > 0, rng.random(new.shape), -1.0), axis=1)
        wanted = np.where(allowed.offered, rng.random(new.shape) + (new > 0) * rng.random((len(new), 1)), -1.0)
        wanted[rows, given] = -1.0
        taken = np.argmax(wanted, axis=1)
        steps = np.minimum(rng.geometric(0.3, len(new)), 1 + new[rows, given] // allowed.step[given])
        all_of_it = rng.random(len(new)) < 0.15
        left = np.where(all_of_it, 0, new[rows, given] - steps * allowed.step[given])
        new[rows, given] = np.maximum(allowed.at_most(given, np.maximum(left, 0)), 0)
        out = allowed.excluded_by(taken, (new > 0) | allowed.mandatory)
        new[out] = 0
        stays = ~(out & allowed.mandatory).any(axis=1) & (wanted.max(axis=1) >= 0)
        new = self._exchanged(new[stays], given[stays], taken[stays], rng)
        new = distinct_rows(new[allowed.affordable(new) & allowed.enough(new)])
        return new[~rows_in(new, counts)]

    def _exchanged(self, new: np.ndarray, given: np.ndarray, taken: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Buy the wanted type, then spend the rest."""
        allowed, bought = self.constraints, new > 0
        bought[np.arange(len(new)), taken] = allowed.offered[taken]
        chosen = allowed.complete(bought | allowed.mandatory, allowed.shuffled(len(new), rng))
        new = np.where(chosen & ~allowed.zero, np.maximum(new, allowed.first), new)
        keep = allowed.affordable(new)
        new, given, taken, chosen = new[keep], given[keep], taken[keep], chosen[keep]
        rows = np.arange(len(new))
        top, now = allowed.most(new, taken), new[rows, taken]
        one = np.minimum(np.where(now == 0, allowed.first[taken], now + allowed.step[taken]), top)
        new[rows, taken] = np.maximum(now, np.where(rng.random(len(new)) < 0.5, one, top))
        if not self.constraints.maximal:
            return new
        back = allowed.shuffled(len(new), rng)
        # The type that was given up usually takes the rest of the budget.
        first = np.where(rng.random(len(new)) < 0.5, given, back[:, 0])
        order = np.concatenate([first[:, None], back], axis=1)
        return allowed.fill(new, np.where(_take(chosen, order), order, -1))

    def allows(self, counts: np.ndarray) -> np.ndarray:
        """Tell which packages the rules allow, whether or not a further node can be added to them."""
        allowed = self.constraints
        return np.asarray(allowed.admits(counts) & allowed.affordable(counts) & allowed.enough(counts))

    def listed(self, most: int = MOST_LISTED) -> np.ndarray | None:
        """Enumerate the different packages, in the order of the package table; None if they are too many."""
        work = max(_MOST_WORK, 10 * most)
        parts, n = [], 0
        try:
            for block in blocks(self.constraints, limit=EnumerationLimit(work)):
                counts = np.zeros((int(block.distinct.sum()), self.constraints.n_types), dtype=np.int64)
                counts[:, list(block.types)] = block.counts[block.distinct]
                parts.append(counts)
                n += len(counts)
                if n > most or n * self.constraints.n_types > MOST_TYPES * most:
                    return None
        except TooManyPackages:
            return None
        if not n:
            raise TableError(explain_infeasible(self.constraints))
        return np.concatenate(parts)


def make_space(quotes: pd.DataFrame, rules: PackageRules) -> Space:
    """Prepare the space of the packages that the rules allow; that these contradict the quotes is an error."""
    quotes = check_quotes(quotes)
    return Space(quotes, rules, build_constraints(quotes, rules))


def distinct_rows(counts: np.ndarray) -> np.ndarray:
    """Drop repeated rows, keeping the first of each in place."""
    _, first = np.unique(_as_keys(counts), return_index=True)
    return counts[np.sort(first)]


def rows_in(counts: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Tell which rows stand in another count table."""
    return np.isin(_as_keys(counts), _as_keys(known))


def _as_keys(counts: np.ndarray) -> np.ndarray:
    """See each row as one opaque value."""
    rows = np.ascontiguousarray(counts, dtype=np.int64)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()


def _take(flags: np.ndarray, order: np.ndarray) -> np.ndarray:
    return np.asarray(np.take_along_axis(flags, order, axis=1))


def package_table(counts: np.ndarray, space: Space) -> pd.DataFrame:
    """Return a package table of some packages, in the order given."""
    quotes = space.quotes
    frame = {
        "package_id": np.array(package_ids(counts, quotes["name"].tolist()), dtype=object),
        "price_usd": order_cents(counts, quotes, space.rules) / 100,
        "total_cpus": counts @ quotes["cpus"].to_numpy(dtype=np.int64),
        "total_mem_gb": counts @ quotes["mem_gb"].to_numpy(),
        "total_gpus": counts @ quotes["gpus"].to_numpy(dtype=np.int64),
        "distinct": np.ones(len(counts), dtype=bool),
    }
    return pd.DataFrame(frame | {name: counts[:, j] for j, name in enumerate(quotes["name"])})
