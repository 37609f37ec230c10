"""Packages that do well on many days: hits per day, hits over days, and models that learn from all days at once.

The published study counts on how many of 25 days a package is among the best tenth, and calls it a hit
if these are more than N days. Here likewise, judged out of fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.evaluation.ranking import cheapest_per_cpu, hit_count, order, shares_of_hits
from procure.models import Surrogate, WorkloadWaits
from procure.models.surrogate import fold_of
from procure.objectives.aggregate import aggregate, pooled_mean, regrets
from procure.progress import track
from procure.text import nearest

KS = (10, 50, 100, 500, 1_000, 5_000, 10_000)
"""List lengths of the published tables 3.7 to 3.9."""

MODELS = ("normalised", "hit-days")
"""What a model of all days may learn, see `predict_all_days`."""

Scores = Mapping[tuple[str, str], np.ndarray]
"""By (feature set, model): a score per package, lower is recommended first, NaN last."""


@dataclass(frozen=True)
class Days:
    """The mean waits of packages on several days: arrays are [days, packages], or [days].

    ``weight`` is what a day counts in a mean; ``wait`` the mean wait, s, NaN where it was not simulated; ``able`` which
    packages can be hits on which day; ``n_jobs`` the jobs that each runs.
    """

    names: tuple[str, ...]
    wait: np.ndarray
    able: np.ndarray
    weight: np.ndarray
    n_jobs: np.ndarray

    @property
    def simulated(self) -> np.ndarray:
        """Which packages were simulated on every day."""
        return ~np.isnan(self.wait).any(axis=0)


def days_of(cases: Sequence[WorkloadWaits], rule: str = "runs-all", truth: np.ndarray | None = None) -> Days:
    """Take cases of the same packages as days; ``truth``: other mean waits than theirs, s, float64[days, packages].

    By the rule ``runs-all`` only packages that run all of a day's jobs can be hits on it, by ``published`` all can.
    """
    able, waits = (np.array([getattr(case, name) for case in cases]) for name in ("runs_all", "wait"))
    weight, n_jobs = (
        np.array([getattr(case, name) for case in cases], dtype="float64") for name in ("weight", "n_ran")
    )
    able = np.ones_like(able) if rule == "published" else able
    return Days(tuple(case.name for case in cases), waits if truth is None else truth, able, weight, n_jobs)


def day_hits(wait: np.ndarray, able: np.ndarray, share: float = 0.1) -> np.ndarray:
    """Mark each day's hits among the packages that can be, bool[days, packages].

    With n = ⌊share × packages⌋, a hit's mean wait is ≤ the n-th smallest among the able packages, so packages tied
    there are all hits; where fewer than n packages are able, all of these are.
    """
    n_hits = hit_count(share, wait.shape[1])
    hits = np.zeros(wait.shape, dtype=bool)
    for day, (waits, can) in enumerate(zip(wait, able, strict=True)):
        if n_hits and can.any():
            last = min(n_hits, int(can.sum())) - 1
            hits[day] = can & (waits <= np.partition(waits[can], last)[last])
    return hits


def normalised_wait(days: Days, among: np.ndarray | None = None) -> np.ndarray:
    """Return the mean over the days of (wait − min)/(max − min), float64[packages]; NaN where a day is not known.

    A day on which a package cannot be a hit counts as 1, the worst; one on which all waits are equal, 0. Minimum and
    maximum are those ``among`` some packages, by default the simulated; others may exceed 1, below 0 counts as 0.
    (Hutchison 2024, section 3.8, where one model learns every day's values as rows of their own.)
    """
    among = days.simulated if among is None else among
    values = []
    for wait, able in zip(days.wait, days.able, strict=True):
        held = wait[able & among]
        low, high = (float(held.min()), float(held.max())) if len(held) else (0.0, 0.0)
        value = (wait - low) / (high - low) if high > low else np.where(np.isnan(wait), np.nan, 0.0)
        values.append(np.where(able, np.maximum(value, 0.0), np.where(np.isnan(wait), np.nan, 1.0)))
    return pooled_mean(np.array(values), days.weight[:, None])


def hit_days(days: Days, share: float = 0.1, among: np.ndarray | None = None) -> np.ndarray:
    """Count on how many days each package is a hit among some, int64[packages]; −1 for packages outside of these.

    By default these are the packages that were simulated on every day.
    """
    rows = np.flatnonzero(days.simulated if among is None else among)
    counted = np.full(days.wait.shape[1], -1, dtype="int64")
    counted[rows] = day_hits(days.wait[:, rows], days.able[:, rows], share).sum(axis=0)
    return counted


def predict_all_days(
    days: Days,
    x: pd.DataFrame | np.ndarray,
    learns: str = "normalised",
    share: float = 0.1,
    folds: int = 5,
    seed: int = 1,
) -> np.ndarray:
    """Score every package by one model over all days, float64[packages]; lower is better.

    A score is out of fold where a package was simulated on every day, else by the model of all that was; a model learns
    from its own training folds only. ``x`` are `procure.models.features` of the packages. It learns ``normalised``,
    `normalised_wait`, as published, or ``hit-days``, on how many days a package is a hit, by which it is judged;
    the score is then the negative number. Another label, or fewer packages than two per fold, is a `TableError`.
    """
    if learns not in MODELS:
        raise TableError(f"a model of {learns!r} is unknown; {nearest(learns, MODELS)}")
    x, simulated = np.asarray(x, dtype="float64"), days.simulated
    known = np.flatnonzero(simulated)
    if len(known) < 2 * folds:
        needs = f"{folds:,}-fold cross-validation needs at least {2 * folds:,} packages that are simulated on every day"
        raise TableError(f"{needs}; there are {len(known)}: simulate more (sweep.sample), or lower model.folds")
    dealt = fold_of(len(known), folds, seed)
    score = np.full(len(simulated), np.nan)
    parts = [(known[dealt != fold], known[dealt == fold]) for fold in range(folds)]
    parts.append((known, np.flatnonzero(~simulated)))
    for rest, held in track(parts, "learning from all workloads", "fold"):
        if len(held):
            among, counted = np.isin(np.arange(len(simulated)), rest), learns == "hit-days"
            label = hit_days(days, share, among) if counted else normalised_wait(days, among)
            found = Surrogate(seed).fit(x[rest], label[rest].astype("float64")).predict(x[held])
            score[held] = -found if counted else found
    return score


def threshold_table(
    scores: Scores, counted: np.ndarray, packages: pd.DataFrame, thresholds: Iterable[int], ks: Sequence[int] = KS
) -> pd.DataFrame:
    """Judge rankings by how many of the first k are hits on more than a threshold of days (tables 3.7 to 3.9).

    Equal scores go by lower price, then lower row; packages that ``counted`` (from `hit_days`) has below 0 are not
    judged. To the list lengths ``ks`` n_hits is added; lengths beyond the list are left out. Returns ``threshold
    feature_set model k n_hits n_ranked precision recall f1``; recall is NaN where there is no hit. Two baselines of
    feature set ``none`` stand last: ``cheapest-per-cpu``, and ``random``, the expectation over all orders.
    """
    ranked = np.flatnonzero(counted >= 0)
    price = packages["price_usd"].to_numpy(dtype="float64")[ranked]
    everyone = {**scores, ("none", "cheapest-per-cpu"): cheapest_per_cpu(packages)}
    orders = {who: order(np.where(np.isnan(one), np.inf, one)[ranked], price) for who, one in everyone.items()}
    rows = []
    for threshold in thresholds:
        hit = counted[ranked] > threshold
        n_hits, n = int(hit.sum()), len(ranked)
        lengths = sorted({k for k in {*ks, n_hits} if 0 < k <= n})
        n_found = {who: np.cumsum(hit[best]) for who, best in orders.items()}
        n_found[("none", "random")] = np.arange(1, n + 1) * n_hits / max(n, 1)
        for (feature_set, model), cumulative in n_found.items():
            for k in lengths:
                judged = shares_of_hits(k, float(cumulative[k - 1]), n_hits)
                rows.append((threshold, feature_set, model, k, n_hits, n, *judged.values()))
    columns = "threshold feature_set model k n_hits n_ranked precision recall f1"
    return pd.DataFrame(rows, columns=columns.split())


def threshold_sweep(
    scores: Scores, counted: np.ndarray, packages: pd.DataFrame, n_days: int, k: int = 50
) -> pd.DataFrame:
    """Return precision@k and recall@k at every threshold from 0 to one less than the days (figure 3.8).

    Parameters and columns as for `threshold_table`; a list shorter than k is taken whole.
    """
    k = max(1, min(k, int((counted >= 0).sum())))
    table = threshold_table(scores, counted, packages, range(n_days), (k,))
    return table[table["k"] == k].reset_index(drop=True)


CHOICES = ("mean", "worst", "cvar", "regret-max")
"""How the days are combined when one package is chosen, see `procure.objectives.aggregate`."""


def robust_choices(days: Days, packages: pd.DataFrame, counted: np.ndarray) -> pd.DataFrame:
    """Return the simulated package that each way to combine the days would choose.

    Only packages that run every job of every day are chosen from; if there is none, those that run the
    most jobs. Equal ones go by lower price, then lower row. A row: ``choice package_id price_usd``, what that package
    comes to (``mean`` over all jobs, by weight, ``worst`` and ``cvar`` in s, ``regret_max``, a share of max(the day's
    best, 60 s), and ``regret_day``, where that is), and ``hit_days``.
    """
    done = np.flatnonzero(days.simulated)
    n_run = days.n_jobs[:, done].sum(axis=0)
    rows = done[n_run == n_run.max(initial=0)]
    if not len(rows):
        return pd.DataFrame(columns=["choice", "package_id"])
    wait, price = days.wait[:, rows], packages["price_usd"].to_numpy(dtype="float64")[rows]
    by_jobs = days.weight[:, None] * days.n_jobs[:, rows]
    values = {how: aggregate(wait, how, by_jobs if how == "mean" else days.weight) for how in CHOICES}
    far = np.argmax(regrets(wait), axis=0)
    choices = []
    for how in CHOICES:
        best = int(order(values[how], price)[0])
        figures = {one.replace("-", "_"): float(value[best]) for one, value in values.items()}
        package = {"package_id": packages["package_id"].iloc[rows[best]], "price_usd": price[best]}
        more = {"regret_day": days.names[far[best]], "hit_days": int(counted[rows[best]])}
        choices.append({"choice": how} | package | figures | more)
    return pd.DataFrame(choices)
