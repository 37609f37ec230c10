"""The parameters of the hold-back `forecast`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, PrivateAttr, field_validator, model_validator

from procure.errors import TableError
from procure.forecast.confidence import MODES
from procure.forecast.hold import HeldForExpected, make_hold
from procure.forecast.reservations import How, lay_out
from procure.policies.parameters import Facts, OneOf, Parameters
from procure.simulator.drive import Policy
from procure.simulator.state import State
from procure.workload.clock import zone

ModeName = Annotated[str, OneOf(MODES)]
NO_ZONE = "none"
"""In place of a time zone: days are counted from the first submission."""


class Forecast(Parameters):
    """Nodes are held for jobs that are expected; for composed policies with one reservation or none."""

    takes_tasks: ClassVar[bool] = False
    _began: int | None = PrivateAttr(default=None)
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
    tz: str = Field(
        NO_ZONE,
        description="zone whose clock the days follow, as Europe/Prague; none: 24 h from the first job on",
    )

    @model_validator(mode="after")
    def _bands_in_order(self) -> Forecast:
        if self.a > self.b:
            raise ValueError(f"a is at most b; a={self.a:g} and b={self.b:g} were given")
        return self

    @field_validator("tz")
    @classmethod
    def _known_zone(cls, tz: str) -> str:
        return tz if tz == NO_ZONE else zone(tz).key

    @model_validator(mode="after")
    def _behind_one_reservation(self) -> Forecast:
        if getattr(self, "depth", 1) > 1:
            raise ValueError("hold=forecast goes around one reservation; give depth 1")
        return self

    def make_hold(self, state: State) -> HeldForExpected:
        """Make the hold-back of one run.

        Raises
        ------
        TableError
            A time zone is given, and the log has no dates.
        """
        if self.tz == NO_ZONE:
            first, tz = 0, None
        elif self._began is not None:
            first, tz = self._began, self.tz
        else:
            raise TableError(f"tz={self.tz} was given, and the times of the jobs are no dates; leave tz out")
        how = How(self.confidence, self.tolerance, (self.a, self.b), self.eta)
        expected = lay_out(state, how, began=first, tz=tz)
        return make_hold(state, expected)

    def make_with(self, state: State, facts: Facts) -> Policy:
        """Make the policy of one run; days follow the dates of its log."""
        dated = self.model_copy()
        dated._began = facts.began
        return dated.make(state)
