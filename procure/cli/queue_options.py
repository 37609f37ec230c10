"""What several commands of `procure queue` take: logs and models, deadlines and moments as users write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common
from procure.errors import TableError
from procure.text import nearest
from procure.workload.clock import moment

LogArgument = Annotated[Path, typer.Argument(metavar="LOG", help="A job log, or a job table (.parquet, .csv).")]
ModelOption = Annotated[Path, typer.Option("--model", help="A model file of `procure queue train`.")]
TzOption = Annotated[str | None, common.zone_option("Zone of times without an offset, e.g. Europe/Berlin.")]


def deadline_of(text: str | None, now: int, tz: str | None) -> float | None:
    """Read a deadline as seconds from now: a duration, or a moment."""
    if text is None:
        return None
    if re.match(r"\d{4}-\d{2}-\d{2}", text):
        seconds = moment(text, tz or "UTC") - now
        if seconds <= 0:
            raise TableError(f"the deadline {text} has passed; a later one is needed")
        return float(seconds)
    return float(common.seconds_of(text, "--deadline"))


def names_of(given: Sequence[str], legal: Sequence[str], option: str) -> list[str]:
    """Check the names that an option was given; each once."""
    for name in given:
        if name not in legal:
            raise typer.BadParameter(f"{name!r}; {nearest(name, legal)}", param_hint=option)
    return list(dict.fromkeys(given))
