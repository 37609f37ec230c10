"""Options that several commands on a study share, and how they read it; where its runs are computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common
from procure.cli.lazy import MADE_UP
from procure.objectives import OBJECTIVES
from procure.settings import MOST_COUNTED
from procure.study import Study, load_study
from procure.sweep.connect import FarmKeys, FarmOptions, check_farm, lifetime_arguments
from procure.sweep.farm import one_interrupt
from procure.sweep.results import Rule
from procure.text import be, listed

StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="A study file.")]
SetOption = Annotated[
    list[str] | None,
    common.set_option(
        "A setting in place of the study's, as TOML writes it: recommend.k=10, 'workloads.0.policy=\"easy\"'; paths "
        "are relative to the study."
    ),
]
WorkloadOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="One workload of the study; default: all of them together.")
]
PolicyOption = Annotated[str | None, typer.Option(metavar="NAME", help="One policy of the study; default: its first.")]
LengthOption = Annotated[
    int | None,
    typer.Option("-k", "--k", min=1, max=MOST_COUNTED, help="Length of the list; default: the study's."),
]
VerifyOption = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Simulate the first k where they are predictions.")
]
RuleOption = Annotated[
    Rule,
    typer.Option(
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
        metavar="NAME",
        help=f"Objective to minimise; default: the study's, else mean-wait. {_objectives_by_unit()}.",
    ),
]
ConstraintOption = Annotated[
    list[str] | None,
    typer.Option(
        "--constraint",
        metavar="EXPR",
        help="What every package must satisfy, besides the study's own, e.g. 'p95_wait<=4h', "
        "'price_usd<=$900,000', 'total_gpus>=40', 'energy_kwh_per_year<200MWh'; may be given again. "
        "<= < >= > ==; times in s m h d, money in US$ k M, energy in kWh MWh, power in W kW, shares in %.",
    ),
]


def load(path: Path, settings: Sequence[str] | None = None) -> Study:
    """Read a study, with what ``--set`` puts in place of its settings."""
    return say_made_up(load_study(path, settings or ()))


def say_made_up(study: Study) -> Study:
    """Say which jobs of a study are made up, and have the command's JSON say so, too."""
    if study.made_up:
        common.note(
            f"made-up jobs: {listed(study.made_up)} {be(len(study.made_up))} generated, and no figure is of your own; "
            "name those in the study: jobs = …"
        )
        MADE_UP[:] = study.made_up
    return study


FarmOption = Annotated[
    str,
    typer.Option(
        callback=common.checked(check_farm),
        help="serial, local, slurm, pbs, lsf, sge, or the address of a Dask scheduler such as tcp://HOST:PORT; its "
        f"settings by --set farm.KEY=VALUE: {', '.join(one.name for one in fields(FarmKeys))}.",
    ),
]


def farm_options(farm: str, settings: Sequence[str] | None) -> tuple[list[str], FarmOptions]:
    """Part ``--set`` into the study's settings and the farm's, and refuse what the farm has no use for."""

    of_farm = [text for text in settings or () if text.lstrip().startswith("farm.")]
    found = common.settings_of([text.lstrip().removeprefix("farm.") for text in of_farm], FarmKeys, under="farm.")
    with common.bad_option("--set"):
        found.walltime is None or lifetime_arguments(found.walltime)
    return [text for text in settings or () if text not in of_farm], FarmOptions(**vars(found))


@contextmanager
def interruptible(kept: str) -> Iterator[None]:
    """Let the first Ctrl-C end the work in order, and say what is kept of it."""
    with one_interrupt(last=True):
        try:
            yield
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"what was {kept}") from None
