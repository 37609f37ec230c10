"""`procure workload days` and `procure workload load`: which days to ask for, and with how much load."""

from __future__ import annotations

import json
import tempfile
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from procure.cli import common
from procure.text import counted, listed

if TYPE_CHECKING:
    import pandas as pd

    from procure.study import Study


class By(StrEnum):
    """How days are chosen."""

    CALENDAR = "calendar"
    CLUSTERING = "clustering"
    HARDEST = "hardest"


def days(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG...",
            help="Logs, or job tables (.parquet, .csv), that follow each other; several count as one.",
        ),
    ],
    log_format: Annotated[
        common.LogFormat | None,
        typer.Option("--format", help="Format of the logs; with neither this nor a preset: job tables."),
    ] = None,
    preset: common.PresetOption = None,
    tz: Annotated[
        str,
        typer.Option(
            "--tz",
            callback=common.time_zone,
            help="Time zone of the days, and of the log's dates without an offset.",
        ),
    ] = "UTC",
    by: Annotated[
        By | None,
        typer.Option(
            "--by",
            help="calendar: evenly spaced. clustering: groups of like days, one day of each with the number of "
            "days that it stands for as its weight. hardest: the longest waits over a probe (needs --study).",
        ),
    ] = None,
    day: Annotated[
        list[str] | None, typer.Option("--day", metavar="YYYY-MM-DD", help="Choose this day; repeat.")
    ] = None,
    n: Annotated[int, typer.Option("-n", "--n", min=1, help="How many days; at most those there are.")] = 25,
    per_month: Annotated[
        int | None, typer.Option("--per-month", min=1, help="calendar: so many days of each month, not -n.")
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
        int, typer.Option("--probe-every", min=1, help="Simulate every so many-th distinct package.")
    ] = 1_237,
    farm: Annotated[
        str,
        typer.Option(
            callback=common.farm_name,
            help="Where the probe runs: serial, local, or as `procure sweep` takes it.",
        ),
    ] = "local",
    seed: Annotated[int, typer.Option("--seed", min=0, help="clustering: of the first centres.")] = 1,
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
    """List a log's days, and choose those that a study is to be asked for.

    Amounts are of the jobs submitted that day: CPU-, GB- and GPU-hours (request × run time). With a
    probe, median_wait is the median in seconds over the probed packages' mean waits. --json tells more.

    [bold]Examples[/bold]

    \b
    procure workload days 03.csv.xz 04.csv.xz --preset beocat --tz America/Chicago
    procure workload days 04.csv.xz --preset beocat --tz America/Chicago --by calendar --per-month 2 --out days
    procure workload days 04.csv.xz --preset beocat --tz America/Chicago --by clustering -n 6 --out days
    procure workload days 04.csv.xz --preset beocat --tz America/Chicago --by hardest -n 9 --study study.toml --out days
    """
    if by is not None and day:
        raise typer.BadParameter("give --by or --day", param_hint="--by")
    if by is By.HARDEST and study is None:
        raise typer.BadParameter("hardest needs a study whose packages are probed", param_hint="--study")
    if per_month is not None and by is not By.CALENDAR:
        raise typer.BadParameter("it belongs to --by calendar", param_hint="--per-month")
    if out is not None and by is None and not day:
        raise typer.BadParameter("nothing is chosen: give --by or --day", param_hint="--out")
    from procure.study import load_study
    from procure.workload.days import day_table, split_days, without_quiet

    parts = split_days(_read(logs, log_format, preset, tz), tz)
    table = day_table(parts)
    loaded = load_study(study) if study else None
    if loaded is not None:
        table["median_wait"] = _probed(loaded, parts, out, every, farm)
    able, quiet = without_quiet(table)
    if quiet:
        common.note(_quiet(quiet, out))
    chosen = _choose(able, by, day or [], n, per_month, seed)
    table = table.merge(chosen, how="left", on="day")
    table["chosen"] = table["weight"].notna()
    if out is not None:
        _write(parts, chosen, loaded, out)
    if as_json:
        common.print_json(table.to_dict(orient="records"))
    else:
        common.print_table(_shown(table, by or day), common.Format.TABLE, _title(table, quiet))
    if out is not None:
        toml = out / "workloads.toml"
        common.note(
            f'wrote {counted(len(chosen), "day")} to {out}; a study takes them as workloads = "{toml}"'
        )


def load(
    jobs: common.JobsArgument,
    factor: Annotated[
        float, typer.Option("--load", help="CPU-seconds of the result, as a multiple of the table's own.")
    ],
    out: common.JobsOutOption,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same jobs.")] = 1,
    gap: Annotated[
        int,
        typer.Option(
            "--burst-gap", min=0, help="Seconds; jobs of one user closer than this are of one burst."
        ),
    ] = 600,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Give a workload more or less load by superposing or leaving out whole bursts of jobs.

    Run times are never stretched. Copies of bursts keep the hour of the day (in a log of two weeks or
    more the weekday too) and lie inside the log's span.

    [bold]Examples[/bold]

    \b
    procure workload load jobs.parquet --load 1.5 --out busier.parquet
    procure workload load jobs.parquet --load 0.8 --out quieter.parquet --seed 7
    """
    if not 0 < factor < float("inf"):
        raise typer.BadParameter(
            f"{factor:g} was given; a load is above 0, 1 being the table's own", param_hint="--load"
        )
    from procure.schemas import JOB
    from procure.tables import read, write
    from procure.workload.scale import TOLERANCE, bursts, cpu_seconds, scale_load

    table = read(jobs, JOB)
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


def _read(logs: list[Path], form: common.LogFormat | None, preset: str | None, tz: str) -> pd.DataFrame:
    """Read logs or job tables as one; say what became of a log's rows."""
    from procure.schemas import JOB
    from procure.tables import read
    from procure.workload import import_log, merge
    from procure.workload.presets import load_preset

    if form is None and preset is None:
        tables = [read(path, JOB) for path in logs]
    else:
        name = form.value if form else load_preset(str(preset)).format
        tables = []
        for path in logs:
            imported = import_log(path, name, preset, tz=None if name == "swf" else tz)
            common.note(f"{path}: {'; '.join(imported.account())}")
            tables.append(imported.jobs)
    return tables[0] if len(tables) == 1 else merge(tables)


def _probed(
    study: Study, parts: dict[str, pd.DataFrame], out: Path | None, every: int, farm: str
) -> pd.Series:
    from procure.cli.sweep import _progress
    from procure.sweep.probe import probe_days

    with nullcontext(str(out / "probe")) if out else tempfile.TemporaryDirectory() as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with _progress() as show:
            waits = probe_days(study, parts, Path(folder), every, farm, progress=show, note=common.note)
    return waits.to_numpy()


def _choose(
    table: pd.DataFrame, by: By | None, named: list[str], n: int, per_month: int | None, seed: int
) -> pd.DataFrame:
    from procure.errors import TableError
    from procure.workload import days as choose

    if (by or named) and table.empty:
        raise TableError("jobs wait on none of these days, so there is no day to choose")
    if by is By.CALENDAR:
        return choose.by_calendar(table, n, per_month)
    if by is By.CLUSTERING:
        return choose.by_group(table, n, seed)
    if by is By.HARDEST:
        return choose.hardest(table, n)
    return choose.by_hand(table, named)


def _quiet(days: list[str], out: Path | None) -> str:
    where = out / "probe" / f"jobs-{days[0]}.parquet" if out else Path(f"jobs-{days[0]}.parquet")
    return (
        f"left out, because jobs hardly wait (median mean wait under 60 s) and all packages look alike: "
        f"{listed(days)}; to see them under more load: procure workload load {where} --load 1.5 --out busier.parquet"
    )


def _write(parts: dict[str, pd.DataFrame], chosen: pd.DataFrame, study: Study | None, out: Path) -> None:
    from procure.tables import whole_file, write

    out.mkdir(parents=True, exist_ok=True)
    lines = ["# Days that `procure workload days` chose; paths are relative to this file."]
    like = study.workloads[0] if study else None
    for row in chosen.itertuples(index=False):
        write(parts[row.day], out / f"jobs-{row.day}.parquet")
        lines += ["", "[[workloads]]", f'name = "{row.day}"', f'jobs = "jobs-{row.day}.parquet"']
        lines += [f"weight = {row.weight}"] if row.weight != 1 else []
        for key in ("logged_processor", "logged_speed"):
            value = getattr(like, key, None)
            lines += [f"{key} = {json.dumps(str(value))}"] if value is not None else []
    with whole_file(out / "workloads.toml") as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _title(table: pd.DataFrame, quiet: list[str]) -> str:
    rest = f", {int(table['chosen'].sum()):,} chosen" if table["chosen"].any() else ""
    return f"{counted(len(table), 'day')} with jobs{rest}" + (f", {len(quiet):,} left out" if quiet else "")


def _shown(table: pd.DataFrame, choosing: object) -> pd.DataFrame:
    import pandas as pd

    names = {"cpu_hours": "CPU h", "gpu_jobs": "GPU jobs", "gpu_hours": "GPU h"}
    names |= {"median_wait": "median wait s"} if "median_wait" in table else {}
    names |= {"weight": "weight"} if choosing else {}
    shown = {"day": table["day"], "": table["weekday"], "jobs": table["n_jobs"]}
    return pd.DataFrame(shown | {new: table[old].round().astype("Int64") for old, new in names.items()})
