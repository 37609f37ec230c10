"""How long a job will run, from past jobs of the same shape and requested time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.simulator.arrays import Jobs
from procure.simulator.state import State

NO_LIMIT = 30 * 86_400
"""Seconds that a job without a limit is taken to ask for."""
NO_HISTORY = 0.25
"""Without any history, a job is expected to run this share of its requested time."""
LEVELS = (
    (),
    ("requested_time",),
    ("n_nodes", "cpus_per_node", "mem_mb_per_node", "gpus_per_node", "requested_time"),
)
"""Groups of past jobs, from all to those most alike; each leans on the one before where it knows little."""
PER_DECADE = 8
"""Bins of run time / requested time per decade; five decades below 1."""
N_BINS = 5 * PER_DECADE
STRENGTH, HALF_LIFE = 3.0, 604_800.0
"""Jobs that the group above counts as, and s in which a past job's weight halves, counted from the last submission."""


@dataclass(frozen=True)
class RunTimes:
    """An estimator of run times: fit on past jobs, predict means; by shape and request, for a run knows no user's name.

    Each group of `LEVELS` keeps a histogram of run time / requested time; a group of n jobs is smoothed with
    `STRENGTH` jobs that are distributed as the group above it. Without a limit, `NO_LIMIT` is taken.
    """

    as_of: int = 0  # Unix s at which this was known; set by `fit`
    tables: tuple[Mapping[str, int], ...] = ()  # per level, from a key to a row of ``counts``
    counts: tuple[np.ndarray, ...] = field(default=(), repr=False)  # float64[n_groups, N_BINS] per level

    def fit(self, jobs: pd.DataFrame, ended_by: int | None = None) -> RunTimes:
        """Return an estimator that has learnt from a job table, and nothing before.

        Only jobs that had ended by ``ended_by``, Unix s, count: their ``end_time``, or without one submission plus run
        time, is not later.
        """
        counts = tuple(np.zeros((0, N_BINS)) for _ in LEVELS)
        return RunTimes(tables=tuple({} for _ in LEVELS), counts=counts).updated(jobs, ended_by)

    def updated(self, jobs: pd.DataFrame, ended_by: int | None = None) -> RunTimes:
        """Return what is known when more jobs have ended; those that ended by ``as_of`` are known already."""
        end = jobs["submit_time"].to_numpy(np.float64) + jobs["run_time"].to_numpy(np.float64)
        if "end_time" in jobs:
            logged = pd.to_numeric(jobs["end_time"], errors="coerce").to_numpy(np.float64)
            end = np.where(np.isnan(logged), end, logged)
        now = int(end.max(initial=self.as_of)) if ended_by is None else ended_by
        if now < self.as_of:
            raise ArgumentError("ended_by", f"{now} s lies before what is known already, {self.as_of} s")
        new = (end > self.as_of) & (end <= now)
        jobs, end = jobs[new], end[new]
        faded, weight = 0.5 ** ((now - self.as_of) / HALF_LIFE), 0.5 ** ((now - end) / HALF_LIFE)
        logs = np.log10(np.clip(jobs["run_time"].to_numpy(np.float64) / _limit(jobs), 1e-5, 1.0))
        bins = np.clip(np.ceil((logs + 5.0) * PER_DECADE).astype(np.int64) - 1, 0, N_BINS - 1)
        tables, counts = [], []
        for level, known, old in zip(LEVELS, self.tables, self.counts, strict=True):
            groups, names = pd.factorize(_keys(jobs, level))
            table = dict(known)
            row = np.array([table.setdefault(str(name), len(table)) for name in names], np.int64)
            held = np.zeros((len(table), N_BINS))
            held[: len(old)] = old * faded
            np.add.at(held, (row[groups], bins), weight)
            tables.append(table)
            counts.append(held)
        return replace(self, as_of=now, tables=tuple(tables), counts=tuple(counts))

    def predict(self, jobs: pd.DataFrame) -> np.ndarray:
        """Return the expected run time: float64[n_jobs], s, never above the request; before `fit` a `TableError`."""
        if not self.tables:
            raise TableError("this estimator of run times has learnt nothing yet; call fit first")
        smooth = np.full((len(jobs), N_BINS), 1.0 / N_BINS)
        for level, table, counts in zip(LEVELS, self.tables, self.counts, strict=True):
            row = np.array([table.get(key, -1) for key in _keys(jobs, level)], np.int64)
            found = np.zeros((len(jobs), N_BINS))
            found[row >= 0] = counts[row[row >= 0]]
            smooth = (STRENGTH * smooth + found) / (STRENGTH + found.sum(axis=1))[:, None]
        return smooth @ _CENTRES * _limit(jobs)


def known_at(jobs: pd.DataFrame, moment: int, history: RunTimes | None = None) -> RunTimes:
    """Return what a scheduler can know at a moment, Unix s, from a history not later."""
    past = jobs[jobs["submit_time"] < moment]
    if history is not None and history.as_of <= moment:
        return history.updated(past, moment)
    return RunTimes().fit(past, moment)


def expected_before(state: State | Jobs, history: RunTimes | None) -> np.ndarray:
    """Return what each job was expected to run before the run: float64[n_jobs] in queue order, s.

    Without any history, `NO_HISTORY`. Nodes with several GPU models are refused: a history does not tell them apart.
    """
    if getattr(state, "guards", None) is not None:
        raise TableError("nodes with several GPU models: trained policies do not know them; choose another policy")
    if history is None:
        return NO_HISTORY * np.where(state.requested > 0, state.requested, NO_LIMIT)
    columns = {"cpus_per_node": state.cpus, "mem_mb_per_node": state.mem, "gpus_per_node": state.gpus}
    jobs = pd.DataFrame({"n_nodes": state.n_nodes, **columns, "requested_time": state.requested})
    return history.predict(jobs)


def _limit(jobs: pd.DataFrame) -> np.ndarray:
    requested = jobs["requested_time"].to_numpy(np.float64)
    return np.where(requested > 0, requested, float(NO_LIMIT))


def _keys(jobs: pd.DataFrame, level: tuple[str, ...]) -> np.ndarray:
    if not level:
        return np.full(len(jobs), "", object)
    absent = {"n_nodes": "1"}  # as `procure.tables.check` fills them
    parts = [
        jobs[name].astype(str) if name in jobs else pd.Series(absent.get(name, "0"), index=jobs.index) for name in level
    ]
    return parts[0].str.cat(parts[1:], sep="|").to_numpy(object)


_EDGES = 10.0 ** (np.arange(N_BINS + 1) / PER_DECADE - N_BINS / PER_DECADE)
_CENTRES = np.sqrt(_EDGES[1:] * _EDGES[:-1])
