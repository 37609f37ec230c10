"""`procure workload days` and `procure workload load`: which days to ask for, and with how much load."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from procure.cli import common
from procure.cli.farm_options import farm_name
from procure.schemas import JOB
from procure.settings import LARGEST, LAST_SEED, MOST_COUNTED
from procure.study import Study, load_study
from procure.study.workloads import write_workloads
from procure.sweep.probe import probe_days
from procure.tables import read, write
from procure.text import counted, listed
from procure.workload import merge, read_log, scale_load
from procure.workload.days import Rule, choose, day_table, split_days, without_quiet
from procure.workload.log_settings import LogFormat, LogSettings
from procure.workload.scale import TOLERANCE, bursts, cpu_seconds


def days(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG...",
            help="Logs, or job tables (.parquet, .csv), that follow each other; several count as one.",
        ),
    ],
    log_format: Annotated[
        LogFormat | None,
        typer.Option("--format", help="Format of the logs; by default a preset's, or what their names say."),
    ] = None,
    preset: common.PresetOption = None,
    tz: Annotated[
        str, common.zone_option("Time zone of the days, and of the log's dates without an offset.")
    ] = "UTC",
    by: Annotated[
        Rule | None,
        typer.Option(
            help="calendar: evenly spaced. clustering: groups of similar days, one day of each with the number of "
            "days that it stands for as its weight. hardest: the longest waits over a probe (needs --study)."
        ),
    ] = None,
    day: Annotated[
        list[str] | None, typer.Option(metavar="YYYY-MM-DD", help="Choose this day; repeat.")
    ] = None,
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
        typer.Option(
            "--probe-every", min=1, metavar="N", max=LARGEST, help="Simulate every N-th distinct package."
        ),
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
    as_json: Annotated[bool, typer.Option("--json", help="The list as one JSON document.")] = False,
) -> None:
    """List a log's days, and choose those that a study is to simulate.

    Amounts are of the jobs submitted that day: CPU-, GB- and GPU-hours (request × run time). With a
    probe, median_wait is the median in seconds over the probed packages' mean waits. --json tells more.

    Examples:
    procure workload days 03.csv.xz 04.csv.xz --preset beocat --tz America/Chicago
    procure workload days 04.csv.xz --preset beocat --tz America/Chicago --by calendar --per-month 2 --out days
    procure workload days 04.csv.xz --preset beocat --tz America/Chicago --by clustering -n 6 --out days
    procure workload days 04.csv.xz --preset beocat --tz America/Chicago --by hardest -n 9 --study study.toml --out days
    """
    if by is not None and day:
        raise typer.BadParameter("give --by or --day", param_hint="--by")
    if by == "hardest" and study is None:
        raise typer.BadParameter("hardest needs a study whose packages are probed", param_hint="--study")
    if per_month is not None and by != "calendar":
        raise typer.BadParameter("it belongs to --by calendar", param_hint="--per-month")
    if out is not None and by is None and not day:
        raise typer.BadParameter("nothing is chosen: give --by or --day", param_hint="--out")
    settings = LogSettings(format=log_format, preset=preset, tz=tz)
    tables = []
    for path in logs:
        imported = read_log(path, settings)
        if log_format or preset or imported.dropped:
            common.note(f"{path}: {'; '.join(imported.account())}")
        tables.append(imported.jobs)
    parts = split_days(tables[0] if len(tables) == 1 else merge(tables), tz)
    table = day_table(parts)
    loaded = load_study(study) if study else None
    if loaded is not None:
        table["median_wait"] = _probed(loaded, parts, out, every, farm)
    able, quiet = without_quiet(table)
    if quiet:
        common.note(_quiet(quiet, out))
    chosen = choose(able, by, day or (), n, per_month, seed)
    table = table.merge(chosen, how="left", on="day")
    table["chosen"] = table["weight"].notna()
    if out is not None:
        toml = write_workloads(parts, chosen, out, loaded.workloads[0] if loaded else None, tz)
    if as_json:
        common.print_json(table.to_dict(orient="records"))
    else:
        common.print_table(_shown(table, by or day), common.Format.TABLE, _title(table, quiet))
    if out is not None:
        common.note(
            f'wrote {counted(len(chosen), "day")} to {out}; a study takes them as workloads = "{toml}"'
        )


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
    table = read(jobs, JOB)
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


def _probed(
    study: Study, parts: dict[str, pd.DataFrame], out: Path | None, every: int, farm: str
) -> pd.Series:
    with nullcontext(str(out / "probe")) if out else tempfile.TemporaryDirectory() as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        return probe_days(study, parts, Path(folder), every, farm, note=common.note).to_numpy()


def _quiet(days: list[str], out: Path | None) -> str:
    where = out / "probe" / f"jobs-{days[0]}.parquet" if out else Path(f"jobs-{days[0]}.parquet")
    return (
        f"left out, because jobs hardly wait (median mean wait under 60 s), so packages can hardly be told apart: "
        f"{listed(days)}; to see them under more load: procure workload load {where} --load 1.5 --out busier.parquet"
    )


def _title(table: pd.DataFrame, quiet: list[str]) -> str:
    rest = f", {int(table['chosen'].sum()):,} chosen" if table["chosen"].any() else ""
    return f"{counted(len(table), 'day')} with jobs{rest}" + (f", {len(quiet):,} left out" if quiet else "")


def _shown(table: pd.DataFrame, choosing: object) -> pd.DataFrame:
    names = {"cpu_hours": "CPU h", "gpu_jobs": "GPU jobs", "gpu_hours": "GPU h"}
    names |= {"median_wait": "median wait s"} if "median_wait" in table else {}
    names |= {"weight": "weight"} if choosing else {}
    shown = {"day": table["day"], "": table["weekday"], "jobs": table["n_jobs"]}
    return pd.DataFrame(shown | {new: table[old].round().astype("Int64") for old, new in names.items()})
