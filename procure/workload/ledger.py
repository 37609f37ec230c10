"""Account for every row of a log: how its cells are read, which rows a reader keeps, and why it drops the others."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from procure.errors import TableError
from procure.files import as_utf8, check_parquet, from_json, read_bytes
from procure.files.read import damage_of
from procure.schemas import JOB
from procure.tables import as_floats, check, with_clock
from procure.text import clock_seconds, counted, nearest, printable, short
from procure.workload.describe import oddities

MEMORY_BYTES = {
    "B": 1, "kB": 10**3, "KB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30,
    "TB": 10**12, "TiB": 2**40,
}  # fmt: skip
"""Memory units that a mapping may state; the job table holds MB of 10^6 bytes."""

SECONDS = {"s": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 0.001, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Time units that a mapping may state; the job table holds seconds."""

COUNTS = {"milli": 1000, "percent": 100}
"""Parts of a CPU or GPU that a mapping may state: so many are one."""

PER = ("node", "job", "cpu")
LONGEST_LIMIT = 10 * 365 * 86_400
"""A time limit of ten years or more is none: logs write the largest number that fits (2,147,483,647 s) for it."""
MOST_MEMORY = 4_000_000
"""MB; no job asks for more memory per CPU, so a log that says so is read in a wrong unit."""


def memory_mb(values: np.ndarray, unit: str) -> np.ndarray:
    """Turn memory into MB, not yet rounded."""
    if unit not in MEMORY_BYTES:
        raise TableError(f"unknown memory unit {unit!r}; {nearest(unit, MEMORY_BYTES)}")
    return values * MEMORY_BYTES[unit] / 1e6


def real_limits(values: np.ndarray) -> np.ndarray:
    """Return time limits in seconds, 0 where one is so long that it is none."""
    return np.where(values >= LONGEST_LIMIT, 0, values)


def seconds(values: np.ndarray, unit: str) -> np.ndarray:
    """Turn durations into whole seconds, rounded up."""
    return np.ceil(values * SECONDS[unit])


def per_node(amount: np.ndarray, per: str, n_nodes: np.ndarray, cpus_per_node: np.ndarray) -> np.ndarray:
    """Turn an amount per job, node or CPU into one per node, rounded up."""
    if per not in PER:
        raise TableError(f"an amount is per node, job or cpu; {per!r} was given")
    return np.ceil({"node": amount, "job": amount / n_nodes, "cpu": amount * cpus_per_node}[per])


def by_value(text: pd.Series, parse: Callable[[str], tuple], dtype: list[type]) -> list[np.ndarray]:
    """Parse each different text once and spread the answers over the rows, one array per field."""
    codes, different = pd.factorize(text.fillna("").astype(str))
    answers = [parse(value.strip()) for value in different]
    fields = zip(*answers, strict=True) if answers else [() for _ in dtype]
    return [np.array(values, dtype=kind)[codes] for values, kind in zip(fields, dtype, strict=True)]


_UNREADABLE = "unreadable row"


@dataclass(frozen=True)
class Imported:
    """A log turned into a job table, with an account of every row.

    ``jobs`` is a checked job table in the log's row order, whose ``attrs["clock"]`` is ``unix`` or
    ``log``. ``n_read`` counts the log's rows, ``dropped`` those not kept, by reason; ``notes`` are
    sentences on how the log was read, ``warnings`` on what looks wrong in it. ``origin`` is the Unix second at
    which the log's own clock shows 0. ``shape`` are the shares of the core-hours whose jobs asked for ``tasks``, for
    ``nodes``, and of which that is ``unknown``, for the reason ``unknown``.
    """

    jobs: pd.DataFrame
    n_read: int
    dropped: dict[str, int]
    notes: list[str]
    origin: int = 0
    warnings: list[str] = field(default_factory=list)
    shape: dict[str, float] = field(default_factory=dict)
    unknown: str = ""

    def account(self) -> list[str]:
        """Say in sentences how many rows were kept and dropped, why, and how the log was read."""
        said = [f"{counted(self.n_read, 'row')} read, {counted(len(self.jobs), 'job')} kept"]
        said += [f"dropped {count:,}: {reason}" for reason, count in self.dropped.items()]
        if self.shape:
            tasks, nodes, unknown = (f"{round(100 * self.shape[name])} %" for name in ("tasks", "nodes", "unknown"))
            why = f" ({self.unknown})" if self.unknown and self.shape["unknown"] else ""
            said.append(f"{tasks} of the core-hours asked for tasks, {nodes} for nodes, {unknown} unknown{why}")
        return [*said, *self.notes, *(f"careful: {text}" for text in self.warnings)]


@dataclass
class Ledger:
    """Which rows of a log are kept, and why the others are not.

    ``rows`` are the row numbers that a user sees, one per row of the frame; ``line`` is what
    such a number is called in this format. ``shape`` is what each row's job asked for, ``tasks``, ``nodes`` or
    ``unknown``, with the reason of the last.
    """

    source: str
    rows: np.ndarray
    n_read: int
    skip_bad_rows: bool = False
    line: str = "row"
    dropped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    keep: np.ndarray = field(init=False)
    shape: np.ndarray | str = "unknown"
    unknown: str = ""

    def __post_init__(self) -> None:
        self.keep = np.ones(len(self.rows), dtype=bool)

    def note(self, text: str) -> None:
        """Keep a sentence on how the log was read, once."""
        if text not in self.notes:
            self.notes.append(text)

    def drop(self, rows: np.ndarray, reason: str) -> None:
        """Drop the marked rows that are still kept."""
        hit = np.asarray(rows, dtype=bool) & self.keep
        if hit.any():
            self.dropped[reason] = self.dropped.get(reason, 0) + int(hit.sum())
            self.keep &= ~hit

    def refuse(self, rows: np.ndarray, column: str, given: pd.Series, wanted: str) -> None:
        """Complain of the first marked row that is still kept, or drop all of them if that was asked for."""
        hit = np.flatnonzero(np.asarray(rows, dtype=bool) & self.keep)
        if hit.size:
            value = short(str(given.iloc[hit[0]]))
            self._complain(f"{self.line} {self.rows[hit[0]]}, column {column}: {value} is not {wanted}", "row")
            self.drop(rows, _UNREADABLE)

    def refuse_decades(self, run_time: np.ndarray) -> None:
        """Refuse runs of ten years and more: a time is missing then, or written in another unit."""
        years = pd.Series(run_time / (365 * 86_400), index=range(len(run_time))).map("{:.0f} years".format)
        wanted = "the run of a job: is a time missing, or in another unit"
        self.refuse(run_time >= LONGEST_LIMIT, "run time", years, wanted)

    def warn_of_gpus(self, frame: pd.DataFrame, how: str) -> None:
        """Name a column that seems to tell of GPUs where none is read: such jobs would ask for none, unseen."""
        for name in map(str, frame.columns):
            sure = re.search("gpu|accel|cuda", name, re.IGNORECASE)
            if sure or re.search("gres|tres", name, re.IGNORECASE):
                text = frame[name][~absent(frame[name])].astype(str).str.strip().str.lower()
                if (~text.isin(["0", "0.0", "false"]) if sure else text.str.contains(r"gpu(?![a-z])")).any():
                    said = f"no job asks for a GPU, as column {printable(name)} is not read; {how.format(name)}"
                    self.warnings.append(said)
                    return

    def count(self, rows: np.ndarray, what: str) -> None:
        """Note what holds of so many of the jobs that are kept, if of any."""
        if n := int((rows & self.keep).sum()):
            self.note(f"{counted(n, 'job')} {what}")

    def skip_lines(self, n: int, problem: str) -> None:
        """Complain of n lines that are no rows at all, or count them as dropped if that was asked for."""
        self._complain(problem, self.line)
        self.dropped[_UNREADABLE] = n

    def _complain(self, problem: str, line: str) -> None:
        if not self.skip_bad_rows:
            raise TableError(
                f"{self.source}, {problem}; correct the {line}, or drop such {line}s with --set skip_bad_rows=true"
            )
        self.note(f"unreadable row, first: {problem}")

    def finish(self, columns: dict[str, object], clock: str, strict: bool, origin: int = 0) -> Imported:
        """Return the rows that are kept, checked; dropping a row is an error if ``strict``.

        ``columns`` is emptied, for memory's sake.
        """
        account = "; ".join(f"{reason}: {count:,}" for reason, count in self.dropped.items())
        if strict and self.dropped:
            raise TableError(
                f"{self.source}: {sum(self.dropped.values()):,} of {self.n_read:,} rows would be dropped "
                f"({account}) and --set strict=true allows none"
            )
        if not self.keep.any():
            why = f"all {self.n_read:,} rows were dropped ({account})" if self.n_read else "it has no rows"
            raise TableError(f"{self.source}: holds no job; {why}")
        for name, values in columns.items():
            columns[name] = _as_whole(values) if name in JOB.by_name else values
        frame = pd.DataFrame(columns, index=range(len(self.keep)), copy=False)
        columns.clear()
        frame = frame if self.keep.all() else frame.loc[self.keep]
        for later, earlier, one, more in _DISORDER:
            known = {later, earlier} <= set(frame.columns)
            n = int((frame[later].astype("float64") < frame[earlier].astype("float64")).sum()) if known else 0
            if n:
                self.note(f"kept, but look at the log's clock: {counted(n, 'job')} that {one if n == 1 else more}")
        if {"start_time", "end_time", "run_time"} <= set(frame.columns):
            between = frame["end_time"].astype("float64") - frame["start_time"].astype("float64")
            odd = (frame["run_time"] > between + 60) | (30 * frame["run_time"] < between - 600)
            if n := int((odd & (between >= 0)).sum()):
                self.note(f"kept, but look at the unit: {counted(n, 'job')} with a run time far from end less start")
        if "requested_time" in frame.columns:
            limits = frame["requested_time"].to_numpy(dtype=float)
            frame["requested_time"] = real_limits(limits)
            if n := int((limits >= LONGEST_LIMIT).sum()):
                self.note(f"no time limit: {counted(n, 'job')} whose limit is ten years or more")
        jobs = with_clock(check(frame, JOB, self.source), clock)
        del frame
        work = jobs["n_nodes"] * jobs["cpus_per_node"] * jobs["run_time"].astype(float)
        work = work if work.any() else work + 1
        asked = np.broadcast_to(self.shape, len(self.keep))[self.keep]
        shape = {name: float(work[asked == name].sum() / work.sum()) for name in ("tasks", "nodes", "unknown")}
        warnings = [*self.warnings, *oddities(jobs)]
        return Imported(jobs, self.n_read, dict(self.dropped), list(self.notes), origin, warnings, shape, self.unknown)


def _as_whole(values: object) -> object:
    """Return integers where all values are whole amounts, so that the check needs no second column beside."""
    if not isinstance(values, np.ndarray) or values.dtype != np.float64:
        return values
    whole = ((values >= 0) & (values < 2.0**53) & (values == np.floor(values))).all()
    return values.astype(np.int64) if whole else values


_DISORDER = (
    ("start_time", "submit_time", "starts before it was submitted", "start before they were submitted"),
    ("end_time", "start_time", "ends before it starts", "end before they start"),
)
_ABSENT = ("", "na", "n/a", "nan", "nat", "none", "null", "unknown", "-", "\\n", "(null)", "0000-00-00 00:00:00")


def absent(text: pd.Series) -> np.ndarray:
    """Mark missing cells: empty, NA, None, Unknown and the like."""
    if pd.api.types.is_numeric_dtype(text.dtype):
        return text.isna().to_numpy(dtype=bool)
    return (text.isna() | text.astype(str).str.strip().str.lower().isin(_ABSENT)).to_numpy(dtype=bool)


def numbers(text: pd.Series, column: str, ledger: Ledger, most: float = 2.0**53) -> np.ndarray:
    """Return float64 numbers, NaN where missing; text, infinity and ``most`` or more are refused."""
    values = as_floats(text)
    unreadable = np.isnan(values) & ~absent(text)
    commas = "; write 1.5 for 1,5" if text[unreadable].astype(str).str.contains(",").any() else ""
    ledger.refuse(unreadable, column, text, f"a number{commas}")
    huge = np.abs(values) >= most
    ledger.refuse(huge, column, text, "a number below 2^53")
    return np.where(unreadable | huge, np.nan, values)


def cancelled_in_queue(state: pd.Series, start: np.ndarray, end: np.ndarray, run_time: np.ndarray) -> np.ndarray:
    """Mark jobs that were cancelled as they waited: Slurm writes their end as their start, and nothing elapsed."""
    return state.str.upper().str.startswith("CANCEL").to_numpy(bool) & (start == end) & ~(run_time > 0)


_LATIN = "procure-latin-1"


def _from_latin(error: UnicodeError) -> tuple[str, int]:
    """Read bytes that are no UTF-8 as Latin-1, so that different names do not become one."""
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error(_LATIN, _from_latin)


def log_bytes(path: str | Path) -> bytes:
    """Return a log's text in UTF-8, decompressed; an empty or damaged file is a TableError."""
    content = as_utf8(read_bytes(path))
    content = content if content.isascii() else content.decode(errors=_LATIN).encode()
    if not content.strip():
        raise TableError(f"{path}: the file is empty; it holds no job")
    if b"\0" in content[:1000]:
        way = "name a file in Parquet NAME.parquet" if content[:4] == b"PAR1" else "unpack an archive"
        raise TableError(f"{path}: is no text: {way}; save a spreadsheet or a database's table as CSV")
    return content if b"\n" in content else content.replace(b"\r", b"\n")


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
            except (ValueError, LookupError, csv.Error) as error:
                value = re.search(r"^invalid literal .*: ('.*')$", str(error))
                self.bad(number, line, f"{wanted}: {value[1]} is no number" if value else wanted)
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
