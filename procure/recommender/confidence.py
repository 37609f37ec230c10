"""How sure a list is: its jobs resampled, and its first packages on other days, more load, and drawn weeks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.evaluation.ranking import TAILS, bootstrap, rank_confidence, resample_rows, top_edge
from procure.files import keep_array
from procure.objectives import MEAN_WAIT, Quantity
from procure.objectives.aggregate import pooled_mean, regrets
from procure.packages.nodes import package_ids
from procure.policies import catalog
from procure.progress import track
from procure.recommender.values import Criteria, PackageValues, pool
from procure.recommender.what_if import Changes, changed_jobs
from procure.run import run_prepared
from procure.study.applications import mapper
from procure.study.plan import read_past_jobs
from procure.study.sections import PAST, read_futures, table_digest
from procure.sweep.results import StudyResults
from procure.sweep.runner import make_bench, ready_of_package
from procure.sweep.trial import simulate_packages, try_everywhere
from procure.text import counted, duration, file_name
from procure.workload.clock import has_dates, to_local
from procure.workload.load import bursts

FEWEST_DAYS = 5
"""From this many workloads on, days are resampled; below, the bursts within each."""
RESAMPLES = 20
"""Each resample of bursts costs a simulation of every package of the head."""
HEAD = 50

_TYPES = {
    "rank_low": "Int64", "rank_high": "Int64", "share_first": "float64", "chance_top": "float64", "alike": "boolean",
}  # fmt: skip


@dataclass(frozen=True)
class Confidence:
    """How sure the order of a list is.

    ``table`` has a row per package of the list's head that leaves out as many jobs as the first, in rank order:
    ``package_id rank_low rank_high share_first chance_top alike``; ranks are among the head, see `rank_ranges`; what is
    not known is missing. ``unit`` says what was resampled: ``days``, ``bursts of jobs``, or ``nothing``; ``n_draws``
    times, of ``n_units``. ``of`` is what the list is in the order of; ``failure`` says which run of a resample failed.
    """

    table: pd.DataFrame
    unit: str
    n_draws: int
    n_units: int
    of: Quantity = MEAN_WAIT
    failure: str = ""

    def head(self, k: int) -> pd.DataFrame:
        """Return the first k rows; those of packages that were not compared hold nothing."""
        return self.table.head(k) if k <= len(self.table) else self.table.astype(_TYPES).reindex(range(k))

    def columns(self, k: int) -> dict[str, list[object]]:
        """Return columns for people on the order of the first k; none where nothing is known of it."""
        table = self.head(k)
        if table["alike"].isna().all():
            return {}
        ranks = table[["rank_low", "rank_high"]].to_numpy(dtype="float64", na_value=float("nan"))
        columns = {"ranks": [f"{low:.0f}–{high:.0f}" if low == low else None for low, high in ranks]}
        chance = table["chance_top"]
        if not chance.dropna().eq(chance.iloc[0]).all():
            columns["top_5_%"] = [f"{one:.0%}" if one == one else None for one in chance]
        return columns | {"tied_1st": table["alike"].astype(object).where(table["alike"].notna(), None).tolist()}

    def sentences(self) -> list[str]:
        """Say which packages cannot be told apart, and how firm the first rank is."""
        if len(self.table) < 2:
            return []
        if self.of.source != "result":
            return [f"{self.of.name} does not depend on the jobs, so resampling them does not change this order"]
        if self.unit == "nothing":
            how = "once every package of the head is simulated, procure recommend --resamples 20 tells"
            why = f"a run failed: {self.failure}" if self.failure else how
            return [f"the jobs were not drawn anew, so it is not known how sure this order is; {why}"]
        alike, first = self.table["alike"].to_numpy(dtype=bool), self.table.iloc[0]
        came = f"the jobs, {counted(self.n_units, 'group')} that came together,"
        units = f"the {self.n_units} days" if self.unit == "days" else came
        tied, others = int(alike[1:].sum()), len(alike) - 1
        text = f"in {counted(self.n_draws, 'draw')} from {units} the first package is the best in "
        text += f"{first['share_first']:.0%}, and of rank {first['rank_low']:.0f} to {first['rank_high']:.0f} in 90 %; "
        among = f"{'all' if tied == others else tied or 'none'} of the {others} others of the head"
        return [f"{text}{among} cannot be told apart from it"]


def resample_bursts(jobs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return a workload of as many `bursts`, drawn from this one with replacement; times stay.

    Jobs that are drawn again get ``+1``, ``+2`` … after their id.
    """
    burst = bursts(jobs)
    n = int(burst.max()) + 1
    times = np.bincount(resample_rows(n, 1, seed)[0], minlength=n)[burst]
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
    of, ranking = criteria.objective, ranking[ranking["satisfies"]] if "satisfies" in ranking else ranking
    # The mean of a package that leaves jobs out is over other jobs, so the order beyond is not resampled.
    every, left_out = ranking["row"].to_numpy(), ranking["jobs_left_out"].to_numpy()
    rows = every[: min(max(k, HEAD), int(np.cumprod(left_out == left_out[:1]).sum()))]
    ids = values.packages["package_id"].to_numpy()[rows]
    table = pd.DataFrame({"package_id": ids}, columns=["package_id", *_TYPES]).astype(_TYPES)
    unknown = Confidence(table, "nothing", 0, 0, of=of)
    if of.source != "result" or not values.simulated[rows].all():
        return unknown
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
        try:
            drawn = _by_bursts(results, values, of, rows, range(seed, seed + resamples))
        except TableError as error:
            return replace(unknown, failure=str(error))
        if not len(drawn):
            return unknown
        n_units = sum(int(bursts(results.plan.workloads[case.name]).max()) + 1 for case in values.cases)
    table = rank_confidence(drawn, edges, figures)
    if not by_days:
        value, able = values.value(of)[0], values.whole.runs_all
        known = value[every][able[every] & ~np.isnan(value[every])]
        edge = float(top_edge(known)) if len(known) else np.nan
        table["chance_top"] = np.where(able[rows] & (value[rows] <= edge), 1.0, 0.0) if len(known) else np.nan
    table.insert(0, "package_id", ids)
    return Confidence(table, "days" if by_days else "bursts of jobs", len(drawn), n_units, of)


def _by_days(
    values: PackageValues, of: Quantity, rows: np.ndarray, seed: int, reduce: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    ran, best = values.ran[:, rows], values.best

    def total(some: np.ndarray, days: np.ndarray) -> np.ndarray:
        return reduce(pool(of, some, ran[days], values.weight[days], values.cvar_share, best[days]))

    return bootstrap(values.results[of.column][:, rows], total, seed=seed)


def _by_bursts(
    results: StudyResults, values: PackageValues, of: Quantity, rows: np.ndarray, seeds: range
) -> np.ndarray:
    """Return the objective in each resample of bursts, float64[resamples, rows]; a run that fails is an error."""
    plan, policy = results.plan, results.policy

    def resampled(seed: int) -> np.ndarray:
        found, ran = [], []
        for case in values.cases:
            jobs = resample_bursts(plan.workloads[case.name], seed)
            runs = simulate_packages(plan, results.counts[rows], case.name, policy, jobs, "raise")
            found.append(runs[of.column].to_numpy(dtype="float64"))
            ran.append(len(jobs) - runs["n_unrunnable"].to_numpy(dtype="float64"))
        return pool(of, np.stack(found), np.stack(ran), values.weight, values.cvar_share)

    asked = ([(case.name, case.weight) for case in values.cases], policy, of.name)
    name = f"resamples.{hashlib.sha256(repr(asked).encode()).hexdigest()[:8]}"
    inputs = [plan.fingerprint, *asked, values.cvar_share, seeds, results.counts[rows]]

    def every() -> np.ndarray:
        return np.array([resampled(seed) for seed in track(seeds, "resampling the jobs", "resample")])

    return keep_array(results.kept if len(seeds) else None, name, inputs, every)


TRIED = 10
"""So many of the first packages are tried; under a policy that is slow, the first alone."""
GROWTHS = (1.2, 1.5)
_DAY = 86_400


def loads_record(
    loads: pd.DataFrame, days: np.ndarray, day_jobs: np.ndarray, weeks: np.ndarray, saturated: int = 0
) -> dict[str, Any]:
    """Return how the first package of a list does on other days, under more load, and on drawn weeks.

    ``loads`` are mean waits, s, a row per load (index: the factor, 1 first) and a column per package, best first;
    ``days`` those by day, of as many jobs as in ``day_jobs``, float64[days, packages], and ``weeks`` on each drawn
    period; in so many ``saturated`` ones the first one's queue grows. Returns ``n_packages``; ``loads``, of each other
    load ``load mean_wait_time rank leader regret_seconds``; ``days`` and ``weeks``, None where there are none.
    """
    ranges = {"days": None, "weeks": _range(weeks, len(weeks))}
    if n := len(days):
        ranges["days"] = _range(bootstrap(days, lambda wait, some: pooled_mean(wait, day_jobs[some])), n)
    if ranges["weeks"]:
        ranges["weeks"]["n_saturated"] = saturated
    rows = [
        {
            "load": float(load), "mean_wait_time": float(wait[0]), "rank": 1 + int((wait < wait[0]).sum()),
            "leader": str(loads.columns[int(wait.argmin())]), "regret_seconds": float(wait[0] - wait.min()),
        }
        for load, wait in zip(loads.index[1:], loads.to_numpy()[1:], strict=True)
    ]  # fmt: skip
    return {"n_packages": loads.shape[1], "loads": rows} | ranges


def load_notes(held: dict[str, Any] | None) -> list[str]:
    """Say what other days, a heavier load, and drawn weeks do to the first package, see `loads_record`."""
    found, n = [], held["n_packages"] if held else 0
    for what in ("days", "weeks") if held else ():
        if (of := held[what]) is not None:  # type: ignore[index]
            over = f"{counted(of['n'], 'day')} drawn anew" if what == "days" else f"{of['n']} drawn periods"
            among = f"; of {n} packages the first is the best in {of['best_share']:.0%}" if n > 1 else ""
            low, high = duration(of["low_wait_time"]), duration(of["high_wait_time"])
            full = f"; the queue grows to the end in {of['n_saturated']}" if of.get("n_saturated") else ""
            found.append(f"over {over} jobs wait {low} to {high} (90 %){among}{full}")
    for one in held["loads"] if held else ():
        text = f"under {one['load']:g} times the load jobs wait {duration(one['mean_wait_time'])}"
        text += f"; the first package is then rank {one['rank']} of {n}" if n > 1 else ""
        text += f", {duration(one['regret_seconds'])} behind {one['leader']}" if one["rank"] > 1 else ""
        found.append(text)
    return found


def _range(wait: np.ndarray, n: int) -> dict[str, Any] | None:
    """Return the first package's range, how often it is the best, and its mean regret, over some waits."""
    if not n:
        return None
    first = wait[:, 0]
    low, high = map(float, np.quantile(first, TAILS))
    found = {"n": n, "mean_wait_time": float(first.mean()), "low_wait_time": low, "high_wait_time": high}
    best, behind = (first <= wait.min(axis=1)).mean(), regrets(wait)[:, 0].mean()
    return found | {"best_share": float(best), "regret_share": float(behind)}


def other_loads(
    results: StudyResults, values: PackageValues, rows: np.ndarray, weeks: list[pd.DataFrame], seed: int = 1
) -> dict[str, Any]:
    """Try the first packages of a list on other days, under `GROWTHS` times the load, and on drawn weeks.

    ``rows`` are of packages that leave out as many jobs as the first, best first; the first `TRIED` count. ``values``
    are of the study's packages: what is simulated is not simulated again. ``weeks`` are from `drawn_weeks`; ``seed``
    chooses the bursts that are added.
    """
    rows = rows[: TRIED if catalog.is_batched(results.policy) else 1]
    counts, plan, now = results.counts[rows], results.plan, values.whole.wait[rows]
    asked = [(case.name, case.weight) for case in results.cases]
    inputs = [plan.fingerprint, results.policy, asked, counts, seed, [table_digest(one) for one in weeks]]
    name = f"other-loads.{file_name(results.policy)}"

    def simulated() -> np.ndarray:
        first = now if not np.isnan(now).any() else _waits(results, counts)
        waits = [first, *(_waits(results, counts, growth, seed) for growth in track(GROWTHS, "trying loads", "load"))]
        for one in weeks:
            runs = simulate_packages(plan, counts, PAST, results.policy, one, "raise")
            waits += [runs[MEAN_WAIT.column].to_numpy("float64"), runs["saturated"].to_numpy("float64")]
        return np.array(waits)

    found = keep_array(results.kept, name, inputs, simulated)
    n = 1 + len(GROWTHS)
    loads = pd.DataFrame(found[:n], index=[1.0, *GROWTHS], columns=package_ids(counts, plan.types))
    if len(results.cases) >= FEWEST_DAYS:
        days, ran = values.results[MEAN_WAIT.column][:, rows], (values.ran * values.weight[:, None])[:, rows]
    else:
        days, ran = keep_array(results.kept, f"{name}.days", inputs, lambda: _by_day(results, counts))
    if len(days) < FEWEST_DAYS or np.isnan(days).any():
        days = ran = np.empty((0, len(rows)))
    return loads_record(loads, days, ran, found[n::2], int((found[n + 1 :: 2, 0] > 0).sum()))


def _waits(results: StudyResults, counts: np.ndarray, growth: float | None = None, seed: int = 1) -> np.ndarray:
    changes, own = Changes(growth=growth, seed=seed), results.plan.workloads
    jobs = {case.name: changed_jobs(own[case.name], changes) for case in results.cases}
    return try_everywhere(results, counts, jobs=jobs if growth else None)["mean_wait_time"].to_numpy(dtype="float64")


def _by_day(results: StudyResults, counts: np.ndarray) -> np.ndarray:
    """Replay packages; return their waits, s, and the jobs by day of submission, float64[2, days, packages].

    Nothing is replayed, and no day returned, where the days are too few.
    """
    zones, days = {one.name: one.tz for one in results.plan.study.scenarios}, list[np.ndarray]()
    for case in results.cases:  # the place of each job's day among those with jobs, in order of submission
        jobs = results.plan.workloads[case.name]
        submit = np.sort(jobs["submit_time"].to_numpy(np.int64))
        clock = to_local(submit, zones[case.name]) if has_dates(jobs) else submit
        days.append(np.unique(clock // _DAY, return_inverse=True)[1])
    if sum(int(day.max()) + 1 for day in days) < FEWEST_DAYS:
        return np.empty((2, 0, len(counts)))
    found = []
    for case, day in zip(results.cases, days, strict=True):
        bench = make_bench(results.plan, case.name, results.policy)
        submit, mine = bench.ready.jobs.submit, np.empty((2, int(day.max()) + 1, len(counts)))
        for i, package in enumerate(counts):
            start = run_prepared(ready_of_package(bench, package), bench.policy).start
            ran = (submit >= bench.ready.counts_from) & (start >= 0)
            mine[0, :, i] = np.bincount(day[ran], (start - submit)[ran], mine.shape[1])
            mine[1, :, i] = np.bincount(day[ran], minlength=mine.shape[1])
        mine = mine[:, mine[1].min(axis=1) > 0]
        mine[0] /= mine[1]
        mine[1] *= case.weight
        found.append(mine)
    return np.concatenate(found, axis=1)


def drawn_weeks(results: StudyResults) -> list[pd.DataFrame]:
    """Draw the weeks of ``[futures]``, or read those of its folder; none where the study asks for none.

    A log that is too short, and a folder whose weeks were drawn from other jobs, are errors.
    """
    study = results.plan.study
    if study.futures is None:
        return []
    with_speeds = mapper(study)
    drawn = read_futures(read_past_jobs(study), study.futures).values()
    return [with_speeds(one, study.workloads[0]) for one in drawn]
