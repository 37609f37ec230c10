"""The rules that say which packages may be bought, as they stand in a study file."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, model_validator

from procure.settings import MOST_LISTED, InputFile, Money, NaturalInt, PositiveInt, Settings
from procure.text import toml


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
    as_of, expired
        The day on which quotes must still be valid by their ``valid_until``, None = not asked; ``"leave-out"`` buys
        nothing of a quote that has expired, ``"error"`` refuses such a quote file.
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
    as_of: datetime.date | None = None
    expired: Literal["leave-out", "error"] = "leave-out"
    maximal: bool = True
    existing_nodes: InputFile | None = None
    retire: tuple[str, ...] = ()
    existing_down: Literal["keep", "leave-out"] = "keep"

    _order: Any = PrivateAttr(default=None)
    _servers_usd: float | None = PrivateAttr(default=None)

    @property
    def order(self) -> Any:
        """What the budget has to hold beside servers and ``fixed_cost_usd``: a `procure.packages.order.Order`."""
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
