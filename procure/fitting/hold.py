"""The hold-back of inferred rules: limits, the scheduler's pause, and the learned rest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from procure.fitting.away import N_SEEN, Changes
from procure.fitting.trees import Trees, walk
from procure.fitting.watch import Watch, begin, come, finish
from procure.policies.lines import DECISION, N_FILLED
from procure.simulator.kernel import part
from procure.simulator.seams import hold

N_SUBMITTED = 0


class Limits(NamedTuple):
    """What may run at once, and what does, of each user, account and partition: one numbering."""

    owner: np.ndarray  # int64[3, n_jobs], −1 = unknown
    most: np.ndarray  # int64[2, n_owners], by `procure.account.inferred.RESOURCES`
    running: np.ndarray  # int64[2, n_owners]


@hold
class Inferred(NamedTuple):
    """Who is held back, and until when."""

    watch: Watch
    trees: Trees
    scale: float  # of the logarithm of the predicted hold
    longest: float  # log(1 + s), no hold is longer
    pause: np.ndarray  # int64[n_jobs], s after submission before which a job does not start
    limits: Limits
    low: np.ndarray  # float64[n_features], the range in which was learnt
    high: np.ndarray  # float64[n_features]
    release: np.ndarray  # int64[n_jobs], s; filled as jobs are submitted
    row: np.ndarray  # float64[n_features], room
    has_ended: np.ndarray  # bool[n_jobs], as far as the counts know
    beyond: np.ndarray  # bool[n_jobs], seen in a state outside that range
    notes: np.ndarray  # int64[1]
    changes: Changes
    lines: Any  # of those who may start
    queue: Any  # of those who may hold the reservation

    def apart(self, state):
        """Hold each job back by itself."""
        return (np.arange(len(state.submit)),)

    def follow(self, state):
        """Bring the counts up to now, predict the holds of what came, and pass over whoever is held."""
        notes = self.notes
        for i in range(state.n_ended[0]):
            job = state.ended[i]
            if not self.has_ended[job]:
                self.has_ended[job] = True
                finish(self.watch, job)
                count(self, job, -1)
        while notes[N_SUBMITTED] < state.n_submitted[0]:
            job = notes[N_SUBMITTED]
            notes[N_SUBMITTED] += 1
            come(self.watch, job, self.row)
            self.release[job] = release_of(self, job)
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
        begin(self.watch, job, state.now[0])
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
def release_of(own, job):
    """Return until when a job is held, from the features in ``row``."""
    held = own.pause[job]
    if own.trees.root.size > 0:
        outside = False
        for i in range(own.row.size):
            outside = outside or own.row[i] < own.low[i] or own.row[i] > own.high[i]
        own.beyond[job] = outside
        # Of what was not seen before no more is known than at the edge.
        for i in range(own.row.size):
            own.row[i] = min(max(own.row[i], own.low[i]), own.high[i])
        predicted = own.scale * walk(own.trees, own.row)
        held = max(held, np.int64(np.expm1(min(max(predicted, 0.0), own.longest))))
    return own.watch.submit[job] + held


@part
def count(own, job, sign):
    """Count a job in what its owners have running (1), or out of it (−1)."""
    limits = own.limits
    for kind in range(limits.owner.shape[0]):
        owner = limits.owner[kind, job]
        if owner >= 0:
            limits.running[0, owner] += sign
            limits.running[1, owner] += sign * own.watch.cpus[job]


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
                or limits.running[1, owner] + own.watch.cpus[job] > limits.most[1, owner]
            )
        ):
            return True
    return False


@part
def pass_over(own, state, lines, job):
    """Refuse a job in the decision that is about to begin, if it is held."""
    if is_held(own, state, job):
        lines.refused[lines.line_of[job]] = lines.counters[DECISION] + 1
