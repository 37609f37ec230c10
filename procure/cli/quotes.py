"""`procure quotes`: look at the vendors' offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from procure.cli import common, lazy
from procure.offers import OfferReading, listed_once
from procure.offers.reading import currency_code
from procure.offers.template import write_template
from procure.packages.quotes import QuoteFile, price_notes, read_quote_file, summarise_quotes
from procure.settings import validated
from procure.text import counted

app = lazy.command_group()
_KEYS = ", ".join(OfferReading.model_fields)


RateOption = Annotated[
    list[str] | None,
    typer.Option("--rate", metavar="CODE=USD", help="US$ for one unit of a currency, e.g. EUR=1.08. Repeatable."),
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
    column: ColumnOption = None,
    category: CategoryOption = None,
    rate: RateOption = None,
    ignore: list[str] | None = typer.Option(
        None, metavar="CELL", help="A cell whose text you read, and that changes no price. Repeatable."
    ),
    settings: Annotated[list[str] | None, common.set_option(f"Of a study's [offers]: {_KEYS}.")] = None,
    out: Annotated[Path | None, common.table_option("Write the quote table that was read")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Check every cell of a quote file, list all errors and what is not read, and print its categories.

    A quote table has the columns name, category, cpus, mem_gb, gpus, price_usd. In other sheets a column is read by its
    name, a synonym (English, German) or --column; prices by their currency and --rate.

    Examples:
    procure quotes check quotes/example-2023.csv
    procure quotes check offers.xlsx --rate EUR=1.08 --category 'GPU*=gpu' --category '*=compute' --out quotes.csv
    procure quotes check teklif.xlsx --column name=Ürün --column price_usd='Birim Fiyat' --rate TRY=0.024
    """
    found = read_quote_file(path, offer_reading(settings, rate, column, category, ignore))
    if found.errors:
        if output is common.Format.JSON:
            common.print_json(_document(found))
            raise typer.Exit(1)
        _say_unread(found)
        raise found.error()
    table = found.quotes
    common.write_to(out, table, "the servers, without the order's other lines," if found.lines else "")
    summary = summarise_quotes(table)
    common.note(*price_notes(table))
    if output is common.Format.JSON:
        common.print_json(_document(found) | {"categories": summary.to_dict(orient="records")})
        return
    _say_unread(found)
    if output is common.Format.CSV:
        common.print_table(summary, output)
        return
    people = summary[["category", "n_types"]].copy()
    for name in summary.columns[2::2].str.removesuffix("_min"):
        low, high = summary[f"{name}_min"], summary[f"{name}_max"]
        people[name] = [f"{a:,.12g}" if a == b else f"{a:,.12g}–{b:,.12g}" for a, b in zip(low, high, strict=True)]
    title = f"{path}: {counted(len(table), 'type')} in {counted(len(summary), 'category', 'categories')}"
    common.print_table(people, output, title)


def offer_reading(
    settings: Sequence[str] | None = None,
    rates: list[str] | None = None,
    columns: list[str] | None = None,
    categories: list[str] | None = None,
    ignore: list[str] | None = None,
) -> OfferReading:
    """Make the settings that options give."""
    given: dict[str, Any] = {"ignore": ignore}
    for option, key, texts, form in (
        ("--rate", "rates", rates, "CODE=USD, e.g. EUR=1.08"),
        ("--column", "columns", columns, "FIELD=HEADING, e.g. name='Ürün'"),
        ("--category", "category", categories, "NAMES=CATEGORY, e.g. 'GPU*=gpu'"),
    ):
        with common.bad_option(option):
            given[key] = _pairs(texts or (), form, many=key == "columns")
            validated(OfferReading, {key: given[key]}, "option")
            codes = [currency_code(one.partition("=")[0].strip()) for one in rates or ()] if key == "rates" else []
            if again := [code for code in codes if codes.count(code) > 1]:
                raise ValueError(f"{again[0]} was given twice; one rate for each currency")
    return common.settings_of(settings, OfferReading, **given)


def _pairs(texts: Sequence[str], form: str, many: bool) -> dict[str, Any]:
    """Return what stands right of each sign by what stands left of it; a list where there may be many."""
    found: dict[str, Any] = {}
    for text in texts:
        left, _, right = text.partition("=")
        if not (left.strip() and right.strip()):
            raise ValueError(f"{text!r} was given; write {form}")
        found[left.strip()] = [*found.get(left.strip(), []), right] if many else right
    return found


def _document(found: QuoteFile) -> dict[str, object]:
    return {
        "rows": found.quotes.to_dict(orient="records"),
        "lines": [
            asdict(line) | {"usd": float(line.usd), "percent": None if line.percent is None else float(line.percent)}
            for line in found.lines
        ],
        "problems": [asdict(one) for one in found.findings],
    }


def _say_unread(found: QuoteFile) -> None:
    for text in listed_once(one for one in found.findings if one.severity == "warning"):
        common.note(f"not read: {text}")


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
