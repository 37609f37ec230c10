"""The cells of a sheet, whatever file it came from: numbers in a column's unit, or an error that says what may be."""

from __future__ import annotations

import datetime
import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

from procure.offers.reading import CODES, OfferReading, currency_of
from procure.text import listed

Value = str | float | int | bool | datetime.date | None


@dataclass(frozen=True)
class Cell:
    """One cell of a sheet."""

    address: str  # such as D7
    value: Value = None
    unit: str = ""  # what its number format writes beside a number: €, %, GB
    problem: str = ""  # why its value cannot be used: an error value, a formula without a value, struck out, merged
    is_covered: bool = False  # it lies beneath the first cell of a merged range

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is in the cell."""
        return self.is_covered or (
            not self.problem and (self.value is None or (isinstance(self.value, str) and not self.value.strip()))
        )

    @property
    def is_number(self) -> bool:
        """Tell whether the cell holds a number, not text."""
        return isinstance(self.value, int | float) and not isinstance(self.value, bool)

    @property
    def text(self) -> str:
        """The cell as a person reads it, in one line."""
        if self.value is None:
            return ""
        if isinstance(self.value, datetime.date):
            return self.value.isoformat()[:10]
        value = self.value
        if self.is_number and self.unit == "%":
            value = float(f"{100 * float(value):.12g}")  # type: ignore[arg-type]
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        return " ".join(f"{value} {self.unit}".split())


@dataclass
class Sheet:
    """The visible rows of a sheet; ``hidden`` are cells that a person does not see, and why."""

    name: str
    rows: list[list[Cell]]
    hidden: list[tuple[Cell, str]] = field(default_factory=list)
    notes: list[tuple[Cell, str]] = field(default_factory=list)


def address(row: int, column: int) -> str:
    """Return the address of a cell, both counted from 0: ``D7``."""
    from openpyxl.utils import get_column_letter

    return f"{get_column_letter(column + 1)}{row + 1}"


def visible(name: str, rows: list[list[Cell]], hidden_rows: set[int], hidden_columns: set[int]) -> Sheet:
    """Return a sheet without its hidden rows and columns; the first cell with content of each is in ``hidden``."""
    seen: dict[tuple[str, int], tuple[Cell, str]] = {}
    shown = []
    for n, row in enumerate(rows):
        for place, cell in enumerate(row):
            what = "row" if n in hidden_rows else "column" if place in hidden_columns else ""
            if what and not cell.is_empty:
                said = f"is hidden, and so is not read, nor is the rest of its {what}"
                seen.setdefault((what, n if what == "row" else place), (cell, said))
        if n not in hidden_rows:
            shown.append([cell for place, cell in enumerate(row) if place not in hidden_columns])
    return Sheet(name, shown, list(seen.values()))


class Unreadable(ValueError):
    """A cell that cannot be read: its text says why, and what is allowed."""


@dataclass(frozen=True)
class Finding:
    """One thing that was not read."""

    severity: Literal["error", "warning"]  # the file is refused; it was left out
    sheet: str  # empty for a text file
    cell: str  # an address such as D7; of a text file its line; empty where the whole sheet is meant
    column: str  # of the quote table; empty where none is meant
    given: str  # what the cell holds
    allowed: str  # of an error what is allowed and what to do; of a warning why it was left out

    def __str__(self) -> str:
        """Return the finding as one sentence, without the file's name."""
        where = [f"sheet {self.sheet}"] if self.sheet else []
        where += [self.cell] if self.cell else []
        where += [f"column {self.column}"] if self.column else []
        given = f"{self.given!r} " if self.given else ""
        return f"{', '.join(where)}: {given}{self.allowed}".removeprefix(": ")


def listed_once(findings: Iterable[Finding]) -> list[str]:
    """Return a sentence for each finding; what is said alike of cells of a sheet is said once, with where else."""
    alike: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for one in findings:
        alike[one.severity, one.sheet, one.column, one.given, one.allowed].append(one)
    places = (listed([one.cell for one in same[1:]]) for same in alike.values())
    return [f"{same[0]}{place and f' (and {place})'}" for same, place in zip(alike.values(), places, strict=True)]


_GIB = Decimal(2**30) / 10**9
UNITS: dict[str, dict[str, Decimal]] = {
    "GB = 1,000 MB": {"gb": Decimal(1), "g": Decimal(1), "gbyte": Decimal(1), "gib": _GIB, "tib": 1024 * _GIB},
    "W": {"w": Decimal(1), "watt": Decimal(1), "kw": Decimal(1000)},
    "U": dict.fromkeys(("u", "he", "ru", "rack units"), Decimal(1)),
    "CPUs": dict.fromkeys(("cores", "core", "kerne", "cpus"), Decimal(1)),
    "GPUs": dict.fromkeys(("gpus", "gpu"), Decimal(1)),
    "nodes": dict.fromkeys(("nodes", "node", "pcs", "stk", "stück", "st"), Decimal(1)),
}
"""What one of a written unit is in that of a column of the quote table."""
_TERABYTES = "may be 1,000 GB or 1,024 GB for each TB; write GB"
NOTHING = {"-", "–", "—", "none", "no", "keine", "kein", "nein", "0"}
"""What a cell of GPUs may say for 0."""
_SPACES = re.compile(r"(?<=\d)[\s'’\u00a0\u202f\u2009](?=\d{3}(?:\D|$))")
_BY_POINT = re.compile(r"[-+]?(\d{1,3}(,\d{3})+(\.\d+)?|\d+(\.\d+)?|\.\d+)")
_BY_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+(,\d+)?|\d+(,\d+)?|,\d+)")
_AMOUNT = re.compile(
    r"(?P<before>[^\d\s.,+−-]*)\s*(?P<number>[-+−]?\s?[\d.,][\d.,'’\s]*)(?P<dash>[-–—]{0,2})(?P<after>\D*)"
)
_GPUS = re.compile(r"(\d{1,2})\s*[x×]\s*(?:NVIDIA\s+|AMD\s+|Intel\s+)?([A-Z]{1,3}\d{2,4}[A-Z]?)", re.IGNORECASE)
_PRODUCT = re.compile(r"(\d{1,3})\s*[x×*]\s*(\d{1,4})\s*([A-Za-z]*)")


def numbers(text: str) -> set[Decimal]:
    """Return what a written number may be: ``14.950`` is 14.95 where the point separates decimals, else 14950."""
    joined = _SPACES.sub("", text.strip().replace("−", "-"))
    if joined != text.strip() and re.fullmatch(r"[-+]?\d+([.,]\d+)?", joined):
        return {Decimal(joined.replace(",", "."))}
    found = set()
    if _BY_POINT.fullmatch(joined):
        found.add(Decimal(joined.replace(",", "")))
    if _BY_COMMA.fullmatch(joined):
        found.add(Decimal(joined.replace(".", "").replace(",", ".")))
    return found


def _amount(cell: Cell, reading: OfferReading) -> tuple[Decimal, str]:
    """Return the number of a cell and the unit beside it, as written."""
    if cell.problem:
        raise Unreadable(f"{cell.problem}; write the value")
    if cell.is_number:
        return Decimal(str(cell.value)), cell.unit
    match = _AMOUNT.fullmatch(cell.text) if isinstance(cell.value, str) else None
    values = numbers(match["number"].rstrip(" .,")) if match else set()
    if match is None or not values:
        raise Unreadable("is not a number with a unit; write one number")
    before, after = match["before"].strip(), match["after"].strip()
    if before and after:
        raise Unreadable("is not a number with one unit; write one number")
    return _one(values, reading), before or after


def _one(values: set[Decimal], reading: OfferReading) -> Decimal:
    if len(values) == 1:
        return values.pop()
    if reading.decimal is None:
        small, large = sorted(values)
        raise Unreadable(f"may be {small.normalize():f} or {large:f}; --set decimal=point or decimal=comma says which")
    return min(values) if reading.decimal == "point" else max(values)


def read_number(cell: Cell, unit: str, heading_unit: str, reading: OfferReading, *, is_plain: bool = False) -> Decimal:
    """Return the number of a cell in the unit of its column, such as ``W`` or ``GB = 1,000 MB``.

    ``2 x 32`` is 64. A number without a unit has that of the heading; where ``is_plain``, that of the column.
    """
    known = UNITS.get(unit, {})
    if isinstance(cell.value, str) and not cell.problem and (match := _PRODUCT.fullmatch(cell.text)):
        if unit not in ("CPUs", "GB = 1,000 MB"):
            raise Unreadable("is a product; write one number")
        value, own = Decimal(match[1]) * Decimal(match[2]), match[3]
    else:
        value, own = _amount(cell, reading)
    if own == "%":
        raise Unreadable("is a percentage; write a number")
    if unit == "GB = 1,000 MB" and isinstance(cell.value, str) and re.search(r"\d\s\d", cell.text):
        raise Unreadable("may be one number or two; write 1536 GB or 2 x 512 GB")
    written = (own or heading_unit).casefold().rstrip(".")
    if unit == "GB = 1,000 MB" and written in ("tb", "t"):
        raise Unreadable(_TERABYTES)
    if own and heading_unit and known.get(own.casefold()) != known.get(heading_unit.casefold()):
        raise Unreadable(f"has the unit {own!r}, and its heading {heading_unit!r}; write one of them")
    if not written:
        if unit in ("GB = 1,000 MB", "W") and not is_plain:
            raise Unreadable(f"has no unit; write it, or say --column FIELD=HEADING: then it is in {unit}")
        return value
    if written not in known:
        raise Unreadable(f"has the unit {written!r}; allowed: {', '.join(known) or 'none'}")
    return value * known[written]


def read_money(cell: Cell, heading_unit: str, reading: OfferReading, *, with_tax: bool = False) -> Decimal:
    """Return an amount of money in US$: by its rate to the cent, without tax where it is stated to be with it."""
    value, own = _amount(cell, reading)
    if own == "%":
        raise Unreadable("is a percentage; write an amount")
    stated = [currency_of(text, reading.currency) for text in (own, heading_unit) if text]
    for text, code in zip([one for one in (own, heading_unit) if one], stated, strict=True):
        if code is None:
            raise Unreadable(
                f"has {text!r} beside it, which is no one currency; write its code, such as EUR, or --set currency=EUR"
            )
    if len(set(stated)) > 1:
        raise Unreadable(f"is in {stated[0]}, and its heading in {stated[1]}; write one of them")
    code = stated[0] if stated else reading.currency
    if code is None:
        raise Unreadable("names no currency; --set currency=CODE says which, e.g. --set currency=EUR --rate EUR=1.08")
    if with_tax and reading.tax_percent is None:
        raise Unreadable("is a price with tax; --set tax_percent=PERCENT says how much it holds, e.g. 19")
    rate = Decimal(1) if code == "USD" else reading.rates.get(code)
    if rate is None:
        raise Unreadable(f"is in {code}, which has no rate; --rate says what one is in US$, e.g. --rate {code}=1.08")
    if code == "USD" and reading.tax_percent is None:
        return value
    return (value * rate / (1 + (reading.tax_percent or Decimal(0)) / 100)).quantize(Decimal("0.01"), ROUND_HALF_UP)


def read_gpus(cell: Cell, reading: OfferReading) -> tuple[int, str]:
    """Return how many GPUs a cell names, and their model where it does: ``4x NVIDIA H100``."""
    if cell.text.casefold() in NOTHING and not cell.problem:
        return 0, ""
    if not cell.problem and (match := _GPUS.fullmatch(cell.text)):
        return int(match[1]), match[2].upper()
    try:
        return int(whole(read_number(cell, "GPUs", "", reading))), ""
    except Unreadable as error:
        if cell.problem or cell.unit == "%":
            raise
        raise Unreadable("is no number of GPUs; write 4 or 4x H100, and a longer model in gpu_type") from error


def read_percent(cell: Cell, reading: OfferReading) -> Decimal:
    """Return the percent of a discount, written as ``5``, ``5 %`` or a cell shown as 5 %."""
    value, unit = _amount(cell, reading)
    value = value * 100 if cell.is_number and unit == "%" else value
    if unit not in ("", "%") or not 0 < value < 100 or value != round(value, 2):
        raise Unreadable("is no discount; write percent above 0, below 100, with at most two decimals, such as 5")
    if 0 < value < 1 and unit != "%":
        raise Unreadable("may be a part of 1; write percent, such as 5")
    return value


def is_amount(cell: Cell) -> bool:
    """Tell whether a cell is a number, with a short unit or without."""
    match = _AMOUNT.fullmatch(cell.text) if isinstance(cell.value, str) else None
    if match is None:
        return cell.is_number and cell.unit != "%"
    units = match["before"] + match["after"].strip()
    return len(units) <= 4 and "%" not in units and bool(numbers(match["number"].rstrip(" .,")))


def whole(value: Decimal) -> Decimal:
    """Return a number that must be whole."""
    if value != int(value):
        raise Unreadable("is not a whole number")
    return value


def read_text(cell: Cell) -> str:
    """Return a cell's text."""
    if cell.problem:
        raise Unreadable(f"{cell.problem}; write the text")
    return cell.text


def read_date(cell: Cell) -> str:
    """Return a day as YYYY-MM-DD; ``05/06/2027`` may be in May or in June."""
    if isinstance(cell.value, datetime.date):
        return cell.value.isoformat()[:10]
    text = read_text(cell)
    if match := re.fullmatch(r"(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})", text):
        text = f"{match[3]}-{int(match[2]):02}-{int(match[1]):02}"
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise Unreadable("is no date; write it as 2027-03-31") from None


def read_truth(cell: Cell) -> bool:
    """Return whether a cell says yes."""
    text = read_text(cell).casefold()
    if text not in _TRUTHS:
        raise Unreadable(f"is neither yes nor no; allowed: {', '.join(_TRUTHS)}")
    return _TRUTHS[text]


_TRUTHS = {"true": True, "yes": True, "ja": True, "1": True, "false": False, "no": False, "nein": False, "0": False}


_TAX = r"(?:vat|taxe?s?|mwst|ust|umsatzsteuer|mehrwertsteuer|gst|hst|tva|iva|btw)\b\.?"
_PRICES = r"(?:all(?:e)? )?(?:unit )?(?:prices?|preise|currency|währung|amounts?)?(?: are| sind| is)?[ :,]*"
_NET = re.compile(
    rf"{_PRICES}(?:net(?:to)?(?: of)?|excl\w*\.?(?: of)?|exkl\w*\.?|without|ohne|zzgl\.?|zuzüglich|plus|before)"
    rf"[ ,]*(?:\(?{_TAX}\)?)?",
    re.IGNORECASE,
)
_GROSS = re.compile(rf"\b(?:incl\w*|inkl\w*|with|mit|gross|brutto)\b.{{0,20}}?{_TAX}", re.IGNORECASE)
_IN = re.compile(rf"{_PRICES}(?:in )?[ :]*(\S+)", re.IGNORECASE)
CHANGES = re.compile(
    rf"%|[€£$]|\b(?:percent|prozent|rabatt\w*|discount\w*|rebate\w*|nachlass|skonto|surcharge|\w*zuschlag|{_TAX}"
    r"|aufpreis|prices?|preise?n?|\w+preise?|prix|precios?|prezz[io]|prij[sz]\w*|costs?|kosten|lease|rent\w*"
    r"|miet\w*|refurbished|used|gebraucht\w*|chassis|optional\w*|minimum|mindest\w*|only for|nur bei|fee|gebühr\w*"
    rf"|{'|'.join(sorted(CODES))})\b",
    re.IGNORECASE,
)
"""Words that tell of a price, a tax, a discount or a condition."""


def question(cell: Cell, reading: OfferReading) -> str:
    """Return what must be asked of a text that stands in no table; empty where it changes no price that is known."""
    text = cell.problem or cell.text
    if not CHANGES.search(text):
        return ""
    if _NET.fullmatch(text.strip(" .;*")):
        said = "says that prices are without tax, and --set tax_percent takes it out of them"
        return said if reading.tax_percent else ""
    if _GROSS.search(text) and not re.search(r"\d", text):
        said = "says that prices are with tax; --set tax_percent=PERCENT says how much"
        return said if reading.tax_percent is None else ""
    if (match := _IN.fullmatch(text.strip(" .;*"))) and (code := currency_of(match[1], reading.currency)):
        return "" if code == reading.currency else f"names {code}; --set currency={code} says that prices are in it"
    return "may change a price"
