"""`procure queue train` and `update`: a model of a site's waits, and what came since."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from procure.cli import common
from procure.cli.from_settings import options
from procure.cli.queue_options import LOG, LogArgument, ModelOption
from procure.queue_time import store, training
from procure.queue_time.evaluation import Method, left_out
from procure.settings import MOST_COUNTED
from procure.workload.log_settings import LogSettings


@options(how=LOG)
def train(
    context: typer.Context,
    log: LogArgument,
    *,
    out: Annotated[Path, typer.Option(callback=common.in_folder, help="The model file to write.")],
    how: LogSettings,
    method: Annotated[Method, typer.Option(help="procure is ours; the others are published.")] = "procure",
    k: Annotated[int, typer.Option(min=0, max=MOST_COUNTED, help="Groups of kmeans-gbt; 57 as published.")] = 57,
    k_sweep: Annotated[
        str | None, typer.Option(metavar="FROM:TO[:STEP]", help="Choose k on a validation part, e.g. 2:150.")
    ] = None,
    sweep_log: Annotated[
        Path | None,
        typer.Option(help="Where a k sweep records finished k, to resume from. [default: OUT.ks]"),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Train a model of a site's waits on its job log.

    Examples:
    procure queue train jobs.psv --log-format sacct --tz Europe/Berlin --out site.model
    procure queue train log.swf --log-format swf --out site.model --method kmeans-gbt --k-sweep 2:150
    """
    if method != "kmeans-gbt":
        common.refuse_given(context, "it belongs to --method kmeans-gbt", "k", "k_sweep", "sweep_log")
    elif k_sweep is None:
        common.refuse_given(context, "it belongs to --k-sweep", "sweep_log")
    else:
        common.refuse_given(context, "--k-sweep chooses it", "k")
    jobs = common.read_jobs(log, how, keep_unfinished="sacct").jobs
    for text in left_out(jobs):
        common.note(text)
    if method == "kmeans-gbt" and k_sweep is not None:
        k = _swept_k(jobs, k_sweep, sweep_log or out.with_name(out.name + ".ks"))
    site = training.train(jobs, method, k)
    store.save(site, out)
    _print_model(site, out, output)


def _swept_k(jobs: pd.DataFrame, text: str, sweep_log: Path) -> int:
    match = re.fullmatch(r"(\d+):(\d+)(?::(\d+))?", text)
    if not match or int(match[1]) < 2 or int(match[2]) < int(match[1]) or match[3] == "0":
        raise typer.BadParameter(f"{text!r} is not FROM:TO or FROM:TO:STEP, such as 2:150", param_hint="--k-sweep")
    ks = range(int(match[1]), int(match[2]) + 1, int(match[3] or 1))
    chosen = training.choose_k(
        jobs,
        ks,
        sweep_log,
        lambda k, rmse: common.note(f"k = {k}: RMSE {rmse:,.0f} s on the validation part"),
    )
    common.note(f"k = {chosen} chosen; the elbow curve is in {sweep_log}")
    return chosen


@options(how=LOG)
def update(
    log: LogArgument,
    *,
    model: ModelOption,
    out: Annotated[Path | None, typer.Option(help="Where to write; the model file itself by default.")] = None,
    how: LogSettings,
    refit: Annotated[
        bool | None,
        typer.Option(
            "--refit/--no-refit",
            help="Retrain on the history kept and the log given, or not. [default: when the number of known waits has "
            "grown by 20 %, if all of them are still at hand]",
        ),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Continue a model with newer log rows: its recent past, its intervals, its trend; warn of drift.

    Example:
    procure queue update jobs-of-this-week.psv --log-format sacct --model site.model
    """
    site = store.load(model)
    newer = common.read_jobs(log, how, keep_unfinished="sacct")
    for text in left_out(newer.jobs):
        common.note(text)
    site = training.continue_training(site, newer.jobs, refit=refit, note=common.note)
    store.save(site, out or model)
    _print_model(site, out or model, output)


def _print_model(site: store.SiteModel, path: Path, output: common.Format) -> None:
    """Print what a model file holds; with nothing to read by a program, as a note."""
    n_rows, size = int(site.about["trained_rows"]), path.stat().st_size
    if output is common.Format.TABLE:
        common.note(f"trained {site.method} on {n_rows:,} jobs; wrote {path} ({size / 1e6:.1f} MB)")
        return
    record = {"method": site.method, "n_jobs_trained": n_rows, "n_jobs_known": int(site.about["n_rows"])}
    common.print_record(record | {"size_mb": size / 1e6, "file": str(path)}, output)
