"""`procure packages`: what a budget can buy, and what it costs to run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from procure.cli import common, study_options
from procure.errors import TableError
from procure.offers import OfferReading
from procure.packages import PackageRules, count_packages, read_quotes, write_packages
from procure.packages.costs import budget_notes
from procure.packages.enumerate import MOST_PACKAGES, TooManyPackages
from procure.packages.quotes import price_notes
from procure.page.names import head
from procure.settings import Settings
from procure.study import Study, load_study
from procure.study.costs import package_costs
from procure.study.study import Sweep
from procure.text import format_value


class OfOffers(Settings):
    """What of a study a quote file alone needs."""

    packages: PackageRules
    offers: OfferReading = OfferReading()
    sweep: Sweep = Sweep()


def packages(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="QUOTES|STUDY", help="A quote file, or a study file (.toml).")],
    budget: str | None = typer.Option(None, metavar="USD", callback=common.usd, help="Budget in US$, e.g. 1.2M."),
    settings: study_options.SetOption = None,
    costs: bool = typer.Option(False, "--costs", help="Show what packages cost to buy and to run; needs a study."),
    package: list[str] | None = typer.Option(
        None, metavar="ID", help="With --costs: these packages only, side by side."
    ),
    out: Annotated[Path | None, typer.Option(help="The package table to write, .parquet or .csv.")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """List every package that a budget allows: any types in any count, or as the rules say.

    Prints how many there are, and the ranges of their price (US$, after discounts) and totals; the table itself goes to
    --out. With --costs: energy, space, network, licences, support and staff over the study's years.

    Examples:
    procure packages quotes/example-2023.csv --budget 100000
    procure packages quotes/example-2023.csv --budget 1M --set packages.rules=published --out packages.parquet
    procure packages pipelines/example.toml --set packages.max_power_w=20000 --format json
    """
    of_study = source.suffix == ".toml"
    if costs and not of_study:
        raise typer.BadParameter("costs need a study: its [costs] and its workloads", param_hint="--costs")
    if not costs:
        common.refuse_given(context, "it belongs to --costs", "package")
    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise typer.BadParameter(f"{out} is neither .parquet nor .csv", param_hint="--out")
    settings = [*(settings or []), *([] if budget is None else [f"packages.budget_usd={budget}"])]
    if of_study:
        study = load_study(source, settings)
        table, rules, sweep, notes = study.read_quotes(), study.packages, study.sweep, budget_notes(study.costs)
    else:
        if not any(text.startswith("packages.budget_usd") for text in settings):
            raise typer.BadParameter("a budget is needed, or a study", param_hint="--budget")
        given = common.settings_of(settings, OfOffers)
        table, rules, sweep, notes = read_quotes(source, given.offers), given.packages, given.sweep, []
    common.note(*notes, *price_notes(table))
    if costs:
        _show_costs(study, table, package or [], out, output)
        return
    most = sweep.max_packages if "max_packages" in sweep.model_fields_set else MOST_PACKAGES
    try:
        found = count_packages(table, rules, most) if out is None else write_packages(table, rules, out, most)
    except TooManyPackages as error:
        raise TableError(f"{error}{error.hint('--set sweep.max_packages')}") from None
    common.print_record({**found, "out": str(out)} if out else found, output, "packages")


def _show_costs(
    study: Study, quotes: pd.DataFrame, package_ids: list[str], out: Path | None, output: common.Format
) -> None:
    """Print ranges of the costs over all distinct packages, or the named packages side by side."""
    found = package_costs(study, package_ids, quotes=quotes, note=common.note)
    common.note(*found.notes)
    common.write_to(out, found.packages)
    table = found.table.astype(object)
    if output is common.Format.TABLE:  # each cost in its unit
        names = table.columns.drop(["cost", "unit"])
        for name in names:
            table[name] = [format_value(value, unit) for value, unit in zip(table[name], table["unit"], strict=True)]
        table = table.assign(cost=[head(name, "")[0] for name in table["cost"]])
    common.print_table(table, output, found.title)
