"""How an offer is to be read where its file does not say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from procure.errors import TableError
from procure.schemas import QUOTE
from procure.text import money, nearest

READ_ONLY = {
    "quantity": "how many are offered; price_usd times it must be total",
    "total": "the price of all of them",
    "sockets": "processors of one node",
    "cores_per_socket": "cores of one processor; times sockets they are cpus",
    "none": "a column that is not read, and changes no price",
}
"""What a heading may be beside the columns of the quote table."""
FIELDS = (*QUOTE.names, *READ_ONLY)
CODES = frozenset(
    "AED ARS AUD BGN BRL CAD CHF CLP CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR ISK JPY KRW KZT MAD MXN MYR NGN "
    "NOK NZD PEN PHP PKR PLN QAR RON RSD SAR SEK SGD THB TRY TWD UAH USD VND ZAR".split()
)
_SIGNS = {
    "$": "USD", "us$": "USD", "usd$": "USD", "us-dollar": "USD", "€": "EUR", "euro": "EUR", "euros": "EUR", "£": "GBP",
    "fr": "CHF", "sfr": "CHF", "zł": "PLN", "kč": "CZK", "ft": "HUF", "₹": "INR", "₺": "TRY", "₩": "KRW", "r$": "BRL",
}  # fmt: skip
_DOLLARS = {"AUD", "CAD", "HKD", "MXN", "NZD", "SGD", "TWD", "USD"}


@dataclass(frozen=True)
class Reading:
    """What the user says of an offer; see `procure.packages.quote_file.OfferReading`, in exact decimals."""

    currency: str | None = None
    rates: Mapping[str, Decimal] = field(default_factory=dict)
    decimal: Literal["comma", "point"] | None = None
    tax_percent: Decimal | None = None
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    category: Mapping[str, str] = field(default_factory=dict)
    ignore: Sequence[str] = ()


def normal(text: str) -> str:
    """Return a heading in lower case with single spaces, without marks at its ends."""
    return " ".join(re.sub(r"[_\u00a0\n]+", " ", text).casefold().split()).strip(" :*.#")


def currency_code(text: str) -> str:
    """Return a currency's code in capitals; one that is not known is an error."""
    code = text.strip().upper()
    if code not in CODES:
        raise TableError(f"{text!r} is no currency; {nearest(code, sorted(CODES))}")
    return code


def currency_of(text: str, stated: str | None) -> str | None:
    """Return the code of a currency as written beside an amount; None where it is no one currency.

    ``$`` is the dollar that the user stated, else the US dollar.
    """
    word = text.strip().casefold().rstrip(".")
    if word == "$" and stated in _DOLLARS:
        return stated
    return word.upper() if word.upper() in CODES else _SIGNS.get(word)


def in_usd(text: str, rates: Mapping[str, float]) -> float:
    """Return an amount in US$ to the cent: ``1.2M``, or by its rate ``€300,000`` and ``300000 EUR``, else raise."""
    words = re.findall(r"[^\d\s.,_+-]+", text)
    code = next((found for word in words if (found := currency_of(word, None))), "USD")
    if code == "USD":
        return money(text)
    if code not in rates:
        raise ValueError(f"{text!r} is in {code}, which has no rate; --rate {code}=1.08 says what one is in US$")
    plain = next(text.replace(word, "", 1) for word in words if currency_of(word, None) == code)
    return round(money(plain) * rates[code], 2)
