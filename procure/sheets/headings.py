"""Which column of the quote table a heading means, and which unit, currency and tax it states."""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from procure.schemas import QUOTE
from procure.sheets.units import Unit, tax_of, unit_of, without_tax
from procure.sheets.words import NODE, PER, PIECE, TAX, folded, pattern, themed

_WORDS = Path(__file__).parent / "headings.toml"
_EACH = re.compile(rf"\b({PER}|a|na|/)\s*({NODE}|{PIECE})\b|\beach\b|\bunitaire\b(?<!prix unitaire)")
_ONE_NODE = re.compile(rf"{NODE}|{PIECE}")
_OF_EACH = re.compile(rf"\b{PER}\s+(\w+)")
_OF_PART = re.compile(r"/\s*(kerne?|cores?|cpus?|gpus?|sockets?|sockel|coeurs?)\b", re.IGNORECASE)
NUMBERS = frozenset("price_usd _price _list_price _total cpus mem_gb gpus power_w idle_power_w rack_units".split())
"""Columns whose amounts are those of one node: what a heading says besides must be understood."""
_PRICES = frozenset("price_usd _price _list_price _total".split())


_LETTERED = re.compile(
    r"\((?:[A-F]|[A-F](?:\s*[x×*+-]\s*[A-F])+)\)|^\s*(?:Firm|Fixed)\s+(?=(?:Unit|Qty|Quantity)\b)|\sExcl\.?\s*$"
)
"""A column's letter, how it is reckoned of others, that it is firm, an end: ``Firm qty (A)``, ``(A x B)``, ``Excl``."""


@dataclass(frozen=True)
class Heading:
    """What a heading says.

    Attributes
    ----------
    column
        Of the quote table, or a name with _ from ``headings.toml``; empty = not known.
    rank
        Place in the list of words for the column: of two columns of text, the lower counts.
    unit
        Unit that it states, e.g. of ``Preis [k€]``.
    gross
        True: with tax, False: without, None: not said.
    not_one_node
        Of a price: it is that of a set, a rack, a month; empty = of one node as far as is said.
    doubt
        What the heading says of an amount that is not understood, or that makes it none of one node.
    """

    column: str = ""
    rank: int = 0
    unit: Unit | None = None
    gross: bool | None = None
    not_one_node: str = ""
    doubt: str = ""


@functools.cache
def _known() -> dict[str, tuple[str, int]]:
    words = tomllib.loads(_WORDS.read_text(encoding="utf-8"))
    found = {plain_words(word): (column, n) for column, list_ in words.items() for n, word in enumerate(list_)}
    return found | {plain_words(name): (name, -1) for name in QUOTE.names if name != "price_usd"}


def columns_known() -> set[str]:
    """Return the columns that headings are known of."""
    return {column for column, _ in _known().values()}


@functools.cache
def heading_words() -> frozenset[str]:
    """Return the single words of headings."""
    return frozenset(word for heading in _known() for word in heading.split())


@functools.cache
def amount_words() -> frozenset[str]:
    """Return the single words that head columns of amounts, numbers and discounts."""
    columns = NUMBERS | {"_quantity", "_discount", "min_count", "max_count"}
    found = {word for word, (column, _) in _known().items() if column in columns and " " not in word and len(word) > 3}
    return frozenset(found) - {"hardware"} | {"figures", "angaben"}


def plain_words(text: str) -> str:
    """Return text in lower case without accents and punctuation: ``Höhe (HE)`` is ``hohe he``."""
    return " ".join(re.sub(r"[^a-z0-9€£¥$%\u3040-\u30ff\u4e00-\u9fff]+", " ", folded(text).casefold()).split())


@functools.lru_cache(maxsize=4096)
def heading_of(text: str) -> Heading:
    """Return what a heading says; see `Heading`."""
    if text.strip() in QUOTE.by_name:
        return Heading(text.strip(), -1)
    text = _LETTERED.sub(" ", re.sub(r"['’]s\b", "s", folded(text).replace("#", " no ")))
    gross, unit, words = tax_of(text), None, []
    bracketed = re.findall(r"[(\[{]([^)\]}]*)[)\]}]", text)
    rest = re.sub(r"[(\[{][^)\]}]*[)\]}]", " ", text)
    for part in [one for each in bracketed for one in [each, *re.split(r"[,;/ ]+", each)]]:
        unit = unit or unit_of(part)
    rest, n_each = pattern("of_one_node", re.I).subn(" ", rest)
    untaxed = _without_tax(rest)
    match = re.search(r"(?:\bin\b|/|,|\ben\b)\s*([^\s/,]{1,10})\s*$", untaxed, re.IGNORECASE)
    if match and unit_of(match[1]) is not None:
        unit, rest = unit or unit_of(match[1]), untaxed[: match.start()]
    words = plain_words(_without_tax(rest)).split()
    known = _known()
    if " ".join(words) not in known:  # a unit may stand anywhere: RAM GB per node
        kinds = ("money", "memory", "power")  # but of G-Preis, G is none
        held = [one for n, one in enumerate(map(unit_of, words)) if one is not None and one.kind in kinds[: 1 + 2 * n]]
        unit, left = unit or next(iter(held), None), [word for word in words if unit_of(word) not in held]
        words = left if n_each or not set(left) <= {"per", "je", "pro"} else words
    plain = " ".join(words)
    short = " ".join(_EACH.sub(" ", plain).split())
    column, rank = known.get(plain) or known.get(short) or known.get(plain_words(rest)) or ("", 0)
    if not column:
        bare = " ".join(word for word in short.split() if word not in themed("counting"))
        column, rank = known.get(bare, ("", 0)) if known.get(bare, ("", 0))[0] in NUMBERS else ("", 0)
        column = column or _composed(bare.split() or words, words)
    if not short and unit is not None and unit.kind == "money" and (n_each or plain):
        column = "_price"  # ``EUR / pc``
    if column in ("_price", "_total") and (short != plain or n_each):
        column = "price_usd"  # a price per node
    if column == "_measure" and unit is not None and unit.kind == "money":
        column = "price_usd"  # ``Unit (EUR)``
    if column == "_number" and unit is not None and unit.kind == "money":
        column = "_total"  # ``Line EUR``
    pieces = re.split(r"\s*[/&|]\s*", rest) if not column else []
    both = [heading_of(one) for one in pieces if one != text]
    if len(both) > 1 and all(one.column == "name" for one in both):
        column, rank = "name", min(one.rank for one in both)  # ``Artikel / Beschreibung``
    all_words = plain_words(text)
    odd = ""
    if column in ("_price", "price_usd", "_total") or "price" in all_words or "preis" in all_words:
        odd = (
            "a month or a year"
            if pattern("leases").search(all_words)
            else "several nodes"
            if pattern("sets").search(all_words)
            else ""
        )
    doubt = "" if odd or column not in NUMBERS else _doubt(plain_words(_without_tax(text)), bracketed, column)
    if not column and len(halves := [one for one in re.split(r"\s+/\s+", text) if one.strip()]) == 2:
        one, two = map(heading_of, halves)  # in two languages
        if one.column == two.column:
            said = one if one.doubt or one.not_one_node else two
            odd = _two_units([one.unit, two.unit]) if one.column in NUMBERS else ""
            return replace(said, unit=one.unit or two.unit or unit, gross=gross, doubt=said.doubt or odd)
    part = _OF_PART.search(text) if column in NUMBERS - {"cpus"} and not odd else None
    if part:
        doubt = f"is an amount for each {part[1]}; that of one node is needed"
    return Heading(column, rank, unit, gross, odd, doubt)


_GPUS = re.compile(rf"(?:{pattern('gpu_words').pattern})")
_COUNTED = re.compile(rf"{NODE}|{PIECE}|pcs|d[ei]|of|von|der|av")


def _composed(bare: list[str], words: list[str]) -> str:
    """Return the column of a heading that is made of known words: a number of pieces, the name of a server, GPUs."""
    left = [word for word in bare if word not in themed("of_all")]
    whole, rank = _known().get(" ".join(left), ("", 0)) if left != bare or left != words else ("", 0)
    if whole in ("cpus", "mem_gb", "gpus") and rank >= 0:
        return whole
    if _GPUS.fullmatch(" ".join(bare)):
        return "gpus"
    if len(words) == 2 and _known().get(words[1], ("",))[0] == "_discount" and words[0] not in amount_words():
        return "_discount"  # Edu disc.
    first, rest = words[:1], words[1:]
    if rest and set(first) <= themed("numbers_of") and all(_COUNTED.fullmatch(word) for word in rest):
        return "_quantity"
    is_name = bool(first) and _known().get(first[0], ("",))[0] == "name" and not _COUNTED.fullmatch(first[0])
    of_it = themed("machines", "products")
    return "name" if is_name and rest and all(_COUNTED.fullmatch(word) or word in of_it for word in rest) else ""


def _doubt(words: str, bracketed: list[str], column: str) -> str:
    """Return why amounts under a heading may be none of one node, or in another unit; empty where nothing says so."""
    if each := of_another(words):
        return f"is an amount {each}; that of one node is needed"
    if odd := _two_units([unit_of(part) for part in bracketed]):
        return odd
    for part in bracketed:
        if is_unit_of(part, column):
            continue
        over = re.fullmatch(r"\s*([^/\s]+)\s*/\s*(\w+)\s*", part)
        if over and unit_of(over[1]) is not None and not _ONE_NODE.fullmatch(plain_words(over[2])):
            return f"is an amount for each {over[2]}; that of one node is needed"
        if strange_in(part, column):
            return f"says ({part}), which is not understood here; leave it out, or write the unit alone"
    return ""


def _two_units(units: list[Unit | None]) -> str:
    """Return why amounts are not plainly in one of some units: two are of a kind, and differ."""
    stated = {unit for unit in units if unit is not None}
    is_odd = len(stated) > len({unit.kind for unit in stated})
    return "states two units for the same amounts; leave the one that they are in" if is_odd else ""


def of_another(text: str) -> str:
    """Return what a text says that its amounts are of, where that is no node: ``per CPU``; else nothing."""
    return next((one[0] for one in _OF_EACH.finditer(plain_words(text)) if not _ONE_NODE.fullmatch(one[1])), "")


def strange_in(part: str, column: str) -> list[str]:
    """Return the words in brackets that are neither a unit of a column's amounts nor known to change none."""
    if is_unit_of(part, column):
        return []
    bare = _without_tax(without_tax(part)) if column in _PRICES else part  # of cores HT is no tax
    bare = re.sub(rf"\b{TAX}\b|\d+(?:[.,]\d+)?\s*%", " ", bare) if tax_of(part) is not None else bare
    pieces = [one for one in re.split(r"[,;/ ]+", bare) if one]
    if len(pieces) == 1 and re.fullmatch(r"\d{1,2}|\*+", pieces[0]):
        return []
    return [one for one in pieces if not is_unit_of(one, column) and not _is_harmless(one)]


def is_of_each(text: str) -> bool:
    """Tell whether a heading says that its numbers are those of each node or system."""
    return _EACH.search(plain_words(text)) is not None


def of_each(text: str) -> list[str]:
    """Return what a heading says that each of its amounts is of: ``per core``, ``/GPU``."""
    return [one[0] for one in (*_OF_EACH.finditer(plain_words(text)), *_OF_PART.finditer(text))]


_KINDS = {"mem_gb": "memory", "power_w": "power", "idle_power_w": "power", "rack_units": "height", "cpus": "cores"}


def is_unit_of(word: str, column: str) -> bool:
    """Tell whether a word is a unit that a column's amounts may have: of a price not ``GPU``."""
    unit = unit_of(word)
    return unit is not None and unit.kind == ("money" if column in _PRICES else _KINDS.get(column, "pieces"))


def _is_harmless(word: str) -> bool:
    plain = plain_words(word)
    return (
        not plain
        or plain in themed("beside_units")
        or re.fullmatch(rf"ddr\d.*|{TAX}|{NODE}|{PIECE}", plain) is not None
    )


_TAX = pattern("tax_in_headings").pattern


def _without_tax(text: str) -> str:
    return re.sub(_TAX, " ", text, flags=re.IGNORECASE)
