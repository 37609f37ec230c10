"""`procure queue ask`: the help of a program that `procure.cli.start` runs without this module."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from procure.serve.ask import PLACES, main
from procure.settings import LARGEST


def ask(
    cpus: Annotated[int | None, typer.Option(min=1, max=LARGEST, help="CPUs in all.")] = None,
    time: Annotated[
        str | None, typer.Option(help="The limit, as in sbatch: 480 (minutes), 8:00:00, 2-00; or 8h.")
    ] = None,
    mem: Annotated[str | None, typer.Option(help="Memory per node, as in sbatch: 64G is 64 GiB.")] = None,
    gpus: Annotated[int | None, typer.Option(min=0, max=LARGEST, help="GPUs in all.")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, max=LARGEST, help="Nodes.")] = None,
    partition: Annotated[str | None, typer.Option(help="Partition; the most used one by default.")] = None,
    pending: Annotated[bool, typer.Option("--pending", help="When may my own waiting jobs start?")] = False,
    advice: Annotated[bool, typer.Option("--advice", help="One line, as at a submission.")] = False,
    socket: Annotated[
        str | None, typer.Option(help=f"The service's socket. [default: $PROCURE_SOCKET, {', '.join(PLACES)}]")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer.")] = 5.0,
    output: Annotated[Literal["table", "json"], typer.Option("--format", help="table for people; json.")] = "table",
) -> None:
    """Ask the cluster's running service when a job would start, or your waiting jobs may.

    Examples:
    procure queue ask --cpus 16 --mem 64G --time 8:00:00
    procure queue ask --pending
    """
    given: dict[str, object] = {
        "cpus": cpus,
        "time": time,
        "mem": mem,
        "gpus": gpus,
        "nodes": nodes,
        "partition": partition,
    }
    given |= {"socket": socket, "timeout": timeout, "format": output}
    words = [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    raise typer.Exit(main([*words, *(["--pending"] if pending else []), *(["--advice"] if advice else [])]))
