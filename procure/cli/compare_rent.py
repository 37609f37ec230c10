"""``procure compare-rent``: buy, rent or burst."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, study_options
from procure.recommender.rent import compare_rent as compare_ways


def compare_rent(
    study: study_options.StudyArgument,
    prices: Annotated[Path, typer.Option(metavar="FILE", help="A price list of rented nodes, .csv or .parquet.")],
    package: Annotated[
        str | None, typer.Option(metavar="ID", help="What is bought; default: the first that is recommended.")
    ] = None,
    wait_bound: Annotated[
        list[str] | None,
        typer.Option(metavar="TIME", help="Rent for what would wait longer; default 4h. Repeatable."),
    ] = None,
    boot: Annotated[str, typer.Option(metavar="TIME", help="From submission to start of a rented job.")] = "3min",
    beside: Annotated[
        str | None,
        typer.Option(metavar="USD", callback=common.usd, help="US$ a year that renting costs besides."),
    ] = None,
    policy: study_options.PolicyOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Compare buying with renting on demand, reserved, and with renting only for long waits.

    The same jobs over the study's years; US$, waits in seconds. The price list has the columns name, cpus,
    mem_gb, usd_per_hour, and may have gpus, gpu_type, speed and reserved_usd_per_hour. Nothing is fetched.

    Examples:
    procure compare-rent pipelines/vendor-rules.toml --prices quotes/example-cloud.csv
    procure compare-rent pipelines/vendor-rules.toml --prices quotes/example-cloud.csv --wait-bound 1h --format json
    """
    with common.named(wait_bounds="--wait-bound", usd_per_year="--beside"):
        found = compare_ways(
            study,
            prices,
            package=package,
            wait_bounds=[common.seconds_of(text, "--wait-bound") for text in wait_bound or ["4h"]],
            boot=common.seconds_of(boot, "--boot"),
            usd_per_year=float(beside or 0),
            policy=policy,
            note=common.note,
        )
    common.show(found, output)
