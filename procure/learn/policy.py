"""The policy `learned`: what a trained policy decides, in the compiled loop."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
from pydantic import ConfigDict, Field, field_validator

from procure.errors import TableError
from procure.learn.features import FEATURES, MARGIN, NO_LIMIT, RUN_TIME, make_kin
from procure.learn.published import make_agent
from procure.learn.rollout import make_ahead, rolled_out
from procure.learn.run_times import RunTimes
from procure.learn.scores import PLACES, Scored, scored
from procure.learn.store import TrainedPolicy, read_policy
from procure.policies.lines import make_lines
from procure.policies.order import FIRST_COME
from procure.policies.parameters import NOTHING, Parameters, PolicyFile
from procure.policies.place import make_fit, make_nodes
from procure.settings import LARGEST
from procure.simulator.arrays import Jobs
from procure.simulator.drive import CompiledPolicy
from procure.simulator.drive import compiled as compiled_policy
from procure.simulator.state import State

NO_HISTORY = 0.25
"""Without any history, a job is expected to run this share of its requested time."""


def expected_before(state: State | Jobs, history: RunTimes | None, quantile: float | None = None) -> np.ndarray:
    """Return what each job was expected to run before the run, or a quantile: float64[n_jobs] in queue order, s.

    A run knows no user's name, so this is by shape and request. Without any history, `NO_HISTORY`.
    """
    if getattr(state, "guards", None) is not None:
        raise TableError("nodes with several GPU models: trained policies do not know them; choose another policy")
    if history is None:
        return NO_HISTORY * np.where(state.requested > 0, state.requested, NO_LIMIT)
    jobs = pd.DataFrame(
        {
            "n_nodes": state.n_nodes,
            "cpus_per_node": state.cpus,
            "mem_mb_per_node": state.mem,
            "gpus_per_node": state.gpus,
            "requested_time": state.requested,
        }
    )
    return history.predict(jobs, quantile)


def make_scored(state: State, trained: TrainedPolicy, prior: np.ndarray) -> Scored:
    """Lay out what the kernel `scored` needs in one run.

    Parameters
    ----------
    prior
        float64[n_jobs], s, from `expected_before`.
    """
    arrays = trained.arrays
    if arrays["places"][PLACES.index("imbalance")] and not (state.total_mem > 0).all():
        raise TableError("this policy weighs memory against CPUs, and a node of this system has no memory")
    lines = make_lines(state, FIRST_COME, True, (state.requested, state.user))
    trust = np.full(len(prior), float(arrays["trust"][0]))
    weights, hidden = np.array(arrays["weights"]), np.array(arrays["hidden"])
    margins = bool(weights[MARGIN] != 0 or len(hidden))
    room = make_nodes(state, make_fit(state, "best"))
    kin = make_kin(state, lines, prior, trust)
    row = np.zeros(len(FEATURES))
    return Scored(lines, kin, room, weights, hidden, np.array(arrays["places"]), margins, row)


UNTRAINED = TrainedPolicy(
    "search",
    {
        "weights": np.eye(len(FEATURES))[RUN_TIME],
        "hidden": np.zeros((0, len(FEATURES) + 2)),
        "places": np.zeros(len(PLACES)),
        "trust": np.ones(1),
    },
)
"""Shortest expected run time first, on the first node that fits; from where a search begins."""


@functools.lru_cache(maxsize=8)
def _read(path: str, changed: int) -> TrainedPolicy:
    return read_policy(path)


def load(file: str) -> TrainedPolicy:
    """Read a trained policy, once for as long as the file does not change; ``none`` is `UNTRAINED`."""
    if file == NOTHING:
        return UNTRAINED
    return _read(file, Path(file).stat().st_mtime_ns if Path(file).is_file() else 0)


class Learned(Parameters):
    """Parameters of a trained policy."""

    rule: ClassVar = scored
    file: PolicyFile = Field(
        NOTHING, description="what `procure learn train` wrote; none = shortest expected run time first"
    )

    ahead: int = Field(
        0,
        ge=0,
        le=LARGEST,
        description="s that the queue is simulated ahead to choose between orders; 0 = no rollouts",
    )
    every: int = Field(600, ge=1, le=LARGEST, description="with ahead: s between choices of the order")

    @field_validator("file")
    @classmethod
    def _can_be_read(cls, file: str) -> str:
        load(file)
        return file

    def files(self) -> tuple[str, ...]:
        """Return the name of the trained policy's file."""
        return () if self.file == NOTHING else (self.file,)

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run.

        Raises
        ------
        TableError
            A system that lacks what the policy looks at.
        """
        trained = load(self.file)
        return compiled(state, trained, expected_before(state, trained.history), self.ahead, self.every)


class Fixed(Parameters):
    """A trained policy that is at hand, instead of in a file."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    trained: TrainedPolicy

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        return compiled(state, self.trained, expected_before(state, self.trained.history))


def compiled(
    state: State, trained: TrainedPolicy, prior: np.ndarray, ahead: int = 0, every: int = 600
) -> CompiledPolicy:
    """Make a trained policy for one run, with what its jobs were expected to run before it.

    Raises
    ------
    TableError
        A system that lacks what the policy looks at; rollouts of the published agent, which has no score.
    """
    if trained.method == "ppo":
        if ahead:
            raise TableError("the published agent scores no queue; rollouts (ahead) need a policy of --method search")
        return make_agent(state, trained.arrays)
    own = make_scored(state, trained, prior)
    if ahead:
        return compiled_policy(rolled_out, make_ahead(state, own, ahead, every))
    return compiled_policy(scored, own)
