"""The lines of an offer that are no servers: storage, switches, installation, warranty, discounts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from procure.sheets.headings import plain_words

Kind = Literal[
    "storage",
    "network",
    "rack",
    "installation",
    "delivery",
    "warranty",
    "training",
    "software",
    "support",
    "discount",
    "other",
]
_WORDS: dict[Kind, str] = {
    "discount": r"discounts? \w*rabatt \w*nachlass remise rebate sconto descuento korting skonto",
    "warranty": r"warranty \w*garantie\w* garantia garanzia \w*gewahrleistung nbd",
    "installation": r"\w*installation inbetriebnahme \w*montage aufbau set\sup setup commissioning instalacion "
    r"installazione installatie mise\sen\sservice",
    "delivery": r"delivery \w*lieferung transport shipping freight fracht versand livraison envio consegna "
    "levering",
    "training": r"training \w*schulung formation workshop formacion formazione opleiding",
    "support": r"support \w*wartung maintenance soporte supporto onderhoud pflege",
    "network": r"switch switches infiniband ethernet cables? \w*kabel cabling transceivers? netzwerk network\w* "
    "interconnect reseau red rete",
    "storage": r"storage speichersystem massenspeicher nas san lustre beegfs jbod disk\sshelf stockage almacenamiento "
    "archivio opslag",
    "rack": r"racks? pdus? schrank schranke baie cooling kuhlung rear\sdoor",
    "software": r"software licen[cs]es? lizenz\w* licencia licenza",
}
_SUM = (
    r"(zwischen|gesamt|netto|brutto|sub)?-?\s*"
    r"(summe|sum|total|totale|totaal|gesamt|gesamtpreis|(net|grand) total|total price)"
)
_TOTALS = re.compile(
    rf"{_SUM}( (net|netto|gross|brutto|ht|ttc|general|in|eur|usd|chf|of offer|angebot))*"
    r"|(.{0,15}\b)?(mwst|ust|vat|mehrwertsteuer|tax|tva|iva|btw)( \d+)?( %)?"
)
_PER_NODE = re.compile(r"\b(per|pro|je|par|por|a)\s+(node|server|knoten|system|noeud|serveur|nodo|servidor)\b")
_OPTIONAL = re.compile(
    r"\b(optional|option|eventual|eventualposition|bedarfsposition|en option|opcional|opzionale|optioneel)\b"
)


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
    return next(
        (kind for kind, known in _WORDS.items() if re.search(rf"\b({'|'.join(known.split())})\b", words)),
        None,
    )


def is_total(text: str) -> bool:
    """Tell whether a line's words say that it is a sum of others, or the tax."""
    return _TOTALS.fullmatch(plain_words(text)) is not None


def is_per_node(text: str) -> bool:
    """Tell whether a line is charged for each node."""
    return _PER_NODE.search(plain_words(text)) is not None


def is_optional(text: str) -> bool:
    """Tell whether a line is offered only on demand."""
    return _OPTIONAL.search(plain_words(text)) is not None


def years_of(text: str) -> int | None:
    """Return the years of a warranty in a text: ``Garantie 5 Jahre`` is 5."""
    match = re.search(
        r"\b(\d{1,2})\s*(?:-|\s)?\s*(years?|yrs?|y|jahren?|jahre|j|ans|annees|anos|anni|jaar)\b",
        plain_words(text),
    )
    return int(match[1]) if match else None


def percentages(text: str) -> list[Decimal]:
    """Return the percentages in a text, each once: ``5 % Rabatt`` has 5, ``3,125 %`` has 3.125."""
    found = re.findall(r"(?<![\d.,])(\d{1,3}(?:[.,]\d+)?)\s*%", text)
    return list(dict.fromkeys(Decimal(one.replace(",", ".")) for one in found))
