"""Shared by all commands: output formats, tables that fit the terminal, notes, and errors as bad usage."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pandas as pd
import typer
from pydantic import TypeAdapter, ValidationError
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from procure.cli.lazy import MADE_UP
from procure.errors import ArgumentError, TableError
from procure.files.read import OF_JOB, OF_LOGGED, jobs_in, lacking
from procure.files.write import as_csv
from procure.page.names import head
from procure.schemas import as_logged
from procure.settings import merged, problems
from procure.tables import JOB, check_name, read, write
from procure.text import format_value, money, nearest, plain, printable, seconds
from procure.workload import Imported, LogSettings, read_log
from procure.workload.clock import zone
from procure.workload.describe import oddities
from procure.workload.log_settings import ColumnMap, LogFormat, parse_column
from procure.workload.shapes import Shape

_IDS = ("package_id", "package")
_LEAST = 12
"""Characters that text wraps to if need be; numbers and names of one word stay whole."""
_PIPED = 10_000
"""Characters of a line where nobody reads it on a terminal."""
_AMOUNT = re.compile(r"–|-?[\d.,]+%?(?: [a-z]+(?: \d+ [a-z]+)?)?")
"""What stands at the right edge of its column: a number, with its unit or two."""


def lay_out(frame: pd.DataFrame, title: str, units: Mapping[str, str]) -> None:
    """Print a frame as a table; where it would be too wide, each row by itself, a line per column."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPED
    if title:
        # Not wrapped: programs and people look for its words, and a terminal wraps it itself.
        console.print(escape(printable(title)), style="italic", highlight=False, soft_wrap=True)
    for narrow in (False, True):
        table = _table(frame, units, narrow)
        size = Measurement.get(console, console.options.update_width(_PIPED), table)
        if (size.minimum if narrow else size.maximum) <= console.width:
            console.print(table)
            return
    for row in zip(*(column.cells for column in table.columns), strict=True):
        record = Table(show_header=False, box=None, pad_edge=False)
        for column, text in zip(table.columns, row, strict=True):
            record.add_row(str(column.header).replace("\n", ""), text)
        console.print(record, "")


def cells(values: pd.Series, unit: str) -> list[str]:
    """Write a column's cells, numbers without a unit with as many decimals as the largest of them is worth."""
    if values.dtype.kind != "f" or unit:
        return [format_value(value, unit if values.dtype.kind in "iuf" else "") for value in values]
    places = _places(values)
    return ["–" if plain(value) is None else f"{value:,.{places}f}" for value in values]


def _places(values: pd.Series) -> int:
    """Return the decimal places of a column: none for whole numbers, fewer the larger the largest is."""
    known = values[values.notna() & ~values.isin([math.inf, -math.inf])].abs()
    if not len(known) or (known == known.round()).all():
        return 0
    largest = float(known.max())
    most = 3 if largest < 10 else 2 if largest < 100 else 1 if largest < 1000 else 0
    return next((n for n in range(most) if (known.round(n) == known.round(most)).all()), most)


def _table(frame: pd.DataFrame, units: Mapping[str, str], narrow: bool) -> Table:
    """Make rich's table; narrow: without rules between columns, package ids broken at their commas."""
    style: Any = {"box": box.HEAVY_HEAD, "padding": (0, 1)}
    if narrow:
        style = {"box": box.SIMPLE_HEAD, "padding": 0, "show_edge": False, "pad_edge": False}
    table = Table(header_style="bold", **style)
    columns = []
    for position, name in enumerate(map(str, frame.columns)):
        values = frame.iloc[:, position]
        said, unit = head(name, units.get(name))
        written = cells(values, unit)
        right = values.dtype.kind in "iuf" or all(_AMOUNT.fullmatch(text) for text in written)
        if narrow and name in _IDS:
            written = [text.replace(",", ",\n") for text in written]
        if narrow and "," in said and "=" in said:  # a package id as a head
            said = said.replace(",", ",\n")
        # Numbers and ids stay whole; text in a column as narrow as its longest word is hard to read.
        whole = right or name in _IDS
        words = [*said.split(), *(word for text in written for word in (text.split("\n") if whole else text.split()))]
        least = max(map(len, words), default=1)
        if not whole:
            least = max(least, min(_LEAST, max(map(len, written), default=1)))
        justify: Any = "right" if right else "left"
        table.add_column(escape(printable(said, kept="\n")), justify=justify, overflow="fold", min_width=least)
        columns.append(map(escape, written))
    for row in zip(*columns, strict=True):
        table.add_row(*row)
    return table


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
    """Report a `TableError`, or text that is no such value, as bad usage; leave ``option`` out inside a callback."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(printable(str(error), kept="\n"), param_hint=option) from None


@contextmanager
def named(**arguments: str) -> Iterator[None]:
    """Report a wrong argument of a library function as bad usage of the option that ``arguments`` gives for it."""
    try:
        yield
    except ArgumentError as error:
        if error.argument not in arguments:
            raise
        with bad_option(arguments[error.argument]):
            raise


def checked(check: Callable[[Any], object]) -> Callable[[Any], Any]:
    """Make an option's callback that refuses, before anything is computed, what a function of the library refuses."""

    def callback(value):  # type: ignore[no-untyped-def]  # Typer reads the types
        if value is not None:
            with bad_option():
                check(value)
        return value

    return callback


def refuse_given(context: typer.Context, why: str, *names: str) -> None:
    """Refuse options that were given though others make them void; ``names`` are those of the function's arguments."""
    for one in context.command.params:
        source = context.get_parameter_source(one.name or "")
        if one.name in names and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(why, param_hint=one.opts[0])


def table_option(what: str, *names: str) -> Any:
    """Return the option of a table that is written; its name tells the format."""
    help_text = f"{what}, .parquet or .csv."
    return typer.Option(*names, metavar="FILE", callback=checked(check_name), help=help_text)


def in_folder(path: Path | None) -> Path | None:
    """Refuse, before anything is computed, a file to write in a folder that is not there."""
    if path is not None and not path.parent.is_dir():
        raise TableError(f"{path.parent}: no such folder to write {path.name} to")
    return path


def set_option(of_what: str) -> Any:
    """Return the option of settings that have no option of their own; ``of_what`` says which keys there are."""
    return typer.Option("--set", metavar="KEY=VALUE", help=f"{of_what} Repeatable.")


def zone_option(of_what: str) -> Any:
    """Return the option of a time zone."""
    return typer.Option("--tz", callback=checked(zone), help=of_what)


JobsArgument = Annotated[Path, typer.Argument(metavar="JOBS", help="A job table, .parquet or .csv.")]
LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help="Format of a log; by default a preset's, or what its name says."),
]
PresetOption = Annotated[
    str | None, typer.Option(help="beocat, ccr, eagle, metacentrum, or the path of a preset .toml file.")
]
TzOption = Annotated[str | None, zone_option("Zone of times without an offset, e.g. Europe/Berlin.")]
LogSetOption = Annotated[
    list[str] | None,
    set_option(
        "How a log is read: clock (csv, swf: times are Unix seconds, the log's own seconds, local dates), "
        "cpus_per_node (of a log that counts nodes only; swf: processors to a node), mem_unit=UNIT:PER (swf; by "
        "default kB:cpu), cluster (sacct: of a file of several), fields (csv, sacct: the names of the columns of a "
        "file without a header), strict=true (fail if a row would be dropped), skip_bad_rows=true (count unreadable "
        "rows)."
    ),
]
JobsOutOption = Annotated[Path, table_option("The job table to write", "--out")]
LoggedJobsOption = Annotated[
    Path, typer.Option("--jobs", help="Job table, Parquet or CSV (see `procure workload import`).")
]
KillAtLimitOption = Annotated[
    bool, typer.Option("--kill-at-limit/--no-kill-at-limit", help="End a job at its requested time.")
]
ReportOption = Annotated[Path | None, typer.Option(callback=in_folder, help="Write one self-contained HTML file here.")]
Kind = TypeVar("Kind")


def settings_of(texts: Sequence[str] | None, kind: type[Kind], *, under: str = "", **given: Any) -> Kind:
    """Make settings of what ``--set`` says, and of options that were given (not None)."""
    return several(texts, kind, under=under, **given)[0]


def with_zone(how: LogSettings, tz: str | None) -> LogSettings:
    """Return how a log is read with the zone of its days."""
    return settings_of(None, LogSettings, **how.model_dump(exclude_unset=True) | {"tz": tz})


def several(texts: Sequence[str] | None, *kinds: Any, under: str = "", **given: Any) -> tuple[Any, ...]:
    """Make several settings of what ``--set`` says: a key is of the first that has such a field."""
    with named(settings="--set"):
        values = merged({name: one for name, one in given.items() if one is not None}, texts or ())
    found: list[Any] = []
    legal: list[str] = []
    for kind in kinds:
        names = [one.name for one in fields(kind)] if is_dataclass(kind) else list(kind.model_fields)
        own = {name: values.pop(name) for name in names if name in values}
        legal += names
        try:
            found.append(TypeAdapter(kind).validate_python(own))
        except ValidationError as error:
            said = "\n".join(under + text for text in problems(error))
            raise typer.BadParameter(printable(said, kept="\n"), param_hint="--set") from None
    gone = {key: f"it was removed: {why}" for kind in kinds for key, why in getattr(kind, "REMOVED", {}).items()}
    for name in values:
        said = gone.get(name, nearest(name, legal))
        raise typer.BadParameter(printable(f"{under}{name}: unknown key; {said}"), param_hint="--set")
    return tuple(found)


def columns_of(texts: Sequence[str]) -> dict[str, ColumnMap] | None:
    """Read the mappings of ``--column``; None where there is none."""
    with bad_option("--column"):
        return dict(parse_column(text) for text in texts) or None


def refuse_set(texts: Sequence[str] | None, why: str, *keys: str) -> None:
    """Refuse keys of ``--set`` that others make void."""
    for key in (text.partition("=")[0].strip() for text in texts or ()):
        if key in keys:
            raise typer.BadParameter(f"{key}: {why}", param_hint="--set")


def read_jobs(path: Path, settings: LogSettings, keep_unfinished: bool | LogFormat = False) -> Imported:
    """Read a log or a job table by `read_log`, and say which rows were dropped and what looks wrong."""
    note_memory(path, OF_LOGGED)
    log = read_log(path, settings, keep_unfinished=keep_unfinished)
    for reason, count in log.dropped.items():
        note(f"{path.name}: {count:,} rows dropped: {reason}")
    for warning in log.warnings:
        note(f"careful: {path.name}: {warning}")
    return log


def read_job_table(path: Path, shape: Shape = "as-logged") -> pd.DataFrame:
    """Read a job table, with its tasks or the nodes that were logged, and say what looks wrong in it."""
    note_memory(path, OF_JOB)
    jobs = read(path, JOB)
    for warning in oddities(jobs):
        note(f"careful: {path.name}: {warning}")
    return jobs if shape == "tasks" else as_logged(jobs)


def note_memory(path: Path, each: int) -> None:
    """Say that a file's jobs, of so many bytes each, will hardly fit into memory; that they never will is an error."""
    n = jobs_in(path)
    remedy = "take fewer weeks (`procure workload slice`, or a shorter log)"
    if (said := lacking(f"{path}: its {n:,} jobs, more or less,", n, each, remedy)) is not None:
        note(f"careful: {said}")


def write_to(out: Path | None, frame: pd.DataFrame, what: str = "") -> None:
    """Write a table where a file is named, and say so."""
    if out is not None:
        write(frame, out)
        note(f"wrote {what and what + ' to '}{out}")


def usd(text: str | None) -> str | None:
    """Turn an amount of money in an option's value into a plain number; see `procure.text.money`."""
    with bad_option():
        return None if text is None else str(money(text))


def seconds_of(text: str | None, option: str) -> int:
    """Read a length of time such as 3d, 12h or a number of seconds; none is 0."""
    with bad_option(option):
        return 0 if text is None else round(seconds(text))


def echo(*lines: str, err: bool = False, kept: str = "\t") -> None:
    """Print lines, of more where ``kept`` has a break; a name in one neither ends it nor rules the terminal."""
    for line in lines:
        typer.echo(printable(line, kept=kept), err=err)


def note(*lines: str) -> None:
    """Tell the user something that is not the answer: on stderr, so that stdout stays machine-readable."""
    echo(*lines, err=True)


def print_json(document: Any) -> None:
    """Print one JSON document; where the jobs of the command's study are made up, each object in it says so."""
    if MADE_UP:
        said = {"made_up": MADE_UP}
        many = document if isinstance(document, list) else [document]
        many = [one | said if isinstance(one, dict) else one for one in many]
        document = many if isinstance(document, list) else many[0]
    # JSON escapes most control characters itself; the rest stands within strings and means the same escaped.
    text = json.dumps(plain(document), ensure_ascii=False, indent=2)
    typer.echo(re.sub("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]", lambda found: f"\\u{ord(found[0]):04x}", text))


def tell(
    output: Format,
    notes: Iterable[str],
    document: Callable[[], Any],
    table: pd.DataFrame,
    people: Callable[[], None],
) -> None:
    """Print a result: its notes on stderr, then its document as JSON, its table as CSV, or what people read."""
    note(*notes)
    if output is Format.JSON:
        print_json(document())
    elif output is Format.CSV:
        _print_csv(table)
    else:
        people()


def show(found: Any, output: Format, people: Callable[[], None] | None = None) -> None:
    """Print what a stage gives, see `procure.text.Shown`; for people its table, or what ``people`` prints."""
    table = people or (lambda: print_table(found.shown(), output, found.title))
    tell(output, found.notes, found.to_dict, found.table, table)


def print_table(frame: pd.DataFrame, output: Format, title: str = "", units: Mapping[str, str] | None = None) -> None:
    """Print a frame as a table for people, a JSON list of records, or CSV.

    ``units`` tells those of columns whose names do not, see `procure.page.names.head`.
    """
    if output is Format.JSON:
        print_json(frame.to_dict(orient="records"))
    elif output is Format.CSV:
        _print_csv(frame)
    else:
        lay_out(frame, title, units or {})


def _print_csv(frame: pd.DataFrame) -> None:
    text = as_csv(frame) or ""
    sys.stdout.write(printable(text, kept="\r\n\t") if sys.stdout.isatty() else text)


def print_record(record: dict[str, Any], output: Format, title: str = "") -> None:
    """Print one thing's figures: a JSON object, a CSV line, or a name and a value per line."""
    if output is Format.JSON:
        print_json(record)
    elif output is Format.CSV:
        _print_csv(pd.DataFrame([plain(record)]))
    else:
        if title:
            echo(title)
        rows = [(*head(name), value) for name, value in record.items()]
        width = max((len(name) for name, _, _ in rows), default=0)
        for name, unit, value in rows:
            echo(f"  {name:<{width}}  {format_value(value, unit)}")
