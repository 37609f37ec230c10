"""A job table as arrays in submission order, with the times at which each job leaves the queue and ends."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.queue_time.events import NEVER
from procure.queue_time.splits import bursts


@dataclass(frozen=True)
class Log:
    """A job table as arrays in submission order; times in seconds since the first submission.

    ``row`` is a job's place in the whole log, ``order`` its place in the table. ``left`` is when a job left
    the queue: it started, or ended without a start. ``due`` is when a running job reaches its limit or ends,
    whichever is sooner.
    """

    origin: int
    row: np.ndarray
    order: np.ndarray
    submit: np.ndarray
    start: np.ndarray
    end: np.ndarray
    left: np.ndarray
    due: np.ndarray
    limit: np.ndarray
    cpus: np.ndarray
    mem: np.ndarray
    gpus: np.ndarray
    nodes: np.ndarray
    user: np.ndarray
    partition: np.ndarray
    shape: np.ndarray
    like: np.ndarray
    optional: dict[str, np.ndarray]

    @property
    def wait(self) -> np.ndarray:
        """Seconds from submission to start; meaningless where a job never started."""
        return self.start - self.submit

    @property
    def work(self) -> np.ndarray:
        """CPUs × limit, float64."""
        return self.cpus * self.limit.astype(float)

    @property
    def n(self) -> int:
        """How many jobs there are."""
        return len(self.submit)

    def take(self, positions: np.ndarray) -> Log:
        """Return the jobs at these positions of the job table, in the order given."""
        at = np.argsort(self.order)[positions]
        arrays = [one.name for one in fields(self) if one.name not in ("origin", "optional")]
        taken: dict[str, Any] = {name: getattr(self, name)[at] for name in arrays}
        return replace(self, **taken, optional={name: values[at] for name, values in self.optional.items()})

    def asking(self, position: int, **amounts: float) -> Log:
        """Let the waiting job at a position of the job table ask for other ``cpus mem gpus nodes limit``."""
        me = int(np.flatnonzero(self.order == position)[0])
        arrays = {name: getattr(self, name).copy() for name in amounts}
        for name, amount in amounts.items():
            arrays[name][me] = amount
        other = replace(self, **arrays)
        shape, like = _groups(other.user, other.partition, other.cpus, other.gpus, other.limit)
        return replace(other, shape=shape, like=like)

    def near(self, position: int, seconds: int, n_last: int) -> tuple[Log, int]:
        """Leave out the jobs that a question about one of them does not need.

        Kept are those that had not ended this many seconds before its submission, and of all jobs and of each of
        its groups the last ``n_last`` to be submitted, to start and to end.

        Returns
        -------
        tuple
            The log of these jobs, and the asked one's position among them.
        """
        me = int(np.flatnonzero(self.order == position)[0])
        now = self.submit[me]
        keep = self.end >= now - seconds
        keep[me] = True
        groups = [group == group[me] for group in (self.user, self.partition, self.shape, self.like)]
        for rows in map(np.flatnonzero, (np.ones(self.n, bool), *groups)):
            keep[rows[rows < me][-n_last:]] = True
            for moment in (self.start, self.end):
                past = rows[moment[rows] < now]
                if len(past) > n_last:  # all that share the moment of the last one kept are kept
                    past = past[moment[past] >= np.partition(moment[past], -n_last)[-n_last]]
                keep[past] = True
        kept = self.take(self.order[keep])
        order = np.argsort(np.argsort(kept.order))
        return replace(kept, row=np.arange(kept.n), order=order), int(order[np.flatnonzero(kept.row == me)[0]])


UNKNOWN = 2.0**50
"""A moment after every other, in Unix seconds: what has not happened yet."""


@dataclass
class Outcomes:
    """What became of jobs, in submission order; Unix seconds.

    ``left`` is when each left the queue, `UNKNOWN` while it waits; ``started`` is False for a job that gave up or
    still waits; ``name`` its id, ``rank`` its place in its burst, from 1.
    """

    submit: np.ndarray
    left: np.ndarray
    started: np.ndarray
    name: np.ndarray
    rank: np.ndarray

    @classmethod
    def of(cls, jobs: pd.DataFrame) -> Outcomes:
        """Take them out of a job table."""
        start = jobs["start_time"].to_numpy(dtype="float64", na_value=np.nan)
        end = jobs["end_time"].to_numpy(dtype="float64", na_value=np.nan)
        left = np.nan_to_num(np.where(np.isnan(start), end, start), nan=UNKNOWN)
        name = jobs["job_id"].astype(str).to_numpy().astype("U")
        rank = jobs.groupby(bursts(jobs)).cumcount().to_numpy() + 1
        return cls(jobs["submit_time"].to_numpy(dtype="float64"), left, ~np.isnan(start), name, rank)

    @classmethod
    def none(cls) -> Outcomes:
        """Return those of no job."""
        return cls(np.zeros(0), np.zeros(0), np.zeros(0, bool), np.zeros(0, "U1"), np.zeros(0, np.int64))

    def take(self, rows: np.ndarray) -> Outcomes:
        """Return those of some rows."""
        return Outcomes(*(getattr(self, f.name)[rows] for f in fields(self)))

    def then(self, later: Outcomes) -> Outcomes:
        """Return these and those of later jobs."""
        return Outcomes(*(np.concatenate([getattr(self, f.name), getattr(later, f.name)]) for f in fields(self)))

    def __len__(self) -> int:
        """Return how many jobs there are."""
        return len(self.submit)


def without_starts(jobs: pd.DataFrame) -> pd.DataFrame:
    """Take the start from jobs that were cancelled in the queue: their state says so and they never ran.

    They stand in the queue until their end, when they gave up, and are no example of a wait.
    """
    if "state" not in jobs.columns or "end_time" not in jobs.columns:
        return jobs
    gave_up = jobs["state"].astype(str).str.upper().str.startswith("CANCELLED") & (jobs["run_time"] == 0)
    return jobs.assign(start_time=jobs["start_time"].mask(gave_up.to_numpy()))


def wait_times(jobs: pd.DataFrame) -> np.ndarray:
    """Return start − submit in seconds, float64, NaN where a job never started."""
    if "start_time" not in jobs.columns:
        raise TableError("the job table has no start_time; a log with start times is needed")
    start = jobs["start_time"].to_numpy(dtype="float64", na_value=np.nan)
    return start - jobs["submit_time"].to_numpy(dtype="float64")


def read_jobs(jobs: pd.DataFrame) -> Log:
    """Take what the features need out of a job table.

    Parameters
    ----------
    jobs
        A checked job table with ``start_time``; ``end_time`` where known, else start + run time.

    Raises
    ------
    TableError
        No start times, or a job that starts before its submission.
    """
    wait = wait_times(jobs)
    if np.nanmin(wait, initial=0.0) < 0:
        row = int(np.flatnonzero(wait < 0)[0])
        raise TableError(f"row {row + 1}, column start_time: the job starts {-wait[row]:.0f} s before submission")
    submit = jobs["submit_time"].to_numpy()
    order = np.argsort(submit, kind="stable")
    origin = int(submit[order[0]]) if len(submit) else 0
    jobs = jobs.iloc[order]
    submit = submit[order] - origin

    def column(name: str, default: float = 0.0) -> np.ndarray:
        return jobs[name].to_numpy() if name in jobs.columns else np.full(len(jobs), default)

    def moment(name: str) -> np.ndarray:
        if name not in jobs.columns:
            return np.full(len(jobs), NEVER)
        values = jobs[name].to_numpy(dtype="float64", na_value=np.nan)
        return np.where(np.isnan(values), NEVER, np.nan_to_num(values) - origin).astype(np.int64)

    start, end = moment("start_time"), moment("end_time")
    end = np.where((end == NEVER) & (start < NEVER) & ("end_time" not in jobs), start + column("run_time"), end)
    end = np.maximum(end, np.where(start < NEVER, start, submit))
    limit = column("requested_time").astype(np.int64)
    nodes = column("n_nodes", 1).astype(np.int64)
    cpus = nodes * jobs["cpus_per_node"].to_numpy()
    gpus = nodes * column("gpus_per_node").astype(np.int64)
    user, partition = _codes(jobs, "user"), _codes(jobs, "partition")
    shape, like = _groups(user, partition, cpus, gpus, limit)
    optional = {
        name: pd.to_numeric(jobs[name], errors="coerce").to_numpy(dtype="float64", na_value=np.nan)
        for name in ("priority", "fair_share", "owns_resources")
        if name in jobs.columns
    }
    due = np.minimum(end, np.where(start < NEVER, start + limit, NEVER))
    return Log(
        origin, np.arange(len(submit)), order, submit, start, end, np.minimum(start, end), due,
        limit, cpus, nodes * column("mem_mb_per_node"), gpus, nodes, user, partition, shape, like, optional,
    )  # fmt: skip


def _groups(
    user: np.ndarray, partition: np.ndarray, cpus: np.ndarray, gpus: np.ndarray, limit: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Number the groups of like jobs, and of nearly equal jobs of one user, see `meanings`."""
    step = (np.log2(np.maximum(limit, 60) / 60) // 2).astype(np.int64)
    width = np.ceil(np.log2(np.maximum(cpus, 1))).astype(np.int64)
    return _pack(partition, width, step, np.minimum(gpus, 1)), _pack(user, partition, cpus, limit // 600)


def _codes(jobs: pd.DataFrame, name: str) -> np.ndarray:
    if name not in jobs.columns:
        return np.zeros(len(jobs), np.int64)
    return pd.factorize(jobs[name])[0].astype(np.int64)


def _pack(*codes: np.ndarray) -> np.ndarray:
    """Number the distinct tuples of codes, in order of appearance."""
    packed = codes[0]
    for code in codes[1:]:
        packed = pd.factorize(packed * (int(code.max(initial=0)) + 1) + code)[0].astype(np.int64)
    return packed
