"""Quotes and a budget become the package table: every count of servers that the rules allow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
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
from procure.packages.nodes import id_array
from procure.packages.quotes import check_quotes
from procure.packages.rules import PackageRules
from procure.progress import step
from procure.schemas import PACKAGE
from procure.tables import whole_file

MOST_HELD = 5_000_000
"""A table of more packages than this is not held in memory unless that is asked for."""


def expand_packages(quotes: pd.DataFrame, rules: PackageRules, most: int = MOST_HELD) -> pd.DataFrame:
    """List every package that the rules allow.

    A package takes any types in any count, or as many of each category as ``rules`` allow. With
    ``rules.maximal`` only those stay to which no chosen type can be added: not the next allowed count of
    any of them (one more node; the first ``min_count`` nodes of a type with none yet; one more pack) fits
    the budget, the caps and its ``max_count``. A package without any node is none.

    Parameters
    ----------
    quotes
        The quote table.
    rules
        Budget, counts, caps.
    most
        How many packages there may be.

    Returns
    -------
    pandas.DataFrame
        The package table: ``package_id price_usd total_cpus total_mem_gb total_gpus distinct`` and a
        count per type in quote order. Rows are ordered by combination of types (categories and types
        in quote order, the first category's type changing slowest), then by the last category's
        count ascending, to the first category's, which changes fastest.

    Raises
    ------
    TableError
        The rules contradict the quotes; no package is feasible: then it says which rule excluded
        the last candidates; or there are more than ``most``.

    References
    ----------
    Hutchison (2024), section 3.4.1: 126,688 rows for its 21 quotes at $1,000,000 (``rules = "published"``).

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

    Returns
    -------
    dict
        ``n_packages``, ``n_distinct``, and the lowest and highest ``price_usd``, ``total_cpus``,
        ``total_mem_gb`` and ``total_gpus`` as ``min_price_usd``, ``max_price_usd`` …
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
