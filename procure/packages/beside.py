"""What an order costs beside its servers: percentages, tax, racks, network; and which orders a budget holds with it."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from procure.packages.finance import Percent, cents
from procure.settings import MOST_LISTED, Money, PositiveInt, Settings

_NonNegative = Annotated[float, Field(ge=0)]


class Beside(Settings):
    """What the budget has to hold beside servers and fixed costs, as `procure.packages.costs.Costs` gives it.

    Parameters
    ----------
    tax_percent
        On all that is bought once.
    percents
        Of lines that cost a part of the servers' price after discounts.
    rack_usd, rack_height_units
        Of each line per rack; units of one rack.
    nodes_per_switch, switch_usd, switch_rack_units, cables_per_node, cable_usd
        As in `procure.packages.costs.Costs`.
    """

    tax_percent: Percent = 0.0
    percents: Annotated[tuple[_NonNegative, ...], Field(max_length=MOST_LISTED)] = ()
    rack_usd: Annotated[tuple[Annotated[Money, Field(ge=0)], ...], Field(max_length=MOST_LISTED)] = ()
    rack_height_units: PositiveInt = 42
    nodes_per_switch: PositiveInt | None = None
    switch_usd: Annotated[Money, Field(ge=0)] = 0.0
    switch_rack_units: _NonNegative = 0.0
    cables_per_node: _NonNegative = 1.0
    cable_usd: Annotated[Money, Field(ge=0)] = 0.0

    @property
    def by_count(self) -> bool:
        """Whether it turns on how many nodes are bought, and not only on their price."""
        return bool(self.rack_usd or self.cable_usd or (self.switch_usd and self.nodes_per_switch))

    def whole_usd(
        self, servers_usd: np.ndarray, fixed_usd: float, n_nodes: np.ndarray | int = 0, units: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """Return what whole orders come to, US$ to the cent, of nodes that fill so many rack units."""
        servers = np.asarray(servers_usd, dtype="float64")
        switches = 0 if self.nodes_per_switch is None else -(-np.asarray(n_nodes) // self.nodes_per_switch)
        racks = np.ceil(np.round((units + switches * self.switch_rack_units) / self.rack_height_units, 6))
        n_cables = np.ceil(np.round(np.asarray(n_nodes) * self.cables_per_node, 6))
        once = servers + fixed_usd + (switches * self.switch_usd + n_cables * self.cable_usd)
        once = once + sum(cents(servers * percent / 100) for percent in self.percents)
        once = once + racks * sum(self.rack_usd)
        return cents(once + cents(once * self.tax_percent / 100))

    def most_cents(self, budget_cents: int, fixed_cents: int) -> int:
        """Return for how many cents servers may be bought at most, before racks and network; below 0 for none."""

        def whole(servers_cents: int) -> int:
            return round(float(self.whole_usd(np.array(servers_cents / 100), fixed_cents / 100)) * 100)

        low, high = -1, budget_cents
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if whole(middle) <= budget_cents else (low, middle - 1)
        return low
