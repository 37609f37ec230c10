"""Which column, of quotes or of further lines, a heading is: by its name, a synonym, or what the user stated."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, get_args

from procure.offers.cells import UNITS, Cell, Finding
from procure.offers.reading import READ_ONLY, OfferReading, currency_of, normal
from procure.schemas import QUOTE

Kind = Literal[
    "storage", "network", "rack", "installation", "delivery", "warranty", "training", "software", "support",
    "discount", "other",
]  # fmt: skip
KINDS: tuple[str, ...] = get_args(Kind)
"""What a line may be."""
CHOICES = {"kind": KINDS, "per": ("order", "node")}
LINE_NOTES = {
    "kind": ", ".join(KINDS),
    "name": "what it is",
    "vendor": "who quoted; of a discount: on whose servers, empty = on all",
    "quantity": "how many",
    "per": "order: bought once; node: charged for each server",
    "price_usd": "price of one; empty for a discount in percent",
    "years": "of a warranty: how many years it lasts",
    "discount": "of a discount: percent off all servers, e.g. 5",
}
"""The columns of the template's second sheet, with what each means."""


@dataclass(frozen=True)
class Line:
    """A line of an offer beside its servers, and where it stands."""

    kind: Kind
    name: str
    vendor: str  # empty where none is stated
    quantity: int  # of a line per node 1
    usd: Decimal  # US$ of one, to the cent; below 0 for an amount that is taken off; 0 where percent counts
    per: Literal["order", "node"]  # bought once with the order, or for each node that is bought
    years: int | None = None  # of a warranty: until the end of which year; None = not said
    percent: Decimal | None = None  # of a discount: % off all servers of the vendor, of all where none is stated
    sheet: str = ""
    cell: str = ""


SYNONYMS = {
    normal(text): name
    for name, words in [
        *((column.name, (column.name, *column.synonyms.split(", "))) for column in QUOTE.columns),
        *((name, (name, *words.split(", "))) for name, (_, words) in READ_ONLY.items() if name != "none"),
    ]
    for text in words
    if text
}
"""The column of each heading that is known."""
_LINE_COLUMNS = {normal(name): name for name in LINE_NOTES}
_BARE_PRICE = {"price", "preis"}
_UNIT = re.compile(r"(.*?)\s*[(\[]([^()\[\]]+)[)\]]$")
_LAST = re.compile(r"(.+?)[\s,]+(?:in )?(\S+)")
_AMOUNTS = {"gb", "gib", "tb", "kw"}
_NET = re.compile(
    r"\b(net|netto|(excl|exkl)\w*\.? (vat|tax|mwst)|without (vat|tax)|(ohne|zzgl\.?) (mwst|ust))\b\.?", re.I
)
_GROSS = re.compile(r"\b(gross|brutto|(incl|inkl)\w*\.? (vat|tax|mwst|ust)|with (vat|tax))\b\.?", re.I)
MONEY = {column.name for column in QUOTE.columns if column.money} | {"total"}


@dataclass(frozen=True)
class Heading:
    """What a heading says: its column, the unit in it, whether prices are with or without tax, what the user stated."""

    cell: Cell
    column: str = ""
    unit: str = ""
    with_tax: bool = False
    without_tax: bool = False
    stated: str = ""

    @property
    def is_plain(self) -> bool:
        """Tell whether a bare number beneath is in the column's unit: it has its name, or the user said so."""
        return self.cell.text == self.column or bool(self.stated)


@dataclass
class Table:
    """The header of a table: where each column stands, and the headings that are none."""

    columns: dict[str, int] = field(default_factory=dict)
    headings: dict[str, Heading] = field(default_factory=dict)
    unread: list[Heading] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    is_lines: bool = False
    row: list[Cell] = field(default_factory=list)


def heading_of(cell: Cell, reading: OfferReading, *, of_lines: bool = False) -> Heading:
    """Return what a heading is; its column is empty where nothing tells."""
    base, unit = cell.text, ""
    while match := _UNIT.fullmatch(base):
        if not _is_unit(match[2]) or unit:
            break
        base, unit = match[1], match[2].strip()
    if (
        not unit
        and (match := _LAST.fullmatch(base))
        and (currency_of(match[2], None) or match[2].casefold() in _AMOUNTS)
    ):
        base, unit = match[1], match[2]  # Preis in EUR, RAM GB
    for name, given in reading.columns.items():
        for text in given:
            if normal(text) in (normal(cell.text), normal(base)):
                return Heading(cell, name, unit, bool(_GROSS.search(cell.text)), bool(_NET.search(cell.text)), text)
    with_tax = bool(_GROSS.search(cell.text))
    plain = normal(base)
    known = _LINE_COLUMNS if of_lines else SYNONYMS
    name = known.get(plain, "") or SYNONYMS.get(plain, "")
    if not name:
        bare = normal(re.sub(r"[(\[]\s*[)\]]", "", _NET.sub("", _GROSS.sub("", base))))
        name = found if (found := SYNONYMS.get(bare, "")) in MONEY else ""
    return Heading(cell, name, unit, with_tax, bool(_NET.search(cell.text)))


def _is_unit(text: str) -> bool:
    word = text.strip().casefold().rstrip(".")
    return word in ("tb", "t") or any(word in units for units in UNITS.values()) or currency_of(text, None) is not None


def header_of(sheet: str, row: list[Cell], reading: OfferReading) -> Table | None:
    """Return the header that a row is; None where it is none: it needs a name, an amount and a third known heading."""
    filled = [(n, cell) for n, cell in enumerate(row) if not cell.is_empty and not cell.problem and not cell.is_number]
    is_lines = {"kind", "name"} <= {normal(cell.text) for _, cell in filled}
    headings = [(n, heading_of(cell, reading, of_lines=is_lines)) for n, cell in filled]
    known = {one.column for _, one in headings} - {""}
    least = 2 if any(one.stated for _, one in headings) else 3
    if len(known) < least or not known & {"name", "price_usd", "cpus"}:
        return None
    table = Table(is_lines=is_lines, row=row)
    for n, one in headings:
        if one.column in ("", "none"):
            table.unread.append(one)
        elif one.column not in table.columns:
            table.columns[one.column], table.headings[one.column] = n, one
        else:
            also = table.headings[one.column].cell
            said = (
                f"is {one.column}, as {also.text!r} in {also.address} is; --column {one.column}=HEADING says which, "
                "and --column none=HEADING which is not read"
            )
            table.findings.append(Finding("error", sheet, one.cell.address, one.column, one.cell.text, said))
    table.findings += _ambiguous(sheet, table)
    return table


def _ambiguous(sheet: str, table: Table) -> list[Finding]:
    """Return an error where a price may be that of several nodes, or cores those of one processor."""
    found = []
    price, cores = table.headings.get("price_usd"), table.headings.get("cpus")
    several = {"quantity", "total"} & set(table.columns)
    if price and not price.stated and several and normal(_UNIT.sub(r"\1", price.cell.text)) in _BARE_PRICE:
        said = f"may be the price of one or of all; --column price_usd={price.cell.text!r} or total={price.cell.text!r}"
        found.append(Finding("error", sheet, price.cell.address, "price_usd", price.cell.text, said))
    if cores and not cores.stated and "sockets" in table.columns:
        said = f"may be of one processor or of the node; --column cpus={cores.cell.text!r} or cores_per_socket=…"
        found.append(Finding("error", sheet, cores.cell.address, "cpus", cores.cell.text, said))
    return found
