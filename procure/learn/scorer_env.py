"""A Gymnasium environment for one shared score per waiting job: which class of those that fit starts next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from procure.errors import TableError, need
from procure.learn.days import Day
from procure.learn.features import FEATURES, follow_classes, observe
from procure.learn.policy import make_scored
from procure.learn.scores import free_share, start_job
from procure.learn.store import TrainedPolicy
from procure.policies.lines import N_FILLED, follow_queue
from procure.simulator import state as simulator_state
from procure.simulator.drive import specialised
from procure.simulator.kernel import kernel
from procure.simulator.reference import by_reference
from procure.simulator.steps import advance, place

N_CLASSES = 128
"""Classes of waiting jobs that are seen; of each the first may start, so that no queue of fewer jobs is cut."""
REWARD = 10.0
"""The sum of a day's rewards is minus this, times the wait of its jobs / their wait under sjf."""


@kernel
def list_classes(state, own, view):
    """Fill in the first `N_CLASSES` classes that fit; returns how many.

    Parameters
    ----------
    view
        ``jobs`` int64[N_CLASSES], ``seen`` float32[N_CLASSES, n_features], ``mask`` bool[N_CLASSES]; modified.
    """
    jobs, seen, mask = view
    lines, kin = own.lines, own.kin
    follow_classes(state, lines, kin)
    follow_queue(state, lines)
    queue, free = math.log10(1.0 + state.n_waiting[0]) / 3.0, free_share(state)
    seen[:] = 0.0
    mask[:] = False
    n = 0
    for i in range(lines.counters[N_FILLED]):
        line = lines.filled[i]
        if n == jobs.size or not own.nodes.fits(state, lines, line):
            continue
        jobs[n] = lines.first[line]
        observe(state, kin, line, jobs[n], 0.0, queue, free, own.row)
        for k in range(own.row.size):
            seen[n, k] = own.row[k]
        mask[n] = True
        n += 1
    return n


def _go(world, state, own, job, view):
    """Start a job, if one is given, and go on until there is a choice; returns (classes seen, seconds waited)."""
    state, own = by_reference(state), by_reference(own)
    waited = np.int64(0)
    while True:
        if job >= 0:
            started = start_job(state, own, job)
            place(world, state, started, state.chosen[: state.n_nodes[started]])
        n = list_classes(state, own, view)
        job = view[0][0] if n == 1 else -1
        if n > 1:
            return n, waited
        if n == 0:
            now, waiting = state.now[0], state.n_waiting[0]
            if not advance(world, state):
                return 0, waited
            waited += waiting * (state.now[0] - now)


def make_scorer_env(days: Sequence[Day], arrays: Any) -> Any:
    """Make the environment, with ``action_masks()``; an episode is a day, in turn, from an empty system.

    Parameters
    ----------
    days
        From `procure.learn.days.lay_out_days`.
    arrays
        Of a policy, of which ``places`` says on which node a job goes and ``trust`` how far its history counts.

    Returns
    -------
    gymnasium.Env
        Observation float32[N_CLASSES × n_features], action the place of a class; where there is no choice nothing is
        asked. ``info["mean_wait"]`` is that of the day, s, when it ends.

    Raises
    ------
    TableError
        The extra ``rl`` is missing, or there is no day.
    """
    gymnasium: Any = need("gymnasium")
    if not days:
        raise TableError("an environment needs at least one day")
    trained = TrainedPolicy("search", arrays)

    class Scoring(gymnasium.Env):  # type: ignore[name-defined]
        """A scheduler's choices one by one."""

        metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (N_CLASSES * len(FEATURES),), np.float32)
        action_space = gymnasium.spaces.Discrete(N_CLASSES)

        def __init__(self) -> None:
            self._next = 0
            self._view = (
                np.zeros(N_CLASSES, np.int64),
                np.zeros((N_CLASSES, len(FEATURES)), np.float32),
                np.zeros(N_CLASSES, np.bool_),
            )

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            super().reset(seed=seed)
            if seed is not None:
                self._next = 0
            for _ in days:  # a day without a single choice is passed over
                self._begin(days[self._next % len(days)])
                self._next += 1
                if self._go(self.world, self.state, self._own, -1, self._view)[0]:
                    break
            else:
                raise TableError("on none of the days there is anything to choose between")
            return self._view[1].ravel().copy(), {}

        def _begin(self, day: Day) -> None:
            ready, took = day.ready, day.ready.durations
            self.world, self.state = simulator_state.build(
                ready.jobs,
                ready.kinds,
                ready.fits,
                ready.kind_of,
                took.took,
                user=ready.user,
                full=took.full,
                limit=took.limit,
            )
            self._own = make_scored(self.state, trained, day.prior)
            self._go = specialised(_go, self._own)
            self._of_sjf = max(day.reference * day.n_jobs, 1.0)
            advance(self.world, self.state)

        def action_masks(self) -> np.ndarray:
            """Return which actions are allowed now: bool[N_CLASSES]."""
            return self._view[2].copy()

        def step(self, action: int) -> Any:
            job = int(self._view[0][int(action)])
            if not self._view[2][int(action)]:
                return self._view[1].ravel().copy(), 0.0, False, False, {"invalid": True}
            n, waited = self._go(self.world, self.state, self._own, job, self._view)
            info: dict[str, Any] = {"job": job}
            if n == 0:
                ran = self.state.start >= 0
                info["mean_wait"] = float((self.state.start - self.state.submit)[ran].mean())
            return self._view[1].ravel().copy(), -REWARD * waited / self._of_sjf, n == 0, False, info

    return Scoring()
