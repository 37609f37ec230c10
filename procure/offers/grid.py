"""A sheet as rows of cells, whatever file it came from, and what was found wrong in them."""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from procure.text import listed

Value = str | float | int | bool | datetime.date | None


@dataclass(frozen=True)
class Cell:
    """One cell of a sheet."""

    address: str  # such as D7
    value: Value = None
    unit: str = ""  # what its number format writes beside a number: €, %, GB
    problem: str = ""  # why its value cannot be used: an error value, a formula without a value, struck out, merged
    is_covered: bool = False  # it lies beneath the first cell of a merged range

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is in the cell."""
        return self.is_covered or (
            not self.problem and (self.value is None or (isinstance(self.value, str) and not self.value.strip()))
        )

    @property
    def is_number(self) -> bool:
        """Tell whether the cell holds a number, not text."""
        return isinstance(self.value, int | float) and not isinstance(self.value, bool)

    @property
    def text(self) -> str:
        """The cell as a person reads it, in one line."""
        if self.value is None:
            return ""
        if isinstance(self.value, datetime.date):
            return self.value.isoformat()[:10]
        value = self.value
        if self.is_number and self.unit == "%":
            value = float(f"{100 * float(value):.12g}")  # type: ignore[arg-type]
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        return " ".join(f"{value} {self.unit}".split())


@dataclass
class Sheet:
    """The visible rows of a sheet; ``hidden`` are cells that a person does not see, and why."""

    name: str
    rows: list[list[Cell]]
    hidden: list[tuple[Cell, str]] = field(default_factory=list)
    notes: list[tuple[Cell, str]] = field(default_factory=list)


def address(row: int, column: int) -> str:
    """Return the address of a cell, both counted from 0: ``D7``."""
    from openpyxl.utils import get_column_letter

    return f"{get_column_letter(column + 1)}{row + 1}"


def visible(name: str, rows: list[list[Cell]], hidden_rows: set[int], hidden_columns: set[int]) -> Sheet:
    """Return a sheet without its hidden rows and columns; the first cell with content of each is in ``hidden``."""
    seen: dict[tuple[str, int], tuple[Cell, str]] = {}
    shown = []
    for n, row in enumerate(rows):
        for place, cell in enumerate(row):
            what = "row" if n in hidden_rows else "column" if place in hidden_columns else ""
            if what and not cell.is_empty:
                said = f"is hidden, and so is not read, nor is the rest of its {what}"
                seen.setdefault((what, n if what == "row" else place), (cell, said))
        if n not in hidden_rows:
            shown.append([cell for place, cell in enumerate(row) if place not in hidden_columns])
    return Sheet(name, shown, list(seen.values()))


class Unreadable(ValueError):
    """A cell that cannot be read: its text says why, and what is allowed."""


@dataclass(frozen=True)
class Finding:
    """One thing that was not read."""

    severity: Literal["error", "warning"]  # the file is refused; it was left out
    sheet: str  # empty for a text file
    cell: str  # an address such as D7; of a text file its line; empty where the whole sheet is meant
    column: str  # of the quote table; empty where none is meant
    given: str  # what the cell holds
    allowed: str  # of an error what is allowed and what to do; of a warning why it was left out

    def __str__(self) -> str:
        """Return the finding as one sentence, without the file's name."""
        where = [f"sheet {self.sheet}"] if self.sheet else []
        where += [self.cell] if self.cell else []
        where += [f"column {self.column}"] if self.column else []
        given = f"{self.given!r} " if self.given else ""
        return f"{', '.join(where)}: {given}{self.allowed}".removeprefix(": ")


def listed_once(findings: Iterable[Finding]) -> list[str]:
    """Return a sentence for each finding; what is said alike of cells of a sheet is said once, with where else."""
    alike: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for one in findings:
        alike[one.severity, one.sheet, one.column, one.given, one.allowed].append(one)
    places = (listed([one.cell for one in same[1:]]) for same in alike.values())
    return [f"{same[0]}{place and f' (and {place})'}" for same, place in zip(alike.values(), places, strict=True)]
