"""The rules of a quote table: every row checked, every error with its row and column."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.files.gpu_pools import pools_of
from procure.packages.rules import PackageRules
from procure.schemas import PACKAGE, QUOTE, SPEEDS
from procure.tables import CellError, check
from procure.text import counted, listed

_ILLEGAL_IN_NAMES = ",=\"'\n\r\t"
_MODEL = re.compile(
    r"\b([ABHVLTP]\d{1,3}0{0,2}[XS]?|GH200|GB[23]00|MI\d{3}[AX]?|L40S?|RTX\s?(?:PRO\s?)?\w+|GV100|K80|M40|M2090|Max\s?1\d{3})\b",
    re.IGNORECASE,
)
_SEVERAL_MODELS = (
    "names several GPU models; a node that has both is written 2x A100 + 2x L40S, and of a choice each configuration "
    "has a row of its own"
)
_LARGEST = 1e12
"""Sums of larger prices or powers would not be exact."""


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
    for error in quote_errors(quotes, source):
        raise error
    return with_core_rates(quotes, source)


def quote_errors(quotes: pd.DataFrame, source: str = "quote table") -> Iterator[CellError]:
    """Yield an error for each cell of a checked quote table that breaks a rule of quotes; see `check_quotes`."""
    for column in ("name", "category"):
        for row, text in enumerate(quotes[column]):
            if (what := _wrong_name(text)) is not None:
                yield CellError(source, row, column, what)
            elif column == "name" and text in PACKAGE.by_name:
                what = f"{text!r} is a column of every package table; choose another name"
                yield CellError(source, row, column, what)
    for row, (text, gpus) in enumerate(zip(quotes["gpu_type"], quotes["gpus"].tolist(), strict=True)):
        try:
            pools_of(text, gpus)
        except TableError as error:
            yield CellError(source, row, "gpu_type", str(error))
        if "+" not in text and len({one.upper() for one in _MODEL.findall(text)}) > 1:
            yield CellError(source, row, "gpu_type", f"{text!r} {_SEVERAL_MODELS}")
    yield from _rate_errors(quotes, source)
    for low, high in (("min_count", "max_count"), ("idle_power_w", "power_w")):
        if {low, high} <= set(quotes):
            for row in np.flatnonzero((quotes[low] > quotes[high]).fillna(False).to_numpy(dtype=bool)).tolist():
                yield _refused(quotes, row, low, source, f"at most {high} is allowed, {quotes[high].iloc[row]:g}")
    for column in ("price_usd", "power_w", "rack_units"):
        for row in np.flatnonzero(quotes[column] > _LARGEST).tolist() if column in quotes else ():
            yield _refused(quotes, row, column, source, f"at most {_LARGEST:g} is allowed")
    for row in np.flatnonzero(quotes["price_usd"].round(2) != quotes["price_usd"]).tolist():
        yield _refused(quotes, row, "price_usd", source, "prices go to the cent")
    for row, text in enumerate(quotes["valid_until"]):
        if not _is_date(text):
            yield CellError(source, row, "valid_until", f"{text!r} is no date; write it as 2023-06-30")


def is_expired(quotes: pd.DataFrame, rules: PackageRules) -> np.ndarray:
    """Tell which quotes were valid only until a day before ``rules.as_of``; without one, none."""
    if rules.as_of is None:
        return np.zeros(len(quotes), dtype=bool)
    until = quotes["valid_until"].astype(str).to_numpy(dtype=str)
    # Dates of the form YYYY-MM-DD compare as text.
    return np.asarray((until != "") & (until < rules.as_of.isoformat()))


def validity_notes(quotes: pd.DataFrame, rules: PackageRules) -> list[str]:
    """Say which quotes are left out because they have expired."""
    names = quotes.loc[is_expired(quotes, rules), "name"].tolist()
    return [f"quotes that expired before {rules.as_of} are left out: {listed(names)}"] if names else []


def price_notes(quotes: pd.DataFrame) -> list[str]:
    """Say which quoted types cost nothing, as a donated one may; a slip makes them the best of every comparison."""
    names = quotes.loc[quotes["price_usd"] == 0, "name"].tolist()
    if not names:
        return []
    return [f"careful: {counted(len(names), 'type')} {'costs' if len(names) == 1 else 'cost'} US$ 0: {listed(names)}"]


def with_core_rates(quotes: pd.DataFrame, source: str = "quote table") -> pd.DataFrame:
    """Return the quotes with ``spec_rate`` = ``spec_rate_node`` / ``cpus`` where the rate of a whole node is quoted.

    Raises
    ------
    TableError
        A type has both rates and they differ, or a rate is 0.
    """
    for error in _rate_errors(quotes, source):
        raise error
    if "spec_rate_node" in quotes:
        of_core = quotes["spec_rate_node"] / quotes["cpus"]
        given = quotes["spec_rate"] if "spec_rate" in quotes else pd.Series(np.nan, index=quotes.index)
        quotes = quotes.assign(spec_rate=given.fillna(of_core))
    return quotes


def _rate_errors(quotes: pd.DataFrame, source: str) -> Iterator[CellError]:
    rates = quotes["spec_rate"] if "spec_rate" in quotes else pd.Series(np.nan, index=quotes.index)
    if "spec_rate_node" in quotes:
        of_core = quotes["spec_rate_node"] / quotes["cpus"]
        both = (rates.notna() & of_core.notna()).to_numpy()
        for row in np.flatnonzero(~np.isclose(rates, of_core) & both):
            yield CellError(
                source,
                int(row),
                "spec_rate_node",
                f"{quotes['spec_rate_node'].iloc[row]:g} for {quotes['cpus'].iloc[row]} CPUs is "
                f"{of_core.iloc[row]:.4g} each, and spec_rate is {rates.iloc[row]:g}; give one of them",
            )
        rates = rates.fillna(of_core)
    for row in np.flatnonzero((rates < SPEEDS[0]).to_numpy()):
        what = f"a speed is a number above 0, at least {SPEEDS[0]:g}; {rates.iloc[row]:g} was given"
        yield CellError(source, int(row), "spec_rate", f"{what}; leave it empty where none is known")


def _wrong_name(text: str) -> str | None:
    bad = next((letter for letter in text if letter in _ILLEGAL_IN_NAMES), None)
    if bad is not None:
        return f"{text!r} holds {bad!r}; a name may not hold commas, '=', quotes or breaks"
    return f"{text!r} begins or ends with a space" if text != text.strip() else None


def _refused(quotes: pd.DataFrame, row: int, column: str, source: str, why: str) -> CellError:
    given = quotes[column].iloc[row]
    text = f"{given:g}" if given == round(float(given), 2) else repr(float(given))
    return CellError(source, int(row), column, f"{text} was given; {why}")


def _is_date(text: str) -> bool:
    try:
        return not text or (len(text) == 10 and datetime.date.fromisoformat(text) is not None)
    except ValueError:
        return False


def summarise_quotes(quotes: pd.DataFrame) -> pd.DataFrame:
    """Give per category the number of types and the ranges of their figures (Table 3.1 of the study).

    Returns
    -------
    pandas.DataFrame
        One row per category in the quotes' order: ``category n_types`` and the lowest and highest
        ``mem_gb`` (1 GB = 1,000 MB), ``cpus``, ``gpus`` and ``price_usd`` of one node.
    """
    columns = ("mem_gb", "cpus", "gpus", "price_usd")
    ranges = {f"{name}_{how}": (name, how) for name in columns for how in ("min", "max")}
    grouped = quotes.groupby("category", sort=False)
    return grouped.agg(n_types=("name", "size"), **ranges).reset_index()
