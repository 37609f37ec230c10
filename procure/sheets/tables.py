"""Where the tables of a sheet are: header rows anywhere, units beneath them, a server type per row or per column."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace
from decimal import Decimal

from procure.schemas import QUOTE
from procure.sheets.blocks import by_blocks
from procure.sheets.cells import chips_in, gpus_in
from procure.sheets.columns import by_columns
from procure.sheets.findings import Finding, Severity
from procure.sheets.grid import Cell, Grid, row_label
from procure.sheets.headings import Heading, heading_of, is_of_each, of_another, plain_words
from procure.sheets.lines import is_tax, is_total, kind_of, percentages
from procure.sheets.parts import gather_parts, quantity_of
from procure.sheets.priced import gather_nodes, is_group
from procure.sheets.units import figure, tax_of, unit_of
from procure.sheets.words import NODE, PER, TAX, pattern, themed
from procure.text import nearest

_TEXTS = {"name", "vendor", "processor", "category", "source", "gpu_type", "lot", "quote_number", "_number"}
_PRICES = {"price_usd", "_price", "_list_price", "_total"}
_FEWEST = 3
"""Headings that a row must have at least to begin a table; a name and a price are enough."""


@dataclass
class Table:
    """A table of a sheet: which cell of a row belongs to which column.

    Attributes
    ----------
    width
        Number of headings, empty ones included.
    columns
        Place of each column in a row; names with _ as in ``headings.toml``.
    headings
        What the heading of each column says.
    header
        Cell of each heading.
    rows
        The rows beneath the header that are not empty.
    heads
        Addresses of all headings with content beneath, known or not.
    settled
        Addresses of headings of amounts that agree with each other: price × quantity = total, or parts and their sum.
    configured
        By the address of a cell that describes a whole server, the name in it.
    optional
        Addresses of cells that head options, or are of one.
    parts
        Rows that were joined to one, as they stand in the sheet.
    numbering
        A row beneath the header that numbers the columns: ``(a)``, ``(b)``, ``(c) = (a) x (b)``.
    titles, top
        The headings by place, of two rows as one; the cells of these rows as they stand in the sheet.
    """

    sheet: str
    columns: dict[str, int]
    headings: dict[str, Heading]
    header: dict[str, Cell]
    rows: list[list[Cell]]
    width: int
    is_ours: bool = False
    findings: list[Finding] = field(default_factory=list)
    heads: frozenset[str] = frozenset()
    titles: list[Cell] = field(default_factory=list)
    top: list[Cell] = field(default_factory=list)
    settled: set[str] = field(default_factory=set)
    configured: dict[tuple[str, str], str] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)
    parts: list[list[Cell]] = field(default_factory=list)
    numbering: list[Cell] = field(default_factory=list)

    def cell(self, row: list[Cell], column: str) -> Cell | None:
        """Return the cell of a column in a row, None where there is none."""
        place = self.columns.get(column)
        return row[place] if place is not None and place < len(row) else None

    def add(self, severity: Severity, column: str, allowed: str, given: str | None = None) -> None:
        """Note a finding about the whole column."""
        cell = self.header.get(column, Cell(""))
        name = {"_price": "price_usd", "_list_price": "price_usd", "_total": "price_usd"}.get(column, column)
        name = "" if name.startswith("_") else name
        self.findings.append(
            Finding(severity, self.sheet, cell.address, name, cell.text if given is None else given, allowed)
        )

    def say(self, severity: Severity, cell: Cell, text: str) -> None:
        """Note a finding about a cell."""
        self.findings.append(Finding(severity, self.sheet, cell.address, "", cell.text, text))

    def leave(self, cell: Cell, text: str) -> None:
        """Note that the column under a heading is not read."""
        self.say("warning", cell, text)


def tables_of(grid: Grid) -> list[Table]:
    """Return the tables of a sheet, as it is or turned by 90°, with what their headings leave open."""
    found = _tables(grid)
    if not found and (blocks := by_blocks(grid)) is not None:
        found = _tables(blocks[0])
        for table in found:
            table.top += [cell for cell in blocks[1] if all(cell is not one for one in table.top)]
        return found
    labels = [n for n, row in enumerate(grid.turned().rows) if is_header(row)] if not found else []
    return _tables(by_columns(grid, labels[0])) if labels else found


def _tables(grid: Grid) -> list[Table]:
    heads = [n for n, row in enumerate(grid.rows) if is_header(row)]
    heads = [n for n in heads if n - 1 not in heads or not _is_under(grid.rows[n - 1], grid.rows[n])]
    found = []
    heads = [n - 1 if n and n - 1 not in heads and _groups_above(grid.rows[n - 1], grid.rows[n]) else n for n in heads]
    for place, n in enumerate(heads):
        end = heads[place + 1] if place + 1 < len(heads) else len(grid.rows)
        end -= end < len(grid.rows) and is_group(grid.rows[end - 1])
        header, start = grid.rows[n], n + 1
        if start < end and _is_under(header, grid.rows[start]):
            header, start = _both(header, grid.rows[start]), start + 1
        texts, start = _header_texts(header, grid.rows, start, end)
        numbered = start < end and _is_numbering(grid.rows[start])
        rows = [row for row in grid.rows[start + numbered : end] if not all(cell.is_empty for cell in row)]
        if rows:
            above = next((row for row in grid.rows[max(n - 2, 0) : n][::-1] if any(not c.is_empty for c in row)), [])
            table = _table(grid, header, texts, rows, above)
            table.top = [cell for row in grid.rows[n:start] for cell in row]
            table.numbering = grid.rows[start] if numbered else []
            found.append(table)
    return found


def _groups(above: list[Cell], under: list[Cell]) -> dict[int, int]:
    """Return, by its place, the place of the heading that a word of the row beneath stands under, beside others."""
    groups: dict[int, int] = {}
    first, members = -1, list[int]()
    for place in range(len(under) + 1):
        at_end = place == len(under) or under[place].is_empty
        begins = at_end or (place < len(above) and not above[place].is_empty)
        if begins:
            if len(members) > 1:
                groups |= dict.fromkeys(members, first)
            first, members = place, []
        if not at_end and first >= 0 and first < len(above) and not above[first].is_empty:
            members.append(place)
    return groups


def _is_under(above: list[Cell], under: list[Cell]) -> bool:
    """Tell whether a row is the second of two rows of headings: ``Preis`` over ``Einzel`` and ``Gesamt``."""
    if any(not cell.is_empty and (cell.is_number or re.search(r"\d", cell.text)) and cell.rows == 1 for cell in under):
        return False
    return bool(_groups(above, under))


def _groups_above(row: list[Cell], header: list[Cell]) -> bool:
    """Tell whether a row that heads no table by itself holds merged headings of groups of the header's."""
    is_merged = any(cell.columns > 1 and not cell.is_empty for cell in row) and not any(cell.is_number for cell in row)
    return is_merged and _is_under(row, header) and len(set(_groups(row, header).values())) > 1


def _both(above: list[Cell], under: list[Cell]) -> list[Cell]:
    """Return the headings of two rows as those of one."""
    groups, cells = _groups(above, under), []
    for place in range(max(len(above), len(under))):
        top = above[place] if place < len(above) else Cell("")
        low = under[place] if place < len(under) else Cell("")
        if place in groups:
            cells.append(replace(low, value=_joined(above[groups[place]].text, low.text)))
        elif low.is_empty or low.text == top.text or top.is_empty:
            cells.append(low if top.is_empty else top)
        else:
            cells.append(replace(top, value=f"{top.text} ({low.text.strip('()[] ')})"))
    return cells


_ASIDE = re.compile(r"[(\[{]([^)\]}]*)[)\]}]|\bin\s+(\S+)\s*$")


_KIN = (_PRICES, {"mem_gb"}, {"processor", "cpus", "_sockets", "_cores_per_socket"}, {"power_w", "idle_power_w"})
"""Columns of which one may stand under another's word: of ``GPU`` over ``RAM`` the RAM is not the node's."""
_GPU = re.compile(r"gpu|grafik|accel|beschleuniger", re.IGNORECASE)


def _joined(group: str, word: str) -> str:
    """Return a heading and a word beneath it as one heading that is known, or both words."""
    units = [f"({one[1] or one[2]})" for text in (word, group) for one in _ASIDE.finditer(text)][:1]
    full, (group, word) = group, (" ".join(_ASIDE.sub(" ", text).split()) for text in (group, word))
    tail = " ".join(["", *units])
    alone, whole = heading_of(word + tail).column, heading_of(group).column
    if alone and (not whole or whole in _TEXTS - {"processor", "gpu_type"}) and not _is_of_part(group):
        said = heading_of(f"price {full}")
        is_other = of_another(full) or said.not_one_node or said.gross
        return f"{word} ({full})" if is_other else word + tail
    for text in (f"{word}{group.casefold()}", f"{group} {word}", f"{word} {group}"):
        if heading_of(text + tail).column:
            return text + tail
    return word + tail if any({alone, whole} <= kin for kin in _KIN) else f"{group} {word}{tail}"


def _is_of_part(group: str) -> bool:
    """Tell whether a word over others names a part of a server, a tax, or what is bought beside it."""
    of_part = themed("parts", "measures", "in_headings")
    is_part = not of_part.isdisjoint(plain_words(group).split()) or _GPU.search(group) is not None
    return is_part or kind_of(group) is not None or (is_tax(group) and tax_of(group) is None)


def is_header(row: list[Cell]) -> bool:
    """Tell whether a row heads a table of offers."""
    filled = [cell for cell in row if not cell.is_empty]
    if any(cell.is_number for cell in filled):
        return False
    columns = {heading_of(cell.text).column for cell in filled} - {"", "_number"}
    if {"name", "category"} < columns and len(columns) >= _FEWEST:
        return True
    priced = bool(columns & _PRICES)
    many = {name.lstrip("_") for name in columns}
    many |= {"name" for cell in filled if columns and plain_words(cell.text) in themed("features")}
    return (len(many) >= _FEWEST and (priced or len(filled) <= 3 * len(many))) or (priced and "name" in columns)


def _header_texts(header: list[Cell], rows: list[list[Cell]], start: int, end: int) -> tuple[list[str], int]:
    """Return the headings, with the units that a row beneath them may hold, and where the content begins."""
    texts = [cell.text for cell in header]
    if start < end:
        under = [cell.text.strip("()[] ") for cell in rows[start]]
        under = ["" if heading_of(text).column == "_measure" and unit_of(text) is None else text for text in under]
        units = [text for text in under if text]
        if units and all(unit_of(text) is not None for text in units) and len(units) > 1:
            both = zip(texts, [*under, *[""] * (len(texts) - len(under))], strict=False)
            return [f"{text} ({unit})" if unit else text for text, unit in both], start + 1
    return texts, start


_COLUMN_NUMBER = re.compile(
    r"\(?(\d{1,2}|[a-z])[).]?(?:\s*[=:]\s*[(\[]?[\da-z](?:[\s()\[\]+*x×·/-]|\d|\b[a-z]\b)*)?", re.IGNORECASE
)


def _is_numbering(row: list[Cell]) -> bool:
    """Tell whether a row numbers the columns, one after the other: ``1``, ``2``, ``3 = 1 x 2``."""
    said = [_COLUMN_NUMBER.fullmatch(cell.text) for cell in row if not cell.is_empty]
    numbers = [match[1].casefold() for match in said if match is not None]
    if len(said) < _FEWEST or len(numbers) < len(said):
        return False
    order = [int(one) if one.isdigit() else ord(one) for one in numbers]
    return all(two - one == 1 for one, two in itertools.pairwise(order))


def _table(grid: Grid, header: list[Cell], texts: list[str], rows: list[list[Cell]], above: list[Cell]) -> Table:
    heads = frozenset(cell.address for n, cell in enumerate(header) if any(_is_filled(row, n) for row in rows))
    table = Table(grid.sheet, {}, {}, {}, rows, len(header), heads=heads)
    table.titles = [replace(cell, value=text) for cell, text in zip(header, texts, strict=False)]
    exact = [text.strip() for text in texts if text.strip()]
    table.is_ours = {column.name for column in QUOTE.columns if column.required} <= set(exact)
    counts = sum(heading_of(text).column == "gpus" for text in texts)
    names = sum(heading_of(text).column == "name" for text in texts)
    repeated = _repeated(texts, rows) if names > 1 else set()
    for place, text in enumerate(texts):
        cells = [row[place].text for row in rows if _is_filled(row, place)]
        said = [text for text in cells if plain_words(text) not in themed("nothing") and re.search(r"\w", text)]
        first = next(iter(said), next(iter(cells), "a"))
        is_name = names > 1 and heading_of(text).column == "name"
        if is_name and (place in repeated or not re.search(r"[^\W\d_]", first[1:])):
            continue  # ``Item`` over 1, 2, 3 beside another column of names
        if text and heading_of(text).column == "gpus" and counts > 1 and re.match(r"(?!\d).*[^\W\d_]", first):
            _take(table, place, Heading("gpu_type", heading_of(text).rank), header[place], text)
        elif text:
            _take(table, place, _by_cells(heading_of(text), said, names), header[place], text)
    for name, heading in table.headings.items():
        if heading.doubt and name not in _PRICES and any(_is_filled(row, table.columns[name]) for row in rows):
            table.add("error", name, heading.doubt)
    _name_by_place(table, header, texts, grid.is_turned)
    if not table.is_ours:
        numbers = {n for n, title in enumerate(table.titles) if heading_of(title.text).column == "_number"}
        nodes = gather_nodes(table.rows, above, table.titles, table.columns, numbers)
        gathered = gather_parts(nodes.rows, table.columns, numbers, len(table.titles))
        table.rows, table.parts = gathered.rows, nodes.joined + gathered.joined
        table.width += bool(table.parts)  # their descriptions stand in a column of their own
        for cell, asked in nodes.open + gathered.open:
            table.say("error", cell, asked)
        _settle_by_products(table)
        _settle_by_sums(table)
        _settle_by_discounts(table)
    _choose_price(table)
    return table


def _repeated(texts: list[str], rows: list[list[Cell]]) -> set[int]:
    """Return the columns of names that repeat single words, beside one that says more: ``Base``, ``Module``."""
    of_it = [n for n, text in enumerate(texts) if heading_of(text).column == "name"]
    cells = {n: [row[n].text for row in rows if _is_filled(row, n)] for n in of_it}
    most = max(len(set(said)) for said in cells.values())
    are_words = {n: all(re.fullmatch(r"[^\W\d_]+", one) for one in said) for n, said in cells.items()}
    return {n for n, said in cells.items() if are_words[n] and len(set(said)) < min(len(said), most)}


def _by_cells(heading: Heading, cells: list[str], n_names: int) -> Heading:
    """Return a heading in the sense that its cells have: Spanish ``Nombre`` heads names, ``Processors`` a number.

    Cells that each are a number of GPUs and their model are such, whatever heads them. ``Units`` over words are
    those of quantities where another column has the names.
    """
    if (
        not heading.column
        and cells
        and all(re.match(r"\d", one) and gpus_in(one)[0] and not chips_in(one) for one in cells)
    ):
        return replace(heading, column="gpus")
    if heading.column == "_quantity" and cells and not re.search(r"\d", cells[0]):
        return replace(heading, column="_measure" if n_names else "name", unit=None)
    if heading.column == "power_w" and cells and all(re.search(r"[^\W\d_]{3}", text) for text in cells):
        return replace(heading, column="name", unit=None)  # Leistung, of a tender
    if heading.column == "processor" and cells and all(re.fullmatch(r"\d", text) for text in cells):
        return replace(heading, column="_sockets")
    if heading.column == "_sockets" and cells and all(re.search(r"[^\W\d_]{3}", text) for text in cells):
        return replace(heading, column="processor")
    return heading


def _is_filled(row: list[Cell], place: int) -> bool:
    return place < len(row) and not row[place].is_empty


def _name_by_place(table: Table, header: list[Cell], texts: list[str], is_turned: bool) -> None:
    """Take as names a first column of texts without a heading, or the only one headed by a node, if none is so.

    Of a sheet that is turned the heading may say what it will: its words are asked about where they are not known.
    """
    if "name" in table.columns or table.is_ours:
        return
    priced = [row for row in table.rows if any(not (table.cell(row, one) or Cell("")).is_empty for one in _PRICES)]
    kinds = [cell.text for row in priced if (cell := table.cell(row, "category")) is not None and not cell.is_empty]
    if kinds and len(set(kinds)) == len(kinds):
        text = table.header["category"].text
        _rename(table, "category", "name")
        table.add("guess", "name", "is taken as the names: no column is headed so, and all its texts differ", text)
        return
    first = next((n for n in range(len(header)) if any(_is_filled(row, n) for row in table.rows)), None)
    is_code = first is not None and table.columns.get("_number") == first
    is_taken = first is None or (first in table.columns.values() and not is_code)
    is_known = is_code or is_turned or (first is not None and plain_words(texts[first]) in {"", *themed("features")})
    said = "is taken as the names: the first column has texts and no heading for them"
    if is_taken or not is_known:
        places = [n for n in range(len(header)) if n not in table.columns.values() and n != first]
        places = [n for n in places if re.search(rf"\b{NODE}\b", plain_words(texts[n]))]
        first, said = places[0] if len(places) == 1 else None, "is taken as the names: no other column has them"
    cells = [row[first] for row in table.rows if _is_filled(row, first)] if first is not None else []
    if first is None or any(cell.is_number or re.search(r"[^\W\d_]", cell.text) is None for cell in cells):
        return
    table.columns["name"], table.headings["name"], table.header["name"] = first, Heading("name"), header[first]
    table.add("guess", "name", said, texts[first])


def _take(table: Table, place: int, heading: Heading, cell: Cell, text: str) -> None:
    name = heading.column
    content = any(place < len(row) and not row[place].is_empty for row in table.rows)
    if not name:
        if content and table.is_ours:
            said = f"unknown column {text.strip()!r}; {nearest(text.strip(), QUOTE.names)}"
            table.findings.append(Finding("error", table.sheet, cell.address, "", "", said))
        elif content and pattern("gpu_headed").search(plain_words(text)):
            said = (
                f"{text.strip()!r} names GPUs and is not read; head it gpus (so many per node), gpu_type, or delete it"
            )
            table.findings.append(Finding("error", table.sheet, cell.address, "gpus", "", said))
        elif content:
            table.leave(replace(cell, value=text), "heads a column that is not read")
        return
    if name in table.columns and content:
        held = table.headings[name]
        elsewhere = f"is not read; {name.lstrip('_')} is taken from "
        if name in _TEXTS:
            is_better = heading.rank < held.rank
            table.leave(table.header[name] if is_better else cell, f"{elsewhere}another column")
            if not is_better:
                return
        elif (heading.gross is True) != (held.gross is True):  # the price without tax is meant
            table.leave(cell if heading.gross else table.header[name], f"{elsewhere}the column without tax")
            if heading.gross:
                return
        elif bool(heading.doubt) != bool(held.doubt):  # beside ``RAM``, ``RAM/core`` is told apart
            table.leave(cell if heading.doubt else table.header[name], f"{elsewhere}another column")
            if heading.doubt:
                return
        elif name == "_quantity" and is_of_each(text) != is_of_each(table.header[name].text):
            if is_of_each(table.header[name].text):  # of parts, how many one node has, and how many all have
                _rename(table, name, "_each")
            else:
                name = "_each"
        elif name == "cpus" and "cpus" in (plain_words(text), plain_words(table.header[name].text)):
            if plain_words(text) == "cpus":  # beside cores, CPUs are processors
                table.columns["_sockets"], table.headings["_sockets"], table.header["_sockets"] = place, heading, cell
                return
            table.columns["_sockets"], table.header["_sockets"] = table.columns[name], table.header[name]
            table.headings["_sockets"] = held
        elif name == "price_usd" and _is_discounted(table, table.columns[name], place):
            _rename(table, name, "_list_price")
        elif name == "price_usd" and "_total" not in table.columns and _is_product(table, table.columns[name], place):
            name = "_total"
        else:
            table.add(
                "error", name, f"means the same as {table.header[name].text!r}; rename one of the two columns", text
            )
            return
    elif name in table.columns:
        return
    table.columns[name], table.headings[name], table.header[name] = place, heading, cell


def _figure(table: Table, row: list[Cell], place: int | None) -> Decimal | None:
    return figure(row[place]) if place is not None and place < len(row) else None


def _settle_by_products(table: Table) -> None:
    """Take as the price of one, and as the total, the only two columns of which quantity × one is always the other."""
    if "_quantity" not in table.columns:
        return
    taken = {place for name, place in table.columns.items() if name not in _PRICES | {"_measure"}}
    heads = enumerate(table.titles)
    places = [n for n, head in heads if n not in taken and (kind_of(head.text) is None or heading_of(head.text).column)]
    pairs = list[tuple[int, int]]()
    for one, whole in itertools.permutations(places, 2):
        rows = [[_figure(table, row, n) for n in (table.columns["_quantity"], one, whole)] for row in table.rows]
        full = [(n, each, of_all) for n, each, of_all in rows if n and each is not None and of_all is not None]
        said = [heading_of(table.titles[n].text) for n in (one, whole)]
        is_money = any(one.column in _PRICES or (one.unit is not None and one.unit.kind == "money") for one in said)
        agrees = all(abs(n * each - of_all) <= n / 100 for n, each, of_all in full)
        if is_money and agrees and any(n > 1 and each for n, each, _ in full):
            pairs.append((one, whole))
    if len(pairs) != 1 or not {table.columns.get(one, pairs[0][0]) for one in ("price_usd", "_price")} <= set(pairs[0]):
        return
    for name in [name for name, place in table.columns.items() if place in pairs[0]]:
        del table.columns[name]
    table.settled |= {table.titles[n].address for n in pairs[0]}
    for name, place in zip(("price_usd", "_total"), pairs[0], strict=True):
        title = table.titles[place]
        table.columns[name], table.headings[name], table.header[name] = place, heading_of(title.text), title


def _settle_by_sums(table: Table) -> None:
    """Take as the price of one a total that in each row is the sum of further amounts: what parts of a node cost."""
    total = table.columns.get("_total")
    if total is None or "_quantity" in table.columns or {"price_usd", "_price"} & table.columns.keys():
        return
    parts = [n for n in range(len(table.titles)) if n not in table.columns.values() and n != total]
    parts = [n for n in parts if (unit := heading_of(table.titles[n].text).unit) is not None and unit.kind == "money"]
    if any(re.search(rf"\b{TAX}\b", plain_words(table.titles[n].text)) for n in (*parts, total)):
        return
    rows = [(_figure(table, row, total), [_figure(table, row, n) or 0 for n in parts]) for row in table.rows]
    rows = [(whole, of_it) for whole, of_it in rows if whole is not None]
    if len(parts) > 1 and rows and all(whole == sum(of_it) for whole, of_it in rows):
        table.settled |= {table.titles[n].address for n in (*parts, total)}
        _rename(table, "_total")


def shares_of(cell: Cell) -> list[Decimal]:
    """Return what a discount may take of 1: of a number below 1 two readings, none of what is no number."""
    if not cell.is_number:
        return [one / 100 for one in percentages(cell.text)]
    value = Decimal(str(cell.value))
    return [value] if cell.unit == "%" else [value, value / 100] if abs(value) < 1 else [value / 100]


def _is_discounted(table: Table, full: int, net: int) -> bool:
    """Tell whether a column is in each row another one less the discount between them."""
    share = next((n for n in range(full + 1, net) if heading_of(table.titles[n].text).column == "_discount"), None)
    pairs = [(row, _figure(table, row, full), _figure(table, row, net)) for row in table.rows]
    pairs = [(row, one, two) for row, one, two in pairs if one is not None or two is not None]
    return (
        share is not None
        and bool(pairs)
        and all(
            one is not None
            and two is not None
            and any(abs(one * (1 - part) - two) <= Decimal("0.01") for part in shares_of(row[share]) or [Decimal(0)])
            for row, one, two in pairs
        )
    )


def _is_product(table: Table, one: int, whole: int) -> bool:
    """Tell whether a column is in each row the quantity times another one."""
    pairs = [
        (quantity_of(table.columns, row), _figure(table, row, one), _figure(table, row, whole)) for row in table.rows
    ]
    full = [(n, each, of_all) for n, each, of_all in pairs if each is not None and of_all is not None]
    return any(n > 1 for n, _, _ in full) and all(abs(n * each - of_all) <= n / 100 for n, each, of_all in full)


def _settle_by_discounts(table: Table) -> None:
    """Take as a total, or as the price of one, a column that in each row is the list price less the discount.

    Where it is so without the quantity, the list price may itself be that of all: only a stated total tells.
    """
    if (
        not {"_list_price", "_discount", "_total"} <= table.columns.keys()
        or {"price_usd", "_price"} & table.columns.keys()
    ):
        return
    fits = {True: 0, False: 0}
    n_rows = n_several = 0
    for row in table.rows:
        full, whole = (_figure(table, row, table.columns[name]) for name in ("_list_price", "_total"))
        if not full or whole is None:
            continue
        n, shares = quantity_of(table.columns, row), shares_of(table.cell(row, "_discount") or Cell(""))
        n_rows, n_several = n_rows + 1, n_several + (n > 1)
        for is_whole in fits:
            times = n if is_whole else Decimal(1)
            fits[is_whole] += any(abs(full * (1 - one) * times - whole) <= n / 100 for one in shares or [Decimal(0)])
    if n_rows and n_several and fits[True] == n_rows > fits[False]:
        table.settled.add(table.header["_total"].address)
    elif n_rows and fits[False] == n_rows and (shown := _by_total(table, "_total") if n_several else "one") != "all":
        if shown != "one":
            said = "is the list price less the discount, of one node or both of the whole quantity; head it unit price"
            table.add("error", "_total", f"{said}, or leave the list price and the discount out")
        table.settled.add(table.header["_total"].address)
        _rename(table, "_total")


def _by_total(table: Table, name: str) -> str:
    """Return whose amounts a stated total beneath a column shows that it has, "one" or "all"; empty = it shows none."""
    one = of_all = Decimal(0)
    for row in table.rows:
        amount = _figure(table, row, table.columns[name])
        if amount is not None and is_total(row_label(row)):
            return "" if one == of_all else "one" if amount == one else "all" if amount == of_all else ""
        of_all += amount or 0
        one += (amount or 0) * (_figure(table, row, table.columns.get("_quantity")) or 1)
    return ""


def _choose_price(table: Table) -> None:
    """Leave one column of prices, that of one node, or say what is open."""
    columns = table.columns
    several = any(quantity_of(table.columns, row) > 1 for row in table.rows)
    before = {"price_usd", "_discount", "_price"} <= columns.keys() and columns["price_usd"] < columns["_price"]
    if before and "_list_price" not in columns:  # that each price is the list price less the discount is checked
        _rename(table, "price_usd", "_list_price")
    if "price_usd" not in columns and "_price" in columns:
        shown = _by_total(table, "_price") if several and "_total" not in columns and not before else "one"
        if shown == "all":
            _rename(table, "_price", "_total")
        elif not shown:
            said = "may be the price of one node or of the whole quantity; head it unit price or total price"
            table.add("error", "_price", said)
        if shown != "all":
            _rename(table, "_price")
    if "price_usd" not in columns and "_list_price" in columns and "_total" not in columns:
        table.add("guess", "_list_price", "is taken as the price")
        _rename(table, "_list_price")
    if "price_usd" not in columns and "_total" in columns:
        shown = _by_total(table, "_total") if "_quantity" in columns else ""
        words = {word for word in plain_words(table.header["_total"].text).split() if unit_of(word) is None}
        is_open = several and not shown and words - {"net", "netto", "ht"} <= themed("either")
        is_open = is_open and table.header["_total"].address not in table.settled
        if "_quantity" in columns and shown != "one" and not is_open:
            table.add("guess", "_total", "is divided by the quantity: the price of one node")
        elif shown != "one":
            answer = "total price" if is_open else "add a column quantity"
            said = f"may be the price of one node or of several; head it unit price, or {answer}"
            table.add("error", "_total", said)
        _rename(table, "_total")
        if shown != "one":
            table.columns["_divide"] = columns["price_usd"]
    if "price_usd" in columns:
        heading = table.headings["price_usd"]
        if heading.not_one_node:
            table.add("error", "price_usd", f"is the price of {heading.not_one_node}; the price of one node is needed")
        elif heading.doubt:
            table.add("error", "price_usd", heading.doubt)
        pack, price = table.header.get("pack_size"), plain_words(table.header["price_usd"].text)
        is_said = table.is_ours or heading.not_one_node or re.search(rf"\b{NODE}\b", price)
        if pack is not None and not is_said and re.search(rf"\b{PER}\b|chas|/", pack.text.casefold()):
            said = f"may be the price of a node or, beside {pack.text!r} ({pack.address}), of a whole chassis"
            table.add("error", "price_usd", f"{said}; head it price per node")


def _rename(table: Table, name: str, to: str = "price_usd") -> None:
    table.columns[to] = table.columns.pop(name)
    table.headings[to] = table.headings.pop(name)
    table.header[to] = table.header.pop(name)
