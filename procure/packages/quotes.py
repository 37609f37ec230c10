"""A vendor's file becomes quotes, every row checked, and further lines of an order."""

from __future__ import annotations

import datetime
import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.files import existing_file, is_parquet, read_bytes, read_rows
from procure.files.gpu_pools import pools_of
from procure.offers import Finding, Line, Offer, OfferReading, listed_once, read_offer
from procure.offers.template import EXAMPLE
from procure.offers.workbook import is_workbook
from procure.packages.rules import order_lines
from procure.schemas import PACKAGE, QUOTE, SPEEDS
from procure.settings import complaint
from procure.tables import CellError, cell_errors, check, read
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
    """Return the quotes in their schema, checked by `quote_errors`; ``spec_rate`` of a quoted whole node is per CPU."""
    quotes = check(quotes, QUOTE, source)
    for error in quote_errors(quotes, source):
        raise error
    return quotes.assign(spec_rate=_core_rates(quotes)[0]) if "spec_rate_node" in quotes else quotes


def quote_errors(quotes: pd.DataFrame, source: str = "quote table") -> Iterator[CellError]:
    """Yield an error for each cell of a checked quote table that breaks a rule of quotes."""
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
        given = f"{quotes['spec_rate_node'].iloc[row]:g} for {quotes['cpus'].iloc[row]} CPUs"
        said = f"{given} is {of_node.iloc[row]:.4g} each, and spec_rate is {rates.iloc[row]:g}; give one of them"
        yield row, "spec_rate_node", said
    for row in np.flatnonzero((rates < SPEEDS[0]).to_numpy()).tolist():
        what = f"a speed is a number above 0, at least {SPEEDS[0]:g}; {rates.iloc[row]:g} was given"
        yield row, "spec_rate", f"{what}; leave it empty where none is known"


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

    ``category n_types`` and the lowest and highest ``mem_gb``, ``cpus``, ``gpus`` and ``price_usd`` of one node.
    """
    columns = ("mem_gb", "cpus", "gpus", "price_usd")
    ranges = {f"{name}_{how}": (name, how) for name in columns for how in ("min", "max")}
    grouped = quotes.groupby("category", sort=False)
    return grouped.agg(n_types=("name", "size"), **ranges).reset_index()


_MOST_BYTES_KEPT = 1 << 24
"""Larger files are read each time."""


@dataclass(frozen=True)
class QuoteFile:
    """What a quote file says."""

    path: Path
    quotes: pd.DataFrame  # where there are errors, without the rows that they are in
    lines: tuple[Line, ...] = ()  # of the order, that are no servers
    findings: tuple[Finding, ...] = ()  # errors, and what was not read, in the file's order

    @property
    def errors(self) -> list[Finding]:
        """The findings for which the file is refused."""
        return [one for one in self.findings if one.severity == "error"]

    def error(self) -> TableError:
        """Return the errors as one; a single one stands on the file's line, as in every other table."""
        said = listed_once(self.errors)
        return TableError(f"{self.path}, {said[0]}" if len(said) == 1 else complaint(str(self.path), said))

    def notes(self) -> list[str]:
        """Say how many cells were not read, where any was."""
        n = len(self.findings) - len(self.errors)
        return [f"{self.path}: {counted(n, 'cell')} not read; `procure quotes check` lists them"] if n else []


def read_quotes(path: str | Path, reading: OfferReading | None = None) -> pd.DataFrame:
    """Read a quote table from a spreadsheet (.xlsx, .ods), CSV (plain or compressed) or Parquet.

    A quote table has the columns ``name, category, cpus, mem_gb, gpus, price_usd`` (1 GB = 1,000 MB) and may have the
    others of `procure.tables.QUOTE`; how any other sheet is read says `read_quote_file`. Returns a row per server type,
    in the file's order; ``price_usd`` with what the offer charges for each node. That the file cannot be read, or cells
    in it, is a `TableError`: all of them, one line each, with sheet, cell or row, and column.

    Examples
    --------
    >>> import procure
    >>> procure.read_quotes("quotes.csv")["name"].to_list()
    ['Small', 'Big', 'Gpu']
    """
    found = read_quote_file(path, reading)
    if found.errors:
        raise found.error()
    years = reading.warranty_years if reading is not None else None
    return order_lines(found.lines, years).with_services(found.quotes)


def read_quote_file(path: str | Path, reading: OfferReading | None = None) -> QuoteFile:
    """Read a quote file of any kind, and list all that was not read; that it holds no table of servers is an error.

    A quote table in its own columns is read as it is. Of every other text and spreadsheet a column is read by its name,
    a synonym (English, German) or ``reading.columns``; a cell is a number with a unit, or an error.
    """
    path, reading = existing_file(path), reading or OfferReading()
    if not path.is_file() or path.stat().st_size > _MOST_BYTES_KEPT:
        return _read(path, reading)
    try:
        content = path.read_bytes()
    except OSError:  # the reader says what is wrong
        return _read(path, reading)
    found = _read_once(path, hashlib.blake2b(content).digest(), reading.model_dump_json())
    return replace(found, quotes=found.quotes.copy())


@functools.lru_cache(maxsize=8)
def _read_once(path: Path, content: bytes, reading: str) -> QuoteFile:
    """Read a file whose ``content`` has this digest: a command asks for the same quotes up to five times."""
    return _read(path, OfferReading.model_validate_json(reading))


def _read(path: Path, reading: OfferReading) -> QuoteFile:
    if path.suffix == ".parquet" or (not is_workbook(path) and is_parquet(read_bytes(path))):
        return _without_example(path, check_quotes(read(path, QUOTE), str(path)))
    if not is_workbook(path) and not (reading.columns or reading.category or reading.tax_percent):
        own = _own_table(path)
        if own is not None:
            return own
    return _checked(path, read_offer(path, reading))


def _own_table(path: Path) -> QuoteFile | None:
    """Read a text with all columns of a quote table; None where it lacks one, or has amounts that are no US$."""
    content, needed = read_bytes(path), {column.name for column in QUOTE.columns if column.required}
    head = next((line for line in content[:65536].splitlines() if line.strip()), b"").decode("utf-8", "replace")
    if not all(name in head for name in needed):  # an offer may begin with its number, its date, its customer
        return None
    try:
        frame = read_rows(content, str(path), encoding_errors="replace")
    except pd.errors.EmptyDataError:
        return None
    if not needed <= set(frame):
        return None
    amounts = [text for name in ("price_usd", "mem_gb") for text in frame[name].astype(str)]
    if any(_FOREIGN.search(text) for text in amounts):
        return None
    quotes = check_quotes(read(path, QUOTE), str(path))
    return None if any(_THREE_DECIMALS.fullmatch(text) for text in amounts) else _without_example(path, quotes)


_FOREIGN = re.compile(r"[€£]|\b(?!USD)[A-Z]{3}\b")
_THREE_DECIMALS = re.compile(r"\s*\$?\d{1,3}\.\d{3}\s*")
"""An amount that may be 14.95 or 14,950."""


def _without_example(path: Path, quotes: pd.DataFrame) -> QuoteFile:
    """Leave out the row that the template shows."""
    shown = (quotes["name"] == EXAMPLE).to_numpy()
    if not shown.any():
        return QuoteFile(path, quotes)
    if shown.all():
        raise TableError(f"{path}: holds no quote but the template's example")
    return QuoteFile(path, quotes[~shown].reset_index(drop=True))


def _checked(path: Path, offer: Offer) -> QuoteFile:
    """Check what was read by the rules of quotes, and turn what is wrong into findings."""
    names = [name for name in QUOTE.names if any(name in row for row in offer.rows)]
    rows = [{name: row.get(name, "") for name in names} for row in offer.rows]
    findings, first, bad = list(offer.findings), dict[str, int](), set[int]()
    for number, row in enumerate(rows):
        if (also := first.setdefault(row["name"], number)) != number:
            sheet, cell, _ = offer.where[number]["name"]
            said = f"also stands in {offer.where[also]['name'][1]}; each name must be unique"
            findings.append(Finding("error", sheet, cell, "name", row["name"], said))
            bad.add(number)
            row["name"] = f"repeated {number}"
    if not rows:
        if not any(one.severity == "error" for one in findings) and not offer.lines:
            read = f"; {one}" if (one := next(iter(listed_once(findings)), "")) else ""
            raise TableError(f"{path}: holds no server with a price{read}")
        return QuoteFile(path, pd.DataFrame(), tuple(offer.lines), tuple(findings))
    frame, errors = cell_errors(pd.DataFrame(rows, dtype=object), QUOTE)
    quotes = check(frame, QUOTE)
    for error in [*errors, *quote_errors(quotes)]:
        sheet, cell, given = offer.where[error.row].get(error.column, next(iter(offer.where[error.row].values())))
        findings.append(Finding("error", sheet, cell, error.column, given, error.what.removeprefix(f"{given!r} ")))
        bad.add(error.row)
    quotes = quotes.drop(index=sorted(bad)).reset_index(drop=True)
    quotes = check_quotes(quotes, str(path)) if len(quotes) else quotes
    return QuoteFile(path, quotes, tuple(offer.lines), tuple(findings))
