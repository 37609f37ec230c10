"""Who may write to a study's folder: one driver for the whole of it, or many that each do a shard."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil

from procure.errors import TableError
from procure.study import Study

LOCK = "lock"


@contextlib.contextmanager
def locked(study: Study, shard: tuple[int, int] | None = None) -> Iterator[None]:
    """Hold the study's folder, or one shard of it; another driver is refused and told who holds it.

    The lock goes with the process, however it ends. Linux gives NFS the same lock on all nodes.

    Parameters
    ----------
    shard
        Number and count, as in 7 of 32: keeps out the whole study's driver and this shard's.

    Raises
    ------
    TableError
        Somebody holds it, or the file system has no locks.
    """
    if shard is None:
        with _held(study.folder, LOCK):
            yield
    else:
        with _held(study.folder, LOCK, fcntl.LOCK_SH), _held(study.folder, f"{LOCK}.{shard[0]}-of-{shard[1]}"):
            yield


@contextlib.contextmanager
def locked_workers(folder: Path) -> Iterator[None]:
    """Hold the right to start and cancel the queued workers of a folder, see `locked`."""
    with _held(folder, f"{LOCK}.workers"):
        yield


@contextlib.contextmanager
def _held(folder: Path, name: str, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a lock file; who holds it writes its name into it."""
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o660)
    except OSError as error:
        reason = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise TableError(f"{path}: cannot be written: {reason}") from None
    with os.fdopen(handle, "r+", encoding="utf-8", errors="replace") as stream:
        if stream.read(8) not in ("", "process "):
            raise TableError(f"{path}: is no lock of procure; move it away or name another results folder")
        stream.seek(0)
        try:
            fcntl.flock(stream, how | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise TableError(
                    f"{folder}: this file system has no locks ({error.strerror}); "
                    "let `results` in the study file name a folder on one that has"
                ) from None
            raise TableError(f"{folder}: another sweep of this study is running: {_holder(path)}") from None
        stream.truncate()
        stream.write(f"process {os.getpid()} on {socket.gethostname()} since {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}\n")
        stream.flush()
        yield


def _holder(path: Path) -> str:
    """Say who wrote into a lock that they hold it, as far as that may still be so."""
    words = path.read_text(encoding="utf-8", errors="replace").split()
    ended = len(words) > 3 and words[3] == socket.gethostname() and not psutil.pid_exists(int(words[1]))
    return " ".join(words) if words and not ended else "a process that left no name; `lslocks` names it on its node"
