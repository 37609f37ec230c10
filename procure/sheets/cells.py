"""One cell of an offer, read by its column: money, memory, cores, GPUs, counts, dates; what is guessed is said."""

from __future__ import annotations

import csv
import datetime
import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

from procure.files.gpu_pools import pools_text
from procure.sheets.findings import Severity
from procure.sheets.grid import Cell
from procure.sheets.headings import plain_words
from procure.sheets.units import Decimals, Unit, amount_of, without_mark
from procure.sheets.words import NODE, PER, PIECE, pattern, themed

NOTHING = themed("nothing") | {""}
_TRUE = {"yes", "true", "1", "x", "ja", "oui", "si", "y", "wahr", "vrai"}
_KINDS = {"mem_gb": "memory", "power_w": "power", "idle_power_w": "power", "rack_units": "height", "cpus": "cores"}
_LIKELY: dict[str, tuple[float, float]] = {
    "price_usd": (300, 5_000_000),
    "mem_gb": (16, 50_000),
    "cpus": (4, 4_096),
    "power_w": (50, 50_000),
    "idle_power_w": (20, 20_000),
    "rack_units": (0.25, 60),
    "licence_usd_per_year": (5, 500_000),
    "support_usd_per_year": (5, 500_000),
}
"""What a server may cost, hold or take: where only one reading of ``14.950`` is among these, it is taken, and said; an
amount beyond them is asked about."""
_MODEL = pattern("gpu_models", re.I)


_LARGEST, _NOISE = Decimal(10) ** 15, Decimal("0.000001")
_TERA = 1000
_CHOICE = pattern("choice", re.I)
"""Words after which an amount is one of several, a limit, or that of something else."""


_BOARD = re.compile(r"\b(HGX|DGX|NVL\d+|baseboard|superpod|chassis)\b", re.IGNORECASE)
"""What holds several GPUs, so that a number before it is not theirs."""
_ON_BOARD = re.compile(
    r"(?<=^[48][x×*] )(?:NVIDIA )?HGX(?= (?!.*\d[ -]*GPU).*\bGPU$)"
    r"|\b(?:on|auf|sur|su|en|op)(?: an?| einem)? HGX(?: base)?(?:board)?$",
    re.IGNORECASE,
)
"""A board beside as many GPUs as it holds, which are what is counted: ``8x H100 on HGX``, ``8x HGX H200 GPU``."""
NO_GPU = pattern("no_gpu")
_HBM = re.compile(r"\bHBM\d?e?\b", re.IGNORECASE)


SHORT = {"kr": ("SEK", "NOK", "DKK"), "¥": ("JPY", "CNY")}
"""Short signs of several currencies: the heading, or the currency beside an amount, says which."""
DOLLARS = {"CAD", "AUD", "NZD", "SGD", "HKD", "TWD", "MXN"}
"""Currencies that a bare $ may be."""


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
    is_told
        The user stated ``decimal``; else it is what other cells show.
    row_unit
        Unit of money that the row's column of currencies states.
    others, said
        What the last cell says of other columns, and what was guessed in it.
    """

    column: str
    unit: Unit | None
    decimal: Decimals | None
    to_usd: Callable[[Decimal, Unit | None], Decimal]
    is_strict: bool = False
    is_told: bool = False
    row_unit: Unit | None = None
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
        if cell.doubt:
            raise Unreadable(cell.doubt)
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
            if unit is self.unit:
                raise Unreadable(f"stands under a unit of {unit.kind}; this column is {self.column}")
            return cell.shown
        if unit is not None and unit.kind == "memory" and unit.factor == _TERA:
            return self._terabytes(value)
        return _plain(value * (unit.factor if unit is not None else 1))

    def _terabytes(self, value: Decimal) -> str:
        """Return GB: no modules add up to 1,000 or 1,500, so eighths of a TB are of 1,024 GB; 2.304 TB are 2,304."""
        is_binary = value * 8 == int(value * 8)
        gb = _plain(value * (1024 if is_binary else _TERA))
        said = f"1,024 GB each, as modules add up; write {_plain(value * _TERA)} GB if that is meant"
        self.guess(f"read as {gb} GB: {said if is_binary else '1,000 GB each'}")
        return gb

    def _amount(self, cell: Cell) -> tuple[Decimal, Unit | None] | None:
        """Return the cell's number and unit, None where it holds neither."""
        if cell.is_number:
            if cell.unit == "%":
                raise Unreadable("is a percentage; an amount is needed")
            shown = amount_of(f"1 {cell.unit}") if cell.unit else None
            own = shown.unit if shown is not None else None
            if cell.unit and own is None:
                raise Unreadable(f"shows the unit {cell.unit!r}, which is not known; write the unit in the heading")
            if not math.isfinite(float(cell.value)):  # type: ignore[arg-type]
                return None
            return Decimal(str(cell.value)), self._unit_beside(own, cell.unit)
        if not isinstance(cell.value, str):
            return None
        read = amount_of(cell.value)
        if read is None:
            return None
        if (mark := cell.value.strip().removeprefix(without_mark(cell.value)).strip()) != "":
            self.guess(f"is read without the mark {mark!r}; see what it says")
        if read.in_thousands and self.unit is not None and self.unit.factor != 1:
            raise Unreadable("names thousands, as the heading does; write the amount without them")
        unit = self._unit_beside(read.unit, cell.value)
        return self._one_of(read.values, unit), unit

    def _unit_beside(self, own: Unit | None, shown: str) -> Unit | None:
        """Return the unit of an amount: its own, which must not contradict the money of the heading.

        A bare $ is the dollar that the heading, or a column of currencies, states.
        """
        is_bare = "$" in shown and re.search(r"[A-Za-z]", shown) is None
        heads = self.unit
        beside_it = self.row_unit or heads
        is_short = own is not None and beside_it is not None and beside_it.currency in SHORT.get(own.currency, ())
        if own is not None and beside_it is not None and (is_short or (is_bare and beside_it.currency in DOLLARS)):
            own = Unit(own.kind, own.factor, beside_it.currency)
        if self.row_unit is not None and _READERS.get(self.column) is Reader._money:
            beside = [one for one in (own, heads) if one is not None]
            if any(one.kind != "money" or one.currency != self.row_unit.currency for one in beside):
                stated = _thousands(beside[0]) or beside[0].kind
                raise Unreadable(f"is in {stated}, and the currency beside it is {self.row_unit.currency}; write one")
            heads = heads or self.row_unit
        if own is None or heads is None or "money" not in (own.kind, heads.kind) or own == heads:
            return own or heads
        if own.kind != heads.kind:
            return own
        raise Unreadable(
            f"is in {_thousands(own)}, and the heading says {_thousands(heads)}; state the same unit in both"
        )

    def _one_of(self, values: Mapping[Decimals, Decimal], unit: Unit | None) -> Decimal:
        """Return the number that is meant by text in which a mark may separate decimals or thousands."""
        if len(set(values.values())) == 1:
            return next(iter(values.values()))
        chosen = values.get(self.decimal) if self.decimal is not None else None
        likely = [value for value in values.values() if self._is_likely(value, unit)]
        if chosen is not None and (chosen in likely or not likely or (self.is_told and self.is_strict)):
            where = ", as was stated" if self.is_told else " elsewhere in this file"
            self.guess(f"read as {_plain(chosen)}: decimals have a {self.decimal}{where}")
            return chosen
        if chosen is None and len(likely) == 1 and not self.is_strict:
            unlikely = next(value for value in values.values() if value != likely[0])
            self.guess(f"read as {_plain(likely[0])}: {_plain(unlikely)} is not likely of a server")
            return likely[0]
        both = " or ".join(_plain(value) for value in values.values())
        cents = ", and prices go to the cent" if self.column == "price_usd" else ""
        answer = "write it with no mark" if self.is_told else 'state decimal = "comma" or "point" (--decimal)'
        raise Unreadable(f"may be {both}{cents}; {answer}")

    def _is_likely(self, value: Decimal, unit: Unit | None) -> bool:
        """Tell whether a server may cost, hold or take an amount; of a column without such limits, always."""
        low, high = _LIKELY.get(self.column, (-math.inf, math.inf))
        if _READERS.get(self.column) is Reader._money:
            return low <= self.to_usd(value, unit) <= high
        return low <= value * (unit.factor if unit is not None else 1) <= high

    def _cores(self, cell: Cell) -> str:
        text = cell.text
        if re.search(r"\b(ht|smt|v-?cpus?|hyper-?threads?)\b", text, re.IGNORECASE):
            raise Unreadable("may be threads; write the number of cores")
        match = pattern("sockets_times_cores", re.I).fullmatch(text)
        if match:
            return str(int(match[1]) * int(match[2]))
        match = pattern("cores_and_product", re.I).fullmatch(text)
        if match and int(match[1]) == int(match[2]) * int(match[3]):
            return match[1]
        match = re.fullmatch(r"(\d+)\s*(?:c|cores?|kerne)\s*[/,(]?\s*\d+\s*(?:t|threads?)\)?", text, re.IGNORECASE)
        if match:
            return match[1]
        return self._number(cell)

    def _memory(self, cell: Cell) -> str:
        if isinstance(cell.value, str):
            cell = replace(cell, value=counted(cell.value))
        both = pattern("memory_and_modules", re.I).fullmatch(cell.text)
        if both:
            stated = self._number(Cell(cell.address, both[1]))
            whole = sum(map(int, both[2].split("+"))) * int(both[3])
            if re.fullmatch(r"[\d.]+", stated) and whole in (Decimal(stated), Decimal(stated) * 1024 / 1000):
                return str(whole)  # 2 TB (32 x 64 GB) is 2048 GB
            raise Unreadable(f"is not {both[2]} × {both[3]} GB; give the memory of one node, e.g. 768 GB")
        text = without_sum(cell.text)
        match = re.fullmatch(r"(\d{1,2})\s*[x×*]\s*(\d{1,4})\s*(GB|GiB|Go|Gio|G)\b(.*)", text, re.IGNORECASE)
        if match and "+" not in text:
            whole = _modules(int(match[1]), int(match[2]))
            for count, size in re.findall(r"(\d+\s*[x×*]\s*)?(\d+)\s*[GT]i?[BO]", match[4], re.IGNORECASE):
                if count or int(size) != whole:
                    raise Unreadable("names several amounts; give the memory of one node, e.g. 768 GB")
            if _CHOICE.search(match[4]):
                raise Unreadable("is not plainly the memory of one node; give it, e.g. 768 GB")
            return self._number(Cell(cell.address, f"{whole} {match[3]}"))
        match = re.fullmatch(r"(\d{1,2})\s*[x×*]\s*(\d{1,3})", cell.text)
        if match and self.unit == Unit("memory", Decimal(1)):
            whole = _modules(int(match[1]), int(match[2]))
            self.guess(f"read as {whole} GB")
            return str(whole)
        if isinstance(cell.value, str):
            match = pattern("memory_and_kind", re.I).fullmatch(cell.value)
            if match and (_CHOICE.search(match[2]) or re.search(r"\d\s*[GT]i?[BO]", match[2], re.IGNORECASE)):
                raise Unreadable("names more than the memory of one node; give that alone, e.g. 768 GB")
            if match:
                return self._number(Cell(cell.address, match[1]))
        return self._number(cell)

    def _gpus(self, cell: Cell) -> str:
        text = re.sub(r"(?<![\w.])(\d{1,2})([x×*])(?=[A-Za-z])", r"\1\2 ", counted(cell.text))
        words = plain_words(text) or text.casefold()  # a sign alone, ``?`` or a tick, is no dash
        if words in NOTHING or text.casefold() in NOTHING or NO_GPU.fullmatch(words):
            return "0"
        models = gpu_models(text)
        if re.match(r"[48] ?[x×*] ", text):
            text = _ON_BOARD.sub(" ", re.sub(r"^([48]) ?([x×*]) +", r"\1\2 ", text)).strip()
        if models and (board := _BOARD.search(text)) is not None:
            raise Unreadable(
                f"names a {board[0]} of several GPUs; write how many GPUs one node has, e.g. 8x {models[0]}"
            )
        if pools := gpu_pools(text):
            self.others["gpu_type"] = pools_text(pools)
            return str(sum(n for _, n in pools))
        match = re.fullmatch(rf"(\d{{1,2}})(?:\s*(?:[x×*]|(?i:{PIECE})\b\.?)\s*|\s+)(?:x\s*)?(.*[A-Za-z].*)", text)
        if match and models and amount_of(text) is None:
            rest = _HBM.sub(" ", _MODEL.sub(" ", match[2]))
            if (
                len(models) > 1
                or re.search(r"\d\s*[x×*]|[x×*]\s*\d|\+|\d+[\s-]*(GPU|GCD|tile|stack)", rest)
                or re.search(r"^\d+(?!\d*\s*G)", match[2])
                or _CHOICE.search(rest)
                or re.search(r"\d\s*/\s*\d+\s*GB|\b(paare?|pairs?|paires?)\b", match[2], re.IGNORECASE)
            ):
                if len(models) > 1:
                    raise Unreadable(SEVERAL_MODELS)
                raise Unreadable(
                    f"names more than one number of GPUs, or a choice; write one, e.g. {match[1]}x {models[0]}, "
                    "and a row for each configuration"
                )
            self.others["gpu_type"] = _with_size(models[0], match[2])
            return match[1]
        if match is None and not re.search(r"\d\s*[x×]|^\d", text) and models:
            raise Unreadable(f"names the GPU {models[0]} without a number; write 4x {models[0]}")
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


SEVERAL_MODELS = (
    "names several GPU models; a node that has both is written 2x A100 + 2x L40S, and of a choice each configuration "
    "has a row of its own"
)
"""What is said of a cell with two models, and what to do."""
_SLICES = pattern("slices", re.I)
"""``4x A100, 2 of them as 7x 1g.5gb``."""
CORES = (
    r"(?<!\d)(\d{1,3})[\s-]*"
    r"(?:cores?|kerne[nr]?|c|coeurs|cœurs|nucleos|núcleos|k[aä]rnor|kjerner|rdzeni\w?|jader|j[aá]dr[ao]?|jadier|jeder|jezgr[aei]|mag(?:os)?|nuclee|ydin(?:tä)?|kernen)\b"
)


_PROCESSORS = re.compile(r"^(\d)\s+(?=(AMD|Intel|EPYC|Xeon|NVIDIA Grace|Ampere|IBM)\b)", re.IGNORECASE)


_MODULE_GB = {4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512}
"""Sizes that modules of memory are sold in."""


def _modules(n: int, gb: int) -> int:
    """Return the memory of some modules; refuse two of 768 GB, which may be two servers, or half of each."""
    if gb not in _MODULE_GB:
        raise Unreadable(f"counts {gb} GB, not the size of one module; give the memory of one node, e.g. 768 GB")
    return n * gb


_SOME_MODULES = re.compile(r"(\d{1,2})\s*[x×*]\s*(\d{1,4})\s*(?:GB|GiB|Go|Gio|G)\b", re.IGNORECASE)


def without_sum(text: str) -> str:
    """Leave out what modules have together, behind them, where it is that: ``16 x 32 GB (512 GB total)``."""
    modules = _SOME_MODULES.search(text)
    match = pattern("modules_together", re.I).search(text, modules.end()) if modules is not None else None
    if modules is None or match is None:
        return text
    whole = Decimal(int(modules[1]) * int(modules[2]))
    stated = {Decimal(re.sub(r"[.,]", "", match[1]))} if re.fullmatch(r"\d{1,3}(?:[.,]\d{3})*|\d+", match[1]) else set()
    if re.fullmatch(r"\d+[.,]\d{1,3}", match[1]):
        stated.add(Decimal(match[1].replace(",", ".")))
    factors = (Decimal(1),) if match[2].upper() == "G" else (Decimal(1000), Decimal(1024))
    is_sum = any(one * factor == whole for one in stated for factor in factors)
    return f"{text[: match.start()]} {text[match.end() :]}" if is_sum else text


def is_likely(column: str, value: Decimal) -> bool:
    """Tell whether a server may cost, hold or take an amount, in the quote table's units."""
    low, high = _LIKELY.get(column, (-math.inf, math.inf))
    return low <= value <= high or (value == 0 and column not in ("price_usd", "mem_gb", "cpus", "power_w"))


def counted(text: str) -> str:
    """Write a number in brackets, or with a word for pieces, as ``12x``: ``(12) 64GB``, ``2 st AMD``."""
    text = re.sub(r"^\s*\((\d{1,2})\)\s*(?=\S)", r"\1x ", text)
    return pattern("counted_parts", re.I).sub(r"\1x ", text)


_CHIP = pattern("chips", re.I)
_CHIPS = re.compile(r"^\s*(?:(\d)\s*(?:[x×*]|P\b)|(dual|two|zwei|deux|dos|due|twee)\b)", re.IGNORECASE)
"""A processor's model, and how many there are."""


@functools.cache
def _published() -> dict[tuple[str, str], set[int]]:
    with (Path(__file__).parent.parent / "workload" / "spec_rates.csv").open(encoding="utf-8") as file:
        found: dict[tuple[str, str], set[int]] = {}
        for row in csv.DictReader(file):
            if match := _CHIP.search(row["processor"]):
                found.setdefault((match[1].lower(), match[2].lower()), set()).add(int(row["cores"]))
    return found


def same_chips(one: str, two: str) -> bool:
    """Tell whether two texts name the same model of a processor, or one of them none."""
    models = {(match[1].lower(), match[2].lower()) for text in (one, two) if (match := _CHIP.search(text))}
    return len(models) < 2


def chips_of(text: str) -> tuple[int, int]:
    """Return how many processors a text counts, and the published cores of one of its model; 0 = not known."""
    text = re.sub(r"\((R|TM)\)|[®™]", " ", _PROCESSORS.sub(r"\1x ", counted(text)))
    match, count = _CHIP.search(text), _CHIPS.match(text)
    cores = _published().get((match[1].lower(), match[2].lower()), set()) if match else set()
    return int(count[1] or 2) if count else 0, min(cores) if len(cores) == 1 else 0


_CHIPS_IN = pattern("chips_in", re.I)
_EACH = re.compile(r"\bje (?=\d+[ -]*(?:Kern|Core))", re.IGNORECASE)
"""What stands before the cores of each of several processors."""
_GPUS_IN = re.compile(rf"\b(\d{{1,2}})\s*[x×*]\s*(?:(?:NVIDIA|AMD|Tesla|Instinct)\s+)*{_MODEL.pattern}", re.IGNORECASE)


def chips_in(text: str) -> str:
    """Return the part of a server's name that says which processors it has; empty where none does."""
    match = _CHIPS_IN.search(text)
    if match is None or not (_CHIP.search(match[0]) or "grace cpu" in match[0].casefold()):
        return ""
    return "" if _CHOICE.search(IN_ALL.sub("", _EACH.sub("", match[0]))) else match[0].strip()


def states_cores(text: str) -> bool:
    """Tell whether a processor's text says more than its model: a number of cores, a choice."""
    return re.search(
        r"\d\W*(?:c\b|core|kern|k[aä]rn|kjern|rdzen|j[aá]d[er]|coeur|cœur|n[uú]cle)", text, re.IGNORECASE
    ) is not None or bool(_CHOICE.search(text))


def gpus_in(text: str) -> tuple[str, str]:
    """Return how many GPUs a server's name says that it has, and their model: ``with 8x H100``; else empty texts."""
    found = list(_GPUS_IN.finditer(text))
    one = found[0] if len(found) == 1 and not re.search(r"HGX|DGX|SSD|NVMe", text) else None
    return (one[1], _with_size(gpu_model(one[0]), text[one.start() :])) if one is not None else ("", "")


def cores_of(text: str) -> tuple[int, str] | None:
    """Return the cores and the model of processors: ``2x AMD EPYC 9354 (32 cores)`` are 64; None where it says none.

    Cores of all are told by the table of processors; 0 where a CPU has neither these cores nor this part of them.
    """
    text = _EACH.sub("", _PROCESSORS.sub(r"\1x ", counted(text)))
    text = re.sub(rf"^(\s*(\d)\s*[x×]\s.*?)[,(]\s*\2\s*[x×]\s*(?={CORES})", r"\1 (", text, flags=re.IGNORECASE)
    if (of_node := _OF_NODE.search(text) or (IN_ALL.search(text) if chips_of(text)[1] else None)) is not None:
        return _of_node(text, of_node)
    match = re.search(rf"(?<!\d)(\d)\s*[x×]\s.*?{CORES}", text, re.IGNORECASE)
    if (
        match is None
        or re.search(r"\s\+|[=→]", text)
        or _CHOICE.search(text)
        or pattern("cores_of_all", re.I).search(text)
        or len(re.findall(r"\d\s*[x×]\s", text)) > 1
        or (
            not chips_of(text)[1]
            and re.search(
                r",\s*\d+\s*(cores|kerner?|coeurs|cœurs|n[uú]cleos|k[aä]rnor|kjerner|rdzeni\w?|jader|j[aá]dra)\s*$",
                text,
                re.IGNORECASE,
            )
        )
    ):
        return None
    of_it = rf"[\s,(]*(?:\b(?:mit|with|avec|con|da|à)\s+)?{CORES}.*$"
    model = re.sub(rf"^\d\s*[x×]\s*|{of_it}", "", text, flags=re.IGNORECASE)
    n, stated, known = int(match[1]), int(match[2]), chips_of(text)[1]
    is_wrong = known and stated not in (known, n * known)
    return 0 if is_wrong else n * (known or stated), model.strip(" ,;(-")


_ALL = r"(?:total|tot|insg(?:esamt)?|zus(?:ammen)?|ges(?:amt)?|en total|in total|in totale|au total|totales)\b\.?"
IN_ALL = re.compile(rf"\b{_ALL}\s*(?:{CORES})|{CORES}\s*{_ALL}", re.IGNORECASE)
"""Cores of all processors, where a table knows those of each."""
_OF_NODE = re.compile(rf"{CORES}\s*(?:\b{PER}\b|/)\s*{NODE}\b", re.IGNORECASE)


def _of_node(text: str, of_node: re.Match[str]) -> tuple[int, str] | None:
    """Return the cores that a text states of a node, ``(72C, 144 cores per node)``, and the model.

    0 where its processors have others; None where other numbers of cores are neither these nor those of each.
    """
    whole, (n, known) = int(of_node[1] or of_node[2]), chips_of(text)
    rest = f"{text[: of_node.start()]} {text[of_node.end() :]}"
    if not n or _CHOICE.search(rest) or any(times or each * n != whole for times, each in cores_stated(rest)):
        return None
    model = re.sub(rf"^\d\s*[x×]\s*|[\s,(-]*(?:{CORES})?\W*$", "", text[: of_node.start()], flags=re.IGNORECASE)
    model = re.sub(rf"[\s,(]*{CORES}.*$", "", model, flags=re.IGNORECASE)
    return 0 if known and n * known != whole else whole, model.strip(" ,;(-")


def cores_said(text: str, n: int = 0) -> tuple[int, str] | None:
    """Return the cores and model that a processor's text states, or else those of ``n`` of its model by the table."""
    if (read := cores_of(text)) is not None:
        return read
    stated, known = chips_of(text) if not states_cores(text) else (0, 0)
    n = n or stated
    return (n * known, re.sub(r"^\d\s*[x×*]\s*", "", text)) if n and known else None


def cores_stated(text: str) -> list[tuple[int, int]]:
    """Return the numbers of cores in a text, each with what multiplies it, 0 where nothing does: ``2 x 64 cores``."""
    found = re.finditer(rf"(?:(?<!\d)(\d)\s*[x×]\s*)?{CORES}", text, re.IGNORECASE)
    return [(int(one[1] or 0), int(one[2])) for one in found]


def gpu_model(text: str) -> str:
    """Return the short name of a GPU model, ``H100`` of ``NVIDIA H100 80GB SXM``; empty where none is known."""
    return next(iter(gpu_models(text)), "")


def gpu_pools(text: str) -> tuple[tuple[str, int], ...]:
    """Read the GPUs of a node that has several models or MIG slices; nothing where the text is not plainly that.

    ``2x A100 + 2x L40S``; ``4x A100, 2 of them as 7x 1g.5gb`` is 2 of ``A100`` and 14 of ``A100_1g.5gb``.
    """
    cut = _SLICES.fullmatch(text.strip())
    if cut and len(gpu_models(cut[2])) == 1 and 0 < int(cut[3]) <= int(cut[1]):
        model, whole = _with_size(gpu_model(cut[2]), cut[2]), int(cut[1]) - int(cut[3])
        slices = (f"{model}_{cut[5].lower()}", int(cut[3]) * int(cut[4]))
        return ((model, whole), slices) if whole else (slices,)
    pools: list[tuple[str, int]] = []
    for part in text.split("+") if "+" in text and not _CHOICE.search(text) else ():
        match = re.fullmatch(r"\s*(\d{1,2})\s*[x×*]\s*([^\d\s].*?)\s*", part)
        name = match[2].partition("_")[0] if match and re.search(r"_\d[gc]\.\d+gb$", match[2], re.IGNORECASE) else ""
        models = gpu_models(name or match[2]) if match else []
        if match is None or len(models) != 1 or int(match[1]) == 0 or re.search(r"\d\s*[x×*]|[x×*]\s*\d", match[2]):
            return ()
        model = models[0] + match[2][len(name) :].lower() if name else _with_size(models[0], match[2])
        pools.append((model, int(match[1])))
    return tuple(pools) if len({name for name, _ in pools}) == len(pools) else ()


def _with_size(model: str, text: str) -> str:
    """Return a model's name with the memory that the text states: ``A100-80GB``."""
    if re.search(rf"{model}[\s-]+(?:\d+\s*GB\s+)?(?:PCIe\s+)?NVL\b", text, re.IGNORECASE):
        return f"{model} NVL"  # another product, of one memory each
    size = re.search(r"(\d{2,3})\s*G[BOT]\b", text, re.IGNORECASE)
    return f"{model}-{size[1]}GB" if size else model


def without_models(text: str) -> str:
    """Leave out the names of GPU models."""
    return _MODEL.sub(" ", text)


def gpu_models(text: str) -> list[str]:
    """Return the short names of the GPU models in a text, each once, in its order."""
    return list(dict.fromkeys(re.sub(r"\s+", "", match[1]).upper() for match in _MODEL.finditer(text)))


def _thousands(unit: Unit) -> str:
    """Write a unit of money: ``1000 EUR``."""
    return unit.currency if unit.factor == 1 else f"{unit.factor} {unit.currency}"


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
