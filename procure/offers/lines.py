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
