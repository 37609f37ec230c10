"""What a reader found in a spreadsheet: errors, guesses and warnings, each with its cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from procure.text import listed

Severity = Literal["error", "guess", "warning"]


@dataclass(frozen=True)
class Finding:
    """One thing that a reader could not read, or read in a way that the user should confirm.

    Attributes
    ----------
    severity
        ``error``: the cell was not read. ``guess``: it was read as ``allowed`` says. ``warning``: it was left out.
    sheet
        Name of the sheet; empty for a text file.
    cell
        Address such as ``D7``; of a text file the row, ``row 3``; empty where the whole sheet is meant.
    column
        Column of the quote table; empty where none is meant.
    given
        What the cell holds.
    allowed
        For an error what is allowed; for a guess what was understood; for a warning why it was left out.
    harmless
        Of an error that may be about nothing: the words that answer it, if they change no amount.
    """

    severity: Severity
    sheet: str
    cell: str
    column: str
    given: str
    allowed: str
    harmless: str = ""

    def __str__(self) -> str:
        """Return the finding as one sentence, without the file's name."""
        where = [f"sheet {self.sheet}"] if self.sheet else []
        where += [self.cell] if self.cell else []
        where += [f"column {self.column}"] if self.column else []
        given = f"{self.given!r} " if self.given else ""
        return f"{', '.join(where)}: {given}{self.allowed}".removeprefix(": ")

    def to_dict(self) -> dict[str, Any]:
        """Return the finding's fields."""
        return asdict(self)


def listed_once(findings: Iterable[Finding]) -> list[str]:
    """Return a sentence for each finding; what is said alike of cells of a sheet is said once, with where else."""
    alike: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for one in findings:
        alike[one.severity, one.sheet, one.given, one.allowed].append(one)
    places = (listed([one.cell for one in same[1:]]) for same in alike.values())
    return [f"{same[0]}{place and f' (and {place})'}" for same, place in zip(alike.values(), places, strict=True)]
