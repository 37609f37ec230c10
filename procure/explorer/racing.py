"""Search by a race: all futures for the packages that a model expects to be good, none for the others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from procure.errors import TableError
from procure.explorer.candidates import Candidates
from procure.explorer.question import Question
from procure.packages.ids import package_ids
from procure.recommender.race import (
    Exchanges,
    Race,
    Score,
    as_it_is,
    by_class_rank,
    by_rank,
    features_of,
    race,
    running_order,
)
from procure.study import Plan
from procure.sweep.parts import write_part
from procure.sweep.protocol import n_local_workers
from procure.sweep.results import RACE_FOLDER, read_runs
from procure.sweep.runner import Bench, make_bench, simulate_rows
from procure.sweep.store import PARTS, fingerprint_text
from procure.text import counted
from procure.workload.past import PAST_NAMES
from procure.workload.scale import cpu_seconds

KEPT = 50
"""Packages that run on every future: as many as a list is long."""
RACED_BY: dict[str, Score] = {"mean-wait": as_it_is, "rank": by_rank, "rank-by-class": by_class_rank}
"""The objectives that a race may be by, and what each compares packages by."""
FIELD_SHARE = 0.5
"""How many packages take part, as a share of the runs; most of them are only predicted."""
NEAR_SHARE = 0.3
"""Share of the runs that is kept for exchanges around the leader, at the end (docs/claims/forward.md)."""
TRIED_NEAR = 200
"""So many exchanges are drawn about each leader."""


@dataclass(frozen=True)
class Raced:
    """What a race over a study's futures gave: the field of packages, most of them only predicted, and result rows.

    The first ``n_drawn`` were drawn, the others are exchanges about a leader.
    """

    counts: np.ndarray
    n_drawn: int
    race: Race
    rows: pd.DataFrame
    n_computed: int
    kernel_seconds: float

    @property
    def n_near_ran(self) -> int:
        """How many packages ran that came by exchanges."""
        return int((~np.isnan(self.race.wait[:, self.n_drawn :])).any(axis=0).sum())

    @property
    def n_packages_ran(self) -> int:
        """How many packages of the field ran at all."""
        return int((~np.isnan(self.race.wait)).any(axis=0).sum())


def race_packages(
    asked: Question,
    candidates: Candidates,
    runs: int,
    note: Callable[[str], None],
    progress: Callable[[int, int, float], None],
) -> Raced:
    """Race packages, drawn at random from those that run every job, over a study's workloads.

    They are compared by an objective of `RACED_BY`. The last of the runs are kept for exchanges about the leader: those
    of one node or more of one type for another.

    Each run is kept in the study's folder, and none is made twice. Runs are made by as many threads as there are
    CPUs: best fit runs compiled, without holding the interpreter. A budget that does not let `KEPT` packages run on
    every workload is an error.
    """
    plan, objective = asked.plan, asked.criteria.objective
    names = list(plan.workloads)
    if runs < KEPT * len(names):
        raise TableError(
            f"{runs:,} runs do not let {KEPT} packages run on each of {len(names)} workloads; give runs "
            f"{KEPT * len(names):,} or more"
        )
    counts = candidates.draw(max(KEPT, int(runs * FIELD_SHARE)), np.random.default_rng([asked.seed, 1]))
    ids = np.array(package_ids(counts, plan.types), dtype=object)
    runner = _Runner(plan, asked.policy, ids, counts, note)
    load = np.array([cpu_seconds(jobs).sum() for jobs in plan.workloads.values()])
    note(f"a race over {len(names)} workloads, in a field of {counted(len(counts), 'package')}: a model says which run")

    def simulate(future: int, rows: np.ndarray) -> np.ndarray:
        return runner.wait(names[future], rows, objective.columns)

    best = float("nan")
    rng, totals = np.random.default_rng([asked.seed, 2]), plan.quotes[["cpus", "mem_gb", "gpus"]].to_numpy()

    def near(leader: int) -> tuple[np.ndarray, np.ndarray]:
        rows = runner.take_in(candidates.near(runner.counts[[leader]], TRIED_NEAR, rng))
        return features_of(runner.counts, runner.counts @ totals), rows

    least = KEPT * len(names)
    found = race(
        simulate,
        features_of(counts, counts @ totals),
        running_order(load),
        runs,
        KEPT,
        RACED_BY[objective.name],
        lambda done, all_: progress(done, all_, best),
        weights=np.array([one.weight for one in plan.study.scenarios]),
        exchanges=Exchanges(near, min(int(runs * NEAR_SHARE), runs - least)),
        past=names.index(PAST_NAMES[0]) if objective.how == "rank-by-class" and PAST_NAMES[0] in names else None,
    )
    return Raced(runner.counts, len(counts), found, runner.rows, runner.n_computed, runner.kernel_seconds)


class _Runner:
    """Simulates packages on one workload after the other, and keeps every run."""

    def __init__(
        self, plan: Plan, policy: str, ids: np.ndarray, counts: np.ndarray, note: Callable[[str], None]
    ) -> None:
        self._plan, self._policy, self._ids, self.counts = plan, policy, ids, counts
        self._folder = plan.study.folder / RACE_FOLDER
        self._fingerprint = fingerprint_text(plan)
        self.rows = read_runs(plan, self._folder, lambda path, why: note(f"{path} is {why}; it is not used"))
        self.rows = self.rows[self.rows["policy"] == policy].drop_duplicates(["package_id", "workload"])
        self.n_computed, self.kernel_seconds = 0, 0.0
        self._benches: dict[str, Bench] = {}

    def take_in(self, counts: np.ndarray) -> np.ndarray:
        """Add packages to the field, unless they are in it; return the row of each."""
        ids = np.array(package_ids(counts, self._plan.types), dtype=object)
        new = ~np.isin(ids.astype(str), self._ids.astype(str))
        self._ids = np.concatenate([self._ids, ids[new]])
        self.counts = np.concatenate([self.counts, counts[new]])
        return pd.Index(self._ids).get_indexer(ids)

    def wait(self, workload: str, rows: np.ndarray, columns: tuple[str, ...]) -> np.ndarray:
        """Return mean waits, s, float64[rows] or [columns, rows]; infinite where a run failed."""
        known = self.rows.loc[self.rows["workload"] == workload, "package_id"]
        new = rows[~np.isin(self._ids[rows].astype(str), known.to_numpy(dtype=str))]
        if len(new):
            self._compute(workload, new)
        mine = self.rows[self.rows["workload"] == workload].set_index("package_id").reindex(self._ids[rows])
        found = mine[list(columns)].to_numpy(dtype="float64", copy=True).T
        found[:, mine["mean_wait_time"].isna().to_numpy()] = np.inf
        return found if len(columns) > 1 else found[0]

    def _compute(self, workload: str, rows: np.ndarray) -> None:
        if workload not in self._benches:
            self._benches[workload] = make_bench(self._plan, workload, self._policy)
        bench = self._benches[workload]
        threads = n_local_workers() if bench.bits is not None else 1
        cut = [part for part in np.array_split(rows, threads * 4) if len(part)]
        with ThreadPoolExecutor(threads) as pool:
            done = list(pool.map(lambda part: self._simulate(bench, part), cut))
        table = pa.concat_tables([found for found, _ in done])
        self.kernel_seconds += sum(seconds for _, seconds in done)
        self.n_computed += len(rows)
        digest = hashlib.sha256("\n".join(self._ids[rows]).encode()).hexdigest()[:16]
        path = self._folder / PARTS / f"{workload}.{digest}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_part(path, table, self._fingerprint, sum(seconds for _, seconds in done))
        self.rows = pd.concat([self.rows, table.to_pandas()], ignore_index=True)

    def _simulate(self, bench: Bench, rows: np.ndarray) -> tuple[pa.Table, float]:
        return simulate_rows(bench, self._ids[rows].tolist(), np.ascontiguousarray(self.counts[rows]))
