"""Where runs are computed: the options of ``sweep``, and ``--set farm.KEY=VALUE`` of ``sweep`` and ``search``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import AfterValidator, Field

from procure.cli import common
from procure.settings import MOST_PROCESSES, Settings
from procure.sweep.connect import lifetime_arguments
from procure.sweep.protocol import FarmOptions, check_farm


def _walltime(text: str) -> str:
    lifetime_arguments(text)
    return text


Processes = Annotated[int, Field(ge=1, le=MOST_PROCESSES)]


class Farm(Settings):
    """The fields of `procure.sweep.FarmOptions` that a user may set, see there."""

    jobs: Processes = 1
    cores: Processes | None = None
    memory: str | None = None
    walltime: Annotated[str, AfterValidator(_walltime)] | None = None
    partition: str | None = None
    account: str | None = None
    interface: str | None = None
    scheduler_file: Path | None = None
    wait: Annotated[float, Field(ge=0)] = 0
    dashboard: bool = False


_QUEUE = "For the farms slurm, pbs, lsf and sge; what is not given is taken from ~/.config/dask/jobqueue.yaml"
FarmOption = Annotated[
    str,
    typer.Option(
        callback=common.checked(check_farm),
        help="serial, local, slurm, pbs, lsf, sge, or the address of a Dask scheduler such as tcp://HOST:PORT; its "
        f"settings by --set farm.KEY=VALUE: {', '.join(Farm.model_fields)}.",
    ),
]
JobsOption = Annotated[
    int | None, typer.Option(min=1, max=MOST_PROCESSES, help="Queued jobs to keep running.", rich_help_panel=_QUEUE)
]
WalltimeOption = Annotated[
    str | None,
    typer.Option(
        callback=common.checked(lifetime_arguments),
        help="Limit of one job, hours:minutes:seconds.",
        rich_help_panel=_QUEUE,
    ),
]


def farm_options(farm: str, settings: Sequence[str] | None, **spelled: Any) -> tuple[list[str], FarmOptions]:
    """Part ``--set`` into the study's settings and the farm's, and refuse what the farm has no use for."""
    of_farm = [text for text in settings or () if text.lstrip().startswith("farm.")]
    found = common.settings_of([text.lstrip().removeprefix("farm.") for text in of_farm], Farm, under="farm.")
    options = FarmOptions(**found.model_dump() | {key: one for key, one in spelled.items() if one is not None})

    def refuse(key: str, why: str) -> None:
        raise typer.BadParameter(f"farm.{key}: {why}", param_hint="--set")

    if options.scheduler_file is not None and farm != "local":
        refuse("scheduler_file", "give a --farm or this")
    farm = "tcp://" if options.scheduler_file else farm
    if options.dashboard and (farm == "serial" or "://" in farm):
        refuse("dashboard", f"--farm {farm} has none that procure could open")
    return [text for text in settings or () if text not in of_farm], options
