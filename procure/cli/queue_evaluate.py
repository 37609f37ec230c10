"""`procure queue evaluate`: how good predictions of a log's waits are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from procure.cli import common
from procure.cli.from_settings import options
from procure.cli.queue_inputs import cut_of, names_of
from procure.cli.queue_options import LOG, LogArgument
from procure.queue_time import evaluation
from procure.queue_time.evaluation import METHODS
from procure.queue_time.report import write_report
from procure.settings import LARGEST, LAST_SEED, MOST_COUNTED
from procure.workload import followed_by
from procure.workload.log_settings import LogSettings

_SHOWN = (
    "split method deadline_label n_test mae pinball within_2x deadline_accuracy majority_accuracy "
    "coverage_90 brier brier_base"
).split()


@options(how=LOG)
def evaluate(
    context: typer.Context,
    log: LogArgument,
    *,
    split: Annotated[
        list[str] | None, typer.Option(help="random, chronological or rolling; may be given several times.")
    ] = None,
    how: LogSettings,
    method: Annotated[
        list[str] | None, typer.Option(help="procure, kmeans-gbt, gbt or rival; all by default. Repeatable.")
    ] = None,
    report: common.ReportOption = None,
    test_from: Annotated[
        str | None, typer.Option(help="First test moment: ISO time, or seconds in the log's own clock.")
    ] = None,
    test_log: Annotated[Path | None, typer.Option(help="A log that follows: train on LOG, test on this.")] = None,
    last: Annotated[
        int | None,
        typer.Option(min=100, max=LARGEST, help="Train and test on the last N jobs only.", metavar="N"),
    ] = None,
    deadline: Annotated[str | None, typer.Option(help="In place of the training rows' mean wait.")] = None,
    k: Annotated[
        int | None,
        typer.Option(min=2, max=MOST_COUNTED, help="Groups of kmeans-gbt; chosen by validation otherwise."),
    ] = None,
    seed: Annotated[int, typer.Option(max=LAST_SEED, help="Seed of splits and models.")] = 0,
    update_every: Annotated[
        str | None,
        typer.Option(help="How often to learn from outcomes: 1h, 1d, or never. [default: as they become known]"),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Judge predictions of a log's waits on random, chronological and monthly rolling splits.

    Examples:
    procure queue evaluate log.swf --split chronological --format json
    procure queue evaluate log.swf --split random --split chronological --report report.html
    """
    every = _seconds_between(update_every)
    splits = names_of(split or ["chronological"], evaluation.SPLITS, "--split")
    methods = names_of(method or METHODS, METHODS, "--method")
    if "kmeans-gbt" not in methods:
        common.refuse_given(context, "it belongs to --method kmeans-gbt", "k")
    if test_log is not None:
        common.refuse_given(context, "--test-log is what is tested on", "test_from")
    seconds = None if deadline is None else float(common.seconds_of(deadline, "--deadline"))
    imported = common.read_jobs(log, how, keep_unfinished="sacct")
    jobs, cut = imported.jobs, None if test_from is None else cut_of(test_from, imported, how.log_tz)
    if test_log is not None:
        later = common.read_jobs(test_log, how, keep_unfinished="sacct")
        jobs, cut = followed_by(jobs, later.jobs)
    for text in evaluation.left_out(jobs):
        common.note(text)
    found = evaluation.evaluate(
        jobs,
        splits,
        methods,
        seed=seed,
        last=last,
        test_from=cut,
        k=k,
        deadline=seconds,
        every=every,
        progress=common.note,
    )
    if report is not None:
        write_report(found, report, seed=seed, tz=how.log_tz)
        common.note(f"wrote {report}")
    rows = [row for row in found.rows if row["deadline_label"] != "8h"]  # which only the report shows
    for name in found.stated:
        common.note(f"{name}: {_cadence(name, update_every)}")
    if output is common.Format.JSON:
        weights = {split: evaluation.weights_by_month(found, split) for split in found.stated}
        common.print_json([row | _weights_of(row, weights) for row in rows])
    else:
        frame = pd.DataFrame(rows)
        common.print_table(frame if output is common.Format.CSV else frame[_SHOWN], output)
    common.note(evaluation.verdict(found))


def _seconds_between(update_every: str | None) -> float:
    """Return the cadence of `evaluation.evaluate`."""
    if update_every is None:
        return 0.0
    return math.inf if update_every == "never" else float(common.seconds_of(update_every, "--update-every"))


def _cadence(split: str, update_every: str | None) -> str:
    """Say how the model that was judged in a split is used."""
    trained = "at the cut" if split == "chronological" else "at the first of every month"
    how = {None: "learnt from each outcome as soon as it was known", "never": "was never updated"}
    return (
        f"procure was trained {trained} and "
        + how.get(update_every, f"learnt from outcomes every {update_every}")
        + "; queue and history were those of each submission"
    )


def _weights_of(row: dict, weights: dict[str, dict]) -> dict:
    """Return the weights by month beside our model's rows."""
    known = row["method"] == "procure" and row["split"] in weights
    return {"weights": weights[row["split"]]} if known else {}
