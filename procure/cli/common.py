"""Shared by all commands: output formats, notes, and errors as bad usage."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from procure.errors import ArgumentError, TableError
from procure.tables import check_name, without_formulas
from procure.text import money, printable, seconds
from procure.workload.clock import zone


class Format(StrEnum):
    """How a command prints what it found."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


FormatOption = Annotated[
    Format,
    typer.Option("--format", help="table for people; json or csv for programs, alone on stdout."),
]


@contextmanager
def bad_option(option: str | None = None) -> Iterator[None]:
    """Report a `TableError` as bad usage, exit code 2; leave ``option`` out inside a callback."""
    try:
        yield
    except TableError as error:
        raise typer.BadParameter(printable(str(error), kept="\n"), param_hint=option) from None


@contextmanager
def named(**arguments: str) -> Iterator[None]:
    """Report a wrong argument of a library function as bad usage of the option that ``arguments`` gives for it."""
    try:
        yield
    except ArgumentError as error:
        if error.argument not in arguments:
            raise
        raise typer.BadParameter(
            printable(str(error), kept="\n"), param_hint=arguments[error.argument]
        ) from None


def table_file(path: Path | None) -> Path | None:
    """Refuse a file name whose ending is no table format, before anything is computed."""
    if path is not None:
        with bad_option():
            check_name(path)
    return path


def time_zone(name: str | None) -> str | None:
    """Refuse a time zone that does not exist."""
    if name is not None:
        with bad_option():
            zone(name)
    return name


JobsArgument = Annotated[Path, typer.Argument(metavar="JOBS", help="A job table, .parquet or .csv.")]
PresetOption = Annotated[
    str | None,
    typer.Option("--preset", help="beocat, ccr, eagle, metacentrum, or the path of a preset .toml file."),
]
JobsOutOption = Annotated[
    Path, typer.Option("--out", callback=table_file, help="The job table to write, .parquet or .csv.")
]


def usd(text: str | None) -> str | None:
    """Turn an amount of money in an option's value into a plain number; see `procure.text.money`."""
    try:
        return None if text is None else str(money(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def seconds_of(text: str | None, option: str) -> int:
    """Read a length of time such as 3d, 12h or a number of seconds; none is 0."""
    try:
        return 0 if text is None else int(seconds(text))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def echo(text: str, *, err: bool = False) -> None:
    """Print lines; whatever a name in them holds reaches no terminal as an escape sequence."""
    typer.echo(printable(text, kept="\n\t"), err=err)


def note(text: str) -> None:
    """Tell the user something that is not the answer: on stderr, so that stdout stays machine-readable."""
    echo(text, err=True)


def plain(value: Any) -> Any:
    """Turn NumPy and pandas scalars, and what JSON lacks (NaN, infinity, NA), into plain JSON values."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_json(document: Any) -> None:
    """Print one JSON document."""
    # JSON escapes most control characters itself; the rest stands within strings and means the same escaped.
    text = json.dumps(plain(document), ensure_ascii=False, indent=2)
    typer.echo(re.sub("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]", lambda found: f"\\u{ord(found[0]):04x}", text))


def print_table(frame: pd.DataFrame, output: Format, title: str = "") -> None:
    """Print a frame as a table for people, a JSON list of records, or CSV."""
    if output is Format.JSON:
        print_json(frame.to_dict(orient="records"))
    elif output is Format.CSV:
        _print_csv(frame)
    else:
        console = Console()
        table = _table(frame, title, narrow=False)
        if console.measure(table, options=console.options.update(max_width=10_000)).maximum > console.width:
            table = _table(frame, title, narrow=True)
        console.print(table)


def _print_csv(frame: pd.DataFrame) -> None:
    text = without_formulas(frame).to_csv(index=False)
    sys.stdout.write(printable(text, kept="\r\n\t") if sys.stdout.isatty() else text)


def _table(frame: pd.DataFrame, title: str, narrow: bool) -> Table:
    """Lay a table out; narrow: no rules between columns, headings and package ids broken where they have parts."""
    table = Table(
        title=escape(printable(title)) or None, title_justify="left", header_style="bold",
        box=box.SIMPLE_HEAD if narrow else box.HEAVY_HEAD, show_edge=not narrow, pad_edge=not narrow,
        padding=(0, 0) if narrow else (0, 1),
    )  # fmt: skip
    columns = []
    for name in frame.columns:
        kind = frame[name].dtype.kind
        cells = [cell(value, _places(frame[name]) if kind == "f" else 3) for value in frame[name]]
        head = printable(str(name))
        if narrow:
            head = head if name == "package_id" else head.replace("_", "_\n").replace(",", ",\n")
            cells = [text.replace(",", ",\n") for text in cells] if name == "package_id" else cells
        widest = max((len(line) for text in cells for line in text.split("\n")), default=1)
        fixed = kind in "iuf" or name == "package_id"
        table.add_column(
            escape(head), justify="right" if kind in "iuf" else "left", overflow="fold",
            min_width=widest if narrow and fixed else None,
        )  # fmt: skip
        columns.append(cells)
    for row in zip(*columns, strict=True):
        table.add_row(*map(escape, row))
    return table


def _places(values: pd.Series) -> int:
    """Return how many decimal places, up to three, hold all values as well as three do."""
    for places in range(3):
        if (values.round(places) == values.round(3)).where(values.notna(), True).all():
            return places
    return 3


def print_record(record: dict[str, Any], output: Format, title: str = "") -> None:
    """Print one thing's figures: a JSON object, a CSV line, or a name and a value per line."""
    if output is Format.JSON:
        print_json(record)
    elif output is Format.CSV:
        _print_csv(pd.DataFrame([plain(record)]))
    else:
        if title:
            echo(title)
        width = max(map(len, record), default=0)
        for name, value in record.items():
            echo(f"  {name:<{width}}  {cell(value)}")


def cell(value: Any, places: int = 3) -> str:
    """Write one value for people: thousands separated, floats with ``places`` decimals, a dash for a missing value."""
    value = plain(value)
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.{places}f}"
    return printable(str(value))
