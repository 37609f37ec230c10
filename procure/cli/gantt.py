"""``procure gantt``: a schedule as a chart."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from procure import tables
from procure.cli import common
from procure.files import whole_file
from procure.page.gantt import fitting_step, gantt_figure, gantt_text
from procure.settings import LARGEST
from procure.text import duration

_WIDTH = 120
KINDS = (".svg", ".png", ".pdf", ".txt")


def gantt(
    schedule: Annotated[Path, typer.Argument(help="A schedule, from `procure simulate --out`.")],
    out: Annotated[Path | None, typer.Option(help=f"{', '.join(KINDS)}; without it, text on stdout.")] = None,
    step: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=LARGEST,
            help="Seconds per character of the text chart. [default: as many as fit the terminal, else 120 characters]",
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the figure.")] = "",
) -> None:
    """Draw which job ran on which node, and when; jobs that share a node stand above each other.

    Examples:
    procure gantt schedule.parquet --out gantt.svg
    procure gantt schedule.csv --step 60
    """
    if out is not None and out.suffix not in KINDS:
        raise typer.BadParameter(f"{out}: a chart is one of {', '.join(KINDS)}", param_hint="--out")
    table = tables.read(schedule, tables.JOB)
    if step is None and (out is None or out.suffix == ".txt"):
        to_terminal = out is None and sys.stdout.isatty()
        step = fitting_step(table, shutil.get_terminal_size().columns if to_terminal else _WIDTH)
        common.note(f"a character is {duration(step)}")
    if out is None:
        common.echo(gantt_text(table, step=step or 1).removesuffix("\n"), kept="\n")
        return
    if out.suffix == ".txt":
        with whole_file(out) as temporary:
            temporary.write_text(gantt_text(table, step=step or 1), encoding="utf-8")
    else:
        gantt_figure(table, out, title)
    common.note(f"chart written to {out}")
