"""A replay of the queue: when would a job start if the system went on by a rule, with guessed run times?

At each submission the running jobs and the queue are played forward as EASY backfilling does it in one pool
of CPUs: in order of submission, a job may overtake only if that does not delay the first one's reservation.
Reservations count with requested times, ends with guessed run times. The reservation is that of
`procure.policies.easy`, with which `tests/test_queue_time_replay.py` compares it; the loop over all
submissions of a log is this module's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.files.kernels import njit
from procure.policies.place import shadow_of
from procure.queue_time.events import NEVER, Events
from procure.queue_time.log import Log

UNKNOWN_RUN = 3600
"""Seconds that a job without a limit is taken to run."""


def replay_wait(log: Log, ask: Log, capacity: np.ndarray) -> np.ndarray:
    """Replay the queue for jobs of the log, or for questions that come to it one without the other, s.

    ``capacity`` is (m,) of the jobs or questions, as for `replay_feature`.
    """
    if ask.n and ask.start[0] == NEVER and ask.end[0] == NEVER and ask.row[0] == log.n:
        parts = [log.then(ask, one) for one in range(ask.n)]
        return np.array(
            [replay_feature(one, np.full(one.n, most))[-1] for one, most in zip(parts, capacity, strict=True)]
        )
    pool = np.ones(log.n)
    pool[ask.row] = capacity
    return replay_feature(log, pool)[ask.row]


def replay_feature(log: Log, capacity: np.ndarray) -> np.ndarray:
    """Replay the queue at every submission.

    Parameters
    ----------
    log
        Of `log.read_jobs`.
    capacity
        (n,) CPUs of the pool at each submission: the most seen in use by then.

    Returns
    -------
    numpy.ndarray
        (n,) seconds from submission to the replayed start.
    """
    limit = np.where(log.limit > 0, log.limit, UNKNOWN_RUN).astype(np.int64)
    guess = np.maximum(np.rint(limit * _used_share(log)), 1).astype(np.int64)
    begun = np.flatnonzero(log.start < NEVER)
    starts = begun[np.argsort(log.start[begun], kind="stable")]
    ends = begun[np.argsort(log.end[begun], kind="stable")]
    return _replay_all(
        Requests(log.start, log.cpus.astype(np.int64), limit, guess),
        (log.submit.astype(np.int64), log.left, log.end),
        np.maximum(capacity, 1).astype(np.int64),
        starts,
        ends,
    )


def _used_share(log: Log) -> np.ndarray:
    """Estimate the share of its limit that a job will use: from the last similar jobs and the user's, else from all."""
    ran = log.start < NEVER
    run = np.where(ran & (log.end < NEVER), log.end - log.start, 0)
    share = {"share": np.where(log.limit > 0, np.minimum(run / np.maximum(log.limit, 1), 1.0), 1.0)}
    end = np.where(ran, log.end, NEVER)

    def of_last(n_last: int, group: np.ndarray | None) -> np.ndarray:
        n_groups = 1 if group is None else int(group.max(initial=0)) + 1
        return Events.of(end, share, group, n_groups).mean_of_last(["share"], log.submit, n_last, group)[0]

    like, user, everyone = of_last(3, log.like), of_last(30, log.user), of_last(100, None)
    user = np.where(np.isnan(user), np.where(np.isnan(everyone), 0.5, everyone), user)
    return np.where(np.isnan(like), user, (like + user) / 2)


class Requests(NamedTuple):
    """What is known of the jobs of a log as they wait and run, int64[n]."""

    start: np.ndarray  # Unix s
    cpus: np.ndarray
    limit: np.ndarray  # s
    guess: np.ndarray  # s, how long each will run


@njit(cache=True)
def _replay_all(requests, moments, capacity, starts, ends):
    """Walk the log with lists of running and waiting jobs, and replay them at each submission.

    ``moments`` are when jobs are submitted, leave the queue, and end; ``starts`` and ``ends`` the jobs by these times.
    """
    submit, left, end = moments
    start, n = requests.start, len(submit)
    out = np.empty(n)
    running, place, n_running = np.empty(n, np.int64), np.full(n, -1, np.int64), 0
    waiting, n_waiting = np.empty(n, np.int64), 0
    s = e = 0
    for i in range(n):
        now = submit[i]
        while s < len(starts) and start[starts[s]] < now:
            running[n_running], place[starts[s]] = starts[s], n_running
            n_running += 1
            s += 1
        while e < len(ends) and end[ends[e]] < now:
            n_running -= 1
            last = running[n_running]
            running[place[ends[e]]], place[last] = last, place[ends[e]]
            e += 1
        kept = 0
        for k in range(n_waiting):
            if left[waiting[k]] >= now:
                waiting[kept] = waiting[k]
                kept += 1
        waiting[kept] = i
        n_waiting = kept + 1
        out[i] = replay_queue(now, running[:n_running], waiting[:n_waiting], requests, capacity[i])
    return out


@njit(cache=True)
def replay_queue(now, running, waiting, requests, capacity):
    """Play one queue until its last job starts; return seconds from now."""
    start, cpus, limit, guess = requests
    most = len(running) + len(waiting)
    need, ends, limits = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    free, n_running = capacity, 0
    for job in running:
        until = start[job] + guess[job]
        if until <= now:  # it has outrun the guess: as long again, but not beyond its limit
            until = max(min(start[job] + limit[job], 2 * now - start[job]), now + 1)
        need[n_running], ends[n_running] = min(cpus[job], capacity), until
        limits[n_running] = max(start[job] + limit[job], until)
        free -= need[n_running]
        n_running += 1
    queue, n_queue, asked, t = waiting.copy(), len(waiting), waiting[-1], now
    while True:
        shadow, extra, blocked, kept = t, free, False, 0
        for k in range(n_queue):
            job = queue[k]
            size = min(cpus[job], capacity)
            in_time = not blocked or t + limit[job] <= shadow
            if size <= free and (in_time or size <= extra):
                if job == asked:
                    return float(t - now)
                free -= size
                if not in_time:
                    extra -= size
                need[n_running], ends[n_running], limits[n_running] = size, t + guess[job], t + limit[job]
                n_running += 1
                continue
            if not blocked:
                blocked = True
                by_limit = np.argsort(limits[:n_running], kind="mergesort")
                shadow, extra = shadow_of(free, size, by_limit, n_running, limits, need)
            queue[kept] = job
            kept += 1
        n_queue = kept
        t = ends[:n_running].min()
        kept = 0
        for k in range(n_running):
            if ends[k] <= t:
                free += need[k]
            else:
                need[kept], ends[kept], limits[kept] = need[k], ends[k], limits[k]
                kept += 1
        n_running = kept
