"""What turns on each application's speed: would another package be first if a benchmark was off by a fifth?"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

from procure.packages.ids import package_ids
from procure.policies import catalog
from procure.progress import track
from procure.recommender.recommendation import Recommendation
from procure.study.applications import Applications
from procure.sweep.results import StudyResults
from procure.sweep.trial import try_everywhere
from procure.text import Shown, counted, duration
from procure.workload.applications import COLUMN

HEAD = 5
MOST_RUNS = 500
CHANGES = (Fraction(4, 5), Fraction(6, 5))


@dataclass(frozen=True, repr=False)
class SpeedSensitivity(Shown):
    """How far the first package turns on each speed of ``[applications]``.

    Attributes
    ----------
    table
        A row per application, name in its ``speed`` and change: ``application processor speed change first
        first_wait mean_wait_time rank regret_seconds``: the package with the shortest mean wait then and that wait, s;
        the mean wait of the recommended first package, its rank among these, and how much longer jobs wait on it.
    packages
        The packages that were tried, best first.
    n_runs
        How many simulations that took.
    rank_now
        The first package's rank by mean wait with the speeds as they are given.
    title, notes
        What was tried; what was left out.
    """

    table: pd.DataFrame
    packages: list[str]
    n_runs: int
    title: str
    rank_now: int = 1
    notes: tuple[str, ...] = ()

    def shown(self) -> pd.DataFrame:
        """Return the table for people."""
        table = self.table
        return pd.DataFrame(
            {
                "application": table["application"],
                "processor": table["processor"],
                "speed": [
                    f"{speed:g} {change:+.0%}" for speed, change in zip(table["speed"], table["change"], strict=True)
                ],
                "mean wait": table["mean_wait_time"].map(duration),
                "rank": table["rank"],
                "first then": ["the same" if row.rank == 1 else row.first for row in table.itertuples(index=False)],
                "its mean wait": table["first_wait"].map(duration),
            }
        )

    def document(self) -> dict[str, object]:
        """Return it as plain values: ``packages n_runs rank_now trials notes``; a trial is a row of ``table``."""
        trials = self.table.to_dict(orient="records") if self.n_runs else []
        return {
            "packages": self.packages,
            "n_runs": self.n_runs,
            "rank_now": self.rank_now,
            "trials": trials,
            "notes": list(self.notes),
        }

    def sentences(self) -> list[str]:
        """Say in one sentence whether the choice turns on a speed."""
        table, n = self.table, len(self.packages)
        if table.empty:
            return list(self.notes)
        moved = table[table["rank"] > self.rank_now]
        text = (
            f"speeds of applications 20 % lower or higher, one at a time ({counted(self.n_runs, 'run')} of "
            f"{counted(n, 'simulated package')}): "
        )
        if moved.empty:
            return [f"{text}the first package keeps its place by mean wait in all {len(table)} trials", *self.notes]
        which = "; ".join(
            f"{row.application} on {row.processor} {row.change:+.0%}: {row.first}, {duration(row.regret_seconds)} less"
            for row in moved.head(3).itertuples()
        )
        more = f", and {len(moved) - 3} more" if len(moved) > 3 else ""
        return [f"{text}it loses its place in {len(moved)} of {len(table)} trials ({which}{more})", *self.notes]


def application_sensitivity(done: Recommendation) -> SpeedSensitivity | None:
    """Simulate the head of a list with each application's speed on each processor 20 % lower and higher.

    Only packages that are simulated and leave out as few jobs as the first are tried, and of these only those that
    hold such a processor are simulated again. None without ``[applications]``, for a front, where nothing is to be
    simulated, and where the first package is not simulated.
    """
    study, results = done.results.plan.study, done.results
    if not study.applications or done.front is not None or not done.verified:
        return None
    ranking = done.ranking.head(max(done.k, 1))
    alike = ranking[ranking["simulated"] & (ranking["jobs_left_out"] == ranking["jobs_left_out"].iloc[0])]
    if alike.empty or not ranking["simulated"].iloc[0]:
        return None
    trials = _trials(results)
    most = MOST_RUNS // ((len(trials) + 1) * len(results.cases))
    if not catalog.is_batched(results.policy) or most < 1:
        why = "the policy is slow" if most else f"{len(trials)} trials on {len(results.cases)} workloads are many"
        empty = pd.DataFrame(columns=["rank"])
        said = f"speeds of applications were not varied, since {why}; --workload and --policy choose"
        return SpeedSensitivity(empty, [], 0, "", notes=(said,))
    head = alike.head(min(HEAD, most))
    counts = results.counts[head["row"].to_numpy()]
    now, waits, n_runs = _waits(results, counts, trials)
    ids = package_ids(counts, results.plan.types)
    rows = []
    for (name, processor, change, _), held in zip(trials, waits, strict=True):
        best = int(held.argmin())
        rank = int((held < held[0]).sum()) + 1
        speed = study.applications[name].speed[processor]
        row = (name, processor, speed, float(change) - 1, ids[best], held[best], held[0], rank, held[0] - held[best])
        rows.append(row)
    names = ["application", "processor", "speed", "change", "first", "first_wait", "mean_wait_time", "rank"]
    table = pd.DataFrame(rows, columns=[*names, "regret_seconds"]).round({"change": 9})
    title = f"The first of {counted(len(ids), 'package')} with each speed 20 % off ({counted(n_runs, 'run')})"
    return SpeedSensitivity(table, ids, n_runs, title, int((now < now[0]).sum()) + 1)


def _trials(results: StudyResults) -> list[tuple[str, str, Fraction, np.ndarray]]:
    """Return application, name in its speeds, change, and which types are of that processor, bool[n_types]."""
    plan = results.plan
    here = Applications(plan.study, plan.quotes, plan.existing)
    found = []
    for name in plan.study.applications:
        for processor, given in here.named(name).items():
            kinds = here.processors[processor]
            of = np.array([one in kinds for one in plan.types], dtype=bool)
            existing = plan.existing is not None and bool(plan.existing["kind"].isin(kinds).any())
            found += [(name, given, change, of | existing) for change in CHANGES]
    return found


def _waits(
    results: StudyResults, counts: np.ndarray, trials: list[tuple[str, str, Fraction, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return mean waits, s: as given, float64[n_packages]; by trial, float64[n_trials, n_packages]; how many runs."""
    plan = results.plan
    now = try_everywhere(results, counts)["mean_wait_time"].to_numpy(dtype="float64")
    waits, n_runs = np.tile(now, (len(trials), 1)), len(counts)
    workloads = {one.name: one for one in plan.study.scenarios}
    for place, (name, processor, change, of) in enumerate(track(trials, "varying speeds", "speed")):
        everywhere = plan.existing is not None and bool(of.all())
        holds = np.array((counts[:, of] > 0).any(axis=1) | everywhere, dtype=bool)
        if not holds.any():
            continue
        other = Applications(plan.study, plan.quotes, plan.existing, {(name, processor): change})
        jobs = {}
        for case in results.cases:
            asked = plan.workloads[case.name]
            plain = asked.drop(columns=COLUMN) if COLUMN in asked else asked
            jobs[case.name] = other.map(plain, workloads[case.name])
        tried = try_everywhere(results, counts[holds], jobs=jobs)
        waits[place, holds] = tried["mean_wait_time"].to_numpy(dtype="float64")
        n_runs += int(holds.sum())
    return now, waits, n_runs * len(results.cases)
