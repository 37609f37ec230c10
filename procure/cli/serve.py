"""`procure serve`: queue times for a cluster's users: collect, keep a model fresh, answer, be judged in public."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from procure.cli import common
from procure.cli.lazy import command_group
from procure.errors import TableError
from procure.serve.settings import Place, read_service

app = command_group()
ConfigOption = Annotated[Path, typer.Option("--config", help="The service's config.toml, of `procure serve init`.")]


@app.command()
def init(folder: Annotated[Path, typer.Option("--dir", help="The service's folder; made if need be.")]) -> None:
    """Write config.toml, a systemd unit, a submission filter, an Open OnDemand widget, a proxy's lines.

    Files that are there already stay as they are.

    Example:
    procure serve init --dir /var/lib/procure
    """
    from procure.serve.files import init as write

    for path in write(folder):
        common.note(f"wrote {path}")
    common.echo(f"next: procure serve run --config {folder / 'config.toml'}")


@app.command()
def run(
    config: ConfigOption,
    check: Annotated[
        bool, typer.Option("--check", help="Only say what is amiss, and how intervals have held; exit code 1 if so.")
    ] = False,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Collect, keep the model fresh, and answer, until told to stop.

    Examples:
    procure serve run --config /var/lib/procure/config.toml
    procure serve run --config /var/lib/procure/config.toml --check --format json
    """
    if output is not common.Format.TABLE and not check:
        raise typer.BadParameter("goes with --check", param_hint="--format")
    place = _place(config)
    if check:
        _check(place, output)
        return
    try:
        from procure.serve.collector import begin_log, lock, of_this
        from procure.serve.serving import run as answer
        from procure.serve.store import Store, usable
    except ImportError as error:
        raise TableError(f"the service needs {error.name}: pip install 'procure-hpc[serve]'") from None
    begin_log()
    lock(place).close()  # refused now, not in the log of a child
    if place.database.is_file():
        with usable(place.database), closing(Store(place.database, writer=True)) as store:
            store.check()
            of_this(store, place)
    with suppress(KeyboardInterrupt):  # how it is told to stop
        answer(config.resolve(), place)


def _check(place: Place, output: common.Format) -> None:
    from procure.serve.live import look
    from procure.serve.store import usable

    with usable(place.database):
        found = look(place)
    rows = [{"what": name, "ok": not amiss, "seen": amiss or seen} for name, seen, amiss in found]
    common.print_table(pd.DataFrame(rows), output)
    if any(amiss for *_, amiss in found):
        raise typer.Exit(1)


def _place(config: Path) -> Place:
    os.umask(0o077)  # what the service keeps is its own alone
    return read_service(config)
