"""`procure packages`: what a budget can buy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from procure.cli.common import Format, FormatOption, note, print_record, usd

if TYPE_CHECKING:
    import pandas as pd

    from procure.package_rules import PackageRules


def packages(
    quotes: Annotated[
        Path | None, typer.Argument(metavar="QUOTES", help="A quote file; by default the study's.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="USD", callback=usd, help="Budget in US$, e.g. 1.2M.")
    ] = None,
    study: Annotated[
        Path | None, typer.Option("--study", help="Take quotes and rules from a study file; options win.")
    ] = None,
    fixed_cost: Annotated[
        str | None,
        typer.Option("--fixed-cost", metavar="USD", callback=usd, help="US$ taken off the budget first."),
    ] = None,
    min_gpu_nodes: Annotated[
        int | None,
        typer.Option(
            "--min-gpu-nodes", help="Least number of nodes with a GPU (default 1; 0 lifts the rule)."
        ),
    ] = None,
    max_power_w: Annotated[float | None, typer.Option("--max-power", metavar="W", help="Cap in W.")] = None,
    max_rack_units: Annotated[
        float | None, typer.Option("--max-rack-units", metavar="U", help="Cap in rack units.")
    ] = None,
    maximal: Annotated[
        bool | None,
        typer.Option(
            "--maximal/--all", help="Only packages to which no node can be added (default), or all."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The package table to write, .parquet or .csv.")
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """List every package that a budget allows: one type of each category, in any count.

    Prints how many there are, how many are distinct, and the ranges of their price (US$) and totals
    (memory in GB = 1,000 MB). The table itself goes to --out, in pieces, however long it is.

    [bold]Examples[/bold]

    \b
    procure packages quotes/example-2023.csv --budget 1000000
    procure packages quotes/example-2023.csv --budget 1000000 --out packages.parquet
    procure packages --study pipelines/example.toml --format json
    """
    from procure.packages import count_packages, write_packages

    given = {
        "budget_usd": budget,
        "fixed_cost_usd": fixed_cost,
        "min_gpu_nodes": min_gpu_nodes,
        "max_power_w": max_power_w,
        "max_rack_units": max_rack_units,
        "maximal": maximal,
    }
    if study is None and quotes is None:
        raise typer.BadParameter("a quote file is needed, or --study", param_hint="QUOTES")
    if study is None and budget is None:
        raise typer.BadParameter("a budget is needed, or --study", param_hint="--budget")
    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise typer.BadParameter(f"{out} is neither .parquet nor .csv", param_hint="--out")
    table, rules = _quotes_and_rules(quotes, study, {k: v for k, v in given.items() if v is not None})
    progress = _Progress()
    summary = (
        count_packages(table, rules, progress) if out is None else write_packages(table, rules, out, progress)
    )
    print_record({**summary, "out": str(out)} if out else summary, output, "packages")


def _quotes_and_rules(
    quotes: Path | None, study: Path | None, given: dict[str, Any]
) -> tuple[pd.DataFrame, PackageRules]:
    """Read the quotes, and put the options over the study's rules."""
    from procure.package_rules import PackageRules
    from procure.quotes import read_quotes
    from procure.settings import validated

    if study is None:
        return read_quotes(quotes or ""), validated(PackageRules, given, "packages")
    from procure.study import load_study

    loaded = load_study(study)
    values = loaded.packages.model_dump(exclude_unset=True)
    return read_quotes(quotes or loaded.quotes), validated(PackageRules, values | given, str(study))


class _Progress:
    """Tell every ten seconds how far a long enumeration is."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, n_rows: int) -> None:
        now = time.monotonic()
        if now - self._last >= 10:
            self._last = now
            note(f"{n_rows:,} packages so far")
