"""Options on where runs are computed, which ``sweep`` and ``search`` share."""

from __future__ import annotations

from typing import Annotated

import typer

from procure.cli import common
from procure.settings import MOST_PROCESSES
from procure.sweep.connect import lifetime_arguments
from procure.sweep.protocol import FarmOptions, check_farm

_QUEUE = "For the farms slurm, pbs, lsf and sge; what is not given is taken from ~/.config/dask/jobqueue.yaml"


farm_name, walltime = common.checked(check_farm), common.checked(lifetime_arguments)


FarmOption = Annotated[
    str,
    typer.Option(
        callback=farm_name,
        help="serial, local, slurm, pbs, lsf, sge, or the address of a Dask scheduler such as tcp://HOST:PORT.",
    ),
]
JobsOption = Annotated[
    int, typer.Option(min=1, max=MOST_PROCESSES, help="Queued jobs to keep running.", rich_help_panel=_QUEUE)
]
CoresOption = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_PROCESSES, help="Cores of one job, a worker on each.", rich_help_panel=_QUEUE),
]
MemoryOption = Annotated[str | None, typer.Option(help="Memory of one job, e.g. '8 GB'.", rich_help_panel=_QUEUE)]
WalltimeOption = Annotated[
    str | None,
    typer.Option(callback=walltime, help="Limit of one job, hours:minutes:seconds.", rich_help_panel=_QUEUE),
]
PartitionOption = Annotated[str | None, typer.Option(help="Partition or queue.", rich_help_panel=_QUEUE)]
AccountOption = Annotated[str | None, typer.Option(help="Account or project.", rich_help_panel=_QUEUE)]
InterfaceOption = Annotated[
    str | None,
    typer.Option(help="Network interface on which scheduler and workers listen, e.g. ib0.", rich_help_panel=_QUEUE),
]
DashboardOption = Annotated[
    bool,
    typer.Option(
        "--dashboard",
        help="Open Dask's dashboard on loopback, where every user of this node can see it; with Dask only.",
    ),
]


def check_options(farm: str, workers: FarmOptions) -> None:
    """Refuse what a farm has no use for."""
    if workers.dashboard and (farm == "serial" or "://" in farm):
        raise typer.BadParameter(f"--farm {farm} has none that procure could open", param_hint="--dashboard")


FARM = {
    "jobs": JobsOption,
    "cores": CoresOption,
    "memory": MemoryOption,
    "walltime": WalltimeOption,
    "partition": PartitionOption,
    "account": AccountOption,
    "interface": InterfaceOption,
    "dashboard": DashboardOption,
}
"""Options by field of `procure.sweep.FarmOptions`."""
