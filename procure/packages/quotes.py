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
    """Return the quotes in their schema, after the checks that need more than one cell; see `quote_errors`.

    ``spec_rate`` is ``spec_rate_node`` / ``cpus`` where the rate of a whole node is quoted.
    """
    quotes = check(quotes, QUOTE, source)
    for error in quote_errors(quotes, source):
        raise error
    return quotes.assign(spec_rate=_core_rates(quotes)[0]) if "spec_rate_node" in quotes else quotes


def quote_errors(quotes: pd.DataFrame, source: str = "quote table") -> Iterator[CellError]:
    """Yield an error for each cell of a checked quote table that breaks a rule of quotes.

    These are names that cannot be a column of the package table, GPUs that cannot be meant, rates that contradict each
    other, ``min_count`` above ``max_count``, ``idle_power_w`` above ``power_w``, sums that would not be exact, a price
    that is not in whole cents, and a ``valid_until`` that is no date.
    """
    for column in ("name", "category"):
        for row, text in enumerate(quotes[column]):
            what = _wrong_name(text)
            if what is None and column == "name" and text in PACKAGE.by_name:
                what = f"{text!r} is a column of every package table; choose another name"
            if what is not None:
                yield CellError(source, row, column, what)
    for row, (text, gpus) in enumerate(zip(quotes["gpu_type"], quotes["gpus"].tolist(), strict=True)):
        try:
            pools_of(text, gpus)
        except TableError as error:
            yield CellError(source, row, "gpu_type", str(error))
        if "+" not in text and len({one.upper() for one in _MODEL.findall(text)}) > 1:
            yield CellError(source, row, "gpu_type", f"{text!r} {_SEVERAL_MODELS}")
    for row, column, what in _rate_errors(quotes):
        yield CellError(source, row, column, what)
    for row, column, what in _wrong_numbers(quotes):
        given = quotes[column].iloc[row]
        text = f"{given:g}" if given == round(float(given), 2) else repr(float(given))
        yield CellError(source, row, column, f"{text} was given; {what}")
    for row, text in enumerate(quotes["valid_until"]):
        if not _is_date(text):
            yield CellError(source, row, "valid_until", f"{text!r} is no date; write it as 2023-06-30")


Wrong = Iterator[tuple[int, str, str]]


def _wrong_numbers(quotes: pd.DataFrame) -> Wrong:
    """Yield row, column and what is allowed."""
    for low, high in (("min_count", "max_count"), ("idle_power_w", "power_w")):
        if {low, high} <= set(quotes):
            for row in np.flatnonzero((quotes[low] > quotes[high]).fillna(False).to_numpy(dtype=bool)).tolist():
                yield row, low, f"at most {high} is allowed, {quotes[high].iloc[row]:g}"
    for column in ("price_usd", "power_w", "rack_units"):
        for row in np.flatnonzero(quotes[column] > _LARGEST).tolist() if column in quotes else ():
            yield row, column, f"at most {_LARGEST:g} is allowed"
    for row in np.flatnonzero(quotes["price_usd"].round(2) != quotes["price_usd"]).tolist():
        yield row, "price_usd", "prices go to the cent"


def _core_rates(quotes: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the rate of one core of each type, and that of a core of a node whose rate is quoted."""
    none = pd.Series(np.nan, index=quotes.index)
    of_node = quotes["spec_rate_node"] / quotes["cpus"] if "spec_rate_node" in quotes else none
    return quotes.get("spec_rate", none).fillna(of_node), of_node


def _rate_errors(quotes: pd.DataFrame) -> Wrong:
    rates, of_node = _core_rates(quotes)
    for row in np.flatnonzero(~np.isclose(rates, of_node) & of_node.notna().to_numpy()).tolist():
        yield (
            row,
            "spec_rate_node",
            f"{quotes['spec_rate_node'].iloc[row]:g} for {quotes['cpus'].iloc[row]} CPUs is "
            f"{of_node.iloc[row]:.4g} each, and spec_rate is {rates.iloc[row]:g}; give one of them",
        )
    for row in np.flatnonzero((rates < SPEEDS[0]).to_numpy()).tolist():
        what = f"a speed is a number above 0, at least {SPEEDS[0]:g}; {rates.iloc[row]:g} was given"
        yield row, "spec_rate", f"{what}; leave it empty where none is known"


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


def _wrong_name(text: str) -> str | None:
    bad = next((letter for letter in text if letter in _ILLEGAL_IN_NAMES), None)
    if bad is not None:
        return f"{text!r} holds {bad!r}; a name may not hold commas, '=', quotes or breaks"
    return f"{text!r} begins or ends with a space" if text != text.strip() else None


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
