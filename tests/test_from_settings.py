"""Options of a command that come from a settings class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from procure.cli.from_settings import GIVEN_ONLY, options
from procure.settings import Count, Settings


@dataclass(frozen=True)
class Walk:
    """How far, and with whom."""

    n: Annotated[Count, Field(description="How many steps.")] = 3
    pace: Annotated[float | None, Field(ge=0.5, le=2, description="Steps a second.")] = None
    dog: bool = False


class Place(Settings):
    """Where to."""

    name: Annotated[str, Field(description="Of the place.")] = "home"
    share: Annotated[float, Field(gt=0, le=1)] = 0.5


def called(*arguments: str):
    """Run a command of two groups of options; its output, and what it was given."""
    seen = []
    app = typer.Typer()

    @app.command()
    @options(walk={"n": None, "pace": None}, place=None)
    def go(
        *,
        to: Annotated[str, typer.Option()],
        walk: Walk,
        place: Annotated[Place, GIVEN_ONLY],
        loud: bool = False,
    ) -> None:
        """Go."""
        seen.append((to, walk, place.model_dump(exclude_unset=True), loud))

    return CliRunner().invoke(app, arguments, terminal_width=200), seen


def test_a_field_is_an_option_with_its_default_and_bounds():
    """What is not given is the class's default; a bound of the field is one of the option."""
    assert called("--to", "sea")[1] == [("sea", Walk(), {}, False)]
    result, seen = called("--to", "sea", "-n", "5", "--pace", "1.5", "--loud")
    assert (result.exit_code, seen) == (0, [("sea", Walk(5, 1.5), {}, True)])
    for wrong in (["--n", "0"], ["--pace", "2.5"], ["--dog"]):
        result, seen = called("--to", "sea", *wrong)
        assert (result.exit_code, seen) == (2, [])


def test_what_overrides_a_study_is_only_what_was_given():
    """Of settings over others, an option that was not given leaves no trace; an open bound is left to the library."""
    assert called("--to", "sea", "--share", "7")[1][0][2] == {"share": 7.0}


@pytest.mark.parametrize("told", ["How many steps.", "Steps a second.", "Of the place.", "1<=x<=1000000"])
def test_help_is_the_description_of_the_field(told):
    """Help says what the field's description says, and its bounds."""
    assert told in called("--help")[0].output
