"""What an amount is in US$: its currency, the tax in it, and the rate that the user states."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from procure.sheets.cells import DOLLARS, SHORT, Unreadable
from procure.sheets.grid import Cell, Grid
from procure.sheets.lines import is_total, percentages
from procure.sheets.tables import Table
from procure.sheets.units import CODES, Decimals, Unit, amount_of, figure, tax_of, unit_of, with_codes
from procure.sheets.words import TAX, folded, pattern

_STATED = pattern("in_currency", re.I)


_CURRENCY_ROW = pattern("currency_rows", re.I)
"""A row above a table: ``Currency: EUR``, in one cell or two."""


def currency_in(row: list[Cell]) -> tuple[str, dict[str, str]] | None:
    """Return the currency that a row states, in one cell or in two beside each other, and what else these cells say.

    The text that is left over stands by the cell's address: of ``U.S. Dollars. Do not include tax.`` the sentence.
    """
    filled = [cell for cell in row if not cell.is_empty]
    if (match := _CURRENCY_ROW.fullmatch(with_codes(" ".join(cell.text for cell in filled)))) is not None:
        return match[1], {cell.address: "" for cell in filled}
    for cell in filled:
        said, _, rest = with_codes(cell.text).partition(",")
        if (match := _CURRENCY_ROW.fullmatch(said.strip())) is not None and unit_of(match[1]):
            return match[1], {cell.address: rest.strip()}
    for label, cell in itertools.pairwise(filled):
        said, _, rest = with_codes(cell.text).partition(". ")
        bare = re.sub(r"\b(?:HT|net(?:to)?|ex(?:cl?)?\.? \w+)$", "", said).strip()
        if (match := _CURRENCY_ROW.fullmatch(f"{folded(label.text)} {bare}")) is not None and unit_of(match[1]):
            return match[1], {label.address: "", cell.address: rest}
    return None


_NONE = Unit("money", Decimal(1))
_OTHER_DOLLARS = pattern("other_dollars", re.I)
_OF_TAX = re.compile(rf"pri[xcjs]|prei|prez|cen[ay]|{TAX}|税", re.IGNORECASE)


@dataclass(frozen=True)
class Convention:
    """How a file is to be read where it does not say.

    Attributes
    ----------
    rates
        US$ for one unit of a currency, by its code.
    currency
        Code of amounts that name none; None = that is an error.
    decimal
        The mark that separates decimals in text; None = as the file itself shows.
    tax_percent
        Tax that gross prices contain; None = a gross price is an error.
    harmless
        Words in lower case, without accents, that change no amount.
    columns
        What headings are, in `procure.sheets.mapped.FIELDS`, by heading.
    """

    rates: Mapping[str, Decimal] = field(default_factory=dict)
    currency: str | None = None
    decimal: Decimals | None = None
    tax_percent: Decimal | None = None
    harmless: frozenset[str] = frozenset()
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Terms:
    """What the text around a table says of all its prices: currency, whether tax is in them."""

    unit: Unit | None = None
    unit_where: str = ""
    gross: bool | None = None
    where: str = ""
    doubt_of_currency: str = ""
    other_dollar: str = ""
    unit_said: str = ""
    is_yen: bool = False


def sheet_terms(grid: Grid, table: Table) -> Terms:
    """Return what sentences of a sheet, outside the numbers of its tables, say of prices."""
    unit, unit_where, gross, where, currencies, unit_said = None, "its name", None, "", "", ""
    dollars = next((c.address for row in grid.rows for c in row if _OTHER_DOLLARS.search(c.text)), "")
    title = grid.sheet
    for word in re.split(r"[\s_()\[\],;-]+", title):
        if word in CODES or re.search(r"[€£]", word) or re.fullmatch(r"[Tk](EUR|CHF|USD|GBP)", word):
            unit = unit or unit_of(word)
    if tax_of(title):
        gross, where = True, title
    for row in grid.rows:
        for cell in row:
            if not isinstance(cell.value, str) or len(cell.value) < 3 or cell.address in table.heads:
                continue
            text, stated = cell.text, currency_in(row)
            is_alone = len({one.text for one in row if not one.is_empty}) == 1
            said = tax_of(text) if is_alone or _OF_TAX.search(text) else None
            if said and _has_tax_on_top(row, cell, table):
                said = None
            is_sentence = (len(text.split()) > 1 or "税" in text or is_alone) and amount_of(text) is None
            if said is not None and is_sentence and gross is not True:
                gross, where = said, cell.address
            match = _STATED.search(with_codes(text)) if stated is None else None
            word = stated[0] if stated is not None else match[1] if match is not None else ""
            found = unit_of(word) or (_coded(match) if match is not None else None)
            if word and found is not None and found.kind == "money":
                if unit is not None and unit != found:
                    currencies = (
                        f"may be in the currency of {text!r} ({cell.address}), or of one before; head it with one"
                    )
                unit_said = f"{unit_said} {word}"
                unit, unit_where = (unit, unit_where) if unit is not None else (found, cell.address)
    return Terms(unit, unit_where, gross, where, currencies, dollars, unit_said, _is_yen(grid, table))


def _is_yen(grid: Grid, table: Table) -> bool:
    """Tell whether ¥ is the yen: a table has Japanese letters, or the sheet names yen, and nothing is said of yuan."""
    in_table = " ".join(cell.text for row in [table.top, *table.rows] for cell in row)
    everywhere = " ".join(cell.text for row in grid.rows for cell in row)
    says_yen = re.search(r"[\u3041-\u30fa]", in_table) or re.search(r"円|\bJPY\b|\byen\b", everywhere, re.IGNORECASE)
    return bool(says_yen) and re.search(r"元|人民|\b(?:CNY|RMB|yuan)\b", everywhere, re.IGNORECASE) is None


def _coded(match: re.Match[str]) -> Unit | None:
    """Return the currency whose code stands in brackets right behind its name: ``in danske kroner (DKK)``."""
    code = re.match(r"(?: [^\W\d]+)? ?\(([A-Z]{3})\)", match.string[match.end() :])
    return unit_of(code[1]) if code is not None else None


def _has_tax_on_top(row: list[Cell], label: Cell, table: Table) -> bool:
    """Tell whether a total with tax is that of the amounts above it and a stated tax: then these are without it."""
    place = next((n for n in range(len(row) - 1, -1, -1) if figure(row[n]) is not None), None)
    total = None if place is None else figure(row[place])
    if place is None or total is None:
        return False
    at = row[place].address
    totals = table.columns.get("_total", table.columns.get("price_usd", place))
    place = next((n for one in table.rows for n in range(len(one) - 1, -1, -1) if one[n].address == at), totals)
    whole, taxes = Decimal(0), set(percentages(label.text))
    for other in table.rows:
        said = [cell.text for cell in other if isinstance(cell.value, str) and is_total(cell.text)]
        taxes |= {tax for text in said for tax in percentages(text)}
        amount = figure(other[place]) if place < len(other) and not said else None
        whole += amount or 0
    return any(whole > 0 and abs(total - whole * (1 + tax / 100)) <= whole / 1000 for tax in taxes)


class Pricing:
    """Turns amounts of a table's price columns into US$."""

    def __init__(self, table: Table, terms: Terms, convention: Convention) -> None:
        """Take the table, what its sheet says of prices, and what the user says."""
        self.table, self.terms, self.convention = table, terms, convention

    def usd(self, column: str) -> Callable[[Decimal, Unit | None], Decimal]:
        """Return what turns an amount of a column, and the unit beside it, into US$."""
        heading = self.table.headings.get(column)
        gross = heading.gross if heading is not None and heading.gross is not None else self.terms.gross
        is_ours = heading is not None and heading.rank < 0
        seen = self._seen_units(column)
        default = seen.pop() if len(seen) == 1 else None
        in_rows = {cell.address for row in self.table.rows for cell in row}
        said, is_bare = self.terms.unit, self._is_bare_dollar(column)

        def convert(value: Decimal, unit: Unit | None) -> Decimal:
            if unit is not None and unit.kind != "money":
                raise Unreadable("is no amount of money")
            is_dollar = said is not None and said.currency in DOLLARS and unit is not None and unit.currency == "USD"
            if is_dollar and self.terms.unit_where not in in_rows and self._shows_bare_dollar(column):
                unit = replace(unit or _NONE, currency=(said or _NONE).currency)
            if unit is not None and said is not None and said.currency in SHORT.get(unit.currency, ()):
                unit = replace(unit, currency=said.currency)
            if unit is not None and said is not None and said.factor != 1 and unit.factor == 1 and not is_ours:
                raise Unreadable(
                    f"may be in {said.factor} {said.currency}, as the sheet says ({self.terms.unit_where}); "
                    "state it in the heading"
                )
            if unit is not None and said is not None and said.currency != unit.currency and not is_ours:
                raise Unreadable(
                    f"is in {unit.currency}, and the sheet says {said.currency} ({self.terms.unit_where}); "
                    "state one of them"
                )
            if (unit or said or _NONE).currency == "USD" and is_bare and not is_ours:
                raise Unreadable(f"may be US dollars or others ({self.terms.other_dollar}); write USD, or that code")
            if unit is None and self.terms.doubt_of_currency and not is_ours:
                raise Unreadable(self.terms.doubt_of_currency)
            stated = unit or (self.terms.unit if not is_ours else None)
            factor = stated.factor if stated is not None else Decimal(1)
            code = "USD" if is_ours else self.convention.currency or default or ""
            code = stated.currency if stated is not None else code
            if not code:
                raise Unreadable(
                    'names no currency; state it in the heading, e.g. price (EUR), or as currency = "EUR" (--currency)'
                )
            amount = value * factor * self._rate(code)
            if gross:
                if self.convention.tax_percent is None:
                    raise Unreadable(
                        "is a price with tax; state the tax in it, e.g. tax_percent = 19 (--tax), or give net prices"
                    )
                amount = amount / (1 + self.convention.tax_percent / 100)
            return amount

        return convert

    def _rate(self, code: str) -> Decimal:
        if code == "USD":
            return Decimal(1)
        if code == "kr":
            raise Unreadable("may be Swedish, Norwegian or Danish crowns; write SEK, NOK or DKK")
        code = "JPY" if code == "¥" and self.terms.is_yen else code
        if code == "¥":
            raise Unreadable("may be yen or yuan; write JPY or CNY")
        if code not in self.convention.rates:
            raise Unreadable(
                f"is in {code}, which has no rate; state US$ for one: rates = {{ {code} = 1.08 }} (--rate {code}=1.08)"
            )
        return self.convention.rates[code]

    def _is_bare_dollar(self, column: str) -> bool:
        """Tell whether amounts of a column show a bare $ where the sheet names another dollar, or its country's tax."""
        return bool(self.terms.other_dollar) and self._shows_bare_dollar(column)

    def _shows_bare_dollar(self, column: str) -> bool:
        """Tell whether amounts of a column, or what states their currency, show a $, and no US."""
        beside = (column, "_currency", "_price_unit")
        cells = [self.table.cell(row, one) or Cell("") for row in self.table.rows for one in beside]
        heads = [head] if (head := self.table.header.get(column)) is not None else []
        shown = " ".join([self.terms.unit_said, *(cell.shown for cell in (*heads, *cells))])
        return "$" in shown and not re.search(r"\bUS", shown)

    def _seen_units(self, column: str) -> set[str]:
        """Return the currencies that stand beside amounts of the column."""
        found: set[str] = set()
        for row in self.table.rows:
            cell = self.table.cell(row, column)
            if cell is None:
                continue
            unit = unit_of(cell.unit) if cell.unit else None
            if isinstance(cell.value, str) and (amount := amount_of(cell.value)) is not None:
                unit = amount.unit
            if unit is not None and unit.kind == "money":
                found.add(unit.currency)
        return found
