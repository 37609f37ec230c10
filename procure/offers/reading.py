"""How an offer is to be read where its file does not say: a study's ``[offers]``, and the options of `quotes check`."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from procure.errors import TableError
from procure.schemas import QUOTE
from procure.settings import PositiveInt, Settings
from procure.text import nearest

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


class OfferReading(Settings):
    """How a quote file is to be read where it does not say, as a study's ``[offers]`` gives it.

    Parameters
    ----------
    currency
        Code of the currency of prices that name none.
    rates
        US$ for one unit of a currency, by its code.
    decimal
        The mark that separates decimals in text such as ``14.950``.
    tax_percent
        Tax in all prices of the file; it is taken out of them.
    columns
        Headings by the column that each is, of `FIELDS`: ``{"name": ["Ürün"]}``; ``"=0"`` gives every row this value.
    category
        Categories by a pattern of names, the first that fits: ``{"GPU*": "gpu", "*": "compute"}``.
    ignore
        Cells whose text was read by a person and changes no price, such as ``A14`` or ``Offer!A14``.
    warranty_years
        The warranty that is bought: of each vendor's warranty lines the shortest that lasts so long.
        None = no warranty line is bought.
    """

    currency: str | None = None
    rates: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=dict)
    decimal: Literal["comma", "point"] | None = None
    tax_percent: Annotated[float, Field(ge=0, lt=100)] | None = None
    columns: dict[str, list[str]] = Field(default_factory=dict)
    category: dict[str, str] = Field(default_factory=dict)
    ignore: list[str] = Field(default_factory=list)
    warranty_years: PositiveInt | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_harmless(cls, values: Any) -> Any:
        if isinstance(values, dict) and "harmless" in values:
            raise ValueError("harmless: no longer a key; name the cells that change no price: ignore = ['A14']")
        return values

    @field_validator("currency")
    @classmethod
    def _known(cls, code: str | None) -> str | None:
        return code if code is None else currency_code(code)

    @field_validator("rates")
    @classmethod
    def _of_known(cls, rates: dict[str, float]) -> dict[str, float]:
        return {currency_code(code): rate for code, rate in rates.items()}

    @field_validator("columns", mode="before")
    @classmethod
    def _in_lists(cls, columns: object) -> object:
        if not isinstance(columns, dict):
            return columns
        return {name: [given] if isinstance(given, str) else given for name, given in columns.items()}

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


def normal(text: str) -> str:
    """Return a heading in lower case with single spaces, without marks at its ends."""
    return " ".join(re.sub(r"[_\u00a0\n]+", " ", text).casefold().split()).strip(" :*.#")


def currency_code(text: str) -> str:
    """Return a currency's code in capitals.

    Raises
    ------
    TableError
        It is none that is known.
    """
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
