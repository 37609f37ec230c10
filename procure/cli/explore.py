"""``procure explore``: every package live in the browser."""

from __future__ import annotations

import contextlib
import webbrowser
from typing import Annotated

import typer

from procure.cli import common, study_options
from procure.reports.explore import Explorer, serve


def explore(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 = any that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Open every package of a study in the browser: type bounds in, see the list and the picture at once.

    Nothing is simulated; waits that are predicted are marked. The page is served on 127.0.0.1 until Ctrl-C.

    Examples:
    procure explore study.toml
    procure explore study.toml --port 8765 --no-browser
    """

    def opened(address: str) -> None:
        common.echo(address)
        if browser:
            webbrowser.open(address)

    with contextlib.suppress(KeyboardInterrupt):
        serve(Explorer(study_options.load(path, settings), common.note), port, opened)
