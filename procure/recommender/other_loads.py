"""What stands beside the first choice: other days, a heavier load, and drawn weeks where the study asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from procure.evaluation.bootstrap import bootstrap
from procure.files import keep_array
from procure.models.intervals import SHARE
from procure.objectives import MEAN_WAIT
from procure.objectives.aggregate import pooled_mean, regrets
from procure.packages.nodes import package_ids
from procure.policies import catalog
from procure.progress import track
from procure.recommender.confidence import FEWEST_DAYS
from procure.recommender.values import PackageValues
from procure.recommender.what_if import Changes, jobs_of
from procure.run import run_prepared
from procure.study.applications import mapper
from procure.study.futures import PAST, read_futures, table_digest
from procure.study.plan import read_past_jobs
from procure.sweep.results import StudyResults
from procure.sweep.runner import make_bench, ready_of_package
from procure.sweep.trial import simulate_packages, try_everywhere
from procure.text import counted, duration, file_name
from procure.workload.clock import has_dates, to_local

HEAD = 10
"""So many of the first packages are tried; under a policy that is slow, the first alone."""
GROWTHS = (1.2, 1.5)
DRAWS = 1000
_DAY = 86_400
_TAILS = ((1 - SHARE) / 2, (1 + SHARE) / 2)


def loads_record(
    loads: pd.DataFrame, days: np.ndarray, day_jobs: np.ndarray, weeks: np.ndarray, saturated: int = 0
) -> dict[str, Any]:
    """Return how the first package of a list does on other days, under more load, and on drawn weeks.

    ``loads`` are mean waits, s, a row per load (index: the factor, 1 first) and a column per package, best first;
    ``days`` those by day, of as many jobs as in ``day_jobs``, float64[days, packages], and ``weeks`` on each drawn
    period, no row where there are none; in so many ``saturated`` ones the first one's queue grows. Returns
    ``n_packages``; ``loads``, of each other load ``load mean_wait_time rank leader regret_seconds``; ``days`` and
    ``weeks``, None where there are none.
    """
    ranges = {"days": None, "weeks": _range(weeks, len(weeks))}
    if n := len(days):
        drawn = bootstrap(days, lambda wait, some: pooled_mean(wait, day_jobs[some]), DRAWS, 1)
        ranges["days"] = _range(drawn, n)
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
            over = f"resamples of {counted(of['n'], 'day')}" if what == "days" else f"{of['n']} drawn periods"
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
    low, high = np.quantile(first, _TAILS)
    figures = {
        "mean_wait_time": first.mean(), "low_wait_time": low, "high_wait_time": high,
        "best_share": (first <= wait.min(axis=1)).mean(), "regret_share": regrets(wait)[:, 0].mean(),
    }  # fmt: skip
    return {"n": n} | {name: float(value) for name, value in figures.items()}


def other_loads(
    results: StudyResults, values: PackageValues, rows: np.ndarray, weeks: list[pd.DataFrame], seed: int = 1
) -> dict[str, Any]:
    """Try the first packages of a list on other days, under `GROWTHS` times the load, and on drawn weeks.

    ``rows`` are of packages that leave out as many jobs as the first, best first; the first `HEAD` count. ``values``
    are of the study's packages: what is simulated is not simulated again. ``weeks`` are from `drawn_weeks`; ``seed``
    chooses the bursts that are added.
    """
    rows = rows[: HEAD if catalog.is_batched(results.policy) else 1]
    counts, plan, now = results.counts[rows], results.plan, values.whole.wait[rows]
    asked = [(case.name, case.weight) for case in results.cases]
    inputs = [plan.fingerprint, results.policy, asked, counts, seed, [table_digest(one) for one in weeks]]
    kept, name = results.kept if results.keep else None, f"other-loads.{file_name(results.policy)}"

    def simulated() -> np.ndarray:
        first = now if not np.isnan(now).any() else _waits(results, counts)
        waits = [first, *(_waits(results, counts, growth, seed) for growth in track(GROWTHS, "trying loads", "load"))]
        for one in weeks:
            runs = simulate_packages(plan, counts, PAST, results.policy, one, "raise")
            waits += [runs[MEAN_WAIT.column].to_numpy("float64"), runs["saturated"].to_numpy("float64")]
        return np.array(waits)

    found = keep_array(kept, name, inputs, simulated)
    n = 1 + len(GROWTHS)
    loads = pd.DataFrame(found[:n], index=[1.0, *GROWTHS], columns=package_ids(counts, plan.types))
    if len(results.cases) >= FEWEST_DAYS:
        days, ran = values.results[MEAN_WAIT.column][:, rows], (values.ran * values.weight[:, None])[:, rows]
    else:
        days, ran = keep_array(kept, f"{name}.days", inputs, lambda: _by_day(results, counts))
    if len(days) < FEWEST_DAYS or np.isnan(days).any():
        days = ran = np.empty((0, len(rows)))
    return loads_record(loads, days, ran, found[n::2], int((found[n + 1 :: 2, 0] > 0).sum()))


def _waits(results: StudyResults, counts: np.ndarray, growth: float | None = None, seed: int = 1) -> np.ndarray:
    """Return the mean waits of packages under a factor on the load, s."""
    jobs = {case.name: jobs_of(results.plan, case, Changes(growth=growth, seed=seed)) for case in results.cases}
    return try_everywhere(results, counts, jobs=jobs if growth else None)["mean_wait_time"].to_numpy(dtype="float64")


def _by_day(results: StudyResults, counts: np.ndarray) -> np.ndarray:
    """Replay packages; return their waits, s, and the jobs by day of submission, float64[2, days, packages].

    Nothing is replayed, and no day returned, where the days are too few.
    """
    zones = {one.name: one.tz for one in results.plan.study.scenarios}
    days = [_local_days(results.plan.workloads[case.name], zones[case.name]) for case in results.cases]
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


def _local_days(jobs: pd.DataFrame, zone: str | None) -> np.ndarray:
    """Return the place of each job's day among those with jobs, int64[n_jobs], in order of submission."""
    submit = np.sort(jobs["submit_time"].to_numpy(np.int64))
    clock = to_local(submit, zone) if has_dates(jobs) else submit
    return np.unique(clock // _DAY, return_inverse=True)[1]


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
