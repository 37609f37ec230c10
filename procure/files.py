"""Files that users have (compressed, from a pipe, of any separator), and files that are written whole or not at all.

A fitted model is kept as an archive: a zip file with a JSON head, NumPy arrays without pickles, and
trees as UBJSON. Nothing in it can execute code when it is read.
"""

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
import os
import secrets
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from procure.errors import TableError

_SEPARATORS = ",;\t"
_LONGEST_FIELD = 2**27


def is_file(path: Path) -> bool:
    """Tell whether a file is there; a name that no file can have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def existing_file(path: str | Path) -> Path:
    """Return the path of a file or pipe that is there; ``-`` is standard input.

    Raises
    ------
    TableError
        It is a folder, or there is nothing.
    """
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
    """Return a file's content, decompressed by its suffix (.gz .bz2 .xz .zst); ``-`` is standard input.

    Raises
    ------
    TableError
        The file is missing, truncated or damaged.
    """
    path = existing_file(path)
    try:
        packed = _standard_input() if str(path) in ("-", "/dev/stdin") else path.read_bytes()
        return _decompressed(packed, path.suffix)
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TableError(f"{path}: cannot be read, is it truncated or damaged? {reason}") from None


@functools.cache
def _standard_input() -> bytes:
    return sys.stdin.buffer.read()


def _decompressed(packed: bytes, suffix: str) -> bytes:
    if suffix == ".gz":
        return gzip.decompress(packed)
    if suffix == ".bz2":
        return bz2.decompress(packed)
    if suffix == ".xz":
        return lzma.decompress(packed)
    if suffix == ".zst":
        with pa.input_stream(pa.py_buffer(packed), compression="zstd") as stream:
            return bytes(stream.read())
    return packed


def as_utf8(content: bytes) -> bytes:
    """Return text without its byte-order mark, in UTF-8; UTF-16, which spreadsheets write, is known by its mark."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", errors="replace").encode("utf-8")
    return content.removeprefix(codecs.BOM_UTF8)


def read_rows(content: bytes, source: str, encoding_errors: str = "strict") -> pd.DataFrame:
    """Read delimited text with a header as text columns, their names stripped.

    Parameters
    ----------
    content
        UTF-8, or UTF-16 with a byte-order mark. Commas, semicolons or tabs separate, whichever splits
        the header into the most fields.
    source
        What to call it in an error.
    encoding_errors
        ``strict``, or ``replace`` for logs.

    Returns
    -------
    pandas.DataFrame
        A cell that a short row lacks is empty. Fields beyond the header's are left out where they are
        empty in every row, as a spreadsheet's trailing commas are; so is a column without name and content.

    Raises
    ------
    TableError
        A row has more fields than the header, or the text is no delimited text.
    pandas.errors.EmptyDataError
        There is no header.
    """
    content = as_utf8(content)
    separator = _separator(content)
    form: dict[str, Any] = {
        "sep": separator, "dtype": str, "keep_default_na": False, "skipinitialspace": True,
        "encoding_errors": encoding_errors,
    }  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(io.BytesIO(content), index_col=False, **form)
    except (pd.errors.ParserWarning, pd.errors.ParserError):  # a row has more fields than the header
        trimmed = _without_extra_fields(content.decode("utf-8", encoding_errors), separator, source)
        frame = pd.read_csv(trimmed, index_col=False, **form)
    nameless = [n for n in frame.columns if str(n).startswith("Unnamed: ") and not frame[n].any()]
    return frame.drop(columns=nameless).rename(columns=lambda name: str(name).strip())


def _separator(content: bytes) -> str:
    header = next((line for line in content[:65536].splitlines() if line.strip()), b"").decode(
        "utf-8", "replace"
    )
    return max(_SEPARATORS, key=lambda sep: len(next(csv.reader([header], delimiter=sep))))


def _without_extra_fields(text: str, separator: str, source: str) -> io.StringIO:
    """Return the text without the fields beyond the header's, if they are empty in every row."""
    out = io.StringIO()
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        rows = (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row)
        header = next(rows)
        writer = csv.writer(out, delimiter=separator)
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


@contextlib.contextmanager
def whole_file(path: str | Path, *, durable: bool = True) -> Iterator[Path]:
    """Give a temporary file to write to, which becomes ``path`` only when the block ends without error.

    Parameters
    ----------
    path
        Where the file is to be; a file of that name is replaced.
    durable
        Flush the file to the disk before it is renamed, so that it outlives a power cut.

    Raises
    ------
    TableError
        The folder is missing, the disk is full, or writing is not allowed.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}{path.suffix}")
    try:
        temporary.open("xb").close()  # a plain open gives the file the permissions of the user's umask
    except OSError as error:
        raise TableError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        yield temporary
        if durable:
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise TableError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(frozen=True)
class Archive:
    """A fitted model as plain data: ``head`` for JSON, ``arrays`` by name, ``trees`` as UBJSON by name."""

    head: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    trees: Mapping[str, bytes] = field(default_factory=dict)


def write_archive(path: str | Path, archive: Archive) -> None:
    """Write an archive, whole or not at all; the same content is the same bytes.

    Raises
    ------
    TableError
        The file cannot be written.
    ValueError
        An array holds Python objects.
    """
    packed = io.BytesIO()
    for name, array in archive.arrays.items():
        if array.dtype.hasobject:
            raise ValueError(f"array {name} holds Python objects")
    np.savez(packed, **dict(archive.arrays))  # type: ignore[arg-type]  # NumPy's types end at allow_pickle
    parts = {"head.json": json.dumps(dict(archive.head)).encode(), "arrays.npz": packed.getvalue()}
    parts |= {f"{name}.ubj": content for name, content in archive.trees.items()}
    with whole_file(path) as temporary, zipfile.ZipFile(temporary, "w") as file:
        for name, content in parts.items():  # an entry without a date, so that equal models are equal bytes
            file.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 6)


def read_archive(path: str | Path, schema: str, hint: str = "") -> Archive:
    """Read an archive whose head states a schema.

    Parameters
    ----------
    schema
        What ``head["schema"]`` must be.
    hint
        What to do where there is no such file, for the error.

    Raises
    ------
    TableError
        No such file, a damaged one, or one of another schema or version.
    """
    path = Path(path)
    if not path.is_file():
        raise TableError(f"{path}: no such file{hint}")
    try:
        with zipfile.ZipFile(path) as file:
            head = json.loads(file.read("head.json"))
            if head.get("schema") != schema:
                raise TableError(
                    f"{path}: the model's schema is {head.get('schema')!r}, this version reads {schema!r}; "
                    "train it again"
                )
            with np.load(io.BytesIO(file.read("arrays.npz")), allow_pickle=False) as packed:
                arrays = {name: packed[name] for name in packed.files}
            trees = {n.removesuffix(".ubj"): file.read(n) for n in file.namelist() if n.endswith(".ubj")}
    except TableError:
        raise
    except Exception as error:  # a damaged file fails in zipfile, zlib, json or NumPy, each in its own way
        raise TableError(
            f"{path}: not a whole model file of this version of procure ({type(error).__name__}); train it again"
        ) from None
    return Archive(head, arrays, trees)
