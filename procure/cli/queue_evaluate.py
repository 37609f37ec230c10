"""`procure queue evaluate`: how good predictions of a log's waits are."""

from __future__ import annotations

from typing import Annotated

import pandas as pd
import typer

from procure.cli import common, log_options
from procure.cli.queue_options import LogArgument, TzOption, names_of
from procure.queue_time import evaluation
from procure.queue_time.evaluation import METHODS
from procure.queue_time.report import write_report
from procure.workload.log_settings import LogSettings

_SHOWN = (
    "split method deadline_label n_test mae pinball within_2x deadline_accuracy majority_accuracy "
    "coverage_90 brier brier_base"
).split()


def evaluate(
    log: LogArgument,
    split: Annotated[
        list[str] | None, typer.Option(help="random, chronological or rolling; may be given several times.")
    ] = None,
    tz: TzOption = None,
    settings: log_options.SetOption = None,
    method: Annotated[
        list[str] | None, typer.Option(help="procure, kmeans-gbt, gbt or rival; all by default. Repeatable.")
    ] = None,
    report: common.ReportOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Judge predictions of a log's waits on random, chronological and monthly rolling splits.

    Examples:
    procure queue evaluate log.swf --split chronological --format json
    procure queue evaluate log.swf --split random --split chronological --report report.html
    """
    splits = names_of(split or ["chronological"], evaluation.SPLITS, "--split")
    methods = names_of(method or METHODS, METHODS, "--method")
    how = common.settings_of(settings, LogSettings, log_tz=tz)
    imported = common.read_jobs(log, how, keep_unfinished="sacct")
    jobs = imported.jobs
    for text in evaluation.left_out(jobs):
        common.note(text)
    found = evaluation.evaluate(
        jobs,
        splits,
        methods,
        progress=common.note,
    )
    if report is not None:
        write_report(found, report, seed=0, tz=tz)
        common.note(f"wrote {report}")
    rows = [row for row in found.rows if row["deadline_label"] != "8h"]  # which only the report shows
    for name in found.stated:
        common.note(f"{name}: {_cadence(name)}")
    if output is common.Format.JSON:
        weights = {split: evaluation.weights_by_month(found, split) for split in found.stated}
        common.print_json([row | _weights_of(row, weights) for row in rows])
    else:
        frame = pd.DataFrame(rows)
        common.print_table(frame if output is common.Format.CSV else frame[_SHOWN], output)
    common.note(evaluation.verdict(found))


def _cadence(split: str) -> str:
    """Say how the model that was judged in a split is used."""
    trained = "at the cut" if split == "chronological" else "at the first of every month"
    return (
        f"procure was trained {trained} and learnt from each outcome as soon as it was known; queue and history were "
        "those of each submission"
    )


def _weights_of(row: dict, weights: dict[str, dict]) -> dict:
    """Return the weights by month beside our model's rows."""
    known = row["method"] == "procure" and row["split"] in weights
    return {"weights": weights[row["split"]]} if known else {}
