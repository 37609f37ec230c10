"""What a log shows of the rules that hold its jobs back: limits, and the scheduler's pause."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binom

from procure.account.layout import OWNERS, Laid
from procure.account.levels import levels, usual_most
from procure.account.sweep import FAR, N_SPELLS, PAUSE, UNEXPLAINED, Log, Work

LEAST_JOBS = 8
"""Jobs that must have waited with room before a limit is inferred."""
LEAST_SHARE = 0.6
"""Share of the time with room that a job must have spent at its owner's most, and of the owner's jobs that did."""
LEAST_TIME = 0.4
"""Share of the time with room that an owner must have spent at its most: hours that are closed hold it beside that."""
CHANCE = 1e-4
"""Most probability that chance alone kept as many of an owner's waiting jobs at its most."""
SOON = 0.25
"""A job starts soon after an end of its owner where less than this share of its wait was as soon after one."""
SHORT_WAIT = 1800
"""s; a wait without another cause that is longer is no pause of the scheduler."""
SAMPLES = (np.arange(16) + 0.5) / 16
"""Moments of a wait that are looked at, as shares of it."""
FAR_APART = 1 << 40
"""s, longer than any log."""
RESOURCES = ("jobs", "cpus")
"""What a limit counts of all that runs."""


class Limit(NamedTuple):
    """A limit that an owner hardly ever exceeded, and at which its jobs waited though there was room."""

    owner: int
    resource: str  # one of RESOURCES
    value: int
    n_jobs: int  # that waited with room at the limit
    n_with_room: int  # that waited with room
    share: float  # of the time that the owner's next job waited with room
    chance: float  # that as many were at the most by chance
    kind: str  # of `procure.account.layout.OWNERS`


def _since_end(ends: np.ndarray, whose: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return for how many s before each moment no job of its owner had ended; `FAR` before the first one.

    ``ends`` are sorted, each ``owner * FAR_APART + s``.
    """
    key = whose * FAR_APART + at
    last = np.append(ends, -1)[np.searchsorted(ends, key, side="right") - 1]
    return np.where(last >= whose * FAR_APART, key - last, FAR)


def _refills(log: Log, owners: np.ndarray, jobs: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return at how many moments jobs of each owner started, and how many of these came soon after an end of its own.

    Where a limit binds, a total that has fallen is filled up at once, so that it stands still. What else holds a job
    back, such as a full system, ends at any moment of the owner's own.
    """
    runs = (log.end > log.start) & (owners >= 0)
    ends = np.sort(owners[runs] * FAR_APART + log.end[runs])
    gap = _since_end(ends, owners[jobs], log.start[jobs])
    begin, start = log.eligible[jobs], log.start[jobs]
    sooner = np.zeros(len(jobs))
    for share in SAMPLES:
        at = begin + ((start - begin) * share).astype(np.int64)
        sooner += _since_end(ends, owners[jobs], at) <= gap
    soon = (gap < FAR) & (sooner < SOON * len(SAMPLES))
    moments = pd.DataFrame({"owner": owners[jobs], "start": start, "soon": soon}).groupby(["owner", "start"]).max()
    whose = moments.index.get_level_values("owner").to_numpy(np.int64)
    return np.bincount(whose, minlength=n), np.bincount(whose[moments["soon"].to_numpy(bool)], minlength=n)


def _system_still(laid: Laid, jobs: np.ndarray) -> np.ndarray:
    """Return for which share of the wait of jobs the whole system ran as much as it ever did, and may have been full.

    0 where nodes are known. Else what is free may be in pieces, on each node one CPU less than a job needs.
    """
    log, every = laid.log, np.zeros(len(laid.jobs), np.int64)
    if not laid.in_pieces:
        return np.zeros(len(jobs))
    own = log.cpus[jobs]
    most = usual_most(levels(log.start, log.end, every, log.cpus)[0], 1)[0] - own
    at, order = np.unique(np.concatenate([log.start, log.end]), return_inverse=True)
    running = np.cumsum(np.bincount(order, np.concatenate([log.cpus, -log.cpus])))
    if laid.n_nodes:
        per_node = own // laid.jobs["n_nodes"].to_numpy(np.int64)[jobs]
        most = np.maximum(most, laid.total_cpus - laid.n_nodes * (per_node - 1) - own)
    begin, wait = log.eligible[jobs], log.start[jobs] - log.eligible[jobs]
    found = np.zeros(len(jobs))
    for share in SAMPLES:
        place = np.searchsorted(at, begin + (wait * share).astype(np.int64), side="right") - 1
        found += np.where(place >= 0, running[place], 0) > most
    return found / len(SAMPLES)


def infer_limits(laid: Laid, kind: int, beside: np.ndarray, kept: np.ndarray, with_room: np.ndarray) -> list[Limit]:
    """Infer the limits of users, accounts, partitions or QOS from a pass that knew none of these.

    An owner is limited where its running total stood still, at the most that it ever ran, while its jobs waited with
    room: they started when the total had just fallen, more often than chance lets expect. Where it is not seen what is
    free in pieces, none is limited whose total stands still as that of the whole system does. ``beside`` and ``kept``
    are as in `procure.account.sweep.Work`; ``with_room`` int64[n_jobs], s that each job waited so.
    """
    log, centre = laid.log, laid.centre
    owners = log.owner[kind].astype(np.int64)
    if not (owners >= 0).any():
        return []
    n = len(laid.names)
    longer = (with_room > SHORT_WAIT) & (owners >= 0)
    n_room = np.bincount(owners[longer], minlength=n)
    found: list[Limit] = []
    stands = np.zeros(len(owners))
    stands[longer] = _system_still(laid, np.flatnonzero(longer))
    is_full = np.bincount(owners[longer], stands[longer], minlength=n) > LEAST_SHARE * n_room
    for column, (resource, most) in enumerate(zip(RESOURCES, (centre.peak_jobs, centre.peak_cpus), strict=True)):
        at_most = longer & (kept[kind, :, column] > LEAST_SHARE * with_room) & (kept[kind, :, column] > 0)
        n_at = np.bincount(owners[at_most], minlength=n)
        share = beside[1 + column] / np.maximum(beside[0], 1)
        n_moments, n_soon = _refills(log, owners, np.flatnonzero(at_most), n)
        shows = (n_soon >= LEAST_SHARE * n_moments) & ~is_full
        chance = np.where(shows, binom.sf(n_soon - 1, n_moments, SOON), 1.0)
        for owner in np.flatnonzero(
            (n_at >= LEAST_JOBS) & (n_at >= LEAST_SHARE * n_room) & (share >= LEAST_TIME) & (chance < CHANCE)
        ):
            found.append(
                Limit(
                    int(owner), resource, int(most[owner]), int(n_at[owner]), int(n_room[owner]),
                    float(share[owner]), float(chance[owner]), OWNERS[kind],
                )
            )  # fmt: skip
    best: dict[int, Limit] = {}
    for one in found:  # one limit of an owner: the one that explains more, jobs where both do
        if one.owner not in best or one.share > best[one.owner].share:
            best[one.owner] = one
    return [best[owner] for owner in sorted(best)]


def with_limits(laid: Laid, limits: Iterable[Limit]) -> Laid:
    """Bring limits into a log that is laid out."""
    centre = laid.centre
    most = np.stack([centre.max_jobs, centre.max_cpus])
    for one in limits:
        row = most[RESOURCES.index(one.resource)]
        row[one.owner] = min(row[one.owner], one.value)
    return laid._replace(centre=centre._replace(max_jobs=most[0], max_cpus=most[1]))


def book_pauses(work: Work, pause: np.ndarray) -> None:
    """Book to the pause what a pass that knows it would, int64[n_jobs], s: of each spell without a cause the first."""
    job, lasted = work.spells[: work.counters[N_SPELLS]].T
    paused = np.minimum(lasted, pause[job])
    np.add.at(work.seconds[:, PAUSE], job, paused)
    np.subtract.at(work.seconds[:, UNEXPLAINED], job, paused)
    work.upper[PAUSE] += paused.sum()
    work.lower[UNEXPLAINED] -= paused.sum()


def infer_pause(seconds: np.ndarray) -> int:
    """Return the scheduler's usual pause, s: the median of the short waits that have no other cause."""
    own = seconds[:, PAUSE] + seconds[:, UNEXPLAINED]
    alone = (own == seconds.sum(1)) & (own <= SHORT_WAIT) & (own > 0)
    return int(np.median(own[alone])) if alone.sum() >= LEAST_JOBS else 0
