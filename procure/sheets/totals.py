"""Sums that an offer states, and percentages with an amount, are held against the rows that they are of."""

from __future__ import annotations

import re
from collections.abc import Set
from decimal import Decimal

from procure.sheets import lines as other
from procure.sheets.grid import Cell, row_label
from procure.sheets.headings import plain_words
from procure.sheets.tables import Table
from procure.sheets.units import figure, tax_of
from procure.sheets.words import themed


def disagreeing(
    table: Table, rows: list[tuple[str, list[Cell], str]], earlier: Decimal = Decimal(0)
) -> list[tuple[Cell, str]]:
    """Return each stated amount that is not that of its rows, and why, by rows and what each is.

    A row is a server, a line, unread, a share, or a total; ``earlier`` is the sum of tables above on the same sheet.

    Of a discount that is its percentage of the whole offer, and does not say so, the text is empty.
    """
    found, shares = list[tuple[Cell, str]](), list[tuple[Decimal, Cell, str]]()
    sums, since, taxes = {Decimal(0), earlier}, {Decimal(0)}, set[Decimal]()
    servers = everything = n_nodes = Decimal(0)
    for role, row, label in rows:
        cell, amount = _amount(table, row, role)
        if role == "unread" or (amount is None and not cell.is_empty and role != "share") or len(sums) > 4096:
            return found  # 14.950: what it is, is not told by itself; or sums of many options
        if role == "share":  # a tax in words that are not known: a percentage of what stands above, and this amount
            taxes |= {
                tax for tax in other.percentages(label) for one in sums if amount and _is_near(one * tax / 100, amount)
            }
            continue
        if role == "total":
            taxes |= set(other.percentages(label))
            fits = sums | since
            fits |= {
                one * part
                for one in fits
                for tax in {*taxes, sum(taxes, Decimal(0))}
                for part in (tax / 100, 1 + tax / 100)
            }
            if amount is None or (not taxes and (tax_of(label) or other.is_tax(label))):
                continue
            if not any(_is_near(one, amount) for one in fits):
                said = f"is not the {max(sums):,.2f} of the rows above it; name what is missing, or delete the total"
                found.append((cell, said))
                sums.add(amount)
            since = {Decimal(0)}
            continue
        count, value = _count(table, row), amount or Decimal(0)
        is_discount = role == "line" and other.kind_of(label) == "discount"
        percent = other.percentages(label) if is_discount else []
        value = -abs(value) if is_discount else value
        steps = {value}
        if role == "server":
            n_nodes += count
        elif other.is_per_node(label) and count == 1:  # for each node, or for all
            steps |= {value * n_nodes}
        if role == "server" or other.is_per_node(label):
            servers += max(steps, key=abs)
        everything += max(Decimal(0), *steps)
        if percent and amount is not None:
            shares.append((percent[0], cell, label))
        elif percent:
            steps = {-servers * percent[0] / 100, -everything * percent[0] / 100}
        steps |= {Decimal(0)} if other.is_optional(label) else set()
        sums, since = ({one + step for one in of for step in steps} for of in (sums, since))
    for share, cell, label in shares:
        whole = everything if other.is_on_all(label) else servers
        name = "all" if other.is_on_all(label) else "the servers"
        amount = abs(figure(cell) or Decimal(0))
        if name != "all" and not _is_near(amount, whole * share / 100) and _is_near(amount, everything * share / 100):
            found.append((cell, ""))
        elif not _is_near(amount, whole * share / 100):
            said = f"is not {share} % of {name} ({whole:,.2f}); write the amount without a percentage, or lower prices"
            found.append((cell, said))
    return found


def whole_of(table: Table, rows: list[tuple[str, list[Cell], str]]) -> Decimal:
    """Return the sum of a table's servers and lines."""
    return sum(
        (_amount(table, row, role)[1] or Decimal(0) for role, row, _ in rows if role in ("server", "line")), Decimal(0)
    )


def agreeing(table: Table, beneath_options: Set[int] = frozenset()) -> tuple[set[int], set[int]]:
    """Return the `id` of rows that a total states together, to the cent, and of such totals.

    Of a column of totals; a total has no quantity and no price of one, and is that of all rows above it, or of those
    since the last one, two at least, or one beneath the title that the total repeats. What stands in it is bought, once
    and at its amount, whatever its name says; a sum of options alone holds none. With the tax that is stated beneath
    it, it is a total again. ``beneath_options`` are rows that a heading says to be options.
    """
    held, sums = set[int](), set[int]()
    options = {id(row) for row in table.rows if other.is_optional(row_label(row))} | beneath_options
    above, since = dict[int, Decimal](), dict[int, Decimal]()
    title, last, taxes = list[Cell](), Decimal(0), Decimal(0)
    for row in table.rows:
        cell, label = table.cell(row, "_total"), row_label(row)
        amount = figure(cell) if cell is not None else None
        if amount is None:
            title = row
            continue
        is_part = _is_bought(table, row)
        is_own = other.may_be_total(label) and title and _words(row, cell) <= _words(title) | themed("sums")
        fits = [of for of in (above, since) if len(of) > (0 if is_own else 1) and _is_sum(of, amount)]
        if fits and not is_part:
            held |= fits[0].keys() if not options.issuperset(fits[0]) else set()
            sums.add(id(row))
            since = {}
        elif not is_part and taxes and other.may_be_total(label) and abs(last + taxes - amount) <= Decimal("0.02"):
            sums.add(id(row))
        elif is_part or not other.is_total(label):
            above[id(row)] = since[id(row)] = amount
        if not is_part and other.is_tax(label) and other.percentages(label):
            taxes += amount
        else:
            last, taxes = amount, Decimal(0)
    return held, sums


def repeated(table: Table, sums: set[int]) -> set[int]:
    """Return the `id` of rows that state the sums of all parts of a table once more, one after the other.

    Each has the amount of a sum, to the cent, no quantity, and only words of the title above that part.
    """
    stated, title = list[tuple[Decimal, set[str]]](), list[Cell]()
    rows = [(row, table.cell(row, "_total") or Cell("")) for row in table.rows]
    for n, (row, cell) in enumerate(rows):
        of_it = rows[n : n + len(stated)]
        if len(stated) == len(of_it) > 1 and all(
            figure(one) == amount and not _is_bought(table, again) and _words(again, one) <= words
            for (again, one), (amount, words) in zip(of_it, stated, strict=True)
        ):
            return {id(again) for again, _ in of_it}
        if (amount := figure(cell)) is None:
            title = row
        elif id(row) in sums and title:
            stated.append((amount, _words(title)))
            title = []
    return set()


def _is_bought(table: Table, row: list[Cell]) -> bool:
    """Tell whether a number stands beside a row's total: how many are bought, the price of one, what one has."""
    beside = [table.cell(row, one) or Cell("") for one in ("price_usd", "_quantity", "cpus", "mem_gb")]
    return re.search(r"\d", " ".join(one.text for one in beside)) is not None


def _words(row: list[Cell], but: Cell | None = None) -> set[str]:
    """Return the words of a row, its numbers included, but those of one cell."""
    return {word for cell in row if cell is not but for word in plain_words(cell.text).split()}


def _is_sum(amounts: dict[int, Decimal], whole: Decimal) -> bool:
    return abs(sum(amounts.values()) - whole) <= Decimal("0.02")


def _is_near(one: Decimal, two: Decimal) -> bool:
    return abs(one - two) <= max(abs(two) / 5000, Decimal("0.02"))


def _amount(table: Table, row: list[Cell], role: str) -> tuple[Cell, Decimal | None]:
    """Return the cell of a row's whole amount, and this amount; None where it states none."""
    undecided = Cell("")
    for name in ("_total", "price_usd"):
        cell = table.cell(row, name)
        if cell is None or "%" in cell.shown or not any(sign.isdigit() for sign in cell.text):
            continue
        if (value := figure(cell)) is not None:
            is_of_one = name == "price_usd" and "_divide" not in table.columns and role != "total"
            return cell, value * (_count(table, row) if is_of_one else 1)
        undecided = cell
    return undecided, None


def _count(table: Table, row: list[Cell]) -> Decimal:
    cell = table.cell(row, "_quantity")
    return (figure(cell) if cell is not None else None) or Decimal(1)
