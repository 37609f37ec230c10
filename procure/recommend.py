"""From results and a model to a ranked purchase list, confirmed by simulation where it matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.models import Case, Predicted, Surrogate, features
from procure.runnable import count_matrix

MOST_ROUNDS = 10
"""After so many rounds of simulating the head of the list, what is left there stays predicted."""

FEWEST_CONFIRMED = 50
"""At least so many packages at the head are simulated, so that a short list is no worse than a long one's head."""

_FEWEST_ROWS = 20


@dataclass(frozen=True)
class Recommendation:
    """A ranking of every distinct package.

    Attributes
    ----------
    ranking
        Best first: ``rank package_id price_usd mean_wait_time simulated jobs_left_out``, ``low_wait_time``
        and ``high_wait_time`` (the 90 % range of a prediction), ``row`` (in the case's packages), and
        ``simulated_now`` for those that were simulated to confirm the list.
    k
        How many are recommended; at most the packages there are.
    n_verified
        How many were simulated to confirm.
    confirmed
        Whether the first k are all simulated.
    """

    ranking: pd.DataFrame
    k: int
    n_verified: int
    confirmed: bool


def rank(
    packages: pd.DataFrame, left_out: np.ndarray, wait: np.ndarray, rows: np.ndarray | None = None
) -> np.ndarray:
    """Return rows in the order of recommendation.

    Packages that run every job come first, by mean wait; then the others, by the number of jobs left
    out, then by mean wait. Unknown waits stand last among equals; further ties go by lower price,
    then lower row.
    """
    rows = np.arange(len(packages)) if rows is None else rows
    keys = (packages["price_usd"].to_numpy()[rows], wait[rows], left_out[rows])
    return rows[np.lexsort(keys)]


def recommend(
    case: Case,
    predicted: Predicted,
    quotes: pd.DataFrame,
    k: int = 50,
    simulate: Callable[[list[str]], np.ndarray] | None = None,
    feature_set: str = "composition",
) -> Recommendation:
    """Rank every package by its simulated wait, or where there is none by its predicted wait.

    Parameters
    ----------
    case
        Packages, jobs left out, waits so far.
    predicted
        From `procure.models.keep.learn` on the same case.
    quotes
        The quote table.
    k
        Length of the list.
    simulate
        Takes package ids and returns their mean waits, s. With it, predicted packages among the
        first max(k, `FEWEST_CONFIRMED`) are simulated and ranked again, until all of these are
        simulated or `MOST_ROUNDS` rounds have passed. None = no verification.
    feature_set
        For the packages that leave jobs out, which are predicted by a model of their own.

    Notes
    -----
    A list that is sorted by prediction shows the luckiest errors first; that is what verification
    is for. A low number among unverified predictions is more likely too low than too high.
    """
    wait = np.where(case.simulated, case.wait, predicted.wait)
    wait = _predict_rest(case, quotes, feature_set, predicted.model, wait)
    simulated, now = case.simulated.copy(), np.zeros(len(wait), dtype=bool)
    k = min(k, len(wait))
    ids = case.packages["package_id"].to_numpy()
    for _ in range(MOST_ROUNDS if simulate else 0):
        head = rank(case.packages, case.left_out, wait)[: max(k, FEWEST_CONFIRMED)]
        todo = head[~simulated[head]]
        if not len(todo) or simulate is None:
            break
        wait[todo] = simulate(ids[todo].tolist())
        simulated[todo] = now[todo] = True
    order = rank(case.packages, case.left_out, wait)
    low, high = predicted.interval(wait)
    known = simulated | ~case.runs_all
    table = pd.DataFrame(
        {
            "rank": np.arange(1, len(order) + 1),
            "package_id": ids[order],
            "price_usd": case.packages["price_usd"].to_numpy()[order],
            "mean_wait_time": wait[order],
            "low_wait_time": np.where(known, np.nan, low)[order],
            "high_wait_time": np.where(known, np.nan, high)[order],
            "simulated": simulated[order],
            "simulated_now": now[order],
            "jobs_left_out": case.left_out[order],
            "row": order,
        }
    )
    return Recommendation(table, k, int(now.sum()), bool(table["simulated"].iloc[:k].all()))


def _predict_rest(
    case: Case, quotes: pd.DataFrame, feature_set: str, like: Surrogate, wait: np.ndarray
) -> np.ndarray:
    """Fill in predictions for packages that leave jobs out, where enough of them were simulated."""
    rest = ~case.runs_all
    learnt, unknown = np.flatnonzero(rest & case.simulated), np.flatnonzero(rest & ~case.simulated)
    if len(learnt) < _FEWEST_ROWS or not len(unknown):
        return wait
    x = features(case.packages, quotes, feature_set).to_numpy()
    model = Surrogate(like.kind, like.seed, like.n_jobs, like.profile_).fit(x[learnt], case.wait[learnt])
    wait = wait.copy()
    wait[unknown] = model.predict(x[unknown])
    return wait


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

    References
    ----------
    Hutchison (2024), figure 3.5.
    """
    spent = count_matrix(packages, quotes) * quotes["price_usd"].to_numpy(dtype="float64")
    mean = pd.Series(spent.mean(axis=0)).groupby(quotes["category"].to_numpy(), sort=False).sum()
    total = float(mean.sum())
    return pd.DataFrame(
        {
            "category": mean.index.to_numpy(),
            "price_usd": mean.to_numpy(),
            "share": mean.to_numpy() / total if total else np.nan,
        }
    )
