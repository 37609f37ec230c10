"""`procure quotes`: look at the vendors' offers, and at the nodes that you own already."""

from __future__ import annotations

import contextlib
import math
import shlex
from dataclasses import asdict
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from procure.cli import common, lazy
from procure.errors import TableError
from procure.packages.quote_file import OfferReading, QuoteFile, all_harmless, currency_code, read_quote_file
from procure.packages.quotes import price_notes, summarise_quotes
from procure.packages.template import write_rows, write_template
from procure.settings import validated
from procure.sheets import NoTable, listed_once
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
    float | None, typer.Option("--tax", metavar="PERCENT", help="Tax in prices that are said to be with tax.")
]
HarmlessOption = Annotated[
    list[str] | None,
    typer.Option("--harmless", metavar="WORD", help="A word that is asked about, and changes no amount. Repeatable."),
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="FIELD=HEADING",
        help="What a heading that is not known is: name, cpus, mem_gb, gpus, processor, price_usd, quantity, total "
        "or another column; none is not read. Repeatable.",
    ),
]
FixOption = Annotated[
    Path | None,
    typer.Option(
        metavar="OUT", help="Write what was understood, .xlsx, or .csv of servers only; the rest with ? before it."
    ),
]


@app.command("check")
def check_(
    context: typer.Context,
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
    harmless: HarmlessOption = None,
    column: ColumnOption = None,
    fix: FixOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Check every cell of a quote file, list all errors and guesses, and print its categories.

    A quote table has the columns name, category, cpus, mem_gb (1 GB = 1,000 MB), gpus, price_usd
    (US$ of one node; text such as $6,960 is accepted). Other sheets are looked through for tables of
    offers: headings in 14 languages, units in cells (1.5 TB, 2x32, 14.950,00 €), currencies by their
    rate. Ranges are of one node. With a logged speed, run times are multiplied by logged speed /
    spec_rate: speed_ratio.

    Examples:
    procure quotes check quotes/example-2023.csv
    procure quotes check offers.xlsx --rate EUR=1.08 --fix understood.xlsx
    procure quotes check quotes/example-2023.csv --format json
    procure quotes check quotes/example-2023.csv --logged-processor 'AMD EPYC 7542'
    """
    reading = offer_reading(rate, currency, decimal, tax, harmless, column)
    try:
        found = read_quote_file(path, reading)
    except NoTable as error:
        raise _with_guesses(context, error) from None
    if fix is not None:
        rows = found.understood.astype(str).to_dict(orient="records")
        write_rows(rows, list(found.understood.columns), fix, found.lines)
        common.note(f"wrote {fix}" + (", what is not read with ? before it" if found.errors else ""))
        if found.n_lines_unread:
            common.note(f"careful: {fix} lacks {counted(found.n_lines_unread, 'line')} of the order with an error")
    if found.errors:
        _refuse(found, output, _answer(context, path, reading))
    table = found.quotes
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
    _say_findings(found)
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
    harmless: list[str] | None = None,
    columns: list[str] | None = None,
) -> OfferReading:
    """Make the settings that options give."""
    given: dict[str, object] = {}
    with common.bad_option("--rate"):
        for text in rates or []:
            code, equals, value = text.partition("=")
            if not equals:
                raise ValueError(f"{text!r} was given; write it as EUR=1.08")
            if currency_code(code) in given:
                raise ValueError(f"{currency_code(code)} was given twice; one rate for each currency")
            given[currency_code(code)] = _rate(text, value)
    with common.bad_option("--column"):
        headings: dict[str, list[str]] = {}
        for text in columns or []:
            name, equals, heading = text.partition("=")
            if not equals:
                raise ValueError(f"{text!r} is not a mapping; write FIELD=HEADING, e.g. name='Ürün'")
            headings.setdefault(name, []).append(heading)
        OfferReading.legal(headings)
    with common.bad_option("--tax"):
        mark = None if decimal is None else decimal.value
        values: dict[str, object] = {
            "currency": currency,
            "rates": given,
            "decimal": mark,
            "tax_percent": tax,
            "harmless": harmless or [],
            "columns": headings,
        }
        return validated(OfferReading, values, "tax")


def _with_guesses(context: typer.Context, error: NoTable) -> TableError:
    """Return the error with the command that says of each heading what it may be."""
    if not error.guesses:
        return error
    more = [part for one in error.guesses for part in ("--column", f"{one.column}={one.heading.text}")]
    return TableError(
        f"{error}\nThese are guesses from what stands beneath alone; nothing was read. Check each one, write a "
        "column in place of ? (none = it is not read), and this command reads them so:\n"
        f"{shlex.join(['procure', 'quotes', 'check', *common.given_again(context), *more])}"
    )


def _rate(text: str, value: str) -> float:
    with contextlib.suppress(ValueError):
        rate = float(value)
        if math.isfinite(rate) and rate > 0:
            return rate
    raise ValueError(f"{text!r} was given; a rate is US$ for one, more than 0, such as EUR=1.08")


def _document(found: QuoteFile) -> dict[str, object]:
    return {
        "rows": found.quotes.to_dict(orient="records"),
        "lines": [asdict(line) | {"usd": float(line.usd), "percent": _float(line.percent)} for line in found.lines],
        "problems": [one.to_dict() for one in found.findings],
    }


def _float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def _answer(context: typer.Context, path: Path, reading: OfferReading) -> tuple[str, int]:
    """Return the command that answers all questions on words and remarks, and how many others it leaves."""
    words, rest = all_harmless(path, reading)
    given = common.given_again(context) if words else []
    command = ["procure", "quotes", "check", *given, *(part for one in words for part in ("--harmless", one))]
    return shlex.join(command) if words else "", len(rest.errors)


def _refuse(found: QuoteFile, output: common.Format, answer: tuple[str, int]) -> None:
    """Say every error, and end with the one command that answers those on words and remarks."""
    command, n_left = answer
    if output is common.Format.JSON:
        common.print_json(_document(found) | {"answer": command})
        raise typer.Exit(1)
    _say_findings(found)
    if not command:
        raise found.error()
    left = f"; {counted(n_left, 'other question')} will be left" if n_left else ""
    raise TableError(
        f"{found.error()}\nIf none of the words and remarks asked about changes an amount, a number or what is bought, "
        f"this command says so of all of them{left}:\n{command}"
    )


def _say_findings(found: QuoteFile) -> None:
    for severity, word in {"guess": "guessed", "warning": "careful"}.items():
        for text in listed_once(one for one in found.findings if one.severity == severity):
            common.note(f"{word}: {text}")


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
