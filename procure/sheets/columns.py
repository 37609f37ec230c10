"""A sheet with a server type per column, as one with a row per type: what stands around it stays text, or is a row."""

from __future__ import annotations

from dataclasses import replace

from procure.sheets.grid import Cell, Grid, row_label
from procure.sheets.headings import NUMBERS, heading_of
from procure.sheets.lines import is_total, kind_of, may_be_total
from procure.sheets.units import figure

FIGURES = NUMBERS | {"_quantity", "processor", "_sockets", "_cores_per_socket"}
AMOUNTS = ("price_usd", "_price", "_list_price", "_total")


def by_columns(grid: Grid, labels: int) -> Grid:
    """Return a sheet turned by 90°, cut to what the column of ``labels`` heads.

    A line of the order, or a total, beneath it is a row of its own.
    """
    columns = grid.turned().rows
    known = [n for n, cell in enumerate(columns[labels]) if heading_of(cell.text).column in FIGURES]
    servers = [one for one in columns[labels + 1 :] if sum(not one[n].is_empty for n in known) > 1]
    known = [n for n in known if sum(not one[n].is_empty for one in servers) > (len(servers) > 1)] or known
    first = _first(columns[labels], servers, known[0])
    beneath = [n for n in range(known[-1] + 1, len(grid.rows)) if len(servers) > 1 and is_line(grid.rows[n])]
    places = [n for n in range(first, len(grid.rows)) if n <= known[-1] or (n not in beneath and _belongs(grid, n))]
    rows = [[column[n] for n in places] for column in columns]
    return replace(grid, rows=rows + [line_row(grid.rows[n], rows[labels]) for n in beneath], merged=(), is_turned=True)


def _first(labels: list[Cell], servers: list[list[Cell]], n: int) -> int:
    """Return the first row of a table whose figures begin in row ``n``: that right above with texts of all servers.

    It has their names if its label is not known, else so may the one above it; above their models each may be called
    otherwise once more (``Type A``).
    """
    while n > 0 and servers and heading_of(labels[n].text).column != "name":
        is_gap = len(servers) > 1 and n > 1 and all(one[n - 1].is_empty for one in (labels, *servers))
        above = n - 2 if is_gap else n - 1
        if not _has_texts(servers, above):
            break
        n = above
        if not heading_of(labels[n].text).column:
            break
    is_called = n > 0 and len(servers) > 1 and _has_texts(servers, n - 1) and not heading_of(labels[n - 1].text).column
    return n - 1 if is_called and len({one[n - 1].text for one in servers}) == len(servers) else n


def _has_texts(servers: list[list[Cell]], n: int) -> bool:
    return all(isinstance(one[n].value, str) and not one[n].is_empty for one in servers)


def _belongs(grid: Grid, n: int) -> bool:
    """Tell whether a row beneath all known headings is one of the table: it has a number, or touches it and is full."""
    row = [cell for cell in grid.rows[n] if not cell.is_empty]
    return any(figure(cell) is not None for cell in row) or len(row) > 1


def is_line(row: list[Cell]) -> bool:
    """Tell whether a row has one amount, and words of a line of the order or of a total."""
    label, amounts = row_label(row), [cell for cell in row if figure(cell) is not None]
    return len(amounts) == 1 and (kind_of(label) is not None or is_total(label) or may_be_total(label))


def line_row(row: list[Cell], labels: list[Cell]) -> list[Cell]:
    """Return a row beneath as one of the turned table: its words are the name, its amount that of one and of all."""
    amount = next(cell for cell in row if figure(cell) is not None)
    words = next(cell for cell in row if not cell.is_empty and cell is not amount)
    heads = [heading_of(cell.text).column for cell in labels]
    name = heads.index("name") if "name" in heads else 0
    is_sum = "_total" in heads and may_be_total(row_label(row))
    amounts = ("_total",) if is_sum else AMOUNTS
    return [words if n == name else amount if head in amounts else Cell("") for n, head in enumerate(heads)]
