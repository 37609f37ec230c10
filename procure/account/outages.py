"""Capacity that was not there: days on which jobs waited beside nodes, or CPUs, that ran nothing."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from procure.account.layout import Laid
from procure.account.nodes import ALL
from procure.account.sweep import ELIGIBLE_NOW, ENDED, STARTED, SUBMITTED, Log
from procure.files.kernels import njit

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
    n_days = int(laid.log.event_at[-1]) // DAY + 1
    cut = int(laid.log.submit[-1]) // DAY
    started = laid.log.start[laid.log.start < NOBODY]
    first = -(-int(started.min()) // DAY) if len(started) else n_days
    if not laid.has_nodes:
        every = np.ones(len(laid.jobs), bool)
        used, least = _levels(laid.log, every, laid.log.cpus)
        days = _Days.of(laid.log, used, least, n_days)
        shows, pressed = days.show(laid.total_cpus, days.most)
        shows[:first] = False
        return [
            Outage(0, laid.total_cpus - int(days.most[a:b].max()), a * DAY, b * DAY, float(pressed[a:b].mean()), ALL)
            for a, b in _runs(shows, cut)
        ]
    held, cpus = _held_on(laid), laid.centre.cpus
    busy = _busy(laid, held, n_days)
    shown, pressing = np.zeros((2, len(cpus), n_days))
    for nodes, waits in _sets(laid):
        used, least = _levels(laid.log, waits, _cpus_on(laid, nodes))
        days = _Days.of(laid.log, used, least, n_days)
        shows, pressed = days.show(int(cpus[nodes].sum()), (busy & nodes[:, None]).T @ cpus)
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


class _Days(NamedTuple):
    """Use and waiting, by day."""

    used: np.ndarray  # int64[m], CPUs in use after each moment
    least: np.ndarray  # int64[m], the fewest that a waiting job needs
    day: np.ndarray  # int64[m]
    lasts: np.ndarray  # int64[m], s
    most: np.ndarray  # int64[n_days], CPUs in use at once

    @classmethod
    def of(cls, log: Log, used: np.ndarray, least: np.ndarray, n_days: int) -> _Days:
        at = np.sort(np.concatenate([log.event_at, np.arange(n_days + 1) * DAY]), kind="stable")
        at = at[np.append(True, at[1:] > at[:-1])]
        place = np.searchsorted(log.event_at, at, side="right") - 1
        used, least, day = used[place], least[place], np.minimum(at // DAY, n_days - 1)
        most = np.zeros(n_days, np.int64)
        np.maximum.at(most, day, used)
        return cls(used, least, day, np.diff(np.append(at, at[-1])), most)

    def show(self, total: int, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Say which days show that of ``total`` CPUs only ``there`` were, and for which share usage pressed there."""
        n_days = len(self.most)
        with_room = np.bincount(self.day, self.lasts * (self.least <= total - self.used), minlength=n_days) / DAY
        none_left = (self.least > there[self.day] - self.used) & (self.least < NOBODY)
        pressed = np.bincount(self.day, self.lasts * none_left, minlength=n_days) / DAY
        return (with_room > WITH_ROOM) & (pressed > PRESSED) & (there < total) & (self.most <= there), pressed


def _runs(shows: np.ndarray, cut: int) -> list[tuple[int, int]]:
    """Return the first day, and that after the last, of each run of which two days or more are before ``cut``."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], shows, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2) if min(b, cut) - a > 1]


def _held_on(laid: Laid) -> tuple[np.ndarray, np.ndarray]:
    """Return jobs and nodes, int64[m] each, of all that ran for a time, but on nodes that are not known."""
    log = laid.log
    job = np.repeat(np.arange(len(log.submit)), np.diff(log.node_first))
    kept = (log.node_list >= 0) & (log.end > log.start)[job]
    return job[kept], log.node_list[kept]


def _busy(laid: Laid, held: tuple[np.ndarray, np.ndarray], n_days: int) -> np.ndarray:
    """Say on which days anything ran on a node: bool[n_nodes, n_days]; ``held`` as of `_held_on`."""
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


def _levels(log: Log, waits: np.ndarray, cpus: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return after each event the CPUs in use, and the fewest that an eligible waiting job of some needs."""
    used, least = np.zeros(len(log.event_at), np.int64), np.zeros(len(log.event_at), np.int64)
    _fill_levels(log, waits, np.asarray(cpus, np.int64), used, least)
    return used, least


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_levels(log, waits, cpus, used, least):
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
