"""A sheet with a block of labels and values per server, its name above it, as one with a row per server."""

from __future__ import annotations

from dataclasses import replace

from procure.sheets.columns import AMOUNTS, FIGURES, is_line, line_row
from procure.sheets.grid import Cell, Grid
from procure.sheets.headings import heading_of

_FEWEST = 3
"""Labels that a block must have at least."""


def by_blocks(grid: Grid) -> tuple[Grid, list[Cell]] | None:
    """Return a sheet of blocks with their labels as the header, and all labels; None where it is not plainly that.

    Each label that is known stands in a block with a name and a price, and once in it. A line of the order, or a total,
    beneath the first block is a row of its own.
    """
    filled = [[cell for cell in row if not cell.is_empty] for row in grid.rows]
    blocks, n = list[tuple[Cell, dict[str, tuple[Cell, Cell]]]](), 0
    taken = set[int]()
    while n < len(filled):
        end = n + 1
        while end < len(filled) and len(filled[end]) == 2 and isinstance(filled[end][0].value, str):
            end += 1
        pairs = {row[0].text: (row[0], row[1]) for row in filled[n + 1 : end]}
        heads = {heading_of(label).column for label in pairs}
        is_block = len(filled[n]) == 1 and isinstance(filled[n][0].value, str) and len(pairs) >= _FEWEST
        if is_block and len(pairs) == end - n - 1 and heads & set(AMOUNTS) and heads & (FIGURES - set(AMOUNTS)):
            blocks.append((filled[n][0], pairs))
            taken |= set(range(n, end))
        n = max(end - 1, n + 1) if end < len(filled) and len(filled[end - 1]) == 1 else end
    known = {at for at, row in enumerate(filled) if len(row) > 1 and heading_of(row[0].text).column in FIGURES}
    if len(blocks) < 2 or not known <= taken:
        return None
    labels = {label: cells[0] for _, pairs in reversed(blocks) for label, cells in reversed(pairs.items())}
    labels = dict(reversed(labels.items()))
    header = [Cell(""), *labels.values()]
    rows = [[name, *(pairs[one][1] if one in pairs else Cell("") for one in labels)] for name, pairs in blocks]
    beneath = [row for at, row in enumerate(grid.rows) if at > min(taken) and at not in taken and is_line(row)]
    lines = [line_row(row, header) for row in beneath]
    turned = replace(grid, rows=[header, *rows, *lines], merged=(), is_turned=True)
    return turned, [cells[0] for _, pairs in blocks for cells in pairs.values()]
