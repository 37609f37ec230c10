"""`procure queue`: when will my job start? Train on a log, predict, watch, judge."""

from __future__ import annotations

from typing import ClassVar

from procure.cli.lazy import LazyGroup, command_group


class Queue(LazyGroup):
    """The commands of `procure queue`."""

    COMMANDS: ClassVar = {
        "train": ("queue_train", "Train a model of a site's waits on its job log."),
        "predict": ("queue_predict", "Predict when a job would start if it were submitted now, and say why."),
        "watch": ("queue_predict", "Show your pending jobs and when each may start, again every minute."),
        "evaluate": ("queue_train", "Judge predictions of a log's waits on splits by time or at random."),
    }


app = command_group(Queue)


@app.callback()
def queue() -> None:
    """When will my job start? Train on a log, predict, watch, judge."""
