"""All packages that the rules allow: listed as the package table, counted, or drawn at random and exchanged."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from procure.errors import TableError
from procure.packages.constraints import PackageConstraints, build_constraints
from procure.packages.enumerate import (
    MOST_PACKAGES,
    MOST_TYPES,
    Block,
    EnumerationLimit,
    TooManyPackages,
    blocks,
    explain_infeasible,
)
from procure.packages.nodes import id_array, package_ids
from procure.packages.prices import order_cents
from procure.packages.quotes import check_quotes
from procure.packages.rules import PackageRules
from procure.progress import step
from procure.schemas import PACKAGE
from procure.tables import whole_file

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
        """Draw different packages at random; every one can come up, how often is not uniform.

        Compatible types first; then each, in a random order, gets any affordable count, and the rest is spent. Half of
        the draws keep to one to four types; half begin with the least numbers of the rules. Fewer than n are returned
        where the space seems to hold no more.
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

        An exchange gives up some nodes of one type, buys one step or as many as possible of another, bought or not, and
        spends the rest; types in its way are driven out. Of each package n are tried; those returned are all different
        and new.
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


MOST_HELD = 5_000_000
"""A table of more packages than this is not held in memory unless that is asked for."""


def expand_packages(quotes: pd.DataFrame, rules: PackageRules, most: int = MOST_HELD) -> pd.DataFrame:
    """List every package that the rules allow.

    A package takes any types in any count, or as many of each category as ``rules`` allow. With
    ``rules.maximal`` only those stay to which no chosen type can be added: not the next allowed count of
    any of them (one more node; the first ``min_count`` nodes of a type with none yet; one more pack) fits
    the budget, the caps and its ``max_count``. A package without any node is none.

    Returns
    -------
    pandas.DataFrame
        ``package_id price_usd total_cpus total_mem_gb total_gpus distinct`` and a count per type in quote order. Rows
        are ordered by combination of types (categories and types in quote order, the first category's type changing
        slowest), then by the last category's count ascending, to the first category's, which changes fastest.
        (Hutchison 2024, section 3.4.1: 126,688 rows for its 21 quotes at $1,000,000, ``rules = "published"``.)

    Raises
    ------
    TableError
        The rules contradict the quotes; no package is feasible: then it says which rule excluded the last candidates;
        or there are more than ``most``.

    Examples
    --------
    >>> import procure
    >>> quotes = procure.read_quotes("quotes.csv")
    >>> len(procure.expand_packages(quotes, procure.PackageRules(budget_usd=90_000)))
    40
    """
    quotes = check_quotes(quotes)
    allowed = build_constraints(quotes, rules)
    with step("listing the packages"):
        found, n = [], 0
        for block in _feasible_blocks(allowed, most):
            found.append(block)
            n += len(block.counts)
            if n * len(quotes) > most * MOST_TYPES:
                raise TooManyPackages(f"a table of more than {n - 1:,} packages of {len(quotes):,} types is too large")
        return _table(quotes, allowed, found).to_pandas().astype({"package_id": object})


def count_packages(
    quotes: pd.DataFrame,
    rules: PackageRules,
    most: int = MOST_PACKAGES,
    write: Callable[[pa.Table], None] | None = None,
) -> dict[str, int | float]:
    """Sum up the table of `expand_packages` without holding it; ``write`` is called with it, piece by piece.

    ``n_packages``, ``n_distinct``, and the lowest and highest ``price_usd``, ``total_cpus``, ``total_mem_gb`` and
    ``total_gpus`` as ``min_price_usd``, ``max_price_usd`` …
    """
    quotes = check_quotes(quotes)
    allowed = build_constraints(quotes, rules)
    found: dict[str, int | float] = {"n_packages": 0, "n_distinct": 0}
    ranges: dict[str, int | float] = {}
    with step("listing the packages", unit="package") as one:
        for batch in _batches(_feasible_blocks(allowed, most)):
            if write is not None:
                write(_table(quotes, allowed, batch))
            for block in batch:
                one.done = found["n_packages"] = int(found["n_packages"]) + len(block.distinct)
                found["n_distinct"] += int(block.distinct.sum())
                for name, values in _totals(quotes, allowed, block).items():
                    for how, of in (("min", min), ("max", max)):
                        key, value = f"{how}_{name}", getattr(values, how)().item()
                        ranges[key] = of(ranges.get(key, value), value)
    return found | ranges


def write_packages(
    quotes: pd.DataFrame, rules: PackageRules, path: str | Path, most: int = MOST_PACKAGES
) -> dict[str, int | float]:
    """Write the table of `expand_packages` to Parquet or CSV, by the file name, in pieces, and do as `count_packages`.

    The file is whole or not there; that it cannot be written is an error, too.
    """
    path = Path(path)
    with whole_file(path) as temporary, contextlib.ExitStack() as stack:
        kind = pq.ParquetWriter if path.suffix == ".parquet" else pyarrow.csv.CSVWriter
        writer = None

        def write(table: pa.Table) -> None:
            nonlocal writer
            writer = writer or stack.enter_context(kind(temporary, table.schema))
            writer.write_table(table)

        return count_packages(quotes, rules, most, write)


def _feasible_blocks(allowed: PackageConstraints, most: int) -> Iterator[Block]:
    block = None
    for block in blocks(allowed, limit=EnumerationLimit(most)):
        yield block
    if block is None:
        raise TableError(explain_infeasible(allowed))


def _batches(found: Iterable[Block]) -> Iterator[list[Block]]:
    """Gather blocks until they hold enough rows; one row group per combination would be tiny."""
    batch: list[Block] = []
    for block in found:
        batch.append(block)
        if sum(len(each.counts) for each in batch) >= 200_000:
            yield batch
            batch = []
    if batch:
        yield batch


def _totals(quotes: pd.DataFrame, allowed: PackageConstraints, block: Block) -> dict[str, np.ndarray]:
    types = quotes.iloc[list(block.types)]
    return {
        "price_usd": (allowed.limits[0] - block.rest[:, 0]) / 100,
        "total_cpus": block.counts @ types["cpus"].to_numpy(),
        "total_mem_gb": block.counts @ types["mem_gb"].to_numpy(),
        "total_gpus": block.counts @ types["gpus"].to_numpy(),
    }


def _table(quotes: pd.DataFrame, allowed: PackageConstraints, found: list[Block]) -> pa.Table:
    totals, ids = [_totals(quotes, allowed, block) for block in found], []
    for block in found:
        rows = np.array(block.types)
        order = np.argsort(rows)
        ids.append(id_array(block.counts[:, order], quotes["name"].iloc[rows[order]].tolist()))
    columns: dict[str, Any] = {"package_id": pa.chunked_array(ids)}
    columns |= {name: np.concatenate([each[name] for each in totals]) for name in totals[0]}
    columns["distinct"] = np.concatenate([block.distinct for block in found])
    counts = np.zeros((len(quotes), len(columns["distinct"])), dtype=np.int64)
    start = 0
    for block in found:
        stop = start + len(block.counts)
        counts[list(block.types), start:stop] = block.counts.T
        start = stop
    assert list(columns) == PACKAGE.names
    return pa.table(columns | dict(zip(quotes["name"], counts, strict=True)))
