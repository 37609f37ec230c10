"""A spreadsheet, or delimited text, becomes rows of the quote table as text, other lines, and a list of findings."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal
from pathlib import Path

from procure.errors import TableError, reason
from procure.files import read_bytes
from procure.files.read import as_utf8
from procure.schemas import QUOTE
from procure.sheets.findings import Finding
from procure.sheets.grid import Cell, Grid
from procure.sheets.guesses import Guess, NoTable, likely_table
from procure.sheets.headings import plain_words
from procure.sheets.lines import Line
from procure.sheets.mapped import Mapping
from procure.sheets.notes import OWN
from procure.sheets.prices import Convention, Pricing, Terms, sheet_terms
from procure.sheets.rows import SheetTable, TableReader
from procure.sheets.specified import Specifications, is_specification
from procure.sheets.tables import Table, is_header, tables_of
from procure.sheets.units import Decimals, amount_of
from procure.sheets.unknown import Ledger, about_remarks, is_known_word
from procure.sheets.words import pattern
from procure.sheets.workbook import MOST_COLUMNS, MOST_ROWS, is_workbook, read_grids
from procure.text import listed


def read_sheets(path: Path, convention: Convention) -> SheetTable:
    """Read all tables of a spreadsheet or of delimited text.

    Raises
    ------
    TableError
        The file cannot be read at all, or a heading that the convention names is not in it.
    NoTable
        No table is found in it.
    """
    found = SheetTable()
    mapping = Mapping(dict(convention.columns), convention.harmless)
    grids = read_grids(path) if is_workbook(path) else [_text_grid(path, found, mapping)]
    seen = [_seen(grid, found) for grid in grids]
    mapped = [mapping.grid(grid) for grid in seen]
    visible = [grid for grid, _ in mapped]
    by_sheet = [(grid, tables_of(grid)) for grid in visible]
    tables = [(grid, table) for grid, of_it in by_sheet for table in of_it]
    beside = [grid for grid, of_it in by_sheet if not of_it]
    mapping.check_used(str(path), seen, bool(tables))
    if not tables:
        raise _no_table(path, visible, found)
    found.findings += [one for _, said in mapped for one in said]
    if not is_workbook(path):
        _check_width(path, tables)
    decimal = convention.decimal or _decimal_mark(tables)
    offers: list[tuple[Table, list[Line]]] = []
    specified, tables = _specifications(tables, convention, decimal, found)
    sums = dict.fromkeys((grid.sheet for grid, _ in tables), Decimal(0))
    for grid, table in tables:
        found.findings += table.findings
        terms = sheet_terms(_with_text_of(grid, beside), table)
        n_rows, n_lines = len(found.rows), len(found.lines)
        reader = TableReader(table, Pricing(table, terms, convention), decimal, found, specified)
        sums[grid.sheet] = reader.read(sums[grid.sheet])
        if len(found.rows) > n_rows and len(found.lines) > n_lines:
            offers.append((table, found.lines[n_lines:]))
    if not found.rows and not any(one.severity == "error" for one in found.findings + found.missing):
        said = "no row was read as a server: cores, memory and a price of one node are needed, each in a column"
        found.findings.append(Finding("error", tables[0][1].sheet, tables[0][1].top[0].address, "", "", said))
    found.findings += specified.open(found.lines)
    _ask_bidders(found, offers)
    _ask_lots(found, convention)
    _take_off_lines(found)
    ledgers = [Ledger(grid, of_it, convention.harmless) for grid, of_it in by_sheet]
    for ledger in ledgers:
        found.findings += ledger.account(found.findings, found.lines)
    found.findings += about_remarks([one for ledger in ledgers for one in ledger.remarks], convention.harmless)
    return found


def _specifications(
    tables: list[tuple[Grid, Table]], convention: Convention, decimal: Decimals | None, found: SheetTable
) -> tuple[Specifications, list[tuple[Grid, Table]]]:
    """Return what tables without prices specify of servers that have theirs elsewhere, and the other tables."""
    specified, others = Specifications(), list[tuple[Grid, Table]]()
    for grid, table in tables:
        text = "; ".join(cell.text for one, _ in tables if one.sheet != grid.sheet for row in one.rows for cell in row)
        if is_specification(table, [one for _, one in tables], text):
            read = SheetTable()
            TableReader(table, Pricing(table, Terms(), convention), decimal, read).specify(specified)
            if pattern("required").search(plain_words(grid.sheet)):
                said = "may say what is required, not what is offered: rename the sheet, or delete it"
                read.findings.append(Finding("error", grid.sheet, "", "", grid.sheet, said))
            found.findings += table.findings + read.findings
        else:
            others.append((grid, table))
    return specified, others


def _no_table(path: Path, grids: list[Grid], found: SheetTable) -> NoTable:
    """Say that there is no table of offers, and what headings of rows that look like one may mean."""
    page = f"; {found.not_utf8}" if found.not_utf8 else ""
    said = [
        f"{path}: no table of offers was found: a header row with a name, CPUs, memory and a price is needed; "
        f"`procure quotes template` writes one{page}"
    ]
    guesses: dict[str, Guess] = {}
    for grid in grids:
        place, of_it = likely_table(grid) or ("", [])
        if of_it:
            where = f"sheet {grid.sheet}, {place}" if grid.sheet else place
            said.append(f"{where} looks like a header; headings that are not known, with what stands beneath each:")
            said += [f"  {one}" for one in of_it]
        guesses = {one.heading.text: one for one in of_it} | guesses
    return NoTable("\n".join(said), list(guesses.values()))


def _with_text_of(grid: Grid, others: list[Grid]) -> Grid:
    """Return a sheet with the rows of sheets that have no table: what they say of prices holds for all."""
    rows = [
        [replace(cell, address=f"{one.sheet}!{cell.address}") for cell in row] for one in others for row in one.rows
    ]
    return replace(grid, rows=[*grid.rows, *rows])


def _ask_bidders(found: SheetTable, offers: list[tuple[Table, list[Line]]]) -> None:
    """Ask whether tables that each have servers and lines are one offer: a package would pay for the lines of all."""
    nameless = [(table, [line for line in lines if not line.vendor]) for table, lines in offers]
    if len(offers) < 2 or not any(lines for _, lines in nameless):
        return
    for table, lines in nameless[1:] if nameless[0][1] else nameless:
        if lines:
            said = (
                "stands beside servers, as lines of another table do: if they are two bidders, give each its own "
                "file; if one offer, give both tables a column vendor"
            )
            found.findings.append(Finding("error", table.sheet, lines[0].cell, "vendor", lines[0].name, said))


def _ask_lots(found: SheetTable, convention: Convention) -> None:
    """Ask whether sheets that are named as lots are one list of servers: of each lot another bidder may be paid."""
    named = [
        next(iter(place.values()))[0] for place, row in zip(found.where, found.rows, strict=True) if not row.get("lot")
    ]
    titles = list(dict.fromkeys(one for one in named if pattern("lots").search(plain_words(one))))
    if len(titles) > 1 and "lots" not in convention.harmless:
        said = (
            f"as well as {listed([repr(one) for one in titles[:-1]])}, has servers: if they are several offers, give "
            "each its own file, or a column lot; if they are one list to choose from, --harmless lots"
        )
        found.findings.append(Finding("error", titles[-1], "", "lot", titles[-1], said, "lots"))


def _take_off_lines(found: SheetTable) -> None:
    """Take a percentage off the whole offer from the lines of the order too, as an amount to the cent.

    A fraction of a cent stays with the vendor, as of every percentage. What is charged for each node is part of the
    node's price, which the percentage is taken off anyway.
    """
    for off in found.on_all:
        others = [line for line in found.lines if line.usd > 0 and (not off.vendor or line.vendor == off.vendor)]
        if any(line.kind == "warranty" and line.years is not None for line in others):
            said = "is on warranties too, of which one is chosen later; lower their prices, and write on servers"
            found.findings.append(Finding("error", off.sheet, off.cell, "", off.name, said))
            continue
        for vendor in dict.fromkeys(line.vendor for line in others if line.per == "order"):
            whole = sum(
                (one.usd * one.quantity for one in others if one.per == "order" and one.vendor == vendor), Decimal(0)
            )
            usd = -(whole * (off.percent or 0) / 100).quantize(Decimal("0.01"), ROUND_DOWN)
            found.lines.append(replace(off, name=f"{off.name} (other lines)", vendor=vendor, usd=usd, percent=None))
            said = f"takes US$ {-usd:,.2f} off the other lines too"
            found.findings.append(Finding("guess", off.sheet, off.cell, "", off.name, said))


def _text_grid(path: Path, found: SheetTable, mapping: Mapping) -> Grid:
    content = as_utf8(read_bytes(path))
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        if b"\0" in content[:4096]:
            raise TableError(f"{path}: is neither text nor a spreadsheet (.xlsx, .ods)") from None
        text, page = _decoded(content)
        found.not_utf8 = f"{reason(error)}, and it was read as {page}"
        found.findings.append(Finding("guess", "", "", "", "", f"the text is not UTF-8; it was read as {page}"))
    heads = [line for line in text[:65536].splitlines() if line.strip()][:40]
    marks = sorted(",;\t", key=lambda one: -max((line.count(one) for line in heads), default=0))
    heading = (
        mark for mark in marks if any(is_header(mapping.row(row)) for row in _fields(path, "\n".join(heads), mark))
    )
    rows = _fields(path, text, next(heading, marks[0]))
    if len(rows) > MOST_ROWS or max(map(len, rows), default=0) > MOST_COLUMNS:
        raise TableError(f"{path}: has more than {MOST_ROWS:,} rows or {MOST_COLUMNS} columns")
    if rows and is_header(mapping.row(rows[0])):  # rows are counted from the header where that is the first line
        rows = [
            [replace(cell, address=f"row {n - 1}" if (n := int(cell.address[5:])) > 1 else "header") for cell in row]
            for row in rows
        ]
    return Grid("", rows)


def _fields(path: Path, text: str, mark: str) -> list[list[Cell]]:
    """Return the fields of delimited text, each with its line in the file; of an empty line one that is empty."""
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=mark, skipinitialspace=True)
    rows, line = [], 1
    try:
        for row in lines:
            rows.append([Cell(f"line {line}", field) for field in row or [""]])
            line = lines.line_num + 1
    except csv.Error as error:
        raise TableError(f"{path}: cannot be read as CSV: {error}") from None
    return rows


_PAGES = {"cp1252": "Windows-1252", "cp1250": "Windows-1250", "iso8859_2": "ISO-8859-2"}


def _decoded(content: bytes) -> tuple[str, str]:
    """Return text under the code page that makes the most of its words known ones, and that page's name.

    What is no letter in a page counts against it; of equal ones the first is taken.
    """

    def score(text: str) -> int:
        words = {word for word in re.findall(r"[^\W\d_]{2,}", text) if not word.isascii()}
        n_known = sum(is_known_word(word) for word in words) + len(re.findall(r"[€£](?=\s?\d|\s*[\])])", text))
        return n_known - len(re.findall("[\x80-\x9f\ufffd]", text))

    texts = {page: content.decode(page, errors="replace") for page in _PAGES}
    best = max(texts, key=lambda page: score(texts[page][:65536]))
    return texts[best], _PAGES[best]


def _seen(grid: Grid, found: SheetTable) -> Grid:
    """Return what a person sees of a sheet; say what is hidden, and which notes cells have."""
    if grid.is_hidden:
        found.findings.append(Finding("warning", grid.sheet, "", "", "", "the sheet is hidden, and so is not read"))
    hidden: dict[tuple[str, int], Cell] = {}
    for n, row in enumerate(grid.rows):
        for place, cell in enumerate(row):
            if (n in grid.hidden_rows or place in grid.hidden_columns) and not cell.is_empty:
                hidden.setdefault(("row", n) if n in grid.hidden_rows else ("column", place), cell)
    for (what, _), cell in hidden.items():
        said = f"is hidden, and so is not read, nor is the rest of this {what}"
        found.findings.append(Finding("warning", grid.sheet, cell.address, "", cell.text, said))
    found.findings += [
        Finding("warning", grid.sheet, cell.address, "", cell.text, f"has a note that is not read: {cell.note}")
        for row in grid.rows
        for cell in row
        if cell.note and cell.note not in OWN
    ]
    return grid.spread().without_hidden()


def _check_width(path: Path, tables: list[tuple[Grid, Table]]) -> None:
    """Refuse rows of delimited text with more fields than their header: a separator moved them."""
    for _, table in tables:
        for row in table.rows:
            if any(not cell.is_empty for cell in row[table.width :]):
                hint = "" if table.is_ours else "; an amount with a comma in it needs quotation marks"
                raise TableError(
                    f"{path}, {row[0].address}: {len(row)} fields where the header has {table.width}{hint}"
                )


def _decimal_mark(tables: list[tuple[Grid, Table]]) -> Decimals | None:
    """Return the mark that separates decimals where the amounts of the tables can only mean one."""
    marks: set[Decimals] = set()
    for _, table in tables:
        places = [
            n for name, n in table.columns.items() if name in QUOTE.by_name and QUOTE.by_name[name].dtype != "str"
        ]
        for row in table.rows:
            for place in places:
                value = row[place].value if place < len(row) else None
                amount = amount_of(value) if isinstance(value, str) else None
                if amount is not None and len(amount.values) == 1:
                    marks |= set(amount.values)
    return marks.pop() if len(marks) == 1 else None
