"""`procure packages`: what a budget can buy, and what it costs to run."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from procure.cli import common
from procure.cli.human_format import amount, head
from procure.errors import TableError
from procure.packages import PackageRules, count_packages, read_quotes, write_packages
from procure.packages.cost_notes import budget_notes
from procure.packages.enumerate import MOST_PACKAGES, TooManyPackages
from procure.packages.quotes import price_notes, validity_notes
from procure.settings import LARGEST, validated
from procure.study import load_study
from procure.study.costs import package_costs
from procure.tables import write


def packages(
    context: typer.Context,
    source: Annotated[
        Path | None,
        typer.Argument(metavar="QUOTES|STUDY", help="A quote file, or a study file (.toml) with its quotes and rules."),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="USD", callback=common.usd, help="Budget in US$, e.g. 1.2M.")
    ] = None,
    study: Annotated[
        Path | None, typer.Option(help="Take rules, and quotes if none are given, from a study file.")
    ] = None,
    fixed_cost: Annotated[
        str | None, typer.Option(metavar="USD", callback=common.usd, help="US$ taken off the budget first.")
    ] = None,
    rules: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Rules by name: published, one type of a category and one GPU node."),
    ] = None,
    min_gpu_nodes: Annotated[
        int | None, typer.Option(max=LARGEST, help="Least number of nodes with a GPU (default 0).")
    ] = None,
    types_per_category: Annotated[
        str | None, typer.Option(metavar="N|any", help="At most this many types of a category (default any).")
    ] = None,
    max_power_w: Annotated[float | None, typer.Option("--max-power", metavar="W", help="Cap in W.")] = None,
    max_rack_units: Annotated[float | None, typer.Option(metavar="U", help="Cap in rack units.")] = None,
    as_of: Annotated[
        str | None,
        typer.Option(metavar="DATE|today", help="Leave out quotes whose valid_until is before this day."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="An expired quote is an error instead of being left out.")
    ] = False,
    maximal: Annotated[
        bool | None,
        typer.Option("--maximal/--all", help="Only packages to which no node can be added (default), or all."),
    ] = None,
    max_packages: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            max=LARGEST,
            help="Give up beyond this many, or where listing takes as long as this many of 25 types each.",
        ),
    ] = MOST_PACKAGES,
    costs: Annotated[
        bool, typer.Option("--costs", help="Show what packages cost to buy and to run; needs a study.")
    ] = False,
    package: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="With --costs: these packages only, side by side.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The package table to write, .parquet or .csv.")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """List every package that a budget allows: any types in any count, or as the rules say.

    Prints how many there are, how many are distinct, and the ranges of their price (US$, after
    discounts) and totals (memory in GB = 1,000 MB). The table itself goes to --out, in pieces, however
    long it is. With --costs: energy, space, network, licences, support and staff over the years of the
    study's \\[costs], per job and per core-hour; --out then has these columns too.

    Examples:
    procure packages quotes/example-2023.csv --budget 100000
    procure packages quotes/example-2023.csv --budget 1000000 --rules published --out packages.parquet
    procure packages pipelines/example.toml --format json
    procure packages pipelines/vendor-rules.toml --costs
    """
    if source is not None and source.suffix == ".toml":
        if study is not None:
            raise typer.BadParameter("two study files were given", param_hint="--study")
        source, study = None, source
    if study is None and source is None:
        raise typer.BadParameter("a quote file or a study file is needed", param_hint="QUOTES|STUDY")
    if study is None and budget is None:
        raise typer.BadParameter("a budget is needed, or a study", param_hint="--budget")
    if study is None and costs:
        raise typer.BadParameter("costs need a study: its [costs] and its workloads", param_hint="--costs")
    if costs:
        common.refuse_given(context, "--costs lists as many as the study allows", "max_packages")
    else:
        common.refuse_given(context, "it belongs to --costs", "package")
    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise typer.BadParameter(f"{out} is neither .parquet nor .csv", param_hint="--out")
    given = {
        "budget_usd": budget,
        "fixed_cost_usd": fixed_cost,
        "rules": rules,
        "min_gpu_nodes": min_gpu_nodes,
        "types_per_category": _types(types_per_category),
        "max_power_w": max_power_w,
        "max_rack_units": max_rack_units,
        "as_of": _day(as_of),
        "expired": "error" if strict else None,
        "maximal": maximal,
    }
    table, chosen = _quotes_and_rules(source, study, {k: v for k, v in given.items() if v is not None})
    if costs and study is not None:
        _show_costs(study, table, chosen, package or [], out, output)
    else:
        _show_packages(table, chosen, out, output, max_packages)


def _show_packages(
    table: pd.DataFrame, rules: PackageRules, out: Path | None, output: common.Format, most: int
) -> None:
    try:
        if out is None:
            summary = count_packages(table, rules, most)
        else:
            summary = write_packages(table, rules, out, most)
    except TooManyPackages as error:
        raise TableError(f"{error}{error.hint('--max-packages')}") from None
    common.print_record({**summary, "out": str(out)} if out else summary, output, "packages")


def _show_costs(
    study_path: Path,
    quotes: pd.DataFrame,
    rules: PackageRules,
    package_ids: list[str],
    out: Path | None,
    output: common.Format,
) -> None:
    """Print ranges of the costs over all distinct packages, or the named packages side by side."""
    found = package_costs(study_path, package_ids, quotes=quotes, rules=rules, note=common.note)
    for text in found.notes:
        common.note(text)
    if out is not None:
        write(found.packages, out)
        common.note(f"wrote {out}")
    _print_costs(found.table, output, found.title)


def _print_costs(table: pd.DataFrame, output: common.Format, title: str) -> None:
    """Print a cost per row, for people each in its unit."""
    if output is common.Format.TABLE:
        values = [
            [amount(value, unit) for value in row]
            for unit, row in zip(table["unit"], table.drop(columns=["cost", "unit"]).to_numpy(), strict=True)
        ]
        names = table.columns.drop(["cost", "unit"])
        heads = table[["cost", "unit"]].assign(cost=[head(name, "")[0] for name in table["cost"]])
        table = heads.join(pd.DataFrame(values, columns=names))
    common.print_table(table, output, title)


def _types(text: str | None) -> int | str | None:
    """Read a number of types per category."""
    if text is None or text == "any":
        return text
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is neither any nor a number above 0", param_hint="--types-per-category")
    return int(text)


def _day(text: str | None) -> str | None:
    """Read a day; ``today`` is the clock's."""
    if text is None:
        return None
    if text == "today":
        return datetime.date.today().isoformat()
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a day; write 2023-06-30 or today", param_hint="--as-of") from None


def _quotes_and_rules(
    quotes: Path | None, study: Path | None, given: dict[str, Any]
) -> tuple[pd.DataFrame, PackageRules]:
    """Read the quotes, put the options over the study's rules, and say which quotes have expired."""
    if study is None:
        table = read_quotes(quotes or "")
        with common.bad_option():
            rules = validated(PackageRules, given, "packages")
    else:
        loaded = load_study(study)
        values = loaded.packages.model_dump(exclude_unset=True)
        table = loaded.read_quotes(quotes)
        # The study's own rules were checked when it was read.
        with common.bad_option():
            rules = validated(type(loaded.packages), values | given, str(study))
        for text in budget_notes(rules, loaded.costs):
            common.note(text)
    for text in price_notes(table) + validity_notes(table, rules):
        common.note(text)
    return table, rules
