"""What every command shares: output formats, notes, and how an error reaches the user."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from procure.errors import TableError

if TYPE_CHECKING:
    import pandas as pd


class Format(StrEnum):
    """How a command prints what it found."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class LogFormat(StrEnum):
    """The log formats that can be read."""

    CSV = "csv"
    SWF = "swf"
    SACCT = "sacct"


FormatOption = Annotated[
    Format,
    typer.Option("--format", help="table for people; json or csv for programs, alone on stdout."),
]


@contextmanager
def bad_option(option: str | None = None) -> Iterator[None]:
    """Make what is wrong with an option's value bad usage, exit code 2; None in a callback, or where it is said."""
    try:
        yield
    except TableError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def table_file(path: Path | None) -> Path | None:
    """Refuse a name that says no format of a table, before anything is computed."""
    from procure.tables import check_name

    if path is not None:
        with bad_option():
            check_name(path)
    return path


def time_zone(name: str | None) -> str | None:
    """Refuse a time zone that does not exist."""
    from procure.workload.clock import zone

    if name is not None:
        with bad_option():
            zone(name)
    return name


def farm_name(name: str) -> str:
    """Refuse a farm that does not exist."""
    from procure.sweep.farm import check_farm

    with bad_option():
        check_farm(name)
    return name


def walltime(text: str | None) -> str | None:
    """Refuse a limit that cannot be read."""
    from procure.sweep.jobqueue import lifetime_arguments

    if text is not None:
        with bad_option():
            lifetime_arguments(text)
    return text


JobsOutOption = Annotated[
    Path, typer.Option("--out", callback=table_file, help="The job table to write, .parquet or .csv.")
]


def usd(text: str | None) -> str | None:
    """Read an amount of money from an option: ``1000000``, ``1_000_000``, ``$1,000,000``, ``1.2M``, ``900k``.

    Raises
    ------
    typer.BadParameter
        It is none of these.
    """
    if text is None:
        return None
    match = re.fullmatch(r"\s*(?:US)?\$?\s*((?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d+)?)\s*([kKmM]?)\s*", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no amount in US$; write 1000000, $1,000,000 or 1.2M")
    number = match.group(1).replace(",", "").replace("_", "")
    return str(Decimal(number) * {"": 1, "k": 1_000, "m": 1_000_000}[match.group(2).lower()])


def note(text: str) -> None:
    """Tell the user something that is not the answer: on stderr, so that stdout stays machine-readable."""
    typer.echo(text, err=True)


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
    typer.echo(json.dumps(plain(document), ensure_ascii=False, indent=2))


def print_table(frame: pd.DataFrame, output: Format, title: str = "") -> None:
    """Print a frame as a table for people, a JSON list of records, or CSV."""
    if output is Format.JSON:
        print_json(frame.to_dict(orient="records"))
    elif output is Format.CSV:
        frame.to_csv(sys.stdout, index=False)
    else:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table(title=escape(title) or None, title_justify="left", header_style="bold")
        for name in frame.columns:
            number = frame[name].dtype.kind in "iuf"
            table.add_column(escape(str(name)), justify="right" if number else "left", overflow="fold")
        for row in frame.itertuples(index=False):
            table.add_row(*(escape(cell(value)) for value in row))
        Console().print(table)


def print_record(record: dict[str, Any], output: Format, title: str = "") -> None:
    """Print one thing's figures: a JSON object, a CSV line, or a name and a value per line."""
    if output is Format.JSON:
        print_json(record)
    elif output is Format.CSV:
        import pandas as pd

        pd.DataFrame([plain(record)]).to_csv(sys.stdout, index=False)
    else:
        if title:
            typer.echo(title)
        width = max(map(len, record), default=0)
        for name, value in record.items():
            typer.echo(f"  {name:<{width}}  {cell(value)}")


def cell(value: Any) -> str:
    """Write one value for people: thousands separated, floats to three places, a dash for nothing."""
    value = plain(value)
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return str(value)
