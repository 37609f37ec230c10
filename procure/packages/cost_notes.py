"""What is said of costs: which come on top of the budget, what they leave out; and their tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.packages.costs import Costs, existing_watts
from procure.schemas import COST_UNITS
from procure.text import listed


def budget_notes(costs: Costs) -> list[str]:
    """Say what comes on top of the budget, and which key keeps it within."""
    if not costs.beyond_budget:
        return []
    if costs.within_budget:
        return ["costs: the budget is for the whole order, with percentages, racks, network and tax: within_budget"]
    lines = [line for line in costs.lines if line.when == "once" and not line.off_budget]
    named = [f"tax of {costs.tax_percent:g} %"] if costs.tax_percent else []
    named += [f"{line.percent:g} % for {line.name}" if line.percent else line.name for line in lines]
    named += ["network"] if costs.switch_usd or costs.cable_usd else []
    return [
        f"costs: not taken off the budget, since they turn on what is bought: {listed(named)}; [costs] within_budget = "
        "true keeps the whole order within it"
    ]


def cost_ranges(costs: pd.DataFrame) -> pd.DataFrame:
    """Return the lowest, median and highest value of each cost of `total_costs`: ``cost unit min median max``."""
    return _by_cost(costs).agg(["min", "median", "max"], axis=1).pipe(_with_units)


def costs_side_by_side(costs: pd.DataFrame) -> pd.DataFrame:
    """Return the costs of packages as columns: ``cost unit`` and a column per package id."""
    return _with_units(_by_cost(costs.set_index("package_id")))


def _by_cost(costs: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each cost, without carbon where no intensity is given."""
    names = [name for name in COST_UNITS if name != "carbon_t_per_year" or not costs[name].isna().all()]
    return costs[names].astype("float64").T


def _with_units(table: pd.DataFrame) -> pd.DataFrame:
    table = table.rename_axis(index="cost", columns=None).reset_index()
    table.insert(1, "unit", table["cost"].map(COST_UNITS))
    return table


def cost_notes(quotes: pd.DataFrame, costs: Costs, existing: pd.DataFrame | None = None) -> list[str]:
    """Say in sentences what the costs leave out, and which nodes take no power."""
    notes = []
    if costs.usd_per_kwh is None:
        notes.append("costs: energy is not priced; [costs] usd_per_kwh prices it")
    if costs.interest_percent:
        notes.append(
            f"costs: amounts of later years count with their present value at {costs.interest_percent:g} % a year"
        )
    if "power_w" in quotes and (quotes["power_w"] == 0).any():
        names = ", ".join(quotes.loc[quotes["power_w"] == 0, "name"])
        notes.append(f"costs: power_w is 0 W for {names}; these nodes take no energy")
    if existing is not None and len(existing):
        unknown = int(np.isnan(existing_watts(existing, quotes, costs)[1]).sum())
        if unknown:
            notes.append(
                f"costs: the energy of {unknown:,} of {len(existing):,} existing nodes is not counted: their "
                "watts are not known (columns power_w and idle_power_w, or a quote named as their kind)"
            )
    return notes
