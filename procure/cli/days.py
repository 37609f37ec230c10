"""`procure workload days`: which days to ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common
from procure.settings import MOST_COUNTED
from procure.sweep.choose_days import DayRule, Probe, choose_days
from procure.text import counted
from procure.workload import merge, read_log
from procure.workload.days import Rule
from procure.workload.log_settings import LogSettings


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
    by: Annotated[
        Rule | None,
        typer.Option(
            help="calendar: evenly spaced. clustering: groups of similar days, one day of each with the number of "
            "days that it stands for as its weight. hardest: the longest waits over a probe (needs --study)."
        ),
    ] = None,
    n: Annotated[
        int,
        typer.Option("-n", "--n", min=1, max=MOST_COUNTED, help="How many days; at most those there are."),
    ] = 25,
    study: Annotated[
        Path | None,
        typer.Option(
            metavar="STUDY.toml",
            help="Probe every day: simulate every 1,237th distinct package of this study (quotes, budget, policy), "
            "and leave out the days on which jobs never wait.",
        ),
    ] = None,
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
    procure workload days march.parquet april.parquet --tz America/Chicago
    procure workload days april.parquet --tz America/Chicago --by calendar -n 2 --out days
    procure workload days april.parquet --tz America/Chicago --by clustering -n 6 --out days
    procure workload days april.parquet --tz America/Chicago --by hardest -n 9 --study study.toml --out days
    """
    if by is None:
        common.refuse_given(context, "it belongs to --by", "n")
    settings = LogSettings(tz=tz)
    tables = []
    for path in logs:
        imported = read_log(path, settings)
        if imported.dropped:
            common.note(f"{path}: {'; '.join(imported.account())}")
        tables.append(imported.jobs)
    rule = DayRule(by, n=n)
    probe = Probe(study) if study else None
    found = choose_days(
        tables[0] if len(tables) == 1 else merge(tables), rule, tz=tz, probe=probe, out=out, note=common.note
    )
    common.show(found, output)
    if found.file is not None:
        n_chosen = counted(int(found.table["chosen"].sum()), "day")
        common.note(f'wrote {n_chosen} to {out}; a study takes them as workloads = "{found.file}"')
