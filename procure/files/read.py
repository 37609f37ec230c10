"""Files that users have: compressed, from a pipe, of any separator; none a bomb, and none larger than the memory."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import csv
import functools
import gzip
import io
import json
import lzma
import sys
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from procure.errors import TableError

UNPACKED_BYTES, UNPACKED_RATIO = 64_000_000, 64
"""A compressed file may unpack to this many bytes, or to this multiple of its size if that is more."""
_BLOCK = 1 << 22
_VALUE_BYTES = 8

_SEPARATORS = ",;\t"
MOST_COLUMNS = 20_000
"""Columns of delimited text: a package table has one for each quoted type."""
_LONGEST_FIELD = 2**27


def is_file(path: Path) -> bool:
    """Tell whether a file is there; a name that no file can have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def existing_file(path: str | Path) -> Path:
    """Return the path of a file or pipe that is there, else raise; ``-`` is standard input."""
    path = Path(path)
    try:
        if path.is_dir():
            raise TableError(f"{path}: is a folder; name a file")
        if path.exists() or str(path) == "-":
            return path
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}") from None
    raise TableError(f"{path}: no such file")


def read_bytes(path: str | Path) -> bytes:
    """Return a file's content, decompressed if its first bytes say so (.gz .bz2 .xz .zst); ``-`` is standard input."""
    path = existing_file(path)
    try:
        packed = _standard_input() if str(path) in ("-", "/dev/stdin") else path.read_bytes()
        return _decompressed(packed, path)
    except TableError:
        raise
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        why = getattr(error, "strerror", None) or "unpack it, or copy it again"
        raise TableError(f"{path}: cannot be read, is it truncated or damaged? {why}") from None


@functools.cache
def _standard_input() -> bytes:
    return sys.stdin.buffer.read()


def _decompressed(packed: bytes, path: Path) -> bytes:
    opener = next((one for mark, one in _OPENERS.items() if packed.startswith(mark)), None)
    if opener is None:
        return packed
    most = max(UNPACKED_BYTES, UNPACKED_RATIO * len(packed))
    content = io.BytesIO()
    with opener(packed) as stream:
        while block := stream.read(_BLOCK):
            content.write(block)
            if content.tell() > most:
                raise TableError(
                    f"{path}: its {len(packed):,} bytes unpack to more than {most:,}, {UNPACKED_RATIO} times as many, "
                    "as a harmful file does; if it is what it should be, unpack it and give the plain file"
                )
    return content.getvalue()


_OPENERS: dict[bytes, Callable[[bytes], Any]] = {
    b"\x1f\x8b": lambda packed: gzip.GzipFile(fileobj=io.BytesIO(packed)),
    b"BZh": lambda packed: bz2.BZ2File(io.BytesIO(packed)),
    b"\xfd7zXZ": lambda packed: lzma.LZMAFile(io.BytesIO(packed)),  # noqa: SIM115 - the caller closes it
    b"\x28\xb5\x2f\xfd": lambda packed: pa.input_stream(pa.py_buffer(packed), compression="zstd"),
}


def from_json(text: str | bytes) -> Any:
    """Return what JSON holds; a ValueError, too, where it is nested deeper than Python reads."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its lists or objects are nested too deep") from None


def is_parquet(content: bytes) -> bool:
    """Tell whether bytes are a Parquet file's, by the mark at both ends."""
    return content[:4] == content[-4:] == b"PAR1" and len(content) > 8


def damage_of(path: Path | io.BytesIO) -> str:
    """Say where a Parquet file cannot be read."""
    first = 1
    with contextlib.suppress(OSError, ValueError, pa.ArrowException), pq.ParquetFile(path) as file:
        for n in range(file.num_row_groups):
            try:
                file.read_row_group(n)
            except (OSError, ValueError, pa.ArrowException):
                return f"row group {n + 1} of {file.num_row_groups}, from row {first:,} on, is damaged"
            first += file.metadata.row_group(n).num_rows
    return "it is cut off, damaged, or of another kind"


def check_parquet(path: Path | io.BytesIO, names: Collection[str] | None = None) -> None:
    """Refuse Parquet's columns, all or those named, of lists, or of far more values or text than its size tells."""
    size = path.stat().st_size if isinstance(path, Path) else path.getbuffer().nbytes
    most = max(UNPACKED_BYTES, UNPACKED_RATIO * size)
    with pq.ParquetFile(path) as file:
        # Of row groups as a whole: where a column's own account is damaged, Arrow ends the process.
        groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
        columns = [file.schema.column(n) for n in range(file.metadata.num_columns)]
        columns = [one for one in columns if names is None or one.path.partition(".")[0] in names]
        lists = next((column.path for column in columns if column.max_repetition_level), None)
        if lists is not None:
            raise TableError(f"{path}: column {lists.partition('.')[0]} holds lists; a cell of a table is one value")
        unpacked = _VALUE_BYTES * len(columns) * sum(group.num_rows for group in groups)
        # Reading a column takes memory for its pages: what they unpack to is looked at first.
        pages = sum(group.total_byte_size for group in groups)
        unpacked = max(unpacked, pages) if pages > most else unpacked
        texts = {column.path for column in columns if column.physical_type == "BYTE_ARRAY"}
    # A text that stands once in a dictionary may stand in every row: as indices it is read without being repeated.
    for name in texts if unpacked <= most else ():
        column = pq.read_table(path, columns=[name], read_dictionary=[name], partitioning=None).column(0)
        for piece in column.chunks if pa.types.is_dictionary(column.type) else ():
            lengths = pc.take(pc.binary_length(piece.dictionary), piece.indices)
            unpacked += pc.sum(pc.cast(lengths, pa.int64())).as_py() or 0
    if unpacked > most:
        name = path if isinstance(path, Path) else "-"
        raise TableError(
            f"{name}: its {size:,} bytes unpack to {unpacked:,}, more than the {most:,} that a table of this size "
            "may take; if it is what it should be, give it as plain CSV"
        )


def as_utf8(content: bytes) -> bytes:
    """Return text without its byte-order mark, in UTF-8; UTF-16 of spreadsheets is known by its mark, or its zeros."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", errors="replace").encode("utf-8")
    for at, code in ((1, "utf-16-le"), (0, "utf-16-be")):
        if content[at:4:2] == b"\0\0":
            return content.decode(code, errors="replace").encode("utf-8")
    return content.removeprefix(codecs.BOM_UTF8)


def read_rows(content: bytes, source: str, encoding_errors: str = "strict") -> pd.DataFrame:
    """Read delimited text with a header as text columns, their names stripped.

    Commas, semicolons or tabs separate, whichever splits the header into the most fields. A cell that a short row lacks
    is empty. Fields beyond the header's are left out where they are empty in every row, as a spreadsheet's trailing
    commas are, and an error otherwise; so is a column without name and content. Without a header it raises
    `pandas.errors.EmptyDataError`.
    """
    content = as_utf8(content)
    header = next((line for line in content[:65536].splitlines() if line.strip()), b"").decode("utf-8", "replace")
    separator = max(_SEPARATORS, key=lambda sep: len(next(csv.reader([header], delimiter=sep))))
    n = content[:_BLOCK].lstrip().split(b"\n", 1)[0].count(separator.encode()) + 1
    if n > MOST_COLUMNS:
        raise TableError(f"{source}: the first line has {n:,} columns; at most {MOST_COLUMNS:,} can be read")
    form: dict[str, Any] = {
        "sep": separator,
        "dtype": str,
        "keep_default_na": False,
        "skipinitialspace": True,
        "encoding_errors": encoding_errors,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(io.BytesIO(content), index_col=False, **form)
    except (pd.errors.ParserWarning, pd.errors.ParserError):  # a row has more fields than the header
        trimmed = _without_extra_fields(content.decode("utf-8", encoding_errors), separator, source)
        frame = pd.read_csv(trimmed, index_col=False, **form)
    nameless = [n for n in frame.columns if str(n).startswith("Unnamed: ") and not frame[n].any()]
    return frame.drop(columns=nameless).rename(columns=lambda name: str(name).strip())


def _without_extra_fields(text: str, separator: str, source: str) -> io.StringIO:
    """Return the text without the fields beyond the header's, if they are empty in every row."""
    out = io.StringIO()
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        rows = (
            row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True) if row
        )
        header = next(rows)
        writer = csv.writer(out, delimiter=separator, quoting=csv.QUOTE_ALL)  # a lone return, too
        writer.writerow(header)
        for number, row in enumerate(rows, start=1):
            if any(cell.strip() for cell in row[len(header) :]):
                raise TableError(
                    f"{source}, row {number}: cannot be read as CSV: {len(row)} fields where the header has "
                    f"{len(header)}; is a separator inside a value that is not quoted?"
                )
            writer.writerow(row[: len(header)])
    except csv.Error as error:
        raise TableError(f"{source}: cannot be read as CSV: {error}") from None
    finally:
        csv.field_size_limit(before)
    out.seek(0)
    return out


OF_PROCESS, OF_LOGGED, OF_JOB = 250_000_000, 560, 1_000
"""Bytes that a command takes, and for each job while it reads a log, and while it simulates or explains waits; measured
with 10⁷ jobs of up to 256 tasks, the last before tables were let go: 600 do where no schedule is kept or written."""
CERTAIN = 1.5
"""Times the whole memory: jobs of one node take two thirds of that, and still do not fit."""
_ROW = 70
_PACKED = {".gz", ".bz2", ".xz", ".zst"}
_PACKED_RATIO = 8


def _limits(own: Path, root: Path) -> Iterator[tuple[int, int]]:
    """Return what is free of each limit of memory that a process is under, and the limit; none outside Linux."""
    for line in own.read_text().splitlines() if own.is_file() else ():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            top, most, used = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        elif not controllers:
            top, most, used = root, "memory.max", "memory.current"
        else:
            continue
        folder = top / path.lstrip("/")
        for one in (folder, *folder.parents):
            try:
                limit = int((one / most).read_text())
                yield max(0, limit - int((one / used).read_text())), limit
            except (OSError, ValueError):  # no such controller here, or no limit: "max"
                continue


def jobs_in(path: Path) -> int:
    """Return how many jobs a table or log holds, by its size unless it is Parquet; 0 where that cannot be told."""
    try:
        if path.suffix == ".parquet":
            return int(pq.read_metadata(path).num_rows)
        return path.stat().st_size * (_PACKED_RATIO if path.suffix in _PACKED else 1) // _ROW if path.is_file() else 0
    except (OSError, ValueError):  # what is wrong with it says who reads it
        return 0


def lacking(what: str, n: int, each: int, remedy: str, processes: int = 1) -> str | None:
    """Say that processes with ``n`` jobs each, of so many bytes, need more memory than is free; None = they do not.

    That they need far more than there is, is an error.
    """
    machine = psutil.virtual_memory()  # a cgroup such as Slurm's may allow less
    both = [(machine.available, machine.total), *_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))]
    free, total = min(free for free, _ in both), min(total for _, total in both)
    need = processes * (OF_PROCESS + n * each)
    if need <= free:
        return None
    fit = max(0, free // processes - OF_PROCESS) // each
    said = (
        f"{what} need about {need / 1e9:.1f} GB of memory, and {free / 1e9:.1f} of {total / 1e9:.1f} GB are free, "
        f"enough for {fit:,} jobs; {remedy}, or a machine with more memory"
    )
    if need > CERTAIN * total:
        raise TableError(said)
    return said
