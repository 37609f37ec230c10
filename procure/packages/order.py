"""The lines of an offer that are no servers, as part of every order: what they cost, once and for each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import pandas as pd

from procure.errors import TableError
from procure.offers import Line
from procure.packages.finance import CostLine
from procure.packages.rules import Discount, PackageRules
from procure.text import listed, nearest

OF_STUDY = "costs.lines["
"""What the place of a line begins with that stands in a study, not in a file."""


@dataclass(frozen=True)
class OrderLines:
    """The lines that are bought beside the servers.

    Attributes
    ----------
    bought
        Lines that are bought, percentages among them; of each vendor's warranties the one that was chosen.
    left
        Warranties that are not.
    """

    bought: tuple[Line, ...] = ()
    left: tuple[Line, ...] = ()

    @property
    def fixed_usd(self) -> Decimal:
        """US$ that the lines cost once, whatever is bought."""
        return sum((line.usd * line.quantity for line in self.bought if line.per == "order"), Decimal(0))

    def with_services(self, quotes: pd.DataFrame) -> pd.DataFrame:
        """Return the quotes with what lines charge for each node in ``price_usd``: lines of its vendor, or of none."""
        for line in self.bought:
            if line.per == "node" and line.usd:
                rows = self.of_vendor(line, quotes)
                if not rows.any():
                    legal = [name for name in quotes["vendor"].unique() if name]
                    where = f"{line.cell}.vendor"
                    if not line.cell.startswith(OF_STUDY):
                        where = f"quotes, sheet {line.sheet}, {line.cell}: {line.name!r} is charged for each node"
                    raise TableError(f"{where}: no quote has the vendor {line.vendor!r}; {nearest(line.vendor, legal)}")
                quotes = quotes.assign(
                    price_usd=(quotes["price_usd"] + float(line.usd) * rows.astype("float64")).round(2)
                )
        return quotes

    @staticmethod
    def of_vendor(line: Line, quotes: pd.DataFrame) -> pd.Series:
        """Tell which quotes a line per node is charged for: those of its vendor, or all."""
        return (quotes["vendor"] == line.vendor) if line.vendor else pd.Series(True, index=quotes.index)

    def rules(self, rules: PackageRules) -> PackageRules:
        """Return rules with the lines' cost in ``fixed_cost_usd``, and their percentages among the discounts.

        Raises
        ------
        TableError
            What is taken off is more than what the lines cost, or nothing is left of the budget.
        """
        fixed = rules.fixed_cost_usd + float(self.fixed_usd)
        if fixed < 0:
            raise TableError(
                f"quotes: lines of the offer take off US$ {-self.fixed_usd:,.2f}, more than the others cost; "
                "give the discount in percent"
            )
        if fixed >= rules.budget_usd:
            raise TableError(
                f"quotes: the lines that are no servers cost US$ {self.fixed_usd:,.2f}; nothing is left of "
                f"budget_usd {rules.budget_usd:,.2f}"
            )
        off = [
            Discount(vendor=line.vendor or None, percent=float(line.percent))
            for line in self.bought
            if line.percent is not None
        ]
        return rules.model_copy(update={"fixed_cost_usd": round(fixed, 2), "discounts": (*rules.discounts, *off)})

    def notes(self) -> list[str]:
        """Say what is bought beside the servers, and what is not."""
        notes = []
        if self.bought:
            names = listed([(line.name or line.kind) + ", per node" * (line.per == "node") for line in self.bought])
            notes.append(f"quotes: the order has lines beside the servers, US$ {self.fixed_usd:,.2f} once: {names}")
        if self.left:
            names = listed([line.name for line in self.left])
            notes.append(f"quotes: not bought: {names}; [offers] warranty_years chooses a warranty")
        return notes


def order_lines(lines: Sequence[Line], warranty_years: int | None) -> OrderLines:
    """Choose which lines of an offer are bought: all but warranties that say for how many years, of which one.

    Parameters
    ----------
    lines
        Of `procure.packages.quote_file.QuoteFile`.
    warranty_years
        Of each vendor's warranties the shortest that lasts so long; None = none.

    Raises
    ------
    TableError
        A vendor has warranties, and none lasts so long.
    """
    tiers = [line for line in lines if line.kind == "warranty" and line.years is not None]
    bought = [line for line in lines if line not in tiers]
    for vendor in dict.fromkeys(line.vendor for line in tiers) if warranty_years is not None else ():
        own = sorted((line for line in tiers if line.vendor == vendor), key=lambda line: line.years or 0)
        long = [line for line in own if (line.years or 0) >= (warranty_years or 0)]
        if not long:
            raise TableError(
                f"offers.warranty_years: {warranty_years} was given; the longest warranty"
                f"{f' of {vendor}' if vendor else ''} is {own[-1].years} years"
            )
        bought.append(long[0])
    return OrderLines(tuple(bought), tuple(line for line in tiers if line not in bought))


def study_lines(lines: Sequence[CostLine]) -> tuple[Line, ...]:
    """Return the lines of a study's ``[costs]`` that are taken off the budget as lines of an order."""
    return tuple(
        Line(
            line.kind,
            line.name,
            line.vendor or "",
            line.quantity,
            Decimal(str(line.usd)),
            "node" if line.per == "node" else "order",
            None,
            None,
            "",
            f"{OF_STUDY}{number}]",
        )
        for number, line in enumerate(lines, 1)
        if line.off_budget
    )
