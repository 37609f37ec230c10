"""Priced parts of one node with their sum, and how many such nodes are bought: they become one row of a server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from decimal import Decimal

from procure.sheets.grid import Cell, row_label
from procure.sheets.headings import heading_of, plain_words
from procure.sheets.parts import (
    FIGURES,
    Columns,
    Gathered,
    cell_of,
    is_whole,
    line_of,
    n_parts_beneath,
    quantity_of,
    said_of,
    with_number,
    without,
)
from procure.sheets.units import figure, without_tax
from procure.sheets.words import MACHINE, NODE, PER, pattern, themed

_CENT = Decimal("0.01")
_OF_SUMS = ("sums", "beside_sums", "glue", "counting", "numbers_of", "of_all", "machines")
_OF_GROUPS = {"_quantity", "category", "name", "_number"}
"""What words of a label may head that counts nodes: ``Group quantity``."""
_ONE_NODE = re.compile(rf"\b(?:{PER}|one|1|eine[sn]?|un|une|d un)\s+{NODE}\b")
_NUMBER = re.compile(rf"(?<![\d.,])(\d{{1,5}})\s*[x×]?\s*{MACHINE}\b", re.IGNORECASE)
_COUNTED = re.compile(rf"(.+?)\s*[:=]\s*(\d{{1,5}})(?:\s*{MACHINE})?", re.IGNORECASE)


@dataclass
class _Node:
    """Parts of a node, the cell of their sum, rows that say how many there are, these numbers, and sums of all."""

    parts: list[list[Cell]]
    said: list[str]
    sum: list[Cell]
    price: Cell
    title: Cell | None = None
    beside: list[list[Cell]] = field(default_factory=list)
    counts: list[Cell] = field(default_factory=list)
    wholes: list[Cell] = field(default_factory=list)

    def open(self, is_of_one: bool) -> str:
        """Return what keeps parts from being plainly those of one node, so often bought; nothing where they are."""
        price, counts = figure(self.price) or Decimal(0), [figure(one) or Decimal(0) for one in self.counts]
        title = self.title.text if self.title is not None else ""
        odd = [row for row in (self.sum, *self.beside[self.title is not None :]) if not _is_sum(row_label(row), title)]
        if odd:
            return f"have a sum that may be another one: {row_label(odd[0])!r} ({_first(odd[0]).address})"
        if len(set(counts)) > 1:
            return f"are bought {counts[0]} or {counts[1]} times ({self.counts[1].address})"
        if self.wholes and not counts:
            return f"have two sums ({self.price.address} and {self.wholes[0].address}), and no number of nodes"
        wrong = [one for one in self.wholes if abs((figure(one) or 0) - price * counts[0]) > _CENT * counts[0]]
        if wrong:
            return f"cost {price} ({self.price.address}), which times {counts[0]} is not the sum in {wrong[0].address}"
        proven = is_of_one or bool(self.wholes and counts[0] > 1)
        return "" if proven else f"cost {price} ({self.price.address}), of one node or of all: say so beside it"


def gather_nodes(
    rows: list[list[Cell]], above: list[Cell], titles: list[Cell], columns: Columns, numbers: set[int]
) -> Gathered:
    """Join priced parts that add up to the sum beneath them to a row of a server, with that price.

    ``above`` is the row above the header, ``numbers`` are columns of numbers of articles. What is not plainly of
    one node, or not how many, is asked about.
    """
    if not {"name", "price_usd", "_quantity"} <= columns.keys() or FIGURES & columns.keys():
        return Gathered(rows)
    found, at, before = Gathered(), 0, above
    total, is_per_node = _totals(rows, titles, columns), any(map(_is_of_one, titles))
    columns = {"_total": total, **columns}
    texts = [said_of(columns, without(row, numbers)) for row in rows]
    while at < len(rows):
        n_beneath = n_parts_beneath(rows, columns, numbers, at)
        node = _node(rows, texts, at, columns) if not n_beneath else None
        if node is None:
            found.rows += rows[at : at + 1 + n_beneath]
            before, at = rows[at + n_beneath], at + 1 + n_beneath
            continue
        if _take_above(node, before) and before is not above:
            found.rows.pop()
        at = _take_beneath(node, rows, at + len(node.parts) + 1)
        found.joined += [*node.parts, node.sum, *node.beside]
        first = _first(node.parts[0])
        if asked := node.open(is_per_node or any(map(_is_of_one, node.sum))):
            found.open.append((first, f"and the rows beneath it {asked}"))
        found.rows.append(_server(node, len(titles), columns))
        before = []
    return found


def _first(row: list[Cell]) -> Cell:
    return next(cell for cell in row if not cell.is_empty)


def _at(row: list[Cell], place: int) -> Decimal | None:
    return figure(row[place]) if place < len(row) else None


def _totals(rows: list[list[Cell]], titles: list[Cell], columns: Columns) -> int:
    """Return the place of the column that is the quantity × the price of one; else that of the prices."""
    price, taken = columns["price_usd"], {place for name, place in columns.items() if name != "_total"}
    for place in range(len(titles)):
        full = [(quantity_of(columns, row), _at(row, price), _at(row, place)) for row in rows]
        fits = [abs(n * one - of_all) <= _CENT * n for n, one, of_all in full if one is not None and of_all is not None]
        if place not in taken and len(fits) > 1 and all(fits):
            return place
    return price


def _node(rows: list[list[Cell]], texts: list[str], at: int, columns: Columns) -> _Node | None:
    """Return the parts that begin in a row, and the row of their sum right beneath; None where there are none."""
    whole, price, total = Decimal(0), columns["price_usd"], columns["_total"]
    for end in range(at, len(rows)):
        row, one, parts = rows[end], _at(rows[end], price), rows[at:end]
        if parts and line_of(row) != line_of(parts[-1]) + 1:
            break
        if one is not None and texts[end] and figure(cell_of(columns, row, "_quantity")) is not None:
            whole += one * quantity_of(columns, row)
            continue
        amount = next((row[place] for place in (total, price) if _at(row, place) is not None), None)
        said = texts[at:end]
        is_node = len(parts) > 1 and is_whole(said) and not any(is_whole([text]) for text in said)
        is_sum = amount is not None and abs((figure(amount) or 0) - whole) <= _CENT * len(parts)
        return _Node(parts, said, row, amount) if is_node and is_sum and amount is not None else None
    return None


def _is_of_one(cell: Cell) -> bool:
    """Tell whether a text says that its amounts are of one node."""
    return _ONE_NODE.search(plain_words(cell.text)) is not None


def _is_sum(label: str, title: str) -> bool:
    """Tell whether a label names a sum, a price, or a number of nodes, and nothing else."""
    bare = re.sub(rf"\d+(?:\s*{MACHINE})?", " ", pattern("prices", re.I).sub(" ", without_tax(label)))
    known = themed(*_OF_SUMS) | set(plain_words(title).split()) | {"one"}
    words = [word for word in plain_words(bare).split() if heading_of(word).column not in _OF_GROUPS]
    return all(word in known or re.fullmatch(rf"{MACHINE}|{PER}", word) for word in words)


def _count_in(row: list[Cell]) -> list[Cell]:
    """Return the cells of a label that counts nodes and of its number, which may be one cell."""
    for label, beside in zip(row, [*row[1:], Cell("")], strict=False):
        match = _COUNTED.fullmatch(label.text)
        text, number = (match[1], replace(label, value=int(match[2]))) if match else (label.text, beside)
        words = [heading_of(word).column for word in plain_words(text).split()]
        is_label = heading_of(text).column == "_quantity" or ("_quantity" in words and set(words) <= _OF_GROUPS)
        value = figure(number)
        if is_label and value is not None and value > 0 and value == int(value):
            return [label, number]
    return []


def _take_above(node: _Node, row: list[Cell]) -> bool:
    """Take the title and the number of nodes from the row above parts, and tell whether it has them."""
    filled = [cell for cell in row if not cell.is_empty]
    count = _count_in(filled)
    rest = [cell for cell in filled if cell.address not in {one.address for one in count}]
    is_machine = len(rest) == 1 and re.search(rf"{MACHINE}\b", plain_words(rest[0].text)) is not None
    if not (is_machine or count) or len(rest) > 1 or any(figure(cell) is not None for cell in rest):
        return False
    node.title = rest[0] if rest else None
    node.counts += count[1:]
    node.beside.append(row)
    return True


def _take_beneath(node: _Node, rows: list[list[Cell]], at: int) -> int:
    """Take numbers of nodes and sums of all from the rows right beneath the sum; return the row behind them."""
    while at < len(rows) and line_of(rows[at]) == line_of(rows[at - 1]) + 1:
        filled = [cell for cell in rows[at] if not cell.is_empty]
        count, number = _count_in(filled), _NUMBER.search(row_label(rows[at]))
        amounts = [cell for cell in filled if figure(cell) is not None and not _NUMBER.search(cell.text)]
        amounts = [cell for cell in amounts if not any(cell is one for one in count)]
        if count:
            node.counts += count[1:]
        elif number is not None and amounts:
            node.counts.append(replace(_first(filled), value=int(number[1])))
        else:
            break
        node.wholes += amounts
        node.beside.append(rows[at])
        at += 1
    return at


def _bare(part: str) -> str:
    """Return a part without the word for a node's own chassis."""
    words = [word for word in re.findall(r"[^\W\d_]+", part) if plain_words(word) in themed("in_headings")]
    return " ".join(re.sub(rf"\b(?:{'|'.join(words)})\b", " ", part).split()) if words else part


def is_group(row: list[Cell]) -> bool:
    """Tell whether a row has a number of nodes and a title, or one of them alone."""
    return bool(_count_in([cell for cell in row if not cell.is_empty])) and _take_above(
        _Node([], [], [], Cell("")), row
    )


def _server(node: _Node, width: int, columns: Columns) -> list[Cell]:
    """Return the row of a server: its title, sum and number, and behind them its parts in a cell of their own."""
    texts = [
        with_number(_bare(text), quantity_of(columns, part), cell_of(columns, part, "_quantity"))
        for text, part in zip(node.said, node.parts, strict=True)
    ]
    name = cell_of(columns, node.parts[0], "name")
    title = node.title or replace(name, value=re.split(r"[,;(]", _bare(name.text))[0])
    row = [Cell("") for _ in range(width)]
    row[columns["name"]] = title
    row[columns["_total"]] = node.wholes[0] if node.wholes else Cell("")
    row[columns["price_usd"]] = node.price
    row[columns["_quantity"]] = node.counts[0] if node.counts else Cell("")
    return [*row, replace(name, value="; ".join(texts))]
