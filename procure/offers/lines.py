"""The lines of an offer that are no servers: storage, switches, installation, warranty, discounts."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, get_args

Kind = Literal[
    "storage", "network", "rack", "installation", "delivery", "warranty", "training", "software", "support",
    "discount", "other",
]  # fmt: skip
KINDS: tuple[str, ...] = get_args(Kind)
"""What a line may be."""
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
