"""`procure queue features`: what the model looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common
from procure.errors import TableError
from procure.queue_time import store
from procure.queue_time.meanings import describe_features
from procure.queue_time.model import QueueTimeModel


def features(
    model: Annotated[
        Path | None, typer.Option("--model", help="A model file: those that it uses; all by default.")
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """List every feature of a job with its meaning and unit.

    Examples:
    procure queue features
    procure queue features --model site.model --format json
    """
    names = None
    if model is not None:
        site = store.load(model)
        if not isinstance(site.model, QueueTimeModel):
            raise TableError(f"{model}: a model of the method {site.method} uses the published features only")
        names = site.model.names
    found = describe_features(names)
    shown = found.drop(columns="about") if output is common.Format.TABLE else found
    common.print_table(shown, output, "features of a job at its submission")
