"""`procure queue train` and `evaluate`: a model of a site's waits, what came since, and how good predictions are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from procure.cli import common
from procure.queue_time import evaluation, store
from procure.queue_time.evaluation import METHODS
from procure.queue_time.log import left_out
from procure.text import nearest
from procure.workload.log_settings import LogSettings

LogArgument = Annotated[Path, typer.Argument(metavar="LOG", help="A job log, or a job table (.parquet, .csv).")]
_SHOWN = (
    "split method deadline_label n_test mae pinball within_2x deadline_accuracy majority_accuracy "
    "coverage_90 brier brier_base"
).split()


def train(
    log: LogArgument,
    out: Annotated[
        Path | None,
        typer.Option(callback=common.in_folder, help="The model file to write; with --update the same by default."),
    ] = None,
    tz: common.TzOption = None,
    settings: common.LogSetOption = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--update",
            metavar="MODEL",
            help="Continue this model with a newer log: recent past and intervals.",
        ),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Train a model of a site's waits on its job log, or continue one with what came since and warn of drift.

    Examples:
    procure queue train jobs.psv --set format=sacct --tz Europe/Berlin --out site.model
    procure queue train jobs-of-this-week.psv --set format=sacct --update site.model
    """
    if (out := out or model) is None:
        raise typer.BadParameter("a file is needed for the model", param_hint="--out")
    known = None if model is None else store.load(model)
    jobs = _read(log, settings, tz)
    site = store.train(jobs) if known is None else store.continue_training(known, jobs, note=common.note)
    store.save(site, out)
    _print_model(site, out, output)


def _print_model(site: store.SiteModel, path: Path, output: common.Format) -> None:
    """Print what a model file holds; with nothing to read by a program, as a note."""
    n_rows, size = int(site.about["trained_rows"]), path.stat().st_size
    if output is common.Format.TABLE:
        common.note(f"trained on {n_rows:,} jobs; wrote {path} ({size / 1e6:.1f} MB)")
        return
    record = {"n_jobs_trained": n_rows, "n_jobs_known": int(site.about["n_rows"])}
    common.print_record(record | {"size_mb": size / 1e6, "file": str(path)}, output)


def evaluate(
    log: LogArgument,
    split: Annotated[list[str] | None, typer.Option(help="random or chronological; may be given twice.")] = None,
    tz: common.TzOption = None,
    settings: common.LogSetOption = None,
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
    splits = _names(split or ["chronological"], evaluation.SPLITS, "--split")
    methods = _names(method or METHODS, METHODS, "--method")
    found = evaluation.evaluate(_read(log, settings, tz), splits, methods, progress=common.note)
    if found.stated:
        common.note("procure was trained at the cut and learnt from each outcome as soon as it was known")
    frame = pd.DataFrame(found.rows)
    common.print_table(frame[_SHOWN] if output is common.Format.TABLE else frame, output)
    common.note(evaluation.verdict(found))


def _names(given: Sequence[str], legal: Sequence[str], option: str) -> list[str]:
    """Check the names that an option was given; each once."""
    for name in given:
        if name not in legal:
            raise typer.BadParameter(f"{name!r}; {nearest(name, legal)}", param_hint=option)
    return list(dict.fromkeys(given))


def _read(log: Path, settings: list[str] | None, tz: str | None) -> pd.DataFrame:
    """Read a log, and say which of its jobs tell nothing of waits."""
    jobs = common.read_jobs(log, common.settings_of(settings, LogSettings, log_tz=tz), keep_unfinished="sacct").jobs
    common.note(*left_out(jobs))
    return jobs
