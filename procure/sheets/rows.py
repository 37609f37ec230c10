"""The rows of one table: servers, other lines of the order, and what is neither."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal

from procure.files.gpu_pools import pools_text
from procure.schemas import QUOTE
from procure.sheets import lines as other
from procure.sheets.cells import (
    NO_GPU,
    NOTHING,
    SEVERAL_MODELS,
    Reader,
    Unreadable,
    chips_in,
    chips_of,
    cores_of,
    cores_said,
    cores_stated,
    gpu_models,
    gpu_pools,
    gpus_in,
    is_likely,
    without_models,
)
from procure.sheets.described import Described, described, parts_of, written_plainly
from procure.sheets.findings import Finding, Severity
from procure.sheets.grid import Cell, row_label
from procure.sheets.guesses import guessed
from procure.sheets.headings import plain_words
from procure.sheets.lines import Line
from procure.sheets.parts import quantity_of, with_number
from procure.sheets.prices import Pricing
from procure.sheets.specified import SPECIFIED, Specification, Specifications, quantity_beside
from procure.sheets.tables import Table, shares_of
from procure.sheets.totals import agreeing, disagreeing, repeated, whole_of
from procure.sheets.units import Decimals, Unit, amount_of, figure, unit_of
from procure.sheets.words import MACHINE, NODE, PER, pattern, themed, vocabulary

EXAMPLE = "EXAMPLE (delete this row)"
"""Name of the row that a template shows."""
_GUESSED = {"category", "gpus"}
"""Required columns that are guessed where a sheet has none."""
_TOTAL = re.compile(r"\b(total|gesamt\w*|node|knoten|noeud|nodo)\b")
"""Words in a heading of cores that say that they are those of a whole node."""

SEVERAL = pattern("several")
"""Words in a server's name after which its row may be several nodes."""
_BOARD = re.compile(r"\b(HGX|DGX|baseboard|\d+[ -]?GPUs?|paare?|pairs?)\b", re.IGNORECASE)
_TWO_SIZES = re.compile(r"\d\s*/\s*\d+\s*GB", re.IGNORECASE)
_OFFERS = ("server", "line", "unread")
_ONE = themed("one_node") | {"1", "1 st", "1 stk", "1 stuck", "1 pc", "1 ea", ""}
"""Units of measure that are one node."""
_LUMP = re.compile(r"\bpsch\b|式", re.IGNORECASE)
"""Units of a quantity that is a lump sum, or a whole set."""
_MEAN = pattern("means")
"""Names of rows that summarise others."""
_MAKERS = re.compile(r"^(?:(?:NVIDIA|AMD|Intel)\s+)+(?=\S)", re.IGNORECASE)
_AMOUNTS = ("price_usd", "_total", "_list_price")
_GB = Unit("memory", Decimal(1))
_WHOLE = {"cpus": (512, 16), "mem_gb": (6144, 64)}
"""Cores and GB of one node above which a total beside a quantity is that of all; and those that a node has at least."""
_OF_ONE = {"cpus": "cores_per_node", "mem_gb": "mem_gb"}
"""What says on the command line that a heading's amounts are those of one node."""
_MODEL_NUMBER = re.compile(r"\b(?=\w*[A-Za-z])(?=\w*\d{3})\w+")
"""A model such as R6625."""
_IS_MACHINE = re.compile(rf"\b(?:{MACHINE})\b|{NODE}\b|\b(?:{vocabulary()['in_patterns']['MAKERS']})\b")
_PER_NODE = re.compile(rf"\b{PER}\b.*\b{NODE}\b")


@dataclass
class SheetTable:
    """What was read: a dict per server type with text by column, where each cell stands, and the rest.

    Attributes
    ----------
    rows
        Text by column, as the quote table writes it; of a cell that was not read as it is given.
    where, given
        By row and column: sheet and cell, and the cell's own text.
    reported
        (row, column) of cells that an error of ``findings`` is about.
    n_lines_unread
        Further lines of the order that an error is about.
    on_all
        Those of ``lines`` that are a percentage off the whole offer, other lines included.
    not_utf8
        Of text in a code page: the byte that shows it, and the page; else empty.
    """

    rows: list[dict[str, str]] = field(default_factory=list)
    where: list[dict[str, tuple[str, str]]] = field(default_factory=list)
    given: list[dict[str, str]] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    reported: set[tuple[int, str]] = field(default_factory=set)
    missing: list[Finding] = field(default_factory=list)
    n_lines_unread: int = 0
    on_all: list[Line] = field(default_factory=list)
    not_utf8: str = ""


class TableReader:
    """Reads the rows of one table into a `SheetTable`."""

    def __init__(
        self,
        table: Table,
        pricing: Pricing,
        decimal: Decimals | None,
        found: SheetTable,
        specified: Specifications | None = None,
    ) -> None:
        """Take the table, its prices, the mark of decimals, where findings go, and what other sheets specify."""
        self.table, self.pricing, self.found, self.specified = table, pricing, found, specified or Specifications()
        strict, told = table.is_ours and not table.sheet, pricing.convention.decimal is not None
        self.readers = {
            name: Reader(name, table.headings[name].unit, decimal, pricing.usd(name), strict, told)
            for name in table.columns
            if name in QUOTE.by_name
        }
        self.quantity = Reader("min_count", None, decimal, pricing.usd("price_usd"))
        self.n_first, self.n_lines = len(found.rows), len(found.lines)
        self.held, self.sums = agreeing(table)
        self.repeated = repeated(table, self.sums)
        self.roles: list[tuple[str, list[Cell], str]] = []
        self.beneath = set[int]()
        """The `id` of rows of parts that are held against the server above them."""
        self.unclear = set[int]()
        """The `id` of rows that describe a server, not plainly."""
        self.described = self._described() if not table.is_ours else {}

    def _described(self) -> dict[int, tuple[Cell, Described]]:
        """Return, by the `id` of its row, the cell that says processors and memory where columns do not."""
        found, taken = dict[int, tuple[Cell, Described]](), set(self.table.columns.values())
        reader = self.readers.get("price_usd") or self.quantity
        for row in self.table.rows:
            columns = (("cpus", "_cores_per_socket", "processor"), ("mem_gb", "_module_gb", "_core_gb"))
            if all(any(not (self.table.cell(row, one) or Cell("")).is_empty for one in of_it) for of_it in columns):
                continue
            texts = [cell for n, cell in enumerate(row) if n == self.table.columns.get("name") or n not in taken]
            for cell in texts:
                try:
                    said = described(cell.value, reader) if isinstance(cell.value, str) else None
                    if said is None or other.kind_of(said.name) not in (None, "rack"):
                        continue
                    if id(row) in found:
                        raise Unreadable(f"and {found[id(row)][0].address} both describe a server; leave one")
                    found[id(row)] = cell, said
                    self.table.configured[cell.address, cell.text] = said.name
                except Unreadable as error:
                    self._say("error", cell, "cpus", str(error))
                    self.unclear.add(id(row))
        return found

    def _called(self, said: Described, name: Cell) -> str:
        """Return a described server's name: what stands before its parts, all where that is no name of one alone."""
        alike = [one.name for _, one in self.described.values()].count(said.name)
        return said.name if said.name and alike == 1 else self.readers["name"].read(name)

    def _take_described(self, row: list[Cell], texts: dict[str, str], places: dict, number: int) -> None:
        """Take from a description of a server what no column says, and hold the columns against it."""
        cell, said = self.described[id(row)]
        name = self.table.cell(row, "name")
        if name is cell:
            texts["name"] = self._called(said, name)
        elif name is not None and (odd := _contradicted(name.text, said)):
            self._refuse(number, name, odd, f"is not what {cell.text!r} says; write the same in both")
        for column in ("processor", "cpus", "mem_gb", "gpus", "gpu_type"):
            value, given = getattr(said, column), texts.get(column, "")
            if not given:
                texts[column] = value
                places[column] = (self.table.sheet, cell.address)
            elif column not in ("processor", "gpu_type") and Decimal(value) != (figure(Cell("", given)) or 0):
                self._refuse(
                    number, self.table.cell(row, column) or cell, column, f"is not the {value} of {cell.text!r}"
                )
        gpus = f", {said.gpus} {said.gpu_type}".rstrip() if said.gpus != "0" else ""
        what = f"read as {said.cpus} cores, {said.mem_gb} GB{gpus}, called {texts.get('name')!r}"
        self._say("guess", cell, "cpus", what)

    def read(self, earlier: Decimal = Decimal(0)) -> Decimal:
        """Read every row as a server, as another line, or as none; return their sum, with that of tables above."""
        optional = self._options() if not self.table.is_ours else set()
        bought = agreeing(self.table, optional)[0] & optional if optional else set()
        for row in self.table.rows:
            label = row_label(row)
            if id(row) in optional:
                self.roles.append(("line", row, f"option {label}"))
                if id(row) in bought:
                    first = next(cell for cell in row if not cell.is_empty)
                    said = "stands beneath a heading of options, and a total holds it: is it bought? move one of them"
                    self._say("error", first, "", said)
                continue
            if not self._is_offer(row, label):
                continue
            is_server, n_unread = self._is_server(row, label), self.found.n_lines_unread
            if id(row) in self.unclear and other.kind_of(label):
                self.found.n_lines_unread += 1  # a server whose text is asked about
            elif not is_server:
                self._line(row, label)
            elif not self._is_strange(row, label):
                self._server(row)
            role = "unread" if self.found.n_lines_unread > n_unread else "server" if is_server else "line"
            self.roles.append((role, row, label))
            if role == "server" and not self.table.is_ours and len(self.found.rows) > 0:
                self._check_beneath(row, self.found.rows[-1])
        self._missing()
        self._ask_vendors()
        for cell, text in disagreeing(self.table, self.roles, earlier) if not self.table.is_ours else []:
            if text:
                self._say("error", cell, "", text)
                continue
            row = next(row for _, row, _ in self.roles if any(one is cell for one in row))
            places = {one.address for one in row}
            self.found.on_all += [one for one in self.found.lines[self.n_lines :] if one.cell in places]
            self._say("guess", cell, "", "is this percentage of the whole offer, to the cent: it is taken off all")
        return earlier + whole_of(self.table, self.roles)

    def specify(self, to: Specifications) -> None:
        """Read the rows of a table without prices as specifications of servers that have theirs elsewhere."""
        for row in self.table.rows:
            first, name = next(cell for cell in row if not cell.is_empty), self.table.cell(row, "name")
            if name is None or name.is_empty or not self._has_figures(row):
                self._say("warning", first, "", "specifies no server, and is left out")
                continue
            number = len(self.found.rows)
            self._server(row)
            texts = self.found.rows[-1]
            kept = [one for one in SPECIFIED if texts.get(one) and (number, one) not in self.found.reported]
            where = {one: self.found.where[-1].get(one, (self.table.sheet, name.address)) for one in kept}
            quantity = quantity_beside(self.table, row)
            to.rows.append(Specification(self.table.sheet, name, {one: texts[one] for one in kept}, where, quantity))

    def _take_specified(self, row: list[Cell], texts: dict[str, str], places: dict, given: dict, number: int) -> None:
        """Take from a sheet of specifications what a server's row does not say, and hold the rest against it."""
        name = self.table.cell(row, "name") or Cell("")
        said = self.specified.of(name.text)
        if said is None:
            return
        said.n_taken += 1
        taken = list[str]()
        for column, value in said.texts.items():
            cell = self.table.cell(row, column) or name
            chips = self._processor(row) if column == "processor" else None
            stated = texts.get(column) or (chips.text if chips is not None else "")
            if stated and (number, column) not in self.found.reported and said.contradicts(column, stated):
                self._refuse(number, cell, column, f"is {stated}, and {value} by {said.place}; correct one of them")
            elif not texts.get(column):
                texts[column], places[column], given[column] = value, said.where[column], value
                taken.append(f"{column} {value}")
        n = quantity_beside(self.table, row)
        if n and said.quantity and n != said.quantity:
            self._refuse(number, name, "price_usd", f"is bought {n} times, and {said.quantity} times by {said.place}")
        if taken:
            self._say("guess", name, "", f"has {', '.join(taken)} by {said.place}")

    def _options(self) -> set[int]:
        """Return the `id` of the rows that stand right beneath a row ``Options``, and say that they do not count.

        What stands beneath them behind a gap or another row of text may be one still, and a server there may be
        offered: these are asked about.
        """
        found, head, is_open, last = set[int](), list[Cell](), False, 0
        for row in self.table.rows:
            filled = [cell for cell in row if not cell.is_empty]
            line, text = int("0" + re.sub(r"\D", "", filled[0].address)), plain_words(row_label(row))
            is_gap, last = line - last > 1, line
            has_figure = any(re.search(r"\d{2}", (self.table.cell(row, one) or Cell("")).text) for one in _AMOUNTS)
            if len(filled) == 1 and not has_figure:
                is_head = pattern("heads_options").fullmatch(text) is not None
                head, is_open = (filled, is_head) if is_head or not head else (head, False)
                head = head if is_head or head[0].address in self.table.optional else []
            elif head and has_figure and not other.is_total(row_label(row)):
                first = head[0].address not in self.table.optional
                said = f"stands beneath {head[0].text!r} ({head[0].address})"
                if is_open and (first or not is_gap) and not self._has_figures(row):
                    self._say("warning", filled[0], "", f"{said}, and is not counted")
                    self.table.optional |= {head[0].address, *(cell.address for cell in filled)}
                    found.add(id(row))
                else:
                    self._say("error", filled[0], "", f"{said}: is it bought? delete it, or move it above")
                    is_open = False
        return found

    def _say(self, severity: Severity, cell: Cell, column: str, text: str) -> None:
        self.found.findings.append(Finding(severity, self.table.sheet, cell.address, column, cell.shown, text))

    def _is_offer(self, row: list[Cell], label: str) -> bool:
        name, price = self.table.cell(row, "name"), self.table.cell(row, "price_usd")
        filled = [self.table.cell(row, column) for column in self.table.columns]
        filled = [cell for cell in filled if cell is not None and not cell.is_empty]
        first = next(cell for cell in row if not cell.is_empty)
        if name is not None and name.text == EXAMPLE:
            self._say("warning", name, "", "is left out")
            return False
        amounts = [(self.table.cell(row, one) or Cell("")).text for one in ("price_usd", "_list_price", "_total")]
        texts = [one.text for one in row if isinstance(one.value, str) and one.value.strip()]
        texts = [text for text in texts if text not in amounts or not re.search(r"\d{3}(?!\d*\s*%)", text)]
        is_mean = name is not None and (_MEAN.fullmatch(plain_words(name.text)) or name.text == "Ø")
        if name is not None and is_mean and not self.table.is_ours:
            self._say("warning", name, "", "is drawn from other rows, and is left out")
            return False
        if id(row) in self.repeated:
            self._say("warning", first, "", "repeats a sum above it, and is left out")
            return False
        is_total = any(other.is_total(text) or self._is_of_vendor(row, text) for text in texts[:2])
        if is_total or id(row) in self.sums:
            self._say(*self._left_out(first, label, is_total))
            self.roles.append(("total", row, label))
            return False
        if self.table.is_ours:
            return True
        is_figured = self._has_figures(row) or id(row) in self.unclear or bool(chips_in(label))
        if any(other.may_be_total(text) for text in texts[:2]) and len(filled) > 1 and not is_figured:
            said = "may be a total, or a line of its own: delete the row, or name it without that word"
            self._say("error", first, "", said)
            self.found.n_lines_unread += 1
            return False
        share = self.table.cell(row, "_discount")
        has_share = share is not None and not share.is_empty
        priced = (price is not None and not price.is_empty) or self._has_total_alone(row, label)
        if not priced and not has_share and len(filled) <= 2 and other.is_for_paying_early(label):
            self._say("warning", first, "", "is on terms of payment, and not counted")
            return False
        if other.kind_of(label) == "discount" and (other.percentages(label) or has_share):
            beneath = [one for one in self.table.rows[self._place(row) + 1 :] if id(one) in self.sums]
            is_alone = sum(not cell.is_empty for cell in row) == 1
            if is_alone and not beneath and any(role == "total" for role, _, _ in self.roles):
                said = "stands beneath a total without it: write its amount in a row above the total, or lower prices"
                self._say("error", first, "", f"{said}; if the prices have it, delete it")
                self.found.n_lines_unread += 1
                return False
            return True
        # A line of text under a table fills one or two cells, however they are headed.
        shares = other.percentages(label)  # those of a whole are weights, or instalments
        is_share = bool(other.kind_of(label) and shares) and (len(shares) < 2 or sum(shares) != 100)
        if not priced and len(filled) <= 2 and is_share and not other.is_optional(label):
            self._say("error", first, "", "is a part of other prices; write the amount")
            self.found.n_lines_unread += 1
            return False
        if (not priced and len(filled) <= 2) or (priced and len(filled) == 1):
            severity: Severity = "error" if priced else "warning"
            text = "is a price without a name" if priced else "is left out: it has no price, CPUs or memory"
            is_apart = chips_in(label) or gpus_in(label)[0] or pattern("modules_alone", re.I).match(label)
            if not priced and any(self._is_bare_figure(row, one) for one in ("cpus", "mem_gb", "gpus", "_quantity")):
                severity, text = (
                    "error",
                    "has a figure and no price: is it a part of the row above? add it there, or delete it",
                )
            elif not priced and id(row) not in self.beneath and is_apart:
                severity, text = (
                    "error",
                    "may be a part of a server that it does not stand right beneath; move it, or delete it",
                )
            if not priced and other.percentages(label):
                self.roles.append(("share", row, label))
            self._say(severity, first, "", text)
            return False
        return True

    def _is_bare_figure(self, row: list[Cell], column: str) -> bool:
        """Tell whether a row without a price adds a figure in a column: it has no name, or that of such a figure.

        It is none where it counts parts beneath, or is the sum of those above it.
        """
        cell, label = self.table.cell(row, column) or Cell(""), plain_words(row_label(row))
        is_figure = re.fullmatch(r"\d[\d\s.,x×*]*(?:[GT](?:i?B|o))?", cell.text) is not None
        of_it = set(label.split()) & themed("figures") if column != "_quantity" else set()
        is_other = bool(label) and cell.is_number and not of_it
        above = [figure(self.table.cell(one, column) or Cell("")) or 0 for one in self.table.rows[: self._place(row)]]
        is_sum = len(above) > 1 and figure(cell) == sum(above)
        return is_figure and not (is_other or is_sum or other.may_be_total(label))

    def _left_out(self, cell: Cell, label: str, is_total: bool) -> tuple[Severity, Cell, str, str]:
        """Return what is said of a total; one that is named as what can be bought may be bought besides."""
        if is_total or not label or other.may_be_total(label):
            return "warning", cell, "", "is a total, or tax, and is left out"
        if other.kind_of(label) or gpu_models(label) or re.search(rf"\b{MACHINE}\b", plain_words(label)):
            return "error", cell, "", "is the sum of the rows above it, or bought besides; name it a total, or move it"
        return "guess", cell, "", "is the sum of the rows above it, to the cent, and is left out"

    def _has_total_alone(self, row: list[Cell], label: str) -> bool:
        """Tell whether a row whose words say what it is has an amount in the column of totals, and no price."""
        price, total = (self.table.cell(row, one) or Cell("") for one in ("price_usd", "_total"))
        is_line = other.kind_of(label) is not None and not other.percentages(label)
        return is_line and price.is_empty and bool(figure(total))

    def _ask_vendors(self) -> None:
        """Ask whose rows are that name no vendor where others name several: a package would pay for them all."""
        offers = [(row, self.table.cell(row, "vendor") or Cell("")) for role, row, _ in self.roles if role in _OFFERS]
        if len({cell.text for _, cell in offers if not cell.is_empty}) > 1 and not self.table.is_ours:
            for row, cell in offers:
                if cell.is_empty:
                    first = next(one for one in row if not one.is_empty)
                    self._say(
                        "error", first, "vendor", "names no vendor, and other rows name several; write whose it is"
                    )

    def _is_of_vendor(self, row: list[Cell], text: str) -> bool:
        """Tell whether a text says that a row is the sum of the vendor's rows right above it."""
        cell = self.table.cell(row, "vendor")
        above = itertools.takewhile(lambda one: one[0] != "total", reversed(self.roles))
        vendors = {(self.table.cell(one, "vendor") or Cell("")).text for _, one, _ in above}
        vendor = vendors.pop() if len(vendors) == 1 else ""
        is_own = cell is None or cell.text in ("", text, vendor)
        return bool(vendor) and is_own and vendor in text and other.is_total(text.replace(vendor, " "))

    def _place(self, row: list[Cell]) -> int:
        return next(n for n, one in enumerate(self.table.rows) if one is row)

    def _is_server(self, row: list[Cell], label: str) -> bool:
        kind = self.table.cell(row, "_kind")
        if kind is not None and not kind.is_empty:
            return plain_words(kind.text) == "server"
        if not self.table.is_ours and self._is_storage(row):
            return False
        if self._has_figures(row) or self.table.is_ours:
            return True
        price, is_part = self.table.cell(row, "price_usd"), chips_in(label) or gpu_models(label)
        if price is not None and figure(price) == 0 and not is_part:
            return False  # it is no server, and costs nothing
        if not (other.kind_of(label) or other.is_optional(label) or self._is_bought_beside(row, label)):
            return True
        return not other.is_optional(label) and (id(row) in self.unclear or chips_in(label) != "")

    def _is_bought_beside(self, row: list[Cell], label: str) -> bool:
        """Tell whether a row of no known kind is a line: a total holds it, and it names no machine, model or part."""
        if id(row) not in self.held or not any(self._has_figures(one) for one in self.table.rows):
            return False
        words = plain_words(label)
        is_part = chips_in(label) or gpu_models(label) or themed("figures", "weighing") & set(words.split())
        return not (is_part or _MODEL_NUMBER.search(label) or _IS_MACHINE.search(words))

    def _is_storage(self, row: list[Cell]) -> bool:
        """Tell whether a row with cores and memory is a server that stores files, and runs no jobs."""
        name, gpus = self.table.cell(row, "name") or Cell(""), self.table.cell(row, "gpus") or Cell("")
        words = plain_words(name.text)
        is_named = pattern("storage_servers").search(words) is not None
        runs = pattern("runs_jobs").search(words) is not None or re.search(r"[1-9]", gpus.text) is not None
        is_open = pattern("storage_or_memory").search(words) or (" " not in words and other.kind_of(words) == "storage")
        if self._has_figures(row) and ((is_named and runs) or (is_open and not is_named)):
            self._say("error", name, "", "may store files, or run jobs; call it storage server, or compute node")
        return is_named

    def _is_strange(self, row: list[Cell], label: str) -> bool:
        """Say that a row is neither a server nor a line that is known, where it is."""
        columns = set(self.table.columns)
        has_columns = {"cpus", "_cores_per_socket", "processor"} & columns and "mem_gb" in columns
        kind, texts = self.table.cell(row, "_kind"), self.table.cell(row, "processor")
        if self.table.is_ours or self._has_figures(row) or not has_columns or not (texts is None or texts.is_empty):
            return False
        if kind is not None and not kind.is_empty:
            return False
        first = next(cell for cell in row if not cell.is_empty)
        said = "has a price, but neither CPUs nor memory, and no word says what it is; name it (storage, delivery …), "
        self._say("error", first, "", f"{said}or say so in a column kind (other)")
        self.found.n_lines_unread += 1
        return True

    def _has_figures(self, row: list[Cell]) -> bool:
        """Tell whether a row says what CPUs or memory a node has, or another sheet does."""
        name = self.table.cell(row, "name")
        if id(row) in self.described or (name is not None and self.specified.of(name.text) is not None):
            return True
        figures = [self.table.cell(row, name) for name in ("cpus", "_cores_per_socket", "mem_gb", "_sockets")]
        return any(cell is not None and not cell.is_empty and cell.text not in ("-", "–") for cell in figures)

    def _server(self, row: list[Cell]) -> None:
        texts: dict[str, str] = {}
        number, places, given = len(self.found.rows), {}, {}
        self._take_currency(row)
        several = self.table.cell(row, "_quantity")
        n_nodes = int(several.text) if several is not None and re.fullmatch(r"\d{1,6}", several.text) else 1
        for column, reader in self.readers.items():
            cell = self.table.cell(row, column) or Cell("")
            places[column], given[column] = (self.table.sheet, cell.address), cell.shown
            reader.said, reader.others = [], {}
            if column == "name" and self.described.get(id(row), (None,))[0] is cell:
                continue
            try:
                if column == "price_usd" and cell.rows > 1:
                    raise Unreadable(
                        f"is merged over {cell.rows} rows: the price of each, or of all? give each row its own"
                    )
                text = self._divided(row, cell, reader) if column == "price_usd" else reader.read(cell)
                texts[column] = text or texts.get(column, "")  # an empty column of models takes none from ``4x H100``
                self._check_likely(column, text, cell, n_nodes)
            except Unreadable as error:
                texts[column] = given[column]
                self.found.reported.add((number, column))
                self._say("error", cell, column, str(error))
            for severity, text in reader.said:
                self._say(severity, cell, column, text)
            for name, text in reader.others.items():
                texts[name] = texts.get(name) or text
                places.setdefault(name, places[column])
        if id(row) in self.described:
            self._take_described(row, texts, places, number)
        self._check_gpus(row, texts, number)
        self._check_discount(row, number)
        self._check_name(row, number)
        self._add_cores(row, texts, places, given, number)
        self._add_memory(row, texts, number)
        self._take_specified(row, texts, places, given, number)
        self.found.rows.append(texts)
        self.found.where.append(places)
        self.found.given.append(given)

    def _take_currency(self, row: list[Cell]) -> None:
        """Give the readers the unit of money of the row's column of currencies."""
        cell = self.table.cell(row, "_currency")
        unit = unit_of(cell.text) if cell is not None and not cell.is_empty else None
        if cell is not None and not cell.is_empty and (unit is None or unit.kind != "money"):
            self._say("error", cell, "price_usd", "is no currency that is known; write its code, e.g. EUR")
        header = self.table.header.get("price_usd")
        is_dollars = header is not None and header.text == "price_usd"
        if unit is not None and cell is not None and unit.currency != "USD" and is_dollars:
            self._say("error", cell, "price_usd", "stands beside price_usd, which is US$; head the amounts price")
        for reader in self.readers.values():
            reader.row_unit = unit if unit is not None and unit.kind == "money" else None

    def _check_likely(self, column: str, text: str, cell: Cell, n: int) -> None:
        """Refuse an amount that no server has; not of the quote table, nor where the mark of decimals was stated."""
        heading = self.table.header[column].text
        if self.table.is_ours or heading == column or (self.readers[column].is_told and not cell.is_number):
            return
        if not re.fullmatch(r"\d+(\.\d+)?", text):
            return
        value = Decimal(text)
        if column == "cpus" and plain_words(heading) == "cpus" and value <= 8:
            raise Unreadable("may be the number of processors; head it cores, or sockets beside cores per CPU")
        if n > 1 and column in _WHOLE and self._may_be_of_all(column, value):
            answer = f"--column {_OF_ONE[column]}={self._head(column)}"
            raise Unreadable(f"may be that of all {n} nodes; if of one, {answer}")
        if not is_likely(column, value):
            unit = QUOTE.by_name[column].unit
            raise Unreadable(
                f"is read as {text} {unit}, not likely of a server; state the unit, or head the column {column}"
            )

    def _may_be_of_all(self, column: str, value: Decimal) -> bool:
        """Tell whether an amount beside a quantity may be that of all nodes: more than one has, or a share of each."""
        if not self._says_all(column):
            return False
        if value > _WHOLE[column][0]:
            return True
        known = ("processor", "_sockets", "_cores_per_socket") if column == "cpus" else ("_modules", "_module_gb")
        if any(name in self.table.columns for name in known):
            return False
        for row in self.table.rows:
            cell, n = self.table.cell(row, column), quantity_of(self.table.columns, row)
            if cell is None or (self._processor(row) is not None and self._says_all("cpus")):
                return False  # cores are held against the processor's: totals are those of one node
            amount = figure(cell)
            if amount is not None and n > 1 and (amount % n or amount / n < _WHOLE[column][1]):
                return False
        return True

    def _says_all(self, column: str) -> bool:
        """Tell whether a heading says that its amounts are totals, not those of one node."""
        words = plain_words(self.table.header[column].text) if column in self.table.header else ""
        says_all = re.search(r"\b(total|gesamt|complessiv)\w*", words) or set(words.split()) & themed("of_all")
        return bool(says_all) and _PER_NODE.search(words) is None

    def _head(self, column: str) -> str:
        """Return a column's heading as the file has it, quoted for a command."""
        stated = {name: text for text, name in self.pricing.convention.columns.items()}
        return shlex.quote(stated.get(column.lstrip("_"), self.table.header[column].text))

    def _divided(self, row: list[Cell], cell: Cell, reader: Reader) -> str:
        """Return the price of one node; where quantity and total are given too, they must agree with it."""
        text = reader.read(cell)
        self._check_measure(row)
        n = self._count(row)
        divide = "_divide" in self.table.columns
        if divide and text and not n:
            raise Unreadable("is divided by the quantity, and there is none in this row; write how many")
        if not re.fullmatch(r"[\d.]+", text):
            return text
        if divide:
            return f"{(Decimal(text) / n).quantize(Decimal('0.01'), ROUND_HALF_UP):f}"
        self._check_total(row, Decimal(text), n)
        return text

    def _check_measure(self, row: list[Cell]) -> None:
        """Refuse a price whose unit of measure is not one, or is a lump sum."""
        for name in ("_measure", "_price_unit", "_quantity", "_each"):
            of = self.table.cell(row, name)
            said = "" if of is None or of.is_empty else plain_words(of.text)
            if of is not None and (_LUMP.search(of.shown) if name == "_quantity" else said not in _ONE):
                raise Unreadable(f"has {of.shown!r} beside it ({of.address}); the price of one node is needed")

    def _count(self, row: list[Cell]) -> int:
        """Return the quantity of a row; 0 where none is given."""
        cell = self.table.cell(row, "_quantity")
        if cell is None or cell.is_empty or cell.text in NOTHING:
            return 0
        text = self.quantity.read(cell)
        if not re.fullmatch(r"[1-9]\d*", text) and (n := self._times(row, cell)):
            return n
        if not re.fullmatch(r"[1-9]\d*", text):
            raise Unreadable(f"has the quantity {cell.shown!r} beside it ({cell.address}); write a whole number")
        return int(text)

    def _times(self, row: list[Cell], cell: Cell) -> int:
        """Return a quantity with a word behind it, which is asked about; 0 unless it times the price is the total."""
        match = re.fullmatch(r"\s*([1-9]\d{0,5})\s*[^\W\d]+\.?\s*", cell.text)
        price, total = (figure(self.table.cell(row, one) or Cell("")) for one in ("price_usd", "_total"))
        if match is None or price is None or total is None or abs(price * int(match[1]) - total) > Decimal("0.01"):
            return 0
        return int(match[1])

    def _check_total(self, row: list[Cell], usd: Decimal, n: int) -> None:
        """Refuse a price that times the quantity is not the total beside it."""
        for name in ("_total", "_price"):  # a second price, too, is that of one or of the quantity
            total, reader = self.table.cell(row, name), self.readers["price_usd"]
            if total is None or total.is_empty or total.problem:
                continue
            if name == "_price" and self.table.headings[name].gross:
                continue
            unit, usd_of = self.table.headings[name].unit or reader.unit, self.pricing.usd(name)
            said = amount_of(total.value) if isinstance(total.value, str) else None
            if (
                n
                and said is not None
                and any(abs(usd_of(v, said.unit or unit) - usd * n) < 1 for v in said.values.values())
            ):
                continue  # of 936,000 one reading is that of the product
            whole = Reader("price_usd", unit, reader.decimal, usd_of, is_told=reader.is_told).read(total)
            if not re.fullmatch(r"-?[\d.]+", whole):
                continue
            is_told = n and (name == "_total" or Decimal(whole) != usd)
            times = n if is_told else max(1, round(Decimal(whole) / usd)) if usd else 1
            if abs(Decimal(whole) - usd * times) > Decimal("0.01") * times + 1:
                raise Unreadable(f"times {times} is not the total {total.shown!r} beside it")

    def _refuse(self, number: int, cell: Cell, column: str, text: str) -> None:
        """Say that a cell of a server is not read."""
        self.found.reported.add((number, column))
        self._say("error", cell, column, text)

    def _check_gpus(self, row: list[Cell], texts: dict[str, str], number: int) -> None:
        """Refuse GPUs whose two columns contradict each other, or a model without a number."""
        model, count, name = (self.table.cell(row, one) for one in ("gpu_type", "gpus", "name"))
        n, named = gpus_in(name.text) if name is not None and not self.table.is_ours else ("", "")
        if name is not None and n and not texts.get("gpus"):
            texts["gpus"], texts["gpu_type"] = n, texts.get("gpu_type") or named
            self._say("guess", name, "gpus", f"read as {n} {named}")
        elif name is not None and n and texts["gpus"] != n:
            self._refuse(number, count or name, "gpus", f"is not the {n} GPUs of {name.text!r} beside it")
        if self.table.is_ours or model is None or model.is_empty:
            return
        texts["gpu_type"] = _MAKERS.sub("", texts.get("gpu_type", ""))
        if {model.text.casefold(), plain_words(model.text)} & NOTHING:
            texts["gpu_type"] = ""
            return
        models = gpu_models(model.text)
        beside = gpu_models(count.text) if count is not None else []
        place = count if count is not None and not count.is_empty else model
        if pools := gpu_pools(model.text):
            total = str(sum(n for _, n in pools))
            if texts.get("gpus", "") not in ("", total):
                self._refuse(number, place, "gpus", f"is not the {total} GPUs and slices of {model.text!r} beside it")
            texts["gpus"], texts["gpu_type"] = total, pools_text(pools)
        elif models and (_BOARD.search(model.text) or _TWO_SIZES.search(model.text)):
            self._refuse(
                number, model, "gpus", f"may be another number of GPUs, or another {models[0]}; write its model alone"
            )
        elif len(models) > 1:
            self._refuse(number, model, "gpus", SEVERAL_MODELS)
        elif models and re.match(r"\d{1,2}\s*[x×*]\s*\D", model.text):
            reader = Reader("gpus", None, None, self.pricing.usd("price_usd"))
            try:
                n, given = reader.read(Cell(model.address, model.text)), texts.get("gpus", "")
            except Unreadable as error:
                self._refuse(number, model, "gpus", str(error))
                return
            if given not in ("", n):
                self._refuse(number, place, "gpus", f"is not the {n} GPUs of {model.text!r} beside it")
            texts["gpus"], texts["gpu_type"] = n, reader.others.get("gpu_type", models[0])
        elif models and beside and models != beside:
            self._refuse(number, place, "gpus", f"names {beside[0]}, and the column of models {models[0]}; write one")
        elif texts.get("gpus", "") in ("", "0"):
            self._refuse(number, place, "gpus", f"has the GPU model {model.text!r} beside it; write how many there are")

    def _check_name(self, row: list[Cell], number: int) -> None:
        """Refuse a name that says that the row is several nodes, unless a column says how many a chassis has."""
        cell = self.table.cell(row, "name")
        if self.table.is_ours or cell is None or "pack_size" in self.table.columns:
            return
        if match := SEVERAL.search(plain_words(self.table.configured.get((cell.address, cell.text), cell.text))):
            said = "if cores, memory and price are those of one, name it without this"
            self._refuse(number, cell, "price_usd", f"may be several nodes ({match[0]}); {said}")

    def _check_discount(self, row: list[Cell], number: int) -> None:
        """Refuse a discount in a server's row, unless the list price shows that the price has it."""
        share, price = self.table.cell(row, "_discount"), self.table.cell(row, "price_usd")
        if share is None or price is None or share.is_empty or share.text in NOTHING | {"0"}:
            return
        full, percent = self.table.cell(row, "_list_price"), _percent(share)
        percent = figure(share) if percent is None and "%" in self.table.header["_discount"].text else percent
        before, after = (figure(cell) if cell is not None else None for cell in (full, price))
        if before is not None and after is not None:
            n = self._count(row) or 1 if "_divide" in self.table.columns else 1
            shares = [percent / 100] if percent is not None else shares_of(share)
            if any(abs(before * (1 - one) * n - after) <= Decimal("0.01") * abs(after) for one in shares):
                return
        said = (
            "is a discount: is it in the price, or still to be taken off? give the price after it, and empty this cell"
        )
        self._refuse(number, share, "price_usd", said)

    def _add_cores(self, row: list[Cell], texts: dict[str, str], places: dict, given: dict, number: int) -> None:
        """Where no column has the cores, take them from sockets × cores of each, or from the processor's text."""
        sockets, each = self.table.cell(row, "_sockets"), self.table.cell(row, "_cores_per_socket")
        processor = self._processor(row)
        if texts.get("cpus"):
            self._check_cores(row, texts["cpus"], number)
            if not self.table.is_ours:
                self._check_processor(row, texts["cpus"], number)
            return
        cell = each or processor or Cell("")
        if sockets is not None and each is not None:
            if not (re.fullmatch(r"\d+", sockets.text) and re.fullmatch(r"\d+", each.text)):
                return
            cores = int(sockets.text) * int(each.text)
        elif processor is not None and (read := cores_said(processor.text, _digit(sockets))):
            cores, texts["processor"] = read
            if not cores:
                said = f"states other cores than a CPU of this model has ({chips_of(processor.text)[1]})"
                self._refuse(number, processor, "cpus", f"{said}; write those of one node")
                return
            self._say("guess", processor, "cpus", f"read as {cores} cores")
        else:
            return
        texts["cpus"], places["cpus"], given["cpus"] = str(cores), (self.table.sheet, cell.address), cell.text

    def _processor(self, row: list[Cell]) -> Cell | None:
        """Return what says which processors a node has: the cell of their column, else a part of its name."""
        cell, name = self.table.cell(row, "processor"), self.table.cell(row, "name")
        said = chips_in(name.text) if name is not None and not self.table.is_ours else ""
        return replace(name, value=said) if name is not None and said and (cell is None or cell.is_empty) else cell

    def _check_processor(self, row: list[Cell], cores: str, number: int) -> None:
        """Refuse cores that are not those which the processor's text, or the table of processors, states."""
        processor, cell = self._processor(row), self.table.cell(row, "cpus")
        if processor is None or cell is None or not re.fullmatch(r"\d+", cores):
            return
        (n, known), sockets = chips_of(processor.text), self.table.cell(row, "_sockets")
        n = _digit(sockets) or n
        text, read = f"{processor.text!r} ({processor.address})", cores_of(processor.text)
        if known and (int(cores) != n * known if n else int(cores) % known):
            whole = f"{n} × {known} = {n * known}" if n else f"{known} each"
            said = f"may be of one CPU, or threads: {text} has {whole} cores; write those of one node"
            self._refuse(number, cell, "cpus", said)
        elif not known and read is not None and int(cores) != read[0]:
            self._refuse(number, cell, "cpus", f"is not the {read[0]} cores of {text} beside it")

    def _check_cores(self, row: list[Cell], cores: str, number: int) -> None:
        """Refuse cores that may be those of one of several sockets."""
        sockets, each = self.table.cell(row, "_sockets"), self.table.cell(row, "_cores_per_socket")
        cell = self.table.cell(row, "cpus")
        if sockets is None or cell is None or not re.fullmatch(r"\d+", sockets.text) or int(sockets.text) < 2:
            return
        if each is not None and re.fullmatch(r"\d+", each.text):
            if cores != str(int(each.text) * int(sockets.text)):
                self._refuse(number, cell, "cpus", f"is not {sockets.text} × {each.text}, the cores beside it")
        elif _TOTAL.search(plain_words(self.table.header["cpus"].text)) is None and re.fullmatch(r"\d+\D*", cell.text):
            self._refuse(number, cell, "cpus", self._of_one_or_all(sockets))

    def _of_one_or_all(self, sockets: Cell) -> str:
        """Say why cores are asked about, and the options that answer, by the headings that the file has."""
        cores, chips = self._head("cpus"), self._head("_sockets")
        return (
            f"may be the cores of each of the {sockets.text} CPUs, or of all; head it cores total or cores per CPU, "
            f"or say --column cores_per_node={cores}, or --column cores_per_socket={cores} --column sockets={chips}"
        )

    def _add_memory(self, row: list[Cell], texts: dict[str, str], number: int) -> None:
        """Where no column has the memory, take modules × GB of each, or cores × GB of each; both must agree with it."""
        whole = self.table.cell(row, "mem_gb")
        for count, each in (("_modules", "_module_gb"), ("cpus", "_core_gb")):
            cell, n = self.table.cell(row, each), self.table.cell(row, count) or Cell("", texts.get(count))
            size, times = figure(cell) if cell is not None else None, figure(n)
            if cell is None or size is None or times is None or (self.table.headings[each].unit or _GB) != _GB:
                continue
            gb = f"{(size * times).normalize():f}"
            if not texts.get("mem_gb"):
                texts["mem_gb"] = gb
                self._say("guess", cell, "mem_gb", f"read as {gb} GB: {n.text} × {cell.shown}")
            elif whole is not None and abs(Decimal(gb) - (figure(Cell("", texts["mem_gb"])) or 0)) > Decimal(gb) / 40:
                self._refuse(number, whole, "mem_gb", f"is not {n.text} × {cell.shown}, beside it ({cell.address})")

    def _check_beneath(self, row: list[Cell], texts: dict[str, str]) -> None:
        """Refuse parts in rows right beneath a server, without prices, that its columns contradict.

        A number in their column of quantities may count the parts of one server or of all.
        """
        found: dict[str, tuple[Cell, Decimal]] = {}
        all_nodes = quantity_of(self.table.columns, row)
        may_be_of = {Decimal(1)}
        for beneath in self.table.rows[self._place(row) + 1 :]:
            count = self.table.cell(beneath, "_quantity")
            filled = [cell for cell in beneath if not cell.is_empty and cell is not count]
            if len(filled) != 1 or filled[0].is_number or other.is_optional(filled[0].text):
                break
            text, n_parts = re.sub(r"^[\s+]+", "", filled[0].text), quantity_of(self.table.columns, beneath)
            part = with_number(text, n_parts, count or Cell(""))
            may_be_of |= {all_nodes} if part != text else set()
            self.beneath.add(id(beneath))
            (n, known), modules = chips_of(part), pattern("modules_alone", re.I).match(part)
            said = {"cpus": n * known, "gpus": int(gpus_in(part)[0] or 0)}
            said["mem_gb"] = int(modules[1]) * int(modules[2]) if modules else _gb_of(part)
            for column, value in said.items():
                first, before = found.get(column, (filled[0], Decimal(0)))
                found |= {column: (first, before + value)} if value else {}
        for column, (cell, whole) in found.items():
            stated = figure(Cell("", texts.get(column) or ("0" if column == "gpus" else "")))
            if stated is not None and all(abs(whole - stated * n) > stated * n / 40 for n in may_be_of):
                what = {"cpus": "cores", "gpus": "GPUs", "mem_gb": "GB"}[column]
                self._say("error", cell, column, f"has {whole} {what}, and the row above it {stated}")

    def _line(self, row: list[Cell], label: str) -> None:
        name, price = self.table.cell(row, "name") or Cell(""), self.table.cell(row, "price_usd") or Cell("")
        total, words = self.table.cell(row, "_total"), price.text
        is_stated = total is not None and (figure(total) is not None or plain_words(total.text) in other.INCLUDED)
        if name.is_empty and total is not None and not re.search(r"\d", words) and is_stated:
            name, price = price, total  # a label that stands beside the total, in the column before it
        elif total is not None and self._has_total_alone(row, label):
            price = total
        kind_cell, per = self.table.cell(row, "_kind"), self.table.cell(row, "_per")
        kind = other.kind_of(kind_cell.text if kind_cell is not None and not kind_cell.is_empty else label) or "other"
        if other.is_optional(label) and id(row) in self.held:
            said = "is optional, and in a total: is it bought? name it without that word, or lower the total"
            self._say("error", name, "", said)
            self.found.n_lines_unread += 1
            return
        if other.is_optional(label):
            self._say("warning", name, "", "is optional and not counted")
            return
        if (open_cell := self._unstated(kind_cell, per)) is not None:
            self._say("error", open_cell[0], "", open_cell[1])
            self.found.n_lines_unread += 1
            return
        self._take_currency(row)
        years_cell, vendor = self.table.cell(row, "_years"), self.table.cell(row, "vendor")
        share = self.table.cell(row, "_discount")
        try:
            if kind_cell is None and (asked := other.question(kind, label, id(row) in self.held)):
                raise Unreadable(asked)
            percent = self._discount_of(label, price, share) if kind == "discount" else None
        except Unreadable as error:
            self._say("error", name, "", str(error))
            self.found.n_lines_unread += 1
            return
        usd, n = Decimal(0), 1
        if percent is None:
            read = self._line_price(row, price)
            if read is None:
                return
            usd, n = read
            if usd < 0 and kind != "discount":
                self._say("error", price, "price_usd", "is below 0, and no word says that it is a discount; name it so")
                self.found.n_lines_unread += 1
                return
            usd = -abs(usd) if kind == "discount" else usd
        a_node = any(other.is_per_node(text) for text in (label, price.text))
        a_node = a_node or (per is not None and re.fullmatch(NODE, plain_words(per.text)) is not None)
        years = other.years_of(label)
        if years_cell is not None and re.fullmatch(r"\d{1,2}", years_cell.text):
            years = int(years_cell.text)
        beside = "" if price.is_empty or "%" in price.shown else f"; the amount {price.shown!r} beside it is not read"
        times = " for each node" if a_node else f" × {n}"
        said = f"US$ {usd:,.2f}{times}" if percent is None else f"{percent} % off{beside}"
        self._say("guess", name, "", f"read as a line of the order: {kind}, {said}")
        bidder, where = vendor.text if vendor is not None else "", (self.table.sheet, name.address)
        n = 1 if a_node else n
        line = Line(kind, name.text or label, bidder, n, usd, "node" if a_node else "order", years, percent, *where)
        self.found.lines.append(line)
        if percent is not None and other.is_on_all(label):
            self.found.on_all.append(line)

    @staticmethod
    def _unstated(kind: Cell | None, per: Cell | None) -> tuple[Cell, str] | None:
        """Return which of the columns that say what a line is holds another word than is allowed, and what is."""
        words = "" if kind is None else plain_words(kind.text)
        if kind is not None and words not in ("", "other", "server") and other.kind_of(words) is None:
            return kind, f"is no kind of line; allowed: {', '.join(other.KINDS)}"
        if per is not None and not re.fullmatch(rf"(?:order|{NODE})?", plain_words(per.text)):
            return per, "is not what a line is paid for; allowed: order (once), node (for each)"
        return None

    @staticmethod
    def _discount_of(label: str, price: Cell, share: Cell | None) -> Decimal | None:
        """Return a discount's percentage, None where it is an amount."""
        found = other.percentages(label)
        for cell in (price, share):
            if cell is not None and cell.is_number and (cell is share or cell.unit == "%"):
                percent = _percent(cell)
                if percent is None:
                    raise Unreadable(f"may be {cell.text} % or a part of 1 ({cell.address}); write it as 5 %")
                found.append(percent)
        found = list(dict.fromkeys(found))
        if len(found) > 1:
            raise Unreadable(
                f"names several percentages: {', '.join(f'{one.normalize():f} %' for one in found)}; write one"
            )
        if found and not 0 < found[0] <= 100:
            raise Unreadable(f"takes {found[0]} % off; more than 0 and at most 100 is needed")
        return found[0] if found else None

    def _line_price(self, row: list[Cell], price: Cell) -> tuple[Decimal, int] | None:
        reader = self.readers.get("price_usd")
        try:
            if plain_words(price.text) in other.INCLUDED:
                self._say("guess", price, "price_usd", "read as 0: it is in other prices")
                return Decimal(0), 1
            text = reader.read(price) if reader is not None else ""
            if not re.fullmatch(r"-?\d+(\.\d+)?", text):
                raise Unreadable("is no price; one is needed")
            n = self._count(row)
            if not n:
                self._check_measure(row)
            n = n or 1
            if "_divide" in self.table.columns:
                return Decimal(text), 1
            self._check_total(row, Decimal(text), n)
        except Unreadable as error:
            self._say("error", price if price.address else row[0], "price_usd", str(error))
            self.found.n_lines_unread += 1
            return None
        return Decimal(text), n

    def _take_gpus(self, n: int, row: dict[str, str]) -> None:
        """Take the GPUs that a server's name counts, where no column says any; one that counts none has none."""
        given, row["gpus"] = self.found.given[n].get("name", ""), "0"
        at = Cell(self.found.where[n].get("name", ("", ""))[1], given)
        parts = [part for part in parts_of(written_plainly(given)) if gpu_models(part)]
        reader = Reader("gpus", None, None, self.pricing.usd("price_usd"))
        if len(parts) == 1 and re.match(r"\d{1,2}\s*[x×]", parts[0]):
            try:
                row["gpus"] = reader.read(Cell("", parts[0]))
            except Unreadable as error:
                self._refuse(n, at, "gpus", str(error))
                return
            row["gpu_type"] = row.get("gpu_type") or reader.others.get("gpu_type", "")
            self._say("guess", at, "gpus", f"read as {row['gpus']} GPUs of its name: {parts[0]!r}")
        elif pattern("says_gpu").search(NO_GPU.sub(" ", plain_words(given))):
            self._refuse(n, at, "gpus", "has GPUs, and no column says how many; write it (0 where it has none)")
        elif gpu_models(chips := row.get("processor", "")):
            at = Cell(self.found.where[n].get("processor", ("", ""))[1], chips)
            self._refuse(n, at, "gpus", "has GPUs, and no column says how many; write it (0 where it has none)")

    def _missing(self) -> None:
        """Guess a category and GPUs where the table has no such column; name the other columns that it lacks."""
        rows = self.found.rows[self.n_first :]
        if not rows:
            return
        lacking = [c.name for c in QUOTE.columns if c.required and not any(row.get(c.name) for row in rows)]
        for name in lacking:
            if name not in _GUESSED or self.table.is_ours:
                hint = "; is the number of sockets or the processor's cores in another column?"
                hint = hint if name == "cpus" else ""
                may_be = next((one for one in guessed(self.table.titles, self.table.rows) if one.column == name), None)
                if may_be is not None and not self.table.is_ours:
                    text = may_be.heading.text
                    hint += (
                        f"; it may be {text!r} ({may_be.heading.address}): if so, --column {name}={shlex.quote(text)}"
                    )
                at, seen = next(iter(self.table.header.values())), [cell.text for cell in self.table.header.values()]
                said = f"no column for {QUOTE.by_name[name].meaning}{hint}"
                given = ", ".join(seen)[:80]
                self.found.missing.append(Finding("error", self.table.sheet, at.address, name, given, said))
        if self.table.is_ours:
            return
        for n, row in enumerate(rows, self.n_first):
            if not row.get("gpus") and (n, "gpus") not in self.found.reported:
                self._take_gpus(n, row)
            if not row.get("category"):
                row["category"] = _category(self.table.sheet, row)
        if "category" in lacking:
            kinds = ", ".join(dict.fromkeys(row["category"] for row in rows))
            said = f"no column says the category: {kinds} by GPUs, memory and the sheet's name"
            self._say("guess", Cell(""), "category", said)
        if "gpus" in lacking:
            self._say("guess", Cell(""), "gpus", "no column says GPUs: there are none")


def _gb_of(part: str) -> int:
    """Return the GB that a part which is memory states without modules; 0 where it is none, or states another unit."""
    match = re.fullmatch(
        r"\W*(\d{2,5}) ?G(?:B|o)\b(?:[\s,]+(?:DDR\d[\w-]*|ECC|R?DIMM|RAM|memory))+\W*", part, re.IGNORECASE
    )
    return int(match[1]) if match is not None else 0


def _contradicted(name: str, said: Described) -> str:
    """Return the column of which a server's name says something else than its description; empty = of none."""
    models, cores = gpu_models(name), cores_said(chips_in(name))
    if (models and said.gpu_type.split("-")[0].split(" ")[0] not in models) or (
        said.gpus == "0" and pattern("says_gpu").search(NO_GPU.sub(" ", plain_words(name)))
    ):
        return "gpus"
    sizes = [] if other.kind_of(name) else re.findall(r"\b(\d+) ?G(?:B|o)\b", without_models(name))
    stated = {one for _, one in cores_stated(re.sub(r"\b[A-Za-z]+\d\w*", " ", name)) if one} if not cores else set()
    if any(int(said.cpus) % one for one in stated):
        return "cpus"
    return "cpus" if cores and str(cores[0]) != said.cpus else "mem_gb" if {*sizes} - {said.mem_gb} else ""


def _digit(cell: Cell | None) -> int:
    """Return the number of processors in a cell; 0 where it holds none."""
    return int(cell.text) if cell is not None and re.fullmatch(r"[1-9]", cell.text) else 0


def _percent(cell: Cell) -> Decimal | None:
    """Return a cell's percentage; None where a number below 1 may be a part of 1, or it holds none."""
    if not cell.is_number:
        found = other.percentages(cell.text)
        return found[0] if len(found) == 1 else None
    value = Decimal(str(cell.value))
    if cell.unit == "%":
        return value * 100
    return None if 0 < abs(value) < 1 else value


def _category(sheet: str, row: Mapping[str, str]) -> str:
    words = plain_words(sheet)
    for name, said in (
        ("gpu", r"gpus?|accelerat\w*"),
        ("bigmem", r"big ?mem|high ?mem|fat|large memory|grosser speicher"),
    ):
        if re.search(rf"\b({said})\b", words):
            return name
    return "gpu" if re.fullmatch(r"[1-9]\d*", row.get("gpus", "")) else "compute"
