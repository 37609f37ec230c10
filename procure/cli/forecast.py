"""`procure forecast`: which jobs will come: what is expected next, how good that is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from procure.cli import common, lazy
from procure.errors import ArgumentError
from procure.forecast import PatternSettings
from procure.forecast import evaluate as evaluate_forecasts
from procure.workload.clock import has_dates
from procure.workload.log_settings import LogSettings

app = lazy.command_group()

JobsArgument = Annotated[
    Path, typer.Argument(metavar="JOBS", help="A job table (.parquet, .csv) or a log (SWF, sacct, CSV).")
]
SetOption = Annotated[
    list[str] | None,
    common.set_option(
        f'One of {", ".join(PatternSettings.model_fields)}; \'by=["user","cpus"]\' is what jobs share, of user, cpus, '
        "limit, mem, gpus, partition, account; or how a log is read: preset."
    ),
]
TzOption = Annotated[str | None, common.zone_option("Zone whose clock the patterns follow, e.g. Europe/Berlin.")]
_SHOWN = (
    "period confidence n_forecasts base_rate auc brier brier_constant worst_tenth precision_soft recall_soft"
).split()


@app.callback()
def forecast() -> None:
    """Which jobs will come, and how good such forecasts are."""


@app.command()
def evaluate(
    jobs: JobsArgument,
    settings: SetOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Judge the forecasts of a log, each made with what was known then, against the base rate.

    Per period and confidence mode: AUC, Brier score and that of the constant base rate, the largest gap
    between stated and observed in a tenth of the confidence, precision and recall of reserved CPU-hours.

    Examples:
    procure forecast evaluate log.swf --format json
    procure forecast evaluate jobs.parquet --set tz=Europe/Berlin
    """
    table, patterns = _read(jobs, settings)
    found = evaluate_forecasts(table, patterns, progress=common.note)
    common.note(*found.notes)
    frame = pd.DataFrame(found.rows)
    common.print_table(frame[_SHOWN] if output is common.Format.TABLE else frame, output)


def _read(path: Path, settings: list[str] | None) -> tuple[pd.DataFrame, PatternSettings]:
    patterns, how = common.several(settings, PatternSettings, LogSettings)
    tz = patterns.tz
    how = common.with_zone(how, tz)
    log = common.read_jobs(path, how)
    if not has_dates(log.jobs):
        if tz is not None:
            raise ArgumentError("settings", "the log has no dates: its times are seconds of its own clock, in no zone")
        common.note("the log has no dates: days and weeks are counted from second 0 of its own clock")
    elif tz is None:
        common.note("days are those of UTC; state the centre's zone with --set tz=ZONE")
    return log.jobs, patterns
