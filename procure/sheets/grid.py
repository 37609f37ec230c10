"""A sheet as a grid of cells, whatever file it came from."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass, field, replace

Value = str | float | int | bool | datetime.date | None


@dataclass(frozen=True)
class Cell:
    """One cell: its address, its value, the unit that its number format shows, and what is wrong with it.

    ``problem`` is an error value such as ``#REF!``, or says that a formula has no value. ``rows`` and ``columns`` are
    how many a merged cell spans; ``is_again``: it shows once more what stands above it in its range. ``doubt`` is what
    a number shows that it does not hold.
    """

    address: str
    value: Value = None
    unit: str = ""
    problem: str = ""
    note: str = ""
    rows: int = 1
    doubt: str = ""
    columns: int = 1
    is_again: bool = False

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing in the cell."""
        return not self.problem and (self.value is None or (isinstance(self.value, str) and not self.value.strip()))

    @property
    def is_number(self) -> bool:
        """Tell whether the cell holds a number, not text."""
        return isinstance(self.value, int | float) and not isinstance(self.value, bool)

    @property
    def text(self) -> str:
        """Return the cell as a person reads it, in one line."""
        if self.problem:
            return self.problem
        if self.value is None:
            return ""
        if isinstance(self.value, float) and math.isfinite(self.value) and self.value == int(self.value):
            return f"{int(self.value)}"
        if isinstance(self.value, datetime.date):
            return self.value.isoformat()[:10]
        return " ".join(str(self.value).split())

    @property
    def shown(self) -> str:
        """Return the cell's text with the unit that its format shows."""
        if self.unit == "%" and self.is_number:
            return f"{float(self.value) * 100:.6g} %"  # type: ignore[arg-type]
        return f"{self.text} {self.unit}".strip()


def row_label(row: list[Cell]) -> str:
    """Return the texts of a row, and its percentages that stand in cells of their own."""
    return " ".join(
        cell.shown for cell in row if (re.search(r"[^\W\d_]|%", cell.shown) and not cell.is_number) or cell.unit == "%"
    )


@dataclass(frozen=True)
class Grid:
    """The cells of a sheet by row and column; rows and columns that are hidden hold only ``None`` in ``visible``."""

    sheet: str
    rows: list[list[Cell]]
    hidden_rows: frozenset[int] = frozenset()
    hidden_columns: frozenset[int] = frozenset()
    merged: tuple[tuple[int, int, int, int], ...] = field(default=())
    """Top, left, bottom, right of each merged range, from 0, inclusive."""
    is_hidden: bool = False
    is_turned: bool = False
    """Its rows are a sheet's columns."""

    def spread(self) -> Grid:
        """Return the grid with the value of a range that is merged over rows in each of its rows."""
        rows = [list(row) for row in self.rows]
        for top, left, bottom, right in self.merged:
            if top >= len(rows) or left >= len(rows[top]):
                continue
            first = replace(rows[top][left], rows=bottom - top + 1, columns=right - left + 1)
            for row in range(top, min(bottom + 1, len(rows))):
                if left < len(rows[row]):
                    rows[row][left] = replace(first, address=rows[row][left].address, is_again=row > top)
        return replace(self, rows=rows, merged=())

    def without_hidden(self) -> Grid:
        """Return the grid as a person sees it."""
        rows = [
            [cell for n, cell in enumerate(row) if n not in self.hidden_columns]
            for number, row in enumerate(self.rows)
            if number not in self.hidden_rows
        ]
        return replace(self, rows=rows, hidden_rows=frozenset(), hidden_columns=frozenset(), merged=())

    def turned(self) -> Grid:
        """Return the grid with columns as rows, for a sheet that has a server type per column."""
        width = max((len(row) for row in self.rows), default=0)
        empty = Cell("")
        return replace(
            self, rows=[[row[n] if n < len(row) else empty for row in self.rows] for n in range(width)], merged=()
        )


def address(row: int, column: int) -> str:
    """Return the address of a cell, both counted from 0: ``D7``."""
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return f"{letters}{row + 1}"
