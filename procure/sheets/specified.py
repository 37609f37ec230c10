"""Specifications of servers on a sheet without prices: they fill, and must not contradict, the servers with a price."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from procure.sheets.cells import same_chips
from procure.sheets.findings import Finding
from procure.sheets.grid import Cell
from procure.sheets.headings import Heading, plain_words
from procure.sheets.lines import Line
from procure.sheets.parts import quantity_of
from procure.sheets.tables import Table
from procure.sheets.units import figure

_PRICES = {"price_usd", "_price", "_list_price", "_total"}
_NUMBERS = ("cpus", "mem_gb", "gpus", "power_w", "idle_power_w", "rack_units", "spec_rate", "spec_rate_node")
SPECIFIED = (*_NUMBERS, "processor", "gpu_type")
"""Columns that a sheet without prices may fill."""
_TITLE_ENDS = re.compile(r"[,;(:|\n]|\s[-–—]\s|\s\d+\s?[x×]")


@dataclass
class Specification:
    """What a row without a price says of a server: text by column, where it stands, and how many servers took it."""

    sheet: str
    name: Cell
    texts: dict[str, str]
    where: dict[str, tuple[str, str]]
    quantity: Decimal
    n_taken: int = 0

    @property
    def place(self) -> str:
        """Return its name, and where this stands."""
        return f"{self.name.text!r} ({self.sheet}!{self.name.address})"

    def contradicts(self, column: str, given: str) -> bool:
        """Tell whether a cell of a server with a price says something else."""
        value = self.texts[column]
        if column in _NUMBERS:
            stated, own = figure(Cell("", given)), figure(Cell("", value))
            near = Decimal(own or 0) / 40 if column == "mem_gb" else 0
            return stated is not None and own is not None and abs(stated - own) > near
        if column == "processor":
            return not same_chips(given, value)
        return not (given.casefold().startswith(value.casefold()) or value.casefold().startswith(given.casefold()))


@dataclass
class Specifications:
    """The specifications of a file."""

    rows: list[Specification] = field(default_factory=list)

    def of(self, name: str) -> Specification | None:
        """Return the one specification of a server: of its whole name, or of what stands before its parts."""
        for called in (plain_words, title_of):
            same = [one for one in self.rows if called(one.name.text) == called(name)]
            if same:
                return same[0] if len(same) == 1 else None
        return None

    def open(self, lines: Iterable[Line]) -> list[Finding]:
        """Ask about specifications of no server, or of several; a line of the order may have one."""
        said = "has no price: one server of this name is needed on a sheet with prices; name it as there, or delete it"
        lines_too = {title_of(line.name) for line in lines}
        others = [one for one in self.rows if one.n_taken != 1 and title_of(one.name.text) not in lines_too]
        return [Finding("error", one.sheet, one.name.address, "name", one.name.text, said) for one in others]


def title_of(name: str) -> str:
    """Return the words of a name before its parts: ``Node A, 2x AMD EPYC 9354`` is ``node a``."""
    return plain_words(_TITLE_ENDS.split(name.strip())[0])


def is_specification(table: Table, priced: Iterable[Table]) -> bool:
    """Tell whether a table without prices has names of servers of tables with them.

    They may stand in another column than the one that is headed so (``Type A`` beside its model): then they are its
    names.
    """
    if table.is_ours or _PRICES & table.columns.keys():
        return False
    titles = {title_of(name.text) for one in priced for name in _names(one) if _PRICES & one.columns.keys()}
    if any(title_of(name.text) in titles for name in _names(table)):
        return True
    taken = {place for column, place in table.columns.items() if column in SPECIFIED}
    for place, title in enumerate(table.titles):
        cells = [row[place] for row in table.rows if place < len(row) and title_of(row[place].text)]
        if place not in taken and cells and all(title_of(cell.text) in titles for cell in cells):
            table.columns["name"], table.headings["name"], table.header["name"] = place, Heading("name"), title
            return True
    return False


def _names(table: Table) -> list[Cell]:
    cells = (table.cell(row, "name") for row in table.rows)
    return [cell for cell in cells if cell is not None and title_of(cell.text)]


def quantity_beside(table: Table, row: list[Cell]) -> Decimal:
    """Return the quantity that a row states; 0 where it states none."""
    cell = table.cell(row, "_quantity")
    return quantity_of(table.columns, row) if cell is not None and not cell.is_empty else Decimal(0)
