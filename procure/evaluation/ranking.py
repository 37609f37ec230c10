"""How good a ranking of packages is, against simulated waits, and how sure: hits, regret, ranges of ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.models.case import WorkloadWaits
from procure.models.surrogate import SHARE
from procure.objectives.aggregate import REGRET_FLOOR

TOP_SHARE = 0.05
"""A package is among the best if it is among the best 5 %."""
DRAWS = 1000
TAILS = ((1 - SHARE) / 2, (1 + SHARE) / 2)


def resample_rows(n: int, draws: int, seed: int) -> np.ndarray:
    """Draw n of n units with replacement; int64, shape (draws, n)."""
    return np.random.default_rng(seed).integers(0, n, (draws, n))


def top_edge(figures: np.ndarray) -> np.ndarray:
    """Return the figure up to which a package is among the best; shape (draws,) of (draws, packages).

    It is the ⌊share × packages⌋-th smallest, at least the first, as for the hits of `procure.evaluate`.
    """
    place = max(1, hit_count(TOP_SHARE, figures.shape[-1])) - 1
    return np.partition(figures, place, axis=-1)[..., place]


def bootstrap(waits: np.ndarray, total: Callable[[np.ndarray, np.ndarray], np.ndarray], seed: int = 1) -> np.ndarray:
    """Resample the days of waits, [days, packages], and pool each resample; shape (`DRAWS`, packages).

    ``total`` takes the drawn rows and which days they are, and returns a figure per package.
    """
    return np.stack([total(waits[days], days) for days in resample_rows(len(waits), DRAWS, seed)])


def rank_confidence(
    drawn: np.ndarray, edges: np.ndarray | None = None, figures: np.ndarray | None = None
) -> pd.DataFrame:
    """Say how ranks vary over resampled workloads, and which packages cannot be told apart from the first.

    ``drawn`` are mean waits, or other figures of which less is better, float64[draws, packages], first the one that is
    to be bought; ``edges`` by draw the figure up to which a package is among the best `TOP_SHARE`, None = not known.
    Returns a row per package: ``rank_low`` and ``rank_high``, see `rank_ranges`, ``share_first`` of the draws in which
    it was best (ties counted for each), ``chance_top`` of being among the best 5 %, and ``alike``.

    A package is **alike** if the 90 % range of its difference from the first over the draws reaches below 0, or if both
    are equal in every draw: what makes all packages wait longer cancels. The first was chosen because it came out
    first, so the rule leans a little toward telling packages apart.
    """
    low, high = rank_ranges(drawn, figures)
    gap = drawn - drawn[:, [0]]
    return pd.DataFrame({"rank_low": low, "rank_high": high}).assign(
        share_first=(drawn == drawn.min(axis=1, keepdims=True)).mean(axis=0),
        chance_top=np.nan if edges is None else (drawn <= edges[:, None]).mean(axis=0),
        alike=(np.quantile(gap, TAILS[0], axis=0) < 0) | (gap == 0).all(axis=0),
    )


def rank_ranges(drawn: np.ndarray, figures: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of each package's rank, int64, shape (packages,) each; every package's place lies in its own.

    ``drawn`` is as for `rank_confidence`, packages in the order of the list: the range holds 90 % of the resamples'
    ranks, widened to the place. Resamples of few days vary less than days do: with ``figures``, what the list is in the
    order of, it also reaches from 1 + the packages told apart as better to those not told apart as worse, where a
    difference is beyond 90 % of a normal distribution of its own standard deviation over the resamples.
    """
    ranks = pd.DataFrame(drawn).rank(axis=1, method="min")
    low, high = np.quantile(ranks, TAILS, axis=0, method="inverted_cdf").astype(np.int64)
    place = np.arange(1, drawn.shape[1] + 1)
    if figures is not None:
        z = NormalDist().inv_cdf(TAILS[1])
        for one in range(len(place)):
            reach = z * (drawn[:, [one]] - drawn).std(axis=0, ddof=1)
            gap = figures[one] - figures
            low[one] = min(low[one], 1 + int((gap > reach).sum()))
            high[one] = max(high[one], len(place) - int((gap < -reach).sum()))
    return np.minimum(low, place), np.maximum(high, place)


class Hits(NamedTuple):
    """Which packages are hits: ``n_hits`` by the share; ``is_hit`` marks them, ``n_real`` with ties included."""

    n_hits: int
    threshold: float
    is_hit: np.ndarray
    n_real: int


def hit_count(share: float, n: int) -> int:
    """Return how many of n packages are hits but for ties: ⌊share × n⌋."""
    # As a fraction of the decimal that was written: 0.05 × 20 must be 1, whatever binary makes of it.
    return int(Fraction(str(share)) * n)


def find_hits(wait: np.ndarray, share: float = 0.05) -> Hits:
    """Mark the packages whose true mean wait, s, is among the lowest share.

    ``n_hits`` = ⌊share × packages⌋; a hit's wait is ≤ the n_hits-th smallest, so packages tied there are all hits.
    Fewer than 1 / share packages have no hit.
    """
    n_hits = hit_count(share, len(wait))
    threshold = float(np.partition(wait, n_hits - 1)[n_hits - 1]) if n_hits else np.nan
    return Hits(n_hits, threshold, wait <= threshold, int((wait <= threshold).sum()))


def order(predicted: np.ndarray, price: np.ndarray) -> np.ndarray:
    """Return rows from the lowest predicted wait up; equal ones by lower price, then lower row."""
    return np.lexsort((price, predicted))


def at_k(ranking: np.ndarray, wait: np.ndarray, hits: Hits, k: int) -> dict[str, float]:
    """Judge the first k of a ranking (rows, best first) by the true mean waits, s.

    Precision = hits in the first k / k, or the list's length if that is less, ``k_used``; recall = hits in the first k
    / all hits, ties included; F1 their harmonic mean; regret of the best of the first k against the best of all: in
    seconds, and divided by max(the best, 60 s) (Hutchison 2024, section 3.5).
    """
    top = ranking[:k]
    best = float(wait.min()) if len(wait) else np.nan
    lost = float(wait[top].min()) - best if len(top) else np.nan
    return _judged(len(top), float(hits.is_hit[top].sum()), hits.n_real, lost, best)


def random_at_k(wait: np.ndarray, hits: Hits, k: int) -> dict[str, float]:
    """Return what a random order achieves on average, exactly, as `at_k`; the regret is the expected one."""
    ascending = np.sort(wait)
    n, used = len(wait), min(k, len(wait))
    if used == 0:
        return _judged(0, 0.0, 0, np.nan, np.nan)
    # P(the lowest of the draw is the i-th smallest) = C(n-1-i, k-1) / C(n, k), by its ratio to the next.
    rank = np.arange(n - used, dtype="float64")
    chance = np.concatenate([[1.0], np.cumprod((n - used - rank) / (n - 1 - rank))]) * used / n
    lost = float(chance @ ascending[: len(chance)] - ascending[0])
    return _judged(used, used * hits.n_real / n, hits.n_real, max(lost, 0.0), float(ascending[0]))


def _judged(used: int, n_found: float, n_real: int, lost: float, best: float) -> dict[str, float]:
    regret = {"regret_seconds": lost, "regret_share": lost / max(best, REGRET_FLOOR)}
    return {"k_used": used} | shares_of_hits(used, n_found, n_real) | regret


def shares_of_hits(k: int, n_found: float, n_hits: int) -> dict[str, float]:
    """Return precision, recall and F1 of a list of k with so many of all hits; NaN where there is none."""
    return {
        "precision": n_found / k if k else np.nan,
        "recall": n_found / n_hits if n_hits else np.nan,
        "f1": 2 * n_found / (k + n_hits) if k + n_hits else np.nan,
    }


def rank_correlation(predicted: np.ndarray, wait: np.ndarray) -> float:
    """Return Spearman's rank correlation; NaN where either side is constant."""
    if len(wait) < 2 or np.ptp(wait) == 0 or np.ptp(predicted) == 0:
        return float("nan")
    return float(np.corrcoef(pd.Series(predicted).rank(), pd.Series(wait).rank())[0, 1])


def evaluate(
    predicted: np.ndarray | None,
    wait: np.ndarray,
    price: np.ndarray,
    ks: Sequence[int] = (10, 50, 100, 500, 1000),
    hit_share: float = 0.05,
    **labels: object,
) -> pd.DataFrame:
    """Judge one ranking at every k, and at the number of hits.

    A row per k: the ``labels`` (such as ``workload="day"``), ``k n_hits n_hits_real`` (with ties) ``n_ranked``, the
    figures of `at_k` and ``spearman``. ``predicted`` is a score of each package, lowest first (None: a random order);
    ``wait`` its true mean wait, s; of equal predictions the lower ``price`` is first.
    """
    hits = find_hits(wait, hit_share)
    judge, rho = partial(random_at_k, wait, hits), 0.0
    if predicted is not None:
        judge, rho = partial(at_k, order(predicted, price), wait, hits), rank_correlation(predicted, wait)
    counted = {"n_hits": hits.n_hits, "n_hits_real": hits.n_real, "n_ranked": len(hits.is_hit)}
    lengths = sorted({*ks, hits.n_hits} - {0})
    return pd.DataFrame([labels | {"k": k} | counted | judge(k) | {"spearman": rho} for k in lengths])


def cheapest_per_cpu(packages: pd.DataFrame) -> np.ndarray:
    """Return the naive score of a package: US$ per CPU core."""
    cpus = np.maximum(packages["total_cpus"].to_numpy(dtype="float64"), 1e-9)
    return packages["price_usd"].to_numpy(dtype="float64") / cpus


def evaluate_case(
    case: WorkloadWaits,
    predictions: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]],
    truth: np.ndarray | None = None,
    ks: Sequence[int] = (10, 50, 100, 500, 1000),
    hit_share: float = 0.05,
    rule: str = "runs-all",
) -> pd.DataFrame:
    """Judge models and two baselines on the packages that run every job, and by the published rule beside.

    ``predictions`` are by (feature set, model) the predicted wait per package for those that run every job, and for all
    by the published rule (the mean over the jobs that ran, whatever was left out). ``truth`` is the mean wait per
    package, s, NaN where unknown, None: the case's own; with it, ``bought_regret_share`` is the regret of the best
    among the first k and what the case had simulated. ``rule = "published"`` judges all packages by that rule.

    Returns `evaluate`'s columns after ``workload feature_set model``, and the hits and figures of the published rule
    as ``published_…``. The baselines, ``random`` and ``cheapest-per-cpu``, are of feature set ``none``.
    """
    wait = case.wait if truth is None else truth
    every = np.flatnonzero(~np.isnan(wait))
    ranked = every if rule == "published" else np.flatnonzero(case.runs_all & ~np.isnan(wait))
    price, per_cpu = case.packages["price_usd"].to_numpy(dtype="float64"), cheapest_per_cpu(case.packages)
    naive = {("none", "cheapest-per-cpu"): (per_cpu, per_cpu), ("none", "random"): (None, None)}
    tables = []
    for (feature_set, model), (inner, outer) in {**predictions, **naive}.items():
        inner = outer if rule == "published" else inner
        labels = {"workload": case.name, "feature_set": feature_set, "model": model}
        mine, all_of_them = (None if one is None else one[rows] for one, rows in ((inner, ranked), (outer, every)))
        table = evaluate(mine, wait[ranked], price[ranked], ks, hit_share, **labels)
        beside = evaluate(all_of_them, wait[every], price[every], table["k"].tolist(), hit_share)
        published = beside.set_index("k")[["n_hits", "precision", "recall", "f1"]].reindex(table["k"])
        table = pd.concat([table, published.add_prefix("published_").reset_index(drop=True)], axis=1)
        if truth is not None and inner is not None:
            table["bought_regret_share"] = _bought(case, inner, wait, ranked, price, table["k"].tolist())
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _bought(
    case: WorkloadWaits, predicted: np.ndarray, wait: np.ndarray, ranked: np.ndarray, price: np.ndarray, ks: list[int]
) -> list[float]:
    if not len(ranked):
        return [np.nan] * len(ks)
    best, known = float(wait[ranked].min()), wait[ranked][case.simulated[ranked]]
    at_hand = float(known.min()) if len(known) else np.inf
    ranking = ranked[order(predicted[ranked], price[ranked])]
    bought = [min(at_hand, float(wait[ranking[:k]].min())) for k in ks]
    return [(one - best) / max(best, REGRET_FLOOR) for one in bought]
