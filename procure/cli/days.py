"""`procure workload days` and `procure workload load`: which days to ask for, and with how much load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common
from procure.cli.farm_options import farm_name
from procure.settings import LARGEST, LAST_SEED, MOST_COUNTED
from procure.sweep.choose_days import DayRule, Probe, choose_days
from procure.tables import write
from procure.text import counted
from procure.workload import merge, read_log, scale_load
from procure.workload.days import Rule
from procure.workload.log_settings import LogSettings
from procure.workload.scale import TOLERANCE, bursts, cpu_seconds


def days(
    context: typer.Context,
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG...",
            help="Logs, or job tables (.parquet, .csv), that follow each other; several count as one.",
        ),
    ],
    log_format: common.LogFormatOption = None,
    preset: common.PresetOption = None,
    tz: Annotated[str, common.zone_option("Time zone of the days, and of the log's dates without an offset.")] = "UTC",
    by: Annotated[
        Rule | None,
        typer.Option(
            help="calendar: evenly spaced. clustering: groups of similar days, one day of each with the number of "
            "days that it stands for as its weight. hardest: the longest waits over a probe (needs --study)."
        ),
    ] = None,
    day: Annotated[list[str] | None, typer.Option(metavar="YYYY-MM-DD", help="Choose this day; repeat.")] = None,
    n: Annotated[
        int,
        typer.Option("-n", "--n", min=1, max=MOST_COUNTED, help="How many days; at most those there are."),
    ] = 25,
    per_month: Annotated[
        int | None, typer.Option(min=1, max=MOST_COUNTED, help="calendar: days of each month, instead of -n.")
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(
            metavar="STUDY.toml",
            help="Probe every day: simulate every n-th distinct package of this study (quotes, budget, policy), "
            "and leave out the days on which jobs never wait.",
        ),
    ] = None,
    every: Annotated[
        int,
        typer.Option("--probe-every", min=1, metavar="N", max=LARGEST, help="Simulate every N-th distinct package."),
    ] = 1_237,
    farm: Annotated[
        str,
        typer.Option(
            callback=farm_name,
            help="Where the probe runs: serial, local, or as `procure sweep` takes it.",
        ),
    ] = "local",
    seed: Annotated[int, typer.Option(min=0, max=LAST_SEED, help="clustering: of the first centres.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write the chosen days' job tables and workloads.toml, which a study takes as "
            'workloads = "FOLDER/workloads.toml".',
        ),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """List a log's days, and choose those that a study is to simulate.

    Amounts are of the jobs submitted that day: CPU-, GB- and GPU-hours (request × run time). With a
    probe, median_wait is the median in seconds over the probed packages' mean waits. --format json tells more.

    Examples:
    procure workload days 03.csv.xz 04.csv.xz --preset beocat --tz America/Chicago
    procure workload days 04.csv.xz --preset beocat --tz America/Chicago --by calendar --per-month 2 --out days
    procure workload days 04.csv.xz --preset beocat --tz America/Chicago --by clustering -n 6 --out days
    procure workload days 04.csv.xz --preset beocat --tz America/Chicago --by hardest -n 9 --study study.toml --out days
    """
    if study is None:
        common.refuse_given(context, "it belongs to the probe: --study", "every", "farm")
    if by is None:
        common.refuse_given(context, "it belongs to --by", "n")
    if by != "clustering":
        common.refuse_given(context, "it belongs to --by clustering", "seed")
    settings = LogSettings(format=log_format, preset=preset, tz=tz)
    tables = []
    for path in logs:
        imported = read_log(path, settings)
        if log_format or preset or imported.dropped:
            common.note(f"{path}: {'; '.join(imported.account())}")
        tables.append(imported.jobs)
    rule = DayRule(by, tuple(day or ()), n, per_month, seed)
    probe = Probe(study, every, farm) if study else None
    found = choose_days(
        tables[0] if len(tables) == 1 else merge(tables), rule, tz=tz, probe=probe, out=out, note=common.note
    )
    common.show(found, output)
    if found.file is not None:
        n_chosen = counted(int(found.table["chosen"].sum()), "day")
        common.note(f'wrote {n_chosen} to {out}; a study takes them as workloads = "{found.file}"')


def load(
    jobs: common.JobsArgument,
    factor: Annotated[
        float, typer.Option("--load", help="CPU-seconds of the result, as a multiple of the table's own.")
    ],
    out: common.JobsOutOption,
    seed: Annotated[int, typer.Option(min=0, max=LAST_SEED, help="The same seed gives the same jobs.")] = 1,
    gap: Annotated[
        int,
        typer.Option(
            "--burst-gap",
            min=0,
            max=LARGEST,
            help="Seconds; jobs of one user closer than this are of one burst.",
        ),
    ] = 600,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Give a workload more or less load by superposing or leaving out whole bursts of jobs.

    Run times are never stretched. Copies of bursts keep the hour of the day (in a log of two weeks or
    more the weekday too) and lie inside the log's span.

    Examples:
    procure workload load jobs.parquet --load 1.5 --out busier.parquet
    procure workload load jobs.parquet --load 0.8 --out quieter.parquet --seed 7
    """
    table = common.read_job_table(jobs)
    with common.named(factor="--load"):
        scaled = scale_load(table, factor, seed, gap)
    write(scaled, out)
    own = float(cpu_seconds(table).sum())
    got = float(cpu_seconds(scaled).sum()) / own if own else float("nan")
    n_bursts = int(bursts(table, gap).max()) + 1
    record = {
        "n_jobs_before": len(table),
        "n_jobs": len(scaled),
        "n_bursts_before": n_bursts,
        "load": factor,
        "load_reached": got,
        "out": str(out),
    }
    if not abs(got - factor) <= TOLERANCE:
        common.note(
            f"the load is {got:.3f}, not {factor:g}: whole bursts allow no nearer; a smaller --burst-gap "
            "makes smaller bursts"
        )
    common.print_record(record, output, f"{jobs} with a load of {factor:g}:")
