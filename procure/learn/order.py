"""The order `learned`: who is next by a trained policy's score, in any composed scheduler."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field, field_validator

from procure.learn.features import (
    AGE,
    FEATURES,
    MARGIN,
    Kin,
    make_kin,
    note_end,
    note_start,
    note_submission,
    observe,
)
from procure.learn.policy import expected_before, load
from procure.learn.scores import cheapest_node, free_share
from procure.learn.scores import score as score_of
from procure.learn.store import TrainedPolicy
from procure.policies.easy import Easy
from procure.policies.parameters import NOTHING, Parameters, PolicyFile
from procure.policies.place import make_fit, margin
from procure.settings import LARGEST, LAST_SEED
from procure.simulator.arrays import numbered
from procure.simulator.kernel import kernel
from procure.simulator.seams import order
from procure.simulator.state import State

NAME = "learned"
PATIENCE = 2_592_000
"""s, 30 days; who has waited as long goes before all who have not, so that EASY lets nobody wait for ever."""
NOW, CHANGES, SUBMITTED, ENDED = range(4)
"""What the notes hold: how far the order has followed the run; ``ENDED`` counts the ends of this moment."""
QUEUE, FREE = range(2)
"""What is the same for all jobs of a decision: the length of the queue as a feature, and the free share."""


class Classes(NamedTuple):
    """Which jobs nothing tells apart but their age."""

    line_of: np.ndarray  # int64[n_jobs]
    first: np.ndarray  # int64[n_classes]


@order
class LearnedOrder(NamedTuple):
    """Lowest score of a trained policy first; who has waited as long as ``patience`` before all, first come first."""

    classes: Classes
    kin: Kin
    weights: np.ndarray  # float64[n_features]
    hidden: np.ndarray  # float64[n_hidden, n_features + 2]; no unit looks at the age
    places: np.ndarray  # float64[n_places], what a node costs
    margins: bool  # whether the score looks at the margin
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
        return (self.classes.line_of,)


@kernel
def _score(state, own, job):
    if state.now[0] - state.submit[job] >= own.patience:
        return -np.inf
    notes = own.notes
    if notes[NOW] != state.now[0] or notes[CHANGES] != state.n_changes[0] or notes[SUBMITTED] != state.n_submitted[0]:
        _follow(state, own)
        own.shared[QUEUE] = math.log10(1.0 + state.n_waiting[0]) / 3.0
        own.shared[FREE] = free_share(state)
        notes[CHANGES] = state.n_changes[0]
    left = 0.0
    if own.margins and state.n_nodes[job] == 1:
        node = cheapest_node(state, job, own.places)
        if node >= 0:
            left = margin(state, job, node, False)
    line = own.classes.line_of[job]
    observe(state, own.kin, line, job, left, own.shared[QUEUE], own.shared[FREE], own.row)
    return score_of(own.weights, own.hidden, own.row)


@kernel
def _follow(state, own):
    """Count what was submitted, what has started and what has ended since the last call."""
    kin, notes, line_of = own.kin, own.notes, own.classes.line_of
    for job in range(notes[SUBMITTED], state.n_submitted[0]):
        if state.start[job] >= 0 or state.previous_waiting[state.next_waiting[job]] == job:
            note_submission(kin, line_of[job])  # else no empty set of nodes holds it
    notes[SUBMITTED] = state.n_submitted[0]
    for i in range(state.n_running[0]):
        job = state.running[i]
        if not own.running[job]:
            own.running[job] = True
            note_start(kin, line_of[job], state.start[job])
    if notes[NOW] != state.now[0]:
        notes[NOW], notes[ENDED] = state.now[0], 0
    for i in range(notes[ENDED], state.n_ended[0]):
        job = state.ended[i]
        if not own.running[job]:  # it began and ended between two calls
            note_start(kin, line_of[job], state.start[job])
        own.running[job] = False
        note_end(kin, line_of[job], state.start[job], state.now[0])
    notes[ENDED] = state.n_ended[0]


class Learned(Parameters):
    """The order learned: the lowest score of a trained policy first.

    A policy that was trained inside EASY also says who holds the first reservation, and is placed as it was
    trained, unless ``queue_order`` or ``place`` is given.
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
    def _is_a_score(cls, file: str) -> str:
        if load(file).method == "ppo":
            raise ValueError(f"{file} is the published agent, which scores no job; an order takes a searched policy")
        return file

    def files(self) -> tuple[str, ...]:
        """Return the names of the files, the trained policy's among them."""
        return (*super().files(), *(() if self.file == NOTHING else (self.file,)))

    def _as_trained(self, key: str) -> str | None:
        return None if key in self.model_fields_set else load(self.file).trained.get(key)

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


def make_order(state: State, trained: TrainedPolicy, prior: np.ndarray, patience: int = PATIENCE) -> LearnedOrder:
    """Lay out the order of a trained policy for one run in which nothing has been submitted yet.

    Parameters
    ----------
    prior
        float64[n_jobs], s, from `procure.learn.policy.expected_before`.
    patience
        s; under EASY with this order at the head, a job that has waited as long waits only for those submitted before.
    """
    arrays = trained.arrays
    line_of = numbered(state.shape, state.requested, state.user)
    classes = Classes(line_of, np.zeros(int(line_of.max()) + 1, np.int64))
    weights, hidden = np.array(arrays["weights"]), np.array(arrays["hidden"])
    weights[AGE] = min(weights[AGE], 0.0)
    hidden[:, 1 + AGE] = 0.0
    return LearnedOrder(
        classes,
        make_kin(state, classes, prior, np.full(len(prior), float(arrays["trust"][0]))),
        weights,
        hidden,
        np.array(arrays["places"]),
        bool(weights[MARGIN] != 0 or hidden[:, 1 + MARGIN].any()),
        np.zeros(len(prior), np.bool_),
        np.array([-1, -1, 0, 0], np.int64),
        np.zeros(2),
        np.zeros(len(FEATURES)),
        patience,
    )


class LearnedEasy(Easy):
    """EASY in the order of a trained policy that is at hand, with what was expected of its jobs before the run."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    trained: TrainedPolicy
    prior: np.ndarray

    def make_order(self, state: State, name: str) -> Any:
        """Make the order of a run."""
        return make_order(state, self.trained, self.prior)


@order
class Shuffled(NamedTuple):
    """Anybody first: the order random."""

    rank: np.ndarray  # float64[n_jobs]

    def score(self, state, job):
        """Return the place that was drawn for a job."""
        return self.rank[job]

    def alike(self, state: State) -> None:
        """Return nothing: the scores never change."""
        return


class Random(Parameters):
    """The order random: who is served first is drawn, once for all; whoever gains on it has learnt something."""

    draw: int = Field(0, ge=0, le=LAST_SEED, description="order random: seed of the draw")

    def make_order(self, state: State, name: str) -> Any:
        """Make an order of a run."""
        if name != "random":
            return super().make_order(state, name)  # type: ignore[misc]
        return Shuffled(np.random.default_rng(self.draw).random(len(state.submit)))
