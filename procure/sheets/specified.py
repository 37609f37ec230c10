"""Specifications of servers on a sheet without prices: they fill, and must not contradict, the servers with a price."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
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
_FEWEST_LETTERS = 5
"""Of a sheet's title that a text names."""
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


def is_specification(table: Table, priced: Sequence[Table], text: str) -> bool:
    """Tell whether a table without prices has names of servers of tables with them.

    They may stand in another column than the one that is headed so (``Type A`` beside its model): then they are its
    names. Where the ``text`` of other sheets names its sheet, it may have the keys of their rows instead.
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
    is_named = len(table.sheet) >= _FEWEST_LETTERS and plain_words(table.sheet) in plain_words(text)
    return is_named and any(_take_names(table, one) for one in priced if _PRICES & one.columns.keys())


def _take_names(table: Table, priced: Table) -> bool:
    """Give the rows of a table the names of those of a priced one that have the same keys, each once, and tell it.

    Both columns of keys are headed alike (``Item``), and each key of the table has its row there.
    """
    head, place = table.header.get("name", Cell("")), table.columns.get("name", 0)
    keys = [n for n, title in enumerate(priced.titles) if title.text == head.text and n != priced.columns.get("name")]
    rows = [row for row in table.rows if place < len(row) and not row[place].is_empty]
    if len(keys) != 1 or head.is_empty:
        return False
    named = [(row[keys[0]].text, priced.cell(row, "name") or Cell("")) for row in priced.rows if keys[0] < len(row)]
    named = [(key, name) for key, name in named if key and not name.is_empty]
    names = {key: name.text for key, name in named}
    is_once = len(names) == len(named) and len({row[place].text for row in rows}) == len(rows)
    if not is_once or not rows or not all(row[place].text in names for row in rows):
        return False
    table.parts += table.rows
    called = {id(row): replace(row[place], value=names[row[place].text]) for row in rows}
    table.rows = [
        [called[id(row)] if n == place and id(row) in called else cell for n, cell in enumerate(row)]
        for row in table.rows
    ]
    return True


def _names(table: Table) -> list[Cell]:
    cells = (table.cell(row, "name") for row in table.rows)
    return [cell for cell in cells if cell is not None and title_of(cell.text)]


def quantity_beside(table: Table, row: list[Cell]) -> Decimal:
    """Return the quantity that a row states; 0 where it states none."""
    cell = table.cell(row, "_quantity")
    return quantity_of(table.columns, row) if cell is not None and not cell.is_empty else Decimal(0)
