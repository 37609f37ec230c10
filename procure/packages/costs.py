"""What a package costs to buy and to run: energy, network, space, licences, support, staff; per job, per core-hour."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
from pydantic import AfterValidator, Field

from procure.errors import TableError
from procure.packages.nodes import WorkloadDemand, count_matrix, work_of
from procure.packages.prices import order_cents
from procure.packages.rules import CostLine, NonNegative, Order, PackageRules, Percent, Usd, cents
from procure.schemas import COST_ITEMS, COST_UNITS
from procure.text import listed, nearest

HOURS_PER_YEAR = 8760
PARTS = ("energy", "space", *(one.name for one in COST_ITEMS), "staff", "lines")
"""Parts of the costs that are due each year."""
_TOTAL = ("purchase", "fixed", "energy", "space", "network", *PARTS[2:-2], "staff", "lines", "tax", "residual")


def _part(name: str) -> str:
    if name not in PARTS:
        raise ValueError(f"{name!r} was given; {nearest(name, PARTS)}")
    return name


Part = Annotated[str, AfterValidator(_part)]


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


class Costs(Order):
    """Prices of running a system, as a study's ``[costs]`` gives them; an omitted price is 0. See `Order` for more.

    With ``interest_percent`` of a year, amounts of later years count with their present value, see `years_factor`;
    ``price_change_percent`` is by which yearly prices, of `PARTS`, rise each year, ``residual_percent`` what is left of
    the servers' price in the end. ``within_budget``: ``packages.budget_usd`` is for the whole order, with percentages,
    racks, network and tax. ``usd_per_kwh`` and ``carbon_g_per_kwh``, g CO2, None = not priced, not reckoned. ``pue`` is
    energy of the whole site / energy of the nodes and switches; ``idle_share`` the watts of an idle node as a share of
    the busy ones, where a quote has no ``idle_power_w``. ``staff_usd_per_node_year`` counts existing nodes, too.
    """

    REMOVED: ClassVar[dict[str, str]] = {
        "lease": "a purchase is reckoned; compare a lease outside with tco_usd",
        "energy_prices": "give the mean price: usd_per_kwh",
        "carbon": "give one factor: carbon_g_per_kwh",
        "country": "give one factor: carbon_g_per_kwh",
        "tz": "energy has one price for all hours: usd_per_kwh",
        "depreciation_years": "residual_percent = 100 * (1 - years / depreciation_years)",
        "power_curves": "give power_w and idle_power_w in the quotes",
    }

    years: Annotated[float, Field(gt=0, le=100)] = 5.0
    usd_per_kwh: NonNegative | None = None
    carbon_g_per_kwh: Annotated[float, Field(ge=0, le=5000)] | None = None
    pue: Annotated[float, Field(ge=1)] = 1.0
    idle_share: Annotated[float, Field(ge=0, le=1)] | None = None
    switch_power_w: NonNegative = 0.0
    usd_per_rack_unit_year: NonNegative = 0.0
    staff_usd_per_year: Usd = 0.0
    staff_usd_per_node_year: Usd = 0.0
    interest_percent: Percent = 0.0
    price_change_percent: dict[Part, Annotated[float, Field(gt=-100, le=100)]] = Field(default_factory=dict)
    residual_percent: Percent = 0.0
    within_budget: bool = False

    @property
    def beyond_budget(self) -> bool:
        """Whether an order may cost more than what is taken off the budget."""
        return bool(self.by_count or self.percents or self.tax_percent)

    def factor(self, part: Part) -> float:
        """Return what US$ 1 of each year of a part of the costs is worth on the first day."""
        return years_factor(self.years, self.interest_percent, self.price_change_percent.get(part, 0.0))


def total_costs(
    packages: pd.DataFrame,
    quotes: pd.DataFrame,
    costs: Costs,
    jobs_by_workload: Mapping[str, pd.DataFrame | WorkloadDemand],
    rules: PackageRules | None = None,
    existing: pd.DataFrame | None = None,
    weights: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Reckon what each package costs over the years: a row of ``package_id`` and `COST_UNITS`.

    energy = Σ nodes (idle + busy share × (busy − idle)) W, and the switches' W, × PUE × 8,760 h a year. TCO = purchase
    + fixed + network + years × (energy + space + `COST_ITEMS` + staff) + further lines + tax − what is left; with
    interest or price changes, years are `years_factor`. Per job and per busy core-hour of those years.

    ``jobs_by_workload`` are job tables, whose run times are taken as logged, or of `procure.packages.nodes.work_of`,
    which knows them on each type; ``weights`` what each counts. Of ``rules``, ``discounts`` and ``fixed_cost_usd``
    count; None: ``price_usd`` of the package table. ``existing`` nodes add CPUs, staff per node, and energy where their
    watts are known, from their own columns or from the quote whose name is their ``kind``. A figure is NaN where a
    quote does not state what nothing prices; what has a price must be stated by every type that is bought, else it is
    an error.
    """
    counts = count_matrix(packages, quotes)
    n_nodes, n_existing = counts.sum(axis=1), 0 if existing is None else len(existing)
    cpus = counts @ quotes["cpus"].to_numpy(dtype="int64") + (0 if existing is None else int(existing["cpus"].sum()))
    load = _load(counts, cpus, _works(jobs_by_workload, quotes, existing, weights))
    paid = (
        packages["price_usd"].to_numpy(dtype="float64") if rules is None else order_cents(counts, quotes, rules) / 100
    )
    found = pd.DataFrame({"package_id": packages["package_id"].to_numpy(), "purchase_usd": paid}, index=packages.index)
    found["fixed_usd"] = 0.0 if rules is None else rules.fixed_cost_usd
    found["n_nodes"], found["busy_share"] = n_nodes, load["busy_share"]
    found["n_switches"], found["n_cables"] = costs.n_switches(n_nodes), costs.n_cables(n_nodes)
    found["network_usd"] = costs.network_usd(n_nodes)
    switches = found["n_switches"].to_numpy()
    watts = _watts(counts, load["busy_share"], quotes, costs, existing) + switches * costs.switch_power_w
    found["energy_kwh_per_year"] = kwh = watts / 1000 * HOURS_PER_YEAR * costs.pue
    found["carbon_t_per_year"] = kwh * (np.nan if costs.carbon_g_per_kwh is None else costs.carbon_g_per_kwh / 1e6)
    found["energy_usd"] = 0.0 if costs.usd_per_kwh is None else kwh * costs.factor("energy") * costs.usd_per_kwh
    found["rack_units"] = units = _sums(counts, _rack_units(quotes, counts, costs)) + switches * costs.switch_rack_units
    space = costs.usd_per_rack_unit_year
    found["space_usd"] = units * costs.factor("space") * space if space > 0 else 0.0
    for item in COST_ITEMS:
        found[item.cost] = counts @ np.nan_to_num(_stated(quotes, item.column)) * costs.factor(item.name)
    per_node = (n_nodes + n_existing) * costs.staff_usd_per_node_year
    found["staff_usd"] = (costs.staff_usd_per_year + per_node) * costs.factor("staff")
    return _with_totals(_with_lines(found, costs), load, costs)


def _with_lines(found: pd.DataFrame, costs: Costs) -> pd.DataFrame:
    """Add what further lines and tax cost, and what is left in the end, below 0."""
    amounts = {"once": np.zeros(len(found)), "year": np.zeros(len(found))}
    for line in costs.lines:
        if not line.off_budget:
            amounts[line.when] = amounts[line.when] + line_usd(line, found, costs)
    bought = found["purchase_usd"].to_numpy()
    order = bought + found["fixed_usd"].to_numpy() + found["network_usd"].to_numpy() + amounts["once"]
    left = cents(bought * costs.residual_percent / 100) * (1 + costs.interest_percent / 100) ** -costs.years
    lines = amounts["once"] + amounts["year"] * costs.factor("lines")
    return found.assign(lines_usd=lines, tax_usd=costs.tax_usd(order), residual_usd=0.0 - left)


def _with_totals(found: pd.DataFrame, load: dict[str, np.ndarray], costs: Costs) -> pd.DataFrame:
    """Add the total, and what that is per job and per core-hour."""
    parts = [f"{part}_usd" for part in _TOTAL]
    found[parts] = found[parts].apply(cents)  # so that the total is the sum of what a bill shows
    found["tco_usd"] = found[parts].sum(axis=1).round(2)
    for name, per_year in (("usd_per_job", "jobs"), ("usd_per_core_hour", "core_hours")):
        done = load[f"{per_year}_per_year"] * costs.years
        found[name] = found["tco_usd"] / np.where(done > 0, done, np.nan)
    return found[["package_id", *COST_UNITS]]


def whole_order(costs_of_packages: pd.DataFrame, costs: Costs) -> np.ndarray:
    """Return what the whole order of each package of `total_costs` comes to, see `Order.total`."""
    one = {name: costs_of_packages[name].to_numpy(dtype="float64") for name in ("purchase_usd", "fixed_usd")}
    n_nodes = costs_of_packages["n_nodes"].to_numpy(dtype="int64")
    units = costs_of_packages["rack_units"].to_numpy(dtype="float64")
    units = units - costs.n_switches(n_nodes) * costs.switch_rack_units
    return costs.total(one["purchase_usd"], one["fixed_usd"], n_nodes, units)


def check_prices(quotes: pd.DataFrame, costs: Costs) -> None:
    """Refuse prices of energy or space that need a figure which a quote does not state, as `total_costs` does."""
    one_each = np.eye(len(quotes), dtype="int64")
    _watts(one_each, np.zeros(len(quotes)), quotes, costs, None)
    _rack_units(quotes, one_each, costs)


def line_usd(line: CostLine, costs_of_packages: pd.DataFrame, costs: Costs) -> np.ndarray:
    """Return what a line costs, once or each year at today's price, US$ to the cent for each package.

    ``costs_of_packages`` has the columns ``purchase_usd n_nodes rack_units``, as `total_costs` gives them.
    """
    if line.percent is not None:
        return cents(costs_of_packages["purchase_usd"].to_numpy() * line.percent / 100)
    return np.asarray(line_quantity(line, costs_of_packages, costs) * (line.usd or 0.0))


def line_quantity(line: CostLine, costs_of_packages: pd.DataFrame, costs: Costs) -> np.ndarray:
    """Return how many of a line each package has, int64; see `line_usd`."""
    if line.per == "node":
        return costs_of_packages["n_nodes"].to_numpy(dtype="int64")
    if line.per == "rack":
        return costs.n_racks(costs_of_packages["rack_units"].to_numpy(dtype="float64"))
    return np.full(len(costs_of_packages), line.quantity)


Weighted = list[tuple[float, WorkloadDemand]]
"""Workloads, each with its share of the weights."""


def _works(
    jobs_by_workload: Mapping[str, pd.DataFrame | WorkloadDemand],
    quotes: pd.DataFrame,
    existing: pd.DataFrame | None,
    weights: Mapping[str, float] | None,
) -> Weighted:
    if not jobs_by_workload:
        raise TableError("costs: a workload is needed to know how busy a system is")
    share = {name: (weights or {}).get(name, 1.0) for name in jobs_by_workload}
    total = sum(share.values())
    return [
        (share[name] / total, one if isinstance(one, WorkloadDemand) else work_of(one, quotes, existing))
        for name, one in jobs_by_workload.items()
    ]


def _load(counts: np.ndarray, cpus: np.ndarray, works: Weighted) -> dict[str, np.ndarray]:
    """Return busy share, jobs and core-hours served in a year, by package: weighted means over workloads.

    A workload asks a package for D = CPU-seconds submitted / seconds from its first submission to its last
    (of one moment: its longest run time as logged) CPUs at a time. Jobs that no nodes of the package can hold do not
    count; a job runs as long as on the nodes that can hold it, the mean by their CPUs. Of a system with T
    CPUs the share min(1, D / T) is busy, and min(1, T / D) of the jobs that it can run are served.
    """
    busy, jobs_per_second = np.zeros(len(cpus)), np.zeros(len(cpus))
    for weight, work in works:
        for rows, served, share in work.on(counts):
            demand, size = share @ work.cpu_seconds / work.seconds, np.maximum(cpus[rows], 1)
            busy[rows] += weight * np.minimum(1.0, demand / size)
            done = np.minimum(1.0, size / np.maximum(demand, 1e-300))
            jobs_per_second[rows] += weight * (served @ work.n_jobs) / work.seconds * done
    return {
        "busy_share": busy,
        "jobs_per_year": jobs_per_second * 3600 * HOURS_PER_YEAR,
        "core_hours_per_year": busy * cpus * HOURS_PER_YEAR,
    }


def _watts(
    counts: np.ndarray, busy_share: np.ndarray, quotes: pd.DataFrame, costs: Costs, existing: pd.DataFrame | None
) -> np.ndarray:
    """Return the mean watts of each package's nodes and of the existing ones that state theirs."""
    asked = costs.usd_per_kwh is not None or costs.carbon_g_per_kwh is not None
    key = "carbon_g_per_kwh" if costs.usd_per_kwh is None and asked else "usd_per_kwh"
    busy = _per_node("power_w", quotes, counts, asked, key)
    hint = "; [costs] idle_share gives it as a share of power_w"
    idle = _idle(quotes, busy, costs)
    idle = _per_node("idle_power_w", quotes.assign(idle_power_w=idle), counts, asked, key, hint)
    watts = _sums(counts, idle) + busy_share * _sums(counts, busy - idle)
    if existing is not None:
        own_busy, own_idle = existing_watts(existing, quotes, costs)
        known = ~np.isnan(own_idle)
        watts = watts + own_idle[known].sum() + busy_share * (own_busy - own_idle)[known].sum()
    return np.asarray(watts)


def _idle(table: pd.DataFrame, busy: np.ndarray, costs: Costs) -> np.ndarray:
    """Return the idle watts that a table states, or else the given share of the busy ones."""
    idle = _stated(table, "idle_power_w")
    share = np.nan if costs.idle_share is None else costs.idle_share
    # Of a node that takes no power at all, idle watts need not be stated.
    return np.where(np.isnan(idle), np.where(busy == 0, 0.0, busy * share), idle)


def existing_watts(existing: pd.DataFrame, quotes: pd.DataFrame, costs: Costs) -> tuple[np.ndarray, np.ndarray]:
    """Return busy and idle watts of existing nodes, NaN where neither they nor a quote of their kind say."""
    of_kind = quotes.set_index("name").reindex(existing["kind"].astype(str)).reset_index()
    stated = {
        name: np.where(np.isnan(own := _stated(existing, name)), _stated(of_kind, name), own)
        for name in ("power_w", "idle_power_w")
    }
    return stated["power_w"], _idle(pd.DataFrame(stated), stated["power_w"], costs)


def _stated(table: pd.DataFrame, column: str) -> np.ndarray:
    """Return a column that a table need not have, float64, NaN where nothing is stated."""
    return table.get(column, pd.Series(np.nan, index=table.index)).to_numpy(dtype="float64")


def _rack_units(quotes: pd.DataFrame, counts: np.ndarray, costs: Costs) -> np.ndarray:
    racks = any(line.per == "rack" for line in costs.lines)
    key = "lines" if racks else "usd_per_rack_unit_year"
    return _per_node("rack_units", quotes, counts, racks or costs.usd_per_rack_unit_year > 0, key)


def _per_node(
    column: str, quotes: pd.DataFrame, counts: np.ndarray, asked: bool, key: str, hint: str = ""
) -> np.ndarray:
    """Return a figure of each type, NaN where it is not stated; complain if a bought type needs it."""
    values = _stated(quotes, column)
    missing = np.flatnonzero(np.isnan(values) & counts.any(axis=0))
    if asked and missing.size:
        raise TableError(
            f"costs.{key}: needs the {column} of every quote that is bought; "
            f"{quotes['name'].iloc[int(missing[0])]} has none in column {column}{hint}"
        )
    return values


def _sums(counts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return counts times values, NaN only where a type that is bought has none."""
    stated = counts @ np.nan_to_num(values)
    return np.where((counts[:, np.isnan(values)] > 0).any(axis=1), np.nan, stated)


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


def cost_table(costs: pd.DataFrame, side_by_side: bool) -> pd.DataFrame:
    """Return each cost of `total_costs`, but for carbon where no intensity is given.

    ``cost unit``, then a column per package id, or ``min median max`` over the packages.
    """
    names = [name for name in COST_UNITS if name != "carbon_t_per_year" or not costs[name].isna().all()]
    table = costs.set_index("package_id")[names].astype("float64").T
    table = table if side_by_side else table.agg(["min", "median", "max"], axis=1)
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
