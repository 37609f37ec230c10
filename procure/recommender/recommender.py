"""From results and a model to a ranked purchase list, confirmed by simulation where it matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.models import Case, Predicted, Surrogate, features

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
    n_failed
        How many confirming runs failed; their packages stay predicted.
    """

    ranking: pd.DataFrame
    k: int
    n_verified: int
    confirmed: bool
    n_failed: int = 0


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
    predicted: Predicted | None,
    quotes: pd.DataFrame,
    k: int = 50,
    simulate: Callable[[list[str]], np.ndarray] | None = None,
    feature_set: str = "composition",
    rule: str = "runs-all",
) -> Recommendation:
    """Rank every package by its simulated wait, or where there is none by its predicted wait.

    Parameters
    ----------
    case
        Packages, jobs left out, waits so far.
    predicted
        From `procure.models.cache.learn` on the same case. None = no model: with ``simulate``, every
        package that is to be ranked by its wait and was not simulated is simulated.
    quotes
        The quote table.
    k
        Length of the list.
    simulate
        Takes package ids and returns their mean waits, s, NaN where a run failed. With it, predicted packages among the
        first max(k, `FEWEST_CONFIRMED`) are simulated and ranked again, until all of these are
        simulated or `MOST_ROUNDS` rounds have passed. None = no verification.
    feature_set
        For the packages that leave jobs out, which are predicted by a model of their own.
    rule
        One of `RULES`: ``published`` ranks by the mean wait over the jobs that ran, whatever is left out.

    Notes
    -----
    A list that is sorted by prediction shows the luckiest errors first; that is what verification
    is for. A low number among unverified predictions is more likely too low than too high.
    """
    guess = predicted.wait if predicted else np.full(len(case.wait), np.nan)
    wait = np.where(case.simulated, case.wait, guess)
    if rule == "runs-all":
        wait = _predict_rest(case, quotes, feature_set, predicted.model if predicted else None, wait)
    k = min(k, len(wait))
    left_out = case.left_out if rule == "runs-all" else np.zeros_like(case.left_out)
    head = max(k, FEWEST_CONFIRMED)
    if predicted is None and simulate is not None:
        # Unknown waits stand last, so the head must reach over all of them.
        head = max(head, int((left_out == left_out.min()).sum()))
    wait, now, failed = _confirm(case, left_out, wait, head, simulate)
    simulated = case.simulated | now
    order = rank(case.packages, left_out, wait)
    low, high = predicted.interval(wait) if predicted else (guess, guess)
    known = simulated | np.isnan(guess)
    table = pd.DataFrame(
        {
            "rank": np.arange(1, len(order) + 1),
            "package_id": case.packages["package_id"].to_numpy()[order],
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
    confirmed = bool(table["simulated"].iloc[:k].all())
    return Recommendation(table, k, int(now.sum()), confirmed, int(failed.sum()))


def _confirm(
    case: Case,
    left_out: np.ndarray,
    wait: np.ndarray,
    length: int,
    simulate: Callable[[list[str]], np.ndarray] | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulate the head until nothing in it is predicted: waits, what was simulated, whose run failed."""
    wait, now, failed = wait.copy(), np.zeros(len(wait), dtype=bool), np.zeros(len(wait), dtype=bool)
    # A package that runs no job has no mean wait to find.
    idle = case.left_out >= case.n_jobs
    ids = case.packages["package_id"].to_numpy()
    for _ in range(MOST_ROUNDS if simulate else 0):
        head = rank(case.packages, left_out, wait)[:length]
        todo = head[~(case.simulated | now | failed | idle)[head]]
        if not len(todo) or simulate is None:
            break
        found = simulate(ids[todo].tolist())
        ran = ~np.isnan(found)
        wait[todo[ran]] = found[ran]
        now[todo[ran]] = failed[todo[~ran]] = True
    return wait, now, failed


def _predict_rest(
    case: Case, quotes: pd.DataFrame, feature_set: str, like: Surrogate | None, wait: np.ndarray
) -> np.ndarray:
    """Fill in predictions for packages that leave jobs out, where enough of them were simulated."""
    rest = ~case.runs_all
    learnt, unknown = np.flatnonzero(rest & case.simulated), np.flatnonzero(rest & np.isnan(wait))
    if len(learnt) < _FEWEST_ROWS or not len(unknown):
        return wait
    x = features(case.packages, quotes, feature_set).to_numpy()
    model = Surrogate(like.kind, like.seed, like.n_jobs, like.profile_) if like else Surrogate()
    model.fit(x[learnt], case.wait[learnt])
    wait = wait.copy()
    wait[unknown] = model.predict(x[unknown])
    return wait
