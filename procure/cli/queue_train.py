"""`procure queue train`: a model of a site's waits, and what came since."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, log_options
from procure.cli.queue_options import LogArgument, TzOption
from procure.queue_time import store, training
from procure.queue_time.log import left_out
from procure.workload.log_settings import LogSettings


def train(
    log: LogArgument,
    out: Annotated[
        Path | None,
        typer.Option(callback=common.in_folder, help="The model file to write; with --update the same by default."),
    ] = None,
    tz: TzOption = None,
    settings: log_options.SetOption = None,
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
    how = common.settings_of(settings, LogSettings, log_tz=tz)
    jobs = common.read_jobs(log, how, keep_unfinished="sacct").jobs
    for text in left_out(jobs):
        common.note(text)
    if known is not None:
        site = training.continue_training(known, jobs, note=common.note)
    else:
        site = training.train(jobs)
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
