"""What is said of costs: which come on top of the budget, what they leave out; and their tables."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from procure.packages.costs import Costs, existing_watts
from procure.packages.rules import PackageRules
from procure.schemas import COST_UNITS
from procure.text import listed


def budget_notes(rules: PackageRules, costs: Costs) -> list[str]:
    """Say that tax and percentages come on top of the budget, and which ``budget_usd`` leaves room for them."""
    lines = [line for line in costs.lines if line.when == "once" and line.percent is not None]
    percent = math.fsum(line.percent or 0.0 for line in lines) / 100
    if costs.within_budget and costs.beyond_budget:
        return ["costs: the budget is for the whole order, with percentages, racks, network and tax: within_budget"]
    if not costs.tax_percent and not lines:
        return []
    named = [f"tax of {costs.tax_percent:g} %"] if costs.tax_percent else []
    named += [f"{line.percent:g} % for {line.name}" for line in lines]
    tax, budget, fixed = 1 + costs.tax_percent / 100, rules.budget_usd, rules.fixed_cost_usd
    whole = (budget + percent * (budget - fixed)) * tax
    # Rounded down: a cent more would be above the budget.
    within = math.floor(round((budget / tax + percent * fixed) / (1 + percent) * 100, 6)) / 100
    rest = [line.name for line in costs.lines if line.per == "rack" and line.when == "once"]
    rest += ["network"] if costs.switch_usd or costs.cable_usd else []
    more = f"; besides come {listed(rest)}" if rest else ""
    if within <= fixed:
        return [f"costs: not taken off the budget: {listed(named)}; with them nothing is left of it for servers{more}"]
    return [
        f"costs: not taken off the budget: {listed(named)}; with them an order for all of it comes to US$ {whole:,.2f}"
        f"; packages.budget_usd = {within:_.2f} keeps them within it{more}"
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
    beside = [line.name for line in costs.lines if line.when == "once" and not line.off_budget]
    beside += ["tax"] if costs.tax_percent else []
    if beside and not costs.within_budget:
        notes.append(f"costs: not taken off the budget, since they turn on what is bought: {listed(beside)}")
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
