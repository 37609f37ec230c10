"""`procure workload`: job logs in, job tables out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from procure.cli import common, days, lazy, log_options
from procure.cli.from_settings import options
from procure.cli.human_format import head
from procure.settings import LAST_SEED, MOST_COUNTED
from procure.tables import clock_of, write
from procure.text import counted
from procure.workload import (
    Imported,
    LogSettings,
    describe,
    generate,
    merge,
    overview,
    slice_day,
    slice_times,
)
from procure.workload.clock import day_bounds, moment, utc_text
from procure.workload.read_sacct import sacct_command

app = lazy.command_group()


@app.command("import")
@options(how=log_options.LOG)
def import_(
    log: Annotated[
        Path | None,
        typer.Argument(metavar="LOG", help="The log, plain or compressed (.gz .bz2 .xz .zst)."),
    ] = None,
    *,
    how: LogSettings,
    out: Annotated[Path | None, common.table_option("The job table to write (none: only check)")] = None,
    column: Annotated[
        list[str] | None, typer.Option(metavar="FIELD=COLUMN[:UNIT[:PER]]", help=log_options.COLUMN_HELP)
    ] = None,
    keep_unfinished: Annotated[
        bool,
        typer.Option("--keep-unfinished", help="Keep jobs that never started or have not ended."),
    ] = False,
    print_sacct_command: Annotated[
        bool, typer.Option("--print-sacct-command", help="Print the sacct command that collects the log.")
    ] = False,
    first: Annotated[str, typer.Option("--from", metavar="DATE", help="First day of that command.")] = "now-30days",
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="Its last day.")] = "now",
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Read a log as a job table; print how many rows were kept, and dropped why.

    Times become Unix seconds, memory MB per node (10^6 bytes, rounded up), CPUs and GPUs per node.

    Examples:
    procure workload import all_jobs.csv.xz --preset beocat --out jobs.parquet
    procure workload import KTH-SP2.swf.xz --log-format swf --out jobs.parquet
    procure workload import jobs.psv --log-format sacct --tz Europe/Berlin --out jobs.parquet
    procure workload import --print-sacct-command --from 2026-01-01 --to 2026-02-01
    """
    if print_sacct_command:
        common.echo(sacct_command(first, last))
        return
    if log is None:
        raise typer.BadParameter("a log is needed", param_hint="LOG")
    how = how.model_copy(update={"columns": log_options.columns_of(column or [])})
    imported = log_options.import_log(log, how, keep_unfinished)
    if out is not None:
        write(imported.jobs, out)
    _account(imported, log, out, output)


def _account(imported: Imported, log: Path, out: Path | None, output: common.Format) -> None:
    """Say what became of a log's rows: for people in sentences."""
    jobs = imported.jobs
    if out is not None and out.suffix != ".parquet" and clock_of(jobs) == "log":
        imported.notes.append("a CSV file cannot say that its times are the log's own seconds; Parquet does")
    if output is not common.Format.TABLE:
        document = {
            "log": str(log),
            "out": None if out is None else str(out),
            "n_read": imported.n_read,
            "n_kept": len(jobs),
            "dropped": imported.dropped,
            "clock": clock_of(jobs),
            "notes": imported.notes,
            "warnings": imported.warnings,
        }
        common.print_record(document, output)
        return
    kept, *others = imported.account()
    common.echo(f"{log}: {kept}")
    for text in others:
        common.echo(f"  {text}")
    common.echo(f"wrote {out}" if out else "nothing written: no --out")


@app.command("describe")
def describe_(
    jobs: common.JobsArgument,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Print what a workload's jobs ask for and take, its counts and totals.

    Amounts are of the whole job: memory in GB (1 GB = 1,000 MB), times in hours; span in seconds.

    Examples:
    procure workload describe jobs.parquet
    procure workload describe jobs.parquet --format json
    """
    table = common.read_job_table(jobs)
    quantities, facts = describe(table), overview(table)
    if output is common.Format.JSON:
        common.print_json({**facts, "quantities": quantities.to_dict(orient="records")})
    else:
        if output is common.Format.TABLE:
            quantities = quantities.assign(quantity=[head(name, "")[0] for name in quantities["quantity"]])
        common.print_table(quantities, output, str(jobs))
        if output is common.Format.TABLE:
            common.print_record(_readable(facts), output)


def _readable(facts: dict[str, object]) -> dict[str, object]:
    """Write Unix times as dates."""
    if facts["clock"] != "unix":
        return facts
    dates = {name: utc_text(int(str(facts[name]))) for name in ("first_submit", "last_submit")}
    return {**facts, **dates}


@app.command("generate")
def generate_(
    out: common.JobsOutOption,
    seed: Annotated[int, typer.Option(min=0, max=LAST_SEED, help="The same seed gives the same jobs.")] = 1,
    n_jobs: Annotated[
        int | None, typer.Option(min=1, max=MOST_COUNTED, help="How many jobs; by default the recipe's.")
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="An embedded recipe, published-day or campus, or a .toml file.")
    ] = "published-day",
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Make a workload up: by default a day of 16,000 jobs shaped like a published one.

    With --recipe campus, four weeks of 40,000 jobs: 60 users of six kinds, sessions by day and week, memory-heavy and
    GPU jobs, run times as on an Intel Xeon Gold 5118.

    Examples:
    procure workload generate --out jobs.parquet --seed 1
    procure workload generate --out small.parquet --n-jobs 500
    procure workload generate --out month.parquet --recipe campus
    """
    _wrote(generate(seed, n_jobs, recipe), out, output)


@app.command("slice")
def slice_(
    jobs: common.JobsArgument,
    out: common.JobsOutOption,
    day: Annotated[str | None, typer.Option(help="The local day of submission, YYYY-MM-DD.")] = None,
    tz: Annotated[str, common.zone_option("Time zone of the day and of times without an offset.")] = "UTC",
    start: Annotated[
        str | None, typer.Option("--from", help="First moment of submission: an ISO time, or seconds.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="The moment just after the last: an ISO time, or seconds.")
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Keep the jobs submitted on one day, or between two moments; row order is kept.

    Examples:
    procure workload slice jobs.parquet --day 2021-05-04 --tz America/Chicago --out day.parquet
    procure workload slice jobs.parquet --from 2021-05-04T08:00 --to 2021-05-04T18:00 --out work.parquet
    """
    if (day is None) == (start is None and end is None):
        raise typer.BadParameter("give a --day, or --from and --to", param_hint="--day")
    if day is not None:
        with common.bad_option("--day"):
            day_bounds(day, tz)
    with common.bad_option("--from/--to"):
        first, last = (None if text is None else moment(text, tz) for text in (start, end))
    table = common.read_job_table(jobs)
    part = slice_times(table, first, last) if day is None else slice_day(table, day, tz)
    _wrote(part, out, output)


@app.command("merge")
def merge_(
    jobs: Annotated[list[Path], typer.Argument(metavar="JOBS...", help="Job tables, in order.")],
    out: common.JobsOutOption,
    drop_repeated: Annotated[
        bool,
        typer.Option("--drop-repeated", help="Leave out jobs that an earlier table holds."),
    ] = False,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Put several workloads into one, rows in the order given.

    Examples:
    procure workload merge march.parquet april.parquet may.parquet --out spring.parquet
    """
    tables = [common.read_job_table(path) for path in jobs]
    merged = merge(tables, drop_repeated=drop_repeated)
    left_out = sum(map(len, tables)) - len(merged)
    if left_out:
        common.note(f"left out {counted(left_out, 'job')} that an earlier table holds")
    _wrote(merged, out, output)


app.command("days")(days.days)
app.command("load")(days.load)


def _wrote(jobs: pd.DataFrame, out: Path, output: common.Format) -> None:
    write(jobs, out)
    record = {"n_jobs": len(jobs), "out": str(out)}
    if output is common.Format.TABLE:
        common.echo(f"wrote {counted(len(jobs), 'job')} to {out}")
    else:
        common.print_record(record, output)
