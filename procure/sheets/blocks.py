"""A sheet with a block of labels and values per server, its name above it, as one with a row per server."""

from __future__ import annotations

from dataclasses import dataclass, replace

from procure.sheets.columns import AMOUNTS, FIGURES, is_line, line_row
from procure.sheets.grid import Cell, Grid
from procure.sheets.headings import heading_of, is_of_each

_FEWEST = 3
"""Labels that a block must have at least."""


@dataclass
class _Block:
    """A name, what heads the numbers of parts beside it, these parts, and labels with their values."""

    name: Cell
    each: list[Cell]
    parts: list[list[Cell]]
    pairs: dict[str, tuple[Cell, Cell]]


def by_blocks(grid: Grid) -> tuple[Grid, list[Cell]] | None:
    """Return a sheet of blocks with their labels as the header, and all labels; None where it is not plainly that.

    Each label that is known stands in a block with a name and a price, and once in it. A line of the order, or a total,
    beneath the first block is a row of its own, and so is a part that stands beneath a name with ``Quantity per node``.
    """
    filled = [[cell for cell in row if not cell.is_empty] for row in grid.rows]
    blocks, n, taken = list[_Block](), 0, set[int]()
    while n < len(filled):
        end = n + 1
        while filled[n] and end < len(filled) and len(filled[end]) == 2 and isinstance(filled[end][0].value, str):
            end += 1
        block = _block(filled[n:end])
        if block is not None:
            blocks.append(block)
            taken |= set(range(n, end))
        n = max(end - 1, n + 1) if end < len(filled) and len(filled[end - 1]) == 1 else end
    known = {at for at, row in enumerate(filled) if len(row) > 1 and heading_of(row[0].text).column in FIGURES}
    each = {cell.text: cell for one in reversed(blocks) for cell in one.each}
    is_mixed = len(each) > 1 or len({len(one.each) for one in blocks}) > 1
    if len(blocks) < 2 or not known <= taken or is_mixed:
        return None
    labels = {label: cells[0] for one in reversed(blocks) for label, cells in reversed(one.pairs.items())}
    labels = dict(reversed(labels.items()))
    header, rows = [Cell(""), *each.values(), *labels.values()], list[list[Cell]]()
    for one in blocks:
        values = (one.pairs[label][1] if label in one.pairs else Cell("") for label in labels)
        rows += [
            [one.name, *(Cell("") for _ in each), *values],
            *([*part, *map(Cell, [""] * len(labels))] for part in one.parts),
        ]
    beneath = [row for at, row in enumerate(grid.rows) if at > min(taken) and at not in taken and is_line(row)]
    lines = [line_row(row, header) for row in beneath]
    turned = replace(grid, rows=[header, *rows, *lines], merged=(), is_turned=True)
    return turned, [cell for one in blocks for cell in (*one.each, *(cells[0] for cells in one.pairs.values()))]


def _block(rows: list[list[Cell]]) -> _Block | None:
    """Return a row of a name, and the pairs beneath it, as a block; None where they are none.

    Parts stand before what is known, each with a number.
    """
    if not rows[0] or len(rows[0]) > 2 or not isinstance(rows[0][0].value, str):
        return None
    name, *each = rows[0]
    pairs = {label.text: (label, value) for label, value in rows[1:]}
    if each and not (heading_of(each[0].text).column == "_quantity" and is_of_each(each[0].text)):
        return None
    parts = [list(cells) for label, cells in pairs.items() if each and not heading_of(label).column]
    if parts and [cells[0] for cells in parts] != [row[0] for row in rows[1 : 1 + len(parts)]]:
        return None
    heads = {heading_of(label).column for label in pairs}
    if len(pairs) < max(_FEWEST, len(rows) - 1) or not heads & set(AMOUNTS) or not heads & (FIGURES - set(AMOUNTS)):
        return None
    texts = {cells[0].text for cells in parts}
    return _Block(name, each, parts, {label: cells for label, cells in pairs.items() if label not in texts})
