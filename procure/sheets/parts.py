"""Servers whose parts stand in rows beneath them: the parts become one text with the server's name, which is read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from decimal import Decimal

from procure.sheets.cells import NOTHING, chips_in, chips_of, gpu_models
from procure.sheets.described import is_memory, written_plainly
from procure.sheets.grid import Cell, row_label
from procure.sheets.headings import heading_of, plain_words
from procure.sheets.lines import INCLUDED, is_optional, is_total
from procure.sheets.units import figure
from procure.sheets.words import MODULES, NODE, themed

_AMOUNTS = ("price_usd", "_price", "_list_price", "_total")
_SHARED = {"vendor", "category", "lot"}
"""Columns that say of a part which server, or whose, it is."""
FIGURES = {"cpus", "mem_gb", "_cores_per_socket", "_sockets", "processor"}
_ASIDE = {*_AMOUNTS, "_quantity", "_each", "_measure", "_price_unit", "_currency", "_discount"}
"""Columns that say nothing of what a part is."""
_MOST = Decimal(10) ** 15
"""From here on a number is no amount of money."""
_MOST_GPUS = 8
"""More than these, as a multiple of the servers, may be those of all, whatever the other parts are."""
_CODE = re.compile(r"(?=.*\d)[\w./-]+")
"""A number of a part or a position: one word with a digit."""
_LABEL = re.compile(r"[^\d,;(]+?(?=\b(?:AMD|Intel|EPYC|Xeon)\b|\b\d{1,3}\s*G[BOo]\b)")
_OF_PARTS = {"processor", "_sockets", "mem_gb", "_modules", "_module_gb"}
_COUNT = re.compile(r"\(?\d{1,2}\)?\s*[x×*]")


Columns = Mapping[str, int]
"""Place of each column in a row."""


@dataclass
class Gathered:
    """Rows with the parts of servers in their names, the rows that were joined, and cells to ask about with why."""

    rows: list[list[Cell]] = field(default_factory=list)
    joined: list[list[Cell]] = field(default_factory=list)
    open: list[tuple[Cell, str]] = field(default_factory=list)


def gather_parts(rows: list[list[Cell]], columns: Columns, numbers: set[int], place: int) -> Gathered:
    """Join the rows of a server's parts to its own row, where they have no price, or cost together what it costs.

    What they say becomes a cell of its own at ``place``, or is joined to a name that itself says parts. ``numbers`` are
    columns of numbers of articles. What says processors, and is not plainly such a part, is asked about.
    """
    if "name" not in columns or FIGURES & columns.keys():
        return Gathered(rows)
    found, at = Gathered(), 0
    while at < len(rows):
        head, part = rows[at], _parts_beneath(rows, columns, numbers, at)
        if not part.n:
            found.open += _question(columns, head, [*part.first.values()], part.block)
            found.rows.append(head)
        else:
            found.joined += rows[at : at + 1 + part.n]
            texts = [*part.first.values(), *part.texts]
            found.rows.append(_joined(columns, without(head, part.first.keys()), texts, 1 + part.n, place))
        at += 1 + part.n
    return found


@dataclass(frozen=True)
class _Beneath:
    """The rows beneath a server, what its own row says of parts, how many of them are its parts, and their texts."""

    block: list[list[Cell]]
    first: dict[int, str]
    n: int
    texts: list[str]


def _parts_beneath(rows: list[list[Cell]], columns: Columns, numbers: set[int], at: int) -> _Beneath:
    head = rows[at]
    block = [_bare(columns, head, row, numbers) for row in _block(rows, columns, at)]
    first = _first_part(columns, _bare(columns, head, head, numbers), block)
    is_priced = _amount(columns, head) is not None
    n_parts, times = _parts(columns, head, [*first.values()], block) if is_priced else (0, Decimal(1))
    group, alike = block[:n_parts], _alike(columns, block[:n_parts])
    texts = [_text(columns, without(row, alike), times, quantity_of(columns, head)) for row in group]
    is_part = all(text and not _is_apart(columns, head, row, text) for row, text in zip(group, texts, strict=True))
    if is_whole([row_label(head)]) or not n_parts or not is_part:
        return _Beneath(block, first, 0, [])
    return _Beneath(block, first, n_parts, [*texts, *(group[0][n].text for n in sorted(alike))])


def n_parts_beneath(rows: list[list[Cell]], columns: Columns, numbers: set[int], at: int) -> int:
    """Return how many of the rows right beneath a server are its parts."""
    return _parts_beneath(rows, columns, numbers, at).n


def cell_of(columns: Columns, row: list[Cell], name: str) -> Cell:
    """Return the cell of a column in a row, an empty one where there is none."""
    place = columns.get(name)
    return row[place] if place is not None and place < len(row) else Cell("")


def _block(rows: list[list[Cell]], columns: Columns, at: int) -> list[list[Cell]]:
    """Return the rows right beneath a server, up to a gap, a total, or the row after which no part follows."""
    found, last = list[list[Cell]](), line_of(rows[at])
    for row in rows[at + 1 :]:
        if line_of(row) != last + 1 or is_total(row_label(row)) or not said_of(columns, row):
            break
        if line_of(row) - line_of(rows[at]) >= _merged(columns, rows[at]):
            break
        pairs = [(cell_of(columns, rows[at], one), cell_of(columns, row, one)) for one in ("vendor", "lot")]
        if any(not two.is_empty and one.text != two.text for one, two in pairs):
            break
        found.append(row)
        last = line_of(row)
    return found


def _merged(columns: Columns, head: list[Cell], *names: str) -> float:
    """Return over how many rows a server's price, or another cell, is merged; without end where it is not."""
    rows = [cell.rows for one in names or _AMOUNTS if not (cell := cell_of(columns, head, one)).is_empty]
    return max(rows) if rows and max(rows) > 1 else math.inf


def without(row: list[Cell], places: Set[int]) -> list[Cell]:
    """Return a row with nothing in some places."""
    return [Cell("") if n in places else cell for n, cell in enumerate(row)]


def _bare(columns: Columns, head: list[Cell], row: list[Cell], numbers: set[int]) -> list[Cell]:
    """Return a row beneath a server without what it shares with it, and without numbers of articles."""
    distance = line_of(row) - line_of(head)
    merged = {n for n, cell in enumerate(row) if cell.is_again and n < len(head) and head[n].rows > distance}
    shared = {
        columns[one]
        for one in _SHARED & columns.keys()
        if cell_of(columns, row, one).text == cell_of(columns, head, one).text
    }
    shared |= {n for n in numbers if n < len(row) and _CODE.fullmatch(row[n].text)}
    return _counted(columns, head, without(row, merged | (shared - {columns["name"]})))


def _counted(columns: Columns, head: list[Cell], row: list[Cell]) -> list[Cell]:
    """Return a part with its number in one server before its name, where the number in all servers agrees with it."""
    each, name, whole = (cell_of(columns, row, one) for one in ("_each", "name", "_quantity"))
    n = int(each.text) if re.fullmatch(r"[1-9]\d{0,3}", each.text) else 0
    if row is head or not n or name.is_empty or (n > 1 and any(_COUNT.match(cell.text) for cell in row)):
        return row
    if not whole.is_empty and whole.text != str(n * quantity_of(columns, head)):
        return row
    bare = without(row, {columns["_each"], columns.get("_quantity", -1)})
    place = next((at for at, cell in enumerate(bare) if _is_part(cell.text)), columns["name"])
    bare[place] = replace(bare[place], value=with_number(bare[place].text, Decimal(n), each))
    return bare


def _first_part(columns: Columns, head: list[Cell], block: list[list[Cell]]) -> dict[int, str]:
    """Return what a server's own row says of its parts, by the columns in which the rows beneath say theirs."""
    aside = {place for name, place in columns.items() if name in _ASIDE | {"name"}}
    places = {n for row in block for n, cell in enumerate(row) if not cell.is_empty} - aside
    return {n: cell.text for n, cell in enumerate(head) if n in places and not cell.is_empty}


def _is_apart(columns: Columns, head: list[Cell], row: list[Cell], text: str) -> bool:
    """Tell whether a row beneath a server may be another one, or an option: by its words, or by those of its price."""
    beside = {plain_words(cell_of(columns, row, one).text) for one in (*_AMOUNTS, "_quantity", "_discount")}
    beside = {one for one in beside if re.search("[a-z]", one) and not re.search(r"\d", one)} - INCLUDED - NOTHING
    if beside or is_optional(row_label(row)) or not cell_of(columns, row, "_each").is_empty:
        return True
    n_parts = sum(_is_part(one) for one in _texts(columns, row))
    name = cell_of(columns, row, "name").text
    said = text if not n_parts else "" if _is_part(name) else name
    one, two = (
        re.sub(r"\S*\d\S*", "", plain_words(of_it)).split() for of_it in (said, cell_of(columns, head, "name").text)
    )
    if not n_parts and not one and not text.isdecimal() and _merged(columns, head, "name") < math.inf:
        return False  # a word with a digit, within the server's cell: ``HDR100``
    is_named = bool(said) and (one in ([], two) or re.search(rf"\b{NODE}\b", " ".join(one)) is not None)
    # a number beside two parts is of nobody knows which
    return is_named or n_parts > 1 or (not n_parts and themed("machines").issuperset(one))


def _alike(columns: Columns, group: list[list[Cell]]) -> set[int]:
    """Return the columns in which all of several parts say the same, in words: ``Module``."""
    aside = {place for name, place in columns.items() if name in _ASIDE | {"name"}}
    found = set(range(min(map(len, group), default=0))) - aside if len(group) > 1 else set[int]()
    return {
        n for n in found if len({row[n].text for row in group}) == 1 and re.fullmatch(r"[^\W\d]+", group[0][n].text)
    }


def line_of(row: list[Cell]) -> int:
    """Return the row of a sheet, or the line of a file, that a row stands in."""
    filled = next((cell for cell in row if not cell.is_empty), Cell(""))
    return int("0" + re.sub(r"\D", "", filled.address))


def _parts(columns: Columns, head: list[Cell], first: list[str], block: list[list[Cell]]) -> tuple[int, Decimal]:
    """Return how many of the rows beneath a server are its parts, and of how many servers each counts them.

    None where a part says neither by the sum of prices nor by its number whether it is of one server or of all.
    """
    free = next((n for n, row in enumerate(block) if _amount(columns, row) is not None), len(block))
    n_nodes = quantity_of(columns, head)
    if free and is_whole([*first, *(said_of(columns, row) for row in block[:free])]):
        times = _counted_for([(said_of(columns, row), quantity_of(columns, row)) for row in block[:free]], n_nodes)
        return (free, times) if times else (0, Decimal(0))
    whole, price = Decimal(0), _amount(columns, head) or Decimal(0)
    amounts = [price, *(_amount(columns, row) or Decimal(0) for row in block)]
    if any(one.is_nan() for one in amounts) or any(is_whole([said_of(columns, row)]) for row in block):
        return 0, Decimal(0)
    for last, row in enumerate(block, 1):
        whole += (_amount(columns, row) or Decimal(0)) * quantity_of(columns, row)
        for times in {Decimal(1), n_nodes}:
            is_sum = abs(whole - price * times) <= Decimal("0.01") * last
            if is_sum and last > 1 and is_whole([said_of(columns, one) for one in block[:last]]):
                return last, times
    return 0, Decimal(0)


def _counted_for(parts: list[tuple[str, Decimal]], n_nodes: Decimal) -> Decimal:
    """Return of how many servers parts with a number beside them are counted: of one or of all; 0 = that is open.

    A server has no more than two EPYC, and one, two, four or eight of other processors.
    """
    counts = [(text, n) for text, n in parts if n > 1 and not _COUNT.match(text)]
    of_all = all(n % n_nodes == 0 for _, n in counts)
    if n_nodes == 1 or not counts:
        return Decimal(1)
    chips = [(text, n) for text, n in counts if chips_in(text)]
    fits = [
        all(n / times in ((1, 2) if "epyc" in text.casefold() else (1, 2, 4, 8)) for text, n in chips)
        for times in (1, n_nodes)
    ]
    if of_all:
        return n_nodes if chips and fits == [False, True] else Decimal(1) if fits == [True, False] else Decimal(0)
    is_many = any(n > _MOST_GPUS and n % n_nodes == 0 for text, n in counts if gpu_models(text))
    return Decimal(0) if is_many or not fits[0] else Decimal(1)


def is_whole(texts: list[str]) -> bool:
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


def said_of(columns: Columns, row: list[Cell]) -> str:
    """Return what a row says of a part: all its texts beside amounts and numbers of articles, what it is first."""
    return "; ".join(sorted(_texts(columns, row), key=lambda text: not _is_part(text)))


def _texts(columns: Columns, row: list[Cell]) -> list[str]:
    aside = {place for name, place in columns.items() if name in _ASIDE}
    return [cell.text for place, cell in enumerate(row) if place not in aside and not cell.is_empty]


def _is_part(text: str) -> bool:
    return bool(chips_in(text) or is_memory(text) or gpu_models(text))


def _text(columns: Columns, row: list[Cell], times: Decimal, n_nodes: Decimal) -> str:
    """Return a part with its number in one server; empty where two numbers are stated, or it is not whole."""
    text, n = said_of(columns, row), quantity_of(columns, row)
    if _COUNT.match(text):
        return text if n in (1, n_nodes) else ""
    n /= times
    return "" if n != int(n) else with_number(text, n, cell_of(columns, row, "_quantity"))


def with_number(text: str, n: Decimal, stated: Cell) -> str:
    """Return a part's text with its number before it where it has none; of one processor too, where it is stated.

    What heads it (``Processor AMD EPYC 9354``, ``DIMM 32 GB``) is left out, so that its number stands before it.
    """
    if _COUNT.match(text) or (n == 1 and (stated.is_empty or not chips_in(text) or chips_of(text)[0] > 0)):
        return text
    label = _LABEL.match(text)
    words = plain_words(label[0]).split() if label else []
    is_label = all(heading_of(word).column in _OF_PARTS or re.fullmatch(MODULES, word) for word in words)
    return f"{int(n)}x {text[label.end() :] if label and is_label else text}"


def _joined(columns: Columns, head: list[Cell], texts: list[str], n_rows: int, place: int) -> list[Cell]:
    """Return a server's row with its parts: in a cell at ``place``, or in its name where that says parts too."""
    row = [cell if cell.is_again or cell.rows > n_rows else replace(cell, rows=1) for cell in head]
    name = row[columns["name"]]
    if chips_in(name.text) or is_memory(name.text):
        row[columns["name"]] = replace(name, value="; ".join([name.text, *texts]))
        return row
    return [*row, *[Cell("")] * (place - len(row)), replace(name, value="; ".join(texts))]


def _question(columns: Columns, head: list[Cell], first: list[str], block: list[list[Cell]]) -> list[tuple[Cell, str]]:
    """Return what keeps rows beneath a server from being its parts, where they name its processors and memory."""
    texts = [*first, *(said_of(columns, row) for row in block)]
    if is_whole([row_label(head)]) or not is_whole(texts) or any(is_whole([text]) for text in texts):
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
