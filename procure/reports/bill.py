"""The bill of quantities: what is ordered, from whom, at which price, line by line."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

from procure.packages.prices import price_list
from procure.recommender.recommendation import Recommendation
from procure.tables import write

TEXTS = ("processor", "vendor", "quote_number", "valid_until")


def bill(done: Recommendation, place: int = 0) -> pd.DataFrame:
    """Return the bill of quantities of one package of a list.

    Parameters
    ----------
    done
        The list.
    place
        Which package of it, from 0.

    Returns
    -------
    pandas.DataFrame
        A row per type that is bought, in quote order: ``type category``, what the quote says of it (`TEXTS`, and per
        node ``cpus mem_gb gpus``), ``count``, ``unit_price_usd``, ``discount_usd`` of the line (see
        `procure.packages.prices.PriceList.line_discounts`) and ``line_total_usd``. The totals add up to the price.
    """
    plan = done.results.plan
    counts = done.results.counts[int(done.ranking["row"].iloc[place])]
    prices = price_list(plan.quotes, plan.study.packages)
    off = prices.line_discounts(counts)
    held = np.flatnonzero(counts)
    quotes = plan.quotes.iloc[held]
    texts = {name: quotes[name].astype(str).to_numpy() if name in quotes else "" for name in TEXTS}
    return pd.DataFrame(
        {"type": quotes["name"].to_numpy(), "category": quotes["category"].to_numpy()}
        | texts
        | {name: quotes[name].to_numpy() for name in ("cpus", "mem_gb", "gpus")}
        | {
            "count": counts[held],
            "unit_price_usd": prices.list_cents[held] / 100,
            "discount_usd": off[held] / 100,
            "line_total_usd": (counts * prices.list_cents - off)[held] / 100,
        }
    )


def with_second(done: Recommendation) -> pd.DataFrame:
    """Return the first package's bill with the counts of the second beside it, and the lines that only that has.

    Returns
    -------
    pandas.DataFrame
        `bill` with ``second_count``; missing where the list has one package.
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

    Returns
    -------
    list
        ``what unit first second``; ``second`` is missing where the list has one package.
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
    if (costs["tco_usd"] != costs["purchase_usd"]).any():
        figures += [
            (f"cost over {years}", "US$", costs["tco_usd"]),
            (f"of it energy, {years}", "US$", costs["energy_usd"]),
        ]
    told = ((what, unit, np.asarray(of, dtype="float64")) for what, unit, of in figures)
    return [
        {"what": what, "unit": unit} | dict(zip(("first", "second"), of.tolist(), strict=False))
        for what, unit, of in told
        if not np.isnan(of).any()
    ]


def ended(lines: pd.DataFrame, today: date) -> list[str]:
    """Name the lines whose offer is valid no longer."""
    dated = lines[(lines["count"] > 0) & (lines["valid_until"] != "")]
    return [
        f"the offer of {line.type} ended on {line.valid_until}: ask the vendor again"
        for line in dated.itertuples()
        if date.fromisoformat(line.valid_until) < today
    ]


def write_bill(lines: pd.DataFrame, path: str | Path) -> Path:
    """Write a bill of quantities as a table with a last line for the total.

    Raises
    ------
    TableError
        The name says no format of a table, or the file cannot be written.
    """
    whole = [name for name in ("count", "second_count") if name in lines]
    total = {"type": "total"} | {name: lines[name].sum() for name in whole}
    total |= {name: lines[name].sum().round(2) for name in ("discount_usd", "line_total_usd")}
    return write(
        pd.concat([lines, pd.DataFrame([total])], ignore_index=True).astype(dict.fromkeys(whole, "int64")),
        path,
    )
