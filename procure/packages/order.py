"""An order: what is paid once beside the servers, and the lines of an offer that are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from procure.errors import TableError
from procure.offers import Line
from procure.offers.headings import Kind
from procure.packages.rules import Discount, PackageRules
from procure.settings import MOST_LISTED, Money, PositiveInt, Settings
from procure.text import listed, nearest

OF_STUDY = "costs.lines["
"""What the place of a line begins with that stands in a study, not in a file."""
Percent = Annotated[float, Field(ge=0, lt=100)]
NonNegative = Annotated[float, Field(ge=0)]
Usd = Annotated[Money, Field(ge=0)]


def cents(usd: np.ndarray) -> np.ndarray:
    """Round US$ to the cent, half a cent up."""
    # 0.285 × 100 is a little less than 28.5: what floats are off by must not decide.
    return np.floor(np.round(np.asarray(usd, dtype="float64") * 100, 6) + 0.5) / 100


class CostLine(Settings):
    """A line of the whole offer that is no server, as a study's ``[[costs.lines]]`` gives it.

    Parameters
    ----------
    name, kind, vendor
        What it is; its kind as in a quote file; of a line per node: of whose servers, None = of all.
    usd, percent
        US$ of one, or % of the servers' price after discounts; exactly one of them.
    quantity
        How many, of a line per order.
    per
        ``order``, ``node`` (new nodes) or ``rack`` (racks of `Order.rack_height_units` that nodes and switches fill).
    when
        ``once``, with the purchase, or every ``year``.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    kind: Kind = "other"
    vendor: str | None = None
    usd: Annotated[Money, Field(ge=0, le=1e12)] | None = None
    percent: Annotated[float, Field(gt=0, le=100)] | None = None
    quantity: PositiveInt = 1
    per: Literal["order", "node", "rack"] = "order"
    when: Literal["once", "year"] = "once"

    @model_validator(mode="after")
    def _one_price(self) -> CostLine:
        if (self.usd is None) == (self.percent is None):
            raise ValueError("give exactly one of usd and percent")
        if self.kind == "discount":
            raise ValueError('a line costs; what is taken off is a [[packages.discounts]], kind = "discount" was given')
        if self.percent is not None and self.per != "order":
            raise ValueError(f'percent is of the whole order; per = "{self.per}" was given')
        if self.quantity > 1 and (self.per != "order" or self.percent is not None):
            raise ValueError('quantity belongs to a line in US$ per = "order"')
        if self.vendor is not None and (self.per != "node" or self.when != "once"):
            raise ValueError('vendor belongs to a line per = "node", when = "once"')
        return self

    @property
    def off_budget(self) -> bool:
        """Whether it is taken off the budget for servers: it is paid once, and does not turn on what is bought."""
        return self.when == "once" and self.usd is not None and self.per != "rack"


class Order(Settings):
    """What is paid once beside servers and fixed costs: percentages, racks, network and tax.

    Parameters
    ----------
    tax_percent
        Tax on all that is bought once; yearly prices are given with theirs.
    rack_height_units
        Of one rack, for lines per rack.
    lines
        Lines of the whole offer that are no servers, see `CostLine`.
    nodes_per_switch
        Nodes per switch; the number of switches is rounded up. None = no switches.
    switch_usd, switch_rack_units
        Of one switch.
    cables_per_node, cable_usd
        Cables of one new node, summed and rounded up, and the price of one.
    """

    tax_percent: Percent = 0.0
    rack_height_units: PositiveInt = 42
    lines: Annotated[tuple[CostLine, ...], Field(max_length=MOST_LISTED)] = ()
    nodes_per_switch: PositiveInt | None = None
    switch_usd: Usd = 0.0
    switch_rack_units: NonNegative = 0.0
    cables_per_node: NonNegative = 1.0
    cable_usd: Usd = 0.0

    @property
    def rack_usd(self) -> float:
        """US$ that the lines charge once for each rack."""
        return sum(one.usd for one in self.lines if one.when == "once" and one.per == "rack" and one.usd is not None)

    @property
    def percents(self) -> list[float]:
        """The lines that cost once a part of the servers' price after discounts, %."""
        return [one.percent for one in self.lines if one.when == "once" and one.percent is not None]

    @property
    def by_count(self) -> bool:
        """Whether it turns on how many nodes are bought, and not only on their price."""
        return bool(self.rack_usd or self.cable_usd or (self.switch_usd and self.nodes_per_switch))

    def n_switches(self, n_nodes: np.ndarray | int) -> np.ndarray:
        """Return how many switches so many nodes need, int64."""
        nodes = np.asarray(n_nodes)
        return np.zeros_like(nodes) if self.nodes_per_switch is None else -(-nodes // self.nodes_per_switch)

    def n_cables(self, n_nodes: np.ndarray | int) -> np.ndarray:
        """Return how many cables so many nodes need, int64."""
        # 3 × 1.1 cables are 3.3, though the product of the floats may be a little more.
        return np.ceil(np.round(np.asarray(n_nodes) * self.cables_per_node, 6)).astype("int64")

    def n_racks(self, units: np.ndarray) -> np.ndarray:
        """Return how many racks so many rack units fill, int64."""
        return np.ceil(np.round(units / self.rack_height_units, 6)).astype("int64")

    def network_usd(self, n_nodes: np.ndarray | int) -> np.ndarray:
        """Return what switches and cables cost, US$."""
        return np.asarray(self.n_switches(n_nodes) * self.switch_usd + self.n_cables(n_nodes) * self.cable_usd)

    def tax_usd(self, before_usd: np.ndarray) -> np.ndarray:
        """Return the tax on what an order comes to before it, US$ to the cent."""
        return cents(before_usd * self.tax_percent / 100)

    def total(
        self,
        servers_usd: np.ndarray,
        fixed_usd: np.ndarray | float,
        n_nodes: np.ndarray | int = 0,
        units: np.ndarray | float = 0.0,
    ) -> np.ndarray:
        """Return what whole orders come to, US$ to the cent: bill, budget, costs and report say this one sum.

        ``servers_usd`` is after discounts, ``fixed_usd`` paid once, whatever is bought; of ``n_nodes`` that fill so
        many rack ``units``, without switches.
        """
        servers = np.asarray(servers_usd, dtype="float64")
        once = servers + fixed_usd + self.network_usd(n_nodes)
        if self.rack_usd:
            filled = np.asarray(units + self.n_switches(n_nodes) * self.switch_rack_units)
            once = once + self.n_racks(filled) * self.rack_usd
        once = once + sum(cents(servers * percent / 100) for percent in self.percents)
        return cents(once + self.tax_usd(once))

    def most_cents(self, budget_cents: int, fixed_cents: int) -> int:
        """Return for how many cents servers may be bought at most, before racks and network; below 0 for none."""
        low, high = -1, budget_cents
        while low < high:
            middle = (low + high + 1) // 2
            whole = round(float(self.total(np.array(middle / 100), fixed_cents / 100)) * 100)
            low, high = (middle, high) if whole <= budget_cents else (low, middle - 1)
        return low


@dataclass(frozen=True)
class OrderLines:
    """The lines that are ``bought`` beside the servers, percentages among them, and the warranties ``left``."""

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
        """Return rules with the lines' cost in ``fixed_cost_usd``, and their percentages among the discounts."""
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
    """Choose which lines of an offer are bought: of each vendor's warranties the shortest that lasts so long.

    None = none of them. That none lasts so long is an error; a warranty that does not say for how long is bought.
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
            cell=f"{OF_STUDY}{number}]",
        )
        for number, line in enumerate(lines, 1)
        if line.off_budget
    )
