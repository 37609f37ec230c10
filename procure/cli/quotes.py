"""`procure quotes`: look at the vendors' offers, and at the nodes that you own already."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from procure.cli import common, lazy
from procure.offers import listed_once
from procure.offers.reading import currency_code
from procure.offers.template import write_template
from procure.packages.quote_file import OfferReading, QuoteFile, read_quote_file
from procure.packages.quotes import price_notes, summarise_quotes
from procure.settings import validated
from procure.study.existing import read_existing, summarise_nodes
from procure.tables import write
from procure.text import counted
from procure.workload.speed import exact_speed, logged_processor_speed
from procure.workload.speed_ratios import rate_warnings, ratio_text, speed_ratios

app = lazy.command_group()


class Decimals(StrEnum):
    """The mark that separates decimals."""

    COMMA = "comma"
    POINT = "point"


RateOption = Annotated[
    list[str] | None,
    typer.Option("--rate", metavar="CODE=USD", help="US$ for one unit of a currency, e.g. EUR=1.08. Repeatable."),
]
CurrencyOption = Annotated[
    str | None,
    typer.Option(metavar="CODE", callback=common.checked(currency_code), help="Of prices that name no currency."),
]
DecimalOption = Annotated[
    Decimals | None, typer.Option("--decimal", help="The mark that separates decimals in text such as 14.950.")
]
TaxOption = Annotated[
    float | None, typer.Option("--tax", metavar="PERCENT", help="Tax in all prices of the file; it is taken out.")
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="CELL", help="A cell whose text you read, and that changes no price. Repeatable."),
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="FIELD=HEADING",
        help="What a heading is: name, cpus, mem_gb, gpus, price_usd, quantity, total or another column; none is not "
        "read; gpus==0 gives every row a value. Repeatable.",
    ),
]
CategoryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--category",
        metavar="NAMES=CATEGORY",
        help="Category of types by their name, e.g. 'GPU*=gpu'. Repeatable.",
    ),
]


@app.command("check")
def check_(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="A quote file, .xlsx, .ods, .csv or .parquet; - for stdin.")
    ],
    logged_speed: Annotated[
        list[float] | None,
        typer.Option(
            metavar="SPEED", help="Speed of one core of the logged system, in the unit of spec_rate. Repeatable."
        ),
    ] = None,
    logged_processor: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Its processor instead, e.g. 'AMD EPYC 7542'. Repeatable.")
    ] = None,
    rate: RateOption = None,
    currency: CurrencyOption = None,
    decimal: DecimalOption = None,
    tax: TaxOption = None,
    column: ColumnOption = None,
    category: CategoryOption = None,
    ignore: IgnoreOption = None,
    out: Annotated[Path | None, common.table_option("Write the quote table that was read")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Check every cell of a quote file, list all errors and what is not read, and print its categories.

    A quote table has the columns name, category, cpus, mem_gb (1 GB = 1,000 MB), gpus, price_usd
    (US$ of one node; text such as $6,960 is accepted). In other sheets a column is read by its name, a
    synonym (English, German) or --column; prices by their currency and --rate. Ranges are of one node.
    With a logged speed, run times are multiplied by logged speed / spec_rate: speed_ratio.

    Examples:
    procure quotes check quotes/example-2023.csv
    procure quotes check offers.xlsx --rate EUR=1.08 --category 'GPU*=gpu' --category '*=compute' --out quotes.csv
    procure quotes check teklif.xlsx --column name=Ürün --column price_usd='Birim Fiyat' --rate TRY=0.024
    procure quotes check quotes/example-2023.csv --logged-processor 'AMD EPYC 7542'
    """
    found = read_quote_file(path, offer_reading(rate, currency, decimal, tax, column, category, ignore))
    if found.errors:
        if output is common.Format.JSON:
            common.print_json(_document(found))
            raise typer.Exit(1)
        _say_unread(found)
        raise found.error()
    table = found.quotes
    if out is not None:
        write(table, out)
        common.note(f"wrote {out}" + ("; the order's other lines are not in it" if found.lines else ""))
    with common.bad_option("--logged-speed"):
        speeds = [float(exact_speed(speed) or 0) for speed in logged_speed or []]
    with common.bad_option("--logged-processor"):
        speeds += [logged_processor_speed(name, table)[0] for name in logged_processor or []]
    ratios = speed_ratios(table, speeds) if speeds else None
    summary = summarise_quotes(table, ratios)
    for text in price_notes(table):
        common.note(text)
    for text in rate_warnings(table, speeds):
        common.note(f"careful: {text}")
    if output is common.Format.JSON:
        if ratios is not None:
            by_category = ratios.groupby(table["category"], sort=False)
            summary["types"] = [part.to_dict(orient="records") for _, part in by_category]
        common.print_json(_document(found) | {"categories": summary.to_dict(orient="records")})
        return
    _say_unread(found)
    if output is common.Format.CSV:
        common.print_table(summary, output)
        return
    _print_ranges(path, table, summary)
    if ratios is not None:
        common.note(f"run times are multiplied by {ratio_text(ratios)}")


def offer_reading(
    rates: list[str] | None = None,
    currency: str | None = None,
    decimal: Decimals | None = None,
    tax: float | None = None,
    columns: list[str] | None = None,
    categories: list[str] | None = None,
    ignore: list[str] | None = None,
) -> OfferReading:
    """Make the settings that options give."""
    headings: dict[str, list[str]] = {}
    for name, heading in _pairs("--column", columns, "FIELD=HEADING, e.g. name='Ürün'"):
        headings.setdefault(name, []).append(heading)
    given: dict[str, float] = {}
    for code, value in _pairs("--rate", rates, "CODE=USD, e.g. EUR=1.08"):
        with common.bad_option("--rate"):
            if currency_code(code) in given:
                raise ValueError(f"{currency_code(code)} was given twice; one rate for each currency")
            try:
                given[currency_code(code)] = float(value)
            except ValueError:
                raise ValueError(f"{value!r} is no number; write CODE=USD, e.g. EUR=1.08") from None
    values: dict[str, object] = {
        "currency": currency,
        "rates": given,
        "decimal": None if decimal is None else decimal.value,
        "tax_percent": tax,
        "columns": headings,
        "category": dict(_pairs("--category", categories, "NAMES=CATEGORY, e.g. 'GPU*=gpu'")),
        "ignore": ignore or [],
    }
    with common.bad_option(_blamed(values)):
        return validated(OfferReading, values, "option")


def _blamed(values: dict[str, object]) -> str:
    """Return the option whose value is not allowed, of those that the settings check."""
    options = {"rates": "--rate", "tax_percent": "--tax", "columns": "--column"}
    for key, option in options.items():
        try:
            OfferReading.model_validate({key: values[key]})
        except ValueError:
            return option
    return "--column"


def _pairs(option: str, given: list[str] | None, form: str) -> list[tuple[str, str]]:
    with common.bad_option(option):
        pairs = [(text, *text.partition("=")) for text in given or []]
        for text, left, equals, right in pairs:
            if not (equals and left.strip() and right.strip()):
                raise ValueError(f"{text!r} was given; write {form}")
        return [(left.strip(), right) for _, left, _, right in pairs]


def _document(found: QuoteFile) -> dict[str, object]:
    return {
        "rows": found.quotes.to_dict(orient="records"),
        "lines": [
            asdict(line) | {"usd": float(line.usd), "percent": None if line.percent is None else float(line.percent)}
            for line in found.lines
        ],
        "problems": [one.to_dict() for one in found.findings],
    }


def _say_unread(found: QuoteFile) -> None:
    for text in listed_once(one for one in found.findings if one.severity == "warning"):
        common.note(f"not read: {text}")


def _print_ranges(path: Path, table: pd.DataFrame, summary: pd.DataFrame) -> None:
    people = summary[["category", "n_types"]].copy()
    for name in summary.columns[2::2].str.removesuffix("_min"):
        low, high = summary[f"{name}_min"], summary[f"{name}_max"]
        people[name] = [_range(a, b, 4 if name == "speed_ratio" else 12) for a, b in zip(low, high, strict=True)]
    title = f"{path}: {counted(len(table), 'type')} in {counted(len(summary), 'category', 'categories')}"
    common.print_table(people, common.Format.TABLE, title)


@app.command("template")
def template(out: Annotated[Path, typer.Option(metavar="FILE", help="The template to write, .xlsx or .csv.")]) -> None:
    """Write an empty quote file for vendors: columns with notes, drop-downs and an example row.

    The .xlsx has a second sheet for lines that are no servers: storage, switches, installation, warranty,
    discounts. The example rows are left out when the file is read.

    Examples:
    procure quotes template --out offers.xlsx
    """
    write_template(out)
    common.note(f"wrote {out}")


def _range(low: float, high: float, digits: int) -> str:
    return f"{low:,.{digits}g}" if low == high else f"{low:,.{digits}g}–{high:,.{digits}g}"


@app.command("nodes")
def nodes(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A node table, or what `scontrol show node -o` prints.")],
    retire: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Nodes to retire: node01, node[10-19], or a kind. Repeatable."),
    ] = None,
    leave_out_down: Annotated[
        bool, typer.Option("--leave-out-down", help="Leave out nodes that are down, drained or failing.")
    ] = False,
    out: Annotated[Path | None, common.table_option("Write the nodes that stay as a node table")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Look at the nodes of an existing system, by kind: what a study adds to every package.

    Memory is in MB per node. Slurm names no server types, so kinds are spelled from the figures. The
    table that --out writes can be given watts (power_w, idle_power_w) and a speed by hand; a study
    names the file, or Slurm's text itself, as existing_nodes in its \\[packages].

    Examples:
    scontrol show node -o > nodes.txt
    procure quotes nodes nodes.txt
    procure quotes nodes nodes.txt --retire 'node[10-19]' --out nodes.csv
    """
    system = read_existing(path, retire or (), "leave-out" if leave_out_down else "keep")
    for text in system.notes:
        common.note(text)
    if out is not None:
        write(system.nodes, out)
        common.note(f"wrote {out}")
    summary = summarise_nodes(system)
    n = len(system.nodes)
    title = f"{path}: {n:,} of {counted(len(system.listed), 'node')} {'stays' if n == 1 else 'stay'}"
    common.print_table(summary, output, title)
