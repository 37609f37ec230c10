"""The rules that say which packages may be bought, and an order: what is paid once beside the servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field, PrivateAttr, model_validator

from procure.errors import TableError
from procure.offers import Line
from procure.offers.headings import Kind
from procure.settings import MOST_LISTED, InputFile, Money, NaturalInt, PositiveInt, Settings
from procure.text import listed, nearest, toml


class TypeRule(Settings):
    """How many nodes of one type may be bought; each bound given here replaces the quote's."""

    min_count: NaturalInt | None = None
    max_count: NaturalInt | None = None

    @model_validator(mode="after")
    def _ordered(self) -> TypeRule:
        if self.min_count is not None and self.max_count is not None and self.min_count > self.max_count:
            raise ValueError(f"min_count {self.min_count} is above max_count {self.max_count}")
        return self


class Discount(Settings):
    """A reduction that is granted once an order is large enough.

    It is about the quotes that match all of ``vendor``, ``lot``, ``category`` and ``type`` as far as they are given,
    its scope; with none, about the whole order. Discounts of the same scope are tiers: the one that takes the most off
    counts. Those of different scopes are added, each reckoned on list prices. The order holds at least ``from_count``
    nodes of the scope, and ``from_usd`` of them at list price. ``percent`` (two decimal places) is off the list price
    of all nodes of the scope, rounded down to the cent; ``price_usd`` instead is that of one node of ``type``.
    """

    vendor: str | None = None
    lot: str | None = None
    category: str | None = None
    type: str | None = None
    from_count: PositiveInt = 1
    from_usd: Annotated[Money, Field(ge=0, le=1e12)] = 0.0
    percent: Annotated[float, Field(gt=0, lt=100)] | None = None
    price_usd: Annotated[Money, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _one_reduction(self) -> Discount:
        if (self.percent is None) == (self.price_usd is None):
            raise ValueError("give exactly one of percent and price_usd")
        if self.price_usd is not None and self.type is None:
            raise ValueError("price_usd is the price of one node of a type; give type, or percent")
        if self.percent is not None and round(self.percent, 2) != self.percent:
            raise ValueError(f"percent {self.percent!r} was given; it may have two decimal places")
        return self


NAMED_RULES: dict[str, dict[str, Any]] = {"published": {"min_gpu_nodes": 1, "types_per_category": 1}}
"""Rules by name: those of Hutchison (2024), section 3.4.1."""


class PackageRules(Settings):
    """Which packages may be bought.

    Attributes
    ----------
    rules
        A name in `NAMED_RULES`, whose rules hold where nothing else is said; None = none.
    budget_usd, fixed_cost_usd
        US$, to the cent; taken off it first: racks, switches, installation.
    categories, types, min_gpu_nodes
        Least number of nodes of a category; per type, ``min_count`` (if it is bought at all) and ``max_count``, 0 = not
        offered, instead of the quote's; least number of nodes with a GPU.
    max_power_w, max_rack_units
        Caps on the sums of the quotes' ``power_w`` and ``rack_units``; None = no cap.
    types_per_category, one_vendor_per_lot
        Most types of each category in one package, or ``"any"``; a ``lot`` is awarded to one ``vendor`` as a whole.
    discounts
        Tiered discounts of the vendors; see `Discount`.
    maximal
        Keep only packages to which no further node of a chosen type can be added.
    existing_nodes, retire, existing_down
        The nodes that are added to every package when it is simulated: a node table, or what ``scontrol show node -o``
        prints; which of them go: names as ``node[10-19]``, or kinds; whether those down or drained stay.

    Examples
    --------
    >>> import procure
    >>> procure.PackageRules(budget_usd="$1.2M").budget_usd
    1200000.0
    """

    REMOVED: ClassVar[dict[str, str]] = dict.fromkeys(
        ("as_of", "expired"), "what is offered no longer: types.NAME.max_count = 0; the report names lines that ended"
    )

    rules: Literal["published"] | None = None
    budget_usd: Annotated[Money, Field(gt=0, le=1e12)]
    fixed_cost_usd: Annotated[Money, Field(ge=0)] = 0.0
    categories: dict[str, NaturalInt] = Field(default_factory=dict)
    types: dict[str, TypeRule] = Field(default_factory=dict)
    min_gpu_nodes: NaturalInt = 0
    max_power_w: Annotated[float, Field(gt=0)] | None = None
    max_rack_units: Annotated[float, Field(gt=0)] | None = None
    types_per_category: PositiveInt | Literal["any"] = "any"
    discounts: Annotated[tuple[Discount, ...], Field(max_length=MOST_LISTED)] = ()
    one_vendor_per_lot: bool = True
    maximal: bool = True
    existing_nodes: InputFile | None = None
    retire: tuple[str, ...] = ()
    existing_down: Literal["keep", "leave-out"] = "keep"

    _order: Any = PrivateAttr(default=None)
    _servers_usd: float | None = PrivateAttr(default=None)

    @property
    def order(self) -> Any:
        """What the budget has to hold beside servers and ``fixed_cost_usd``: a `procure.packages.rules.Order`."""
        return self._order

    @property
    def servers_usd(self) -> float | None:
        """What the servers may cost at most, whatever else the budget holds."""
        return self._servers_usd

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, values: Any) -> Any:
        known = NAMED_RULES.get(str(values.get("rules"))) if isinstance(values, dict) else None
        return values if known is None else known | values

    @model_validator(mode="after")
    def _retired_from_something(self) -> PackageRules:
        if self.existing_nodes is None and self.retire:
            raise ValueError("retire needs existing_nodes, the file that lists the nodes")
        return self

    @model_validator(mode="after")
    def _something_left(self) -> PackageRules:
        if self.fixed_cost_usd >= self.budget_usd:
            raise ValueError(
                f"fixed_cost_usd {self.fixed_cost_usd:,.2f} leaves nothing of budget_usd {self.budget_usd:,.2f}"
            )
        return self


_NO_RULE: dict[str, Any] = {
    "min_gpu_nodes": 0, "types_per_category": "any", "categories": {}, "types": {}, "max_power_w": None,
    "max_rack_units": None,
}  # fmt: skip


ALL_RULES = "all these rules"


def without_each(rules: PackageRules) -> dict[str, PackageRules]:
    """Return the rules without each one that is set, by how a study file writes it; of several, also without all."""
    free = {name: value for name, value in _NO_RULE.items() if getattr(rules, name) != value}
    written = {name: toml(rules.model_dump(mode="json", exclude_none=True)[name]) for name in free}
    found = {f"{name} = {written[name]}": rules.model_copy(update={name: free[name]}) for name in free}
    return found | ({ALL_RULES: rules.model_copy(update=free)} if len(free) > 1 else {})


def with_whole_orders(rules: PackageRules, order: Any, servers_usd: float | None = None) -> PackageRules:
    """Return rules whose budget is for the whole order, and whose servers may cost up to ``servers_usd``."""
    rules = rules.model_copy()
    rules._order, rules._servers_usd = order, servers_usd
    return rules


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

    ``vendor`` is, of a line per node, of whose servers, None = of all; exactly one of ``usd`` of one and ``percent`` of
    the servers' price after discounts counts; ``quantity`` belongs to a line per order. It is ``per`` ``order``,
    ``node`` (new nodes) or ``rack`` (racks of `Order.rack_height_units` that nodes and switches fill), and paid
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

    ``tax_percent`` is on all that is bought once; yearly prices are given with theirs. ``rack_height_units`` are those
    of one rack, for ``lines`` per rack, see `CostLine`. The number of switches is rounded up from ``nodes_per_switch``,
    None = none, that of cables from ``cables_per_node``.
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
    """Choose the lines of an offer that are bought: of warranties the shortest of so many years, None = none.

    That none lasts so long is an error; a warranty that does not say for how long is bought.
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
