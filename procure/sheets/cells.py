"""One cell of an offer, read by its column: money, memory, cores, GPUs, counts, dates; what is guessed is said."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from procure.sheets.findings import Severity
from procure.sheets.grid import Cell
from procure.sheets.headings import plain_words
from procure.sheets.units import Decimals, Unit, amount_of

NOTHING = {
    "", "-", "–", "—", "--", "/", "none", "no", "n/a", "na", "keine", "kein", "ohne", "nein", "aucun", "aucune", "non",
    "ninguno", "ninguna", "nessuna", "nessuno", "geen",
}  # fmt: skip
_TRUE = {"yes", "true", "1", "x", "ja", "oui", "si", "y", "wahr", "vrai"}
_KINDS = {
    "mem_gb": "memory",
    "power_w": "power",
    "idle_power_w": "power",
    "rack_units": "height",
    "cpus": "cores",
}
_LIKELY = {
    "price_usd": (300, 5_000_000),
    "mem_gb": (8, 50_000),
    "power_w": (50, 50_000),
    "idle_power_w": (20, 20_000),
    "licence_usd_per_year": (5, 500_000),
    "support_usd_per_year": (5, 500_000),
}
"""What a server may cost, hold or take: where only one reading of ``14.950`` is among these, it is taken, and said."""
_MODEL = re.compile(
    r"\b([ABHVLTP]\d{1,3}0{0,2}[XS]?|GH200|GB[23]00|MI\d{3}[AX]?|L40S?|RTX\s?(?:PRO\s?)?\w+|GV100|K80|M40|M2090|Max\s?1\d{3})\b",
    re.IGNORECASE,
)


_LARGEST, _NOISE = Decimal(10) ** 15, Decimal("0.000001")


class Unreadable(Exception):
    """A cell is not read, and the user must say more; the message is what is allowed."""


@dataclass
class Reader:
    """Reads the cells of one column of a table.

    Attributes
    ----------
    column
        Of the quote table.
    unit
        What the heading states.
    decimal
        The mark that separates decimals in this file, None where that is not known.
    to_usd
        Turns an amount and the unit beside it into US$, or raises `Unreadable`.
    is_strict
        The table is delimited text in the quote table's own columns: names and dates are taken as they are.
    others, said
        What the last cell says of other columns, and what was guessed in it.
    """

    column: str
    unit: Unit | None
    decimal: Decimals | None
    to_usd: Callable[[Decimal, Unit | None], Decimal]
    is_strict: bool = False
    others: dict[str, str] = field(default_factory=dict)
    said: list[tuple[Severity, str]] = field(default_factory=list)

    def guess(self, text: str) -> None:
        """Note how a cell was understood."""
        self.said.append(("guess", text))

    def read(self, cell: Cell) -> str:
        """Return the cell as the quote table writes it; text that is none stays as it is.

        Raises
        ------
        Unreadable
            The cell has an error value, or could mean several things.
        """
        if cell.problem:
            raise Unreadable(f"holds {cell.problem}; a value is needed")
        if cell.is_empty:
            return ""
        return str(_READERS.get(self.column, Reader._text)(self, cell))

    def _text(self, cell: Cell) -> str:
        if self.is_strict:
            return str(cell.value)
        text = cell.text
        if self.column == "name":
            clean = re.sub(r'["“”„\n\r\t]', "", text.replace("=", " ").replace("'", "")).replace(",", ";")
            clean = " ".join(clean.split())
            if clean != text:
                self.guess(f"is called {clean!r}: a name holds no commas, '=', quotes")
            return clean
        return text

    def _money(self, cell: Cell) -> str:
        amount = self._amount(cell)
        if amount is None:
            return cell.text
        value, unit = amount
        usd = self.to_usd(value, unit)
        if abs(usd) > _LARGEST or (usd == value and not cell.is_number):
            return _plain(usd)  # as it is written: the table's own rules are about it
        cents = usd.quantize(Decimal("0.01"), ROUND_HALF_UP)
        if usd == value and abs(cents - usd) > _NOISE:
            self.guess(f"read as {cents}, to the cent")
        return f"{cents:f}"

    def _number(self, cell: Cell) -> str:
        amount = self._amount(cell)
        if amount is None:
            return cell.text
        value, unit = amount
        kind = _KINDS.get(self.column, "pieces")
        if unit is not None and unit.kind != kind:
            return cell.shown
        if unit is not None and unit.factor != 1 and unit.kind == "memory" and unit.factor >= 1000:
            self.guess(f"read as {_plain(value * unit.factor)} GB: 1 TB = 1,000 GB; write 1536 if 24 × 64 GB are meant")
        return _plain(value * (unit.factor if unit is not None else 1))

    def _amount(self, cell: Cell) -> tuple[Decimal, Unit | None] | None:
        """Return the cell's number and unit, None where it holds neither."""
        if cell.is_number:
            shown = amount_of(f"1 {cell.unit}") if cell.unit else None
            own = shown.unit if shown is not None else None
            if cell.unit and own is None and cell.unit not in ("%",):
                raise Unreadable(f"shows the unit {cell.unit!r}, which is not known; write the unit in the heading")
            if not math.isfinite(float(cell.value)):  # type: ignore[arg-type]
                return None
            return Decimal(str(cell.value)), own or self.unit
        if not isinstance(cell.value, str):
            return None
        read = amount_of(cell.value)
        if read is None:
            return None
        return self._one_of(cell, read.values), read.unit or self.unit

    def _one_of(self, cell: Cell, values: Mapping[Decimals, Decimal]) -> Decimal:
        """Return the number that is meant by text in which a mark may separate decimals or thousands."""
        if len(set(values.values())) == 1:
            return next(iter(values.values()))
        if self.decimal is not None and self.decimal in values:
            chosen = values[self.decimal]
            self.guess(f"read as {_plain(chosen)}: decimals have a {self.decimal} elsewhere in this file")
            return chosen
        factor = self.unit.factor if self.unit is not None and self.column != "price_usd" else Decimal(1)
        low, high = _LIKELY.get(self.column, (-math.inf, math.inf))
        likely = [value for value in values.values() if low <= value * factor <= high]
        if len(likely) == 1 and not self.is_strict:
            self.guess(f"read as {_plain(likely[0])}: as a decimal it would be {_plain(min(values.values()))}")
            return likely[0]
        both = " or ".join(_plain(value) for value in values.values())
        cents = ", and prices go to the cent" if self.column == "price_usd" else ""
        raise Unreadable(f'may be {both}{cents}; state decimal = "comma" or "point" (--decimal)')

    def _cores(self, cell: Cell) -> str:
        text = cell.text
        match = re.fullmatch(
            r"(\d{1,2})\s*[x×*]\s*(\d{1,3})\s*-?\s*(?:cores?|kerne|coeurs|c|nucleos|núcleos)?",
            text,
            re.IGNORECASE,
        )
        if match:
            return str(int(match[1]) * int(match[2]))
        match = re.fullmatch(r"(\d+)\s*(?:c|cores?|kerne)\s*[/,(]?\s*\d+\s*(?:t|threads?)\)?", text, re.IGNORECASE)
        if match:
            return match[1]
        return self._number(cell)

    def _memory(self, cell: Cell) -> str:
        match = re.fullmatch(r"(\d{1,2})\s*[x×*]\s*(\d{1,4})\s*(GB|GiB|G)\b.*", cell.text, re.IGNORECASE)
        if match and "+" not in cell.text:
            return str(int(match[1]) * int(match[2]))
        if isinstance(cell.value, str):
            match = re.fullmatch(
                r"\s*([\d.,' ]+\s*(?:GB|TB|MB|GiB|TiB))\s+(?:DDR\d\S*|ECC|RDIMM|RAM|Memory|HBM\S*)[\w\s\-,@/]*",
                cell.value,
                re.IGNORECASE,
            )
            if match:
                return self._number(Cell(cell.address, match[1]))
        return self._number(cell)

    def _gpus(self, cell: Cell) -> str:
        text = cell.text
        if plain_words(text) in NOTHING or text in NOTHING:
            return "0"
        match = re.fullmatch(
            r"(\d{1,2})\s*(?:[x×*]|Stk\.?|St\.)?\s+?\s*(?:x\s*)?((?:[A-Za-z]|.*\b[A-Za-z])[\w\s\-./()®™]*)",
            text,
        )
        if match is None:
            match = re.fullmatch(r"(\d{1,2})\s*[x×*]\s*([A-Za-z][\w\s\-./()®™]*)", text)
        if match and amount_of(text) is None:
            model = gpu_model(match[2])
            if model:
                self.others["gpu_type"] = model
                return match[1]
        if match is None and not re.search(r"\d\s*[x×]|^\d", text) and (model := gpu_model(text)):
            raise Unreadable(f"names the GPU {model} without a number; write 4x {model}")
        return self._number(cell)

    def _truth(self, cell: Cell) -> str:
        word = plain_words(cell.text)
        return "true" if word in _TRUE else "false" if word in NOTHING | {"0", "false", "falsch"} else cell.text

    def _date(self, cell: Cell) -> str:
        if isinstance(cell.value, datetime.date) or self.is_strict:
            return cell.text
        match = re.fullmatch(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})", cell.text)
        if match is None:
            return cell.text
        first, second, year = int(match[1]), int(match[3]), int(match[4])
        if match[2] != "." and first <= 12 and second <= 12 and first != second:
            raise Unreadable("may be day or month first; write it as 2024-06-30")
        day, month = (first, second) if match[2] == "." or first > 12 or first == second else (second, first)
        try:
            return datetime.date(year, month, day).isoformat()
        except ValueError:
            return cell.text


_CORES = r"(\d{1,3})[\s-]*(?:cores?|kerne|c|coeurs|cœurs|nucleos|núcleos)\b"


def cores_of(text: str) -> tuple[int, str] | None:
    """Return the cores and the model of processors: ``2x AMD EPYC 9354 (32 cores)`` are 64; None where it says none."""
    match = re.search(rf"(\d)\s*[x×]\s.*?{_CORES}", text, re.IGNORECASE)
    if match is None:
        return None
    model = re.sub(rf"^\d\s*[x×]\s*|[\s,(]*{_CORES}.*$", "", text, flags=re.IGNORECASE)
    return int(match[1]) * int(match[2]), model.strip(" ,;(-")


def gpu_model(text: str) -> str:
    """Return the short name of a GPU model, ``H100`` of ``NVIDIA H100 80GB SXM``; empty where none is known."""
    match = _MODEL.search(text)
    return re.sub(r"\s+", "", match[1]).upper() if match else ""


def _plain(value: Decimal) -> str:
    """Write a number without exponent and without zeros at its end."""
    text = f"{value:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


_READERS: dict[str, Any] = {
    **dict.fromkeys(("price_usd", "licence_usd_per_year", "support_usd_per_year"), Reader._money),
    **dict.fromkeys(
        ("spec_rate", "spec_rate_node", "power_w", "idle_power_w", "rack_units", "min_count", "max_count", "pack_size"),
        Reader._number,
    ),
    "cpus": Reader._cores, "mem_gb": Reader._memory, "gpus": Reader._gpus, "mandatory": Reader._truth,
    "valid_until": Reader._date,
}  # fmt: skip
