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
from procure.recommender.values import MEAN_WAIT, Criteria, PackageValues, pool
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
_TYPES = {"rank_low": "Int64", "rank_high": "Int64", "alike": "boolean"}


@dataclass(frozen=True)
class Confidence:
    """How sure the order of a list is.

    ``table`` has a row per package of the list's head that leaves out as many jobs as the first, in rank order:
    ``package_id rank_low rank_high share_first chance_top alike``; ranks are among the head, see `rank_ranges`; what is
    not known is missing. ``unit`` says what was resampled: ``days``, ``bursts of jobs``, or ``nothing``; ``n_draws``
    times, of ``n_units``. ``of`` is what the list is in the order of; ``failures`` are resamples that are left out: of
    each, the first run that failed.
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

    def sentences(self) -> list[str]:
        """Say which packages cannot be told apart, and how firm the first rank is."""
        if len(self.table) < 2:
            return []
        if self.of.source != "result":
            return [f"{self.of.name} does not depend on the jobs, so resampling them does not change this order"]
        n = len(self.failures)
        lost = [f"{counted(n, 'resample')} {be(n)} left out, because a run failed: {one}" for one in self.failures[:1]]
        if self.unit == "nothing":
            how = "once every package of the head is simulated, `procure recommend --resamples 20` tells"
            return [f"the jobs were not resampled, so it is not known how sure this order is; {how}", *lost]
        alike, first = self.table["alike"].to_numpy(dtype=bool), self.table.iloc[0]
        units = f"the {self.n_units} days" if self.unit == "days" else f"the {counted(self.n_units, 'job burst')}"
        which = [str(rank) for rank in np.flatnonzero(alike[1:]) + 2]
        ranks = f" (ranks {', '.join(which[:_NAMED])}{' …' if len(which) > _NAMED else ''})" if which else ""
        return [
            f"in {counted(self.n_draws, 'resample')} of {units} the first package is the best in "
            f"{first['share_first']:.0%}, and of rank {first['rank_low']:.0f} to {first['rank_high']:.0f} in 90 %; "
            f"{'all' if len(which) == len(alike) - 1 else len(which) or 'none'} of the {len(alike) - 1} others of the "
            f"head cannot be told apart from it{ranks}",
            *lost,
        ]


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
    """Say how sure the head of a ranking (`procure.recommender.rank.ranking_table`) is, by whatever objective.

    At least `HEAD` packages are looked at; those that break a constraint do not count. From `FEWEST_DAYS` workloads
    on, days are resampled; below, bursts, ``resamples`` times: None = `RESAMPLES` under best fit's fast lane, 0 under
    policies that are simulated slowly. Where the head holds predictions, and without resamples, nothing is known of
    the order.
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
