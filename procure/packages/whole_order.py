"""What an order comes to: servers, fixed costs, percentages, racks, network and tax; which orders a budget holds."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from procure.packages.finance import Percent, cents
from procure.settings import MOST_LISTED, Money, PositiveInt, Settings

_NonNegative = Annotated[float, Field(ge=0)]


class Order(Settings):
    """What is paid once beside servers and fixed costs, as `procure.packages.costs.Costs` gives it.

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

    def n_switches(self, n_nodes: np.ndarray | int) -> np.ndarray:
        """Return how many switches so many nodes need, int64."""
        nodes = np.asarray(n_nodes)
        return np.zeros_like(nodes) if self.nodes_per_switch is None else -(-nodes // self.nodes_per_switch)

    def n_cables(self, n_nodes: np.ndarray | int) -> np.ndarray:
        """Return how many cables so many nodes need, int64."""
        # 3 × 1.1 cables are 3.3, though the product of the floats may be a little more.
        return np.ceil(np.round(np.asarray(n_nodes) * self.cables_per_node, 6)).astype("int64")

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

        Parameters
        ----------
        servers_usd
            After discounts.
        fixed_usd
            Paid once, whatever is bought.
        n_nodes, units
            Nodes, and the rack units that they fill, without switches.
        """
        servers = np.asarray(servers_usd, dtype="float64")
        racks = np.zeros_like(servers)
        if self.rack_usd:
            filled = units + self.n_switches(n_nodes) * self.switch_rack_units
            racks = np.ceil(np.round(filled / self.rack_height_units, 6))
        once = servers + fixed_usd + self.network_usd(n_nodes) + racks * sum(self.rack_usd)
        once = once + sum(cents(servers * percent / 100) for percent in self.percents)
        return cents(once + self.tax_usd(once))

    def most_cents(self, budget_cents: int, fixed_cents: int) -> int:
        """Return for how many cents servers may be bought at most, before racks and network; below 0 for none."""

        def whole(servers_cents: int) -> int:
            return round(float(self.total(np.array(servers_cents / 100), fixed_cents / 100)) * 100)

        low, high = -1, budget_cents
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if whole(middle) <= budget_cents else (low, middle - 1)
        return low
