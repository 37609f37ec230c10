"""What a list of packages holds: counts, servers by type, budget by category."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.models import Case
from procure.packages.runnable import count_matrix
from procure.recommender.recommender import Recommendation


def counts_of(packages: pd.DataFrame, quotes: pd.DataFrame) -> list[dict[str, int]]:
    """Return each package as type → count, without zeros, in quote-file order."""
    names = quotes["name"].tolist()
    return [
        {name: int(count) for name, count in zip(names, row, strict=True) if count}
        for row in count_matrix(packages, quotes)
    ]


def records(found: Recommendation, case: Case, quotes: pd.DataFrame) -> list[dict[str, object]]:
    """Return the first k as plain records, as ``procure recommend --format json`` prints them."""
    top = found.ranking.head(found.k)
    chosen = case.packages.iloc[top["row"].to_numpy()]
    keep = ["rank", "package_id", "price_usd", "mean_wait_time", "simulated", "jobs_left_out"]
    keep += ["low_wait_time", "high_wait_time"]
    totals = chosen[["total_cpus", "total_mem_gb", "total_gpus"]].to_dict(orient="records")
    return [
        {**one, "counts": counts, **total}
        for one, counts, total in zip(
            top[keep].to_dict(orient="records"), counts_of(chosen, quotes), totals, strict=True
        )
    ]


def servers_by_type(packages: pd.DataFrame, quotes: pd.DataFrame) -> pd.DataFrame:
    """Sum the servers of each type over packages.

    Returns
    -------
    pandas.DataFrame
        In quote-file order: ``category name cpus mem_gb gpus``, ``servers`` (the sum), ``packages``
        (how many hold the type) and ``mean_count`` per package.

    References
    ----------
    Hutchison (2024), table 3.6.
    """
    counts = count_matrix(packages, quotes)
    table = quotes[["category", "name", "cpus", "mem_gb", "gpus"]].reset_index(drop=True)
    return table.assign(
        servers=counts.sum(axis=0),
        packages=(counts > 0).sum(axis=0),
        mean_count=counts.mean(axis=0) if len(counts) else 0.0,
    )


def budget_by_category(packages: pd.DataFrame, quotes: pd.DataFrame) -> pd.DataFrame:
    """Return what packages spend on each category: ``category price_usd share``, means over packages.

    What discounts take off an order is shared among its nodes by their list prices.

    References
    ----------
    Hutchison (2024), figure 3.5.
    """
    spent = count_matrix(packages, quotes) * quotes["price_usd"].to_numpy(dtype="float64")
    if "price_usd" in packages:
        listed, paid = spent.sum(axis=1), packages["price_usd"].to_numpy(dtype="float64")
        spent *= (paid / np.where(listed > 0, listed, 1.0))[:, None]
    mean = pd.Series(spent.mean(axis=0)).groupby(quotes["category"].to_numpy(), sort=False).sum()
    total = float(mean.sum())
    return pd.DataFrame(
        {
            "category": mean.index.to_numpy(),
            "price_usd": mean.to_numpy(),
            "share": mean.to_numpy() / total if total else np.nan,
        }
    )
