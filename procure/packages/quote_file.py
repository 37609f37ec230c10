"""A vendor's file becomes quotes and further lines of an order: a quote table as it is, other sheets as understood."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
from pydantic import Field, field_validator

from procure.errors import TableError
from procure.files import existing_file, is_parquet, read_bytes, read_rows
from procure.packages.order import order_lines
from procure.packages.quotes import check_quotes, quote_errors
from procure.schemas import QUOTE
from procure.settings import PositiveInt, Settings, complaint
from procure.sheets import Convention, Finding, Line, NoTable, SheetTable, listed_once, read_sheets
from procure.sheets.headings import plain_words
from procure.sheets.mapped import FIELDS, normal
from procure.sheets.rows import EXAMPLE
from procure.sheets.units import CODES
from procure.sheets.workbook import is_workbook
from procure.tables import cell_errors, check, read
from procure.text import nearest

_MOST_BYTES_KEPT = 1 << 24
"""Larger files are read each time."""


class OfferReading(Settings):
    """How a quote file is to be read where it does not say, as a study's ``[offers]`` gives it.

    Parameters
    ----------
    currency
        Code of the currency of prices that name none.
    rates
        US$ for one unit of a currency, by its code.
    decimal
        The mark that separates decimals in text such as ``14.950``; None = as the file itself shows.
    tax_percent
        Tax that prices contain which are said to be with tax; it is taken out of them.
    harmless
        Words in an offer that the reader does not know, and that change no amount.
    columns
        Headings by the column that each is, of `procure.sheets.mapped.FIELDS`: ``{"name": ["Ürün"]}``; one may
        stand alone.
    warranty_years
        The warranty that is bought: of each vendor's warranty lines the shortest that lasts so long.
        None = no warranty line is bought.
    """

    currency: str | None = None
    rates: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=dict)
    decimal: Literal["comma", "point"] | None = None
    tax_percent: Annotated[float, Field(ge=0, lt=100)] | None = None
    harmless: list[str] = Field(default_factory=list)
    columns: dict[str, list[str]] = Field(default_factory=dict)
    warranty_years: PositiveInt | None = None

    @field_validator("currency")
    @classmethod
    def _known(cls, code: str | None) -> str | None:
        return code if code is None else currency_code(code)

    @field_validator("rates")
    @classmethod
    def _of_known(cls, rates: dict[str, float]) -> dict[str, float]:
        return {currency_code(code): rate for code, rate in rates.items()}

    @field_validator("columns", mode="before")
    @classmethod
    def _in_lists(cls, columns: object) -> object:
        if not isinstance(columns, dict):
            return columns
        return {name: [given] if isinstance(given, str) else given for name, given in columns.items()}

    @field_validator("columns")
    @classmethod
    def legal(cls, columns: dict[str, list[str]]) -> dict[str, list[str]]:
        """Return the columns that headings are stated to be, if each can be one, and no heading is two."""
        if unknown := [repr(name) for name in columns if name not in FIELDS]:
            raise ValueError(f"{', '.join(unknown)}: no column that a heading can be; allowed: {', '.join(FIELDS)}")
        headings = [normal(text) for given in columns.values() for text in given]
        if twice := [text for n, text in enumerate(headings) if not text or text in headings[:n]]:
            raise ValueError(f"heading {twice[0]!r} was given twice, or is empty; one column for each heading")
        return columns

    def convention(self) -> Convention:
        """Return what a reader of sheets needs, in exact decimals."""
        tax = None if self.tax_percent is None else Decimal(str(self.tax_percent))
        rates = {code: Decimal(str(rate)) for code, rate in self.rates.items()}
        tokens = (token for text in self.harmless for token in text.split())
        harmless = frozenset(word for token in tokens for word in plain_words(token).split() or [token])
        columns = {text: name for name, given in self.columns.items() for text in given}
        return Convention(rates, self.currency, self.decimal, tax, harmless, columns)


def currency_code(text: str) -> str:
    """Return a currency's code in capitals.

    Raises
    ------
    TableError
        It is none that is known.
    """
    code = text.strip().upper()
    if code not in CODES:
        raise TableError(f"{text!r} is no currency; {nearest(code, sorted(CODES))}")
    return code


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
        Errors, guesses and warnings, in the file's order.
    understood
        A row of text per server type, as the quote table writes it; of a cell with an error ``? `` and what is
        given, so that it is an error again when it is read in another context, and nothing where it is text.
    n_lines_unread
        Further lines of the order that an error is about; they are in none of the above.
    """

    path: Path
    quotes: pd.DataFrame
    lines: tuple[Line, ...]
    findings: tuple[Finding, ...]
    understood: pd.DataFrame
    n_lines_unread: int = 0

    @property
    def errors(self) -> list[Finding]:
        """The findings for which the file is refused."""
        return [one for one in self.findings if one.severity == "error"]

    def error(self) -> TableError:
        """Return the errors as one; a single one stands on the file's line, as in every other table."""
        said = listed_once(self.errors)
        return TableError(f"{self.path}, {said[0]}" if len(said) == 1 else complaint(str(self.path), said))

    def notes(self) -> list[str]:
        """Say how much was guessed or left out, where any was."""
        counts = {kind: sum(one.severity == kind for one in self.findings) for kind in ("guess", "warning")}
        if not any(counts.values()):
            return []
        n, left = counts["guess"], counts["warning"]
        return [f"{self.path}: {n} cells or columns were guessed, {left} left out; `procure quotes check` lists them"]


def read_quotes(path: str | Path, reading: OfferReading | None = None) -> pd.DataFrame:
    """Read a quote table from a spreadsheet (.xlsx, .ods), CSV (plain or compressed) or Parquet.

    Parameters
    ----------
    path
        The file. A quote table has the columns ``name, category, cpus, mem_gb, gpus, price_usd``
        (1 GB = 1,000 MB) and may have the others of `procure.tables.QUOTE`; how any other sheet is understood says
        `read_quote_file`.
    reading
        Currencies, decimals and tax.

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
    """Read a quote file of any kind, and list all that was found in it.

    A quote table in its own columns is read as it is. What it is not, and every spreadsheet, is looked through for
    header rows in 14 languages; units and currencies are taken from cells, number formats and headings. A cell
    that could mean several things is an error that names the option which answers it; a cell that was understood in
    one of several ways is a guess.

    Raises
    ------
    TableError
        The file cannot be read at all, or holds no table of offers.
    """
    path, reading = existing_file(path), reading or OfferReading()
    if not path.is_file() or path.stat().st_size > _MOST_BYTES_KEPT:
        return _read(path, reading)
    try:
        content = path.read_bytes()
    except OSError:  # the reader says what is wrong
        return _read(path, reading)
    found = _read_once(path, hashlib.blake2b(content).digest(), reading.model_dump_json())
    return replace(found, quotes=found.quotes.copy(), understood=found.understood.copy())


def all_harmless(path: str | Path, reading: OfferReading) -> tuple[list[str], QuoteFile]:
    """Return what answers every question of a file that may be about nothing, and how the file is read with it.

    Answers show further questions at times: they are given until none of this kind is left.
    """
    given, found = list(reading.harmless), read_quote_file(path, reading)
    while more := [one.harmless for one in found.errors if one.harmless and one.harmless not in given]:
        if any(one.startswith("remarks") for one in more):  # the answer for all remarks takes the place of one before
            given = [one for one in given if one in reading.harmless or not one.startswith("remarks")]
        given += dict.fromkeys(more)
        found = read_quote_file(path, reading.model_copy(update={"harmless": given}))
    return given[len(reading.harmless) :], found


@functools.lru_cache(maxsize=8)
def _read_once(path: Path, content: bytes, reading: str) -> QuoteFile:
    """Read a file whose ``content`` has this digest: a command asks for the same quotes up to five times."""
    return _read(path, OfferReading.model_validate_json(reading))


def _read(path: Path, reading: OfferReading) -> QuoteFile:
    refused: TableError | None = None
    if not is_workbook(path) and not reading.columns:
        try:
            quotes = check_quotes(read(path, QUOTE), str(path))
            if not _has_three_decimals(path):
                return _without_example(path, quotes)
        except TableError as error:
            if path.suffix == ".parquet" or is_parquet(read_bytes(path)):
                raise
            refused = error
    try:
        return _checked(path, read_sheets(path, reading.convention()))
    except TableError as error:
        # Of delimited text without a table of offers, what the quote table lacks says more, but not its code page.
        says_more = isinstance(error, NoTable) and bool(error.guesses)
        raise (error if refused is None or says_more or "not text in UTF-8" in str(refused) else refused) from None


def _without_example(path: Path, quotes: pd.DataFrame) -> QuoteFile:
    """Leave out the row that the template shows."""
    shown = (quotes["name"] == EXAMPLE).to_numpy()
    if not shown.any():
        return QuoteFile(path, quotes, (), (), quotes)
    if shown.all():
        raise TableError(f"{path}: holds no quote but the template's example")
    row = f"row {int(shown.argmax()) + 1}"
    quotes = quotes[~shown].reset_index(drop=True)
    return QuoteFile(path, quotes, (), (Finding("warning", "", row, "", EXAMPLE, "is left out"),), quotes)


def _has_three_decimals(path: Path) -> bool:
    """Tell whether a price or an amount of memory is written as 14.950, which is no amount in cents."""
    if path.suffix == ".parquet":
        return False
    frame = read_rows(read_bytes(path), str(path))
    columns = [frame[name].astype(str) for name in ("price_usd", "mem_gb") if name in frame]
    return any(column.str.fullmatch(r"\s*\$?\d{1,3}\.\d{3}\s*").any() for column in columns)


def _checked(path: Path, sheet: SheetTable) -> QuoteFile:
    """Check what was read of a sheet cell by cell, and turn what is wrong into findings."""
    names = [name for name in QUOTE.names if any(name in row for row in sheet.rows)]
    frame = pd.DataFrame(
        [{name: row.get(name, "") for name in names} for row in sheet.rows], columns=names, dtype=object
    )
    understood = frame.copy()
    findings = list(sheet.findings) + list(sheet.missing)
    lacking = {one.column for one in sheet.missing}
    for row, column in sheet.reported:
        if column in understood:
            understood.loc[row, column] = _marked(sheet, row, column)
        frame.loc[row, column] = _filler(column, row)
    for column in lacking:
        frame[column] = [_filler(column, row) for row in range(len(frame))]
    bad = {row for row, _ in sheet.reported} | (set(range(len(frame))) if lacking else set())
    frame, errors = cell_errors(frame, QUOTE)
    repeated = _repeated(sheet, frame)
    bad |= {row for row, _ in repeated}
    findings += [one for _, one in repeated]
    quotes = pd.DataFrame()
    if len(frame):
        frame.loc[[row for row, _ in repeated], "name"] = [f"repeated {row}" for row, _ in repeated]
        quotes = check(frame, QUOTE)
        errors += list(quote_errors(quotes))
    elif not sheet.lines and not any(one.severity == "error" for one in findings):
        raise TableError(f"{path}: holds no quote; at least one row is needed")
    for error in errors:
        where = sheet.where[error.row].get(error.column, ("", ""))
        given = sheet.given[error.row].get(error.column, "")
        what = error.what.removeprefix(f"{given!r} ")
        findings.append(Finding("error", where[0], where[1], error.column, given if what != error.what else "", what))
        bad.add(error.row)
        if error.column in understood:
            understood.loc[error.row, error.column] = _marked(sheet, error.row, error.column)
    quotes = quotes.drop(index=sorted(bad)).reset_index(drop=True) if bad else quotes
    quotes = check_quotes(quotes, str(path)) if len(quotes) else quotes
    return QuoteFile(path, quotes, tuple(sheet.lines), tuple(findings), understood, sheet.n_lines_unread)


def _marked(sheet: SheetTable, row: int, column: str) -> str:
    """Return what stands for a cell with an error: no number and no date, so that nobody takes it for one."""
    given = sheet.given[row].get(column, "")
    return f"? {given}".strip() if QUOTE.by_name[column].dtype != "str" or column == "valid_until" else ""


def _filler(column: str, row: int) -> str:
    kind = QUOTE.by_name[column].dtype
    return (
        f"unread {row}"
        if column == "name"
        else ""
        if column == "valid_until"
        else {"str": "x", "bool": "false"}.get(kind, "1")
    )


def _repeated(sheet: SheetTable, frame: pd.DataFrame) -> list[tuple[int, Finding]]:
    """Return the rows whose name an earlier row has, each with its finding."""
    first: dict[str, int] = {}
    found = []
    for row, name in enumerate(frame.get("name", ())):
        if name in first:
            also, here = sheet.where[first[name]]["name"], sheet.where[row]["name"]
            place = ", ".join(filter(None, (f"sheet {also[0]}" if also[0] and also[0] != here[0] else "", also[1])))
            what = f"duplicate {name!r}, also in {place}; each name must be unique"
            found.append((row, Finding("error", here[0], here[1], "name", "", what)))
        first.setdefault(name, row)
    return found
