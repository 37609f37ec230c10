"""The notes that the template's headings have: written there, and no news where a filled-in template is read."""

from __future__ import annotations

from procure.schemas import QUOTE

QUOTE_NOTES = {
    column.name: column.meaning
    + (f" ({column.unit})" if column.unit else "")
    + ("; required" if column.required else "")
    for column in QUOTE.columns
}
LINE_NOTES = {
    "kind": "storage, network, rack, installation, delivery, warranty, training, software, support, discount or other",
    "name": "what it is",
    "vendor": "who quoted; of a discount: on whose servers, empty = on all",
    "quantity": "how many",
    "per": "order: bought once; node: charged for each server",
    "price_usd": "US$ of one; empty for a discount in percent",
    "years": "of a warranty: how many years it lasts",
    "discount": "of a discount: percent off all servers, e.g. 5",
}
OWN = frozenset([*QUOTE_NOTES.values(), *LINE_NOTES.values()])
"""All of them."""
