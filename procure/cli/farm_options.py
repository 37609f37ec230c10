"""Options on where runs are computed, which ``sweep`` and ``search`` share."""

from __future__ import annotations

from typing import Annotated

import typer

from procure.cli import common

_QUEUE = "For the farms slurm, pbs, lsf and sge; what is not given is taken from ~/.config/dask/jobqueue.yaml"

FarmOption = Annotated[
    str,
    typer.Option(
        callback=common.farm_name,
        help="serial, local, slurm, pbs, lsf, sge, or the address of a Dask scheduler such as tcp://HOST:PORT.",
    ),
]
JobsOption = Annotated[int, typer.Option(min=1, help="Queued jobs to keep running.", rich_help_panel=_QUEUE)]
CoresOption = Annotated[
    int | None, typer.Option(min=1, help="Cores of one job, a worker on each.", rich_help_panel=_QUEUE)
]
MemoryOption = Annotated[
    str | None, typer.Option(help="Memory of one job, e.g. '8 GB'.", rich_help_panel=_QUEUE)
]
WalltimeOption = Annotated[
    str | None,
    typer.Option(
        callback=common.walltime, help="Limit of one job, hours:minutes:seconds.", rich_help_panel=_QUEUE
    ),
]
PartitionOption = Annotated[str | None, typer.Option(help="Partition or queue.", rich_help_panel=_QUEUE)]
AccountOption = Annotated[str | None, typer.Option(help="Account or project.", rich_help_panel=_QUEUE)]
