"""How long a job will run, from past jobs of the same user, shape and requested time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.learn.features import NO_LIMIT

LEVELS = (
    (),
    ("requested_time",),
    ("n_nodes", "cpus_per_node", "mem_mb_per_node", "gpus_per_node", "requested_time"),
    ("user", "requested_time"),
    ("user", "n_nodes", "cpus_per_node", "mem_mb_per_node", "gpus_per_node", "requested_time"),
)
"""Groups of past jobs, from all to those most alike; each leans on the one before where it knows little."""
PER_DECADE = 8
"""Bins of run time / requested time per decade; five decades below 1."""
N_BINS = 5 * PER_DECADE


@dataclass(frozen=True)
class RunTimes:
    """An estimator of run times: fit on past jobs, predict means and quantiles.

    Each group of `LEVELS` keeps a histogram of run time / requested time; a group of n jobs is smoothed with
    ``strength`` jobs that are distributed as the group above it. Without a limit, `NO_LIMIT` is taken.

    Attributes
    ----------
    strength
        Jobs that the group above counts as.
    half_life
        s in which a past job's weight halves, counted back from the last submission; 0 = never.
    by_user
        Use the levels that name the user.
    as_of
        Unix s at which this was known; set by `fit`.
    tables
        Per level, from a key to a row of ``counts``.
    counts
        float64[n_groups, N_BINS] per level.
    """

    strength: float = 3.0
    half_life: float = 604_800.0
    by_user: bool = True
    as_of: int = 0
    tables: tuple[Mapping[str, int], ...] = ()
    counts: tuple[np.ndarray, ...] = field(default=(), repr=False)

    def fit(self, jobs: pd.DataFrame, ended_by: int | None = None) -> RunTimes:
        """Return an estimator that has learnt from a job table, and nothing before.

        Parameters
        ----------
        jobs
            A job table.
        ended_by
            Unix seconds: only jobs that had ended by then are learnt from, i.e. whose ``end_time``, or without
            one whose submission plus run time, is not later. None = all.

        Raises
        ------
        ArgumentError
            ``strength`` is not positive or ``half_life`` is negative.
        """
        if not self.strength > 0 or not self.half_life >= 0:
            raise ArgumentError("strength", "strength must be > 0 and half_life ≥ 0")
        empty = RunTimes(self.strength, self.half_life, self.by_user)
        tables: tuple[Mapping[str, int], ...] = tuple({} for _ in empty.levels)
        counts = tuple(np.zeros((0, N_BINS)) for _ in empty.levels)
        return replace(empty, tables=tables, counts=counts).updated(jobs, ended_by)

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
        faded, weight = 1.0, np.ones(len(jobs))
        if self.half_life:
            faded = 0.5 ** ((now - self.as_of) / self.half_life)
            weight = 0.5 ** ((now - end) / self.half_life)
        bins = _bin_of(jobs["run_time"].to_numpy(np.float64) / _limit(jobs))
        tables, counts = [], []
        for level, known, old in zip(self.levels, self.tables, self.counts, strict=True):
            groups, names = pd.factorize(_keys(jobs, level))
            table = dict(known)
            row = np.array([table.setdefault(str(name), len(table)) for name in names], np.int64)
            held = np.zeros((len(table), N_BINS))
            held[: len(old)] = old * faded
            np.add.at(held, (row[groups], bins), weight)
            tables.append(table)
            counts.append(held)
        return replace(self, as_of=now, tables=tuple(tables), counts=tuple(counts))

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """The groups that are used."""
        return tuple(level for level in LEVELS if self.by_user or "user" not in level)

    def _distribution(self, jobs: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return float64[n_jobs, N_BINS] that sum to 1, and how much weight the last level found has."""
        if not self.tables:
            raise TableError("this estimator of run times has learnt nothing yet; call fit first")
        smooth = np.full((len(jobs), N_BINS), 1.0 / N_BINS)
        known = np.zeros(len(jobs))
        for level, table, counts in zip(self.levels, self.tables, self.counts, strict=True):
            keys = _keys(jobs, level)
            row = np.array([table.get(key, -1) for key in keys], np.int64)
            found = np.zeros((len(jobs), N_BINS))
            found[row >= 0] = counts[row[row >= 0]]
            n = found.sum(axis=1)
            smooth = (self.strength * smooth + found) / (self.strength + n)[:, None]
            known = np.where(n > 0, n, 0.0) if level else known
        return smooth, known

    def predict(self, jobs: pd.DataFrame, quantile: float | None = None) -> np.ndarray:
        """Return the expected run time, or a quantile of it: float64[n_jobs], s, never above the request.

        Raises
        ------
        ArgumentError
            The quantile does not lie between 0 and 1.
        TableError
            It has not been fitted.
        """
        smooth, _ = self._distribution(jobs)
        if quantile is None:
            return smooth @ _CENTRES * _limit(jobs)
        if not 0 < quantile < 1:
            raise ArgumentError("quantile", f"a quantile lies between 0 and 1; {quantile} was given")
        upper = _EDGES[1:][np.argmax(np.cumsum(smooth, axis=1) >= quantile - 1e-12, axis=1)]
        return upper * _limit(jobs)

    def known(self, jobs: pd.DataFrame) -> np.ndarray:
        """Return how many past jobs (weighted) of the same user, shape and request are known: float64[n_jobs]."""
        return self._distribution(jobs)[1]


def _limit(jobs: pd.DataFrame) -> np.ndarray:
    requested = jobs["requested_time"].to_numpy(np.float64)
    return np.where(requested > 0, requested, float(NO_LIMIT))


def _keys(jobs: pd.DataFrame, level: tuple[str, ...]) -> np.ndarray:
    if not level:
        return np.full(len(jobs), "", object)
    absent = {"user": "", "n_nodes": "1"}  # as `procure.tables.check` fills them
    parts = [
        jobs[name].astype(str) if name in jobs else pd.Series(absent.get(name, "0"), index=jobs.index) for name in level
    ]
    return parts[0].str.cat(parts[1:], sep="|").to_numpy(object)


_EDGES = 10.0 ** (np.arange(N_BINS + 1) / PER_DECADE - N_BINS / PER_DECADE)
_CENTRES = np.sqrt(_EDGES[1:] * _EDGES[:-1])


def _bin_of(ratio: np.ndarray) -> np.ndarray:
    logs = np.log10(np.clip(ratio, 1e-5, 1.0))
    return np.clip(np.ceil((logs + 5.0) * PER_DECADE).astype(np.int64) - 1, 0, N_BINS - 1)
