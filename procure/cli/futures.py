"""`procure workload futures`: workloads that may come, drawn from a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common
from procure.settings import LAST_SEED, validated
from procure.study.futures import write_futures
from procure.tables import write
from procure.text import counted
from procure.workload.futures import (
    CLASSES,
    Futures,
    compare_futures,
    draw_futures,
    say_futures,
    with_spreads,
)

_DEFAULT = Futures()


def futures(
    jobs: common.JobsArgument,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Write future-01.parquet …, how they were drawn, and differences.csv; a study takes them "
            'as [futures] folder = "FOLDER".',
        ),
    ],
    draws: Annotated[int, typer.Option(help="How many futures.")] = _DEFAULT.draws,
    length: Annotated[str, typer.Option(metavar="TIME", help="How long each is, whole weeks.")] = "28d",
    growth: Annotated[float, typer.Option(help="By how much the load grows a year.")] = _DEFAULT.growth,
    growth_spread: Annotated[
        float, typer.Option(help="Standard deviation of the logarithm of that growth.")
    ] = _DEFAULT.growth_spread,
    load_spread: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of the logarithm of a future's load about its growth; default: learnt from the "
            "log, as the next two."
        ),
    ] = None,
    class_spread: Annotated[float | None, typer.Option(help="The same of each class's load.")] = None,
    user_spread: Annotated[
        float | None,
        typer.Option(help="The same of each user's load; of each request's, where no user is known."),
    ] = None,
    mix: Annotated[
        list[str] | None,
        typer.Option(metavar="CLASS=GROWTH", help=f"Growth a year of one class instead: {', '.join(CLASSES)}; repeat."),
    ] = None,
    years: Annotated[
        float, typer.Option(help="The system's life, over which the futures are spread.")
    ] = _DEFAULT.years,
    redraw_run_times: Annotated[
        bool, typer.Option("--redraw-run-times", help="Redraw run times within user and request.")
    ] = False,
    tz: Annotated[str, common.zone_option("Zone of the local clock.")] = "UTC",
    seed: Annotated[
        int, typer.Option(min=0, max=LAST_SEED, help="The same seed gives the same files.")
    ] = _DEFAULT.seed,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Draw futures: resampled weeks of a log, bursts of a user left out or repeated, load grown by class.

    Nothing is made up: every job is one of the log, at its hour of its day of the week. Prints CPU-hours a week, by
    week, class and hour, of the past and of the futures (mean, and 5 % and 95 % quantiles).

    Examples:
    procure workload futures spring.parquet --draws 20 --growth 1.15 --seed 1 --out futures
    procure workload futures spring.parquet --years 3 --growth 1.1 --mix gpu=1.3 --tz America/Chicago --out futures
    """
    values = {
        "draws": draws,
        "length": length,
        "growth": growth,
        "growth_spread": growth_spread,
        "years": years,
        "load_spread": load_spread,
        "class_spread": class_spread,
        "user_spread": user_spread,
        "redraw_run_times": redraw_run_times,
        "tz": tz,
        "seed": seed,
        "mix": dict(_mix(text) for text in mix or []),
    }
    settings = validated(Futures, values, "futures")
    past = common.read_job_table(jobs)
    common.note(say_futures(past, settings))
    settings = with_spreads(past, settings)
    drawn = list(draw_futures(past, settings))
    differences = compare_futures(past, drawn, settings)
    write_futures(past, settings, drawn, out)
    write(differences, out / "differences.csv")
    common.note(f"wrote {counted(len(drawn), 'future')} and how they differ from the past to {out}")
    common.print_table(differences, output, "CPU-hours a week")


def _mix(text: str) -> tuple[str, float]:
    name, _, rate = text.partition("=")
    try:
        return name.strip(), float(rate)
    except ValueError:
        raise typer.BadParameter(f"{text!r} was given; write CLASS=GROWTH, as in gpu=1.3", param_hint="--mix") from None
