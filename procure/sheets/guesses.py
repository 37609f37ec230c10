"""What columns may be whose headings are in no known language, by what stands beneath alone: said, and never read."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from procure.errors import TableError
from procure.sheets.cells import chips_in, gpu_models, gpus_in
from procure.sheets.grid import Cell, Grid
from procure.sheets.headings import heading_of
from procure.sheets.units import amount_of, figure, unit_of

_FEWEST_TEXTS, _FEWEST_FIGURES = 3, 2
"""Headings of a row, and numbers in a row beneath it, that make them look like a table."""
_LEAST_PRICE = 3000
_MOST_ROWS, _MOST_NUMBERS = 200, 16
"""Of a sheet, and columns of numbers, that are looked at."""
_UNKNOWN = "?"


@dataclass(frozen=True)
class Guess:
    """A heading that is not known, an example of what stands beneath it, and the column that this may be."""

    heading: Cell
    example: str
    column: str = _UNKNOWN

    def __str__(self) -> str:
        """Return the heading, where it stands, the example, and the guess."""
        may_be = "not guessed" if self.column == _UNKNOWN else f"may be {self.column}"
        return f"{self.heading.text!r} ({self.heading.address}): {self.example!r}, {may_be}"


class NoTable(TableError):
    """No sheet of a file has a table of offers; ``guesses`` are what headings may mean."""

    def __init__(self, message: str, guesses: list[Guess]) -> None:
        """Take what is wrong, and the guesses."""
        super().__init__(message)
        self.guesses = guesses


def likely_table(grid: Grid) -> tuple[str, list[Guess]] | None:
    """Return where a row stands that looks like the header of a table, and its headings that are not known."""
    for one, what in ((grid, "row"), (grid.turned(), "column")):
        found = [
            n
            for n in range(min(len(one.rows) - 1, _MOST_ROWS))
            if len(_heads(one.rows[n])) >= _FEWEST_TEXTS and _body(one.rows, n)
        ]
        if found:
            n = max(found, key=lambda n: len(_heads(one.rows[n])))
            guesses = guessed(one.rows[n], _body(one.rows, n))
            at = next(iter(_heads(one.rows[n]).values())).address
            place = re.sub(r"^[A-Z]+(?=\d)", "", at) if what == "row" else re.sub(r"\d+$", "", at)
            return place if " " in place else f"{what} {place}", guesses
    return None


def _heads(row: list[Cell]) -> dict[int, Cell]:
    if any(cell.is_number for cell in row):
        return {}
    return {n: cell for n, cell in enumerate(row) if re.search(r"[^\W\d_]", cell.text) and figure(cell) is None}


def _body(rows: list[list[Cell]], n: int) -> list[list[Cell]]:
    """Return the rows right beneath a header that hold several numbers under its headings."""
    heads, found = _heads(rows[n]), list[list[Cell]]()
    for row in rows[n + 1 : n + _MOST_ROWS]:
        figures = [place for place in heads if place < len(row) and figure(row[place]) is not None]
        if len(figures) >= _FEWEST_FIGURES:
            found.append(row)
        elif found or all(cell.is_empty for cell in row):
            break
    return found


def guessed(header: list[Cell], rows: list[list[Cell]]) -> list[Guess]:
    """Guess what each unknown heading means; a column that is known, or another is guessed to be, is left out."""
    known = {column for cell in header if (column := heading_of(cell.text).column)}
    beneath = {
        n: [row[n] for row in rows if n < len(row) and not row[n].is_empty]
        for n, cell in enumerate(header)
        if not cell.is_empty and not heading_of(cell.text).column
    }
    beneath = {n: cells for n, cells in beneath.items() if cells}
    found = _by_number(header, rows, beneath, _by_text(header, beneath), known)
    taken, guesses = set(known), list[Guess]()
    for n, cells in beneath.items():
        column = found.get(n, _UNKNOWN)
        column = column if column == "none" or column not in taken else _UNKNOWN
        taken.add(column)
        guesses.append(Guess(header[n], cells[0].shown, column.lstrip("_")))
    return guesses


def _kinds(head: Cell, cells: list[Cell]) -> set[str]:
    """Return the kinds of the units that stand in a heading, in cells or in their format."""
    written = [read.unit for cell in cells if isinstance(cell.value, str) and (read := amount_of(cell.value))]
    units = [heading_of(head.text).unit, *written, *(unit_of(cell.unit) for cell in cells if cell.unit)]
    return {unit.kind for unit in units if unit is not None}


_CHIP_FIRST = re.compile(r"\s*(?:\d+\s*[x×*]\s*)?(?:AMD|Intel|Ampere|EPYC|Xeon)\b", re.IGNORECASE)


def _by_text(header: list[Cell], beneath: dict[int, list[Cell]]) -> dict[int, str]:
    """Guess columns of texts: of memory, GPUs, processors, and of what is none of these the names."""
    found, texts = dict[int, str](), list[int]()
    for n, cells in beneath.items():
        said = [cell.text for cell in cells if figure(cell) is None and re.search(r"[^\W\d_]", cell.text)]
        if "memory" in _kinds(header[n], cells):
            found[n] = "mem_gb"
        elif said and all(gpus_in(one)[0] and not chips_in(one) for one in said):
            found[n] = "gpus"
        elif said and all(_CHIP_FIRST.match(one) for one in said):
            found[n] = "processor"
        elif said and all(gpu_models(one) and not chips_in(one) for one in said):
            found[n] = "gpu_type"
        elif len(said) == len(cells):
            texts.append(n)
    products = [n for n in texts if any(chips_in(cell.text) or gpu_models(cell.text) for cell in beneath[n])]
    processors = [n for n, column in found.items() if column == "processor"]
    return found | dict.fromkeys((products or texts or processors)[:1], "name")


def _by_number(
    header: list[Cell], rows: list[list[Cell]], beneath: dict[int, list[Cell]], found: dict[int, str], known: set[str]
) -> dict[int, str]:
    """Guess columns of numbers: prices by products, currencies and size, then cores, memory and numbers of pieces."""
    values = {
        n: [one for cell in cells if (one := figure(cell)) is not None]
        for n, cells in beneath.items()
        if n not in found and all(figure(cell) is not None for cell in cells)
    }
    found = found | _by_product(header, rows, values)
    prices = [n for n in values if n not in found and "money" in _kinds(header[n], beneath[n])]
    prices = prices or [n for n in values if n not in found and max(values[n]) >= _LEAST_PRICE]
    if not {"price_usd", "_price"} & (known | set(found.values())) and prices:
        prices.sort(key=lambda n: values[n][0])
        found |= {prices[0]: "price_usd"} | ({prices[-1]: "_total"} if len(prices) > 1 else {})
    for n, of_it in values.items():
        if n not in found and all(one == int(one) for one in of_it):
            free = (
                column for column, fits in _WHOLE.items() if column not in {*found.values(), *known} and fits(of_it)
            )
            found[n] = next(free, _UNKNOWN)
    return found


_WHOLE: dict[str, Callable[[list[Decimal]], bool]] = {
    "none": lambda of_it: of_it == list(range(1, len(of_it) + 1)) and len(of_it) > 1,
    "cpus": lambda of_it: all(16 <= one <= 512 and one % 2 == 0 for one in of_it),
    "mem_gb": lambda of_it: all(one >= 64 and one % 16 == 0 for one in of_it),
    "_quantity": lambda of_it: all(0 < one < 1000 for one in of_it),
}
"""What whole numbers may be that are in no product, the likeliest first."""


def _by_product(header: list[Cell], rows: list[list[Cell]], values: dict[int, list[Decimal]]) -> dict[int, str]:
    """Guess a number of pieces, the price of one and the total: columns of which the third is always the product."""
    found = dict[int, str]()
    for several, one, whole in itertools.permutations(list(values)[:_MOST_NUMBERS], 3):
        figures = [[figure(row[n]) if n < len(row) else None for n in (several, one, whole)] for row in rows]
        full = [(n, each, of_all) for n, each, of_all in figures if n and each and of_all]
        is_money = all("money" in _kinds(header[n], []) or max(values[n]) >= _LEAST_PRICE for n in (one, whole))
        pieces = all(n == int(n) for n, _, _ in full) and any(n > 1 for n, _, _ in full)
        if is_money and pieces and all(abs(n * each - of_all) <= n / 100 for n, each, of_all in full):
            if found:
                return {}
            found = {several: "_quantity", one: "price_usd", whole: "_total"}
    return found
