"""The hold-back `forecast`: nodes are held for jobs that are expected.

A reservation of the first waiting job comes first, so that it starts when it would without. Whoever would overtake it
goes around that and around what is held against him, wherever that is expected to save more than it costs
(`procure.forecast.reservations.is_held`); a job that meets its forecast finds those nodes idle. Where other nodes will
do as well, every job keeps clear of those of all likely forecasts.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from procure.forecast.confidence import MODES
from procure.forecast.reservations import (
    HIGH,
    N_OPEN,
    Expected,
    any_reaches,
    follow,
    is_held,
    is_kept_clear,
    lay_out,
    matching,
    next_release,
    weigh_queue,
)
from procure.policies.parameters import OneOf, Parameters
from procure.policies.profile import Profile, build_profile, find_start, make_profile, take
from procure.policies.timeline import TAKE, Timeline, hold_on, holds_throughout, lay_running, make_timeline
from procure.simulator.kernel import part
from procure.simulator.seams import hold as seam
from procure.simulator.state import FAR, State


@seam
class HeldForExpected(NamedTuple):
    """What is held for expected jobs, and from whom."""

    expected: Expected
    profile: Profile  # room, in a pool
    line: Timeline  # room, elsewhere
    nodes: np.ndarray  # int64[n_nodes], room
    open: np.ndarray  # bool[n_nodes], the nodes that an admitted job may take
    may_hold: np.ndarray  # bool[1], something may be held now

    def follow(self, state):
        """Bring the forecasts up to now."""
        follow(state, self.expected)
        self.may_hold[0] = state.n_waiting[0] > 0 and any_reaches(self.expected, HIGH)
        if self.may_hold[0]:
            weigh_queue(state, self.expected)

    def admits(self, state, job, reserved):
        """Say whether a job leaves alone what is held against it; ``open`` then has the nodes that do."""
        if state.pool:
            return admits_in_pool(state, self, job, reserved)
        return admits_on_nodes(state, self, job, reserved)

    def started(self, state, job):
        """Count a job as the one that a forecast expected, if it meets one."""
        met = matching(state, self.expected, job)
        if met >= 0:
            self.expected.copies[met] -= 1

    def waits(self, state):
        """Ask to be called when nodes are given up."""
        release = next_release(state, self.expected)
        state.wake[0] = release if release < FAR else -1


def make_hold(state: State, expected: Expected) -> HeldForExpected:
    """Lay out what holding nodes back needs in one run."""
    n_nodes, n_jobs = len(state.free_cpus), len(state.submit)
    n_held = int((expected.copies * state.n_nodes[expected.job]).sum()) if len(expected.job) else 0
    return HeldForExpected(
        expected,
        make_profile(2 * n_jobs + 2 * len(expected.issued) + 8),
        make_timeline(state, not state.pool, more=2 * n_held + n_nodes),
        np.zeros(n_nodes, np.int64),
        np.ones(n_nodes, np.bool_),
        np.zeros(1, np.bool_),
    )


@part
def admits_in_pool(state, own, job, reserved):
    """Say whether a job leaves idle what is held against it, beside the first one's reservation."""
    head, profile = reserved.job[0], own.profile
    if head < 0 or not own.may_hold[0]:
        return True
    build_profile(state, profile)
    if reserved.start[0] < FAR:
        end = min(reserved.start[0] + state.estimate[head], FAR)
        take(profile, reserved.start[0], end, state.n_nodes[head])
    e = own.expected
    met = matching(state, e, job)
    for i in range(e.notes[N_OPEN]):
        f = e.open[i]
        if is_held(state, e, f, job):
            # As many expected jobs as there is room for; of the forecast that the job itself meets, one less.
            n = state.n_nodes[e.job[f]]
            start = max(state.now[0], e.moment[f] - e.tolerance[f])
            end = e.moment[f] + e.tolerance[f] + e.length[f]
            wanted = e.copies[f] - (1 if f == met else 0)
            take(profile, start, end, n * min(wanted, max(0, _least_free(profile, start, end)) // n))
    return find_start(profile, state.n_nodes[job], state.estimate[job], 2 * FAR, state.now[0] + 1) >= 0


@part
def _least_free(profile, start, end):
    """Return the fewest nodes idle at any moment from ``start`` until ``end``."""
    least = FAR
    for k in range(profile.n[0]):
        begins = profile.time[k]
        ends = profile.time[k + 1] if k + 1 < profile.n[0] else 4 * FAR
        if begins < end and ends > start:
            least = min(least, profile.free[k])
    return least


@part
def admits_on_nodes(state, own, job, reserved):
    """Say whether enough nodes leave alone what is held against a job, and open these.

    Of them, if there are enough, only those that no likely forecast needs.
    """
    is_first, keeps_clear = reserved.job[0] < 0, _any_kept_clear(own.expected)
    for node in range(own.open.size):
        own.open[node] = True
    if not keeps_clear and (is_first or not own.may_hold[0]):
        return True
    line, head = own.line, reserved.job[0]
    lay_running(state, line)
    if not is_first and reserved.start[0] < FAR:
        end = min(reserved.start[0] + state.estimate[head], FAR)
        for i in range(state.n_nodes[head]):
            hold_on(state, line, head, reserved.nodes[i], 1, reserved.start[0], end, TAKE)
    if not is_first and own.may_hold[0]:
        _hold_for(state, own, job, True)
        if not _open_holding(state, own, job):
            return False
    if keeps_clear:
        _hold_for(state, own, job, False)
        _open_holding(state, own, job)
    return True


@part
def _any_kept_clear(e):
    found = False
    for i in range(e.notes[N_OPEN]):
        found = found or is_kept_clear(e, e.open[i])
    return found


@part
def _open_holding(state, own, job):
    """Open the nodes that hold a job from now on as long as it lasts, if they are enough; says whether they are."""
    now, found = state.now[0], 0
    end = min(now + state.estimate[job], FAR)
    for node in range(own.open.size):
        if own.open[node] and holds_throughout(state, own.line, job, node, now, end):
            own.nodes[found] = node
            found += 1
    if found < state.n_nodes[job]:
        return False
    for node in range(own.open.size):
        own.open[node] = False
    for i in range(found):
        own.open[own.nodes[i]] = True
    return True


@part
def _hold_for(state, own, against, hard):
    """Take nodes for what is held against a job (``hard``), or for the other likely forecasts."""
    e = own.expected
    met = matching(state, e, against)
    for i in range(e.notes[N_OPEN]):
        f = e.open[i]
        held = is_held(state, e, f, against)
        if held if hard else not held and is_kept_clear(e, f):
            _hold_copies(state, own, f, e.copies[f] - (1 if f == met else 0))


@part
def _hold_copies(state, own, f, wanted):
    """Take the highest rows that have room for so many jobs that a forecast expects."""
    e = own.expected
    job = e.job[f]
    start = max(state.now[0], e.moment[f] - e.tolerance[f])
    end = e.moment[f] + e.tolerance[f] + e.length[f]
    held, top = 0, own.nodes.size - 1
    while held < wanted and _highest_rows(state, own, job, start, end, top):
        for i in range(state.n_nodes[job]):
            hold_on(state, own.line, job, own.nodes[i], 1, start, end, TAKE)
        held += 1
        top = own.nodes[0]  # what was too full above it still is


@part
def _highest_rows(state, own, job, start, end, top):
    """Lay the highest rows, none above ``top``, that hold a job from ``start`` until ``end`` into ``nodes``.

    Says whether there are enough.
    """
    found = 0
    for node in range(top, -1, -1):
        if holds_throughout(state, own.line, job, node, start, end):
            own.nodes[found] = node
            found += 1
            if found == state.n_nodes[job]:
                return True
    return False


ModeName = Annotated[str, OneOf(MODES)]


class Forecast(Parameters):
    """Nodes are held for jobs that are expected; for composed policies with one reservation or none."""

    takes_tasks: ClassVar[bool] = False
    confidence: ModeName = Field("boosted", description="how surely a pattern is said to go on")
    tolerance: int = Field(
        7200,
        ge=1,
        le=43_200,
        description="s about a daily recurrence, for which nodes are held; weekly, three times",
    )
    a: float = Field(1 / 3, ge=0, le=1, description="confidence from which nodes are kept clear where that pays")
    b: float = Field(2 / 3, ge=0, le=1, description="confidence from which nodes are held where that pays")
    eta: float = Field(
        0.02,
        ge=0,
        le=1,
        description="by which a falls after a hit below it, and both rise after a miss from b on",
    )

    @model_validator(mode="after")
    def _bands_in_order(self) -> Forecast:
        if self.a > self.b:
            raise ValueError(f"a is at most b; a={self.a:g} and b={self.b:g} were given")
        return self

    @model_validator(mode="after")
    def _behind_one_reservation(self) -> Forecast:
        if getattr(self, "depth", 1) > 1:
            raise ValueError("hold=forecast goes around one reservation; give depth 1")
        return self

    def make_hold(self, state: State) -> HeldForExpected:
        """Make the hold-back of one run."""
        return make_hold(state, lay_out(state, self.confidence, self.tolerance, (self.a, self.b), self.eta))
