"""The parameters of the hold-back `forecast`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from procure.forecast.confidence import MODES
from procure.forecast.hold import HeldForExpected, make_hold
from procure.forecast.reservations import How, lay_out
from procure.policies.parameters import OneOf, Parameters
from procure.simulator.state import State

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
        how = How(self.confidence, self.tolerance, (self.a, self.b), self.eta)
        return make_hold(state, lay_out(state, how))
