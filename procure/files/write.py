"""Files that are written whole or not at all; tables as CSV, in which nothing runs in a spreadsheet."""

from __future__ import annotations

import contextlib
import csv
import errno
import os
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from procure.errors import TableError

_ERRNO = re.compile(r"\[errno (\d+)\]")


@contextlib.contextmanager
def whole_file(path: str | Path, *, durable: bool = True) -> Iterator[Path]:
    """Give a temporary file to write to, which takes the place of ``path`` only when the block ends without error.

    A ``durable`` one is flushed to the disk before it is renamed, so that it outlives a power cut. A missing folder, a
    full disk, and that writing is not allowed are errors.
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
        number = error.errno or int((_ERRNO.findall(str(error)) or [errno.EIO])[0])  # Arrow writes it in its sentence
        rest = f"; free some in {path.absolute().parent}, or write elsewhere" if number == errno.ENOSPC else ""
        raise TableError(f"{path}: cannot be written: {os.strerror(number)}{rest}") from None
    finally:
        temporary.unlink(missing_ok=True)


# A spreadsheet runs a cell that begins with one of these as a formula, full-width signs in some locales, unless an
# apostrophe stands before it. One that separates by semicolons or tabs, or knows no quotes, sees further beginnings.
_STARTS = "=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20"
_FORMULA = re.compile(rf"(?<![^;\t\r\n])'*(?=[ \"]*[{_STARTS}])")
ESCAPED = re.compile(rb"'[ \"]*[=+\-@\t\r\n\xef]")


def as_csv(frame: pd.DataFrame, out: Path | None = None) -> str | None:
    """Write a frame as CSV, or return its text: nothing in it runs in a spreadsheet, and every cell stays one."""
    safe = without_formulas(frame)
    texts = [safe.iloc[:, n] for n in range(safe.shape[1]) if safe.dtypes.iloc[n].kind not in "biufcmM"]
    # Python before 3.13 writes a lone carriage return unquoted, and what follows it begins a row.
    returns = any("\r" in str(name) for name in safe.columns) or any(
        "\r" in value for column in texts for value in column if isinstance(value, str)
    )
    quoting = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    return safe.to_csv(out, index=False, quoting=quoting)


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame as CSV may hold it: text that a spreadsheet would run as a formula has an apostrophe before it.

    So has what follows a semicolon, a tab or a break within a text. `read` takes one apostrophe away again.
    """
    return _in_texts(frame, lambda text: _FORMULA.sub(r"'\g<0>", text))


def with_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without the apostrophes that `without_formulas` has put into it."""
    return _in_texts(frame, lambda text: _FORMULA.sub(lambda found: found[0][1:], text))


def _in_texts(frame: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    def one(value: Any) -> Any:
        return change(value) if isinstance(value, str) else value

    texts = [n for n in range(frame.shape[1]) if frame.dtypes.iloc[n].kind not in "biufcmM"]
    columns = {n: frame.iloc[:, n].map(one) if n in texts else frame.iloc[:, n] for n in range(frame.shape[1])}
    return pd.DataFrame(columns, index=frame.index).set_axis([one(name) for name in frame.columns], axis=1)
