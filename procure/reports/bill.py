"""The bill of quantities: what is ordered, from whom, at which price, line by line."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.offers.template import write_book
from procure.packages.costs import line_quantity, line_usd, whole_order
from procure.packages.prices import price_list
from procure.recommender.recommendation import Recommendation
from procure.schemas import COST_ITEMS
from procure.tables import check_name, write

ENERGY, NOT_PRICED = "of it energy", "not priced"
TEXTS = ("processor", "vendor", "quote_number", "valid_until")
_COLUMNS = ["type", "category", *TEXTS, "cpus", "mem_gb", "gpus", "count", "unit_price_usd", "discount_usd",
            "line_total_usd", "gpu_type"]  # fmt: skip
_ON_SHEET = "type category vendor processor quote_number valid_until cpus mem_gb gpus count unit_price_usd".split()


def bill(done: Recommendation, place: int = 0) -> pd.DataFrame:
    """Return the bill of quantities of one package of a list.

    ``place`` is which package of the list, from 0. A row per type that is bought, in quote order: ``type category``,
    what the quote says of it (`TEXTS`, and per node ``cpus mem_gb gpus``), ``count unit_price_usd``, ``discount_usd``
    of the line (see `procure.packages.prices.PriceList.line_discounts`), ``line_total_usd gpu_type``. The totals add up
    to the price.
    """
    plan = done.results.plan
    counts = done.results.counts[int(done.ranking["row"].iloc[place])]
    prices = price_list(plan.quotes, plan.study.packages)
    off = prices.line_discounts(counts)
    held = np.flatnonzero(counts)
    quotes = plan.quotes.iloc[held]
    texts = {name: quotes[name].astype(str) if name in quotes else "" for name in (*TEXTS, "gpu_type")}
    lines = quotes.rename(columns={"name": "type"}).assign(
        **texts,
        count=counts[held],
        unit_price_usd=prices.list_cents[held] / 100,
        discount_usd=off[held] / 100,
        line_total_usd=(counts * prices.list_cents - off)[held] / 100,
    )
    return lines[_COLUMNS].reset_index(drop=True)


def with_second(done: Recommendation) -> pd.DataFrame:
    """Return the first package's bill with the counts of the second beside it, and the lines that only that has.

    The column ``second_count`` is missing where the list has one package.
    """
    lines = bill(done)
    if done.k < 2:
        return lines
    others = bill(done, 1).set_index("type")
    only = others[~others.index.isin(lines["type"])].assign(count=0, discount_usd=0.0, line_total_usd=0.0)
    lines = pd.concat([lines, only.reset_index()[lines.columns]], ignore_index=True)
    return lines.assign(second_count=others["count"].reindex(lines["type"]).fillna(0).astype("int64").to_numpy())


def totals(done: Recommendation) -> list[dict[str, object]]:
    """Return what the first and the second package come to, a record per figure that the quotes or the study state.

    ``what unit first second``; ``second`` is missing where the list has one package. Energy that has no price is
    `NOT_PRICED`.
    """
    results = done.results
    rows = done.ranking["row"].to_numpy()[: min(2, done.k)]
    packages, costs = results.cases[0].packages.iloc[rows], results.costs.iloc[rows]
    quotes, counts = results.plan.quotes, results.counts[rows]
    units = quotes["rack_units"].to_numpy(dtype="float64") if "rack_units" in quotes else np.nan
    height = np.where(counts > 0, counts * units, 0.0).sum(axis=1)
    years = f"{results.plan.study.costs.years:g} years"
    figures: list[tuple[str, str, object]] = [
        ("CPUs", "", packages["total_cpus"]), ("memory", "GB", packages["total_mem_gb"]),
        ("GPUs", "", packages["total_gpus"]), ("servers", "", counts.sum(axis=1)),
        ("power, all servers busy", "kW", costs["power_w"] / 1000), ("height in racks", "U", height),
        ("energy a year, as these jobs use it", "kWh", costs["energy_kwh_per_year"]),
        ("price", "US$", packages["price_usd"]),
    ]  # fmt: skip
    if not costs["carbon_t_per_year"].isna().any():
        figures.insert(-1, ("carbon a year", "t CO2", costs["carbon_t_per_year"]))
    whole = [order_usd(done, place) for place in range(len(rows))]
    if whole != packages["price_usd"].round(2).tolist():
        figures.append(("whole order", "US$", pd.Series(whole)))
    if (costs["tco_usd"] != costs["purchase_usd"]).any():
        figures.append((f"cost over {years}", "US$", costs["tco_usd"]))
        figures.append((f"{ENERGY}, {years}", "US$", costs["energy_usd"]))
    shown: list[dict[str, object]] = []
    for what, unit, of in figures:
        values: list[Any] = np.asarray(of, dtype="float64").tolist()
        if any(value != value for value in values):
            continue
        if what.startswith(ENERGY) and results.plan.study.costs.usd_per_kwh is None:
            unit, values = "", [NOT_PRICED] * len(rows)
        shown.append({"what": what, "unit": unit} | dict(zip(("first", "second"), values, strict=False)))
    return shown


def ended(lines: pd.DataFrame, today: date) -> list[str]:
    """Name the lines whose offer is valid no longer."""
    dated = lines[(lines["count"] > 0) & (lines["valid_until"] != "")]
    return [
        f"the offer of {line.type} ended on {line.valid_until}: ask the vendor again"
        for line in dated.itertuples()
        if date.fromisoformat(line.valid_until) < today
    ]


def beside(done: Recommendation, place: int = 0) -> pd.DataFrame:
    """Return the lines of the order that are no servers, of one package of a list.

    ``type category vendor count unit_price_usd line_total_usd`` and ``when``: ``once``; ``in the price``, charged for
    each node and contained in the servers' unit prices; ``each year``, at today's price.
    """
    plan, results = done.results.plan, done.results
    study, row = plan.study, int(done.ranking["row"].iloc[place])
    counts, costs = results.counts[row], results.costs.iloc[[row]]
    order, found, first, prices = study.order_lines(), [], costs.iloc[0], study.costs

    def add(name: str, kind: str, vendor: str, count: float, total: float, when: str) -> None:
        unit = round(total / count, 2) if count else 0.0
        found.append((name, kind, vendor, int(count), unit, round(float(total), 2), when))

    for line in order.bought:
        if line.per == "node":
            n = int(counts[order.of_vendor(line, plan.quotes).to_numpy()].sum())
            add(line.name, line.kind, line.vendor, n, n * float(line.usd), "in the price")
        elif line.percent is None:
            add(line.name, line.kind, line.vendor, line.quantity, line.quantity * float(line.usd), "once")
    rest = study.packages.fixed_cost_usd - float(order.fixed_usd)
    if round(rest, 2):
        add("fixed cost", "other", "", 1, rest, "once")
    for name, one in (("switches", prices.switch_usd), ("cables", prices.cable_usd)):
        if (n := int(first[f"n_{name}"])) and one:
            add(name, "network", "", n, n * one, "once")
    for asked in (one for one in prices.lines if not one.off_budget):
        total = float(line_usd(asked, costs, prices)[0])
        quantity = 1 if asked.percent is not None else int(line_quantity(asked, costs, prices)[0])
        add(asked.name, asked.kind, "", quantity, total, "once" if asked.when == "once" else "each year")
    for item in COST_ITEMS:
        each = plan.quotes.get(item.column, pd.Series(0.0, plan.quotes.index)).fillna(0).to_numpy(dtype="float64")
        if n := int(counts[each > 0].sum()):
            add(f"{item.meaning} of nodes", item.kind, "", n, float(counts @ each), "each year")
    if first["tax_usd"]:
        add(f"tax, {prices.tax_percent:g} %", "tax", "", 1, float(first["tax_usd"]), "once")
    names = ["type", "category", "vendor", "count", "unit_price_usd", "line_total_usd", "when"]
    return pd.DataFrame(found, columns=names)


def order_usd(done: Recommendation, place: int = 0) -> float:
    """Return what the whole order comes to, US$ to the cent: servers, and all other lines that are paid once."""
    row = int(done.ranking["row"].iloc[place])
    return float(whole_order(done.results.costs.iloc[[row]], done.results.plan.study.costs)[0])


def check_bill_name(path: str | Path) -> Path:
    """Return the name of a file that a bill can be written to: as a table's, or ``.xlsx``; else it is an error."""
    try:
        return Path(path) if Path(path).suffix.lower() == ".xlsx" else check_name(Path(path))
    except TableError as error:
        raise TableError(f"{error}; a bill also as .xlsx") from None


def write_bill(done: Recommendation, path: str | Path) -> Path:
    """Write the bill of quantities of a list's first package: as a table, or as a spreadsheet for an office.

    A table has the lines of `with_second`, those of `beside` that are paid once, and a last one for the total. A
    spreadsheet has them by what they are, with sums. That the name says no format, or the file cannot be written, is an
    error.
    """
    lines, more = with_second(done), beside(done)
    path = check_bill_name(path)
    if path.suffix.lower() == ".xlsx":
        return write_book(path, {"Bill": _bill_sheet(done, lines, more)})
    whole = [name for name in ("count", "second_count") if name in lines]
    once = more[more["when"] == "once"].drop(columns="when").assign(discount_usd=0.0)
    all_lines = pd.concat([lines, once], ignore_index=True) if len(once) else lines
    total = {"type": "total"} | {name: lines[name].sum() for name in whole}
    total |= {name: all_lines[name].sum().round(2) for name in ("discount_usd", "line_total_usd")}
    table = pd.concat([all_lines, pd.DataFrame([total])], ignore_index=True)
    return write(table.fillna(dict.fromkeys(whole, 0)).astype(dict.fromkeys(whole, "int64")), path)


def _bill_sheet(done: Recommendation, lines: pd.DataFrame, more: pd.DataFrame) -> list[list[object]]:
    """Lay out the sheet of the bill: servers, lines that are paid once, and beneath the total what is not in it."""
    names, bought = [*_ON_SHEET, "discount_usd", "line_total_usd", "gpu_type"], lines[lines["count"] > 0]

    def laid_out(table: pd.DataFrame) -> list[list[object]]:
        return [[one.get(name, "") for name in names] for one in table.to_dict(orient="records")]

    def total(name: str, usd: float) -> list[object]:
        sums = (round(float(one), 2) for one in (bought["discount_usd"].sum(), usd))
        return [name, *[""] * (len(_ON_SHEET) - 1), *sums]

    rows: list[list[object]] = [[f"Bill of quantities, {done.results.plan.study.name}"], [*names], *laid_out(bought)]
    rows += [total("servers", bought["line_total_usd"].sum()), *laid_out(more[more["when"] == "once"])]
    rows.append(total("total", order_usd(done)))
    for when, title in (("in the price", "Of it, in the servers' unit prices"), ("each year", "Each year, besides")):
        some = more[more["when"] == when]
        rows += [[], [title], *laid_out(some)] if len(some) else []
    return rows
