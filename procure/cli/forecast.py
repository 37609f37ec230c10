"""`procure forecast`: which jobs will come: what recurs, what is expected next, how good that is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from pydantic import ValidationError

from procure.cli import common, lazy
from procure.cli.from_settings import options
from procure.errors import ArgumentError, TableError
from procure.forecast import PatternSettings, find_patterns
from procure.forecast import evaluate as evaluate_forecasts
from procure.forecast.confidence import MODES, check_mode
from procure.forecast.expected import forecast_jobs
from procure.forecast.forecaster import pattern_table
from procure.settings import LAST_SEED, MOST_COUNTED, problems
from procure.tables import write
from procure.text import counted
from procure.workload.clock import has_dates, moment
from procure.workload.log_settings import LogSettings

app = lazy.command_group()

JobsArgument = Annotated[
    Path, typer.Argument(metavar="JOBS", help="A job table (.parquet, .csv) or a log (SWF, sacct, CSV).")
]
ByOption = Annotated[str, typer.Option(help="What jobs have in common: of user,cpus,limit,mem,gpus,partition,account.")]
TzOption = Annotated[str | None, common.zone_option("Zone whose clock the patterns follow, e.g. Europe/Berlin.")]
ConfidenceOption = Annotated[str, typer.Option(help=f"{', '.join(MODES)}; pdf is the published rule.")]
_SHOWN = (
    "period confidence n_forecasts base_rate auc brier brier_constant worst_tenth precision_soft recall_soft"
).split()
_LOG = common.LOG | {"tz": TzOption}


@app.command()
@options(how=_LOG)
def patterns(
    jobs: JobsArgument,
    *,
    by: ByOption = "user,cpus,limit",
    fewest: Annotated[
        int, typer.Option(min=2, max=MOST_COUNTED, help="Least periods in a row of a pattern that is shown.")
    ] = 3,
    most: Annotated[int, typer.Option(min=1, max=MOST_COUNTED, help="Most rows; json and csv show all.")] = 20,
    confidence: ConfidenceOption = "hazard",
    how: LogSettings,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """List what recurs by day, week and month: who, how often, since when, of what size, how sure it goes on.

    Like jobs within an hour are a burst; bursts that recur are a pattern; patterns that recur, one of the
    next layer. The confidence is that of one more period, empty where the pattern has ended.

    Examples:
    procure forecast patterns jobs.parquet
    procure forecast patterns jobs.parquet --by user,cpus --tz Europe/Berlin --format json
    """
    check_mode(confidence)
    table, settings = _read(jobs, by, how)
    found = find_patterns(table, settings)
    for text in found.notes:
        common.note(text)
    shown = pattern_table(found, fewest, confidence)
    if output is common.Format.TABLE:
        common.note(
            f"{counted(len(shown), 'pattern')} in {counted(found.n_rows, 'job')}, {len(found.bursts.key):,} bursts"
        )
        shown = shown.head(most).drop(columns=["pattern", "burst", "n_within", "next"])
        if has_dates(table):
            shown = shown.assign(
                **{name: pd.to_datetime(shown[name], unit="s").dt.strftime("%Y-%m-%d") for name in ("since", "last")}
            )
    common.print_table(shown, output)


@app.command(name="next")
@options(how=_LOG)
def expected(
    jobs: JobsArgument,
    *,
    at: Annotated[str | None, typer.Option(help="Moment: ISO time, or seconds. The last submission without.")] = None,
    days: Annotated[float, typer.Option(help="Horizon.")] = 7.0,
    confidence: ConfidenceOption = "boosted",
    least: Annotated[float, typer.Option(min=0, max=1, help="Least confidence.")] = 0.05,
    out: Annotated[Path | None, common.table_option("Job table to write")] = None,
    by: ByOption = "user,cpus,limit",
    how: LogSettings,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Say which jobs are expected next, and how surely.

    Only what was known at the moment is used. A row is a job; jobs of one burst share the number.

    Examples:
    procure forecast next jobs.parquet --days 2 --format json
    procure forecast next jobs.parquet --at 2026-05-01T00:00 --tz Europe/Berlin --days 7 --out coming.parquet
    """
    check_mode(confidence)
    table, settings = _read(jobs, by, how)
    now = None if at is None else _moment(at, how.tz, has_dates(table))
    found = forecast_jobs(table, days, at=now, confidence=confidence, least=least, settings=settings, note=common.note)
    coming = found.table
    for text in found.notes:
        common.note(text)
    if out is not None:
        write(coming, out)
        common.note(f"wrote {out}: {counted(len(coming), 'expected job')}")
    if output is not common.Format.TABLE:
        common.print_table(coming, output)
    elif out is None:
        common.print_table(found.shown(), output)


@app.command()
@options(how=_LOG)
def evaluate(
    jobs: JobsArgument,
    *,
    by: ByOption = "user,cpus,limit",
    seed: Annotated[int, typer.Option(max=LAST_SEED, help="Seed of the negative controls.")] = 0,
    how: LogSettings,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Judge the forecasts of a log, each made with what was known then, against the base rate.

    Per period and confidence mode: AUC, Brier score and that of the constant base rate, the largest gap
    between stated and observed in a tenth of the confidence, precision and recall of reserved CPU-hours.

    Examples:
    procure forecast evaluate log.swf --format json
    procure forecast evaluate jobs.parquet --tz Europe/Berlin
    """
    table, settings = _read(jobs, by, how)
    found = evaluate_forecasts(table, settings, seed=seed, progress=common.note)
    for text in found.notes:
        common.note(text)
    frame = pd.DataFrame(found.rows)
    common.print_table(frame[_SHOWN] if output is common.Format.TABLE else frame, output)


def _read(path: Path, by: str, how: LogSettings) -> tuple[pd.DataFrame, PatternSettings]:
    try:
        settings = PatternSettings(by=tuple(name.strip() for name in by.split(",") if name.strip()), tz=how.tz)
    except ValidationError as error:
        raise ArgumentError("by", "; ".join(problems(error))) from None
    log = common.read_jobs(path, how)
    if not has_dates(log.jobs):
        if how.tz is not None:
            raise ArgumentError("tz", "the log has no dates: its times are seconds of its own clock, in no zone")
        common.note("the log has no dates: days and weeks are counted from second 0 of its own clock")
    elif how.tz is None:
        common.note("days are those of UTC; state the centre's zone with --tz")
    return log.jobs, settings


def _moment(text: str, tz: str | None, dates: bool) -> int:
    try:
        if not dates and not text.strip().lstrip("-").isdigit():
            raise TableError(f"{text!r} was given; the log has no dates: give seconds of its own clock")
        return moment(text, tz or "UTC")
    except TableError as error:
        raise ArgumentError("at", str(error)) from None
