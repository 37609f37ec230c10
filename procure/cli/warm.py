"""``procure warm``: compile every kernel now."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common
from procure.files.caches import VARIABLE, prepare_site
from procure.policies import catalog
from procure.settings import MOST_PROCESSES
from procure.sweep.warm import warm as compile_all


def warm(
    policies: Annotated[
        str | None, typer.Option(help="Only these, separated by commas; without, one of each kernel.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_PROCESSES, help="How many compile at once; without, one on each core."),
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep them in this folder, for every user to read and none to change."),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Compile the policies now, in parallel, so that the first use of none has to wait for it.

    Compiled kernels are kept on the disk; this happens once after installation. A site compiles them for its users
    once for each type of processor; users name the folder in PROCURE_CACHE.

    Examples:
    procure warm
    procure warm --policies easy,conservative
    procure warm --site /opt/procure/cache
    """
    if site is not None:
        site = site.absolute()
        prepare_site(site)
        os.environ[VARIABLE] = str(site)  # which the processes that compile inherit
    found = compile_all(catalog.split_list(policies) if policies else None, processes)
    common.print_table(found.round({"seconds": 1}), output, "compiled")
    if site is not None:
        common.note(f"users read it with: export {VARIABLE}={site}")
