"""Text beside the tables of an offer that may change a price: it is asked about, never read."""

from __future__ import annotations

import re

from procure.offers.grid import Cell
from procure.offers.reading import CODES, Reading, currency_of

_TAX = r"(?:vat|taxe?s?|mwst|ust|umsatzsteuer|mehrwertsteuer|gst|hst|tva|iva|btw)\b\.?"
_PRICES = r"(?:all(?:e)? )?(?:unit )?(?:prices?|preise|currency|währung|amounts?)?(?: are| sind| is)?[ :,]*"
_NET = re.compile(
    rf"{_PRICES}(?:net(?:to)?(?: of)?|excl\w*\.?(?: of)?|exkl\w*\.?|without|ohne|zzgl\.?|zuzüglich|plus|before)"
    rf"[ ,]*(?:\(?{_TAX}\)?)?",
    re.IGNORECASE,
)
_GROSS = re.compile(rf"\b(?:incl\w*|inkl\w*|with|mit|gross|brutto)\b.{{0,20}}?{_TAX}", re.IGNORECASE)
_IN = re.compile(rf"{_PRICES}(?:in )?[ :]*(\S+)", re.IGNORECASE)
CHANGES = re.compile(
    rf"%|[€£$]|\b(?:percent|prozent|rabatt\w*|discount\w*|rebate\w*|nachlass|skonto|surcharge|\w*zuschlag|{_TAX}"
    r"|aufpreis|prices?|preise?n?|\w+preise?|prix|precios?|prezz[io]|prij[sz]\w*|costs?|kosten|lease|rent\w*"
    r"|miet\w*|refurbished|used|gebraucht\w*|chassis|optional\w*|minimum|mindest\w*|only for|nur bei|fee|gebühr\w*"
    rf"|{'|'.join(sorted(CODES))})\b",
    re.IGNORECASE,
)
"""Words that tell of a price, a tax, a discount or a condition."""


def question(cell: Cell, reading: Reading) -> str:
    """Return what must be asked of a text that stands in no table; empty where it changes no price that is known."""
    text = cell.problem or cell.text
    if not CHANGES.search(text):
        return ""
    if _NET.fullmatch(text.strip(" .;*")):
        return (
            ""
            if not reading.tax_percent
            else "says that prices are without tax, and --set tax_percent takes it out of them"
        )
    if _GROSS.search(text) and not re.search(r"\d", text):
        return (
            ""
            if reading.tax_percent is not None
            else "says that prices are with tax; --set tax_percent=PERCENT says how much"
        )
    if (match := _IN.fullmatch(text.strip(" .;*"))) and (code := currency_of(match[1], reading.currency)):
        return "" if code == reading.currency else f"names {code}; --set currency={code} says that prices are in it"
    return "may change a price"
