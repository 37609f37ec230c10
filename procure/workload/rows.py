"""Rows of a log of another batch system, under the names of sacct's fields: one reader has the rules for all."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from procure.errors import TableError
from procure.files import check_parquet, from_json
from procure.files.read import damage_of
from procure.text import clock_seconds, counted, printable, short
from procure.workload.ledger import Ledger


class Rows:
    """What a reader finds in a text: rows, what it skips, and its sentences."""

    def __init__(self, text: str) -> None:
        """Begin with nothing read."""
        self._text = text
        self._notes = Counter[str]()
        self._rows: dict[int, dict[str, str]] = {}
        self._skipped = Counter[str]()
        self._unread = Counter[str]()
        self._bad: list[str] = []

    def lines(self) -> Iterator[tuple[int, str]]:
        """Give the lines that hold anything, with their numbers."""
        for number, line in enumerate(self._text.split("\n"), 1):
            if line.strip():
                yield number, line.rstrip("\r")

    def take(self, read: Callable[[Rows, int, str], None], wanted: str) -> Rows:
        """Read each line; one that gives an error of a value is bad."""
        for number, line in self.lines():
            try:
                read(self, number, line)
            except (ValueError, LookupError, csv.Error):
                self.bad(number, line, wanted)
        return self

    def add(self, number: int, **fields: Any) -> None:
        """Take a row: sacct's fields as text."""
        self._rows[number] = {name.lower(): "" if value is None else str(value) for name, value in fields.items()}

    def skip(self, reason: str) -> None:
        """Count a line that is no job's."""
        self._skipped[reason] += 1

    def bad(self, number: int, line: str, wanted: str) -> None:
        """Keep a line that cannot be read."""
        self._bad.append(f"line {number}: {short(line)} is not {wanted}")

    def note(self, text: str) -> None:
        """Keep a sentence on how the log is read, once; ``{jobs}`` in it becomes how often it was said."""
        self._notes[text] += 1

    def unread(self, names: Iterable[str]) -> None:
        """Count resources that a job asked for by these names, and that are not read."""
        self._unread.update(sorted({*names}))

    def table(self, source: str, skip_bad_rows: bool) -> tuple[pd.DataFrame, Ledger]:
        """Return the rows as text, and the ledger that accounts for every line."""
        n = len(self._rows) + self._skipped.total() + len(self._bad)
        ledger = Ledger(source, np.array(list(self._rows), np.int64), n, skip_bad_rows, "line")
        if self._bad:
            ledger.skip_lines(len(self._bad), self._bad[0])
        ledger.dropped |= self._skipped
        ledger.notes += [text.replace("{jobs}", counted(n, "job")) for text, n in self._notes.items()]
        if others := [f"{name} ({counted(n, 'job')})" for name, n in self._unread.most_common(30)]:
            ledger.note(f"asked for and not read: {printable(', '.join(others))}")
        return pd.DataFrame([*self._rows.values()], dtype=object).fillna(""), ledger


def parquet_text(path: Path, mapped: Collection[str]) -> pd.DataFrame:
    """Read a table in Parquet as text: its columns of one value a row, and those that a mapping names."""
    try:
        schema = pq.read_schema(path)
        names = [one.name for one in schema if one.name in mapped or not pa.types.is_nested(one.type)]
        check_parquet(path, names)
        frame = pd.read_parquet(path, columns=names)
    except (OSError, pa.ArrowException):
        raise TableError(f"{path}: cannot be read as Parquet: {damage_of(path)}; write it anew") from None
    frame = frame.reset_index(drop=frame.index.names == [None])  # of rows that were chosen; or it holds the ids
    return frame.astype(object).where(frame.notna(), "").astype(str)


def documents(text: str) -> list[Any]:
    """Return the documents of a text in JSON: one, or several one behind the other."""
    try:
        return [from_json(text)]
    except ValueError as error:
        try:
            return [from_json("{" * (n > 0) + one) for n, one in enumerate(text.split("\n{"))]
        except ValueError:
            raise error from None


def clock(text: str) -> str:
    """Return the seconds of ``[DD:]HH:MM:SS`` or of a number of seconds as text; empty for anything else."""
    text = re.sub(r"^(\d+):(\d+:\d+:\d+)$", r"\1-\2", text)
    try:
        return str(int(text) if text.isdigit() else int(clock_seconds(text)))
    except ValueError:
        return ""


def duration(seconds: str) -> str:
    """Return seconds as a clock's ``MM:SS``; empty where there are none."""
    return f"0:{seconds}" if int(seconds or 0) else ""
