"""Lay a table out so that it fits the terminal: ids wrapped at their commas, heads between words, no cell cut."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from procure.page.names import head
from procure.text import format_value, plain, printable

_IDS = ("package_id", "package")
_LEAST = 12
"""Characters that text wraps to if need be; numbers and names of one word stay whole."""
_PIPED = 10_000
"""Characters of a line where nobody reads it on a terminal."""
_AMOUNT = re.compile(r"–|-?[\d.,]+%?(?: [a-z]+(?: \d+ [a-z]+)?)?")
"""What stands at the right edge of its column: a number, with its unit or two."""


class _Column(NamedTuple):
    """A head and its cells; ``least`` is the width below which one of them would break within a word."""

    head: str
    cells: list[str]
    right: bool
    least: int
    most: int


def show(frame: pd.DataFrame, title: str, units: Mapping[str, str]) -> None:
    """Print a frame as a table; where it would be too wide, each row by itself, a line per column."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPED
    if title:
        # Not wrapped: programs and people look for its words, and a terminal wraps it itself.
        console.print(escape(printable(title)), style="italic", highlight=False, soft_wrap=True)
    columns = _columns(frame, units, narrow=False)
    if sum(column.most + 3 for column in columns) < console.width:
        console.print(_table(columns, narrow=False))
        return
    columns = _columns(frame, units, narrow=True)
    if sum(column.least + 1 for column in columns) <= console.width + 1:
        console.print(_table(columns, narrow=True))
        return
    for row in zip(*(column.cells for column in columns), strict=True):
        record = Table(show_header=False, box=None, pad_edge=False)
        for column, text in zip(columns, row, strict=True):
            record.add_row(escape(column.head.replace("\n", "")), escape(text))
        console.print(record, "")


def cells(values: pd.Series, unit: str) -> list[str]:
    """Write a column's cells, numbers without a unit with as many decimals as the largest of them is worth."""
    if values.dtype.kind != "f" or unit:
        return [format_value(value, unit if values.dtype.kind in "iuf" else "") for value in values]
    places = _places(values)
    return ["–" if plain(value) is None else f"{value:,.{places}f}" for value in values]


def _places(values: pd.Series) -> int:
    """Return the decimal places of a column: none for whole numbers, fewer the larger the largest is."""
    known = values[values.notna() & ~values.isin([math.inf, -math.inf])].abs()
    if not len(known) or (known == known.round()).all():
        return 0
    largest = float(known.max())
    most = 3 if largest < 10 else 2 if largest < 100 else 1 if largest < 1000 else 0
    return next((n for n in range(most) if (known.round(n) == known.round(most)).all()), most)


def _columns(frame: pd.DataFrame, units: Mapping[str, str], narrow: bool) -> list[_Column]:
    found = []
    for position, name in enumerate(map(str, frame.columns)):
        values = frame.iloc[:, position]
        said, unit = head(name, units.get(name))
        written = cells(values, unit)
        right = values.dtype.kind in "iuf" or all(_AMOUNT.fullmatch(text) for text in written)
        if narrow and name in _IDS:
            written = [text.replace(",", ",\n") for text in written]
        if narrow and "," in said and "=" in said:  # a package id as a head
            said = said.replace(",", ",\n")
        whole = [line for text in written for line in text.split("\n")] if right or name in _IDS else []
        words = [word for text in (said, *(() if whole else written)) for word in text.split()]
        least = max(map(len, [*whole, *words]), default=1)
        if not whole:  # text in a column as narrow as its longest word is hard to read
            least = max(least, min(_LEAST, max(map(len, written), default=1)))
        most = max(len(line) for text in (said, *written) for line in text.split("\n"))
        found.append(_Column(printable(said, kept="\n"), written, right, least, most))
    return found


def _table(columns: list[_Column], narrow: bool) -> Table:
    """Make rich's table; narrow: without rules between columns."""
    table = Table(
        header_style="bold",
        box=box.SIMPLE_HEAD if narrow else box.HEAVY_HEAD,
        show_edge=not narrow,
        pad_edge=not narrow,
        padding=(0, 0) if narrow else (0, 1),
    )
    for column in columns:
        table.add_column(
            escape(column.head), justify="right" if column.right else "left", overflow="fold", min_width=column.least
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(escape, row))
    return table
