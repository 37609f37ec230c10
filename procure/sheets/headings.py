"""Which column of the quote table a heading means, and which unit, currency and tax it states."""

from __future__ import annotations

import functools
import re
import tomllib
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from procure.schemas import QUOTE
from procure.sheets.units import Unit, tax_of, unit_of

_WORDS = Path(__file__).parent / "headings.toml"
_EACH = re.compile(
    r"\b(per|pro|je|par|por|a|/)\s*(node|server|unit|piece|item|each|knoten|stuck|einheit|noeud|serveur|unite|piece|nodo|"
    r"servidor|unidad|unita|stuk|system)\b|\beach\b|\bunitaire\b(?<!prix unitaire)"
)
_LEASE = re.compile(r"\b(month|monat|mois|mes|mese|maand|rate|miete|leasing|lease|rental|location|alquiler)\b")
_SETS = re.compile(
    r"\b(chassis|enclosure|rack|bundle|set|kit|paket|cluster|chasis|telaio)\b|\b(per|pro|par|por|je)\s+\d+"
)


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
    """

    column: str = ""
    rank: int = 0
    unit: Unit | None = None
    gross: bool | None = None
    not_one_node: str = ""


@functools.cache
def _known() -> dict[str, tuple[str, int]]:
    words = tomllib.loads(_WORDS.read_text(encoding="utf-8"))
    found = {plain_words(word): (column, n) for column, list_ in words.items() for n, word in enumerate(list_)}
    return found | {plain_words(name): (name, -1) for name in QUOTE.names}


def plain_words(text: str) -> str:
    """Return text in lower case without accents and punctuation: ``Höhe (HE)`` is ``hohe he``."""
    text = unicodedata.normalize("NFKD", text.casefold().replace("œ", "oe"))
    text = "".join(letter for letter in text if not unicodedata.combining(letter))
    return " ".join(re.sub(r"[^a-z0-9€£¥$%]+", " ", text).split())


@functools.lru_cache(maxsize=4096)
def heading_of(text: str) -> Heading:
    """Return what a heading says; see `Heading`."""
    if text.strip() in QUOTE.by_name:
        return Heading(text.strip(), -1)
    gross, unit, words = tax_of(text), None, []
    bracketed = re.findall(r"[(\[{]([^)\]}]*)[)\]}]", text)
    rest = re.sub(r"[(\[{][^)\]}]*[)\]}]", " ", text)
    for part in [one for each in bracketed for one in [each, *re.split(r"[,;/ ]+", each)]]:
        unit = unit or unit_of(part)
    match = re.search(r"(?:\bin\b|/|,|\ben\b)\s*([^\s/,]{1,10})\s*$", rest, re.IGNORECASE)
    if match and unit_of(match[1]) is not None:
        unit, rest = unit or unit_of(match[1]), rest[: match.start()]
    words = plain_words(_without_tax(rest)).split()
    known = _known()
    last = unit_of(words[-1]) if len(words) > 1 and " ".join(words) not in known else None
    if last is not None and last.kind in ("money", "memory", "power"):
        unit, words = unit or last, words[:-1]
    plain = " ".join(words)
    short = " ".join(_EACH.sub(" ", plain).split())
    column, rank = known.get(plain) or known.get(short) or known.get(plain_words(rest)) or ("", 0)
    if column == "_price" and short != plain:
        column = "price_usd"  # a price per node
    all_words = plain_words(text)
    odd = ""
    if column in ("_price", "price_usd", "_total") or "price" in all_words or "preis" in all_words:
        odd = "a month or a year" if _LEASE.search(all_words) else "several nodes" if _SETS.search(all_words) else ""
    return Heading(column, rank, unit, gross, odd)


_TAX = (
    r"\b(netto|brutto|net|gross|ht|ttc|hors taxes?"
    r"|(?:exkl|inkl|excl|incl|zzgl|ohne|mit|ex|sin|con|senza|hors)\.?\s*(?:mwst|ust|vat|tax|tva|iva|btw)\.?"
    r"|(?:iva|btw|tva|vat|tax|mwst)\.?\s*(?:incl|inclusa|incluido|esclusa|excluido|excl|included|excluded)\w*\.?)(?=\W|$)"
)


def _without_tax(text: str) -> str:
    return re.sub(_TAX, " ", text, flags=re.IGNORECASE)
