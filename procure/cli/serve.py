"""`procure serve`: queue times for a cluster's users: collect, keep a model fresh, answer, be judged in public."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common
from procure.cli.lazy import command_group
from procure.errors import TableError
from procure.progress import Step, watching
from procure.serve.settings import Place, read_service

app = command_group()
ConfigOption = Annotated[Path, typer.Option("--config", help="The service's config.toml, of `procure serve init`.")]


@app.callback()
def serve() -> None:
    """Queue times for a cluster's users: collect, keep a model fresh, answer, be judged in public."""


@app.command()
def init(
    folder: Annotated[Path, typer.Option("--dir", help="The service's folder; made if need be.")],
    replay: Annotated[Path | None, typer.Option(help="Play this job log again in place of Slurm.")] = None,
) -> None:
    """Write config.toml, a systemd unit, a submission filter, an Open OnDemand widget, a proxy's lines.

    Files that are there already stay as they are.

    Examples:
    procure serve init --dir /var/lib/procure
    procure serve init --dir trial --replay jobs.parquet
    """
    from procure.serve.files import init as write

    if replay is not None and not replay.is_file():
        raise typer.BadParameter(f"{replay}: no such file", param_hint="--replay")
    for path in write(folder, replay):
        common.note(f"wrote {path}")
    common.echo(f"next: procure serve run --config {folder / 'config.toml'}")


@app.command()
def run(config: ConfigOption) -> None:
    """Collect, keep the model fresh, and answer, until told to stop.

    Example:
    procure serve run --config /var/lib/procure/config.toml
    """
    place = _place(config)
    _begin_log()
    try:
        from procure.serve.collector import lock, of_this
        from procure.serve.serving import run as answer
        from procure.serve.store import Store, usable
    except ImportError as error:
        raise TableError(f"the service needs {error.name}: pip install 'procure-hpc[serve]'") from None
    lock(place).close()  # refused now, not in the log of a child
    if place.database.is_file():
        with usable(place.database), closing(Store(place.database, writer=True)) as store:
            store.check()
            of_this(store, place)
    with suppress(KeyboardInterrupt):  # how it is told to stop
        answer(config.resolve(), place)


@app.command()
def collect(config: ConfigOption) -> None:
    """Collect and keep the model fresh without answering; `run` starts it by itself.

    Example:
    procure serve collect --config /var/lib/procure/config.toml
    """
    from procure.serve.collector import Collector
    from procure.serve.keeper import end_with_parent
    from procure.serve.store import usable

    place, stop = _place(config), threading.Event()
    _begin_log()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    end_with_parent(os.getppid())
    with usable(place.database):
        collector = Collector(place)
    try:
        with watching(_Quiet()):
            collector.run(stop)
    finally:
        collector.close()


@app.command()
def check(config: ConfigOption, output: common.FormatOption = common.Format.TABLE) -> None:
    """Say whether Slurm can be read, the model is fresh, and the intervals hold; exit code 1 where one does not.

    Example:
    procure serve check --config /var/lib/procure/config.toml
    """
    import pandas as pd

    from procure.serve.checks import check as look
    from procure.serve.store import usable

    place = _place(config)
    with usable(place.database):
        found = look(place)
    common.print_table(pd.DataFrame([one._asdict() for one in found]), output)
    if not all(one.ok for one in found):
        raise typer.Exit(1)


class _Quiet:
    """Shows no steps: a log is no terminal."""

    def begin(self, one: Step) -> None:
        """Say nothing."""

    def end(self, one: Step) -> None:
        """Say nothing."""


def _place(config: Path) -> Place:
    os.umask(0o077)  # what the service keeps is its own alone
    return read_service(config)


def _begin_log() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
