"""`procure queue evaluate`: how good predictions of a log's waits are."""

from __future__ import annotations

from typing import Annotated

import pandas as pd
import typer

from procure.cli import common, log_options
from procure.cli.queue_options import LogArgument, TzOption, names_of
from procure.queue_time import evaluation
from procure.queue_time.evaluation import METHODS
from procure.queue_time.log import left_out
from procure.workload.log_settings import LogSettings

_SHOWN = (
    "split method deadline_label n_test mae pinball within_2x deadline_accuracy majority_accuracy "
    "coverage_90 brier brier_base"
).split()


def evaluate(
    log: LogArgument,
    split: Annotated[list[str] | None, typer.Option(help="random or chronological; may be given twice.")] = None,
    tz: TzOption = None,
    settings: log_options.SetOption = None,
    method: Annotated[
        list[str] | None, typer.Option(help="procure, kmeans-gbt, gbt or rival; all by default. Repeatable.")
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Judge predictions of a log's waits on a random or a chronological split.

    Examples:
    procure queue evaluate log.swf --split chronological --format json
    procure queue evaluate log.swf --split random --split chronological
    """
    splits = names_of(split or ["chronological"], evaluation.SPLITS, "--split")
    methods = names_of(method or METHODS, METHODS, "--method")
    how = common.settings_of(settings, LogSettings, log_tz=tz)
    imported = common.read_jobs(log, how, keep_unfinished="sacct")
    jobs = imported.jobs
    for text in left_out(jobs):
        common.note(text)
    found = evaluation.evaluate(jobs, splits, methods, progress=common.note)
    if found.stated:
        common.note("procure was trained at the cut and learnt from each outcome as soon as it was known")
    frame = pd.DataFrame(found.rows)
    common.print_table(frame[_SHOWN] if output is common.Format.TABLE else frame, output)
    common.note(evaluation.verdict(found))
