"""How sure the order of a list is: resample the days, or the bursts of jobs, and rank the packages again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from procure.evaluation.bootstrap import bootstrap, rank_confidence, rank_ranges, top_edge
from procure.files import keep_array
from procure.objectives import Quantity
from procure.policies import catalog
from procure.progress import track
from procure.recommender.criteria import MEAN_WAIT, Criteria
from procure.recommender.values import PackageValues, pool
from procure.sweep.results import StudyResults
from procure.sweep.trial import simulate_packages
from procure.text import be, counted
from procure.workload.scale import bursts

FEWEST_DAYS = 5
"""From this many workloads on, days are resampled; below, the bursts within each."""
DAY_RESAMPLES = 1000
RESAMPLES = 20
"""Each resample of bursts costs a simulation of every package of the head."""
HEAD = 50

_NAMED = 12
_ROUNDING = 1e-9
_TYPES = {"rank_low": "Int64", "rank_high": "Int64", "alike": "boolean"}


@dataclass(frozen=True)
class Confidence:
    """How sure the order of a list is.

    Attributes
    ----------
    table
        A row per package of the list's head that leaves out as many jobs as the first, in rank order: ``package_id
        rank_low rank_high share_first chance_top alike``. Ranks are among the head; see `rank_ranges`. What is not
        known is missing.
    unit
        What was resampled: ``days``, ``bursts of jobs``, or ``nothing`` (the ranges of predictions were
        compared instead; of simulated packages nothing is known then).
    n_draws, n_units
        How often, and of how many.
    of
        What the list is in the order of.
    failures
        Why resamples are left out: of each, the first run that failed.
    """

    table: pd.DataFrame
    unit: str
    n_draws: int
    n_units: int
    of: Quantity = MEAN_WAIT
    failures: tuple[str, ...] = ()

    def head(self, k: int) -> pd.DataFrame:
        """Return the first k rows; those of packages that were not compared hold nothing."""
        return self.table.head(k) if k <= len(self.table) else self.table.astype(_TYPES).reindex(range(k))

    def columns(self, k: int) -> dict[str, list[object]]:
        """Return columns for people on the order of the first k; none where nothing is known of it."""
        table = self.head(k)
        if table["alike"].isna().all():
            return {}
        ranks = table[["rank_low", "rank_high"]].to_numpy(dtype="float64", na_value=float("nan"))
        columns: dict[str, list[object]] = {
            "ranks": [f"{low:.0f}–{high:.0f}" if low == low else None for low, high in ranks]
        }
        chance = table["chance_top"]
        if not chance.dropna().eq(chance.iloc[0]).all():
            columns["top_5_%"] = [f"{one:.0%}" if one == one else None for one in chance]
        alike = table["alike"].astype(object).where(table["alike"].notna(), None)
        return columns | {"tied_1st": alike.tolist()}

    def sentences(self, n_packages: int) -> list[str]:
        """Say which packages cannot be told apart, and how firm the first rank is."""
        if len(self.table) < 2:
            return []
        if self.of.source != "result":
            return [f"{self.of.name} does not depend on the jobs, so resampling them does not change this order"]
        head = ("the first " if len(self.table) < n_packages else "all ") + str(len(self.table))
        n = len(self.failures)
        lost = [f"{counted(n, 'resample')} {be(n)} left out, because a run failed: {one}" for one in self.failures[:1]]
        if self.unit == "nothing":
            how = "once every package of the head is simulated, `procure recommend --resamples 20` tells"
            return [f"the jobs were not resampled, so it is not known how sure this order is; {how}", *lost]
        return self._of_resamples(head) + lost

    def _of_resamples(self, head: str) -> list[str]:
        table, first, what = self.table, self.table.iloc[0], self.of.name.replace("mean-wait", "wait")
        alike, by_days = table["alike"].to_numpy(dtype=bool), self.unit == "days"
        units = f"the {self.n_units} days" if by_days else f"the {counted(self.n_units, 'job burst')}"
        how = f"{counted(self.n_draws, 'resample')} of {units}"
        interval = f"the 90 % bootstrap interval of the difference in {what}"
        if (table["share_first"] == 1).all():
            return [f"{head} packages have the same {what} in every one of {how}: this workload cannot tell them apart"]
        n = int(alike.sum()) - 1
        every = n == len(table) - 1
        some, which = (head, "") if every else (f"{n} of {head}", f", {_ranks(alike)}")
        text = f"{some} packages cannot be told apart from the first: {interval} includes 0 ({how}{which})"
        if n == 0:
            text = f"the first package is better than every other of {head}: {interval} excludes 0 ({how})"
        ties, top = table["share_first"].sum() > 1 + _ROUNDING, first["chance_top"]
        return [
            text,
            f"the first package is best{', alone or tied,' if ties else ''} in {first['share_first']:.0%} "
            f"of the resamples; the 90 % range of its rank among the first {len(table)} is "
            f"{first['rank_low']:.0f} to {first['rank_high']:.0f}"
            + (f"; it is among the best 5 % of all packages in {top:.0%}" if by_days and top == top else ""),
        ]


def _ranks(alike: np.ndarray) -> str:
    ranks = [i + 1 for i, one in enumerate(alike) if one and i]
    shown = ", ".join(map(str, ranks[:_NAMED])) + (" …" if len(ranks) > _NAMED else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"


def resample_bursts(jobs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return a workload of as many `bursts`, drawn from this one with replacement; times stay.

    Jobs that are drawn again get ``+1``, ``+2`` … after their id.
    """
    burst = bursts(jobs)
    n_bursts = int(burst.max()) + 1
    drawn_bursts = np.random.default_rng(seed).integers(0, n_bursts, n_bursts)
    times = np.bincount(drawn_bursts, minlength=n_bursts)[burst]
    rows = np.repeat(np.arange(len(jobs)), times)
    again = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    drawn = jobs.iloc[rows]
    ids = [f"{one}+{n}" if n else one for one, n in zip(drawn["job_id"], again, strict=True)]
    return drawn.assign(job_id=ids).reset_index(drop=True)


def assess(
    results: StudyResults,
    values: PackageValues,
    criteria: Criteria,
    ranking: pd.DataFrame,
    k: int,
    resamples: int | None = None,
    seed: int = 1,
) -> Confidence:
    """Say how sure the head of a ranking is, by whatever objective.

    Parameters
    ----------
    results, values, criteria
        The study, every value of its packages, and what they are ranked by.
    ranking
        From `procure.recommender.rank.ranking_table`; packages that break a constraint do not count.
    k
        Length of the list; at least `HEAD` packages are looked at.
    resamples
        How often bursts are resampled; 0 = not at all; None = `RESAMPLES` under best fit's fast lane,
        0 under policies that are simulated slowly. Days are resampled anyhow.
    seed
        Of the resampling.

    Notes
    -----
    Predictions are not resampled: where the head holds some, and without resamples, nothing is known of the order.
    """
    of = criteria.objective
    if "satisfies" in ranking and ranking["satisfies"].any():
        ranking = ranking[ranking["satisfies"]]
    every = ranking["row"].to_numpy()
    # The mean of a package that leaves jobs out is over other jobs, so the order beyond is not resampled.
    left_out = ranking["jobs_left_out"].to_numpy()
    rows = every[: min(max(k, HEAD), int(np.cumprod(left_out == left_out[:1]).sum()))]
    ids = values.packages["package_id"].to_numpy()[rows]
    table = pd.DataFrame({"package_id": ids}).assign(share_first=np.nan, chance_top=np.nan)
    for name, kind in _TYPES.items():
        table[name] = pd.Series(pd.NA, table.index, dtype=kind)
    unknown = Confidence(table, "nothing", 0, 0, of=of)
    if of.source != "result" or not values.simulated[rows].all():
        return unknown
    failures: list[str] = []
    n_units, edges, figures = len(values.cases), None, None
    if by_days := n_units >= FEWEST_DAYS:
        # The edge of the best 5 % is that of the packages that the study's sweep has simulated.
        sampled = np.flatnonzero(np.all([case.simulated & case.runs_all for case in values.cases], axis=0))
        if len(sampled):
            edges = _by_days(values, of, sampled, seed, lambda one: top_edge(one)[None])[:, 0]
        drawn, figures = _by_days(values, of, rows, seed, np.asarray), values.value(of)[0][rows]
    else:
        if resamples is None:
            resamples = RESAMPLES if catalog.is_batched(results.policy) else 0
        drawn = _by_bursts(results, values, of, rows, range(seed, seed + resamples), failures)
        if not len(drawn):
            return replace(unknown, failures=tuple(failures))
        n_units = sum(int(bursts(results.plan.workloads[case.name]).max()) + 1 for case in values.cases)
    low, high = rank_ranges(drawn, figures)
    table = rank_confidence(drawn, edges).assign(rank_low=low, rank_high=high)
    if not by_days:
        value, able = values.value(of)[0], values.whole.runs_all
        known = value[every][able[every] & ~np.isnan(value[every])]
        edge = float(top_edge(known)) if len(known) else np.nan
        table["chance_top"] = (
            np.where(able[rows], (value[rows] <= edge).astype("float64"), 0.0) if len(known) else np.nan
        )
    table.insert(0, "package_id", ids)
    return Confidence(table, "days" if by_days else "bursts of jobs", len(drawn), n_units, of, tuple(failures))


def _by_days(
    values: PackageValues, of: Quantity, rows: np.ndarray, seed: int, reduce: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return the objective of packages in each resample of days, reduced, float64[resamples, …]."""
    ran, best = values.ran[:, rows], values.best

    def total(some: np.ndarray, days: np.ndarray) -> np.ndarray:
        return reduce(pool(of, some, ran[days], values.weight[days], values.cvar_share, best[days]))

    return bootstrap(values.results[of.column][:, rows], total, DAY_RESAMPLES, seed)


def _by_bursts(
    results: StudyResults, values: PackageValues, of: Quantity, rows: np.ndarray, seeds: range, failures: list[str]
) -> np.ndarray:
    """Return the objective in each resample of bursts, float64[resamples, rows]; kept if no run fails.

    A resample of which a run failed is left out, and ``failures`` names the run.
    """
    tried: list[np.ndarray] = []

    def resampled(seed: int) -> np.ndarray | None:
        found, ran = [], []
        for case in values.cases:
            jobs = resample_bursts(results.plan.workloads[case.name], seed)
            runs = simulate_packages(results.plan, results.counts[rows], case.name, results.policy, jobs)
            for run in runs[runs["status"] != "ok"].head(1).itertuples():
                failures.append(f"{run.package_id} on {case.name}: {run.reason}")
                return None
            found.append(runs[of.column].to_numpy(dtype="float64"))
            ran.append(len(jobs) - runs["n_unrunnable"].to_numpy(dtype="float64"))
        return pool(of, np.stack(found), np.stack(ran), values.weight, values.cvar_share)

    def simulated() -> np.ndarray | None:
        drawn = (resampled(seed) for seed in track(seeds, "resampling the jobs", "resample"))
        tried.extend(one for one in drawn if one is not None)
        return None if failures else np.array(tried)

    asked = ([(case.name, case.weight) for case in values.cases], results.policy, of.name)
    name = f"resamples.{hashlib.sha256(repr(asked).encode()).hexdigest()[:8]}"
    inputs = [results.plan.fingerprint, *asked, values.cvar_share, seeds, results.counts[rows]]
    whole = keep_array(results.kept if len(seeds) else None, name, inputs, simulated)
    return np.array(tried) if whole is None else whole
