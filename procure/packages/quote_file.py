"""A vendor's file becomes quotes and further lines of an order."""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from procure.errors import TableError
from procure.files import existing_file, is_parquet, read_bytes, read_rows
from procure.offers import Finding, Line, Offer, OfferReading, listed_once, read_offer
from procure.offers.template import EXAMPLE
from procure.offers.workbook import is_workbook
from procure.packages.order import order_lines
from procure.packages.quotes import check_quotes, quote_errors
from procure.schemas import QUOTE
from procure.settings import complaint
from procure.tables import cell_errors, check, read
from procure.text import counted

_MOST_BYTES_KEPT = 1 << 24
"""Larger files are read each time."""


@dataclass(frozen=True)
class QuoteFile:
    """What a quote file says.

    Attributes
    ----------
    path
        The file.
    quotes
        The quote table; where there are errors, without the rows that they are in.
    lines
        Lines of the order that are no servers.
    findings
        Errors, and what was not read, in the file's order.
    """

    path: Path
    quotes: pd.DataFrame
    lines: tuple[Line, ...] = ()
    findings: tuple[Finding, ...] = ()

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

    Parameters
    ----------
    path
        The file. A quote table has the columns ``name, category, cpus, mem_gb, gpus, price_usd``
        (1 GB = 1,000 MB) and may have the others of `procure.tables.QUOTE`; how any other sheet is read says
        `read_quote_file`.
    reading
        Currencies, decimals, tax, headings and categories.

    Returns
    -------
    pandas.DataFrame
        One row per server type, in the file's order; ``price_usd`` with what the offer charges for each node.

    Raises
    ------
    TableError
        The file cannot be read, or cells in it: all of them, one line each, with sheet, cell or row, and column.

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
    """Read a quote file of any kind, and list all that was not read.

    A quote table in its own columns is read as it is. Of every other text and spreadsheet a column is read by its
    name, a synonym (English, German) or ``reading.columns``; a cell is a number with a unit, or an error.

    Raises
    ------
    TableError
        The file cannot be read at all, or holds no table of servers.
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
    if not is_workbook(path) and not (reading.columns or reading.category) and _is_quote_table(path):
        return _without_example(path, check_quotes(read(path, QUOTE), str(path)))
    return _checked(path, read_offer(path, reading))


def _is_quote_table(path: Path) -> bool:
    """Tell whether a text has all the columns that a quote table must have, and no amount such as 14.950."""
    try:
        frame = read_rows(read_bytes(path), str(path))
    except (TableError, pd.errors.EmptyDataError):
        return False
    if not {column.name for column in QUOTE.columns if column.required} <= set(frame):
        return False
    return not any(_FOREIGN.search(text) for name in ("price_usd", "mem_gb") for text in frame[name].astype(str))


_FOREIGN = re.compile(r"^\s*\$?\d{1,3}\.\d{3}\s*$|[€£]|\b(?!USD)[A-Z]{3}\b")
"""An amount that may be 14.95 or 14,950, or one in another currency: neither is a quote table's own."""


def _without_example(path: Path, quotes: pd.DataFrame) -> QuoteFile:
    """Leave out the row that the template shows."""
    shown = (quotes["name"] == EXAMPLE).to_numpy()
    if not shown.any():
        return QuoteFile(path, quotes)
    if shown.all():
        raise TableError(f"{path}: holds no quote but the template's example")
    row = f"row {int(shown.argmax()) + 1}"
    quotes = quotes[~shown].reset_index(drop=True)
    return QuoteFile(path, quotes, (), (Finding("warning", "", row, "", EXAMPLE, "is the template's example"),))


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
            raise TableError(f"{path}: holds no quote; at least one row is needed")
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
