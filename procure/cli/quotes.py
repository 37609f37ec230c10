"""`procure quotes`: look at the vendors' offers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli.common import Format, FormatOption, print_table

app = typer.Typer(help="Vendors' offers: check a quote file.", no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def quotes() -> None:
    """Vendors' offers: check a quote file."""


@app.command("check")
def check_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A quote file, .csv or .parquet.")],
    output: FormatOption = Format.TABLE,
) -> None:
    """Check every row of a quote file and print its categories.

    Required columns: name, category, cpus, mem_gb (1 GB = 1,000 MB), gpus, price_usd (US$ of one
    node; text such as $6,960 is accepted). An error names the row and the column. Ranges are of one
    node.

    [bold]Examples[/bold]

    \b
    procure quotes check quotes/example-2023.csv
    procure quotes check quotes/example-2023.csv --format json
    """
    from procure.quotes import read_quotes, summarise_quotes

    table = read_quotes(path)
    summary = summarise_quotes(table)
    if output is not Format.TABLE:
        print_table(summary, output)
        return
    people = summary[["category", "n_types"]].copy()
    for name in ("mem_gb", "cpus", "gpus", "price_usd"):
        low, high = summary[f"{name}_min"], summary[f"{name}_max"]
        people[name] = [_range(a, b) for a, b in zip(low, high, strict=True)]
    print_table(people, output, f"{path}: {len(table)} types in {len(summary)} categories")


def _range(low: float, high: float) -> str:
    return f"{low:,.12g}" if low == high else f"{low:,.12g}–{high:,.12g}"
