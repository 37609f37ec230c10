"""The lines of an offer that are no servers: storage, switches, installation, warranty, discounts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from procure.sheets.headings import plain_words
from procure.sheets.units import CODES
from procure.sheets.words import NODE, PER, TAX, pattern, themed, vocabulary

_Bought = Literal["storage", "network", "rack", "installation", "delivery", "warranty", "training", "software"]
Kind = _Bought | Literal["support", "discount", "other"]
_WORDS: dict[Kind, str] = vocabulary()["kinds"]
KINDS = (*_WORDS, "other")
"""What a line may be."""
_ON = r"\b(?:auf|on|sur|sobre|op|off|of)\s+(?:(?:den|die|das|diese\w*|this|the|le|il|el|het|alle[ns]?|all|les|los) )?"
_AFTER = re.compile(r"\b(net|netto\w*|total|gesamt\w*|\w*summe|prix|price|preis)\b.*\b(nach|after|apres)\b")
_PER_NODE = re.compile(rf"\b({PER}|a|na|each|jeden?|chaque|cada)\s+{NODE}\b")
INCLUDED = themed("free") | frozenset(vocabulary()["free_phrases"])
"""What stands in place of the price of what costs nothing more."""
_SCOPE = re.compile(rf"{_ON}(\w+)")


@dataclass(frozen=True)
class Line:
    """A line of an offer beside its servers.

    Attributes
    ----------
    kind
        What it is.
    name, vendor
        As written; vendor is empty where none is stated.
    quantity
        How many are offered; of a line per node 1.
    usd
        US$ of one, to the cent; below 0 for an amount that is taken off; 0 where ``percent`` counts.
    per
        ``order``: bought once with the order. ``node``: for each node that is bought.
    years
        Of a warranty: until the end of which year; None = not said.
    percent
        Of a discount: % off all servers of the vendor, of all vendors where none is stated.
    sheet, cell
        Where it stands.
    """

    kind: Kind
    name: str
    vendor: str
    quantity: int
    usd: Decimal
    per: Literal["order", "node"]
    years: int | None
    percent: Decimal | None
    sheet: str
    cell: str


def kind_of(text: str) -> Kind | None:
    """Return what a line without CPUs and memory is, by its words; None where they tell nothing."""
    words = plain_words(text)
    return next((kind for kind, known in _WORDS.items() if re.search(rf"\b({'|'.join(known.split())})\b", words)), None)


def is_total(text: str) -> bool:
    """Tell whether a line's words say that it is a sum of others, or the tax."""
    words = plain_words(text)
    beside_it = pattern("numbers_beside_sums")
    beside = [
        word
        for word in words.split()
        if word not in themed("sums") and not beside_it.fullmatch(word) and word.upper() not in CODES
    ]
    is_sum = len(beside) < len(words.split()) and not themed("sums").isdisjoint(words.split())
    return (is_sum and themed("beside_sums").issuperset(beside)) or pattern("tax_alone").fullmatch(words) is not None


def is_tax(text: str) -> bool:
    """Tell whether a text names a tax."""
    return re.search(rf"\b{TAX}\b", plain_words(text)) is not None


def may_be_total(text: str) -> bool:
    """Tell whether a line's words name a sum among others: ``Gesamtpreis inkl. Lieferung``, ``net after 5 % off``."""
    words = plain_words(text)
    return _AFTER.search(words) is not None or (
        pattern("may_be_totals").search(words) is not None and not percentages(text)
    )


def question(kind: Kind, text: str, is_held: bool = False) -> str:
    """Return what must be asked of a line of the order before its amount can count; empty = nothing.

    ``is_held``: a total holds the amount beside it, once: it is neither for each of several nor for each rack.
    """
    text = re.sub(r"\b[GMT](?:b|bit|B|T)/s\b|(?<=\d)/(?=\d)", " ", text)  # 25/100 GbE
    text = re.sub(r"\s/\s+(?=\w+\W+\w)", "; ", text)  # a name in two languages
    words = plain_words(text.replace("/", " per "))
    if kind == "discount":
        if not themed("already").isdisjoint(words.split()):
            return "may be in the prices already; delete the row, or say only how much is taken off"
        granted = re.sub(r"\bvolume(?= \w*(?:discount|rabatt))", " ", words) if is_held else words
        if pattern("condition").search(granted):
            return "is taken off on a condition; delete the row, or name it without the condition"
        scopes = [
            one[1] for one in _SCOPE.finditer(words) if one[1] not in themed("on_servers") and not one[1].isdigit()
        ]
        if scopes and not is_on_all(text):
            return f"is on {scopes[0]!r}, and a percentage is taken off all servers; lower the prices that it is on"
        return ""
    if pattern("recurring").search(words):
        return "is paid again and again; write what all years cost, or use support_usd_per_year, or lines of [costs]"
    if is_held:
        return ""
    if several := pattern("several_pieces", re.I).search(text):
        return f"may cost its amount for each or for all ({several[0].strip(' ()')}); head a column quantity"
    match = pattern("of_others").search(words)
    return f"is charged {match[0]}; write what one order pays, or a price per node" if match else ""


def is_settled(text: str) -> bool:
    """Tell whether a sentence on a discount changes no price: it is in the prices already, or for paying early."""
    return not themed("already").isdisjoint(plain_words(text).split()) or is_for_paying_early(text)


def is_for_paying_early(text: str) -> bool:
    """Tell whether a line states terms of payment: ``2 % Skonto bei Zahlung in 14 Tagen``."""
    return re.search(r"\b(skonto|escompte|cash discount|paiement|payment|zahlung\w*)\b", plain_words(text)) is not None


def is_on_all(text: str) -> bool:
    """Tell whether a discount is taken off the whole offer, not the servers alone: ``5 % Rabatt auf Gesamtsumme``."""
    return pattern("on_all").search(plain_words(text)) is not None


def is_per_node(text: str) -> bool:
    """Tell whether a line is charged for each node."""
    return _PER_NODE.search(plain_words(text.replace("/", " per "))) is not None


def is_optional(text: str) -> bool:
    """Tell whether a line is offered only on demand."""
    return pattern("optional").search(plain_words(text)) is not None


def years_of(text: str) -> int | None:
    """Return the years of a warranty in a text, the last that it names: ``from 3 years to 5 years`` is 5."""
    found = pattern("lasting").findall(plain_words(text))
    return int(found[-1][0]) if found else None


def percentages(text: str) -> list[Decimal]:
    """Return the percentages in a text, each once: ``5 % Rabatt`` has 5, ``3,125 %`` has 3.125."""
    found = re.findall(r"(?<![\d.,])(\d{1,3}(?:[.,]\d+)?)\s*%", text)
    return list(dict.fromkeys(Decimal(one.replace(",", ".")) for one in found))
