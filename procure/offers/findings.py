"""What a reader found in an offer: errors, and what was not read, each with its cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from procure.text import listed


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

    def to_dict(self) -> dict[str, Any]:
        """Return the finding's fields."""
        return asdict(self)


def listed_once(findings: Iterable[Finding]) -> list[str]:
    """Return a sentence for each finding; what is said alike of cells of a sheet is said once, with where else."""
    alike: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for one in findings:
        alike[one.severity, one.sheet, one.column, one.given, one.allowed].append(one)
    places = (listed([one.cell for one in same[1:]]) for same in alike.values())
    return [f"{same[0]}{place and f' (and {place})'}" for same, place in zip(alike.values(), places, strict=True)]
