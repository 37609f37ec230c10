"""`procure workload`: job logs in, job tables out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from procure.cli import common, lazy
from procure.files.read import OF_LOGGED
from procure.page.names import head
from procure.settings import LAST_SEED, MOST_COUNTED
from procure.sweep.choose_days import DayRule, Probe, choose_days
from procure.tables import clock_of, write
from procure.text import counted
from procure.workload import (
    Imported,
    LogSettings,
    describe,
    generate,
    merge,
    overview,
    read_log,
    scale_load,
    slice_day,
    slice_times,
)
from procure.workload.clock import day_bounds, moment, utc_text
from procure.workload.generate import MOST_JOBS
from procure.workload.load import TOLERANCE, bursts, cpu_seconds
from procure.workload.log_settings import load_preset
from procure.workload.parts import Rule
from procure.workload.read_sacct import sacct_command
from procure.workload.studies import generate_jobs

app = lazy.command_group()

_COLUMN_HELP = (
    "csv: where a field of the job table comes from. Units of memory: B kB KiB MB MiB GB GiB TB TiB; of time: ns us ms "
    "s min h d; of CPUs, GPUs: milli percent. PER: node, job or cpu. wait=COLUMN is the wait before the start. "
    "Repeatable."
)


@app.command("import")
def import_(
    log: Path | None = typer.Argument(None, metavar="LOG", help="The log, plain or compressed (.gz .bz2 .xz .zst)."),
    log_format: common.LogFormatOption = None,
    preset: common.PresetOption = None,
    tz: Annotated[str | None, common.zone_option("Zone of dates without an offset, e.g. America/Chicago.")] = None,
    settings: common.LogSetOption = None,
    column: list[str] | None = typer.Option(None, metavar="FIELD=COLUMN[:UNIT[:PER]]", help=_COLUMN_HELP),
    keep_unfinished: bool = typer.Option(
        False, "--keep-unfinished", help="Keep jobs that never started or have not ended."
    ),
    print_sacct_command: bool = typer.Option(
        False, "--print-sacct-command", help="Print the sacct command that collects the log."
    ),
    out: Annotated[Path | None, common.table_option("The job table to write (none: only check)")] = None,
    first: Annotated[str, typer.Option("--from", metavar="DATE", help="First day of that command.")] = "now-30days",
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="Its last day.")] = "now",
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Read a log as a job table; print how many rows were kept, and dropped why.

    Times become Unix seconds, memory MB per node (10^6 bytes, rounded up), CPUs and GPUs per node.

    Examples:
    procure workload import all_jobs.csv.xz --preset beocat --out jobs.parquet
    procure workload import KTH-SP2.swf.xz --log-format swf --set cpus_per_node=8 --out jobs.parquet
    procure workload import jobs.psv --log-format sacct --tz Europe/Berlin --out jobs.parquet
    """
    if print_sacct_command:
        common.echo(sacct_command(first, last))
        return
    if log is None:
        raise typer.BadParameter("a log is needed", param_hint="LOG")
    columns = common.columns_of(column or [])
    how = common.settings_of(settings, LogSettings, format=log_format, preset=preset, log_tz=tz, columns=columns)
    imported = _import_log(log, how, keep_unfinished)
    jobs = imported.jobs
    if out is not None:
        write(jobs, out)
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
            "shape": imported.shape,
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


def _import_log(log: Path, how: LogSettings, keep_unfinished: bool = False) -> Imported:
    """Read a raw log; what its format is, its first lines tell where no option does."""
    with common.bad_option("--preset"):
        how.preset is None or load_preset(how.preset)
    common.note_memory(log, OF_LOGGED)
    return read_log(log, how, keep_unfinished=keep_unfinished, shape="tasks")


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

    def people() -> None:
        named = quantities.assign(quantity=[head(name, "")[0] for name in quantities["quantity"]])
        common.print_table(named, output, str(jobs))
        unix = ("first_submit", "last_submit") if facts["clock"] == "unix" else ()
        common.print_record(facts | {name: utc_text(int(str(facts[name]))) for name in unix}, output)

    document = {**facts, "quantities": quantities.to_dict(orient="records")}
    common.tell(output, (), lambda: document, quantities, people)


@app.command("generate")
def generate_(
    out: common.JobsOutOption,
    seed: Annotated[int, typer.Option(min=0, max=LAST_SEED, help="The same seed gives the same jobs.")] = 1,
    n_jobs: int | None = typer.Option(None, min=1, max=MOST_JOBS, help="How many jobs; by default the recipe's."),
    recipe: str = typer.Option(
        "published-day", help="An embedded recipe, published-day, campus or window, or a .toml file."
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Make a workload up: by default a day of 16,000 jobs shaped like a published one.

    With --recipe campus, four weeks of 40,000 jobs of 60 users; with window, the published study of windows.

    Examples:
    procure workload generate --out jobs.parquet --seed 1
    procure workload generate --out small.parquet --n-jobs 500
    procure workload generate --out month.parquet --recipe campus
    """
    of_study = recipe == "window"
    _wrote(generate_jobs(n_jobs or 3000, seed) if of_study else generate(seed, n_jobs, recipe), out, output)


@app.command("slice")
def slice_(
    jobs: Annotated[list[Path], typer.Argument(metavar="JOBS...", help="Job tables, in order; several become one.")],
    out: common.JobsOutOption,
    day: Annotated[str | None, typer.Option(help="The local day of submission, YYYY-MM-DD.")] = None,
    tz: Annotated[str, common.zone_option("Time zone of the day and of times without an offset.")] = "UTC",
    start: str | None = typer.Option(None, "--from", help="First moment of submission: an ISO time, or seconds."),
    end: str | None = typer.Option(None, "--to", help="The moment just after the last: an ISO time, or seconds."),
    drop_repeated: bool = typer.Option(False, "--drop-repeated", help="Leave out jobs that an earlier table holds."),
    load: float | None = typer.Option(
        None, help="CPU-seconds of the result, as a multiple of what they were: whole bursts are superposed."
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Cut, join and scale job tables: the jobs of a day or a span, of several tables, with more or less load.

    Row order is kept. Run times are never stretched: copies of bursts keep the hour of the day (in a log of two weeks
    or more the weekday too) and lie inside the log's span.

    Examples:
    procure workload slice jobs.parquet --day 2021-05-04 --tz America/Chicago --out day.parquet
    procure workload slice jobs.parquet --from 2021-05-04T08:00 --to 2021-05-04T18:00 --out work.parquet
    procure workload slice march.parquet april.parquet may.parquet --drop-repeated --out spring.parquet
    """
    if day is not None and (start is not None or end is not None):
        raise typer.BadParameter("give a --day, or --from and --to", param_hint="--day")
    if len(jobs) == 1 and day is None and start is None and end is None and load is None:
        raise typer.BadParameter("give a --day, --from and --to, --load, or several tables", param_hint="--day")
    if day is not None:
        with common.bad_option("--day"):
            day_bounds(day, tz)
    with common.bad_option("--from/--to"):
        first, last = (None if text is None else moment(text, tz) for text in (start, end))
    tables = [common.read_job_table(path, "tasks") for path in jobs]
    table = tables[0] if len(tables) == 1 else merge(tables, drop_repeated=drop_repeated)
    if left_out := sum(map(len, tables)) - len(table):
        common.note(f"left out {counted(left_out, 'job')} that an earlier table holds")
    if day is not None:
        table = slice_day(table, day, tz)
    elif first is not None or last is not None:
        table = slice_times(table, first, last)
    if load is None:
        _wrote(table, out, output)
        return
    with common.named(factor="--load"):
        scaled = scale_load(table, load)
    own, now = (float(cpu_seconds(one).sum()) for one in (table, scaled))
    got = now / own if own else float("nan")
    if not abs(got - load) <= TOLERANCE:
        common.note(f"the load is {got:.3f}, not {load:g}: whole bursts allow no nearer")
    before = {"n_jobs_before": len(table), "n_bursts_before": int(bursts(table).max()) + 1}
    _wrote(scaled, out, output, **before, load=load, load_reached=got)


@app.command()
def days(
    context: typer.Context,
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="JOBS...",
            help="Logs, or job tables (.parquet, .csv), that follow each other; several count as one.",
        ),
    ],
    tz: Annotated[str, common.zone_option("Time zone of the days, and of the log's dates without an offset.")] = "UTC",
    by: Rule | None = typer.Option(
        None,
        help="calendar: evenly spaced. clustering: groups of similar days, one day of each with the number of "
        "days that it stands for as its weight. hardest: the longest waits over a probe (needs --study).",
    ),
    n: int = typer.Option(25, "-n", "--n", min=1, max=MOST_COUNTED, help="How many days; at most those there are."),
    study: Path | None = typer.Option(
        None,
        metavar="STUDY.toml",
        help="Probe every day: simulate every 1,237th distinct package of this study (quotes, budget, policy), "
        "and leave out the days on which jobs never wait.",
    ),
    out: Path | None = typer.Option(
        None,
        metavar="FOLDER",
        help="Write the chosen days' job tables and workloads.toml, which a study takes as "
        'workloads = "FOLDER/workloads.toml".',
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """List a log's days, and choose those that a study is to simulate.

    Amounts are of the jobs submitted that day; median_wait is that of the probed packages' mean waits, s.

    Examples:
    procure workload days march.parquet april.parquet --tz America/Chicago
    procure workload days april.parquet --tz America/Chicago --by calendar -n 2 --out days
    procure workload days april.parquet --tz America/Chicago --by clustering -n 6 --out days
    """
    if by is None:
        common.refuse_given(context, "it belongs to --by", "n")
    tables = [common.read_jobs(path, LogSettings(tz=tz)).jobs for path in logs]
    table = tables[0] if len(tables) == 1 else merge(tables)
    probe = Probe(study) if study else None
    found = choose_days(table, DayRule(by, n=n), tz=tz, probe=probe, out=out, note=common.note)
    common.show(found, output)
    if found.file is not None:
        n_chosen = counted(int(found.table["chosen"].sum()), "day")
        common.note(f'wrote {n_chosen} to {out}; a study takes them as workloads = "{found.file}"')


def _wrote(jobs: pd.DataFrame, out: Path, output: common.Format, **more: object) -> None:
    write(jobs, out)
    record = {"n_jobs": len(jobs), "out": str(out)} | more
    if output is common.Format.TABLE and not more:
        common.echo(f"wrote {counted(len(jobs), 'job')} to {out}")
    else:
        common.print_record(record, output, f"wrote {out}")
