"""The bill of quantities: what is ordered, from whom, at which price, line by line."""

from __future__ import annotations

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


def write_bill(lines: pd.DataFrame, path: str | Path) -> Path:
    """Write a bill of quantities as a table with a last line for the total.

    Raises
    ------
    TableError
        The name says no format of a table, or the file cannot be written.
    """
    total = {"type": "total", "count": lines["count"].sum()}
    total |= {name: lines[name].sum().round(2) for name in ("discount_usd", "line_total_usd")}
    return write(
        pd.concat([lines, pd.DataFrame([total])], ignore_index=True).astype({"count": "int64"}), path
    )
