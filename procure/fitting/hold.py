"""The hold-back of inferred rules: limits, and the scheduler's pause."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.account.inferred import RESOURCES
from procure.account.layout import OWNERS
from procure.account.rules import number
from procure.account.sweep import FAR
from procure.fitting.away import N_SEEN, Changes
from procure.policies.lines import DECISION, N_FILLED
from procure.simulator.kernel import part
from procure.simulator.seams import hold
from procure.site.model import Rule

N_SUBMITTED = 0


class Limits(NamedTuple):
    """What may run at once, and what does, of each user, account and partition: one numbering."""

    owner: np.ndarray  # int64[len(OWNERS), n_jobs], −1 = unknown
    most: np.ndarray  # int64[len(RESOURCES), n_owners]
    running: np.ndarray  # likewise


def limits_of(rules: Iterable[Rule], jobs: pd.DataFrame) -> Limits:
    """Return the limits of a run in which nothing runs, its jobs in order.

    A rule's subject is ``KIND NAME RESOURCE``; ``*`` as a name is every one.
    """
    rows, most, n = [], [np.zeros((len(RESOURCES), 0), np.int64)], 0
    for key in OWNERS:
        text = jobs[key].fillna("").astype(str) if key in jobs else pd.Series("", index=jobs.index)
        number_of, names = pd.factorize(text.where(text != ""))
        bounds = np.full((len(RESOURCES), len(names)), FAR, np.int64)
        for rule in rules:
            kind, _, rest = rule.subject.partition(" ")
            if rule.kind == "limit" and kind == key:
                name, _, resource = rest.rpartition(" ")
                bound = np.array([name in ("*", one) for one in names], bool)
                row = bounds[RESOURCES.index(resource)]
                row[bound] = np.minimum(row[bound], int(number(rule.value)))
        rows.append(np.where(number_of < 0, -1, number_of + n))
        most.append(bounds)
        n += len(names)
    bounds = np.concatenate(most, axis=1)
    return Limits(np.array(rows, np.int64), bounds, np.zeros_like(bounds))


@hold
class Inferred(NamedTuple):
    """Who is held back, and until when."""

    release: np.ndarray  # int64[n_jobs], s before which a job does not start
    cpus: np.ndarray  # int64[n_jobs], on all nodes
    limits: Limits
    has_ended: np.ndarray  # bool[n_jobs], as far as the counts know
    notes: np.ndarray  # int64[1]
    changes: Changes
    lines: Any  # of those who may start
    queue: Any  # of those who may hold the reservation

    def apart(self, state):
        """Hold each job back by itself."""
        return (np.arange(len(state.submit)),)

    def follow(self, state):
        """Bring the counts up to now, and pass over whoever is held."""
        notes = self.notes
        for i in range(state.n_ended[0]):
            job = state.ended[i]
            if not self.has_ended[job]:
                self.has_ended[job] = True
                count(self, job, -1)
        while notes[N_SUBMITTED] < state.n_submitted[0]:
            job = notes[N_SUBMITTED]
            notes[N_SUBMITTED] += 1
            pass_over(self, state, self.lines, job)
            pass_over(self, state, self.queue, job)
        for i in range(self.lines.counters[N_FILLED]):
            pass_over(self, state, self.lines, self.lines.first[self.lines.filled[i]])
        for i in range(self.queue.counters[N_FILLED]):
            pass_over(self, state, self.queue, self.queue.first[self.queue.filled[i]])

    def admits(self, state, job, reserved):
        """Say whether nothing holds a job."""
        return not is_held(self, state, job)

    def started(self, state, job):
        """Take note of a start."""
        count(self, job, 1)

    def waits(self, state):
        """Ask to be called when the next hold ends, or a node goes or comes back."""
        now, end = state.now[0], state.submit.size
        wake, changes = np.int64(-1), self.changes
        if changes.counts[N_SEEN] < changes.when.size:
            wake = changes.when[changes.counts[N_SEEN]]
        job = state.next_waiting[end]
        while job != end:
            at = self.release[job]
            if at > now and (wake < 0 or at < wake):
                wake = at
            job = state.next_waiting[job]
        state.wake[0] = wake


@part
def count(own, job, sign):
    """Count a job in what its owners have running (1), or out of it (−1)."""
    limits = own.limits
    for kind in range(limits.owner.shape[0]):
        owner = limits.owner[kind, job]
        if owner >= 0:
            limits.running[0, owner] += sign
            limits.running[1, owner] += sign * own.cpus[job]


@part
def is_held(own, state, job):
    """Say whether a hold or a limit keeps a job."""
    limits = own.limits
    if own.release[job] > state.now[0]:
        return True
    for kind in range(limits.owner.shape[0]):
        owner = limits.owner[kind, job]
        # A job that is larger than its owner's limit runs alone: the limit was inferred from others.
        if (
            owner >= 0
            and limits.running[0, owner] > 0
            and (
                limits.running[0, owner] >= limits.most[0, owner]
                or limits.running[1, owner] + own.cpus[job] > limits.most[1, owner]
            )
        ):
            return True
    return False


@part
def pass_over(own, state, lines, job):
    """Refuse a job in the decision that is about to begin, if it is held."""
    if is_held(own, state, job):
        lines.refused[lines.line_of[job]] = lines.counters[DECISION] + 1
