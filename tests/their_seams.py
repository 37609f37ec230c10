"""An order, a hold-back and a place as another package would write them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.kernel import hold, order, place


@order
class WidestFirst(NamedTuple):
    """The job that needs most nodes first."""

    weight: float = 1.0

    def score(self, state, job):
        """Return a job's score: the lowest is served first."""
        return -self.weight * state.n_nodes[job]


@hold
class OneEach(NamedTuple):
    """Each user runs one job at a time."""

    running: np.ndarray  # int64[n_users]
    last: np.ndarray  # int64[2], how far ends are dealt with: the moment, and ends at that moment

    @classmethod
    def make(cls, state):
        return cls(np.zeros(int(state.user.max()) + 1, np.int64), np.zeros(2, np.int64))

    def apart(self, state):
        return (state.user,)

    def follow(self, state):
        """Count the jobs that have ended."""
        if self.last[0] != state.now[0]:
            self.last[0], self.last[1] = state.now[0], 0
        for i in range(self.last[1], state.n_ended[0]):
            self.running[state.user[state.ended[i]]] -= 1
        self.last[1] = state.n_ended[0]

    def admits(self, state, job, reserved):
        """Say whether the user of a job runs none."""
        return self.running[state.user[job]] == 0

    def started(self, state, job):
        """Count a job that starts."""
        self.running[state.user[job]] += 1


@place
class LastRows(NamedTuple):
    """The last of the nodes that hold a job."""

    n: int = 0

    def pick(self, state, job, n):
        """Keep the nodes that the job gets."""
        first = n - state.n_nodes[job]
        for i in range(state.n_nodes[job]):
            state.chosen[i] = state.chosen[first + i]
