"""The order `learned`: who is next by a trained policy's score, in any composed scheduler."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field, field_validator, model_validator

from procure.learn.features import (
    AGE,
    FEATURES,
    JobClassStats,
    expected_before,
    free_share,
    make_stats,
    note_end,
    note_start,
    observe,
)
from procure.learn.published import make_agent
from procure.learn.store import PUBLISHED, TrainedPolicy, load
from procure.learn.weeks import Period
from procure.policies.easy import Easy
from procure.policies.parameters import NOTHING, Parameters, PolicyFile
from procure.policies.place import make_fit
from procure.settings import LARGEST
from procure.simulator.arrays import numbered
from procure.simulator.drive import Policy
from procure.simulator.kernel import kernel
from procure.simulator.seams import order
from procure.simulator.state import State

NAME = "learned"
PATIENCE = 2_592_000
"""s, 30 days; who has waited as long goes before all who have not, so that EASY lets nobody wait for ever."""
PLACE = "best"
"""Where a job goes that is served as trained."""
NOW, CHANGES, SUBMITTED, ENDED = range(4)
"""What the notes hold: how far the order has followed the run; ``ENDED`` counts the ends of this moment."""
QUEUE, FREE = range(2)
"""What all jobs of a decision share: the length of the queue as a feature, and the free share of the system."""


@order
class LearnedOrder(NamedTuple):
    """Lowest score of a trained policy first; who has waited as long as ``patience`` before all, first come first."""

    class_of: np.ndarray  # int64[n_jobs], which jobs nothing tells apart but their age
    stats: JobClassStats
    weights: np.ndarray  # float64[n_features]
    running: np.ndarray  # bool[n_jobs], counted among those that run
    notes: np.ndarray  # int64[4]
    shared: np.ndarray  # float64[2]
    row: np.ndarray  # float64[n_features], room
    patience: int  # s

    def follow(self, state):
        """Learn from what ended, also while nobody waits."""
        _follow(state, self)

    def score(self, state, job):
        """Return a job's score now: the lowest is served first."""
        return _score(state, self, job)

    def alike(self, state: State) -> tuple[np.ndarray, ...]:
        """Return the classes: of one, the score of the earlier queued job is never higher."""
        return (self.class_of,)


@kernel
def _score(state, policy, job):
    if state.now[0] - state.submit[job] >= policy.patience:
        return -np.inf
    notes, shared = policy.notes, policy.shared
    if notes[NOW] != state.now[0] or notes[CHANGES] != state.n_changes[0] or notes[SUBMITTED] != state.n_submitted[0]:
        _follow(state, policy)
        shared[QUEUE] = math.log10(1.0 + state.n_waiting[0]) / 3.0
        shared[FREE] = free_share(state)
        notes[CHANGES] = state.n_changes[0]
    observe(state, policy.stats, policy.class_of[job], job, shared[QUEUE], shared[FREE], policy.row)
    total = 0.0
    for i in range(policy.weights.size):
        total += policy.weights[i] * policy.row[i]
    return total


@kernel
def _follow(state, policy):
    """Count what was submitted, what has started and what has ended since the last call."""
    stats, notes, class_of = policy.stats, policy.notes, policy.class_of
    for job in range(notes[SUBMITTED], state.n_submitted[0]):
        if state.start[job] >= 0 or state.previous_waiting[state.next_waiting[job]] == job:
            stats.n_waiting[class_of[job]] += 1  # else no empty set of nodes holds it
            stats.user_waiting[stats.user[class_of[job]]] += 1
    notes[SUBMITTED] = state.n_submitted[0]
    for i in range(state.n_running[0]):
        job = state.running[i]
        if not policy.running[job]:
            policy.running[job] = True
            note_start(stats, class_of[job], state.start[job])
    if notes[NOW] != state.now[0]:
        notes[NOW], notes[ENDED] = state.now[0], 0
    for i in range(notes[ENDED], state.n_ended[0]):
        job = state.ended[i]
        if not policy.running[job]:  # it began and ended between two calls
            note_start(stats, class_of[job], state.start[job])
        policy.running[job] = False
        note_end(stats, class_of[job], state.start[job], state.now[0])
    notes[ENDED] = state.n_ended[0]


class Learned(Parameters):
    """The order learned: the lowest score of a trained policy first.

    The policy also says who holds the first reservation, and places as it was trained, unless ``queue_order`` or
    ``place`` is given.
    """

    file: PolicyFile = Field(
        NOTHING,
        description="order learned: what `procure learn train` wrote; none = shortest expected run time first",
    )
    patience: int = Field(
        PATIENCE,
        ge=1,
        le=LARGEST,
        description="order learned: s after which who waits goes before all who have not waited as long",
    )

    @field_validator("file")
    @classmethod
    def _can_be_read(cls, file: str) -> str:
        load(file)
        return file

    @model_validator(mode="after")
    def _is_a_score(self) -> Learned:
        if load(self.file).method == PUBLISHED and not isinstance(self, LearnedPolicy):
            raise ValueError(f"{self.file} is the published agent, which scores no job; it runs as learned:file=FILE")
        return self

    def files(self) -> tuple[str, ...]:
        """Return the names of the files, the trained policy's among them."""
        return (*super().files(), *(() if self.file == NOTHING else (self.file,)))

    def _as_trained(self, key: str) -> str | None:
        return None if key in self.model_fields_set else load(self.file).trained.get(key)

    def make(self, state: State) -> Policy:
        """Make the policy of one run."""
        trained = load(self.file)
        return make_agent(state, trained.arrays) if trained.method == PUBLISHED else super().make(state)

    def make_order(self, state: State, name: str) -> Any:
        """Make an order of a run."""
        if name == NAME or self._as_trained("queue_order") == NAME:
            trained = load(self.file)
            return make_order(state, trained, expected_before(state, trained.history), self.patience)
        return super().make_order(state, name)  # type: ignore[misc]

    def make_picker(self, state: State) -> Any:
        """Make what picks among the nodes that hold a job."""
        place = self._as_trained("place")
        return make_fit(state, place) if place else super().make_picker(state)  # type: ignore[misc]


class LearnedPolicy(Easy):
    """EASY in the order of a trained policy; or the published agent, if that is what was trained."""


def make_order(state: State, trained: TrainedPolicy, prior: np.ndarray, patience: int = PATIENCE) -> LearnedOrder:
    """Lay out the order of a trained policy for one run; the prior is of `procure.learn.features.expected_before`."""
    class_of = numbered(state.shape, state.requested, state.user)
    weights = np.array(trained.arrays["weights"])
    weights[AGE] = min(weights[AGE], 0.0)
    return LearnedOrder(
        class_of,
        make_stats(state, class_of, prior, float(trained.arrays["trust"][0])),
        weights,
        np.zeros(len(prior), np.bool_),
        np.array([-1, -1, 0, 0], np.int64),
        np.zeros(2),
        np.zeros(len(FEATURES)),
        patience,
    )


class AtHand(Easy):
    """A trained policy that is no file, with what was expected of the jobs of a run before it."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    trained: TrainedPolicy
    prior: np.ndarray  # of an agent, which expects nothing, of no job

    def make(self, state: State) -> Policy:  # type: ignore[override]
        """Make the policy of one run."""
        is_agent = self.trained.method == PUBLISHED
        return make_agent(state, self.trained.arrays) if is_agent else super().make(state)

    def make_order(self, state: State, name: str) -> Any:
        """Make the order of a run."""
        return make_order(state, self.trained, self.prior)


def at_hand(trained: TrainedPolicy, period: Period) -> AtHand:
    """Return a trained policy as it knows a period."""
    return AtHand.model_validate({"trained": trained, "prior": period.prior, "place": PLACE})
