"""What money costs: amounts of later years, price changes, and what is left of a system in the end."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from procure.offers.lines import Kind
from procure.schemas import COST_ITEMS
from procure.settings import Money, PositiveInt, Settings
from procure.text import nearest

Percent = Annotated[float, Field(ge=0, lt=100)]
PARTS = ("energy", "space", *(one.name for one in COST_ITEMS), "staff", "lines")
"""Parts of the costs that are due each year."""


def _part(name: str) -> str:
    if name not in PARTS:
        raise ValueError(f"{name!r} was given; {nearest(name, PARTS)}")
    return name


Part = Annotated[str, AfterValidator(_part)]


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
        ``order``, ``node`` (new nodes) or ``rack`` (racks of `Costs.rack_height_units` that nodes and switches fill).
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


def cents(usd: np.ndarray) -> np.ndarray:
    """Round US$ to the cent, half a cent up."""
    # 0.285 × 100 is a little less than 28.5: what floats are off by must not decide.
    return np.floor(np.round(np.asarray(usd, dtype="float64") * 100, 6) + 0.5) / 100


def years_factor(years: float, interest_percent: float = 0.0, change_percent: float = 0.0) -> float:
    """Return what US$ 1 of each year is worth on the first day.

    The amount of a year is due at its end; that of the first year is at today's price, each further one ``change``
    dearer. Of a broken last year its part is due at the end.

        Σ_t part_t (1 + change)^(t − 1) / (1 + interest)^(t − 1 + part_t)
    """
    if interest_percent == 0 and change_percent == 0:
        return years
    parts = [(t, min(1.0, years - t)) for t in range(math.ceil(years))]
    growth, interest = 1 + change_percent / 100, 1 + interest_percent / 100
    return math.fsum(part * growth**t / interest ** (t + part) for t, part in parts)
