"""How an offer is to be read where its file does not say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, field_validator

from procure.errors import TableError
from procure.schemas import QUOTE
from procure.settings import PositiveInt, Settings, exact_decimal
from procure.text import money, nearest

READ_ONLY = {
    "quantity": (
        "how many are offered; price_usd times it must be total",
        "qty, number of nodes, number of servers, menge, anzahl, anzahl knoten, anzahl server, stückzahl",
    ),
    "total": ("the price of all of them", "total price, line total, gesamtpreis, gesamt, summe"),
    "sockets": ("processors of one node", "anzahl cpus, number of cpus, anzahl prozessoren"),
    "cores_per_socket": (
        "cores of one processor; times sockets they are cpus",
        "cores per cpu, cores per socket, cores per processor, kerne pro cpu, kerne je cpu",
    ),
    "none": ("a column that is not read, and changes no price", ""),
}
"""What a heading may be beside the columns of the quote table: what that means, and its synonyms."""
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
    """Return the code of a currency beside an amount, ``$`` as stated, else US$; None where it is no one currency."""
    word = text.strip().casefold().rstrip(".")
    if word == "$" and stated in _DOLLARS:
        return stated
    return word.upper() if word.upper() in CODES else _SIGNS.get(word)


Exact = Annotated[Decimal, BeforeValidator(exact_decimal), PlainSerializer(float, return_type=float)]


def _listed(given: object) -> object:
    return [given] if isinstance(given, str) else given


class OfferReading(Settings):
    """How a quote file is to be read where it does not say, as a study's ``[offers]`` gives it.

    ``currency`` is that of prices that name none; ``rates`` are US$ for one unit of a currency, by its code;
    ``decimal`` the mark that separates decimals in text such as ``14.950``; ``tax_percent`` is in all prices, and taken
    out of them. ``columns`` are headings by the column that each is, of `FIELDS`: ``{"name":
    ["Ürün"]}``; ``"=0"`` gives every row this value. ``category``: by a pattern of names, the first that fits:
    ``{"GPU*": "gpu", "*": "compute"}``. ``ignore``: cells whose text was read by a person and changes no price, such as
    ``Offer!A14``. ``warranty_years``: of each vendor's warranty lines the shortest that lasts so long is bought; None =
    no warranty line.
    """

    currency: Annotated[str, AfterValidator(currency_code)] | None = None
    rates: dict[str, Annotated[Exact, Field(gt=0)]] = Field(default_factory=dict)
    decimal: Literal["comma", "point"] | None = None
    tax_percent: Annotated[Exact, Field(ge=0, lt=100)] | None = None
    columns: dict[str, Annotated[list[str], BeforeValidator(_listed)]] = Field(default_factory=dict)
    category: dict[str, str] = Field(default_factory=dict)
    ignore: list[str] = Field(default_factory=list)
    warranty_years: PositiveInt | None = None

    REMOVED: ClassVar[dict[str, str]] = {"harmless": "name the cells that change no price: ignore = ['A14']"}

    @field_validator("rates")
    @classmethod
    def _of_known(cls, rates: dict[str, Decimal]) -> dict[str, Decimal]:
        return {currency_code(code): rate for code, rate in rates.items()}

    @field_validator("columns")
    @classmethod
    def legal(cls, columns: dict[str, list[str]]) -> dict[str, list[str]]:
        """Return the columns that headings are stated to be, if each can be one, and no heading is two."""
        if unknown := [repr(name) for name in columns if name not in FIELDS]:
            raise ValueError(f"{', '.join(unknown)}: no column that a heading can be; allowed: {', '.join(FIELDS)}")
        headings = [normal(text) for given in columns.values() for text in given if not text.startswith("=")]
        if twice := [text for n, text in enumerate(headings) if not text or text in headings[:n]]:
            raise ValueError(f"heading {twice[0]!r} was given twice, or is empty; one column for each heading")
        return columns


def in_usd(text: str, rates: Mapping[str, Decimal]) -> float:
    """Return an amount in US$ to the cent: ``1.2M``, or by its rate ``€300,000`` and ``300000 EUR``, else raise."""
    words = re.findall(r"[^\d\s.,_+-]+", text)
    code = next((found for word in words if (found := currency_of(word, None))), "USD")
    if code == "USD":
        return money(text)
    if code not in rates:
        raise ValueError(f"{text!r} is in {code}, which has no rate; --rate {code}=1.08 says what one is in US$")
    plain = next(text.replace(word, "", 1) for word in words if currency_of(word, None) == code)
    return round(money(plain) * float(rates[code]), 2)
