"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

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
