"""Options that several commands on a swept study share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from procure.cli import common
from procure.errors import TableError
from procure.objectives import OBJECTIVES
from procure.settings import MOST_COUNTED
from procure.study.study import read_values
from procure.study.workloads import made_up
from procure.sweep.results import Rule
from procure.text import be, listed


def say_made_up(context: typer.Context, path: Path) -> Path:
    """Say in the command's first line that a study's jobs are made up, and have its JSON say so, too."""
    try:
        names = made_up(read_values(path).get("workloads"))
    except TableError:  # which the command itself will say
        names = []
    if names:
        common.note(
            f"made-up jobs: {listed(names)} {be(len(names))} generated, and no figure is of your own; name those in "
            "the study: jobs = …"
        )
        common.MADE_UP[:] = names
        context.call_on_close(common.MADE_UP.clear)
    return path


def study_argument(help: str, metavar: str = "STUDY.toml") -> Any:
    """Return the argument of a study file."""
    return typer.Argument(metavar=metavar, help=help, callback=say_made_up)


StudyArgument = Annotated[Path, study_argument("A study file that was swept.")]
WorkloadOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="One workload of the study; default: all of them together.")
]
PolicyOption = Annotated[str | None, typer.Option(metavar="NAME", help="One policy of the study; default: its first.")]
LengthOption = Annotated[
    int | None,
    typer.Option("-k", "--k", min=1, max=MOST_COUNTED, help="Packages to recommend; default: the study's."),
]
VerifyOption = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Simulate the first k where they are predictions.")
]


RuleOption = Annotated[
    Rule,
    typer.Option(
        "--rule",
        help="runs-all: packages that run every job first; published: all by the mean wait over the jobs "
        "that ran, whatever is left out.",
    ),
]


def _objectives_by_unit() -> str:
    units = list(dict.fromkeys(one.unit for one in OBJECTIVES.values()))
    names = {unit: ", ".join(one.name for one in OBJECTIVES.values() if one.unit == unit) for unit in units}
    return "; ".join(f"{unit or 'a ratio'}: {named}" for unit, named in names.items())


ObjectiveOption = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="NAME",
        help=f"Objective to minimise; default: the study's, else mean-wait. {_objectives_by_unit()}.",
    ),
]
ConstraintOption = Annotated[
    list[str] | None,
    typer.Option(
        "--constraint",
        "--constraints",
        metavar="EXPR",
        help="What every package must satisfy, besides the study's own, e.g. 'p95_wait<=4h', "
        "'price_usd<=$900,000', 'total_gpus>=40', 'energy_kwh_per_year<200MWh'; may be given again. "
        "<= < >= > ==; times in s m h d, money in US$ k M, energy in kWh MWh, power in W kW, shares in %.",
    ),
]
