"""What a list of packages holds: counts, servers by type, budget by category."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.packages.runnable import count_matrix
from procure.recommender.criteria import Criteria
from procure.recommender.recommendation import Recommendation
from procure.recommender.waiting import waiting_records


def counts_of(packages: pd.DataFrame, quotes: pd.DataFrame) -> list[dict[str, int]]:
    """Return each package as type → count, without zeros, in quote-file order."""
    names = quotes["name"].tolist()
    return [
        {name: int(count) for name, count in zip(names, row, strict=True) if count}
        for row in count_matrix(packages, quotes)
    ]


def records(done: Recommendation) -> list[dict[str, object]]:
    """Return the first k as plain records, as ``procure recommend --format json`` prints them."""
    top, packages, criteria = done.ranking.head(done.k), done.case.packages, done.criteria
    bought = packages.iloc[top["row"].to_numpy()]
    keep = ["rank", "package_id", "price_usd", "mean_wait_time", "simulated", "jobs_left_out"]
    keep += ["low_wait_time", "high_wait_time"]
    found = pd.DataFrame(bought[["total_cpus", "total_mem_gb", "total_gpus"]]).to_dict(orient="records")
    counts = counts_of(bought, done.results.plan.quotes)
    rows = [
        {**one, "counts": count, **total}
        for one, count, total in zip(top[keep].to_dict(orient="records"), counts, found, strict=True)
    ]
    waiting = waiting_records(done, top["row"].to_numpy())
    rows = [one | more for one, more in zip(rows, waiting, strict=True)]
    if criteria != Criteria():
        for one, line in zip(rows, top.to_dict(orient="records"), strict=True):
            one |= {"objective": criteria.objective.name, "objective_unit": criteria.objective.unit}
            one |= {name: line[name] for name in line if name.startswith("objective_")}
            one["constrained"] = {bound.of.name: line[bound.of.name] for bound in criteria.bounds}
            one["constrained_intervals"] = {
                bound.of.name: [line[f"{bound.of.name}_low"], line[f"{bound.of.name}_high"]]
                for bound in criteria.bounds
                if bound.of.source == "result"
            }
    for one in rows:
        one |= dict.fromkeys(("rules", "shape", "other_loads", "exchanges"))
    rows[0]["rules"] = [cost._asdict() for cost in done.rule_costs]
    rows[0]["shape"] = done.shape
    rows[0]["other_loads"] = done.other_loads
    rows[0]["exchanges"] = done.exchanged
    if done.confidence is not None:
        sure = done.confidence.head(len(rows)).drop(columns="package_id").to_dict(orient="records")
        rows = [one | more for one, more in zip(rows, sure, strict=True)]
    return rows


def front_records(done: Recommendation) -> dict[str, object]:
    """Return the front as a plain document, as ``procure recommend --pareto … --format json`` prints it."""
    assert done.front is not None
    counts = counts_of(done.case.packages.iloc[done.front["row"].to_numpy()], done.results.plan.quotes)
    rows = done.front.drop(columns="row").to_dict(orient="records")
    return {
        "axes": [{"name": axis.name, "unit": axis.unit} for axis in done.criteria.axes],
        "front": [one | {"counts": held} for one, held in zip(rows, counts, strict=True)],
    }


def servers_by_type(packages: pd.DataFrame, quotes: pd.DataFrame) -> pd.DataFrame:
    """Sum the servers of each type over packages: a row per type, in quote-file order.

    ``category name cpus mem_gb gpus``, ``servers``, ``packages`` that hold the type, and ``mean_count`` per package.
    (Hutchison 2024, table 3.6.)
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

    What discounts take off an order is shared among its nodes by their list prices. (Hutchison 2024, figure 3.5.)
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
