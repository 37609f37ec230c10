"""The rules that hold jobs back, known or seen in a log: limits, the scheduler's pause, capacity that was not there."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binom

from procure.account.layout import OWNERS, Laid
from procure.account.nodes import ALL, levels, usual_most
from procure.account.sweep import ELIGIBLE_NOW, ENDED, FAR, N_SPELLS, PAUSE, STARTED, SUBMITTED, UNEXPLAINED, Log, Work
from procure.files.kernels import njit
from procure.site.model import Rule


def pauses_of(rules: Iterable[Rule], jobs: pd.DataFrame) -> np.ndarray:
    """Return how long after its submission each job starts at the earliest, int64[n_jobs], s.

    A rule ``pause`` without a subject is everybody's; of one with ``user``, ``partition`` or ``account`` and a name
    the more special stands above it.
    """
    found = np.zeros(len(jobs), np.int64)
    pauses = {rule.subject: int(float(str(rule.value))) for rule in rules if rule.kind == "pause"}
    for key in ("", "partition", "account", "user"):
        known = {whose.partition(" ")[2]: pause for whose, pause in pauses.items() if whose.partition(" ")[0] == key}
        if known and not key:
            found[:] = known[""]
        elif known and key in jobs:
            own = jobs[key].fillna("").astype(str).map(known)
            found = np.where(own.notna(), own.fillna(0), found).astype(np.int64)
    return found


def bounds_of(rules: Iterable[Rule], names: list[str], kinds: np.ndarray) -> np.ndarray:
    """Return how much of each of `RESOURCES` rules let each owner have running, int64[2, n_owners].

    A rule's subject is ``KIND NAME RESOURCE``; ``*`` as a name is every one. Names and kinds as of `owners_of`.
    """
    most = np.full((len(RESOURCES), len(names)), FAR, np.int64)
    for rule in rules:
        if rule.kind == "limit":
            kind, _, rest = rule.subject.partition(" ")
            name, _, resource = rest.rpartition(" ")
            bound = kinds == (OWNERS.index(kind) if kind in OWNERS else -1)
            bound &= (np.array(names, object) == name) | (name == "*")
            row = most[RESOURCES.index(resource)]
            row[bound] = np.minimum(row[bound], int(float(str(rule.value))))
    return most


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


def infer_limits(laid: Laid, kind: int, work: Work) -> list[Limit]:
    """Infer the limits of users, accounts, partitions or QOS from a pass, which is ``work``, that knew none of these.

    An owner is limited where its running total stood still, at the most that it ever ran, while its jobs waited with
    room: they started when the total had just fallen, more often than chance lets expect. Where it is not seen what is
    free in pieces, none is limited whose total stands still as that of the whole system does.
    """
    log, centre, beside, kept = laid.log, laid.centre, work.beside, work.kept
    with_room = work.seconds[:, [PAUSE, UNEXPLAINED]].sum(1)
    owners = log.owner[kind].astype(np.int64)
    if not (owners >= 0).any():
        return []
    n = len(laid.names)
    longer = (with_room > SHORT_WAIT) & (owners >= 0)
    n_room = np.bincount(owners[longer], minlength=n)
    best: dict[int, Limit] = {}  # one limit of an owner: the one that explains more, jobs where both do
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
            one = Limit(
                int(owner), resource, int(most[owner]), int(n_at[owner]), int(n_room[owner]),
                float(share[owner]), float(chance[owner]), OWNERS[kind],
            )  # fmt: skip
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


DAY = 86_400
WITH_ROOM = 0.95
"""Share of a day during which jobs must wait that all nodes together had room for."""
PRESSED = 0.5
"""Share of it during which what was there must have no room for the smallest of these."""
MOST_SETS = 8
"""Sets of nodes that are looked at, those first whose jobs waited longest."""
NOBODY = 1 << 40


class Outage(NamedTuple):
    """CPUs that were not there for some days."""

    node: int
    cpus: int
    begin: int  # s after the first submission
    end: int
    share: float  # of its time during which jobs with room waited while usage pressed against what was there
    node_id: str


def infer_outages(laid: Laid) -> list[Outage]:
    """Infer when nodes were missing, or CPUs of a centre that is seen as one node.

    A day shows missing capacity where jobs waited that the nominal capacity had room for, throughout, and where the
    smallest of them would not have fitted on what was there: the nodes, of those that these jobs may use, that ran
    anything on that day; of one node the most that was in use. Two such days in a row are an outage, of the nodes that
    ran nothing on them, or of the least that was missing. None begins before the first start, none shows after the
    last submission: what ran beside the jobs that were left then is no part of a log that is cut there.
    """
    log, cpus = laid.log, laid.centre.cpus
    n_days, cut = int(log.event_at[-1]) // DAY + 1, int(log.submit[-1]) // DAY
    started = log.start[log.start < NOBODY]
    first = -(-int(started.min()) // DAY) if len(started) else n_days
    if not laid.has_nodes:
        shows, pressed, most = _shown(log, np.ones(len(laid.jobs), bool), log.cpus, laid.total_cpus)
        shows[:first] = False
        return [
            Outage(0, laid.total_cpus - int(most[a:b].max()), a * DAY, b * DAY, float(pressed[a:b].mean()), ALL)
            for a, b in _runs(shows, cut)
        ]
    job = np.repeat(np.arange(len(log.submit)), np.diff(log.node_first))
    known = (log.node_list >= 0) & (log.end > log.start)[job]  # what ran for a time, but on nodes that are not known
    held = job[known], log.node_list[known]
    busy = _busy(laid, held, n_days)
    shown, pressing = np.zeros((2, len(cpus), n_days))
    for nodes, waits in _sets(laid):
        there = (busy & nodes[:, None]).T @ cpus
        shows, pressed, _ = _shown(log, waits, _cpus_on(laid, nodes), int(cpus[nodes].sum()), there)
        shown[nodes] = np.maximum(shown[nodes], shows)
        pressing[nodes] = np.maximum(pressing[nodes], pressed)
    shown[:, :first] = 0  # before the first start nothing is known of any node
    return [
        Outage(
            node,
            int(cpus[node]),
            *_around(laid, held[0][held[1] == node], a * DAY, b * DAY),
            float(pressing[node, a:b].mean()),
            laid.node_ids[node],
        )
        for node in range(len(cpus))
        for a, b in _runs((shown[node] > 0) & ~busy[node], cut)
    ]


def _shown(
    log: Log, waits: np.ndarray, cpus: np.ndarray, total: int, there: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Say which days show that of ``total`` CPUs only ``there`` were; for which share usage pressed there; the most.

    ``waits`` and ``cpus`` as of `_fill_levels`; the most CPUs in use at once on a day are those there by default.
    """
    n_days, used, least = int(log.event_at[-1]) // DAY + 1, *np.zeros((2, len(log.event_at)), np.int64)
    _fill_levels(log, waits, np.asarray(cpus, np.int64), used, least)
    at = np.sort(np.concatenate([log.event_at, np.arange(n_days + 1) * DAY]), kind="stable")
    at = at[np.append(True, at[1:] > at[:-1])]
    place = np.searchsorted(log.event_at, at, side="right") - 1
    used, least, day = used[place], least[place], np.minimum(at // DAY, n_days - 1)
    most, lasts = np.zeros(n_days, np.int64), np.diff(np.append(at, at[-1]))
    np.maximum.at(most, day, used)
    there = most if there is None else there
    with_room = np.bincount(day, lasts * (least <= total - used), minlength=n_days) / DAY
    none_left = (least > there[day] - used) & (least < NOBODY)
    pressed = np.bincount(day, lasts * none_left, minlength=n_days) / DAY
    return (with_room > WITH_ROOM) & (pressed > PRESSED) & (there < total) & (most <= there), pressed, most


def _runs(shows: np.ndarray, cut: int) -> list[tuple[int, int]]:
    """Return the first day, and that after the last, of each run of which two days or more are before ``cut``."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], shows, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2) if min(b, cut) - a > 1]


def _busy(laid: Laid, held: tuple[np.ndarray, np.ndarray], n_days: int) -> np.ndarray:
    """Say on which days anything ran on a node, bool[n_nodes, n_days]; ``held`` are jobs and nodes, int64[m] each."""
    job, node = held
    change = np.zeros((len(laid.centre.cpus), n_days + 1), np.int64)
    np.add.at(change, (node, laid.log.start[job] // DAY), 1)
    np.add.at(change, (node, (laid.log.end[job] - 1) // DAY + 1), -1)
    return np.cumsum(change, axis=1)[:, :n_days] > 0


def _sets(laid: Laid) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the sets of nodes that jobs may use, bool[n_nodes], and the jobs that may use just these, bool[n_jobs]."""
    sets, of_group = np.unique(laid.groups.may_use, axis=0, return_inverse=True)
    of_job = of_group.ravel()[laid.log.group]
    waited = np.bincount(of_job, laid.log.start - laid.log.submit, minlength=len(sets))
    longest = np.argsort(-waited, kind="stable")[:MOST_SETS]
    return [(sets[one], of_job == one) for one in longest if waited[one] > 0]


def _cpus_on(laid: Laid, nodes: np.ndarray) -> np.ndarray:
    """Return the CPUs that each job had on some nodes; those on nodes that are not known are taken to be on these."""
    first, number = laid.log.node_first, laid.log.node_list
    job = np.repeat(np.arange(len(laid.log.submit)), np.diff(first))
    share = np.bincount(job, np.append(nodes, True)[number], minlength=len(laid.log.submit)) / np.diff(first)
    return np.rint(laid.log.cpus * share).astype(np.int64)


def _around(laid: Laid, own: np.ndarray, begin: int, end: int) -> tuple[int, int]:
    """Return since and until when a node ran none of its own jobs, at most a day beyond the days that show it."""
    before, after = laid.log.end[own], laid.log.start[own]
    since = int(before[before <= begin].max(initial=begin - DAY))
    until = int(after[after >= end].min(initial=end + DAY))
    return max(since, begin - DAY, 0), min(until, end + DAY)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_levels(log, waits, cpus, used, least):
    """Lay out after each event the CPUs in use, and the fewest that an eligible waiting job of some needs."""
    waiting = [(log.cpus[0], np.int64(0)) for _ in range(0)]
    started = np.zeros(log.submit.size, np.bool_)
    now = 0
    for i in range(log.event_at.size):
        event, job = log.event[i], np.int64(log.about[i])
        if event == ENDED:
            now -= cpus[job]
        elif (event == SUBMITTED and log.eligible[job] <= log.submit[job]) or event == ELIGIBLE_NOW:
            if waits[job]:
                heappush(waiting, (log.cpus[job], job))
        elif event == STARTED:
            started[job] = True
            if log.end[job] > log.start[job]:
                now += cpus[job]
        while len(waiting) > 0 and started[waiting[0][1]]:
            heappop(waiting)
        used[i] = now
        least[i] = waiting[0][0] if len(waiting) > 0 else NOBODY
