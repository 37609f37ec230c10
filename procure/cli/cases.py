"""What train, evaluate, recommend and report share: a study's results as cases, and what was learnt of them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    pass

StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="A study file that was swept.")]
WorkloadOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="One workload of the study; default: all of them together.")
]
PolicyOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="One policy of the study; default: its first.")
]
LengthOption = Annotated[
    int | None, typer.Option("-k", "--k", min=1, help="Packages to recommend; default: the study's.")
]
VerifyOption = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Simulate the first k where they are predictions.")
]


def feature_set_name(given: str | list[str] | None) -> str | list[str] | None:
    """Refuse a feature set that does not exist."""
    from procure.models.features import FEATURE_SETS
    from procure.text import nearest

    for name in [given] if isinstance(given, str) else given or []:
        if name not in FEATURE_SETS:
            raise typer.BadParameter(f"{name!r} is unknown; {nearest(name, FEATURE_SETS)}")
    return given


class Rule(StrEnum):
    """What packages are ranked by."""

    RUNS_ALL = "runs-all"
    PUBLISHED = "published"


RuleOption = Annotated[
    Rule,
    typer.Option(
        "--rule",
        help="runs-all: packages that run every job first; published: all by the mean wait over the jobs "
        "that ran, whatever is left out.",
    ),
]
