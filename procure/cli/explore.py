"""``procure explore``: every package live in the browser."""

from __future__ import annotations

import contextlib
import os
import sys
import webbrowser
from typing import Annotated

import typer

from procure.cli import common, study_options
from procure.reports.explore import Explorer, serve


def explore(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 = any that is free.")] = 0,
) -> None:
    """Open every package of a study in the browser: type bounds in, see the list and the picture at once.

    Nothing is simulated; waits that are predicted are marked. The page is served on 127.0.0.1 until Ctrl-C; where there
    is no screen, open the address through `ssh -L`.

    Examples:
    procure explore study.toml
    procure explore study.toml --port 8765
    """

    def opened(address: str) -> None:
        common.echo(address)
        if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
            webbrowser.open(address)

    with contextlib.suppress(KeyboardInterrupt):
        serve(Explorer(study_options.load(path, settings), common.note), port, opened)
