"""Servers whose parts stand in rows beneath them: the parts become one text with the server's name, which is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from procure.sheets.cells import chips_in, gpu_models
from procure.sheets.described import is_memory, written_plainly
from procure.sheets.grid import Cell, row_label
from procure.sheets.lines import is_total
from procure.sheets.units import figure

_AMOUNTS = ("price_usd", "_price", "_list_price", "_total")
_FIGURES = {"cpus", "mem_gb", "_cores_per_socket", "_sockets", "processor"}
_ASIDE = {*_AMOUNTS, "_quantity", "_number", "_measure", "_price_unit", "_currency", "_discount"}
"""Columns that say nothing of what a part is."""
_MOST = Decimal(10) ** 15
"""From here on a number is no amount of money."""
_MOST_GPUS = 8
"""More than these, as a multiple of the servers, may be those of all, whatever the other parts are."""
_COUNT = re.compile(r"\(?\d{1,2}\)?\s*[x×*]")


Columns = Mapping[str, int]
"""Place of each column in a row."""


@dataclass
class Gathered:
    """Rows with the parts of servers in their names, the rows that were joined, and cells to ask about with why."""

    rows: list[list[Cell]] = field(default_factory=list)
    joined: list[list[Cell]] = field(default_factory=list)
    open: list[tuple[Cell, str]] = field(default_factory=list)


def gather_parts(rows: list[list[Cell]], columns: Columns) -> Gathered:
    """Join the rows of a server's parts to its own row, where they have no price, or cost together what it costs.

    What says processors, and is not plainly such a part, is asked about.
    """
    if "name" not in columns or _FIGURES & columns.keys():
        return Gathered(rows)
    found, at = Gathered(), 0
    while at < len(rows):
        head, block = rows[at], _block(rows, columns, at)
        n_parts, times = _parts(columns, head, block) if _amount(columns, head) is not None else (0, Decimal(1))
        group, n_nodes = block[:n_parts], quantity_of(columns, head)
        texts = [_text(columns, row, times, n_nodes) for row in group]
        if _is_whole([row_label(head)]) or not n_parts or not all(texts):
            found.open += _question(columns, head, block)
            found.rows.append(head)
            at += 1
        else:
            found.joined += [head, *group]
            found.rows.append(_joined(columns, head, texts))
            at += 1 + n_parts
    return found


def cell_of(columns: Columns, row: list[Cell], name: str) -> Cell:
    """Return the cell of a column in a row, an empty one where there is none."""
    place = columns.get(name)
    return row[place] if place is not None and place < len(row) else Cell("")


def _block(rows: list[list[Cell]], columns: Columns, at: int) -> list[list[Cell]]:
    """Return the rows right beneath a server, up to a gap, a total, or the row after which no part follows."""
    found, last = list[list[Cell]](), _line(rows[at])
    for row in rows[at + 1 :]:
        if _line(row) != last + 1 or is_total(row_label(row)) or not _said(columns, row):
            break
        found.append(row)
        last = _line(row)
    return found


def _line(row: list[Cell]) -> int:
    filled = next((cell for cell in row if not cell.is_empty), Cell(""))
    return int("0" + re.sub(r"\D", "", filled.address))


def _parts(columns: Columns, head: list[Cell], block: list[list[Cell]]) -> tuple[int, Decimal]:
    """Return how many of the rows beneath a server are its parts, and of how many servers each counts them.

    None where a part says neither by the sum of prices nor by its number whether it is of one server or of all.
    """
    free = next((n for n, row in enumerate(block) if _amount(columns, row) is not None), len(block))
    n_nodes = quantity_of(columns, head)
    if free and _is_whole([_said(columns, row) for row in block[:free]]):
        counts = [
            n for row in block[:free] if not _COUNT.match(_said(columns, row)) and (n := quantity_of(columns, row)) > 1
        ]
        gpus = [quantity_of(columns, row) for row in block[:free] if gpu_models(_said(columns, row))]
        of_all = [n % n_nodes == 0 for n in counts]
        if n_nodes > 1 and counts and (all(of_all) or any(n > _MOST_GPUS and n % n_nodes == 0 for n in gpus)):
            return 0, Decimal(0)
        return free, Decimal(1)
    whole, price = Decimal(0), _amount(columns, head) or Decimal(0)
    amounts = [price, *(_amount(columns, row) or Decimal(0) for row in block)]
    if any(one.is_nan() for one in amounts) or any(_is_whole([_said(columns, row)]) for row in block):
        return 0, Decimal(0)
    for last, row in enumerate(block, 1):
        whole += (_amount(columns, row) or Decimal(0)) * quantity_of(columns, row)
        for times in {Decimal(1), n_nodes}:
            is_sum = abs(whole - price * times) <= Decimal("0.01") * last
            if is_sum and last > 1 and _is_whole([_said(columns, one) for one in block[:last]]):
                return last, times
    return 0, Decimal(0)


def _is_whole(texts: list[str]) -> bool:
    """Tell whether texts name processors and memory."""
    plain = [written_plainly(text) for text in texts]
    return any(chips_in(text) for text in plain) and any(is_memory(text) for text in plain)


def _amount(columns: Columns, row: list[Cell]) -> Decimal | None:
    """Return the price of one that a row states, else its total by its quantity; None where it has neither."""
    for name in _AMOUNTS:
        cell = cell_of(columns, row, name)
        if (value := figure(cell)) and value.is_finite() and abs(value) < _MOST:
            return value / quantity_of(columns, row) if name == "_total" else value
    stated = [cell_of(columns, row, name).text for name in _AMOUNTS]
    return Decimal("NaN") if any(re.search(r"[1-9]", text) for text in stated) else None


def _said(columns: Columns, row: list[Cell]) -> str:
    """Return what a row says of a part: all its texts beside amounts and numbers of articles."""
    aside = {place for name, place in columns.items() if name in _ASIDE}
    return "; ".join(cell.text for place, cell in enumerate(row) if place not in aside and not cell.is_empty)


def _text(columns: Columns, row: list[Cell], times: Decimal, n_nodes: Decimal) -> str:
    """Return a part with its number in one server; empty where two numbers are stated, or it is not whole."""
    text, n = _said(columns, row), quantity_of(columns, row)
    if _COUNT.match(text):
        return text if n in (1, n_nodes) else ""
    n /= times
    return "" if n != int(n) else f"{int(n)}x {text}" if n > 1 else text


def _joined(columns: Columns, head: list[Cell], texts: list[str]) -> list[Cell]:
    place = columns["name"]
    whole = "; ".join([head[place].text, *texts])
    return [replace(cell, value=whole) if n == place else cell for n, cell in enumerate(head)]


def _question(columns: Columns, head: list[Cell], block: list[list[Cell]]) -> list[tuple[Cell, str]]:
    """Return what keeps rows beneath a server from being its parts, where they name its processors and memory."""
    texts = [_said(columns, row) for row in block]
    if _is_whole([row_label(head)]) or not _is_whole(texts) or any(_is_whole([text]) for text in texts):
        return []
    if not chips_in(texts[0]) and not is_memory(texts[0]):
        return []
    cell = next(cell for cell in block[0] if not cell.is_empty)
    name = cell_of(columns, head, "name")
    said = (
        f"and the rows beneath it may be the parts of {name.text!r} ({name.address}): give it a price, and "
        "them none or prices that add up to it, with the numbers in one server; or write all in one row"
    )
    return [(cell, said)]


def quantity_of(columns: Columns, row: list[Cell]) -> Decimal:
    """Return the whole number that a row's quantity begins with; 1 where it has none."""
    cell = cell_of(columns, row, "_quantity")
    number = re.match(r"\s*([1-9]\d{0,8})(?!\d)", cell.text)
    return Decimal(number[1]) if number is not None else Decimal(1)
