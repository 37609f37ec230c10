"""What a user says that a heading means: it is read as the English one, with the units that stand beside it."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

from procure.errors import TableError
from procure.schemas import QUOTE
from procure.sheets.findings import Finding
from procure.sheets.grid import Cell, Grid
from procure.sheets.headings import NUMBERS, columns_known, is_unit_of, of_each, plain_words, strange_in
from procure.sheets.tables import is_header
from procure.sheets.units import tax_of
from procure.sheets.unknown import is_known_word
from procure.sheets.words import NODE, PIECE, folded, pattern

_TITLES = {
    "name": "server",
    "cpus": "cores",
    "cores_per_node": "cores per node",
    "mem_gb": "memory",
    "price_usd": "unit price",
    "total": "total price",
    "measure": "unit of measure",
    "price_unit": "pricing unit",
    "module_gb": "module size",
    "core_gb": "memory per core",
    "none": "number",
}
"""English headings of fields that their own names are none of."""
_ASIDE = re.compile(r"[(\[{]([^)\]}]*)[)\]}]")
_CUT = re.compile(r"[\s,;/]+")
_ONE = re.compile(f"{NODE}|{PIECE}")
_OTHERS = sorted(columns_known() - set(QUOTE.names) - {"_number"})
FIELDS = {
    **{name: name for name in QUOTE.names},
    **{name[1:]: name for name in _OTHERS},
    "cores_per_node": "cpus",
    "none": "_number",
}
"""Fields that a heading may be said to be, each with what `headings.toml` calls it; ``none`` is not read.

``cores_per_node`` are the cores of a node where a column of its sockets leaves open whether those of one CPU are meant.
"""


def normal(text: str) -> str:
    """Return a heading as it is compared: without regard to capitals and line breaks."""
    return " ".join(text.split()).casefold()


def english(text: str, field: str, harmless: frozenset[str]) -> tuple[str, list[str]]:
    """Return the English heading of a field, with what another heading states beside its words, and what to ask.

    Units, tax and what each amount is of stay. Words in brackets, or behind a stroke, that are not known are asked.
    """
    column, title = FIELDS[field], _TITLES.get(field, field.replace("_", " "))
    text = folded(text)
    rest, _, tail = _ASIDE.sub(" ", text).partition(",")
    asides = [*_ASIDE.findall(text), *([tail.strip()] if tail and column in NUMBERS else [])]
    if column not in NUMBERS:
        return " ".join([title, *(f"({one})" for one in asides)]), []
    units = [word for word in _CUT.split(rest) if is_unit_of(word, column)]
    behind = [word for part in rest.split("/")[1:] for word in part.split()[:1]]
    asked = [one for one in behind if not (is_unit_of(one, column) or _ONE.fullmatch(one.casefold()))]
    asked += re.findall(r"\S*\d\S*", rest)
    for part in asides:
        words = [one for one in strange_in(part, column) if not is_known_word(one)]
        asked += words
        units.append(" ".join(one for one in _CUT.split(part) if one not in words) if words else part)
    taxed = {True: "incl. tax", False: "excl. tax", None: ""}[tax_of(text)]
    kept = [f"({one})" for one in units if one.strip()]
    kept += [one[0] for theme in ("leases", "sets") if (one := pattern(theme).search(plain_words(text)))]
    asked = [one for one in asked if not set(plain_words(one).split() or [one.casefold()]) <= harmless]
    return " ".join([title, *kept, *of_each(rest), taxed]).strip(), asked


class Mapping:
    """The headings that the user says the columns of, and what came of them."""

    def __init__(self, columns: dict[str, str], harmless: frozenset[str]) -> None:
        """Take the columns by heading, and the words that change nothing."""
        self.columns, self.harmless = {normal(text): name for text, name in columns.items()}, harmless
        self.given = {normal(text): text for text in columns}
        self.used: set[str] = set()

    def row(self, cells: list[Cell]) -> list[Cell]:
        """Return a row with its headings in English where that makes it the header of a table, else as it is."""
        named = [self._cell(cell) for cell in cells]
        return named if named != cells and is_header(named) else cells

    def _cell(self, cell: Cell) -> Cell:
        name = self.columns.get(normal(cell.text))
        return cell if name is None else replace(cell, value=english(cell.text, name, self.harmless)[0])

    def grid(self, grid: Grid) -> tuple[Grid, list[Finding]]:
        """Return a sheet whose headings are in English, in rows or else in columns, and what is said of each."""
        if not self.columns:
            return grid, []
        rows = [self.row(row) for row in grid.rows]
        if rows == grid.rows:
            turned = grid.turned()
            columns = [self.row(row) for row in turned.rows]
            if columns == turned.rows:
                return grid, []
            rows = replace(turned, rows=columns).turned().rows
        pairs = (
            (old, new)
            for was, now in zip(grid.rows, rows, strict=True)
            for old, new in zip(was, now, strict=False)
            if old != new
        )
        found = [one for old, new in pairs for one in self._findings(grid.sheet, old, new)]
        return replace(grid, rows=rows), found

    def _findings(self, sheet: str, cell: Cell, heading: Cell) -> list[Finding]:
        """Say how a heading is read, and ask about words in it that are not known."""
        name = self.columns[normal(cell.text)]
        self.used.add(normal(cell.text))
        words = english(cell.text, name, self.harmless)[1]
        column = name if name in QUOTE.by_name else ""
        said = "is not read, as stated" if name == "none" else f"is read as {heading.text!r}, as stated"
        found = [Finding("guess", sheet, cell.address, column, cell.text, said)]
        if words:
            listed = ", ".join(map(repr, words))
            said = f"{listed}: not known; change the cell, or say that it changes no amount (--harmless WORD)"
            found.append(Finding("error", sheet, cell.address, column, cell.text, said, " ".join(words)))
        return found

    def check_used(self, path: str, grids: list[Grid], has_tables: bool) -> None:
        """Refuse a heading that no sheet has, or, where there are tables, that none of them has.

        Raises
        ------
        TableError
            There is such a heading.
        """
        texts = {normal(cell.text): cell.text for grid in grids for row in grid.rows for cell in row if cell.text}
        for text, given in self.given.items():
            if text not in self.used and (has_tables or text not in texts):
                told = "heads no table" if text in texts else f"no cell holds it; {_nearest(text, texts)}"
                raise TableError(f"{path}: {given!r}, stated to be the column {self.columns[text]}: {told}")


def _nearest(text: str, texts: dict[str, str]) -> str:
    """Name the cells most like a heading; nothing where none is like it."""
    close = difflib.get_close_matches(text, texts, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(repr(texts[one]) for one in close)}?" if close else "write it as the sheet does"
