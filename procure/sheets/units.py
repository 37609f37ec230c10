"""Numbers and units as people write them: decimal commas, groups of thousands, currencies, GB, kW, rack units."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from procure.sheets.grid import Cell
from procure.sheets.words import NODE, PER, PIECE, folded, pattern, vocabulary

Decimals = Literal["comma", "point"]

_OF_A_KIND = {
    kind: {word: Decimal(worth) for worth, words in of_it.items() for word in words.split()}
    for kind, of_it in vocabulary()["units"].items()
}
_CURRENCIES = {word: code for code, words in vocabulary()["currencies"].items() for word in words.split()}
_THOUSANDS = dict.fromkeys(("k", "t", "tsd", "ezer", "tis", "tys", "tuh", "mii", "千"), 1000) | {
    "m": 10**6,
    "mio": 10**6,
    "万": 10**4,
}
CODES = frozenset(code for code in _CURRENCIES.values() if len(code) == 3)


@dataclass(frozen=True)
class Unit:
    """A unit: its kind (``money memory power height cores pieces``), what one is worth, and a currency's code."""

    kind: str
    factor: Decimal
    currency: str = ""


def unit_of(text: str) -> Unit | None:
    """Return the unit that a text is, None where it is none: ``GB``, ``kW``, ``HE``, ``€``, ``TEUR``, ``k$``."""
    word = text.strip().casefold().rstrip(".").replace("\u00a0", "")
    for kind, units in _OF_A_KIND.items():
        if word in units:
            return Unit(kind, units[word])
    word = word.replace(" ", "")
    if word in _CURRENCIES:
        return Unit("money", Decimal(1), _CURRENCIES[word])
    for many, factor in _THOUSANDS.items():
        for rest in (
            word.removeprefix(many) if word.startswith(many) else "",
            word.removesuffix(many) if word.endswith(many) else "",
        ):
            if (rest := rest.strip(".")) in _CURRENCIES and rest != "kr":
                return Unit("money", Decimal(factor), _CURRENCIES[rest])
    return None


_NAMES = {code: re.compile(names, re.IGNORECASE) for code, names in vocabulary()["currency_names"].items()}


def with_codes(text: str) -> str:
    """Write currencies by their codes: ``in Canadian dollars`` is ``in CAD``; accents are left out."""
    text = folded(text)
    for code, names in _NAMES.items():
        text = names.sub(code, text)
    return text


_NET = pattern("net", re.I)
_GROSS = pattern("gross", re.I)


def tax_of(text: str) -> bool | None:
    """Tell whether a text says that prices are with tax (True) or without (False); None where it says neither."""
    text = folded(text)
    if _GROSS.search(text):
        return True
    if _NET.search(text):
        return False
    if pattern("with_tax", re.I).search(text):
        return None if pattern("negated", re.I).search(text) else True
    return None


def without_tax(text: str) -> str:
    """Leave out what a text says of tax."""
    return _NET.sub(" ", _GROSS.sub(" ", text))


_SPACES = re.compile(r"(?<=\d)[\s'’‘´`\u00a0\u202f\u2009](?=\d{3}(?:\D|$))")
_BY_POINT = re.compile(r"[-+]?(\d{1,3}(,\d{3})+(\.\d+)?|\d+(\.\d+)?|\.\d+)")
_BY_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+(,\d+)?|\d+(,\d+)?|,\d+)")
_INDIAN = re.compile(r"[-+]?\d{1,2}(,\d{2})+,\d{3}(\.\d+)?")
"""Lakhs: ``1,49,500``."""


def numbers(text: str) -> dict[Decimals, Decimal]:
    """Return what a written number is where the point, and where the comma, separates decimals; neither if it is none.

    Spaces and apostrophes separate thousands in both; beside them, either mark separates decimals.
    """
    text = text.strip().replace("−", "-")
    joined = _SPACES.sub("", text)
    if joined != text and re.fullmatch(r"[-+]?\d+([.,]\d+)?", joined):
        value = Decimal(joined.replace(",", "."))
        return {"point": value, "comma": value}
    found: dict[Decimals, Decimal] = {}
    if _BY_POINT.fullmatch(joined):
        found["point"] = Decimal(joined.replace(",", ""))
    if _INDIAN.fullmatch(joined):
        return {"point": Decimal(joined.replace(",", ""))}
    if _BY_COMMA.fullmatch(joined):
        found["comma"] = Decimal(joined.replace(".", "").replace(",", "."))
    return found


@dataclass(frozen=True)
class Amount:
    """A written amount: what its number may be, by decimal mark, the unit beside it, and whether a ``k`` was."""

    values: dict[Decimals, Decimal]
    unit: Unit | None
    in_thousands: bool = False


_MARK = re.compile(r"(?<=\S)(\s*[*†‡]+|\s*[¹²³⁴⁵⁶⁷⁸⁹]+|(?<=[\d€$£])\s+\d\))$")
"""What stands behind an amount for a footnote: ``*``, ``²``, `` 1)``."""


def without_mark(text: str) -> str:
    """Leave out the mark of a footnote behind an amount: ``14.950 €*``, ``14.950 € 1)``."""
    return _MARK.sub("", text.strip())


def amount_of(text: str) -> Amount | None:
    """Read a number with or without a unit: ``14.950,00 €``, ``CHF 12'345``, ``1.5 TB``; None if it is neither."""
    text = _without_words(without_mark(text))
    text = re.sub(r"^\(([^()]*\d[^()]*)\)$", r"-\1", text)  # ($1,000.00) is an amount below 0
    text = re.sub(r"^([-−])\s*([^\d\s.,]{1,4})\s*(?=\d)", r"\2 \1", text)  # -$1,000.00
    text = re.sub(r"(?<=\d)\s*(:-|/-)$", "", text)  # 14 950:- and 1,49,500/-
    text = re.sub(r"^(s?fr|kr|rs)\.\s*(?=\d)", r"\1 ", text, flags=re.IGNORECASE)
    text = re.sub(r"(?<=\d)[.,](--?|–|—)$", "", text) if re.match(r"(s?fr|chf)\b", text, re.IGNORECASE) else text
    match = pattern("amounts").fullmatch(text)
    if match is None:
        return None
    before, after = match["before"].strip(), match["after"].strip()
    number = match["number"].strip()
    if number.endswith((",", ".")):  # 14.950,- and 14.950,--
        number, after = number[:-1], after.lstrip("-–— ")
    values = numbers(number)
    words = [word for word in (before, after) if word]
    if len(words) == 2 and before.casefold() in ("us", "") and after:
        words = [before + after]
    factor = Decimal(1)
    if len(words) == 2 and after.casefold().rstrip(".") in _THOUSANDS:  # € 14.9k
        factor, words = Decimal(_THOUSANDS[after.casefold().rstrip(".")]), [before]
    unit = unit_of(words[0]) if len(words) == 1 else None
    if unit is None and len(words) == 1 and words[0].casefold().rstrip(".") in _THOUSANDS:
        many = Decimal(_THOUSANDS[words[0].casefold().rstrip(".")])
        return Amount({mark: value * many for mark, value in values.items()}, None, True) if values else None
    if not values or (words and unit is None):
        return None
    return Amount({mark: value * factor for mark, value in values.items()}, unit)


def _without_words(text: str) -> str:
    """Leave out what says that an amount is for one, or without tax."""
    text = _NET.sub(" ", text.strip())
    text = re.sub(rf"(\b{PER}|/)\s*({NODE}|{PIECE})\b\.?|\beach\b", " ", text, flags=re.IGNORECASE)
    return " ".join(text.replace("\u00a0", " ").replace("\u202f", " ").split())


def figure(cell: Cell) -> Decimal | None:
    """Return a cell's number where it can only be one."""
    if cell.is_number:
        return Decimal(str(cell.value))
    read = amount_of(cell.value) if isinstance(cell.value, str) else None
    return next(iter(read.values.values())) if read is not None and len(set(read.values.values())) == 1 else None
