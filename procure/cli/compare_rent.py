"""``procure compare-rent``: buy, rent or burst."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, study_options
from procure.recommender.rent import compare_rent as compare_ways


def compare_rent(
    path: study_options.StudyArgument,
    prices: Annotated[Path, typer.Option(metavar="FILE", help="A price list of rented nodes, .csv or .parquet.")],
    settings: study_options.SetOption = None,
    package: Annotated[
        str | None, typer.Option(metavar="ID", help="What is bought; default: the first that is recommended.")
    ] = None,
    wait_bound: Annotated[
        list[str] | None,
        typer.Option(metavar="TIME", help="Rent for what would wait longer; default 4h. Repeatable."),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Compare buying with renting on demand, reserved, and with renting only for long waits.

    The same jobs over the study's years; US$, waits in seconds. The price list has the columns name, cpus,
    mem_gb, usd_per_hour, and may have gpus, gpu_type, speed and reserved_usd_per_hour. Nothing is fetched.

    Examples:
    procure compare-rent pipelines/vendor-rules.toml --prices quotes/example-cloud.csv
    procure compare-rent pipelines/vendor-rules.toml --prices quotes/example-cloud.csv --wait-bound 1h --format json
    """
    with common.named(wait_bounds="--wait-bound"):
        found = compare_ways(
            study_options.load(path, settings),
            prices,
            package=package,
            wait_bounds=[common.seconds_of(text, "--wait-bound") for text in wait_bound or ["4h"]],
            note=common.note,
        )
    people = partial(common.print_table, found.shown(), output, found.title)
    common.tell(output, found.notes, found.to_dict, found.table, people)
