"""Vendor files become one quote table: every row checked, every error with its row and column."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.schemas import PACKAGE, QUOTE, SPEEDS
from procure.tables import check, read
from procure.text import counted, listed

_ILLEGAL_IN_NAMES = ",=\"'\n\r\t"
_LARGEST = 1e12
"""Sums of larger prices or powers would not be exact."""


def read_quotes(path: str | Path) -> pd.DataFrame:
    """Read a quote table from CSV (plain or compressed) or Parquet.

    Parameters
    ----------
    path
        The file. Columns ``name, category, cpus, mem_gb, gpus, price_usd`` are required
        (1 GB = 1,000 MB); the others of `procure.tables.QUOTE` are optional.

    Returns
    -------
    pandas.DataFrame
        One row per server type, in the file's order.

    Raises
    ------
    TableError
        What `procure.tables.read` or `check_quotes` complains of, with file, row and column.

    Examples
    --------
    >>> import procure
    >>> procure.read_quotes("quotes.csv")["name"].to_list()
    ['Small', 'Big', 'Gpu']
    """
    return check_quotes(read(path, QUOTE), str(path))


def check_quotes(quotes: pd.DataFrame, source: str = "quote table") -> pd.DataFrame:
    """Return the quotes in their schema, after the checks that need more than one cell.

    Raises
    ------
    TableError
        A name that cannot be a column of the package table, ``min_count`` above ``max_count``,
        ``idle_power_w`` above ``power_w``, a price that is not in whole cents, or a
        ``valid_until`` that is no date; and all that `procure.tables.check` complains of.
    """
    quotes = check(quotes, QUOTE, source)
    for column in ("name", "category"):
        for row, text in enumerate(quotes[column]):
            where = f"{source}, row {row + 1}, column {column}"
            _check_name(text, where)
            if column == "name" and text in PACKAGE.by_name:
                raise TableError(f"{where}: {text!r} is a column of every package table; choose another name")
    quotes = with_core_rates(quotes, source)
    for low, high in (("min_count", "max_count"), ("idle_power_w", "power_w")):
        if {low, high} <= set(quotes):
            for row in np.flatnonzero((quotes[low] > quotes[high]).fillna(False).to_numpy(dtype=bool))[:1]:
                _refuse(quotes, row, low, source, f"at most {high} is allowed, {quotes[high].iloc[row]:g}")
    for column in ("price_usd", "power_w", "rack_units"):
        for row in np.flatnonzero(quotes[column] > _LARGEST)[:1] if column in quotes else ():
            _refuse(quotes, row, column, source, f"at most {_LARGEST:g} is allowed")
    for row in np.flatnonzero(quotes["price_usd"].round(2) != quotes["price_usd"])[:1]:
        _refuse(quotes, row, "price_usd", source, "prices go to the cent")
    for row, text in enumerate(quotes["valid_until"]):
        _check_date(text, f"{source}, row {row + 1}, column valid_until")
    return quotes


def price_notes(quotes: pd.DataFrame) -> list[str]:
    """Say which quoted types cost nothing, as a donated one may; a slip makes them the best of every comparison."""
    names = quotes.loc[quotes["price_usd"] == 0, "name"].tolist()
    if not names:
        return []
    return [
        f"careful: {counted(len(names), 'type')} {'costs' if len(names) == 1 else 'cost'} US$ 0: {listed(names)}"
    ]


def with_core_rates(quotes: pd.DataFrame, source: str = "quote table") -> pd.DataFrame:
    """Return the quotes with ``spec_rate`` = ``spec_rate_node`` / ``cpus`` where the rate of a whole node is quoted.

    Raises
    ------
    TableError
        A type has both rates and they differ, or a rate is 0.
    """
    if "spec_rate_node" in quotes:
        of_core = quotes["spec_rate_node"] / quotes["cpus"]
        given = quotes["spec_rate"] if "spec_rate" in quotes else pd.Series(np.nan, index=quotes.index)
        bad = np.flatnonzero(~np.isclose(given, of_core) & (given.notna() & of_core.notna()).to_numpy())
        if bad.size:
            row = int(bad[0])
            raise TableError(
                f"{source}, row {row + 1}, column spec_rate_node: {quotes['spec_rate_node'].iloc[row]:g} for "
                f"{quotes['cpus'].iloc[row]} CPUs is {of_core.iloc[row]:.4g} each, and spec_rate is "
                f"{given.iloc[row]:g}; give one of them"
            )
        quotes = quotes.assign(spec_rate=given.fillna(of_core))
    slow = (quotes["spec_rate"] < SPEEDS[0]).to_numpy() if "spec_rate" in quotes else np.zeros(0, bool)
    for row in np.flatnonzero(slow)[:1]:
        raise TableError(
            f"{source}, row {int(row) + 1}, column spec_rate: a speed is a number above 0, at least "
            f"{SPEEDS[0]:g}; {quotes['spec_rate'].iloc[row]:g} was given; leave it empty where none is known"
        )
    return quotes


def _check_name(text: str, where: str) -> None:
    bad = next((letter for letter in text if letter in _ILLEGAL_IN_NAMES), None)
    if bad is not None:
        raise TableError(
            f"{where}: {text!r} holds {bad!r}; a name may not hold commas, '=', quotes or breaks"
        )
    if text != text.strip():
        raise TableError(f"{where}: {text!r} begins or ends with a space")


def _refuse(quotes: pd.DataFrame, row: int, column: str, source: str, why: str) -> None:
    given = quotes[column].iloc[row]
    text = f"{given:g}" if given == round(given, 2) else repr(float(given))
    raise TableError(f"{source}, row {row + 1}, column {column}: {text} was given; {why}")


def _check_date(text: str, where: str) -> None:
    try:
        if text and (len(text) != 10 or datetime.date.fromisoformat(text) is None):
            raise ValueError
    except ValueError:
        raise TableError(f"{where}: {text!r} is no date; write it as 2023-06-30") from None


def summarise_quotes(quotes: pd.DataFrame, ratios: pd.DataFrame | None = None) -> pd.DataFrame:
    """Give per category the number of types and the ranges of their figures (Table 3.1 of the study).

    Parameters
    ----------
    ratios
        Of `procure.workload.speed_ratios.speed_ratios`, whose ranges are added.

    Returns
    -------
    pandas.DataFrame
        One row per category in the quotes' order: ``category n_types`` and the lowest and highest
        ``mem_gb`` (1 GB = 1,000 MB), ``cpus``, ``gpus`` and ``price_usd`` of one node.
    """
    columns = ("mem_gb", "cpus", "gpus", "price_usd")
    ranges = {f"{name}_{how}": (name, how) for name in columns for how in ("min", "max")}
    if ratios is not None:
        ranges |= {f"speed_ratio_{how}": (f"speed_ratio_{how}", how) for how in ("min", "max")}
        quotes = quotes.assign(**{name: ratios[name].to_numpy() for name in list(ranges)[-2:]})
    grouped = quotes.groupby("category", sort=False)
    return grouped.agg(n_types=("name", "size"), **ranges).reset_index()
