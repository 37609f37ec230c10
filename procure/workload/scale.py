"""More or less of the same load: whole bursts of jobs superposed or left out, run times as they are."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.schemas import REQUEST
from procure.tables import with_clock_of

BURST_GAP = 600
"""Seconds; a job submitted less than this after the one before it, by the same user, is of the same burst."""

TOLERANCE = 0.01
"""How far the CPU-seconds may be from the load asked for before the user is told, as a share of the input's."""

MOST_LOAD, MOST_JOBS, JOBS_RATIO = 1000, 3_000_000, 10
"""The largest load, in multiples of the table's own, and the most jobs it may make, or ten times the table's."""

_OF_THE_LOG = ["eligible_time", "start_time", "end_time", "node_ids"]
REQUEST_AND_LIMIT = [*REQUEST, "requested_time"]
_HOUR, _DAY, _WEEK = 3600, 86_400, 7 * 86_400


def cpu_seconds(jobs: pd.DataFrame) -> np.ndarray:
    """Return CPUs × nodes × run time of each job, float64."""
    amount = jobs["cpus_per_node"].to_numpy(dtype="float64") * jobs["n_nodes"].to_numpy()
    return np.asarray(amount * jobs["run_time"].to_numpy())


def as_submitted(jobs: pd.DataFrame) -> pd.DataFrame:
    """Leave out what a log says of starts, ends and nodes."""
    return jobs.drop(columns=[name for name in _OF_THE_LOG if name in jobs])


def owners(jobs: pd.DataFrame) -> np.ndarray:
    """Number who submitted each job: its user, or where the log names none, its request and limit."""
    named = (jobs["user"] != "").to_numpy()
    by_user = jobs.groupby("user", sort=False).ngroup().to_numpy()
    by_request = jobs.groupby(REQUEST_AND_LIMIT, sort=False, dropna=False).ngroup().to_numpy()
    return np.where(named, by_user, len(jobs) + by_request)


def bursts(jobs: pd.DataFrame, gap: int = BURST_GAP) -> np.ndarray:
    """Return the number of the burst that each job is of, int64 from 0.

    A burst is what one user submits with less than ``gap`` seconds from job to job. Where the log names
    no user, jobs with the same request and limit count as one user's.
    """
    who, submit = owners(jobs), jobs["submit_time"].to_numpy()
    order = np.lexsort((np.arange(len(jobs)), submit, who))
    begins = np.ones(len(jobs), dtype=bool)
    begins[1:] = (np.diff(who[order]) != 0) | (np.diff(submit[order]) >= gap)
    found = np.empty(len(jobs), dtype="int64")
    found[order] = np.cumsum(begins) - 1
    return found


def scale_load(jobs: pd.DataFrame, factor: float, seed: int = 1, gap: int = BURST_GAP) -> pd.DataFrame:
    """Return the workload with a different load: its CPU-seconds are ``factor`` times as many.

    Below 1, whole bursts are left out. Above 1, copies of whole bursts are superposed, each moved in
    time: to a random second of the same hour of the day, and where the log is long enough to another day
    of it (from two weeks on, to the same weekday). The copies lie between the first and the last
    submission of the log. Run times, limits and requests are never changed.

    Parameters
    ----------
    jobs
        A job table; it is not modified.
    factor
        Above 0.
    seed
        The same table, factor and seed give the same table.
    gap
        As for `bursts`.

    Returns
    -------
    pandas.DataFrame
        A job table in order of submission, where equal submissions stand as in ``jobs``, copies last. A
        copy's ``job_id`` ends in ``+1``, ``+2`` … What the log says of starts, ends and nodes
        is left out: it did not happen under this load.

    Raises
    ------
    TableError
        The factor is not above 0 or too large, the gap is negative, or nothing would be left.

    Notes
    -----
    Bursts are gone through from the largest down. Each is taken with the probability that the bursts
    from it on must have for the target to be met on average, so that every size has about the same chance; it is left
    out if it would exceed the target, and taken if the target could not be met without it. So the CPU-seconds meet the
    target exactly, but where a burst outweighs all smaller ones together: then they miss it by half of that burst.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.generate(seed=1, n_jobs=100)
    >>> len(procure.scale_load(jobs, 0.5, seed=1)) < len(jobs)
    True
    """
    most = max(MOST_JOBS, JOBS_RATIO * len(jobs))
    if not 0 < factor <= MOST_LOAD:
        allowed = f"it must be above 0 and at most {MOST_LOAD:,}, 1 being the log's own"
        raise ArgumentError("factor", f"a load of {factor:g} was given; {allowed}")
    if gap < 0:
        raise TableError(f"a gap of {gap} s was given; it must be 0 or more")
    if jobs.empty:
        raise TableError("there are no jobs whose load could be scaled")
    if (n := factor * len(jobs)) > most:
        raise ArgumentError("factor", f"a load of {factor:g} makes some {n:,.0f} jobs; at most {most:,} are made")
    rng = np.random.default_rng(seed)
    base = as_submitted(jobs)
    burst = bursts(base, gap)
    sizes = np.bincount(burst, weights=cpu_seconds(base))
    whole, part = divmod(factor, 1.0)
    if whole == 0:
        scaled = base[_pick(sizes, part, rng)[burst]]
        if scaled.empty:
            raise TableError(f"a load of {factor} leaves no burst of the {len(sizes):,} in this workload")
    else:
        taken = [np.ones(len(sizes), dtype=bool)] * (int(whole) - 1)
        taken += [_pick(sizes, part, rng)] if part else []
        scaled = pd.concat([base, *(_moved(base, burst, one, f"+{i}", rng) for i, one in enumerate(taken, 1))])
    return with_clock_of(jobs, scaled.sort_values("submit_time", kind="stable", ignore_index=True))


def _pick(sizes: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Mark bursts that together hold the share of all CPU-seconds, as nearly as whole bursts can."""
    descending = np.argsort(-sizes, kind="stable")
    to_come = np.cumsum(sizes[descending][::-1])[::-1]
    target = float(to_come[0]) * share
    taken = np.zeros(len(sizes), dtype=bool)
    for one, coming, luck in zip(descending, to_come, rng.random(len(sizes)), strict=True):
        size = float(sizes[one])
        over, short = size - target, target - (coming - size)
        if max(over, short) > 0:
            taken[one] = over <= short
        else:
            taken[one] = luck * coming < target if coming else luck < share
        target -= size * taken[one]
    return taken


def _moved(
    jobs: pd.DataFrame, burst: np.ndarray, taken: np.ndarray, suffix: str, rng: np.random.Generator
) -> pd.DataFrame:
    """Return a copy of some bursts, each moved as a whole."""
    submit = jobs["submit_time"].to_numpy()
    first, last = int(submit.min()), int(submit.max())
    start = np.full(len(taken), np.iinfo("int64").max)
    end = np.full(len(taken), np.iinfo("int64").min)
    np.minimum.at(start, burst, submit)
    np.maximum.at(end, burst, submit)
    latest = last - (end - start)
    hour = start // _HOUR * _HOUR
    period = _WEEK if last - first >= 2 * _WEEK else _DAY
    # Whole periods by which some second of the hour stays inside the log; 0 is always among them.
    low, high = -((hour + _HOUR - 1 - first) // period), (latest - hour) // period
    hour = hour + period * rng.integers(low, high + 1)
    second = rng.integers(np.maximum(hour, first), np.minimum(hour + _HOUR - 1, latest) + 1)
    shift = (second - start)[burst][taken[burst]]
    copy = jobs[taken[burst]]
    copy = copy.assign(job_id=copy["job_id"] + suffix, submit_time=copy["submit_time"] + shift)
    return copy.assign(due_time=copy["due_time"] + shift) if "due_time" in copy else copy
