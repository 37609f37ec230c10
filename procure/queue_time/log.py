"""A job table as arrays in submission order, with when each job leaves the queue and ends; and how it is split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.text import counted
from procure.workload import load

BURST_GAP = 3600
"""Submissions no more than this many seconds apart are one burst."""


@dataclass(frozen=True)
class Split:
    """Rows by position: ``train`` and ``test``; ``cut`` is the moment of training, None for a random split."""

    name: str
    train: np.ndarray
    test: np.ndarray
    cut: int | None = None


def bursts(jobs: pd.DataFrame) -> np.ndarray:
    """Number the bursts: runs of submissions no more than `BURST_GAP` apart by one user, or where the log names none,
    of jobs with the same request and limit; see `procure.workload.load.bursts`.
    """
    return load.bursts(jobs, BURST_GAP + 1)


def random_split(n: int, seed: int, group: np.ndarray | None = None) -> Split:
    """Draw a fifth as test part at random; rows of one group stay together."""
    rng = np.random.default_rng(seed)
    if group is None:
        test = np.zeros(n, bool)
        test[rng.permutation(n)[: round(0.2 * n)]] = True
        return Split("random", np.flatnonzero(~test), np.flatnonzero(test))
    names, code, counts = np.unique(group, return_inverse=True, return_counts=True)
    order = rng.permutation(len(names))
    chosen = np.zeros(len(names), bool)
    chosen[order[np.cumsum(counts[order]) <= 0.2 * n]] = True
    test = chosen[code]
    return Split("random-bursts", np.flatnonzero(~test), np.flatnonzero(test))


def chronological(submit: np.ndarray, wait: np.ndarray, cut: int | None = None) -> Split:
    """Test the last fifth by submission, or all from ``cut`` on; train on jobs that had started before that."""
    order = np.argsort(submit, kind="stable")
    if cut is None:
        first = int(len(order) * 0.8)
        test, cut = order[first:], int(submit[order[min(first, len(order) - 1)]])
        before = order[:first]
    else:
        test, before = order[submit[order] >= cut], order[submit[order] < cut]
    train = before[submit[before] + wait[before] < cut]
    if len(train) < 20 or len(test) == 0:
        raise TableError(
            f"the split leaves {len(train)} jobs that had started by its cut to train on and {len(test)} to "
            "test; at least 20 and 1 are needed: give a longer log or another cut"
        )
    return Split("chronological", train, test, cut)


NEVER = np.int64(2**40)
"""A time after every other, in seconds since the log's first submission."""
LOOK_BACK, LOOK_SPAN = 20_000, 7 * 86_400
"""Jobs, and seconds, before a submission: what is older than both is not looked at as the last wait or job before."""


@dataclass(frozen=True)
class Log:
    """A job table as arrays in submission order; times in seconds since the first submission.

    ``row`` is how many jobs of the log came before each, ``order`` its place in the table. ``left`` is when a job
    left the queue: it started, or ended without a start. ``due`` is when a running job reaches its limit or ends,
    whichever is sooner. ``user partition model shape like`` are codes from 0, ``model`` of GPUs; ``names`` holds
    what the first three stand for. ``since`` is the moment from which on the last waits and jobs before each are
    looked for: a model knows the last jobs of a site, see `store.recent`, and is to be told what a whole log tells.
    """

    origin: int
    row: np.ndarray
    order: np.ndarray
    submit: np.ndarray
    since: np.ndarray
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
    model: np.ndarray
    shape: np.ndarray
    like: np.ndarray
    names: dict[str, pd.Index]
    optional: dict[str, np.ndarray]

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """What `view.View` has sorted and summed of these jobs, whoever asks."""
        return {}

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

    @cached_property
    def kinds(self) -> dict[str, tuple[np.ndarray, ...]]:
        """What the jobs of a shape and of a kind have in common, see `features.GROUPS`."""
        width = np.ceil(np.log2(np.maximum(self.cpus, 1))).astype(np.int64)
        length = (np.log2(np.maximum(self.limit, 60) / 60) // 2).astype(np.int64)
        return {
            "shape": (self.partition, width, length, np.minimum(self.gpus, 1), self.model),
            "like": (self.user, self.partition, self.cpus, self.limit // 600, self.model),
        }

    def take(self, positions: np.ndarray) -> Log:
        """Return the jobs at these positions of the job table, in the order given."""
        return self._rows(np.argsort(self.order)[positions])

    def _rows(self, at: np.ndarray) -> Log:
        taken: dict[str, Any] = {name: getattr(self, name)[at] for name in _ARRAYS}
        return replace(self, **taken, optional={name: values[at] for name, values in self.optional.items()})

    def asking(self, now: int, asked: Sequence[Mapping[str, Any]]) -> Log:
        """Return questions that come at a moment, Unix s, after the jobs that were submitted by then.

        Each has ``cpus mem gpus nodes limit`` and ``user partition model`` by name.
        """
        n = len(asked)
        amounts = ("cpus", "mem", "gpus", "nodes", "limit")
        of: dict[str, Any] = {name: np.array([one[name] for one in asked]) for name in amounts}
        for name, known in self.names.items():
            code = known.get_indexer(pd.Index([one[name] for one in asked], dtype=object))
            of[name] = np.where(code < 0, len(known), code)  # those not known are one group without a past
        submit, never = np.full(n, now - self.origin), np.full(n, NEVER)
        row = np.full(n, int(np.searchsorted(self.submit, now - self.origin, side="right")))
        moments: dict[str, Any] = {"submit": submit} | dict.fromkeys(("start", "end", "left", "due"), never)
        optional = {name: np.full(n, np.nan) for name in self.optional}
        moments["since"] = _since(self.submit, row, submit)
        ask = replace(self, **moments, **of, row=row, order=np.arange(n), optional=optional)
        kinds = ask.kinds
        for label, known in self.numbers.items():  # what no job has is one group without a past
            common = zip(*(values.tolist() for values in kinds[label]), strict=True)
            none = max(known.values(), default=-1) + 1
            moments[label] = np.array([known.get(one, none) for one in common], np.int64)
        return replace(ask, shape=moments["shape"], like=moments["like"])

    def without(self, left_out: np.ndarray) -> Log:
        """Leave out jobs, (n,) bool."""
        kept = self._rows(np.flatnonzero(~left_out))
        return replace(kept, row=np.arange(kept.n))

    @cached_property
    def numbers(self) -> dict[str, dict[tuple[int, ...], int]]:
        """Return the code of each shape and kind of job, by what its jobs have in common."""
        kinds, found = self.kinds, {}
        for label in ("shape", "like"):
            codes, first = np.unique(getattr(self, label), return_index=True)
            common = zip(*(values[first].tolist() for values in kinds[label]), strict=True)
            found[label] = dict(zip(common, codes.tolist(), strict=True))
        return found


_ARRAYS = tuple(one.name for one in fields(Log) if one.name not in ("origin", "names", "optional"))


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
        submit, burst = jobs["submit_time"].to_numpy(dtype="float64"), bursts(jobs)
        rank = jobs.groupby(burst).cumcount().to_numpy() + 1
        return cls(submit, left, ~np.isnan(start), name, rank)

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


def queue_jobs(jobs: pd.DataFrame) -> pd.DataFrame:
    """Keep the jobs whose time in the queue is known: started, ended without a start, or still pending.

    A job cancelled in the queue has not started; it stands there until it gives up. Where the log has
    ``eligible_time``, a job joins the queue then, as its ``submit_time`` says from here on: until it is held no more,
    its begin time has come and its dependency is met, it does not wait for room. A job that is not yet eligible is left
    out, and one that starts before it is submitted; `left_out` says so. A log without starts is refused.
    """
    if "start_time" not in jobs.columns or jobs["start_time"].isna().all():
        raise TableError("the log has no start times; waits cannot be learnt from it")
    if "end_time" not in jobs.columns:
        jobs = jobs.assign(end_time=(jobs["start_time"] + jobs["run_time"]).astype("Int64"))
    known = jobs["start_time"].notna() | jobs["end_time"].notna()
    if "state" in jobs.columns:
        known |= jobs["state"].astype(str).str.upper().isin(["PENDING", "PD"])
    kept = without_starts(jobs)[(known & ~_too_early(jobs) & ~_held(jobs)).to_numpy()]
    if "eligible_time" in kept.columns:
        at = kept["eligible_time"].astype("Int64").fillna(kept["submit_time"])
        left = kept["start_time"].fillna(kept["end_time"]).astype("Int64")
        joins = at.clip(lower=kept["submit_time"]).where(~(at > left).fillna(False), kept["submit_time"])
        kept = kept.assign(submit_time=joins.astype("int64"))
    return kept.sort_values("submit_time", kind="stable").reset_index(drop=True)


def _too_early(jobs: pd.DataFrame) -> pd.Series:
    return (jobs["start_time"] < jobs["submit_time"]).fillna(False).astype(bool)


def _held(jobs: pd.DataFrame) -> pd.Series:
    if "eligible_time" not in jobs.columns or jobs["eligible_time"].isna().all():
        return pd.Series(False, index=jobs.index)
    left = jobs[[name for name in ("start_time", "end_time") if name in jobs.columns]].notna().any(axis=1)
    return jobs["eligible_time"].isna() & ~left


def left_out(jobs: pd.DataFrame) -> list[str]:
    """Say what `queue_jobs` leaves out of a log, or counts from another moment, a sentence each."""
    if "start_time" not in jobs.columns:
        return []
    late = jobs["eligible_time"] > jobs["submit_time"] if "eligible_time" in jobs.columns else pd.Series(False)
    rows = (
        (_too_early(jobs), "left out: the start is before the submission"),
        (_held(jobs), "left out: held, or waiting for a begin time or a dependency"),
        (late.fillna(False), "could start only some time after submission: waits count from then"),
    )
    return [f"{counted(n, 'job')} {what}" for holds, what in rows if (n := int(holds.sum()))]


def wait_times(jobs: pd.DataFrame) -> np.ndarray:
    """Return start − submit in seconds, float64, NaN where a job never started."""
    if "start_time" not in jobs.columns:
        raise TableError("the job table has no start_time; a log with start times is needed")
    start = jobs["start_time"].to_numpy(dtype="float64", na_value=np.nan)
    return start - jobs["submit_time"].to_numpy(dtype="float64")


_OPTIONAL = ("priority", "fair_share", "owns_resources")


def read_jobs(jobs: pd.DataFrame) -> Log:
    """Take what the features need out of a job table; without ``end_time`` a job ends as its run time says.

    A table without start times, and a job that starts before its submission, are refused.
    """
    wait = wait_times(jobs)
    if np.nanmin(wait, initial=0.0) < 0:
        row = int(np.flatnonzero(wait < 0)[0])
        raise TableError(f"row {row + 1}, column start_time: the job starts {-wait[row]:.0f} s before submission")
    submit = jobs["submit_time"].to_numpy()
    order = np.argsort(submit, kind="stable")
    origin = int(submit[order[0]]) if len(submit) else 0
    submit = submit[order] - origin

    def column(name: str, default: float = 0.0) -> np.ndarray:
        return jobs[name].to_numpy()[order] if name in jobs.columns else np.full(len(jobs), default)

    def moment(name: str) -> np.ndarray:
        if name not in jobs.columns:
            return np.full(len(jobs), NEVER)
        values = jobs[name].to_numpy(dtype="float64", na_value=np.nan)[order]
        return np.where(np.isnan(values), NEVER, np.nan_to_num(values) - origin).astype(np.int64)

    start, end = moment("start_time"), moment("end_time")
    end = np.where((end == NEVER) & (start < NEVER) & ("end_time" not in jobs), start + column("run_time"), end)
    end = np.maximum(end, np.where(start < NEVER, start, submit))
    limit = column("requested_time").astype(np.int64)
    nodes = column("n_nodes", 1).astype(np.int64)
    cpus = nodes * column("cpus_per_node")
    gpus = nodes * column("gpus_per_node").astype(np.int64)
    user, users = _codes(jobs, "user", order)
    partition, partitions = _codes(jobs, "partition", order)
    model, models = _codes(jobs, "gpu_type", order)
    optional = {
        name: pd.to_numeric(jobs[name], errors="coerce").to_numpy(dtype="float64", na_value=np.nan)[order]
        for name in _OPTIONAL
        if name in jobs.columns
    }
    due = np.minimum(end, np.where(start < NEVER, start + limit, NEVER))
    none, place = np.zeros(len(submit), np.int64), np.arange(len(submit))
    found = Log(
        origin, place, order, submit, _since(submit, place, submit), start, end, np.minimum(start, end), due, limit,
        cpus, nodes * column("mem_mb_per_node"), gpus, nodes, user, partition, model, none, none,
        {"user": users, "partition": partitions, "model": models}, optional,
    )  # fmt: skip
    return replace(found, shape=_pack(*found.kinds["shape"]), like=_pack(*found.kinds["like"]))


def _since(submit: np.ndarray, row: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return the moment `LOOK_BACK` jobs before a row of a log, or `LOOK_SPAN` before now where that is earlier."""
    if not len(submit):
        return np.zeros(len(row), np.int64)
    begin = np.where(row >= LOOK_BACK, submit[np.clip(row - LOOK_BACK, 0, len(submit) - 1)], 0)
    return np.minimum(begin, np.maximum(now - LOOK_SPAN, 0))


def _codes(jobs: pd.DataFrame, name: str, order: np.ndarray) -> tuple[np.ndarray, pd.Index]:
    if name not in jobs.columns:
        return np.zeros(len(jobs), np.int64), pd.Index([""], dtype=object)
    values: Any = jobs[name]
    if name == "gpu_type":
        asks = jobs["gpus_per_node"].to_numpy() > 0
        if not asks.any():
            return np.zeros(len(jobs), np.int64), pd.Index([""] * bool(len(jobs)), dtype=object)
        values = values.where(asks, "")
    code, names = pd.factorize(values.astype(str).array[order])
    return code.astype(np.int64), pd.Index(names, dtype=object)


def _pack(*codes: np.ndarray) -> np.ndarray:
    """Number the distinct tuples of codes, in order of appearance."""
    packed = codes[0]
    for code in codes[1:]:
        packed = pd.factorize(packed * (int(code.max(initial=0)) + 1) + code)[0].astype(np.int64)
    return packed
