"""Run times that past jobs tell, instead of the users' requests, for any composed policy."""

from __future__ import annotations

import numpy as np
from pydantic import Field, field_validator, model_validator

from procure.learn.features import expected_before
from procure.learn.store import load
from procure.policies.parameters import NOTHING, Parameters, PolicyFile
from procure.simulator.drive import Policy
from procure.simulator.state import State


class Estimates(Parameters):
    """What any composed policy takes on: estimates of run times from a trained policy's file."""

    estimates: PolicyFile = Field(
        NOTHING,
        description="a trained policy, whose history of run times estimates jobs; none = the requests",
    )

    @field_validator("estimates")
    @classmethod
    def _has_a_history(cls, file: str) -> str:
        if file != NOTHING and load(file).history is None:
            raise ValueError(f"{file} holds no history of run times; `procure learn train --method search` keeps one")
        return file

    @model_validator(mode="after")
    def _only_one_estimates(self) -> Estimates:
        if self.estimates != NOTHING and self.last_two:
            raise ValueError("estimates and last_two both estimate run times; give one")
        return self

    def files(self) -> tuple[str, ...]:
        """Return the names of the files, the trained policy's among them."""
        return (*super().files(), *(() if self.estimates == NOTHING else (self.estimates,)))

    def make(self, state: State) -> Policy:
        """Make the policy of one run; what is believed of its jobs is set before any is submitted."""
        if self.estimates != NOTHING:
            expected = expected_before(state, load(self.estimates).history)
            state.estimate[:] = np.clip(np.ceil(expected).astype(np.int64), 1, state.estimate)
        return super().make(state)
