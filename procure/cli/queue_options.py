"""Options that several commands of `procure queue` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common

LogArgument = Annotated[Path, typer.Argument(metavar="LOG", help="A job log, or a job table (.parquet, .csv).")]
ModelOption = Annotated[Path, typer.Option("--model", help="A model file of `procure queue train`.")]
PresetOption = Annotated[str | None, typer.Option("--preset", help="How to read the log; see workload import.")]
TzOption = Annotated[str | None, common.zone_option("Zone of times without an offset, e.g. Europe/Berlin.")]
LOG = common.LOG | {"preset": PresetOption, "log_tz": TzOption}
"""Options by field of `procure.workload.LogSettings`."""
