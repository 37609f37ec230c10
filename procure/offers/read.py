"""Read an offer: every table whose headings are known, cell by cell; what is not read is listed."""

from __future__ import annotations

import csv
import fnmatch
import io
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from procure.errors import TableError, reason
from procure.files import read_bytes
from procure.files.read import as_utf8
from procure.offers import cells
from procure.offers.cells import CHANGES, Cell, Finding, Sheet, Unreadable, address, question
from procure.offers.headings import CHOICES, MONEY, Heading, Kind, Line, Table, header_of
from procure.offers.reading import OfferReading
from procure.offers.template import EXAMPLE
from procure.offers.workbook import MOST_COLUMNS, MOST_ROWS, is_workbook, read_workbook
from procure.schemas import COST_ITEMS, QUOTE

_AMOUNTS = {"cpus", "mem_gb", "sockets", "cores_per_socket"}
"""What a row with any of these is a server."""
_READERS: dict[str, Callable[[Cell], object]] = {"mandatory": cells.read_truth, "valid_until": cells.read_date}


@dataclass
class Offer:
    """What an offer says."""

    rows: list[dict[str, Any]] = field(default_factory=list)  # values by column of the quote table
    where: list[dict[str, tuple[str, str, str]]] = field(default_factory=list)  # sheet, cell and text of each
    lines: list[Line] = field(default_factory=list)  # of the order, that are no servers
    findings: list[Finding] = field(default_factory=list)


def read_offer(path: Path, reading: OfferReading) -> Offer:
    """Read every table of a spreadsheet or of delimited text; none, or no stated heading, is an error."""
    offer = Offer()
    sheets = read_workbook(path) if is_workbook(path) else [_text_sheet(path, reading, offer)]
    stated: set[str] = set()
    n_tables = sum(_SheetReader(sheet, reading, offer, stated).read() for sheet in sheets)
    for name, headings in reading.columns.items():
        for text in headings:
            if not text.startswith("=") and text not in stated:
                raise TableError(f"{path}: --column {name}={text!r}: no heading is {text!r}; {_headings(sheets)}")
    if not n_tables:
        page = "".join(f"; {one.allowed}" for one in offer.findings if not (one.cell or one.sheet))
        raise TableError(
            f"{path}: no table of servers was found: a row of headings that are known is needed (name, cpus, mem_gb, "
            f"gpus, price_usd), or --column FIELD=HEADING for each; {_headings(sheets)}; `procure quotes template` "
            f"writes a file to fill in{page}"
        )
    return offer


def _headings(sheets: list[Sheet]) -> str:
    """Return the texts of the row that looks most like headings, with its place."""
    rows = [(sheet, row) for sheet in sheets for row in sheet.rows[:60]]
    texts = [[one.text for one in row if isinstance(one.value, str) and not one.is_empty] for _, row in rows]
    if not any(texts):
        return "it holds no text"
    best = max(range(len(rows)), key=lambda n: len(texts[n]))
    sheet, row = rows[best]
    place = f"sheet {sheet.name}, " if sheet.name else ""
    return f"{place}{row[0].address} has {', '.join(repr(one) for one in texts[best][:20])}"


def _text_sheet(path: Path, reading: OfferReading, offer: Offer) -> Sheet:
    """Read delimited text; the mark between fields is the one by which a header is found, else the most frequent."""
    content = as_utf8(read_bytes(path))
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        if b"\0" in content[:4096]:
            raise TableError(f"{path}: is neither text nor a spreadsheet (.xlsx, .ods)") from None
        text = content.decode("cp1252", errors="replace")
        said = f"{reason(error)}; it was read as Windows-1252"
        offer.findings.append(Finding("warning", "", "", "", "", said))
    tried = [_fields(path, text, mark) for mark in (";", "\t", ",")]
    found = [any(header_of("", row, reading) for row in rows[:60]) for rows in tried]
    width = [max((len(row) for row in rows), default=0) for rows in tried]
    return Sheet("", tried[max(range(3), key=lambda n: (found[n], width[n]))])


def _fields(path: Path, text: str, mark: str) -> list[list[Cell]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, skipinitialspace=True)
    rows, line = [], 1
    try:
        for row in reader:
            rows.append([Cell(address(line - 1, n), value) for n, value in enumerate(row)])
            line = reader.line_num + 1
    except csv.Error as error:
        raise TableError(f"{path}, line {line}: cannot be read as CSV: {error}") from None
    if len(rows) > MOST_ROWS or max(map(len, rows), default=0) > MOST_COLUMNS:
        raise TableError(f"{path}: has more than {MOST_ROWS:,} rows or {MOST_COLUMNS} columns")
    return rows


class _SheetReader:
    """Read the tables of one sheet into an offer."""

    def __init__(self, sheet: Sheet, reading: OfferReading, offer: Offer, stated: set[str]) -> None:
        self.sheet, self.reading, self.offer, self.stated = sheet, reading, offer, stated

    def read(self) -> int:
        """Return the number of tables of servers that were found."""
        n, table = 0, Table()
        for cell, said in self.sheet.hidden + self.sheet.notes:
            self.left_out(cell, said)
        for row in self.sheet.rows:
            header = header_of(self.sheet.name, row, self.reading)
            if header is not None:
                table = header
                n += not table.is_lines
                self.header(table)
            elif not table.columns or not self.record(table, row):
                self.remarks(row)
        return n

    def header(self, table: Table) -> None:
        """List the headings of a table that are not read; one that may change a price is asked about."""
        self.offer.findings += table.findings
        self.stated.update(one.stated for one in [*table.headings.values(), *table.unread])
        for one in table.unread:
            if one.column == "none":
                continue
            if CHANGES.search(one.cell.text) and not self.is_ignored(one.cell):
                said = "is no known column and may change a price; --column price_usd=HEADING, or none=HEADING"
                self.error(one.cell, "", said)
            else:
                self.left_out(one.cell, "is no known column, and is not read")

    def record(self, table: Table, row: list[Cell]) -> bool:
        """Read a row of a table; False where it has nothing in the columns that are read."""
        found = {name: row[n] for name, n in table.columns.items() if n < len(row) and not row[n].is_empty}
        priced = {"price_usd", "total"}
        if not found:
            return False
        if "name" in found and found["name"].text == EXAMPLE:
            return True
        if table.is_lines:
            self.line(table, found)
        elif not _AMOUNTS & set(found):
            self.no_server(row)
        elif priced & set(table.columns) and not priced & set(found):
            self.left_out(next(iter(found.values())), "has no price, and is not read")
        else:
            self.beside(table, row, found)
            self.server(table, found)
        return True

    def beside(self, table: Table, row: list[Cell], found: dict[str, Cell]) -> None:
        """Look at what a server's row holds beside the cells that are read: no condition passes in silence."""
        read = set(table.columns.values())
        settled = {id(one.cell) for one in table.unread if one.column == "none"}
        headed = {n for n, cell in enumerate(table.row) if not cell.is_empty}
        for n, cell in enumerate(row):
            if n in read and cell.is_covered:
                self.error(cell, "", "is merged with another cell; write the value in each")
            elif n in read or cell.is_empty or self.is_ignored(cell) or (n in headed and id(table.row[n]) in settled):
                continue
            elif said := question(cell, self.reading):
                self.ask(cell, "", said)
            elif n not in headed:
                self.left_out(cell, "has no heading, and is not read")
        name = found.get("name")
        if name is not None and not self.is_ignored(name) and (said := question(name, self.reading)):
            self.ask(name, "name", said)

    def no_server(self, row: list[Cell]) -> None:
        """List a row without cores and memory, such as a switch or a sum; a discount or a tax is asked about."""
        filled = [cell for cell in row if not cell.is_empty]
        text = " ".join(cell.text for cell in filled if not cell.is_number)
        asked = next((cell for cell in filled if "%" in cell.text or question(cell, self.reading)), None)
        if asked is not None and not cells.is_amount(asked) and not self.is_ignored(asked):
            self.ask(asked, "", question(asked, self.reading) or "may change a price")
            return
        amounts = ", ".join(cell.text for cell in filled if cell.is_number or cells.is_amount(cell))
        said = f"is no server ({amounts or 'no amount'}), and is not read; a line of the order stands on the sheet "
        self.left_out(Cell(filled[0].address, text or filled[0].text), said + "'Other lines' of the template")

    def server(self, table: Table, found: dict[str, Cell]) -> None:
        """Read one server type."""
        values: dict[str, Any] = {}
        n_errors = len(self.offer.findings)
        self.values(table, found, values)
        self.derived(table, found, values)
        self.constants(table, values)
        for name in ("name", "cpus", "mem_gb", "gpus", "price_usd"):
            if name not in values and not any(one.column == name for one in self.offer.findings[n_errors:]):
                self.missing(table, found, name)
        if "category" not in values and "name" in values:
            self.category(found["name"] if "name" in found else next(iter(found.values())), values)
        if not any(one.severity == "error" for one in self.offer.findings[n_errors:]):
            places = {name: (self.sheet.name, cell.address, cell.text) for name, cell in found.items()}
            self.offer.where.append(places)
            self.offer.rows.append({name: value for name, value in values.items() if name in QUOTE.by_name})

    def values(self, table: Table, found: dict[str, Cell], values: dict[str, Any]) -> None:
        """Read the cells of a row into ``values``."""
        for name, cell in found.items():
            try:
                self.value(name, cell, table.headings[name], values)
            except Unreadable as error:
                self.error(cell, name, str(error))

    def value(self, name: str, cell: Cell, heading: Heading, values: dict[str, Any]) -> None:
        """Read one cell of a server or of a line into ``values``."""
        kind = "str" if name in CHOICES else QUOTE.by_name[name].dtype if name in QUOTE.by_name else "int"
        if name in MONEY:
            # A bare number beneath a column's own name, such as price_usd, is in US$.
            is_bare = not cell.unit if cell.is_number else cells.numbers(cell.text)
            own = "USD" if heading.cell.text == heading.column and is_bare else ""
            if heading.without_tax and self.reading.tax_percent:
                raise Unreadable(
                    "is a price without tax by its heading, and --set tax_percent would take tax out of it"
                )
            values[name] = cells.read_money(cell, heading.unit or own, self.reading, with_tax=heading.with_tax)
        elif name == "gpus":
            values[name], model = cells.read_gpus(cell, self.reading)
            if model and values.setdefault("gpu_type", model) != model:
                raise Unreadable(f"names {model}, and gpu_type {values['gpu_type']}; write one of them")
        elif name in _READERS:
            values[name] = _READERS[name](cell)
        elif name == "discount":
            values[name] = cells.read_percent(cell, self.reading)
        elif kind == "str":
            text = "" if name == "gpu_type" and cell.text.casefold() in cells.NOTHING else cells.read_text(cell)
            if name in CHOICES and text not in CHOICES[name]:
                raise Unreadable(f"is not allowed; allowed: {', '.join(CHOICES[name])}")
            if text and values.get(name, text) not in ("", text) and name not in CHOICES:
                raise Unreadable(f"is not the {values[name]} of another cell; write one of them")
            values[name] = text
        else:
            unit = QUOTE.by_name[name].unit if name in QUOTE.by_name else ""
            number = cells.read_number(cell, unit, heading.unit, self.reading, is_plain=heading.is_plain)
            values[name] = int(cells.whole(number)) if kind == "int" else float(number)

    def derived(self, table: Table, found: dict[str, Cell], values: dict[str, Any]) -> None:
        """Work out cores from sockets and a price from its total; hold a price against its total."""
        if {"sockets", "cores_per_socket"} <= set(values):
            cores = values["sockets"] * values["cores_per_socket"]
            if values.setdefault("cpus", cores) != cores:
                said = f"is not {values['sockets']} × {values['cores_per_socket']}; write one of them"
                self.error(found["cpus"], "cpus", said)
        price, total, n = (values.get(name) for name in ("price_usd", "total", "quantity"))
        if total is not None and n:
            if price is None and "price_usd" not in found:
                values["price_usd"] = (total / n).quantize(Decimal("0.01"))
            elif price is not None and abs(price * n - total) > Decimal("0.01") * n:
                said = f"times {n} is {price * n:,.2f} and not the total, {total:,.2f} US$"
                self.error(found["price_usd"], "price_usd", said)
        elif total is not None and price is None and "price_usd" not in found:
            self.error(found["total"], "price_usd", "is a total without a quantity; give a column quantity")
        for name in ("price_usd", *(item.column for item in COST_ITEMS)):
            if name in values:
                values[name] = float(values[name])

    def constants(self, table: Table, values: dict[str, Any]) -> None:
        """Give a row the values that were stated for every row: ``--column gpus==0``."""
        for name, given in self.reading.columns.items():
            for text in given:
                if text.startswith("=") and name not in values and name not in table.columns:
                    stated = Heading(Cell("", name), name, stated=text)
                    try:
                        self.value(name, Cell("", text[1:]), stated, values)
                    except Unreadable as error:
                        raise TableError(f"--column {name}={text}: {text[1:]!r} {error}") from None

    def category(self, cell: Cell, values: dict[str, Any]) -> None:
        """Give a server the category that its name's pattern has."""
        for pattern, category in self.reading.category.items():
            if fnmatch.fnmatchcase(values["name"].casefold(), pattern.casefold()):
                values["category"] = category
                return
        said = "has no category; give a column category, or --category 'GPU*=gpu' --category '*=compute'"
        self.error(cell, "category", said)

    def missing(self, table: Table, found: dict[str, Cell], name: str) -> None:
        """Say that a server lacks a value that it must have."""
        cell = next(iter(found.values()))
        if name in table.columns:
            said = "the cell is empty; write the value"
        else:
            more = f", or --column {name}==0 where no server has any" if name == "gpus" else ""
            said = f"no heading is {name}; --column {name}=HEADING says which{more}"
        self.error(Cell(cell.address), name, said)

    def line(self, table: Table, found: dict[str, Cell]) -> None:
        """Read a line of the template's second sheet."""
        values: dict[str, Any] = {"vendor": "", "quantity": 1, "per": "order", "price_usd": Decimal(0)}
        n_errors = len(self.offer.findings)
        self.values(table, found, values)
        for name in ("kind", "name"):
            if name not in values and name not in found:
                self.missing(table, found, name)
        if not {"price_usd", "discount"} & set(found):
            self.missing(table, found, "price_usd")
        if len(self.offer.findings) > n_errors:
            return
        self.offer.lines.append(
            Line(
                cast(Kind, values["kind"]),
                values["name"],
                values["vendor"],
                1 if values["per"] == "node" else values["quantity"],
                values["price_usd"].quantize(Decimal("0.01")),
                values["per"],
                values.get("years"),
                values.get("discount"),
                self.sheet.name,
                found["name"].address,
            )
        )

    def remarks(self, row: list[Cell]) -> None:
        """List the texts that stand in no table; what may change a price is asked about."""
        for cell in row:
            if cell.is_empty or self.is_ignored(cell):
                continue
            if said := question(cell, self.reading):
                self.ask(cell, "", said)
            else:
                self.left_out(cell, "stands in no table, and is not read")

    def is_ignored(self, cell: Cell) -> bool:
        """Tell whether a person said that the cell changes no price."""
        return bool({cell.address, f"{self.sheet.name}!{cell.address}"} & set(self.reading.ignore))

    def ask(self, cell: Cell, column: str, said: str) -> None:
        """Refuse the file for a cell until a person has said that it changes no price."""
        place = f"{self.sheet.name}!{cell.address}" if self.sheet.name else cell.address
        self.error(cell, column, f"{said} (if it changes none: --ignore {shlex.quote(place)})")

    def error(self, cell: Cell, column: str, said: str) -> None:
        """Refuse the file for a cell."""
        self.offer.findings.append(Finding("error", self.sheet.name, cell.address, column, cell.text, said))

    def left_out(self, cell: Cell, said: str) -> None:
        """List a cell that is not read."""
        self.offer.findings.append(Finding("warning", self.sheet.name, cell.address, "", cell.text, said))
