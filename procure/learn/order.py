"""The order `learned`: who is next by a trained policy's score, in any composed scheduler."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from procure.learn.features import AGE, FEATURES, MARGIN, Kin, make_kin, observe
from procure.learn.policy import expected_before, load
from procure.learn.scores import cheapest_node, free_share
from procure.learn.scores import score as score_of
from procure.policies.parameters import NOTHING, Parameters, PolicyFile
from procure.policies.place import margin
from procure.simulator.arrays import numbered
from procure.simulator.kernel import kernel
from procure.simulator.seams import order
from procure.simulator.state import State

NAME = "learned"
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
    """Lowest score of a trained linear policy first; a longer wait never counts against a job."""

    classes: Classes
    kin: Kin
    weights: np.ndarray  # float64[n_features]
    hidden: np.ndarray  # float64[0, n_features + 2]
    places: np.ndarray  # float64[n_places], what a node costs
    margins: bool  # whether the score looks at the margin
    running: np.ndarray  # bool[n_jobs], counted among those that run
    notes: np.ndarray  # int64[4]
    shared: np.ndarray  # float64[2]
    row: np.ndarray  # float64[n_features], room

    def score(self, state, job):
        """Return a job's score now: the lowest is served first."""
        return _score(state, self, job)

    def alike(self, state: State) -> tuple[np.ndarray, ...]:
        """Return the classes: of one, the score of the earlier queued job is never higher."""
        return (self.classes.line_of,)


@kernel
def _score(state, own, job):
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
            kin.n_waiting[line_of[job]] += 1  # else no empty set of nodes holds it
    notes[SUBMITTED] = state.n_submitted[0]
    for i in range(state.n_running[0]):
        job = state.running[i]
        if not own.running[job]:
            own.running[job] = True
            kin.n_waiting[line_of[job]] -= 1
            kin.n_running[line_of[job]] += 1
            kin.start_sum[line_of[job]] += state.start[job]
    if notes[NOW] != state.now[0]:
        notes[NOW], notes[ENDED] = state.now[0], 0
    for i in range(notes[ENDED], state.n_ended[0]):
        job = state.ended[i]
        line = line_of[job]
        if own.running[job]:
            own.running[job] = False
            kin.n_running[line] -= 1
            kin.start_sum[line] -= state.start[job]
        else:  # it began and ended between two calls
            kin.n_waiting[line] -= 1
        kin.n_ended[line] += 1
        kin.run_sum[line] += state.now[0] - state.start[job]
    notes[ENDED] = state.n_ended[0]


class Learned(Parameters):
    """The order learned: the lowest score of a trained linear policy first."""

    file: PolicyFile = Field(
        NOTHING,
        description="order learned: what `procure learn train` wrote; none = shortest expected run time first",
    )

    @field_validator("file")
    @classmethod
    def _is_linear(cls, file: str) -> str:
        trained = load(file)
        if trained.method == "ppo" or len(trained.arrays["hidden"]):
            raise ValueError(f"{file} is no linear policy, which an order takes; train it without --hidden")
        return file

    def files(self) -> tuple[str, ...]:
        """Return the names of the files, the trained policy's among them."""
        return (*super().files(), *(() if self.file == NOTHING else (self.file,)))

    def make_order(self, state: State, name: str) -> Any:
        """Make an order of a run."""
        if name != NAME:
            return super().make_order(state, name)  # type: ignore[misc]
        return make_order(state, self.file)


def make_order(state: State, file: str) -> LearnedOrder:
    """Lay out the order of a trained policy's file for one run in which nothing has been submitted yet."""
    trained = load(file)
    arrays = trained.arrays
    line_of = numbered(state.shape, state.requested, state.user)
    classes = Classes(line_of, np.zeros(int(line_of.max()) + 1, np.int64))
    prior = expected_before(state, trained.history)
    weights = np.array(arrays["weights"])
    weights[AGE] = min(weights[AGE], 0.0)
    return LearnedOrder(
        classes,
        make_kin(state, classes, prior, np.full(len(prior), float(arrays["trust"][0]))),
        weights,
        np.array(arrays["hidden"]),
        np.array(arrays["places"]),
        bool(weights[MARGIN] != 0),
        np.zeros(len(prior), np.bool_),
        np.array([-1, -1, 0, 0], np.int64),
        np.zeros(2),
        np.zeros(len(FEATURES)),
    )
